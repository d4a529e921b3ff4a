//! What each operation does to one element, in machine types: the one definition that constant folding and the interpreter share.
//!
//! [`Element`] is the storage type of a dtype (`Index` is stored as `i64`). Integers wrap; half floats compute in `f32` and round
//! after each operation; transcendental functions are computed in `f64` by `libm` (Rust code, the same on every host) and
//! rounded, those of half floats to `f32` first. Division by zero gives 0 for integers. Operations that a type lacks give its zero: callers ask first whether an op
//! is defined (`ir::scalar_op` does).
//!
//! Tested here: wrapping, rounding, NaN and signed zero; against [`Scalar`]'s conversions for all types.

/// Operations that a family of types lacks.
macro_rules! lacks {
    ($($unary:ident)*; $($binary:ident)*) => {
        $(fn $unary(self) -> Self { Self::ZERO })*
        $(fn $binary(self, _: Self) -> Self { Self::ZERO })*
    };
}

mod bools;
mod floats;
mod integers;

use half::{bf16, f16};

use super::elements::Stored;
use super::{DType, Scalar, ScalarType};

/// One element in memory, with the arithmetic of its type.
pub trait Element: Stored + Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Zero, or false.
    const ZERO: Self;
    /// The constant as an element; constants of other types are converted.
    fn from_scalar(value: Scalar) -> Self;
    /// As a constant.
    fn to_scalar(self) -> Scalar;
    /// The integer, wrapped, rounded, or compared with zero.
    fn from_i64(value: i64) -> Self;
    /// The unsigned integer, likewise.
    fn from_u64(value: u64) -> Self;
    /// The float: rounded; truncated (saturating to 64 bits, then wrapping); or compared with zero.
    fn from_f64(value: f64) -> Self;
    /// The value in another type.
    fn convert<E: Element>(self) -> E;
    /// Its bits in memory, in the low bytes.
    fn to_bits(self) -> u64;
    /// The element of those bits.
    fn from_bits(bits: u64) -> Self;
    /// `-self`.
    fn neg(self) -> Self;
    /// Logical or bitwise not.
    fn not(self) -> Self;
    /// 2 to the power `self`.
    fn exp2(self) -> Self;
    /// Base-2 logarithm.
    fn log2(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Rounded toward zero.
    fn trunc(self) -> Self;
    /// Sum; logical or.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product; logical and.
    fn mul(self, other: Self) -> Self;
    /// Quotient of floats.
    fn div(self, other: Self) -> Self;
    /// Quotient rounded to minus infinity.
    fn idiv(self, other: Self) -> Self;
    /// Remainder with the sign of the divisor.
    fn modulo(self, other: Self) -> Self;
    /// Quotient rounded toward zero.
    fn cdiv(self, other: Self) -> Self;
    /// Remainder with the sign of the dividend.
    fn cmod(self, other: Self) -> Self;
    /// The larger; NaN if either is; +0 is above -0.
    fn max(self, other: Self) -> Self;
    /// The smaller; NaN if either is; -0 is below +0.
    fn min(self, other: Self) -> Self;
    /// Whether less.
    fn lt(self, other: Self) -> bool;
    /// Logical or bitwise and.
    fn and(self, other: Self) -> Self;
    /// Logical or bitwise or.
    fn or(self, other: Self) -> Self;
    /// Logical or bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Shifted left; 0 when the count is the width or more.
    fn shl(self, other: Self) -> Self;
    /// Shifted right, with the sign; counts of the width or more leave the sign alone.
    fn shr(self, other: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn muladd(self, b: Self, c: Self) -> Self;
}

/// Does something with the storage type of a dtype: code that is generic over [`Element`] is called with the right one.
pub trait WithElement {
    /// What it gives.
    type Output;
    /// Does it.
    fn with<E: Element>(self) -> Self::Output;
}

/// Calls `action` with the storage type of `dtype`'s lanes; `None` for `void`, which is not stored.
pub fn with_element<A: WithElement>(dtype: DType, action: A) -> Option<A::Output> {
    Some(match dtype.scalar() {
        ScalarType::Void => return None,
        ScalarType::Bool => action.with::<bool>(),
        ScalarType::I8 => action.with::<i8>(),
        ScalarType::I16 => action.with::<i16>(),
        ScalarType::I32 => action.with::<i32>(),
        ScalarType::Index | ScalarType::I64 => action.with::<i64>(),
        ScalarType::U8 => action.with::<u8>(),
        ScalarType::U16 => action.with::<u16>(),
        ScalarType::U32 => action.with::<u32>(),
        ScalarType::U64 => action.with::<u64>(),
        ScalarType::F16 => action.with::<f16>(),
        ScalarType::BF16 => action.with::<bf16>(),
        ScalarType::F32 => action.with::<f32>(),
        ScalarType::F64 => action.with::<f64>(),
    })
}

#[cfg(test)]
mod tests;
