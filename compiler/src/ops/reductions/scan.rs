//! Running sums, products, extremes and log-sums along an axis.
//!
//! One pass over each line, in order. A few long lines are cut into blocks, which are scanned side by side and joined by a scan of the
//! blocks' totals.
//!
//! Always: linear in the elements. Tested by the conformance cases and against lists by the test crate.

use crate::dtype::Scalar;
use crate::dtype::lattice::accumulate;
use crate::ir::{Combiner, Dim, ReduceOp};
use crate::ops::elementwise::{isfinite, isnan};
use crate::ops::math::{exp, log};
use crate::ops::movement::{insert_axis, move_axis, shrink_axis};
use crate::ops::padding::pad_with;
use crate::ops::reduce::along;
use crate::ops::shapes::concrete_axis;
use crate::ops::{Built, broadcast_to, number, resolve_axis, to_float};
use crate::{DType, UOp};

/// Lines so long are cut into blocks where there are few of them.
const LONG: i64 = 1 << 16;
/// Blocks of a long line: enough for the threads of most machines.
const BLOCKS: i64 = 64;
/// So many lines are work enough for threads without cutting them.
const FEW_LINES: i64 = 16;

/// Running sum; integers as in `sum`, but for `i32`, which stays: positions are counted in it.
pub fn cumsum(x: &UOp, axis: i64) -> Built {
    accumulated(x, ReduceOp::Add, axis)
}

/// Running product; integers as in `cumsum`.
pub fn cumprod(x: &UOp, axis: i64) -> Built {
    accumulated(x, ReduceOp::Mul, axis)
}

fn accumulated(x: &UOp, op: ReduceOp, axis: i64) -> Built {
    let dtype = if x.dtype() == DType::I32 { DType::I32 } else { accumulate(x.dtype()) };
    // The scan itself adds floats in a wider type and rounds each result once.
    scan(&if x.dtype().is_float() { x.clone() } else { x.cast(dtype) }, Way::By(op), axis)
}

/// Largest so far; NaN from the first NaN on. The gradient goes to the latest such element.
pub fn cummax(x: &UOp, axis: i64) -> Built {
    scan(x, Way::By(ReduceOp::Max), axis)
}

/// Smallest so far; NaN from the first NaN on. The gradient goes to the latest such element.
pub fn cummin(x: &UOp, axis: i64) -> Built {
    scan(x, Way::By(ReduceOp::Min), axis)
}

/// How elements are combined with those before them.
#[derive(Clone, Copy)]
enum Way {
    By(ReduceOp),
    LogSum,
}

impl Way {
    fn scan(self, x: &UOp, axis: usize) -> UOp {
        match self {
            Way::By(op) => x.scan(op, axis),
            Way::LogSum => x.scan_states(Combiner::LogSumExp, axis),
        }
    }

    /// What changes nothing.
    fn identity(self, dtype: DType) -> Scalar {
        match self {
            Way::By(op) => op.identity(dtype),
            Way::LogSum => Scalar::lowest(dtype),
        }
    }
}

fn scan(x: &UOp, way: Way, axis: i64) -> Built {
    if x.shape().is_empty() {
        crate::ops::resolve_axes(&[axis], 0)?;
        return Ok(x.clone());
    }
    let axis = resolve_axis(axis, x.shape().len())?;
    let lengths = x.shape().as_const();
    let is_long =
        |lengths: &[i64]| lengths[axis] >= LONG && lengths.iter().product::<i64>() / lengths[axis] < FEW_LINES;
    if !lengths.is_some_and(|lengths| is_long(&lengths)) {
        return Ok(way.scan(x, axis));
    }
    let last = x.shape().len() - 1;
    Ok(move_axis(&scan_by_blocks(&move_axis(x, axis, last), way)?, last, axis))
}

