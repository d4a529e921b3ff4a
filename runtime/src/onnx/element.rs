//! Element types of the format, and how the library holds them.
//!
//! Types that the library has no memory for are held in wider ones that have all their values: integers of 2 and 4 bits in 8, floats of 4, 6
//! and 8 bits in `f32`, where those of large initialisers are an expression of their bytes, of which no `f32` is stored. Text is held apart from tensors (`value`); complex numbers are not held.

use std::fmt;

use crate::DType;
use crate::tensor::SmallFloat;

/// The type of an element as the format names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// A type that tensors hold as it is.
    Plain(DType),
    /// A signed integer of so many bits, held in `i8`.
    Signed(u8),
    /// An unsigned integer of so many bits, held in `u8`.
    Unsigned(u8),
    /// A float of 8 bits or less, held in `f32`, or as bytes from which that is computed where it is used.
    Small(SmallFloat),
    /// Text.
    Text,
}

/// The number of a type in the format, the type, and its name there.
// tidy: table
const TYPES: &[(i32, ElementType, &str)] = &[
    (1, ElementType::Plain(DType::F32), "float"),
    (2, ElementType::Plain(DType::U8), "uint8"),
    (3, ElementType::Plain(DType::I8), "int8"),
    (4, ElementType::Plain(DType::U16), "uint16"),
    (5, ElementType::Plain(DType::I16), "int16"),
    (6, ElementType::Plain(DType::I32), "int32"),
    (7, ElementType::Plain(DType::I64), "int64"),
    (8, ElementType::Text, "string"),
    (9, ElementType::Plain(DType::BOOL), "bool"),
    (10, ElementType::Plain(DType::F16), "float16"),
    (11, ElementType::Plain(DType::F64), "double"),
    (12, ElementType::Plain(DType::U32), "uint32"),
    (13, ElementType::Plain(DType::U64), "uint64"),
    (16, ElementType::Plain(DType::BF16), "bfloat16"),
    (17, ElementType::Small(SmallFloat::E4M3FN), "float8e4m3fn"),
    (18, ElementType::Small(SmallFloat::E4M3FNUZ), "float8e4m3fnuz"),
    (19, ElementType::Small(SmallFloat::E5M2), "float8e5m2"),
    (20, ElementType::Small(SmallFloat::E5M2FNUZ), "float8e5m2fnuz"),
    (21, ElementType::Unsigned(4), "uint4"),
    (22, ElementType::Signed(4), "int4"),
    (23, ElementType::Small(SmallFloat::E2M1FN), "float4e2m1"),
    (24, ElementType::Small(SmallFloat::E8M0FNU), "float8e8m0"),
    (25, ElementType::Unsigned(2), "uint2"),
    (26, ElementType::Signed(2), "int2"),
];

impl ElementType {
    /// The type of that number in the format, if it is held here.
    pub fn from_code(code: i32) -> Option<ElementType> {
        TYPES.iter().find(|row| row.0 == code).map(|row| row.1)
    }

    /// Its number in the format.
    pub fn code(self) -> i32 {
        TYPES.iter().find(|row| row.1 == self).map_or(0, |row| row.0)
    }

    /// The type of tensors that hold it; none for text.
    pub fn dtype(self) -> Option<DType> {
        match self {
            ElementType::Plain(dtype) => Some(dtype),
            ElementType::Signed(_) => Some(DType::I8),
            ElementType::Unsigned(_) => Some(DType::U8),
            ElementType::Small(_) => Some(DType::F32),
            ElementType::Text => None,
        }
    }

    /// Bits of an element in a file; none for text.
    pub fn bits(self) -> Option<usize> {
        match self {
            ElementType::Plain(dtype) => Some(dtype.bits() as usize),
            ElementType::Signed(bits) | ElementType::Unsigned(bits) => Some(bits as usize),
            ElementType::Small(float) => Some(float.bits() as usize),
            ElementType::Text => None,
        }
    }

    /// Least and largest value of an integer type.
    pub(super) fn integer_bounds(self) -> Option<(i64, i64)> {
        match self {
            ElementType::Plain(dtype) if dtype.is_integer() => dtype.integer_bounds(),
            ElementType::Signed(bits) => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            ElementType::Unsigned(bits) => Some((0, (1 << bits) - 1)),
            _ => None,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, ElementType::Small(_)) || matches!(self, ElementType::Plain(dtype) if dtype.is_float())
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TYPES.iter().find(|row| row.1 == *self).map_or("unknown", |row| row.2))
    }
}

impl From<DType> for ElementType {
    fn from(dtype: DType) -> ElementType {
        ElementType::Plain(dtype)
    }
}
