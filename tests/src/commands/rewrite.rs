//! `test rewrite SET...`: the graph after rewriting, and the rules that hit. Sets by name, or `symbolic` for all of them.

use warpweft_compiler::ir::text::{self, Graph};
use warpweft_compiler::rewrite::{Rewriter, RuleSet};
use warpweft_compiler::symbolic;

use super::{failed, graph_of};
use crate::filetest::{Case, Output};

fn sets_named(word: &str) -> Vec<&'static RuleSet> {
    let is_it = |set: &&RuleSet| word == "symbolic" || set.name().eq_ignore_ascii_case(word);
    symbolic::all_rules().iter().copied().filter(is_it).collect()
}

/// Whether a word names rule sets; else those that there are.
pub(super) fn is_set(word: &str) -> Result<(), String> {
    if !sets_named(word).is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = symbolic::all_rules().iter().map(|set| set.name()).collect();
    Err(format!("there are symbolic (all), {}", names.join(", ")))
}

/// The command.
pub(super) fn rewrite(words: &[String], case: &Case) -> Output {
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let sets: Vec<&RuleSet> = words.iter().flat_map(|word| sets_named(word)).collect();
    let mut hits: Vec<&'static str> = Vec::new();
    let mut rewriter = Rewriter::new(&sets);
    let roots: Result<Vec<_>, _> = graph.roots.iter().map(|root| rewriter.run(root, &mut hits)).collect();
    match roots {
        Ok(roots) => Output {
            text: text::print(&Graph { roots, ..graph }),
            hits: Some(hits.into_iter().map(str::to_string).collect()),
            ..Output::default()
        },
        Err(limit) => failed(limit),
    }
}
