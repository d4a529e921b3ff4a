//! `test lower cpu|gpu|sapphirerapids`: the one kernel of a graph with a list of opts, for a CPU, for a GPU by its numbers or for a CPU with tiles, as a linear list; and what that computes. What is for a GPU
//! is assembled too (`assemble`).
//!
//! ```text
//! ; opts: split(r0, 8), block(r1, x)              the list, which every case has
//! ; check: barrier                                in the text of the linear list
//! ; run: %f([1, 2]) == [2, 4]                     as of `run`: of the interpreter, and of the interpreter of linear lists
//! ; error: refused                                why the list does not fit
//! ```

use std::str::FromStr;

use warpweft_compiler::UOp;
use warpweft_compiler::linearize;
use warpweft_compiler::optimize::Opts;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, schedule_with};
use warpweft_compiler::target::{Costs, Target};
use warpweft_compiler::watch::Silent;

use super::{assemble, failed, graph_of, run};
use crate::engines::{self, EngineError};
use crate::error_bound;
use crate::filetest::{Case, Output};
use crate::lists;

/// The machines that a list of opts can be for.
pub(super) const MACHINES: &[&str] = &["cpu", "gpu", "sapphirerapids"];

/// The command.
pub(super) fn lower(words: &[String], case: &Case) -> Output {
    let (target, costs) = match words.first().map(String::as_str) {
        Some("gpu") => (Target::gpu_model(), Costs::cpu()),
        // Its narrow factors stay narrow.
        Some("sapphirerapids") => (Target::test_amx(), Target::test_amx().costs),
        _ => (Target::test_avx512(), Costs::cpu()),
    };
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let mut given = case.expectations.iter().filter(|expectation| expectation.kind == "opts");
    let (Some(list), None) = (given.next(), given.next()) else { return failed("there is one line `; opts:`") };
    let options = match Opts::from_str(&list.text) {
        Ok(opts) => LowerOptions { opts },
        Err(error) => return failed(error),
    };
    let schedule =
        match schedule_with(&UOp::sink(graph.roots.clone()), ScheduleOptions { fuse: true, costs }, &mut Silent) {
            Ok(schedule) => schedule,
            Err(error) => return failed(error),
        };
    let [kernel] = &schedule.kernels[..] else {
        return failed(format!("opts are of one kernel, not of {}", schedule.kernels.len()));
    };
    let linear = match lower_kernel(&kernel.ast, &target, &options, &mut Silent) {
        Ok(linear) => linear,
        Err(error) => return failed(error),
    };
    let mut output = Output { text: linearize::text::print(&linear), ..Output::default() };
    if target.blocks.is_some()
        && let Err(why) = assemble::check_list(&linear, &mut output)
    {
        return failed(why);
    }
    for expectation in case.expectations.iter().filter(|expectation| expectation.kind == "run") {
        let check = || -> Result<(), String> {
            let request = run::read_request(&expectation.text, &graph)?;
            let reference = run::reference(&graph, &request)?;
            let found =
                lists::run_graph(&graph, &request.inputs, &target, &options, ScheduleOptions { fuse: true, costs });
            let found = found.map_err(|(EngineError::Failed(why) | EngineError::Skipped(why))| why)?;
            for (wanted, found) in engines::both("values of the interpreter and found", &reference, &found)? {
                error_bound::compare(wanted, found)?;
            }
            Ok(())
        };
        if let Err(message) = check() {
            output.error = Some((Some(expectation.line), message));
            return output;
        }
    }
    output
}
