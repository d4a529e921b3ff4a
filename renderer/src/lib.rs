//! Turns linear kernels into text for a target's own compiler.
//!
//! No decision is made here: what a kernel does, in which order and how wide, stands in the [`Linear`] list; what differs
//! between machines is a number of the [`Target`] or a rule set that has run before. The same list gives the same text, byte for
//! byte, so that text can be the key of a cache.

mod llvm;
mod ptx;
mod symbol;
#[cfg(test)]
mod test_lists;
mod text;

pub use text::render_ast;

use warpweft_compiler::error::CompileError;
use warpweft_compiler::linearize::{Linear, check_features, take_out_lengths};
use warpweft_compiler::program::{Launch, Program};
use warpweft_compiler::target::{Language, Target};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// As [`render`], with lengths as numbers of the program, where the kernel is short: so programs of one `entry` and `source` are many kernels'.
///
/// # Errors
/// As [`render`].
pub fn render_without_lengths(linear: &Linear, target: &Target) -> Result<Program, CompileError> {
    match take_out_lengths(linear).filter(|_| target.language == Language::Llvm) {
        Some((shared, numbers)) => {
            let (name, variables) = (linear.name.to_string(), linear.variables.clone());
            Ok(Program { name, variables, numbers, ..render(&shared, target)? })
        }
        None => render(linear, target),
    }
}

/// The program of a linear kernel, in the language of the target.
///
/// # Errors
/// If the list needs threads that the target does not have: [`CompileError::Lacks`].
///
/// # Panics
/// If the target's language is not rendered from linear kernels, or the list breaks the contract of
/// [`warpweft_compiler::linearize`]: a bug of the caller.
pub fn render(linear: &Linear, target: &Target) -> Result<Program, CompileError> {
    check_features(&linear.ops, target)?;
    let program = |entry: String, source: String| Program {
        name: linear.name.to_string(),
        entry,
        source,
        parameters: linear.parameters.clone(),
        variables: linear.variables.clone(),
        numbers: Vec::new(),
        grid: linear.grid,
        scratch_bytes: linear.scratch().bytes,
        launch: Launch::ONE,
        shared_bytes: 0,
        estimate: linear.estimate,
    };
    Ok(match target.language {
        Language::Llvm => {
            let rendered = llvm::render(linear, target);
            program(rendered.entry, rendered.source)
        }
        Language::Ptx => {
            let ptx::Rendered { entry, source, launch, dynamic_shared_bytes } = ptx::render(linear, target);
            Program { launch, shared_bytes: dynamic_shared_bytes, ..program(entry, source) }
        }
        Language::Text => panic!("bug: a kernel for the interpreter is not rendered from its linear form"),
    })
}
