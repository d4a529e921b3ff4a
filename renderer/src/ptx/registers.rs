//! Registers and constants: how the text names and types them.
//!
//! | kind | registers | holds |
//! |---|---|---|
//! | predicate | `%p` | `bool` |
//! | 16 bits | `%rs` | `i16`, `u16`; `i8` and `u8` extended by their sign or by zeros; the bits of `f16` and `bf16` |
//! | 32 bits | `%r` | `i32`, `u32` |
//! | 64 bits | `%rd` | `i64`, `u64`, addresses |
//! | float | `%f` | `f32` |
//! | double | `%fd` | `f64` |
//!
//! Integer constants are decimal, floats are their bits (`0f3F800000`), so nothing is rounded on the way. A predicate has no constants: it
//! is set by `mov.pred`.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::{Scalar, ScalarType};

/// A kind of register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Predicate,
    Bits16,
    Bits32,
    Bits64,
    Float32,
    Float64,
}

impl Kind {
    pub(super) const ALL: [Kind; 6] =
        [Kind::Predicate, Kind::Bits16, Kind::Bits32, Kind::Bits64, Kind::Float32, Kind::Float64];

    /// The kind that holds a lane of this type.
    pub(super) fn of(dtype: DType) -> Kind {
        match dtype.scalar() {
            ScalarType::Bool => Kind::Predicate,
            ScalarType::I8
            | ScalarType::U8
            | ScalarType::I16
            | ScalarType::U16
            | ScalarType::F16
            | ScalarType::BF16 => Kind::Bits16,
            ScalarType::I32 | ScalarType::U32 => Kind::Bits32,
            ScalarType::Index | ScalarType::I64 | ScalarType::U64 | ScalarType::Void => Kind::Bits64,
            ScalarType::F32 => Kind::Float32,
            ScalarType::F64 => Kind::Float64,
        }
    }

    /// What its registers begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::Predicate => "%p",
            Kind::Bits16 => "%rs",
            Kind::Bits32 => "%r",
            Kind::Bits64 => "%rd",
            Kind::Float32 => "%f",
            Kind::Float64 => "%fd",
        }
    }

    /// The type that its registers are declared, moved and chosen with.
    pub(super) fn plain(self) -> &'static str {
        match self {
            Kind::Predicate => "pred",
            Kind::Bits16 => "b16",
            Kind::Bits32 => "b32",
            Kind::Bits64 => "b64",
            Kind::Float32 => "f32",
            Kind::Float64 => "f64",
        }
    }
}

/// The type that arithmetic on a lane has: that of its register, 16 bits for bytes.
pub(super) fn arithmetic(dtype: DType) -> &'static str {
    match dtype.scalar() {
        ScalarType::Bool => "pred",
        ScalarType::I8 | ScalarType::I16 => "s16",
        ScalarType::U8 | ScalarType::U16 => "u16",
        ScalarType::F16 | ScalarType::BF16 => "b16",
        ScalarType::I32 => "s32",
        ScalarType::U32 => "u32",
        ScalarType::Index | ScalarType::I64 | ScalarType::Void => "s64",
        ScalarType::U64 => "u64",
        ScalarType::F32 => "f32",
        ScalarType::F64 => "f64",
    }
}

/// The bits of the register that an integer is computed in.
pub(super) fn width(dtype: DType) -> u32 {
    dtype.bits().max(16)
}

/// A constant as an operand; of a predicate, as an operand of `mov.pred`.
pub(super) fn constant(value: Scalar, dtype: DType) -> String {
    let bits = value.to_bits(dtype.element());
    match dtype.scalar() {
        ScalarType::F16 | ScalarType::BF16 => format!("0x{bits:04X}"),
        ScalarType::F32 => format!("0f{bits:08X}"),
        ScalarType::F64 => format!("0d{bits:016X}"),
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
        | ScalarType::U64 => match value {
            Scalar::Int(value) => value.to_string(),
            Scalar::UInt(value) if value > i64::MAX as u64 => format!("0x{value:016X}"),
            Scalar::UInt(value) => value.to_string(),
            Scalar::Bool(_) | Scalar::Float(_) => bits.to_string(),
        },
    }
}

/// Zero, as an operand.
pub(super) fn zero(kind: Kind) -> &'static str {
    match kind {
        Kind::Predicate | Kind::Bits16 | Kind::Bits32 | Kind::Bits64 => "0",
        Kind::Float32 => "0f00000000",
        Kind::Float64 => "0d0000000000000000",
    }
}

/// Whether an operand is a register.
pub(super) fn is_register(operand: &str) -> bool {
    operand.starts_with('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_exact() {
        let text = |value: f64, dtype| constant(Scalar::from_f64(value, dtype), dtype);
        assert_eq!(text(1.0, DType::F32), "0f3F800000");
        assert_eq!(text(-0.0, DType::F64), "0d8000000000000000");
        assert_eq!(text(f64::NAN, DType::F32), "0f7FC00000");
        assert_eq!(text(1.0, DType::F16), "0x3C00");
        assert_eq!(text(1.0, DType::BF16), "0x3F80");
        assert_eq!(constant(Scalar::Int(-3), DType::I8), "-3");
        assert_eq!(constant(Scalar::UInt(u64::MAX), DType::U64), "0xFFFFFFFFFFFFFFFF");
        assert_eq!(constant(Scalar::Bool(true), DType::BOOL), "1");
    }

    #[test]
    fn bytes_are_computed_in_16_bits() {
        assert_eq!((arithmetic(DType::I8), arithmetic(DType::U8), width(DType::U8)), ("s16", "u16", 16));
        assert_eq!(Kind::of(DType::F16.with_lanes(4)), Kind::Bits16);
    }
}
