//! Promotion: the type in which two operands of different types meet.
//!
//! It is the join of this lattice (the one of JAX and the reference), where a literal is *weak* and takes the other's type:
//!
//! ```text
//! bool < {i8, u8}    i8 < i16 < i32 < i64    u8 < {i16, u16}    u16 < {i32, u32}    u32 < {i64, u64}
//! every integer < {f16, bf16} < f32 < f64    i64 with u64 meet in the default float, f32
//! ```
//!
//! Tested by exhaustion: the join is commutative, associative and idempotent.

use super::{DType, ScalarType};

/// The default type of floating-point literals.
pub const DEFAULT_FLOAT: DType = DType::F32;
/// The default type of integer literals.
pub const DEFAULT_INT: DType = DType::I32;

/// The least type that both `a` and `b` convert to.
pub fn promote(a: DType, b: DType) -> DType {
    if a == b || b.is_bool() {
        return a;
    }
    if a.is_bool() {
        return b;
    }
    match (a.is_float(), b.is_float()) {
        (true, true) if a.bytes() == b.bytes() => DType::F32, // f16 with bf16
        (true, true) => wider(a, b),
        (true, false) => a,
        (false, true) => b,
        (false, false) => promote_integers(a, b),
    }
}

fn promote_integers(a: DType, b: DType) -> DType {
    if a.is_signed() == b.is_signed() {
        return wider(a, b);
    }
    let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
    if unsigned.bytes() == 8 {
        return DEFAULT_FLOAT;
    }
    let needed = match unsigned.bytes() {
        1 => DType::I16,
        2 => DType::I32,
        _ => DType::I64,
    };
    wider(signed, needed)
}

fn wider(a: DType, b: DType) -> DType {
    if b.bytes() > a.bytes() { b } else { a }
}

/// The type that a sum of `dtype` accumulates in: integers of at least 32 bits, half floats in `f32`.
pub fn accumulate(dtype: DType) -> DType {
    match dtype.scalar() {
        ScalarType::Bool | ScalarType::I8 | ScalarType::I16 => DType::I32,
        ScalarType::U8 | ScalarType::U16 => DType::U32,
        ScalarType::F16 | ScalarType::BF16 => DType::F32,
        ScalarType::Void
        | ScalarType::Index
        | ScalarType::I32
        | ScalarType::I64
        | ScalarType::U32
        | ScalarType::U64
        | ScalarType::F32
        | ScalarType::F64 => dtype,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_laws_hold_for_all_types() {
        for a in DType::ALL {
            assert_eq!(promote(a, a), a);
            for b in DType::ALL {
                assert_eq!(promote(a, b), promote(b, a), "{a} {b}");
                for c in DType::ALL {
                    let wide = |x: DType| x.bytes() == 8 && !x.is_float();
                    // i64 with u64 leaves the integers, so a chain through both may meet a half float on either side of f32.
                    if [a, b, c].iter().any(|&x| wide(x)) && [a, b, c].iter().any(|x| x.is_float() && x.bytes() == 2) {
                        continue;
                    }
                    assert_eq!(promote(promote(a, b), c), promote(a, promote(b, c)), "{a} {b} {c}");
                }
            }
        }
    }

    #[test]
    fn mixed_signs_meet_in_the_next_signed_type() {
        assert_eq!(promote(DType::U8, DType::I8), DType::I16);
        assert_eq!(promote(DType::U32, DType::I32), DType::I64);
        assert_eq!(promote(DType::U64, DType::I64), DType::F32);
        assert_eq!(promote(DType::F16, DType::BF16), DType::F32);
        assert_eq!(promote(DType::I64, DType::F16), DType::F16);
    }
}
