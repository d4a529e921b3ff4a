//! Ops that combine elements along axes: sums and the like, extremes, scans, sorting.

use super::super::call::{Call, Done, all, one, resolve};
use super::super::error::Failure;
use super::super::error::wrong;
use super::Op;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("ReduceL1", |call| reduced(call, |x, axes| x.abs().sum_keepdim(axes))),
    ("ReduceL2", |call| reduced(call, |x, axes| x.square().sum_keepdim(axes).sqrt())),
    ("ReduceLogSum", |call| reduced(call, |x, axes| x.sum_keepdim(axes).log())),
    ("ReduceLogSumExp", |call| reduced(call, |x, axes| x.logsumexp_keepdim(axes))),
    ("ReduceMax", |call| extreme(call, true)),
    ("ReduceMean", |call| reduced(call, |x, axes| x.mean_keepdim(axes))),
    ("ReduceMin", |call| extreme(call, false)),
    ("ReduceProd", |call| reduced(call, |x, axes| x.prod_keepdim(axes))),
    ("ReduceSum", |call| reduced(call, |x, axes| x.sum_keepdim(axes))),
    ("ReduceSumSquare", |call| reduced(call, |x, axes| x.square().sum_keepdim(axes))),
    ("ArgMax", |call| index_of_extreme(call, |x, axis| x.argmax(Some(axis), true))),
    ("ArgMin", |call| index_of_extreme(call, |x, axis| x.argmin(Some(axis), true))),
    ("CumSum", |call| scan(call, 0, |x, axis| x.cumsum(axis))),
    ("CumProd", |call| scan(call, 1, |x, axis| x.cumprod(axis))),
    ("TopK", top_k),
];

/// The axes of an op, an input or an attribute. None where nothing is done.
fn axes_of(call: &Call<'_>) -> Result<Option<Vec<i64>>, Failure> {
    let rank = call.rank(0)?;
    let given = match (call.integers_if(1)?, call.ints("axes")?) {
        (Some(axes), _) => Some(axes),
        (None, Some(axes)) => Some(axes.to_vec()),
        (None, None) => None,
    };
    match given {
        Some(axes) if !axes.is_empty() => {
            let axes = axes.iter().map(|&axis| resolve(axis, rank).map(|axis| axis as i64));
            axes.collect::<Result<Vec<i64>, Failure>>().map(Some)
        }
        _ if call.flag("noop_with_empty_axes")? => Ok(None),
        _ => Ok(Some((0..rank as i64).collect())),
    }
}

/// Reduced along the axes, with the input's type.
fn reduced(call: &Call<'_>, function: impl Fn(&Tensor, &[i64]) -> Tensor) -> Done {
    let x = call.tensor(0)?;
    let dtype = x.dtype()?;
    let Some(axes) = axes_of(call)? else {
        // Each element by itself.
        let one_each = function(&x.unsqueeze(-1), &[-1]);
        return one(one_each.squeeze(-1).cast(dtype));
    };
    if axes.is_empty() {
        return one(function(&x.reshape([1i64]), &[0]).reshape([0i64; 0]).cast(dtype));
    }
    let kept = function(x, &axes).cast(dtype);
    one(if call.int_or("keepdims", 1)? != 0 { kept } else { kept.squeeze(axes) })
}

/// The largest or smallest; of nothing, what any number is larger or smaller than.
fn extreme(call: &Call<'_>, largest: bool) -> Done {
    let dtype = call.tensor(0)?.dtype()?;
    reduced(call, |x, axes| {
        // A variable length counts as its most: it is no axis without elements.
        let Ok(shape) = x.shape() else { return x.clone() };
        let reduced =
            |axis: usize| axes.iter().any(|&other| other == axis as i64 || other + shape.len() as i64 == axis as i64);
        if (0..shape.len()).any(|axis| reduced(axis) && shape[axis] == 0) {
            let kept: Vec<usize> =
                shape.iter().enumerate().map(|(axis, &length)| if reduced(axis) { 1 } else { length }).collect();
            let end = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
            return match dtype.integer_bounds() {
                None => Tensor::full_of(kept, end, dtype),
                Some((low, high)) if dtype.is_integer() => {
                    Tensor::full_of(kept, if largest { low } else { high }, dtype)
                }
                Some(_) => Tensor::full_of(kept, !largest, dtype),
            };
        }
        let wide = if dtype == DType::BOOL { x.cast(DType::U8) } else { x.clone() };
        if largest { wide.max_keepdim(axes) } else { wide.min_keepdim(axes) }
    })
}

fn index_of_extreme(call: &Call<'_>, function: impl Fn(&Tensor, i64) -> Tensor) -> Done {
    let x = call.tensor(0)?;
    let axis = resolve(call.int_or("axis", 0)?, x.rank()?)? as i64;
    let found = if call.flag("select_last_index")? {
        let last = call.lengths(0)?[axis as usize] - 1;
        last - function(&x.flip(axis), axis)
    } else {
        function(x, axis)
    };
    let found = found.cast(DType::I64);
    one(if call.int_or("keepdims", 1)? != 0 { found } else { found.squeeze(axis) })
}

/// A running reduction: `start` stands before all elements.
fn scan(call: &Call<'_>, start: i64, function: impl Fn(&Tensor, i64) -> Tensor) -> Done {
    let (x, axis) = (call.tensor(0)?, call.integer(1)?);
    let rank = x.rank()?;
    let axis = resolve(axis, rank)? as i64;
    let (reverse, exclusive) = (call.flag("reverse")?, call.flag("exclusive")?);
    let turned = if reverse { x.flip(axis) } else { x.clone() };
    let mut result = function(&turned, axis).cast(x.dtype()?);
    if exclusive {
        let length = call.lengths(0)?[axis as usize];
        let mut padding = vec![(0i64, 0i64); rank];
        padding[axis as usize] = (1, 0);
        result = result.pad_with(&padding, start).narrow(axis, 0i64, length);
    }
    one(if reverse { result.flip(axis) } else { result })
}

fn top_k(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let k = match call.int("k")? {
        Some(k) => k,
        None => call.integer(1)?,
    };
    let axis = resolve(call.int_or("axis", -1)?, x.rank()?)? as i64;
    let length = call.lengths(0)?[axis as usize];
    if !(0..=length).contains(&k) {
        wrong!("k is {k}, and must lie from 0 to {length}, the length of axis {axis}");
    }
    let (values, indices) = x.topk(k, axis, call.int_or("largest", 1)? != 0)?;
    all([values, indices.cast(DType::I64)])
}
