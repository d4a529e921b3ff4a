//! Elements written to positions that a tensor of integers names.
//!
//! One pass over the sources, in order: where several name one position, the last wins in [`scatter`]; [`scatter_reduce`] combines them.
//! Indices out of range write nothing.
//!
//! Always: linear in the elements and sources; the same program gives the same bits. Tested by the conformance cases, and against lists by
//! the test crate.

use super::indexing::check_index;
use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::ReduceOp;
use crate::ops::create::full_like;
use crate::ops::{Built, fail, resolve_axis};
use crate::view::dims::at_most;

/// How several values for one element become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduce {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean.
    Mean,
    /// The largest.
    Amax,
    /// The smallest.
    Amin,
}

/// The axis, and of the source what the index names.
fn checked(x: &UOp, axis: i64, index: &UOp, source: &UOp) -> Built<(usize, UOp)> {
    check_index(index)?;
    let rank = x.shape().len();
    if index.shape().len() != rank || source.shape().len() != rank {
        fail!("x {}, index {} and source {} differ in their number of axes", x.shape(), index.shape(), source.shape());
    }
    if rank == 0 {
        fail!("x has no axis to scatter along");
    }
    let axis = resolve_axis(axis, rank)?;
    if index.shape() == source.shape() && (0..rank).all(|k| k == axis || index.shape()[k] == x.shape()[k]) {
        return Ok((axis, source.clone()));
    }
    let (lengths, named, given) = (x.shape(), index.shape(), source.shape());
    let fits = |k: &usize| at_most(&named[*k], &given[*k]) && (*k == axis || at_most(&named[*k], &lengths[*k]));
    if let Some(k) = (0..rank).find(|k| !fits(k)) {
        fail!(
            "the index {} is longer than x {} or the source {} in axis {k}",
            index.shape(),
            x.shape(),
            source.shape()
        );
    }
    let used: Vec<_> = named.iter().map(|len| (0.into(), len.clone())).collect();
    Ok((axis, source.shrink(&used)))
}

/// x with `source[i][j]` written to `x[index[i][j]][j]` (along axis 0).
pub fn scatter(x: &UOp, axis: i64, index: &UOp, source: &UOp) -> Built {
    let (axis, source) = checked(x, axis, index, source)?;
    Ok(x.scatter(index, &source.cast(x.dtype()), None, axis))
}

/// x with all sources for an element combined, and with what was there unless `include_self` is false. All that hold an extreme share its
/// gradient.
pub fn scatter_reduce(
    x: &UOp,
    axis: i64,
    index: &UOp,
    source: &UOp,
    reduce: ScatterReduce,
    include_self: bool,
) -> Built {
    let (axis, source) = checked(x, axis, index, source)?;
    let op = match reduce {
        ScatterReduce::Sum | ScatterReduce::Mean => ReduceOp::Add,
        ScatterReduce::Prod => ReduceOp::Mul,
        ScatterReduce::Amax => ReduceOp::Max,
        ScatterReduce::Amin => ReduceOp::Min,
    };
    let wide = if matches!(op, ReduceOp::Add | ReduceOp::Mul) { accumulate(x.dtype()) } else { x.dtype() };
    let (x_wide, source) = (x.cast(wide), source.cast(wide));
    let ones = |like: &UOp| full_like(like, 1);
    let begin = if include_self {
        x_wide.clone()
    } else {
        let flags = |value: &UOp, is_set: bool| full_like(&value.cast(crate::DType::BOOL), is_set as i64);
        let touched = flags(x, false).scatter(index, &flags(&source, true), None, axis);
        touched.select(&UOp::constant(op.identity(wide), wide), &x_wide)
    };
    let combined = begin.scatter(index, &source, Some(op), axis);
    let result = match reduce {
        ScatterReduce::Mean => {
            let own = full_like(&x_wide, include_self as i64);
            let count = own.scatter(index, &ones(&source), Some(ReduceOp::Add), axis);
            let count = count.max(count.const_like(1));
            if wide.is_float() { combined.div(count) } else { combined.idiv(count) }
        }
        ScatterReduce::Sum | ScatterReduce::Prod | ScatterReduce::Amax | ScatterReduce::Amin => combined,
    };
    Ok(result.cast(x.dtype()))
}
