//! Sizes and words: files of at most 800 lines that begin with a header, functions of at most 70 lines, no words that say nothing.

use super::{Source, assert_none, sources};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
/// Names of files that say nothing of what is in them.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "types", "stuff", "shared"];

#[test]
fn files_begin_with_a_header_and_end_in_time() {
    let mut failures = Vec::new();
    for source in sources(&[]) {
        // A file may say first what shell it wants (`#![no_main]` of fuzz targets).
        let first = source.lines.iter().find(|line| !line.starts_with("#![")).map_or("", String::as_str);
        if !first.starts_with("//! ") {
            failures.push(format!("{}: does not begin with a `//!` header", source.path));
        }
        if source.lines.len() > FILE_LINES_MAX {
            failures.push(format!("{}: {} lines, at most {FILE_LINES_MAX}", source.path, source.lines.len()));
        }
        let name = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        if EMPTY_NAMES.contains(&name) {
            failures.push(format!("{}: `{name}` says nothing of what is in it", source.path));
        }
    }
    assert_none(failures);
}

#[test]
fn functions_are_short() {
    let mut failures = Vec::new();
    for source in sources(&[]) {
        for (start, len) in functions(&source) {
            let is_table = start > 0
                && (0..start)
                    .rev()
                    .take_while(|at| is_above_function(&source.lines[*at]))
                    .any(|at| source.lines[at].contains("tidy: table"));
            if len > FUNCTION_LINES_MAX && !is_table {
                failures.push(format!("{}:{}: {len} lines, at most {FUNCTION_LINES_MAX}", source.path, start + 1));
            }
        }
    }
    assert_none(failures);
}

/// Comments and attributes stand above a function.
fn is_above_function(line: &str) -> bool {
    line.trim().starts_with("//") || line.trim().starts_with("#[")
}

/// First line and length of each function, by the indentation that rustfmt gives its braces.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let words = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "unsafe fn ", "pub unsafe fn ", "const fn "];
        if !words.iter().any(|word| code.starts_with(word)) {
            continue;
        }
        let closes = |line: &&String| line.trim_end() == format!("{}}}", " ".repeat(indent));
        let is_short = line.trim_end().ends_with([';', '}']);
        if !is_short && let Some(len) = source.lines[number..].iter().position(|line| closes(&line)) {
            found.push((number, len + 1));
        }
    }
    found
}

#[test]
fn no_words_of_unfinished_work() {
    // Written in parts, so that this file does not hold them.
    let words = [concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("XX", "X")];
    let mut failures = Vec::new();
    for source in sources(&[]) {
        for (number, line) in source.lines.iter().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                failures.push(format!("{}:{}: `{word}`", source.path, number + 1));
            }
        }
    }
    assert_none(failures);
}
