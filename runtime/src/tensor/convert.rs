//! What may stand where a tensor, a number or a list of axes is wanted.

use half::{bf16, f16};
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::dtype::arithmetic::Element;
use warpweft_compiler::dtype::lattice::{DEFAULT_FLOAT, DEFAULT_INT};
use warpweft_compiler::{DType, UOp};

use super::Tensor;

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
            Literal::Int(_) if other.is_bool() => DEFAULT_INT,
            Literal::Int(_) => other,
            Literal::Float(_) if other.is_float() => other,
            Literal::Float(_) => DEFAULT_FLOAT,
        }
    }

    /// The type that it has alone.
    pub fn dtype(self) -> DType {
        match self {
            Literal::Bool(_) => DType::BOOL,
            Literal::Int(_) => DEFAULT_INT,
            Literal::Float(_) => DEFAULT_FLOAT,
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

/// What may stand beside a tensor: a tensor, or a number that takes its type.
pub trait Operand {
    /// As a tensor beside `other`.
    fn beside(self, other: &Tensor) -> Tensor;
}

impl Operand for Tensor {
    fn beside(self, _: &Tensor) -> Tensor {
        self
    }
}

impl Operand for &Tensor {
    fn beside(self, _: &Tensor) -> Tensor {
        self.clone()
    }
}

impl<L: Into<Literal>> Operand for L {
    fn beside(self, other: &Tensor) -> Tensor {
        match &other.0 {
            Ok(view) => Tensor::from_uop(self.into().uop_beside(view.dtype)),
            Err(error) => Tensor(Err(error.clone())),
        }
    }
}

/// A list of axes: `0`, `[0, -1]`, a vector, or `()` for all.
pub trait AxisList {
    /// The axes; none named means all.
    fn axes(&self) -> Vec<i64>;
}

impl AxisList for () {
    fn axes(&self) -> Vec<i64> {
        Vec::new()
    }
}

impl AxisList for i32 {
    fn axes(&self) -> Vec<i64> {
        vec![*self as i64]
    }
}

impl AxisList for i64 {
    fn axes(&self) -> Vec<i64> {
        vec![*self]
    }
}

impl<const N: usize> AxisList for [i32; N] {
    fn axes(&self) -> Vec<i64> {
        self.iter().map(|&axis| axis as i64).collect()
    }
}

impl<const N: usize> AxisList for [i64; N] {
    fn axes(&self) -> Vec<i64> {
        self.to_vec()
    }
}

impl AxisList for &[i64] {
    fn axes(&self) -> Vec<i64> {
        self.to_vec()
    }
}

impl AxisList for Vec<i64> {
    fn axes(&self) -> Vec<i64> {
        self.clone()
    }
}

impl AxisList for &Vec<i64> {
    fn axes(&self) -> Vec<i64> {
        self.to_vec()
    }
}
