//! `test schedule`, `test pass loops`, `test linearize [unoptimized]`, `test render llvm|ptx [unoptimized]`, each with `[unfused]`: what the
//! compiler makes of the values that a graph returns, kernel by kernel, for a fixed target.

use std::fmt::Write;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::{self, Graph};
use warpweft_compiler::linearize::{self, Linear};
use warpweft_compiler::lower::tensors::lower_to_loops;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{Schedule, ScheduleOptions, schedule_with};
use warpweft_compiler::symbolic::simplify;
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

use super::{failed, graph_of};
use crate::filetest::{Case, Output};

/// The kernels as tensor graphs, each with the buffers that its params are.
pub(super) fn schedule(words: &[String], case: &Case) -> Output {
    each_kernel(words, case, |schedule, number| {
        let kernel = &schedule.kernels[number];
        let mut text = format!("; buffers {:?}\n", kernel.buffers);
        text.push_str(&text::print(&Graph::new(&format!("kernel_{number}"), [kernel.ast.clone()])));
        Ok(text)
    })
}

/// The kernels after the pass `loops`.
pub(super) fn pass(words: &[String], case: &Case) -> Output {
    each_kernel(words, case, |schedule, number| {
        let kernel = simplify(&lower_to_loops(&schedule.kernels[number].ast));
        Ok(text::print(&Graph::new(&format!("kernel_{number}"), [kernel])))
    })
}

/// The kernels as linear lists.
pub(super) fn linearize(words: &[String], case: &Case) -> Output {
    each_kernel(words, case, |schedule, number| {
        lower(&schedule.kernels[number].ast, words).map(|linear| linearize::text::print(&linear))
    })
}

/// The kernels as LLVM IR or PTX.
pub(super) fn render(words: &[String], case: &Case) -> Output {
    let target = match words.first().map(String::as_str) {
        Some("ptx") => Target::gpu_model(),
        _ => named(words).unwrap_or_else(Target::test_avx512),
    };
    each_kernel(words, case, |schedule, number| {
        let linear = lower_for(&schedule.kernels[number].ast, words, &target)?;
        let rendered = warpweft_renderer::render(&linear, &target);
        rendered.map(|program| program.source).map_err(|error| error.to_string())
    })
}

/// The CPU that a case is for, if it says so.
fn named(words: &[String]) -> Option<Target> {
    words.iter().find_map(|word| Target::named(word))
}

fn lower(ast: &UOp, words: &[String]) -> Result<Linear, String> {
    lower_for(ast, words, &Target::test_avx512())
}

fn lower_for(ast: &UOp, words: &[String], target: &Target) -> Result<Linear, String> {
    let options = LowerOptions::by_hand_unless(words.iter().any(|word| word == "unoptimized"));
    lower_kernel(ast, target, &options, &mut Silent).map_err(|error| error.to_string())
}

/// What `show` makes of each kernel that the values become.
pub(super) fn each_kernel(
    words: &[String],
    case: &Case,
    show: impl Fn(&Schedule, usize) -> Result<String, String>,
) -> Output {
    let graph = match graph_of(case) {
        Ok(graph) => graph,
        Err(output) => return output,
    };
    let costs = named(words).map_or(ScheduleOptions::default().costs, |target| target.costs);
    let options = ScheduleOptions { fuse: !words.iter().any(|word| word == "unfused"), costs };
    let schedule = match schedule_with(&UOp::sink(graph.roots), options, &mut Silent) {
        Ok(schedule) => schedule,
        Err(error) => return failed(error),
    };
    let mut text = String::new();
    for number in 0..schedule.kernels.len() {
        match show(&schedule, number) {
            Ok(shown) => text.push_str(&shown),
            Err(error) => return failed(error),
        }
    }
    let _ = writeln!(text, "; kernels {}", schedule.kernels.len());
    Output { text, ..Output::default() }
}