/// Along the last axis, which is long.
fn scan_by_blocks(x: &UOp, way: Way) -> Built {
    let axis = x.shape().len() - 1;
    let len = concrete_axis(x, axis)?;
    let blocks = even_blocks(len).unwrap_or(BLOCKS);
    let block = (len - 1) / blocks + 1;
    let blocks = (len - 1) / block + 1;
    let mut padding = vec![(0, 0); axis + 1];
    padding[axis] = (0, blocks * block - len);
    let mut cut = x.shape().to_vec();
    cut[axis] = blocks.into();
    cut.push(block.into());
    let whole = pad_with(x, &padding, way.identity(x.dtype())).reshape(cut.clone());
    let inside = way.scan(&whole, axis + 1);
    let totals = match way {
        Way::By(op) => along(&whole, op, &[axis + 1], false),
        Way::LogSum => shrink_axis(&inside, axis + 1, block - 1, block).reshape(cut[..=axis].to_vec()),
    };
    // What came before a block is the scan of the totals, one block later.
    let running = shrink_axis(&way.scan(&totals, axis), axis, 0, blocks - 1);
    let mut before = vec![(0, 0); axis + 1];
    before[axis] = (1, 0);
    let before = insert_axis(&pad_with(&running, &before, way.identity(x.dtype())), axis + 1);
    let joined = joined(way, &inside, &broadcast_to(&before, inside.shape())?).cast(x.dtype());
    let mut flat = x.shape().to_vec();
    flat[axis] = Dim::Const(blocks * block);
    if blocks * block == len {
        return Ok(joined.reshape(flat));
    }
    // Stored by blocks, and then cut off: as lines of the length that is left, each element would divide its index by the length of a block.
    Ok(shrink_axis(&joined.contiguous().reshape(flat), axis, 0, len))
}

/// So many blocks that none is shorter, if there are such: about as many as [`BLOCKS`].
fn even_blocks(len: i64) -> Option<i64> {
    let far = |blocks: &i64| (blocks - BLOCKS).abs();
    (BLOCKS / 2..=BLOCKS * 2).filter(|blocks| len % blocks == 0).min_by_key(far)
}

/// What came before a block together with what came in it; of extremes one is chosen, and of equal ones the later.
fn joined(way: Way, inside: &UOp, before: &UOp) -> UOp {
    let wins = match way {
        Way::By(ReduceOp::Max) => inside.lt(before),
        Way::By(ReduceOp::Min) => before.lt(inside),
        Way::By(op @ (ReduceOp::Add | ReduceOp::Mul)) => return UOp::binary(op.op(), inside, before),
        Way::LogSum => return log_sum(inside, before),
    };
    let wins = if inside.dtype().is_float() { wins.or(&isnan(before).and(&isnan(inside).not())) } else { wins };
    wins.select(before, inside)
}

/// Running log of the sum of exponentials: each sum is taken relative to the largest so far.
pub fn logcumsumexp(x: &UOp, axis: i64) -> Built {
    scan(&to_float(x), Way::LogSum, axis)
}

/// log(exp(a) + exp(b)), where b may be minus infinity: the log of nothing, which changes neither the value nor a derivative.
fn log_sum(a: &UOp, b: &UOp) -> UOp {
    let wide = accumulate(a.dtype());
    let (a, b) = (&a.cast(wide), &b.cast(wide));
    let largest = b.max(a).detach();
    let largest = isfinite(&largest).select(&largest, number(0.0, a));
    let is_alone = b.equals(number(f64::NEG_INFINITY, b));
    let sum = log(&(exp(&(b - &largest)) + exp(&(a - &largest)))) + &largest;
    is_alone.select(a, &sum)
}

/// Differences of neighbours along an axis.
pub fn diff(x: &UOp, axis: i64) -> Built {
    let axis = resolve_axis(axis, x.shape().len())?;
    let len = x.shape()[axis].clone();
    if len.is(0) {
        return Ok(x.clone());
    }
    crate::ops::movement::check_within(&Dim::Const(1), &len, &len, axis)?;
    let (next, this) = (shrink_axis(x, axis, 1, len.clone()), shrink_axis(x, axis, 0, &len - 1));
    crate::ops::elementwise::sub(&next, &this)
}
