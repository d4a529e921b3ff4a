//! Floats: half floats compute in `f32` and are rounded after each operation, transcendental functions in `f64` by `libm`.
//!
//! Tested with the other types ([`super`]).

use half::{bf16, f16};

use super::Element;
use crate::dtype::{DType, Scalar};

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
        crate::dtype::scalar::f16_from_f64(value)
    }
}

impl Rounded for bf16 {
    fn rounded(value: f64) -> bf16 {
        crate::dtype::scalar::bf16_from_f64(value)
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
