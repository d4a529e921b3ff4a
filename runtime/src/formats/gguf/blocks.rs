//! The types of elements that GGUF has: their numbers, names, and how many elements are packed in how many bytes.

use warpweft_compiler::DType;

/// A packed type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) packing: Packing,
    /// Elements of a block.
    pub(super) elements: usize,
    /// Bytes of a block.
    pub(super) bytes: usize,
}

/// How elements are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names that everybody knows")]
pub(super) enum Packing {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
}

/// What a number of a type means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Elements as tensors have them.
    Plain(&'static str, DType),
    /// Blocks.
    Packed(Format),
    /// Not read; its name.
    Unknown(String),
}

const PLAIN: &[(u32, &str, DType)] = &[
    (0, "F32", DType::F32),
    (1, "F16", DType::F16),
    (24, "I8", DType::I8),
    (25, "I16", DType::I16),
    (26, "I32", DType::I32),
    (27, "I64", DType::I64),
    (28, "F64", DType::F64),
    (30, "BF16", DType::BF16),
];

/// Number, name, packing, elements and bytes of a block.
const PACKED: &[(u32, &str, Packing, usize, usize)] = &[
    (2, "Q4_0", Packing::Q4_0, 32, 18),
    (3, "Q4_1", Packing::Q4_1, 32, 20),
    (6, "Q5_0", Packing::Q5_0, 32, 22),
    (7, "Q5_1", Packing::Q5_1, 32, 24),
    (8, "Q8_0", Packing::Q8_0, 32, 34),
    (10, "Q2_K", Packing::Q2_K, 256, 84),
    (11, "Q3_K", Packing::Q3_K, 256, 110),
    (12, "Q4_K", Packing::Q4_K, 256, 144),
    (13, "Q5_K", Packing::Q5_K, 256, 176),
    (14, "Q6_K", Packing::Q6_K, 256, 210),
    (20, "IQ4_NL", Packing::IQ4_NL, 32, 18),
];

/// Types that are not read, so that errors can name them.
const OTHERS: &[(u32, &str)] = &[
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

/// What a number of a type means.
pub(super) fn kind_of(number: u32) -> Kind {
    if let Some((_, name, dtype)) = PLAIN.iter().find(|(known, ..)| *known == number) {
        return Kind::Plain(name, *dtype);
    }
    match PACKED.iter().find(|(known, ..)| *known == number) {
        Some(&(_, name, packing, elements, bytes)) => Kind::Packed(Format { name, packing, elements, bytes }),
        None => match OTHERS.iter().find(|(known, _)| *known == number) {
            Some((_, name)) => Kind::Unknown(name.to_string()),
            None => Kind::Unknown(format!("number {number}")),
        },
    }
}
