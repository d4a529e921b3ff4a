//! Promotion: the type in which two operands of different types meet.
//!
//! It is the join of this lattice (the one of JAX and the reference), where a literal is *weak* and takes the other's type:
//!
//! ```text
//! bool < {i8, u8}    i8 < i16 < i32 < i64    u8 < {i16, u16}    u16 < {i32, u32}    u32 < {i64, u64}
//! every integer < {f16, bf16} < f32 < f64
//! ```
//!
//! No integer type holds all of `u64` and of a signed type, and a float would silently lose digits: they do not meet, as in PyTorch. A
//! list of types meets in its floats if it has any, and else in its integers ([`join`]), so the order does not matter.
//!
//! Tested by exhaustion: the join is commutative, associative and idempotent.

use super::{DType, ScalarType};

/// The default type of floating-point literals.
pub const DEFAULT_FLOAT: DType = DType::F32;
/// The default type of integer literals.
pub const DEFAULT_INT: DType = DType::I32;

/// The least type that both `a` and `b` convert to; none of `u64` and a signed integer.
pub fn promote(a: DType, b: DType) -> Option<DType> {
    if a == b || b.is_bool() {
        return Some(a);
    }
    if a.is_bool() {
        return Some(b);
    }
    match (a.is_float(), b.is_float()) {
        (true, true) if a.bytes() == b.bytes() => Some(DType::F32), // f16 with bf16
        (true, true) => Some(wider(a, b)),
        (true, false) => Some(a),
        (false, true) => Some(b),
        (false, false) => promote_integers(a, b),
    }
}

/// The least type that all convert to, or two that have none in common.
///
/// # Errors
/// The first two integer types without a common one, if no float is among the types.
pub fn join(dtypes: impl IntoIterator<Item = DType, IntoIter: Clone>) -> Result<DType, (DType, DType)> {
    let dtypes = dtypes.into_iter();
    let has_float = dtypes.clone().any(DType::is_float);
    let mut joined: Option<DType> = None;
    for dtype in dtypes.filter(|dtype| dtype.is_float() || !has_float) {
        joined = Some(match joined {
            None => dtype,
            Some(before) => promote(before, dtype).ok_or((before, dtype))?,
        });
    }
    Ok(joined.unwrap_or(DEFAULT_FLOAT))
}

fn promote_integers(a: DType, b: DType) -> Option<DType> {
    if a.is_signed() == b.is_signed() {
        return Some(wider(a, b));
    }
    let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
    let needed = match unsigned.bytes() {
        1 => DType::I16,
        2 => DType::I32,
        4 => DType::I64,
        _ => return None,
    };
    Some(wider(signed, needed))
}

fn wider(a: DType, b: DType) -> DType {
    if b.bytes() > a.bytes() { b } else { a }
}

/// The type that a sum of `dtype` accumulates in: bools and integers in `i64` (`u64` in itself), half floats in `f32`.
pub fn accumulate(dtype: DType) -> DType {
    match dtype.scalar() {
        ScalarType::Bool
        | ScalarType::I8
        | ScalarType::I16
        | ScalarType::I32
        | ScalarType::U8
        | ScalarType::U16
        | ScalarType::U32 => DType::I64,
        ScalarType::F16 | ScalarType::BF16 => DType::F32,
        ScalarType::Void
        | ScalarType::Index
        | ScalarType::I64
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
            assert_eq!(promote(a, a), Some(a));
            for b in DType::ALL {
                assert_eq!(promote(a, b), promote(b, a), "{a} {b}");
                assert_eq!(promote(a, b), join([a, b]).ok());
                for c in DType::ALL {
                    let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
                    let joined = orders.map(|order| join(order).ok());
                    assert!(joined.iter().all(|other| *other == joined[0]), "{a} {b} {c}");
                    if let (Some(ab), Some(bc)) = (promote(a, b), promote(b, c)) {
                        assert_eq!(promote(ab, c), promote(a, bc), "{a} {b} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn mixed_signs_meet_in_the_next_signed_type() {
        assert_eq!(promote(DType::U8, DType::I8), Some(DType::I16));
        assert_eq!(promote(DType::U32, DType::I32), Some(DType::I64));
        assert_eq!(promote(DType::U64, DType::I64), None);
        assert_eq!(promote(DType::U64, DType::I8), None);
        assert_eq!(join([DType::U64, DType::I64, DType::F16]), Ok(DType::F16));
        assert_eq!(promote(DType::F16, DType::BF16), Some(DType::F32));
        assert_eq!(promote(DType::I64, DType::F16), Some(DType::F16));
    }
}
