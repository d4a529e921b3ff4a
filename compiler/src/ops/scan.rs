//! Running sums, products, extremes and log-sums along an axis.
//!
//! Each element is reduced over those up to it: all pairs of places, the later ones masked by the operation's identity. Long
//! axes are cut into blocks, scanned on their own and joined by a scan of the blocks' totals, so that the work is n times the
//! block length and not n squared.

use super::create::positions;
use super::elementwise::isnan;
use super::math::{exp, known, log};
use super::movement::{insert_axis, move_axis, shrink_axis};
use super::padding::pad_with;
use super::reduce::along;
use super::shapes::concrete_axis;
use super::{Built, broadcast_to, fail, number, resolve_axis, to_float};
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::{DType, UOp};

/// Axes longer than this are scanned in blocks of this length.
const BLOCK: i64 = 256;

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
    let wide = scan(&x.cast(dtype), op, axis)?;
    Ok(if x.dtype().is_float() { wide.cast(x.dtype()) } else { wide })
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
    let last = x.shape().len() - 1;
    Ok(move_axis(&scan_last(&move_axis(x, axis, last), op)?, last, axis))
}

/// Along the last axis.
fn scan_last(x: &UOp, op: ReduceOp) -> Built {
    let axis = x.shape().len() - 1;
    let len = concrete_axis(x, axis)?;
    if len <= BLOCK {
        let pairs = pairs_so_far(x, len)?;
        let identity = UOp::constant(op.identity(x.dtype()), x.dtype());
        let value = along(&pairs.kept.select(&pairs.earlier, identity), op, &[axis + 1], false);
        let is_extreme = matches!(op, ReduceOp::Max | ReduceOp::Min) && x.dtype().is_float();
        let operands = [&pairs.earlier, &pairs.kept];
        return Ok(if is_extreme { known(Function::LastExtreme, value, &operands) } else { value });
    }
    let blocks = (len - 1) / BLOCK + 1;
    let missing = blocks * BLOCK - len;
    let mut padding = vec![(0, 0); axis + 1];
    padding[axis] = (0, missing);
    let mut cut = x.shape().to_vec();
    cut[axis] = blocks.into();
    cut.push(BLOCK.into());
    let whole = pad_with(x, &padding, op.identity(x.dtype()));
    let inside = scan_last(&whole.reshape(cut.clone()), op)?;
    let totals = shrink_axis(&inside, axis + 1, BLOCK - 1, BLOCK).reshape(cut[..=axis].to_vec());
    // What came before a block is the scan of the totals, one block later.
    let running = shrink_axis(&scan_last(&totals, op)?, axis, 0, blocks - 1);
    let mut before = vec![(0, 0); axis + 1];
    before[axis] = (1, 0);
    let before = insert_axis(&pad_with(&running, &before, op.identity(x.dtype())), axis + 1);
    let joined = joined(op, &inside, &broadcast_to(&before, inside.shape())?);
    let mut flat = x.shape().to_vec();
    flat[axis] = Dim::Const(blocks * BLOCK);
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
    let moved = move_axis(&wide, axis, last);
    let len = concrete_axis(&moved, last)?;
    if len > 1 << 20 {
        fail!("axis {axis} of length {len} is too long: each element is compared with all before it");
    }
    let largest = scan_last(&moved.detach(), ReduceOp::Max)?;
    let largest = super::elementwise::isfinite(&largest).select(&largest, number(0.0, &largest));
    let pairs = pairs_so_far(&moved, len)?;
    let relative = &pairs.earlier - insert_axis(&largest, last + 1).expand(pairs.earlier.shape().clone());
    let lowest = number(f64::NEG_INFINITY, &wide);
    let sum = along(&exp(&pairs.kept.select(relative, lowest)), ReduceOp::Add, &[last + 1], false);
    Ok(move_axis(&(log(&sum) + largest), last, axis).cast(x.dtype()))
}

/// Differences of neighbours along an axis.
pub fn diff(x: &UOp, axis: i64) -> Built {
    let axis = resolve_axis(axis, x.shape().len())?;
    let len = concrete_axis(x, axis)?;
    if len == 0 {
        return Ok(x.clone());
    }
    let (next, this) = (shrink_axis(x, axis, 1, len), shrink_axis(x, axis, 0, len - 1));
    super::elementwise::sub(&next, &this)
}
