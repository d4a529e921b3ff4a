//! What went wrong, where: errors that a lazy tensor carries until a value is asked for.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::UOp;
use warpweft_devices::FileError;

use super::var::VarError;
use crate::execute::ExecuteError;

/// A call on tensors that cannot be done.
#[derive(Clone, PartialEq, Eq)]
pub struct CallError {
    /// The function that was called.
    pub op: &'static str,
    /// Types and shapes of the tensors that it was called with: `f32[2, 3]`.
    pub operands: Vec<String>,
    /// What was wrong and what would be right.
    pub message: String,
    /// Where in the program it was called.
    pub location: &'static Location<'static>,
}

impl CallError {
    pub(crate) fn new(
        op: &'static str,
        operands: &[&UOp],
        message: impl Into<String>,
        location: &'static Location<'static>,
    ) -> CallError {
        CallError {
            op,
            operands: operands.iter().map(|node| description(node)).collect(),
            message: message.into(),
            location: outermost(location),
        }
    }
}

thread_local! {
    static CALL: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// A call of this thread that is made of other calls.
pub(crate) struct Within {
    before: Option<&'static Location<'static>>,
}

/// While the value lives, what goes wrong goes wrong at this call, and not at those of which it is made: closures do not know their caller.
/// A call that is part of another changes nothing.
pub(crate) fn within(call: &'static Location<'static>) -> Within {
    let before = CALL.get();
    CALL.set(before.or(Some(call)));
    Within { before }
}

impl Drop for Within {
    fn drop(&mut self) {
        CALL.set(self.before);
    }
}

/// The call that a caller of the library made: this one, or that of which it is part.
pub(crate) fn outermost(call: &'static Location<'static>) -> &'static Location<'static> {
    CALL.get().unwrap_or(call)
}

/// Type and shape, as messages name a tensor.
pub(crate) fn description(node: &UOp) -> String {
    format!("{}{}", node.dtype(), node.shape())
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if !self.operands.is_empty() {
            write!(f, " of {}", self.operands.join(" and "))?;
        }
        write!(f, ": {} (at {}:{})", self.message, self.location.file(), self.location.line())
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a tensor has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call with operands that it cannot take; the first of a chain is the one that counts.
    #[error("{0}")]
    Call(Arc<CallError>),
    /// The program was right, and did not run.
    #[error("{error}{}", location_text(error, *location))]
    Execute {
        /// Why.
        error: ExecuteError,
        /// Where in the program a value was asked for.
        location: Option<&'static Location<'static>>,
    },
    /// A file that cannot be read or written, or that does not hold what it should.
    #[error(transparent)]
    File(#[from] FileError),
    /// A variable of a symbolic shape that cannot be, or cannot have that value.
    #[error(transparent)]
    Variable(#[from] VarError),
}

impl From<ExecuteError> for Error {
    fn from(error: ExecuteError) -> Error {
        Error::Execute { error, location: None }
    }
}

impl Error {
    /// The same, met by this call, unless it is known where it was met.
    pub(crate) fn at(self, call: &'static Location<'static>) -> Error {
        match self {
            Error::Execute { error, location: None } => Error::Execute { error, location: Some(outermost(call)) },
            known => known,
        }
    }
}

/// Makes errors of a call say where it is.
pub(crate) fn at(call: &'static Location<'static>) -> impl Fn(Error) -> Error {
    move |error| error.at(call)
}

/// What the text of an error ends with. An index that names nothing has a location of its own: where it was given.
fn location_text(error: &ExecuteError, location: Option<&'static Location<'static>>) -> String {
    match (error, location) {
        (ExecuteError::Index(_), _) | (_, None) => String::new(),
        (_, Some(location)) => format!(" (at {}:{})", location.file(), location.line()),
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Error {
        Error::Call(Arc::new(error))
    }
}

/// What asking a tensor for something gives.
pub type Result<T> = std::result::Result<T, Error>;
