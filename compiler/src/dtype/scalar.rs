//! Constants, bit for bit: one value of one element type.
//!
//! A [`Scalar`] is kept in one canonical form per type: signed integers and indices as `i64`, unsigned ones as `u64`, floats as
//! the bits of an `f64` that the type holds exactly. So equal constants are equal data, NaN and -0.0 included, and can be
//! hashed. Arithmetic wraps as the type does and asks nothing of the host's math library (`libm` is Rust code, the same
//! everywhere).

use half::{bf16, f16};

use super::{DType, ScalarType};

/// One constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A signed integer or index.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float, as the bits of the `f64` that equals it.
    Float(u64),
}

impl Scalar {
    /// The integer `value` as `dtype` has it: wrapped, rounded, or compared with zero.
    pub fn from_i64(value: i64, dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::Bool => Scalar::Bool(value != 0),
            ScalarType::Index | ScalarType::I64 => Scalar::Int(value),
            ScalarType::I8 => Scalar::Int(value as i8 as i64),
            ScalarType::I16 => Scalar::Int(value as i16 as i64),
            ScalarType::I32 => Scalar::Int(value as i32 as i64),
            ScalarType::U8 => Scalar::UInt(value as u8 as u64),
            ScalarType::U16 => Scalar::UInt(value as u16 as u64),
            ScalarType::U32 => Scalar::UInt(value as u32 as u64),
            ScalarType::U64 => Scalar::UInt(value as u64),
            // An i64 does not fit an f64 exactly, and rounding twice is not rounding once: go to each type directly.
            ScalarType::F16 => Scalar::float(f16_from_f64(value as f64).to_f64()),
            ScalarType::BF16 => Scalar::float(bf16::from_f32(value as f32).to_f64()),
            ScalarType::F32 => Scalar::float(value as f32 as f64),
            ScalarType::F64 => Scalar::float(value as f64),
            ScalarType::Void => Scalar::Int(0),
        }
    }

    /// The unsigned integer `value` as `dtype` has it.
    pub fn from_u64(value: u64, dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::F16 | ScalarType::BF16 => Scalar::from_f64(value as f32 as f64, dtype),
            ScalarType::F32 => Scalar::float(value as f32 as f64),
            ScalarType::F64 => Scalar::float(value as f64),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32
            | ScalarType::U64 => Scalar::from_i64(value as i64, dtype),
        }
    }

    /// The float `value` as `dtype` has it: rounded to the nearest (ties to even), truncated to an integer (saturating to 64
    /// bits, then wrapping), or compared with zero.
    pub fn from_f64(value: f64, dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::Bool => Scalar::Bool(value != 0.0),
            ScalarType::F16 => Scalar::float(f16_from_f64(value).to_f64()),
            ScalarType::BF16 => Scalar::float(bf16_from_f64(value).to_f64()),
            ScalarType::F32 => Scalar::float(value as f32 as f64),
            ScalarType::F64 => Scalar::float(value),
            ScalarType::U64 if value >= 0.0 => Scalar::UInt(value as u64),
            ScalarType::Void
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32
            | ScalarType::U64 => Scalar::from_i64(value as i64, dtype),
        }
    }

    /// A float that the caller knows its type to hold exactly. All NaNs become one.
    pub fn float(value: f64) -> Scalar {
        Scalar::Float(if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() })
    }

    /// The same value in another type, by that type's conversion rules.
    pub fn cast(self, dtype: DType) -> Scalar {
        match self {
            Scalar::Bool(value) => Scalar::from_i64(value as i64, dtype),
            Scalar::Int(value) => Scalar::from_i64(value, dtype),
            Scalar::UInt(value) => Scalar::from_u64(value, dtype),
            Scalar::Float(bits) => Scalar::from_f64(f64::from_bits(bits), dtype),
        }
    }

    /// The value as a float, rounded if it must be.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => value as u8 as f64,
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Float(bits) => f64::from_bits(bits),
        }
    }

    /// The value as an integer; `u64` above `i64::MAX` wraps, floats truncate.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(value) => value as i64,
            Scalar::Int(value) => value,
            Scalar::UInt(value) => value as i64,
            Scalar::Float(bits) => f64::from_bits(bits) as i64,
        }
    }

    /// Whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::UInt(value) => value != 0,
            Scalar::Float(bits) => f64::from_bits(bits) != 0.0,
        }
    }

    /// Zero, or false.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar::from_i64(0, dtype)
    }

    /// One, or true.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i64(1, dtype)
    }

    /// The least value of a type: minus infinity for floats.
    pub fn lowest(dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::F16 | ScalarType::BF16 | ScalarType::F32 | ScalarType::F64 => Scalar::float(f64::NEG_INFINITY),
            ScalarType::U64 => Scalar::UInt(0),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32 => Scalar::from_i64(dtype.integer_bounds().map_or(0, |bounds| bounds.0), dtype),
        }
    }

    /// The largest value of a type: infinity for floats.
    pub fn highest(dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::F16 | ScalarType::BF16 | ScalarType::F32 | ScalarType::F64 => Scalar::float(f64::INFINITY),
            ScalarType::U64 => Scalar::UInt(u64::MAX),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32 => Scalar::from_i64(dtype.integer_bounds().map_or(0, |bounds| bounds.1), dtype),
        }
    }

    /// The bits of the value as `dtype` stores it, in the low bytes.
    pub fn to_bits(self, dtype: DType) -> u64 {
        match dtype.scalar() {
            ScalarType::F16 => f16_from_f64(self.to_f64()).to_bits() as u64,
            ScalarType::BF16 => bf16_from_f64(self.to_f64()).to_bits() as u64,
            ScalarType::F32 => (self.to_f64() as f32).to_bits() as u64,
            ScalarType::F64 => self.to_f64().to_bits(),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32
            | ScalarType::U64 => {
                let bits = self.to_i64() as u64;
                if dtype.bytes() >= 8 { bits } else { bits & ((1u64 << dtype.bits()) - 1) }
            }
        }
    }

    /// The value that those bits are in `dtype`; the inverse of [`Scalar::to_bits`].
    pub fn from_bits(bits: u64, dtype: DType) -> Scalar {
        match dtype.scalar() {
            ScalarType::F16 => Scalar::float(f16::from_bits(bits as u16).to_f64()),
            ScalarType::BF16 => Scalar::float(bf16::from_bits(bits as u16).to_f64()),
            ScalarType::F32 => Scalar::float(f32::from_bits(bits as u32) as f64),
            ScalarType::F64 => Scalar::float(f64::from_bits(bits)),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::Index
            | ScalarType::I8
            | ScalarType::I16
            | ScalarType::I32
            | ScalarType::I64
            | ScalarType::U8
            | ScalarType::U16
            | ScalarType::U32
            | ScalarType::U64 => Scalar::from_i64(bits as i64, dtype),
        }
    }
}

