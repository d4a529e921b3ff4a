//! `test parse`: the text is read and printed again; printing what was printed must not change it.

use warpweft_compiler::ir::text;
use warpweft_compiler::linearize;

use super::{failed, graph_of, parse_error};
use crate::filetest::{Case, Output};

/// The command.
pub(super) fn parse(_: &[String], case: &Case) -> Output {
    if case.text.trim_start().starts_with("linear ") {
        return match linearize::text::parse_with_lines(&case.text, case.first_line) {
            Ok((linear, _)) => Output { text: linearize::text::print(&linear), ..Output::default() },
            Err(error) => parse_error(error),
        };
    }
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let printed = text::print(&graph);
    match text::parse(&printed) {
        Ok(again) if again.roots == graph.roots && text::print(&again) == printed => {
            Output { text: printed, ..Output::default() }
        }
        Ok(again) => failed(format!("the text changes when it is printed again:\n{printed}\n{}", text::print(&again))),
        Err(error) => failed(format!("what was printed cannot be read: {error}\n{printed}")),
    }
}
