//! Elements combined along axes.
//!
//! `axes` names them, from the end if negative; none named means all. With `keep` they stay with length 1. Sums and products
//! are taken in a wide type ([`accumulate`]): those of bools and integers are `i64` (of `u64` themselves), half floats are rounded back
//! at the end.

use super::by_blocks;
use super::extreme::{Tie, index_of};
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::ops::elementwise::truth;
use crate::ops::math::known;
use crate::ops::{Built, broadcast_to, fail, number, resolve_axes, to_float};
use crate::view::dims::at_most;
use crate::{DType, UOp};

/// Rows of more elements do not stay in scratch memory from one pass over them to the next.
const LONG_ROW: i64 = 1 << 14;

/// The shape with the given axes of length 1.
pub(crate) fn kept_shape(shape: &Shape, axes: &[usize]) -> Shape {
    (0..shape.len()).map(|k| if axes.contains(&k) { Dim::Const(1) } else { shape[k].clone() }).collect()
}

/// Reduced, with the axes kept at length 1 or not.
pub(in crate::ops) fn along(x: &UOp, op: ReduceOp, axes: &[usize], keep: bool) -> UOp {
    let reduced = x.reduce(op, axes);
    if keep { reduced.reshape(kept_shape(x.shape(), axes)) } else { reduced }
}

/// Summed in a type that holds the sum; half floats come back as such.
pub(in crate::ops) fn sum_along(x: &UOp, axes: &[usize], keep: bool) -> UOp {
    accumulated(x, ReduceOp::Add, axes, keep)
}

fn accumulated(x: &UOp, op: ReduceOp, axes: &[usize], keep: bool) -> UOp {
    let wide = along(&x.cast(accumulate(x.dtype())), op, axes, keep);
    if x.dtype().is_float() { wide.cast(x.dtype()) } else { wide }
}

/// Sum; of bools and integers `i64`.
pub fn sum(x: &UOp, axes: &[i64], keep: bool) -> Built {
    Ok(sum_along(x, &resolve_axes(axes, x.shape().len())?, keep))
}

/// Product; of bools and integers `i64`.
pub fn prod(x: &UOp, axes: &[i64], keep: bool) -> Built {
    Ok(accumulated(x, ReduceOp::Mul, &resolve_axes(axes, x.shape().len())?, keep))
}

/// Largest; NaN if there is one. Along one axis the gradient goes to the first such element, along several or all to all of them in
/// equal parts.
pub fn max(x: &UOp, axes: &[i64], keep: bool) -> Built {
    extreme(x, ReduceOp::Max, axes, keep)
}

/// Smallest; NaN if there is one. Gradients as in [`max`].
pub fn min(x: &UOp, axes: &[i64], keep: bool) -> Built {
    extreme(x, ReduceOp::Min, axes, keep)
}

fn extreme(x: &UOp, op: ReduceOp, axes: &[i64], keep: bool) -> Built {
    let is_one = axes.len() == 1;
    let axes = resolve_axes(axes, x.shape().len())?;
    check_not_empty(x, &axes)?;
    let value = along(x, op, &axes, keep);
    Ok(if is_one || !x.dtype().is_float() { value } else { known(Function::EvenExtreme, value, &[x]) })
}

/// The extreme of no elements does not exist, unless the result has no elements either.
fn check_not_empty(x: &UOp, axes: &[usize]) -> Built<()> {
    if let Some(axis) = axes.iter().find(|&&axis| x.shape()[axis].is(0)) {
        fail!("axis {axis} of {} has length 0: of no elements none is largest or smallest", x.shape());
    }
    if let Some(axis) = axes.iter().find(|&&axis| !at_most(&Dim::Const(1), &x.shape()[axis])) {
        let dim = &x.shape()[*axis];
        fail!("axis {axis} of length {dim} may have no elements, of which none is largest or smallest");
    }
    Ok(())
}

/// Whether any is not zero.
pub fn any(x: &UOp, axes: &[i64], keep: bool) -> Built {
    Ok(along(&truth(x), ReduceOp::Max, &resolve_axes(axes, x.shape().len())?, keep))
}

/// Whether all are not zero.
pub fn all(x: &UOp, axes: &[i64], keep: bool) -> Built {
    Ok(along(&truth(x), ReduceOp::Min, &resolve_axes(axes, x.shape().len())?, keep))
}

/// How many elements the axes have, as a number of a float type.
pub(in crate::ops) fn count_of(x: &UOp, axes: &[usize], dtype: DType) -> UOp {
    let count = axes.iter().fold(Dim::Const(1), |total, &axis| &total * &x.shape()[axis]);
    match count {
        Dim::Const(count) => UOp::int(count, dtype),
        Dim::Expr(expr) => expr.cast(dtype),
    }
}

/// Mean; of integers as a float, of no elements NaN.
pub fn mean(x: &UOp, axes: &[i64], keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    Ok(mean_along(&to_float(x), &axes, keep))
}

pub(in crate::ops) fn mean_along(x: &UOp, axes: &[usize], keep: bool) -> UOp {
    let wide = x.cast(accumulate(x.dtype()));
    along(&wide, ReduceOp::Add, axes, keep).div(count_of(x, axes, wide.dtype())).cast(x.dtype())
}

/// Index of the first largest, NaN being the largest; over all elements, counted row-major, when no axis is given.
pub fn argmax(x: &UOp, axis: Option<i64>, keep: bool) -> Built {
    arg_extreme(x, ReduceOp::Max, axis, keep)
}

