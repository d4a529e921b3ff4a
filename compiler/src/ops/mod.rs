//! Everything a tensor can do, composed of the ops of the graph: functions from nodes to nodes.
//!
//! A function that cannot fail for any operand gives a node; one that can gives [`Built`], whose error says what was wrong and
//! what would be right, without naming the op or the operands' shapes: the front end, which knows how it was called, adds these.
//! Operands of different shapes are broadcast and of different types promoted here (`shapes`); inside, nodes of equal shape
//! (or rank 0) and type are combined by the plain constructors of `ir`, which panic only on a mistake of this module.
//!
//! Functions that PyTorch has go by PyTorch's names and meaning, ties, empty axes, NaN and gradients included. Where a function's
//! derivative has a closed form that differentiating its composition would not find, its value is wrapped in
//! [`Op::Function`](crate::Op::Function).
//!
//! Not here: memory, devices, execution, gradients. Tested by the conformance cases, and by unit tests against exact values.

pub mod batch;
pub mod create;
pub mod einsum;
mod functions;
mod indices;
mod layers;
mod layout;
pub mod matmul;
mod numbers;
pub mod random;
mod reductions;
mod shapes;

pub use functions::{activation, bits, elementwise, math, power};
pub(crate) use indices::side_by_side;
pub use indices::{indexing, scatter, sort};
pub use layers::{attention, convolution, loss, norm, pooling, resize, transposed_convolution};
pub use layout::{diagonals, join, movement, padding, slicing, windows};
pub use reductions::{extreme, reduce, scan, statistics};

pub(crate) use reductions::by_blocks;

use std::fmt;

use crate::ir::IrError;
use crate::{DType, UOp};

pub use numbers::{AxisList, Length};
pub use shapes::{
    broadcast, broadcast_shapes, broadcast_to, check_element, check_fits, check_size, resolve_axes, resolve_axis,
};

/// Why an op could not be built: what was wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    /// The message, without the op's name and the operands' shapes.
    pub message: String,
}

impl OpError {
    /// An error with that message.
    pub fn new(message: impl Into<String>) -> OpError {
        OpError { message: message.into() }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpError {}

impl From<IrError> for OpError {
    fn from(error: IrError) -> OpError {
        OpError::new(error.to_string())
    }
}

/// What building an op gives.
pub type Built<T = UOp> = Result<T, OpError>;

/// Leaves the function with an [`OpError`] of the formatted message.
macro_rules! fail {
    ($($text:tt)*) => { return Err($crate::ops::OpError::new(format!($($text)*))) };
}
use fail;

/// The number as a constant of the node's type.
fn number(value: f64, like: &UOp) -> UOp {
    UOp::float(value, like.dtype())
}

/// The same in a floating-point type: integers and bools in the default one.
fn to_float(x: &UOp) -> UOp {
    if x.dtype().is_float() { x.clone() } else { x.cast(crate::dtype::lattice::DEFAULT_FLOAT) }
}

/// `compute` in a type of at least 32 bits: half floats go through `f32`, since each step would lose bits otherwise.
fn in_single(x: &UOp, compute: impl FnOnce(&UOp) -> UOp) -> UOp {
    match x.dtype() {
        DType::F16 | DType::BF16 => compute(&x.cast(DType::F32)).cast(x.dtype()),
        _ => compute(x),
    }
}
