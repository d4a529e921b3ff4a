//! Where the largest or smallest element stands: what argmax, the indices of pooling, and gradients by index ask.
//!
//! A value that is computed is never compared with an extreme that was computed elsewhere: if the two were rounded in another way, no element
//! would be the extreme. So value and index are reduced together, as one state; and where there are more elements than indices can count, values
//! are stored first, and compared as they lie in memory.
//!
//! NaN is both largest and smallest, and 0 and -0 are one value. Tested by the conformance cases and by `tests/it/edges.rs`.

use super::reduce::{along, kept_shape};
use crate::ir::{Combiner, Op, ReduceOp, Shape};
use crate::ops::create::{positions, without_own};
use crate::ops::elementwise::isnan;
use crate::ops::{Built, broadcast_to, fail};
use crate::{DType, UOp};

/// Which of equal elements counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The first, row-major.
    First,
    /// The last, row-major.
    Last,
}

/// The index of each element among those along some axes, counted row-major; `i32`.
///
/// # Errors
/// If there are more of them than `i32` counts.
pub fn indices_along(shape: &Shape, axes: &[usize]) -> Built {
    let count = axes.iter().fold(1i64, |count, &axis| count.saturating_mul(shape[axis].max_value().max(1)));
    if count > i32::MAX as i64 {
        fail!("{count} elements are too many: their indices are i32");
    }
    let along = |axis: usize| positions(shape, axis).cast(DType::I32);
    let mut axes = axes.iter().copied();
    let Some(first) = axes.next() else { return Ok(UOp::int(0, DType::I32)) };
    Ok(axes.fold(along(first), |index, axis| index * shape[axis].to_uop().cast(DType::I32) + along(axis)))
}

/// The index of the extreme element among those along the axes, which stay with length 1; `i32`. Where a mask is given, only elements
/// for which it holds count, and some do.
///
/// # Errors
/// As [`indices_along`].
pub fn index_of(x: &UOp, op: ReduceOp, axes: &[usize], inside: Option<&UOp>, tie: Tie) -> Built {
    let indices = indices_along(x.shape(), axes)?;
    let combiner = match (op == ReduceOp::Max, tie) {
        (true, Tie::First) => Combiner::ArgMaxFirst,
        (true, Tie::Last) => Combiner::ArgMaxLast,
        (false, Tie::First) => Combiner::ArgMinFirst,
        (false, Tie::Last) => Combiner::ArgMinLast,
    };
    let indices = if indices.shape() == x.shape() { indices } else { broadcast_to(&indices, x.shape())? };
    let state = [x.detach(), indices].into_iter().enumerate().map(|(number, value)| {
        let blank = || UOp::constant(combiner.identity(number, value.dtype()), value.dtype());
        inside.map_or_else(|| value.clone(), |inside| inside.select(&value, blank()))
    });
    let mut outcome = UOp::reduce_states(combiner, &state.collect::<Vec<UOp>>(), axes);
    Ok(outcome.swap_remove(1).reshape(kept_shape(x.shape(), axes)))
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

/// The same elements, of which what is computed is stored: whoever reads them twice reads the same.
pub fn stored_once(x: &UOp) -> UOp {
    let mut chain = Vec::new();
    let mut base = x;
    while base.op().is_movement() {
        chain.push((base.op(), base.arg().clone()));
        base = &base.src()[0];
    }
    let mut leaf = without_own(base);
    while leaf.op().is_movement() {
        leaf = &leaf.src()[0];
    }
    if matches!(leaf.op(), Op::Buffer | Op::Param | Op::Const | Op::Iota | Op::Contiguous) {
        return x.clone();
    }
    chain.reverse();
    base.contiguous().through(&chain)
}

/// One number along the axes, again in the shape that they went away from.
pub fn spread_back(reduced: &UOp, shape: &Shape, axes: &[usize]) -> UOp {
    reduced.reshape(kept_shape(shape, axes)).expand(shape.clone())
}
