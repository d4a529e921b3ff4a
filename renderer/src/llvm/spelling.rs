//! How LLVM IR writes types and constants.
//!
//! In *registers* a bool is `i1`; in *memory* it is a byte. A `bf16` is an `i16` in both: its arithmetic has become integer and
//! `f32` arithmetic before rendering, and LLVM need not know more. Vectors are `<n x T>`. Floats are written in decimals that
//! name the value exactly.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::{Scalar, ScalarType};

/// The type of a value in a register: `float`, `<16 x i1>`.
pub(super) fn register(dtype: DType) -> String {
    with_lanes(element(dtype), dtype)
}

/// The type of a value in memory: as in a register, but bools are bytes.
pub(super) fn memory(dtype: DType) -> String {
    with_lanes(if dtype.is_bool() { "i8" } else { element(dtype) }, dtype)
}

/// The part of an intrinsic's name that says its type: `v16f32`.
pub(super) fn suffix(dtype: DType) -> String {
    let element = match dtype.scalar() {
        ScalarType::Bool => "i1",
        ScalarType::F16 => "f16",
        ScalarType::F32 => "f32",
        ScalarType::F64 => "f64",
        ScalarType::Void
        | ScalarType::Index
        | ScalarType::I8
        | ScalarType::I16
        | ScalarType::I32
        | ScalarType::I64
        | ScalarType::U8
        | ScalarType::U16
        | ScalarType::U32
        | ScalarType::U64
        | ScalarType::BF16 => element(dtype),
    };
    match dtype.lanes() {
        1 => element.to_string(),
        lanes => format!("v{lanes}{element}"),
    }
}

fn element(dtype: DType) -> &'static str {
    match dtype.scalar() {
        ScalarType::Void => "void",
        ScalarType::Bool => "i1",
        ScalarType::I8 | ScalarType::U8 => "i8",
        ScalarType::I16 | ScalarType::U16 | ScalarType::BF16 => "i16",
        ScalarType::I32 | ScalarType::U32 => "i32",
        ScalarType::Index | ScalarType::I64 | ScalarType::U64 => "i64",
        ScalarType::F16 => "half",
        ScalarType::F32 => "float",
        ScalarType::F64 => "double",
    }
}

fn with_lanes(element: &str, dtype: DType) -> String {
    match dtype.lanes() {
        1 => element.to_string(),
        lanes => format!("<{lanes} x {element}>"),
    }
}

/// Integers as wide as floats are, for their bits.
pub(super) fn bits_of(dtype: DType) -> DType {
    let integer = match dtype.element().bytes() {
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    };
    integer.with_lanes(dtype.lanes())
}

/// A constant without its type; the same value in every lane.
pub(super) fn constant(value: Scalar, dtype: DType) -> String {
    let text = scalar(value, dtype);
    match dtype.lanes() {
        1 => text,
        _ => format!("splat ({} {text})", element(dtype)),
    }
}

/// A vector constant of these lanes, without its type.
pub(super) fn vector(lanes: impl IntoIterator<Item = Scalar>, dtype: DType) -> String {
    let element_type = dtype.element();
    let texts: Vec<String> =
        lanes.into_iter().map(|lane| format!("{} {}", element(element_type), scalar(lane, element_type))).collect();
    format!("<{}>", texts.join(", "))
}

/// Zero, or false, in every lane.
pub(super) fn zero(dtype: DType) -> String {
    match dtype.lanes() {
        1 => scalar(Scalar::zero(dtype), dtype),
        _ => "zeroinitializer".to_string(),
    }
}

fn scalar(value: Scalar, dtype: DType) -> String {
    match value {
        _ if dtype.scalar() == ScalarType::BF16 => value.to_bits(dtype).to_string(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Float(bits) => float(f64::from_bits(bits), dtype),
    }
}

/// LLVM reads decimals as `f64` and wants the type to hold that value exactly; Rust prints the shortest digits that read back
/// as the same `f64`.
fn float(value: f64, dtype: DType) -> String {
    if !value.is_finite() {
        return match dtype.scalar() {
            ScalarType::F16 => format!("0xH{:04X}", Scalar::float(value).to_bits(dtype)),
            _ => format!("0x{:016X}", value.to_bits()),
        };
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bools_are_bits_in_registers_and_bytes_in_memory() {
        assert_eq!(register(DType::BOOL.with_lanes(8)), "<8 x i1>");
        assert_eq!(memory(DType::BOOL.with_lanes(8)), "<8 x i8>");
        assert_eq!(suffix(DType::F32.with_lanes(16)), "v16f32");
    }

    #[test]
    fn floats_are_written_so_that_llvm_reads_them_back() {
        let text = |value: f64, dtype| constant(Scalar::from_f64(value, dtype), dtype);
        assert_eq!(text(1.0, DType::F32), "1.0");
        assert_eq!(text(-0.0, DType::F64), "-0.0");
        assert_eq!(text(0.1, DType::F32), "0.10000000149011612");
        assert_eq!(text(1e30, DType::F64), "1.0e30");
        assert_eq!(text(1.5e-30, DType::F64), "1.5e-30");
        assert_eq!(text(f64::NEG_INFINITY, DType::F32), "0xFFF0000000000000");
        assert_eq!(text(f64::NAN, DType::F16), "0xH7E00");
        assert_eq!(text(1.0, DType::BF16), "16256");
        assert_eq!(text(2.0, DType::F32.with_lanes(4)), "splat (float 2.0)");
    }
}
