//! `test run ENGINE...`: what a graph computes, on every engine named.
//!
//! ```text
//! ; run: %f([1, 2, 3], 4) == [6, 8, 10]              exactly
//! ; run: %f([1, 2, 3], 4) ~= [6, 0.3333333, 1e6]     to the digits that are written; what has no point and no exponent exactly
//! ; run: %f(random 1, random 2)                      no values: engines agree with the interpreter
//! ```
//!
//! Arguments stand in the order of the header; the elements of a tensor are given in row-major order, brackets within are read
//! over; `random N` is made from the seed N. Several roots give one list each: `== [1] [2, 3]`. That is asked of the interpreter. Whatever is
//! written, every engine must agree with it, element by element, within what rounding explains of that graph (`error_bound`).

use warpweft_compiler::ir::Op;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;

use super::{failed, graph_of};
use crate::compare::{Written, compare_written};
use crate::engines::{self, EngineError};
use crate::error_bound::{self, Bounded};
use crate::filetest::{Case, Output};
use crate::generate::random_value;

/// Whether a word names an engine; else those that there are.
pub(super) fn is_engine(word: &str) -> Result<(), String> {
    if engines::NAMES.contains(&word) { Ok(()) } else { Err(format!("there are {}", engines::NAMES.join(", "))) }
}

/// The command.
pub(super) fn run(words: &[String], case: &Case) -> Output {
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let mut output = Output::default();
    let mut runs = 0;
    for expectation in case.expectations.iter().filter(|expectation| expectation.kind == "run") {
        runs += 1;
        if let Err(message) = run_line(&expectation.text, &graph, words, &mut output.skipped) {
            output.error = Some((Some(expectation.line), message));
            return output;
        }
    }
    if runs == 0 {
        return failed("there is no line `; run:`");
    }
    output
}

/// What a line asks for.
pub(super) struct Request {
    pub(super) inputs: Vec<Value>,
    /// The values that are written, and whether they are rounded.
    pub(super) expected: Option<(Vec<Vec<Written>>, bool)>,
}

fn run_line(line: &str, graph: &Graph, engines: &[String], skipped: &mut Vec<String>) -> Result<(), String> {
    let request = read_request(line, graph)?;
    let reference = reference(graph, &request)?;
    let names: Vec<&str> = engines.iter().map(String::as_str).collect();
    for engine in engines::all_named(&names)? {
        let results = match (engine.run)(graph, &request.inputs) {
            Ok(results) => results,
            Err(EngineError::Skipped(why)) => {
                skipped.push(format!("{} skipped: {why}", engine.name));
                continue;
            }
            Err(EngineError::Failed(why)) => return Err(format!("{}: {why}", engine.name)),
        };
        for (wanted, found) in engines::both("values of the interpreter and found", &reference, &results)? {
            error_bound::compare(wanted, found).map_err(|why| format!("{}: {why}", engine.name))?;
        }
    }
    Ok(())
}

pub(super) fn read_request(line: &str, graph: &Graph) -> Result<Request, String> {
    let call = line.strip_prefix(&format!("%{}(", graph.name));
    let call = call.ok_or_else(|| format!("expected `%{}(...)`, found `{line}`", graph.name))?;
    let (arguments, rest) = call.split_once(')').ok_or("the call has no `)`")?;
    let rest = rest.trim();
    let expected = match (rest.strip_prefix("=="), rest.strip_prefix("~=")) {
        (Some(values), _) => Some((lists(values)?, false)),
        (_, Some(values)) => Some((lists(values)?, true)),
        _ if rest.is_empty() => None,
        _ => return Err(format!("expected `==` or `~=`, found `{rest}`")),
    };
    Ok(Request { inputs: inputs(arguments, graph)?, expected })
}

fn inputs(arguments: &str, graph: &Graph) -> Result<Vec<Value>, String> {
    let mut texts = split_top(arguments).into_iter();
    let mut inputs = Vec::new();
    for parameter in &graph.parameters {
        let text = texts.next().ok_or_else(|| format!("there is no argument for {}", parameter.name))?;
        let node = &parameter.node;
        let wrong = || format!("`{text}` is no value for {}: {}{}", parameter.name, node.dtype(), node.shape());
        let value = if node.op() == Op::Variable {
            text.trim().parse().ok().map(Value::index)
        } else if let Some(seed) = text.trim().strip_prefix("random ") {
            Some(random_value(node, seed.trim().parse().map_err(|_| wrong())?))
        } else {
            let written = lists(&text)?.into_iter().next().unwrap_or_default();
            let numbers: Vec<f64> = written.iter().map(|written| written.value).collect();
            let shape = node.shape().as_const().unwrap_or_default();
            Value::from_f64(node.dtype(), shape, &numbers)
        };
        inputs.push(value.ok_or_else(wrong)?);
    }
    match texts.next().filter(|text| !text.trim().is_empty()) {
        Some(text) => Err(format!("there is no parameter for `{text}`")),
        None => Ok(inputs),
    }
}

/// What the interpreter says, held against what is written.
pub(super) fn reference(graph: &Graph, request: &Request) -> Result<Vec<Bounded>, String> {
    let reference = engines::reference(graph, &request.inputs)?;
    if let Some((expected, rounded)) = &request.expected {
        for (wanted, found) in engines::both("values expected and returned", expected, &reference)? {
            compare_written(wanted, &found.value, *rounded).map_err(|why| format!("interpreter: {why}"))?;
        }
    }
    Ok(reference)
}

/// Parts between commas that no bracket holds.
fn split_top(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    for next in text.chars() {
        match next {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(next);
        }
    }
    parts
}

/// The numbers of each outermost list.
fn lists(text: &str) -> Result<Vec<Vec<Written>>, String> {
    let mut lists: Vec<Vec<Written>> = Vec::new();
    let mut depth = 0usize;
    let mut word = String::new();
    for next in text.chars().chain([' ']) {
        if !matches!(next, '[' | ']' | ',') && !next.is_whitespace() {
            word.push(next);
            continue;
        }
        if !word.is_empty() {
            let value = Written::read(&word)?;
            lists.last_mut().ok_or_else(|| format!("`{word}` stands outside of a list"))?.push(value);
            word.clear();
        }
        match next {
            '[' => {
                if depth == 0 {
                    lists.push(Vec::new());
                }
                depth += 1;
            }
            ']' => depth = depth.checked_sub(1).ok_or("there is a `]` too many")?,
            _ => {}
        }
    }
    Ok(lists)
}
