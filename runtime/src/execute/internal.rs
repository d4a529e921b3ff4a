//! Bugs in the compiler: an error of the call that met one, and never the end of a host's thread.
//!
//! Whatever compiles runs inside of [`guarded`]: schedules in `Executor::plan`, kernels in `Executor::make`, which threads of their own run.
//! Nothing that the compiler shares is left half made by a panic: nodes are complete when they are interned, plans and kernels when they are kept.
//!
//! Always: the error holds the program as text, which is all that somebody needs to meet the bug again (`warpweft inspect`).

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::Graph;

use super::ExecuteError;

/// A bug in the compiler: what it was, and the program that shows it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InternalError {
    /// What the compiler said.
    pub message: String,
    /// The program that it was at, as text that `warpweft inspect` reads.
    pub program: String,
    what: &'static str,
}

impl fmt::Display for InternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a bug in the compiler, at {}: {}", self.what, self.message)?;
        writeln!(
            f,
            "Please report it with this text, which is all that is needed; version {}:",
            env!("CARGO_PKG_VERSION")
        )?;
        f.write_str(&self.program)
    }
}

impl fmt::Debug for InternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Runs what compiles a program; a panic in it is an error with the program's text.
pub(super) fn guarded<T>(
    what: &'static str,
    program: &UOp,
    compile: impl FnOnce() -> Result<T, ExecuteError>,
) -> Result<T, ExecuteError> {
    let outcome = catch_unwind(AssertUnwindSafe(compile));
    outcome.unwrap_or_else(|panic| {
        let text = || Graph::new("program", [program.clone()]).to_string();
        // A graph that is not as it should be may not have a text either.
        let text = catch_unwind(AssertUnwindSafe(text)).unwrap_or("(it has no text)".to_string());
        Err(ExecuteError::Internal(Arc::new(InternalError { message: message_of(&*panic), program: text, what })))
    })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or("it said nothing".to_string())
}

#[cfg(test)]
mod tests {
    use warpweft_compiler::ir::AxisKind;
    use warpweft_compiler::{DType, UOp};

    use super::*;
    use crate::config::Config;
    use crate::execute::{Executor, computed};
    use warpweft_compiler::schedule::normalize;

    /// A loop among tensors, where only the compiler's own later stages have any: no graph that the library builds has one, and one made by hand is refused.
    fn broken(x: &UOp) -> UOp {
        x * &UOp::range(4, 0, AxisKind::Loop).cast(DType::F32).reshape([1]).expand([4])
    }

    #[test]
    fn a_bug_is_an_error_with_the_program_and_everything_goes_on() {
        let executor = Executor::open("CPU", &Config { threads: Some(2), ..Config::default() }).unwrap();
        let x = executor.from_bytes(DType::F32, 4, &[0; 16]).unwrap();
        let refused = executor.realize(&[broken(&x)]).unwrap_err().to_string();
        assert_eq!(refused, "range: range does not belong to graphs of tensors");
        let program = normalize(&[broken(&x)], computed).unwrap();
        for _ in 0..2 {
            let ExecuteError::Internal(bug) = executor.plan_of_checked(&program.sink).unwrap_err() else {
                panic!("another error")
            };
            assert!(bug.program.starts_with("graph %program(p0: ") && bug.program.contains("range 4"), "{bug}");
            assert!(bug.to_string().contains("Please report it"), "{bug}");
        }
        assert!(executor.realize(&[&x + 1]).is_ok());
    }

    #[test]
    fn what_was_said_is_kept() {
        let said = |bug: fn()| {
            let x = UOp::float(1.0, DType::F32);
            let error = guarded("a test", &x, || {
                bug();
                Ok(())
            });
            error.unwrap_err().to_string().lines().next().map(str::to_string)
        };
        assert_eq!(said(|| panic!("plain")).as_deref(), Some("a bug in the compiler, at a test: plain"));
        assert_eq!(said(|| panic!("{} {}", 1, 2)).as_deref(), Some("a bug in the compiler, at a test: 1 2"));
    }
}
