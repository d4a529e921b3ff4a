//! Bits of numbers: as those of another type, and as integers that are in the order of the numbers.
//!
//! Tested with sorting, and by values of PyTorch.

use super::elementwise::isnan;
use super::math::bits_dtype;
use crate::ops::{Built, fail, number};
use crate::{DType, UOp};

/// The same bits as another type of the same width.
pub fn bitcast(x: &UOp, dtype: DType) -> Built {
    if x.dtype().bytes() != dtype.bytes() {
        fail!(
            "{} has {} bytes and {dtype} has {}: only types of one width share bits",
            x.dtype(),
            x.dtype().bytes(),
            dtype.bytes()
        );
    }
    if x.dtype().is_bool() != dtype.is_bool() {
        // A bool's byte is 0 or 1; a byte that is neither would be no bool.
        let bytes = if dtype.is_bool() {
            x.bitcast(DType::U8).differs(&UOp::int(0, DType::U8))
        } else {
            x.cast(DType::U8).bitcast(dtype)
        };
        return Ok(bytes);
    }
    Ok(x.bitcast(dtype))
}

/// The bits of a float as the signed integer of its width, ordered as the floats are, NaN (of either sign) above all: so that
/// sorting can compare integers.
pub(in crate::ops) fn order_key(x: &UOp) -> UOp {
    let bits = bits_dtype(x.dtype());
    // -0.0 and 0.0 are one value.
    let x = &x.equals(&number(0.0, x)).select(number(0.0, x), x);
    let raw = x.bitcast(bits);
    let highest = UOp::int(bits.integer_bounds().map_or(i64::MAX, |bounds| bounds.1), bits);
    let ordered = raw.lt(&UOp::int(0, bits)).select(raw.xor(&highest), &raw);
    isnan(x).select(highest, ordered)
}
