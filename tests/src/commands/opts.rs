//! `test opts`: each `opts:` line is a list of opts, which is applied to the one kernel that the graph becomes.
//!
//! The output is the loops that it leaves, list by list, or the refusal. What is applied must keep the kernel's values, for several values of a
//! variable: that is held as `opt_lists` says.
//!
//! `test opts every`: each graph is a kernel, a sink of stores, and every legal opt, and many lists of two, must keep its values. So an
//! opt that is refused for the sake of the values, and then is not, is found.

use std::fmt::Write;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Op, postorder};
use warpweft_compiler::optimize::text::parse_list;
use warpweft_compiler::optimize::{apply, apply_list, legal_opts, outline};
use warpweft_compiler::pipeline::loops_of;
use warpweft_compiler::schedule::{ScheduleOptions, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

use super::{failed, graph_of};
use crate::filetest::{Case, Output};
use crate::opt_lists::check_list;

/// The loops after each list.
pub(super) fn opts(words: &[String], case: &Case) -> Output {
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    if words.iter().any(|word| word == "every") {
        return match try_every(&graph.roots[0]) {
            Ok(lists) => Output { text: format!("; {lists} lists of opts keep the values\n"), ..Output::default() },
            Err(why) => failed(why),
        };
    }
    let options = ScheduleOptions { fuse: true, ..ScheduleOptions::default() };
    let schedule = match schedule_with(&UOp::sink(graph.roots), options, &mut Silent) {
        Ok(schedule) => schedule,
        Err(error) => return failed(error),
    };
    let [kernel] = schedule.kernels.as_slice() else {
        return failed(format!("the graph becomes {} kernels, not one", schedule.kernels.len()));
    };
    let mut text = String::new();
    for expectation in case.expectations.iter().filter(|expectation| expectation.kind == "opts") {
        match applied(&kernel.ast, &expectation.text) {
            Ok(loops) => {
                let _ = writeln!(text, "; {}\n{loops}", expectation.text);
            }
            Err(why) => return Output { error: Some((Some(expectation.line), why)), ..Output::default() },
        }
    }
    Output { text, ..Output::default() }
}

/// The loops that a list leaves; a refusal of an opt, as text.
fn applied(ast: &UOp, list: &str) -> Result<String, String> {
    let target = Target::test_avx512();
    let opts = parse_list(list).map_err(|error| error.to_string())?;
    let loops = loops_of(ast, &mut Silent);
    let shown = match apply_list(&loops, &opts, &target) {
        Ok(choice) => outline(&choice.kernel),
        Err(refused) => return Ok(refused.to_string()),
    };
    for n in values_of_variable(&loops) {
        check_list(ast, n, list, &target).map_err(|why| match n {
            Some(n) => format!("{list}, n = {n}: {why}"),
            None => format!("{list}: {why}"),
        })?;
    }
    Ok(shown)
}

/// Lists of two opts that are tried behind each first one, evenly taken from those that are legal.
const SECONDS: usize = 4;

/// Tries every legal opt on a kernel, and lists of two; how many lists there were.
fn try_every(ast: &UOp) -> Result<usize, String> {
    let target = Target::test_avx512();
    let loops = loops_of(ast, &mut Silent);
    let (mut count, numbers) = (0, values_of_variable(&loops));
    for (number, first) in legal_opts(&loops, &target).iter().enumerate() {
        let after = apply(&loops, first, &target).map_err(|refused| refused.to_string())?;
        let seconds = legal_opts(&after, &target);
        let step = seconds.len().div_ceil(SECONDS).max(1);
        let behind = seconds.iter().skip(number % step).step_by(step).map(|second| format!("{first}, {second}"));
        for list in std::iter::once(first.to_string()).chain(behind) {
            // One value of a variable a list: all of them come, list after list.
            let n = numbers[count % numbers.len()];
            check_list(ast, n, &list, &target).map_err(|why| format!("{list}, n = {n:?}: {why}"))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Values of the variable that loops name, its bounds among them; none once, if they name none.
fn values_of_variable(loops: &UOp) -> Vec<Option<i64>> {
    let nodes = postorder(std::slice::from_ref(loops));
    match nodes.iter().find(|node| node.op() == Op::Variable) {
        Some(variable) => {
            let (low, high) = (variable.min_value(), variable.max_value());
            let mut values = vec![low, low + (high - low) / 3, low + (high - low) / 2 + 1, high];
            values.dedup();
            values.into_iter().map(Some).collect()
        }
        None => vec![None],
    }
}
