//! What each operation does to one element, in machine types: the one definition that constant folding and the interpreter share.
//!
//! [`Element`] is the storage type of a dtype (`Index` is stored as `i64`). Integers wrap; half floats compute in `f32` and round
//! after each operation; transcendental functions are computed in `f64` by `libm` (Rust code, the same on every host) and
//! rounded, those of half floats to `f32` first. Division by zero gives 0 for integers. Operations that a type lacks give its zero: callers ask first whether an op
//! is defined (`ir::scalar_op` does).
//!
//! Tested here: wrapping, rounding, NaN and signed zero; against [`Scalar`]'s conversions for all types.

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

/// Operations that a family of types lacks.
macro_rules! lacks {
    ($($unary:ident)*; $($binary:ident)*) => {
        $(fn $unary(self) -> Self { Self::ZERO })*
        $(fn $binary(self, _: Self) -> Self { Self::ZERO })*
    };
}

macro_rules! integers {
    ($($type:ty, $dtype:ident, $wide:ty, $convert:ident, $variant:ident, $bits:ty;)*) => { $(
        impl Element for $type {
            const ZERO: Self = 0;
            fn from_scalar(value: Scalar) -> Self {
                match value.cast(DType::$dtype) {
                    Scalar::Int(value) => value as $type,
                    Scalar::UInt(value) => value as $type,
                    Scalar::Bool(value) => value as $type,
                    Scalar::Float(_) => 0,
                }
            }
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self as $wide)
            }
            fn from_i64(value: i64) -> Self {
                value as $type
            }
            fn from_u64(value: u64) -> Self {
                value as $type
            }
            fn from_f64(value: f64) -> Self {
                if <$type>::MAX as u64 == u64::MAX && value >= 0.0 { value as u64 as $type } else { value as i64 as $type }
            }
            fn convert<E: Element>(self) -> E {
                E::$convert(self as $wide)
            }
            fn to_bits(self) -> u64 {
                self as $bits as u64
            }
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
            lacks!(exp2 log2 sin cos sqrt; div);
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn not(self) -> Self {
                !self
            }
            fn trunc(self) -> Self {
                self
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[allow(unused_comparisons, reason = "one text for signed and unsigned types")]
            fn idiv(self, other: Self) -> Self {
                let quotient = Element::cdiv(self, other);
                let exact = Element::cmod(self, other) == 0;
                if !exact && (self < 0) != (other < 0) { quotient.wrapping_sub(1) } else { quotient }
            }
            fn modulo(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_sub(other.wrapping_mul(Element::idiv(self, other))) }
            }
            fn cdiv(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn cmod(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn lt(self, other: Self) -> bool {
                self < other
            }
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            fn shl(self, other: Self) -> Self {
                // A negative count is, as an unsigned number, beyond every width.
                u32::try_from(other).ok().and_then(|count| self.checked_shl(count)).unwrap_or(0)
            }
            #[allow(unused_comparisons, reason = "one text for signed and unsigned types")]
            fn shr(self, other: Self) -> Self {
                let shifted = u32::try_from(other).ok().and_then(|count| self.checked_shr(count));
                shifted.unwrap_or(if self < 0 { <$type>::MAX.wrapping_sub(<$type>::MAX).wrapping_sub(1) } else { 0 })
            }
            fn muladd(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}

integers! {
    i8, I8, i64, from_i64, Int, u8;
    i16, I16, i64, from_i64, Int, u16;
    i32, I32, i64, from_i64, Int, u32;
    i64, I64, i64, from_i64, Int, u64;
    u8, U8, u64, from_u64, UInt, u8;
    u16, U16, u64, from_u64, UInt, u16;
    u32, U32, u64, from_u64, UInt, u32;
    u64, U64, u64, from_u64, UInt, u64;
}

macro_rules! floats {
    ($($type:ty, $dtype:ident, $wide:ty, $zero:expr, $widen:expr, $narrow:expr, $fmod:path, $sqrt:path, $fma:path;)*) => { $(
        impl Element for $type {
            const ZERO: Self = $zero;
            fn from_scalar(value: Scalar) -> Self {
                match value.cast(DType::$dtype) {
                    Scalar::Float(bits) => Element::from_f64(f64::from_bits(bits)),
                    Scalar::Bool(_) | Scalar::Int(_) | Scalar::UInt(_) => Self::ZERO,
                }
            }
            fn to_scalar(self) -> Scalar {
                Scalar::float($widen(self) as f64)
            }
            fn from_i64(value: i64) -> Self {
                Self::from_scalar(Scalar::from_i64(value, DType::$dtype))
            }
            fn from_u64(value: u64) -> Self {
                Self::from_scalar(Scalar::from_u64(value, DType::$dtype))
            }
            fn from_f64(value: f64) -> Self {
                round_to(value)
            }
            fn convert<E: Element>(self) -> E {
                E::from_f64($widen(self) as f64)
            }
            fn to_bits(self) -> u64 {
                <$type>::to_bits(self) as u64
            }
            fn from_bits(bits: u64) -> Self {
                <$type>::from_bits(bits as _)
            }
            lacks!(not; idiv modulo cdiv and or xor shl shr);
            fn neg(self) -> Self {
                -self
            }
            fn exp2(self) -> Self {
                $narrow(round_to(libm::exp2($widen(self) as f64)))
            }
            fn log2(self) -> Self {
                $narrow(round_to(libm::log2($widen(self) as f64)))
            }
            fn sin(self) -> Self {
                $narrow(round_to(libm::sin($widen(self) as f64)))
            }
            fn cos(self) -> Self {
                $narrow(round_to(libm::cos($widen(self) as f64)))
            }
            fn sqrt(self) -> Self {
                $narrow($sqrt($widen(self)))
            }
            fn trunc(self) -> Self {
                round_to(libm::trunc($widen(self) as f64))
            }
            fn add(self, other: Self) -> Self {
                $narrow($widen(self) + $widen(other))
            }
            fn sub(self, other: Self) -> Self {
                $narrow($widen(self) - $widen(other))
            }
            fn mul(self, other: Self) -> Self {
                $narrow($widen(self) * $widen(other))
            }
            fn div(self, other: Self) -> Self {
                $narrow($widen(self) / $widen(other))
            }
            fn cmod(self, other: Self) -> Self {
                $narrow($fmod($widen(self), $widen(other)))
            }
            fn max(self, other: Self) -> Self {
                if self > other || self.is_nan() || (self == other && other.is_sign_negative()) { self } else { other }
            }
            fn min(self, other: Self) -> Self {
                if self < other || self.is_nan() || (self == other && self.is_sign_negative()) { self } else { other }
            }
            fn lt(self, other: Self) -> bool {
                self < other
            }
            fn muladd(self, b: Self, c: Self) -> Self {
                $narrow($fma($widen(self), $widen(b), $widen(c)))
            }
        }
    )* };
}

floats! {
    f16, F16, f32, f16::from_bits(0), f16::to_f32, f16::from_f32, libm::fmodf, libm::sqrtf, libm::fmaf;
    bf16, BF16, f32, bf16::from_bits(0), bf16::to_f32, bf16::from_f32, libm::fmodf, libm::sqrtf, libm::fmaf;
    f32, F32, f32, 0.0, std::convert::identity::<f32>, std::convert::identity::<f32>, libm::fmodf, libm::sqrtf, libm::fmaf;
    f64, F64, f64, 0.0, std::convert::identity::<f64>, std::convert::identity::<f64>, libm::fmod, libm::sqrt, libm::fma;
}

/// A float type that an `f64` rounds to, once.
trait Rounded {
    fn rounded(value: f64) -> Self;
}

impl Rounded for f16 {
    fn rounded(value: f64) -> f16 {
        super::scalar::f16_from_f64(value)
    }
}

impl Rounded for bf16 {
    fn rounded(value: f64) -> bf16 {
        super::scalar::bf16_from_f64(value)
    }
}

impl Rounded for f32 {
    fn rounded(value: f64) -> f32 {
        value as f32
    }
}

impl Rounded for f64 {
    fn rounded(value: f64) -> f64 {
        value
    }
}

fn round_to<R: Rounded>(value: f64) -> R {
    R::rounded(value)
}

impl Element for bool {
    const ZERO: Self = false;
    fn from_scalar(value: Scalar) -> Self {
        value.to_bool()
    }
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
    fn from_i64(value: i64) -> Self {
        value != 0
    }
    fn from_u64(value: u64) -> Self {
        value != 0
    }
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    fn convert<E: Element>(self) -> E {
        E::from_i64(self as i64)
    }
    fn to_bits(self) -> u64 {
        self as u64
    }
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    lacks!(neg exp2 log2 sin cos sqrt; sub div idiv modulo cdiv cmod shl shr);
    fn not(self) -> Self {
        !self
    }
    fn trunc(self) -> Self {
        self
    }
    fn add(self, other: Self) -> Self {
        self | other
    }
    fn mul(self, other: Self) -> Self {
        self & other
    }
    fn max(self, other: Self) -> Self {
        self | other
    }
    fn min(self, other: Self) -> Self {
        self & other
    }
    fn lt(self, other: Self) -> bool {
        !self & other
    }
    fn and(self, other: Self) -> Self {
        self & other
    }
    fn or(self, other: Self) -> Self {
        self | other
    }
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    fn muladd(self, b: Self, c: Self) -> Self {
        (self & b) | c
    }
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
