//! Spread and size: variance, standard deviation, norms, normalised vectors.

use super::elementwise::{abs, truth};
use super::power::pow;
use super::reduce::{along, count_of, mean_along, sum_along};
use super::{Built, broadcast_to, number, resolve_axes, to_float};
use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::ReduceOp;

/// Variance with `count - correction` as the divisor; half floats are computed in `f32`.
pub fn var(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let x = to_float(x);
    Ok(wide_variance(&x, axes, correction, keep)?.cast(x.dtype()))
}

/// Square root of the variance.
pub fn std(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let x = to_float(x);
    Ok(wide_variance(&x, axes, correction, keep)?.sqrt().cast(x.dtype()))
}

/// Mean of squared distances from the mean: two passes, so that nothing cancels.
fn wide_variance(x: &UOp, axes: &[i64], correction: i64, keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    let wide = x.cast(accumulate(x.dtype()));
    let distance = &wide - broadcast_to(&mean_along(&wide, &axes, true), x.shape())?;
    let divisor = count_of(x, &axes, wide.dtype()) - number(correction as f64, &wide);
    let sum = along(&(&distance * &distance), ReduceOp::Add, &axes, keep);
    Ok(sum.div(divisor.max(number(0.0, &wide))))
}

/// The p-norm: 0 counts what is not zero, 1 sums magnitudes, 2 is length, infinities give the extremes.
pub fn norm(x: &UOp, order: f64, axes: &[i64], keep: bool) -> Built {
    let axes = resolve_axes(axes, x.shape().len())?;
    let x = to_float(x);
    let wide = x.cast(accumulate(x.dtype()));
    let size = abs(&wide);
    let result = match order {
        0.0 => along(&truth(&wide).cast(wide.dtype()), ReduceOp::Add, &axes, keep),
        1.0 => along(&size, ReduceOp::Add, &axes, keep),
        2.0 => along(&(&wide * &wide), ReduceOp::Add, &axes, keep).sqrt(),
        f64::INFINITY => along(&size, ReduceOp::Max, &axes, keep),
        f64::NEG_INFINITY => along(&size, ReduceOp::Min, &axes, keep),
        _ => {
            let sum = sum_along(&pow(&size, &number(order, &wide))?, &axes, keep);
            pow(&sum, &number(1.0 / order, &wide))?
        }
    };
    Ok(result.cast(x.dtype()))
}

/// Divided by the p-norm along an axis, or by `eps` where that is smaller.
pub fn normalize(x: &UOp, order: f64, axis: i64, eps: f64) -> Built {
    let x = to_float(x);
    let size = norm(&x, order, &[axis], true)?;
    let size = size.max(number(eps, &x));
    Ok(x.div(broadcast_to(&size, x.shape())?))
}
