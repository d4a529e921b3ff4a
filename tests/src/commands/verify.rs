//! `test verify tensor|kernel|linear`: the rules of a stage. An error is pinned to the line of the node that breaks one.

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::parse_with_lines;
use warpweft_compiler::linearize;
use warpweft_compiler::verify::{self, VerifyError};

use super::{failed, parse_error};
use crate::filetest::{Case, Output};

/// The command.
pub(super) fn verify(words: &[String], case: &Case) -> Output {
    match words.first().map(String::as_str) {
        Some("tensor") => graph(case, verify::tensor::check),
        Some("kernel") => graph(case, |roots| roots.iter().try_for_each(verify::kernel::check)),
        Some("linear") => linear(case),
        other => failed(format!("`verify` takes tensor, kernel or linear, not {other:?}")),
    }
}

fn graph(case: &Case, check: impl Fn(&[UOp]) -> Result<(), VerifyError>) -> Output {
    match parse_with_lines(&case.text, case.first_line) {
        Ok((graph, lines)) => output(check(&graph.roots), |node| lines.get(node).copied()),
        Err(error) => parse_error(error),
    }
}

fn linear(case: &Case) -> Output {
    let (linear, lines) = match linearize::text::parse_with_lines(&case.text, case.first_line) {
        Ok(parsed) => parsed,
        Err(error) => return parse_error(error),
    };
    if let Err(error) = verify::linear::check(&linear.ops) {
        let line_of: FxHashMap<&UOp, usize> = linear.ops.iter().zip(lines).collect();
        return output(Err(error), |node| line_of.get(node).copied());
    }
    match linearize::check::check(&linear.ops) {
        Ok(()) => output(Ok(()), |_| None),
        Err(message) => failed(message),
    }
}

fn output(result: Result<(), VerifyError>, line_of: impl Fn(&UOp) -> Option<usize>) -> Output {
    match result {
        Ok(()) => Output { text: "ok\n".to_string(), ..Output::default() },
        Err(error) => Output { error: Some((line_of(&error.node), error.to_string())), ..Output::default() },
    }
}
