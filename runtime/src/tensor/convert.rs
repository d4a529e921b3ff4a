//! What may stand where a tensor, a number or a list of axes is wanted.

use std::panic::Location;

use half::{bf16, f16};
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::dtype::arithmetic::Element;
use warpweft_compiler::dtype::lattice::{DEFAULT_FLOAT, DEFAULT_INT};
use warpweft_compiler::ops::check_fits;
pub use warpweft_compiler::ops::{AxisList, Length};
use warpweft_compiler::{DType, UOp};

use super::Tensor;
use super::errors::CallError;

/// An axis, or all of them: `-1`, `()`, `Some(axis)`, `None`.
pub trait AxisOrAll {
    /// The axis; none means all.
    fn axis(self) -> Option<i64>;
}

impl AxisOrAll for () {
    fn axis(self) -> Option<i64> {
        None
    }
}

impl AxisOrAll for Option<i64> {
    fn axis(self) -> Option<i64> {
        self
    }
}

macro_rules! axes {
    ($($integer:ident)*) => { $(
        impl AxisOrAll for $integer {
            fn axis(self) -> Option<i64> {
                Some(self.length())
            }
        }
    )* };
}

axes! { i32 i64 u32 usize }

/// A Rust type that tensors can hold.
pub trait TensorElement: Element {
    /// The type of a tensor of these.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ident $dtype:ident;)*) => { $(
        impl TensorElement for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )* };
}

elements! {
    bool BOOL;
    i8 I8;
    i16 I16;
    i32 I32;
    i64 I64;
    u8 U8;
    u16 U16;
    u32 U32;
    u64 U64;
    f16 F16;
    bf16 BF16;
    f32 F32;
    f64 F64;
}

/// A number without a type of its own: beside a tensor it takes the tensor's type, but a float beside integers stays a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Literal {
    /// The value as a constant.
    pub fn scalar(self) -> Scalar {
        match self {
            Literal::Bool(value) => Scalar::Bool(value),
            Literal::Int(value) => Scalar::Int(value),
            Literal::Float(value) => Scalar::float(value),
        }
    }

    /// The type that it has beside a tensor of type `other`.
    pub fn dtype_beside(self, other: DType) -> DType {
        match self {
            Literal::Bool(_) => other,
            Literal::Int(_) if other.is_bool() => self.dtype(),
            Literal::Int(_) => other,
            Literal::Float(_) if other.is_float() => other,
            Literal::Float(_) => DEFAULT_FLOAT,
        }
    }

    /// The type that it has alone: an integer is `i32` if it fits, else `i64`.
    pub fn dtype(self) -> DType {
        match self {
            Literal::Bool(_) => DType::BOOL,
            Literal::Int(value) if i32::try_from(value).is_ok() => DEFAULT_INT,
            Literal::Int(_) => DType::I64,
            Literal::Float(_) => DEFAULT_FLOAT,
        }
    }

    /// Whether a tensor's type holds it; one that carries an error is not asked.
    pub(super) fn fits(self, x: &Tensor) -> bool {
        match (self, &x.0) {
            (Literal::Int(value), Ok(view)) => {
                let dtype = self.dtype_beside(view.dtype);
                dtype.integer_bounds().is_none_or(|(lowest, highest)| (lowest..=highest).contains(&value))
            }
            _ => true,
        }
    }

    /// As a constant to compare a tensor of type `other` with: in its type if that holds it, else in one that does.
    fn uop_compared(self, other: DType) -> UOp {
        match (self, other.integer_bounds()) {
            (Literal::Int(value), Some((lowest, highest))) if !(lowest..=highest).contains(&value) => {
                // Below all of `u64` is what is negative, whatever the digits: no integer type holds both.
                let dtype = if other == DType::U64 { DType::F64 } else { DType::I64 };
                UOp::constant(self.scalar().cast(dtype), dtype)
            }
            _ => self.uop_beside(other),
        }
    }

    pub(crate) fn uop_beside(self, other: DType) -> UOp {
        let dtype = self.dtype_beside(other);
        UOp::constant(self.scalar().cast(dtype), dtype)
    }
}

macro_rules! literals {
    ($($rust:ident $variant:ident $wide:ident;)*) => { $(
        impl From<$rust> for Literal {
            fn from(value: $rust) -> Literal {
                Literal::$variant($wide::from(value))
            }
        }
    )* };
}

literals! {
    bool Bool bool;
    i8 Int i64;
    i16 Int i64;
    i32 Int i64;
    i64 Int i64;
    u8 Int i64;
    u16 Int i64;
    u32 Int i64;
    f16 Float f64;
    bf16 Float f64;
    f32 Float f64;
    f64 Float f64;
}

impl From<usize> for Literal {
    /// One that `i64` does not hold is a float: as near as there is, and no other number.
    fn from(value: usize) -> Literal {
        i64::try_from(value).map_or(Literal::Float(value as f64), Literal::Int)
    }
}

/// What stands beside a tensor.
#[derive(Clone, Debug)]
pub enum Given {
    /// Another tensor.
    Tensor(Tensor),
    /// A number.
    Number(Literal),
}

/// What may stand beside a tensor: a tensor, or a number that takes its type.
///
/// What becomes of an integer that the type does not hold: arithmetic wraps it, as it wraps results; comparisons, `maximum`, `minimum` and
/// `clamp` go by its value; where it would be stored as it is (`full`, `where_`, `masked_fill`, `pad`, `assign`) it is an error.
pub trait Operand: Sized {
    /// What it is.
    fn given(self) -> Given;

    /// As a tensor beside `other`, wrapped to its type.
    fn beside(self, other: &Tensor) -> Tensor {
        self.given().into_tensor(other, Literal::uop_beside)
    }
}

impl Operand for Given {
    fn given(self) -> Given {
        self
    }
}

impl Operand for Tensor {
    fn given(self) -> Given {
        Given::Tensor(self)
    }
}

impl Operand for &Tensor {
    fn given(self) -> Given {
        Given::Tensor(self.clone())
    }
}

impl<L: Into<Literal>> Operand for L {
    fn given(self) -> Given {
        Given::Number(self.into())
    }
}

impl Given {
    /// As a tensor beside `other`, a number as the constant that it is beside a tensor of that type.
    fn into_tensor(self, other: &Tensor, constant: impl FnOnce(Literal, DType) -> UOp) -> Tensor {
        match (self, &other.0) {
            (Given::Tensor(tensor), _) => tensor,
            (Given::Number(number), Ok(view)) => Tensor::from_uop(constant(number, view.dtype)),
            (Given::Number(_), Err(error)) => Tensor(Err(error.clone())),
        }
    }

    /// To be compared with `other`: a number by its value.
    pub(super) fn compared_with(self, other: &Tensor) -> Tensor {
        self.into_tensor(other, Literal::uop_compared)
    }

    /// To be stored among elements of `other`: a number that their type does not hold is an error of the call.
    #[track_caller]
    pub(super) fn stored_among(self, op: &'static str, other: &Tensor) -> Tensor {
        if let (Given::Number(number), Ok(view)) = (&self, &other.0)
            && let Err(error) = check_fits(number.scalar(), view.dtype)
        {
            return Tensor::from_error(CallError::new(op, &[&view.value()], error.message, Location::caller()));
        }
        self.into_tensor(other, Literal::uop_beside)
    }
}
