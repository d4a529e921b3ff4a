//! What a compilation can fail with, told apart by whose fault it is.
//!
//! A program that is wrong, a limit of this compiler or target, and an op that a target lacks are values of [`CompileError`]. Our
//! own bugs are no variant: they panic with the graph as text. Errors are plain data, because a lazy graph carries them until a
//! value is asked for.

use crate::DType;
use crate::ir::{IrError, Op};
use crate::target::Feature;

/// Why a program did not become kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program is wrong: what, where, and what would be right.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// A limit of this compiler or target.
    #[error("{what}: {needed} needed, the limit is {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much the program needs.
        needed: u64,
        /// How much there may be.
        limit: u64,
    },
    /// The target cannot do it, and no rule replaces it.
    #[error("{op} on {dtype} cannot run on {target}, and no rule replaces it")]
    Unsupported {
        /// The op that the target lacks.
        op: Op,
        /// The type that it was to work on.
        dtype: DType,
        /// Name of the target's device.
        target: String,
    },
    /// The kernel uses what only some machines have, and the target is none of them.
    #[error("{target} has no {feature}, which the kernel needs for `{op}`")]
    Lacks {
        /// Name of the target's device.
        target: String,
        /// What it lacks.
        feature: Feature,
        /// The op that needs it.
        op: Op,
    },
    /// An opt that a caller chose does not fit the kernel.
    #[error("{opt} refused: {reason}")]
    Opt {
        /// The opt, as text.
        opt: String,
        /// Why it does not fit.
        reason: String,
    },
}

/// A mistake in a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}{}", .location.as_ref().map(|location| format!(" (at {location})")).unwrap_or_default())]
pub struct ProgramError {
    /// The op that is wrong.
    pub op: Op,
    /// What is wrong, and what would be right.
    pub message: String,
    /// File and line of the user's call, if they are known.
    pub location: Option<String>,
}

impl ProgramError {
    /// A mistake at a location that is not known.
    pub fn new(op: Op, message: impl Into<String>) -> ProgramError {
        ProgramError { op, message: message.into(), location: None }
    }
}

impl From<IrError> for CompileError {
    fn from(error: IrError) -> CompileError {
        CompileError::Program(ProgramError { op: error.op, message: error.message, location: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_where_and_how_much() {
        let mut error = ProgramError::new(Op::Add, "operands have shapes [2] and [3]");
        assert_eq!(CompileError::from(error.clone()).to_string(), "add: operands have shapes [2] and [3]");
        error.location = Some("src/main.rs:7".to_string());
        assert_eq!(error.to_string(), "add: operands have shapes [2] and [3] (at src/main.rs:7)");
        let limit = CompileError::Limit { what: "elements of a tensor", needed: 12, limit: 10 };
        assert_eq!(limit.to_string(), "elements of a tensor: 12 needed, the limit is 10");
    }
}
