//! Which narrow numbers one instruction multiplies and adds up, some for each lane of 32 bits ([`Op::DotProducts`](super::Op)).
//!
//! ```text
//! sums[i] + a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]                 of a *group* of two terms
//! ```
//!
//! A *group* is the neighbouring lanes of the factors that belong to one lane of the sums. Where the group is 1 the op is a product in the wider type: so a kernel has it before
//! its terms become lanes, and writes out what no instruction takes.
//!
//! | kind | factors | sums | group | instructions of x86 |
//! |---|---|---|---|---|
//! | `Bf16` | `bf16`, `bf16` | `f32` | 2 | `vdpbf16ps` |
//! | `I16` | `i16`, `i16` | `i32` | 2 | `pmaddwd`, `vpdpwssd` |
//! | `Bytes` | `u8`, `i8` | `i32` | 4 | `vpdpbusd` |
//!
//! Sums of integers wrap, as those of single products do: no instruction of the table saturates. Of `bf16` the products are exact in `f32`, and each is added by itself, the last of
//! a group first ([`multiply`], Intel's order). A machine may add the products of a group before, and takes what is below the least normal number for zero, of factors (`bf16`'s is
//! 2^-126, that of `f32`) and of sums: so the op stands in reductions alone, whose rounding is left open, and there only where an opt asks for it.
//!
//! Tested: what each instruction gives against [`multiply`] where the machine has it, in the test crate.

use crate::DType;
use crate::dtype::{Scalar, ScalarType};

/// What an instruction multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DotKind {
    /// `bf16` by `bf16`, summed in `f32`.
    Bf16,
    /// `i16` by `i16`, summed in `i32`.
    I16,
    /// `u8` by `i8`, summed in `i32`.
    Bytes,
}

impl DotKind {
    /// Every kind.
    pub const ALL: [DotKind; 3] = [DotKind::Bf16, DotKind::I16, DotKind::Bytes];

    /// The kind for factors and sums of these types, whatever their lanes.
    pub fn of(left: DType, right: DType, sums: DType) -> Option<DotKind> {
        match (left.scalar(), right.scalar(), sums.scalar()) {
            (ScalarType::BF16, ScalarType::BF16, ScalarType::F32) => Some(DotKind::Bf16),
            (ScalarType::I16, ScalarType::I16, ScalarType::I32) => Some(DotKind::I16),
            (ScalarType::U8, ScalarType::I8, ScalarType::I32) => Some(DotKind::Bytes),
            _ => None,
        }
    }

    /// Terms of a group.
    pub fn group(self) -> usize {
        match self {
            DotKind::Bf16 | DotKind::I16 => 2,
            DotKind::Bytes => 4,
        }
    }

    /// The types of the left and the right factor.
    pub fn factors(self) -> [DType; 2] {
        match self {
            DotKind::Bf16 => [DType::BF16, DType::BF16],
            DotKind::I16 => [DType::I16, DType::I16],
            DotKind::Bytes => [DType::U8, DType::I8],
        }
    }

    /// The type of the sums.
    pub fn sums(self) -> DType {
        match self {
            DotKind::Bf16 => DType::F32,
            DotKind::I16 | DotKind::Bytes => DType::I32,
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            DotKind::Bf16 => "bf16",
            DotKind::I16 => "i16",
            DotKind::Bytes => "u8 by i8",
        }
    }
}

/// One lane: its sum and the products of its group, of the kind whose sums are of this type.
pub fn multiply(sum: Scalar, left: &[Scalar], right: &[Scalar], sums: DType) -> Scalar {
    let pairs = left.iter().zip(right);
    if sums.is_float() {
        let add = |sum: f32, (a, b): (&Scalar, &Scalar)| (a.to_f64() as f32).mul_add(b.to_f64() as f32, sum);
        return Scalar::from_f64(f64::from(pairs.rev().fold(sum.to_f64() as f32, add)), sums);
    }
    let total = pairs.fold(sum.to_i64(), |total, (a, b)| total.wrapping_add(a.to_i64() * b.to_i64()));
    Scalar::from_i64(total, DType::I64).cast(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(kind: DotKind, sum: f64, left: &[f64], right: &[f64]) -> f64 {
        let [a, b] = kind.factors();
        let scalars = |numbers: &[f64], dtype: DType| -> Vec<Scalar> {
            numbers.iter().map(|number| Scalar::from_f64(*number, dtype)).collect()
        };
        let sums = kind.sums();
        multiply(Scalar::from_f64(sum, sums), &scalars(left, a), &scalars(right, b), sums).to_f64()
    }

    #[test]
    fn integers_wrap_and_do_not_saturate() {
        let least = f64::from(i16::MIN);
        assert_eq!(dot(DotKind::I16, 0.0, &[least, least], &[least, least]), f64::from(i32::MIN));
        assert_eq!(dot(DotKind::I16, -1.0, &[least, least], &[least, least]), f64::from(i32::MAX));
        assert_eq!(dot(DotKind::Bytes, 7.0, &[255.0; 4], &[-128.0; 4]), 7.0 - 4.0 * 255.0 * 128.0);
    }

    #[test]
    fn floats_are_rounded_once_for_each_product_the_last_one_first() {
        let small = 2f64.powi(-24);
        // 1 + 2^-24 is a tie, to even; twice that is not.
        assert_eq!(dot(DotKind::Bf16, 1.0, &[small, small], &[1.0, 1.0]), 1.0);
        assert_eq!(dot(DotKind::Bf16, 0.0, &[1.0, small], &[1.0, 1.0]), 1.0);
        assert_eq!(dot(DotKind::Bf16, small, &[1.0, small], &[1.0, 1.0]), 1.0 + 2.0 * small);
    }
}
