//! Running sums, products, extremes and log-sums along an axis.
//!
//! One pass over each line, in order. A few long lines are cut into blocks, which are scanned side by side and joined by a scan of the
//! blocks' totals.
//!
//! Always: linear in the elements. Tested by the conformance cases and against lists by the test crate.

use super::create::positions;
use super::elementwise::{isfinite, isnan};
use super::math::{exp, log};
use super::movement::{insert_axis, move_axis, shrink_axis};
use super::padding::pad_with;
use super::reduce::along;
use super::shapes::concrete_axis;
use super::{Built, broadcast_to, number, resolve_axis, to_float};
use crate::dtype::Scalar;
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, ReduceOp, Shape};
use crate::{DType, UOp};

/// In lines so short each element is compared with all before it, where a running total will not do: what is long is cut into such.
const PAIRED: i64 = 32;
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
    scan(&if x.dtype().is_float() { x.clone() } else { x.cast(dtype) }, op, axis)
}

/// Largest so far; NaN from the first NaN on. The gradient goes to the latest such element.
pub fn cummax(x: &UOp, axis: i64) -> Built {
    scan(x, ReduceOp::Max, axis)
}

/// Smallest so far; NaN from the first NaN on. The gradient goes to the latest such element.
pub fn cummin(x: &UOp, axis: i64) -> Built {
    scan(x, ReduceOp::Min, axis)
}

fn scan(x: &UOp, op: ReduceOp, axis: i64) -> Built {
    if x.shape().is_empty() {
        super::resolve_axes(&[axis], 0)?;
        return Ok(x.clone());
    }
    let axis = resolve_axis(axis, x.shape().len())?;
    let lengths = x.shape().as_const();
    let is_long =
        |lengths: &[i64]| lengths[axis] >= LONG && lengths.iter().product::<i64>() / lengths[axis] < FEW_LINES;
    if !lengths.is_some_and(|lengths| is_long(&lengths)) {
        return Ok(x.scan(op, axis));
    }
    let last = x.shape().len() - 1;
    Ok(move_axis(&scan_by_blocks(&move_axis(x, axis, last), op)?, last, axis))
}

/// Along the last axis, which is long.
fn scan_by_blocks(x: &UOp, op: ReduceOp) -> Built {
    let axis = x.shape().len() - 1;
    let len = concrete_axis(x, axis)?;
    let block = (len - 1) / BLOCKS + 1;
    let blocks = (len - 1) / block + 1;
    let mut padding = vec![(0, 0); axis + 1];
    padding[axis] = (0, blocks * block - len);
    let mut cut = x.shape().to_vec();
    cut[axis] = blocks.into();
    cut.push(block.into());
    let whole = pad_with(x, &padding, op.identity(x.dtype()));
    let inside = whole.reshape(cut.clone()).scan(op, axis + 1);
    let totals = shrink_axis(&inside, axis + 1, block - 1, block).reshape(cut[..=axis].to_vec());
    // What came before a block is the scan of the totals, one block later.
    let running = shrink_axis(&totals.scan(op, axis), axis, 0, blocks - 1);
    let mut before = vec![(0, 0); axis + 1];
    before[axis] = (1, 0);
    let before = insert_axis(&pad_with(&running, &before, op.identity(x.dtype())), axis + 1);
    let joined = joined(op, &inside, &broadcast_to(&before, inside.shape())?);
    let mut flat = x.shape().to_vec();
    flat[axis] = Dim::Const(blocks * block);
    Ok(shrink_axis(&joined.reshape(flat), axis, 0, len))
}

/// What came before a block together with what came in it; of extremes one is chosen, and of equal ones the later.
fn joined(op: ReduceOp, inside: &UOp, before: &UOp) -> UOp {
    let wins = match op {
        ReduceOp::Max => inside.lt(before),
        ReduceOp::Min => before.lt(inside),
        ReduceOp::Add | ReduceOp::Mul => return UOp::binary(op.op(), inside, before),
    };
    let wins = if inside.dtype().is_float() { wins.or(&isnan(before).and(&isnan(inside).not())) } else { wins };
    wins.select(before, inside)
}

/// For each place of the last axis all places of it, as a new last axis, and which of them are not later.
struct Pairs {
    earlier: UOp,
    kept: UOp,
}

