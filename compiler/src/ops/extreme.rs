//! Where the largest or smallest element stands: what argmax, the indices of pooling, and gradients by index ask.
//!
//! A value that is computed is never compared with an extreme that was computed elsewhere: if the two were rounded in another way, no element
//! would be the extreme. So value and place are folded as one number where they fit 64 bits, the value above the place; and wider values are
//! stored first, and compared as they lie in memory.
//!
//! NaN is both largest and smallest, and 0 and -0 are one value. Tested by the conformance cases and by `tests/it/edges.rs`.

use super::create::positions;
use super::elementwise::{isnan, order_key};
use super::reduce::{along, kept_shape};
use super::{Built, broadcast_to, fail};
use crate::dtype::Scalar;
use crate::ir::{Op, ReduceOp, Shape};
use crate::{DType, UOp};

/// Which of equal elements counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The first, row-major.
    First,
    /// The last, row-major.
    Last,
}

/// The place of each element among those along some axes, counted row-major; `i32`.
///
/// # Errors
/// If there are more of them than `i32` counts.
pub fn places_along(shape: &Shape, axes: &[usize]) -> Built {
    let count = axes.iter().fold(1i64, |count, &axis| count.saturating_mul(shape[axis].max_value().max(1)));
    if count > i32::MAX as i64 {
        fail!("{count} elements are too many: their places are i32");
    }
    let along = |axis: usize| positions(shape, axis).cast(DType::I32);
    let mut axes = axes.iter().copied();
    let Some(first) = axes.next() else { return Ok(UOp::int(0, DType::I32)) };
    Ok(axes.fold(along(first), |place, axis| place * shape[axis].to_uop().cast(DType::I32) + along(axis)))
}

/// The place of the extreme element among those along the axes, which stay with length 1; `i32`. Where a mask is given, only elements
/// for which it holds count, and some do.
///
/// # Errors
/// As [`places_along`].
pub fn place_of(x: &UOp, op: ReduceOp, axes: &[usize], inside: Option<&UOp>, tie: Tie) -> Built {
    let places = places_along(x.shape(), axes)?;
    let is_max = op == ReduceOp::Max;
    // What is folded is extreme for the element that counts: so of equal ones the later is larger, or the other way round.
    let is_reversed = (tie == Tie::First) == is_max;
    let last = UOp::int(i32::MAX as i64, DType::I32);
    let rank = if is_reversed { &last - &places } else { places };
    let folded = match value_key(x, op) {
        Some(key) => {
            let both = key.shl(32).or(&rank.cast(DType::I64));
            let low = along(&masked(&both, op, inside), op, axes, true).and(UOp::int(u32::MAX as i64, DType::I64));
            low.cast(DType::I32)
        }
        None => {
            let holds = ties(x, op, axes, inside)?;
            along(&masked(&rank, op, Some(&holds)), op, axes, true)
        }
    };
    Ok(if is_reversed { last - folded } else { folded })
}

/// Which elements hold the extreme value of those along the axes.
///
/// # Errors
/// If the shapes are no shapes of one tensor.
pub fn ties(x: &UOp, op: ReduceOp, axes: &[usize], inside: Option<&UOp>) -> Built {
    let x = stored_once(x);
    let best = broadcast_to(&along(&masked(&x, op, inside), op, axes, true), x.shape())?;
    let equal = x.equals(&best);
    let holds = if x.dtype().is_float() { equal.or(&isnan(&x).and(&isnan(&best))) } else { equal };
    Ok(inside.map_or(holds.clone(), |inside| inside.and(&holds)))
}

/// What is not inside is what the reduction begins with.
fn masked(x: &UOp, op: ReduceOp, inside: Option<&UOp>) -> UOp {
    let blank = || UOp::constant(op.identity(x.dtype()), x.dtype());
    inside.map_or_else(|| x.clone(), |inside| inside.select(x, blank()))
}

/// The order of the elements as `i64` that fit 32 bits, NaN at the end that the reduction looks for; none of 64-bit types.
fn value_key(x: &UOp, op: ReduceOp) -> Option<UOp> {
    let dtype = x.dtype();
    if dtype.bytes() == 8 {
        return None;
    }
    if dtype == DType::U32 {
        return Some(x.cast(DType::I64) - UOp::int(1 << 31, DType::I64));
    }
    if !dtype.is_float() {
        return Some(x.cast(DType::I64));
    }
    let key = order_key(x);
    let key = match op {
        ReduceOp::Min => isnan(x).select(UOp::constant(Scalar::lowest(key.dtype()), key.dtype()), &key),
        ReduceOp::Max | ReduceOp::Add | ReduceOp::Mul => key,
    };
    Some(key.cast(DType::I64))
}

/// The same elements, of which what is computed is stored: whoever reads them twice reads the same.
pub fn stored_once(x: &UOp) -> UOp {
    let mut chain = Vec::new();
    let mut base = x;
    while base.op().is_movement() {
        chain.push((base.op(), base.arg().clone()));
        base = &base.src()[0];
    }
    if matches!(base.op(), Op::Buffer | Op::Param | Op::Const | Op::Iota | Op::Contiguous) {
        return x.clone();
    }
    chain.reverse();
    base.contiguous().through(&chain)
}

/// One number along the axes, again in the shape that they went away from.
pub fn spread_back(reduced: &UOp, shape: &Shape, axes: &[usize]) -> UOp {
    reduced.reshape(kept_shape(shape, axes)).expand(shape.clone())
}