/// Rounds once, to the nearest and ties to even.
pub(super) fn bf16_from_f64(value: f64) -> bf16 {
    bf16::from_f32(f32_rounded_to_odd(value))
}

/// Rounds once, to the nearest and ties to even; `f16::from_f64` looks at the upper half of the bits alone.
pub(super) fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(f32_rounded_to_odd(value))
}

/// The `f32` with its last bit sticky: rounding twice to nearest is wrong when the first step lands on a tie, this first step
/// never does (Boldo and Melquiond, "When double rounding is odd", 2005).
fn f32_rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if nearest as f64 == value || !nearest.is_finite() || value.is_nan() {
        return nearest;
    }
    let toward_zero =
        if (nearest as f64).abs() > value.abs() { f32::from_bits(nearest.to_bits() - 1) } else { nearest };
    f32::from_bits(toward_zero.to_bits() | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_floats_round() {
        assert_eq!(Scalar::from_i64(300, DType::U8), Scalar::UInt(44));
        assert_eq!(Scalar::from_i64(200, DType::I8), Scalar::Int(-56));
        assert_eq!(Scalar::from_f64(0.1, DType::F32).to_f64(), 0.1f32 as f64);
        assert_eq!(Scalar::from_f64(-3.7, DType::I32), Scalar::Int(-3));
        assert_eq!(Scalar::lowest(DType::I8), Scalar::Int(-128));
    }

    #[test]
    fn bits_round_trip() {
        for dtype in DType::ALL {
            for value in [-2.0, -0.0, 0.0, 1.0, 0.333, 5.0, 100.0] {
                let scalar = Scalar::from_f64(value, dtype);
                assert_eq!(Scalar::from_bits(scalar.to_bits(dtype), dtype), scalar, "{dtype} {value}");
            }
        }
    }

    #[test]
    fn bf16_rounds_once() {
        // Just above the tie between two neighbours: rounding to f32 first would land on the tie and go to even.
        let tie = 1.0 + 1.0 / 256.0;
        assert_eq!(bf16_from_f64(tie + 1e-12).to_f64(), 1.0 + 1.0 / 128.0);
        assert_eq!(bf16_from_f64(tie).to_f64(), 1.0);
    }

    #[test]
    fn f16_rounds_once() {
        let least = 2f64.powi(-24);
        assert_eq!(f16_from_f64((least / 2.0).next_up()).to_f64(), least);
        assert_eq!(f16_from_f64(least / 2.0).to_f64(), 0.0);
    }
}