/// Index of the first smallest, NaN being the smallest; over all elements, counted row-major, when no axis is given.
pub fn argmin(x: &UOp, axis: Option<i64>, keep: bool) -> Built {
    arg_extreme(x, ReduceOp::Min, axis, keep)
}

fn arg_extreme(x: &UOp, op: ReduceOp, axis: Option<i64>, keep: bool) -> Built {
    let axes = match axis {
        Some(axis) => resolve_axes(&[axis], x.shape().len())?,
        None => (0..x.shape().len()).collect(),
    };
    check_not_empty(x, &axes)?;
    let index = index_of(x, op, &axes, None, Tie::First)?;
    let kept = kept_shape(x.shape(), &axes);
    let left: Shape = (0..x.shape().len()).filter(|axis| !axes.contains(axis)).map(|k| x.shape()[k].clone()).collect();
    Ok(index.reshape(if keep { kept } else { left }))
}

/// log of the sum of exponentials, without overflow.
pub fn logsumexp(x: &UOp, axes: &[i64], keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    let x = to_float(x);
    let wide = x.cast(accumulate(x.dtype()));
    let statistics = by_blocks::exponentials(&wide, &axes, LONG_ROW);
    let (largest, is_finite) = match &statistics {
        Some([largest, _]) => finite(&largest.detach().reshape(kept_shape(x.shape(), &axes))),
        None => finite(&along(&wide.detach(), ReduceOp::Max, &axes, true)),
    };
    let shifted = &wide - broadcast_to(&largest, x.shape())?;
    let sum = along(&crate::ops::math::exp(&shifted), ReduceOp::Add, &axes, keep);
    let largest = if keep { largest } else { largest.reshape(sum.shape().clone()) };
    let Some([extreme, known_sum]) = statistics else {
        return Ok((crate::ops::math::log(&sum) + largest).cast(x.dtype()));
    };
    // Relative to an infinity there is no sum.
    let sum = known(Function::Alike, known_sum.reshape(sum.shape().clone()), &[&sum]);
    let value = crate::ops::math::log(&sum) + largest;
    let is_finite = is_finite.reshape(value.shape().clone());
    Ok(is_finite.select(&value, extreme.detach().reshape(value.shape().clone())).cast(x.dtype()))
}

/// The largest along axes, kept, through which no gradient flows; 0 where it is infinite, so that differences from it exist.
pub(super) fn finite_largest(x: &UOp, axes: &[usize]) -> UOp {
    finite(&along(&x.detach(), ReduceOp::Max, axes, true)).0
}

/// The number, or 0 where it is infinite or NaN; and whether it is neither.
fn finite(x: &UOp) -> (UOp, UOp) {
    let is_finite = crate::ops::elementwise::isfinite(x);
    (is_finite.select(x, number(0.0, x)), is_finite)
}

/// Exponentials divided by their sum along an axis.
pub fn softmax(x: &UOp, axis: i64) -> Built {
    softmax_over(x, axis, |shifted, sum| {
        // One division for each sum, not one for each element: vector units divide slowly.
        Ok(crate::ops::math::exp(shifted) * broadcast_to(&crate::ops::elementwise::reciprocal(sum), shifted.shape())?)
    })
}

/// As [`softmax`], but zeros where all are minus infinity.
pub(in crate::ops) fn softmax_or_zero(x: &UOp, axis: i64) -> Built {
    let axes = resolve_axes(&[axis], x.shape().len())?;
    let shifted = x - broadcast_to(&finite_largest(x, &axes), x.shape())?;
    let power = crate::ops::math::exp(&shifted);
    let sum = along(&power, ReduceOp::Add, &axes, true);
    // It is 0 only where all are; else the largest adds 1.
    let sum = sum.equals(&number(0.0, &sum)).select(number(1.0, &sum), &sum);
    Ok(&power * broadcast_to(&crate::ops::elementwise::reciprocal(&sum), x.shape())?)
}

/// Logarithm of [`softmax`], without loss.
pub fn log_softmax(x: &UOp, axis: i64) -> Built {
    softmax_over(x, axis, |shifted, sum| Ok(shifted - broadcast_to(&crate::ops::math::log(sum), shifted.shape())?))
}

/// By what each element is less than the largest, and the sum of powers of e of these differences.
fn softmax_over(x: &UOp, axis: i64, finish: impl FnOnce(&UOp, &UOp) -> Built) -> Built {
    let axes = resolve_axes(&[axis], x.shape().len())?;
    let x = to_float(x);
    let wide = x.cast(accumulate(x.dtype()));
    let statistics = by_blocks::exponentials(&wide, &axes, LONG_ROW);
    let kept = kept_shape(x.shape(), &axes);
    let largest = match &statistics {
        Some([largest, _]) => largest.detach().reshape(kept.clone()),
        None => along(&wide.detach(), ReduceOp::Max, &axes, true),
    };
    let shifted = &wide - broadcast_to(&largest, x.shape())?;
    let sum = along(&crate::ops::math::exp(&shifted), ReduceOp::Add, &axes, true);
    let sum = match statistics {
        Some([_, known_sum]) => known(Function::Alike, known_sum.reshape(kept), &[&sum]),
        None => sum,
    };
    Ok(finish(&shifted, &sum)?.cast(x.dtype()))
}

/// How many are not zero.
pub fn count_nonzero(x: &UOp, axes: &[i64]) -> Built {
    sum(&truth(x), axes, false)
}