fn pairs_so_far(x: &UOp, len: i64) -> Built<Pairs> {
    let axis = x.shape().len() - 1;
    let mut square = x.shape().to_vec();
    square.push(len.into());
    let square = Shape::from(square);
    let earlier = insert_axis(x, axis).expand(square.clone());
    let kept = positions(&square, axis).lt(positions(&square, axis + 1)).not();
    Ok(Pairs { earlier, kept })
}

/// Running log of the sum of exponentials: each sum is taken relative to the largest so far.
pub fn logcumsumexp(x: &UOp, axis: i64) -> Built {
    let x = &to_float(x);
    if x.shape().is_empty() {
        super::resolve_axes(&[axis], 0)?;
        return Ok(x.clone());
    }
    let wide = x.cast(accumulate(x.dtype()));
    let axis = resolve_axis(axis, x.shape().len())?;
    let last = x.shape().len() - 1;
    let running = running_log_sums(&move_axis(&wide, axis, last))?;
    Ok(move_axis(&running, last, axis).cast(x.dtype()))
}

/// Along the last axis: by pairs in short lines, by blocks and their totals in long ones.
fn running_log_sums(x: &UOp) -> Built {
    let axis = x.shape().len() - 1;
    let len = concrete_axis(x, axis)?;
    if len <= PAIRED {
        return running_log_sums_by_pairs(x, len);
    }
    let lowest = number(f64::NEG_INFINITY, x);
    let blocks = (len - 1) / PAIRED + 1;
    let mut padding = vec![(0, 0); axis + 1];
    padding[axis] = (0, blocks * PAIRED - len);
    let mut cut = x.shape().to_vec();
    cut[axis] = blocks.into();
    cut.push(PAIRED.into());
    let whole = pad_with(x, &padding, Scalar::lowest(x.dtype()));
    let inside = running_log_sums_by_pairs(&whole.reshape(cut.clone()), PAIRED)?;
    let totals = shrink_axis(&inside, axis + 1, PAIRED - 1, PAIRED).reshape(cut[..=axis].to_vec());
    let running = shrink_axis(&running_log_sums(&totals)?, axis, 0, blocks - 1);
    let mut shift = vec![(0, 0); axis + 1];
    shift[axis] = (1, 0);
    let before = insert_axis(&pad_with(&running, &shift, Scalar::lowest(x.dtype())), axis + 1);
    let before = broadcast_to(&before, inside.shape())?;
    let largest = before.max(&inside).detach();
    let largest = isfinite(&largest).select(&largest, number(0.0, x));
    // What both sides lack is left out: the sum of two times nothing has no logarithm of which there is a derivative.
    let joined = log(&(exp(&(&before - &largest)) + exp(&(&inside - &largest)))) + &largest;
    let joined = before.equals(&lowest).select(&inside, &joined);
    let mut flat = x.shape().to_vec();
    flat[axis] = Dim::Const(blocks * PAIRED);
    Ok(shrink_axis(&joined.reshape(flat), axis, 0, len))
}

/// Each place of the last axis with all places up to it.
fn running_log_sums_by_pairs(x: &UOp, len: i64) -> Built {
    let axis = x.shape().len() - 1;
    let largest = x.detach().scan(ReduceOp::Max, axis);
    let largest = isfinite(&largest).select(&largest, number(0.0, &largest));
    let pairs = pairs_so_far(x, len)?;
    let relative = &pairs.earlier - insert_axis(&largest, axis + 1).expand(pairs.earlier.shape().clone());
    let lowest = number(f64::NEG_INFINITY, x);
    let sum = along(&exp(&pairs.kept.select(relative, lowest)), ReduceOp::Add, &[axis + 1], false);
    Ok(log(&sum) + largest)
}

/// Differences of neighbours along an axis.
pub fn diff(x: &UOp, axis: i64) -> Built {
    let axis = resolve_axis(axis, x.shape().len())?;
    let len = x.shape()[axis].clone();
    if len.is(0) {
        return Ok(x.clone());
    }
    super::movement::check_within(&Dim::Const(1), &len, &len, axis)?;
    let (next, this) = (shrink_axis(x, axis, 1, len.clone()), shrink_axis(x, axis, 0, &len - 1));
    super::elementwise::sub(&next, &this)
}
