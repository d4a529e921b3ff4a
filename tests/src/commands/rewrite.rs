//! `test rewrite SET...`: the graph after rewriting, and the rules that hit. Sets by name, or `symbolic` for all of them.

use warpweft_compiler::ir::text::{self, Graph};
use warpweft_compiler::rewrite::{Rewriter, RuleSet};
use warpweft_compiler::symbolic;

use super::{failed, graph_of};
use crate::filetest::{Case, Output};

/// The command.
pub(super) fn rewrite(words: &[String], case: &Case) -> Output {
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let all = symbolic::all_rules();
    let mut sets: Vec<&RuleSet> = Vec::new();
    for word in words {
        let before = sets.len();
        sets.extend(all.iter().filter(|set| word == "symbolic" || set.name().eq_ignore_ascii_case(word)));
        if sets.len() == before {
            let names: Vec<&str> = all.iter().map(|set| set.name()).collect();
            return failed(format!("there is no rule set `{word}`; there are symbolic (all), {}", names.join(", ")));
        }
    }
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
