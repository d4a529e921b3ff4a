//! Spread and size: variance, standard deviation, norms, normalised vectors.

use super::by_blocks;
use super::reduce::{along, count_of, mean_along};
use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Function, ReduceOp};
use crate::ops::elementwise::{abs, truth};
use crate::ops::math::known;
use crate::ops::movement::shrink_axis;
use crate::ops::power::pow;
use crate::ops::{Built, broadcast_to, number, resolve_axes, to_float};
use crate::view::dims::at_most;

/// More elements than this do not stay in the nearest cache from one pass over them to the next.
const LONG: i64 = 1 << 12;

/// Variance with `count - correction` as the divisor; half floats are computed in `f32`.
pub fn var(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let x = to_float(x);
    Ok(wide_variance(&x, axes, correction, keep)?.cast(x.dtype()))
}

/// Square root of the variance. Of equal numbers it is 0, and has no gradient.
pub fn std(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let x = to_float(x);
    Ok(root(&wide_variance(&x, axes, correction, keep)?).cast(x.dtype()))
}

/// Square root of a sum of squares, with derivative 0 where that is 0.
fn root(squares: &UOp) -> UOp {
    known(Function::Root, squares.sqrt(), &[squares])
}

/// Mean of squared distances from the mean: two passes, so that nothing cancels, over blocks of long rows. Numbers are taken relative to the first of them, so that
/// equal ones have variance 0 however their mean is rounded.
fn wide_variance(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    let wide = x.cast(accumulate(x.dtype()));
    let has_first = axes.iter().all(|&axis| at_most(&Dim::Const(1), &x.shape()[axis]));
    let first = axes.iter().fold(wide.detach(), |x, &axis| if has_first { shrink_axis(&x, axis, 0, 1) } else { x });
    let wide = if has_first { &wide - broadcast_to(&first, x.shape())? } else { wide };
    let mut mean = mean_along(&wide, &axes, true);
    let moments = by_blocks::moments(&wide, &axes, LONG);
    if let Some([known_mean, _]) = &moments {
        mean = known(Function::Alike, known_mean.reshape(mean.shape().clone()), &[&mean]);
    }
    let distance = &wide - broadcast_to(&mean, x.shape())?;
    let divisor = count_of(x, &axes, wide.dtype()) - number(correction as f64, &wide);
    let mut sum = along(&(&distance * &distance), ReduceOp::Add, &axes, keep);
    if let Some([_, squares]) = &moments {
        sum = known(Function::Alike, squares.reshape(sum.shape().clone()), &[&sum]);
    }
    Ok(sum.div(divisor.max(number(0.0, &wide))))
}

/// The p-norm: 0 counts what is not zero, 1 sums magnitudes, 2 is length, infinities give the extremes. Zeros get no gradient.
pub fn norm(x: &UOp, order: f64, axes: &[i64], keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    let x = to_float(x);
    let wide = x.cast(accumulate(x.dtype()));
    let size = abs(&wide);
    let extreme = |op: ReduceOp| known(Function::EvenExtreme, along(&size, op, &axes, keep), &[&size]);
    let result = match order {
        0.0 => along(&truth(&wide).cast(wide.dtype()), ReduceOp::Add, &axes, keep),
        1.0 => along(&size, ReduceOp::Add, &axes, keep),
        2.0 => root(&along(&(&wide * &wide), ReduceOp::Add, &axes, keep)),
        f64::INFINITY => extreme(ReduceOp::Max),
        f64::NEG_INFINITY => extreme(ReduceOp::Min),
        _ => power_norm(&size, order, &axes, keep)?,
    };
    Ok(result.cast(x.dtype()))
}

/// (sum of sizes^order)^(1 / order). Powers of zero are put in their place, so that no infinite derivative meets a 0.
fn power_norm(size: &UOp, order: f64, axes: &[usize], keep: bool) -> Built {
    let (zero, one) = (number(0.0, size), number(1.0, size));
    let is_zero = size.equals(&zero);
    let power = pow(&is_zero.select(&one, size), &number(order, size))?;
    let of_zero = number(if order > 0.0 { 0.0 } else { f64::INFINITY }, size);
    let sum = along(&is_zero.select(of_zero, power), ReduceOp::Add, axes, keep);
    let exponent = number(1.0 / order, size);
    if order < 0.0 {
        return pow(&sum, &exponent);
    }
    let none = sum.equals(&zero);
    Ok(none.select(&zero, pow(&none.select(&one, &sum), &exponent)?))
}

/// Divided by the p-norm along an axis, or by `eps` where that is smaller.
pub fn normalize(x: &UOp, order: f64, axis: i64, eps: f64) -> Built {
    let x = to_float(x);
    let size = norm(&x, order, &[axis], true)?;
    let size = size.max(number(eps, &x));
    Ok(x.div(broadcast_to(&size, x.shape())?))
}
