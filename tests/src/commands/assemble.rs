//! `test assemble [unoptimized] [unfused]`: ptxas accepts every kernel of the values that a graph returns, for each architecture that the compiler knows, with the opts
//! chosen for it by hand, or none. Where there is no ptxas that is counted as skipped.
//!
//! `lower gpu` has its kernels assembled too.

use warpweft_compiler::linearize::Linear;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

use super::compile::each_kernel;
use crate::assembler::{NO_PTXAS, PTXAS};
use crate::filetest::{Case, Output};

/// The command.
pub(super) fn assemble(words: &[String], case: &Case) -> Output {
    let options = LowerOptions::by_hand_unless(words.iter().any(|word| word == "unoptimized"));
    let mut output = each_kernel(words, case, |schedule, number| {
        for target in architectures() {
            let linear = lower_kernel(&schedule.kernels[number].ast, &target, &options, &mut Silent);
            check(&linear.map_err(|error| error.to_string())?, &target)?;
        }
        Ok(String::new())
    });
    if PTXAS.is_none() {
        output.skipped.push(NO_PTXAS.to_string());
    }
    output
}

/// Every architecture that kernels are made for.
fn architectures() -> impl Iterator<Item = Target> {
    Target::NVIDIA.into_iter().filter_map(Target::nvidia)
}

/// Renders a list for every architecture and has it assembled; says if it was not.
pub(super) fn check_list(linear: &Linear, output: &mut Output) -> Result<(), String> {
    for target in architectures() {
        check(linear, &target)?;
    }
    if PTXAS.is_none() {
        output.skipped.push(NO_PTXAS.to_string());
    }
    Ok(())
}

fn check(linear: &Linear, target: &Target) -> Result<(), String> {
    let program = warpweft_renderer::render(linear, target).map_err(|error| error.to_string())?;
    if let Some(ptxas) = &*PTXAS {
        let assembled = ptxas.assemble(&program.source, &target.processor);
        assembled.map_err(|why| format!("{why}for {}:\n{}", target.processor, program.source))?;
    }
    Ok(())
}
