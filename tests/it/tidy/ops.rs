//! No wildcard arm over ops: a new op must surface in every `match` that names ops one by one.
//!
//! What is looked for is a `match` on a bare op (`match op {`, `match node.op() {`) of the modules that give ops their meaning, with an
//! arm `_ =>`. Matches on several things at once, or with few ops picked out by a guard, are a matter of judgement, not of this test.

use super::{Source, assert_none, sources};

/// Where the meaning of ops is written: these must list them all.
const COMPLETE: &[&str] =
    &["compiler/src/ir/scalar_op.rs", "compiler/src/ir/text/mod.rs", "compiler/src/verify/arguments.rs"];

#[test]
fn matches_that_give_ops_a_meaning_name_them_all() {
    let mut failures = Vec::new();
    for path in COMPLETE {
        let (folder, file) = path.rsplit_once('/').expect("a path has a folder");
        let all = sources(&[folder]);
        let source = all.iter().find(|source| source.path.ends_with(file) && source.path == *path);
        let source = source.unwrap_or_else(|| panic!("{path} is gone; name the file that took its place"));
        if complete_matches(source) == 0 {
            failures.push(format!("{path}: no `match op` that names every op"));
        }
    }
    assert_none(failures);
}

/// Matches on a bare op that have no wildcard arm and name one of the last ops of the table.
fn complete_matches(source: &Source) -> usize {
    let starts = (0..source.end_of_code()).filter(|at| source.code(*at).trim_end().ends_with("match op {"));
    let is_complete = |start: &usize| {
        let indent = source.lines[*start].len() - source.lines[*start].trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let body: Vec<&str> = (start + 1..source.lines.len())
            .map(|at| source.code(at))
            .take_while(|line| line.trim_end() != end)
            .collect();
        body.iter().any(|line| line.contains("Op::EndRange"))
            && !body.iter().any(|line| line.trim().starts_with("_ =>"))
    };
    starts.filter(is_complete).count()
}
