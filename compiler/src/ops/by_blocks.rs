//! Long reductions that need two passes over their elements, a block at a time.
//!
//! The variance needs the mean first, and a sum of powers the largest exponent. Over a block of elements that the nearest cache holds the second
//! pass costs no memory; what each block comes to is a *state*, and states are combined as they come. So elements are read from memory once, however
//! many there are:
//!
//! ```text
//! for each block { largest of it; sum of powers relative to that; combine both with what came before }
//! ```
//!
//! Not here: what a state is (`ir::combiner`). Tested by values against plain formulas, in the test crate.

use super::reduce::{along, count_of};
use crate::UOp;
use crate::ir::{Combiner, Dim, Op, ReduceOp, Shape};

/// Elements of a block along the innermost axis: a few thousand bytes.
const BLOCK: i64 = 1024;
/// Elements of a block along any other axis, where neighbours along the innermost one are walked together.
const BLOCK_ACROSS: i64 = 64;

/// Exponents of a block whose values are weighted: with a block of the values they stay in the cache of one core.
const BLOCK_OF_WEIGHTS: i64 = 512;

/// Fewer results than this leave threads without work.
const RESULTS_FEW: i64 = 64;
/// From so many elements on, a second kernel costs less than threads without work.
const ELEMENTS_MANY: i64 = 1 << 18;

/// The components of the state of all elements along axes (ascending), which go away.
type States = Vec<UOp>;

/// How the elements of one block become a state: a function of a tensor and the axes to reduce.
type OfBlock<'f> = &'f dyn Fn(&UOp, &[usize]) -> States;

/// The state of the elements along axes by blocks; nothing where a block would hold most of them.
fn by_blocks(x: &UOp, axes: &[usize], least: i64, combiner: Combiner, of_block: OfBlock<'_>) -> Option<States> {
    let lens: Vec<i64> = axes.iter().map(|&axis| x.shape()[axis].as_const()).collect::<Option<_>>()?;
    if lens.iter().try_fold(1i64, |total, len| total.checked_mul(*len))? <= least || lens.contains(&0) {
        return None;
    }
    let is_innermost = axes.last().is_some_and(|&axis| axis + 1 == x.shape().len());
    Some(in_blocks(x, axes, if is_innermost { BLOCK } else { BLOCK_ACROSS }, combiner, of_block))
}

/// Innermost axes as long as a block holds them; of the next one a part; all others are walked from block to block.
fn in_blocks(x: &UOp, axes: &[usize], block: i64, combiner: Combiner, of_block: OfBlock<'_>) -> States {
    let len = |axis: usize| x.shape()[axis].as_const().unwrap_or(1);
    let mut inner: Vec<usize> = Vec::new();
    let mut held = 1;
    for (number, &axis) in axes.iter().enumerate().rev() {
        if held * len(axis) <= block {
            held *= len(axis);
            inner.insert(0, axis);
            continue;
        }
        let part = block / held;
        if part < 2 {
            break;
        }
        // A part that divides, if there is one not much shorter; else what is left over is a state of its own.
        let whole = (part / 2..=part).rev().find(|part| *part > 1 && len(axis) % part == 0);
        let (part, covered) = whole.map_or((part, len(axis) / part * part), |part| (part, len(axis)));
        let main = cut(&narrowed(x, axis, 0, covered), axis, part);
        let moved = |old: &usize| if *old > axis { old + 1 } else { *old };
        let block_axes: Vec<usize> = std::iter::once(axis + 1).chain(inner.iter().map(moved)).collect();
        let state = joined(&main, &axes[..=number], &block_axes, combiner, of_block);
        if covered == len(axis) {
            return state;
        }
        let rest = in_blocks(&narrowed(x, axis, covered, len(axis)), axes, block, combiner, of_block);
        return combiner.combine(&state, &rest).into_vec();
    }
    let outer: Vec<usize> = axes.iter().copied().filter(|axis| !inner.contains(axis)).collect();
    joined(x, &outer, &inner, combiner, of_block)
}

/// States of blocks, which lie along some axes, combined along others. Where there are few results, blocks are what threads share: their states
/// are stored, and combined afterwards.
fn joined(x: &UOp, outer: &[usize], block: &[usize], combiner: Combiner, of_block: OfBlock<'_>) -> States {
    let mut states = of_block(x, block);
    let left: Vec<usize> =
        outer.iter().map(|&axis| axis - block.iter().filter(|&&inner| inner < axis).count()).collect();
    let is_kept = |axis: &usize| !outer.contains(axis) && !block.contains(axis);
    let len = |axis: usize| x.shape()[axis].max_value();
    let results: i64 = (0..x.shape().len()).filter(is_kept).map(len).product();
    let elements: i64 = (0..x.shape().len()).map(len).product();
    if !outer.is_empty() && results < RESULTS_FEW && elements >= ELEMENTS_MANY {
        states.iter_mut().filter(|state| !is_one_number(state)).for_each(|state| *state = state.contiguous());
    }
    UOp::reduce_states(combiner, &states, &left)
}

fn is_one_number(state: &UOp) -> bool {
    let mut node = state;
    while node.op().is_movement() {
        node = &node.src()[0];
    }
    node.op() == Op::Const
}

/// One axis as blocks and the places in them.
fn cut(x: &UOp, axis: usize, part: i64) -> UOp {
    let mut dims: Vec<Dim> = x.shape().to_vec();
    let count = dims[axis].as_const().unwrap_or(part) / part;
    dims[axis] = Dim::Const(count);
    dims.insert(axis + 1, Dim::Const(part));
    x.reshape(Shape::from(dims))
}

fn narrowed(x: &UOp, axis: usize, start: i64, end: i64) -> UOp {
    if start == 0 && x.shape()[axis].is(end) { x.clone() } else { super::movement::shrink_axis(x, axis, start, end) }
}

/// A value for each of the elements that an axis-wise reduction of `x` leaves.
fn repeated(value: UOp, like: &UOp) -> UOp {
    value.reshape(vec![1i64; like.shape().len()]).expand(like.shape().clone())
}

/// Mean and sum of squared distances from it; nothing where both passes stay in the nearest cache anyway.
pub(super) fn moments(x: &UOp, axes: &[usize], least: i64) -> Option<[UOp; 2]> {
    let of_block = |x: &UOp, axes: &[usize]| {
        let count = count_of(x, axes, x.dtype());
        let mean = along(x, ReduceOp::Add, axes, true).div(&count);
        let distance = x - mean.expand(x.shape().clone());
        let squares = along(&(&distance * &distance), ReduceOp::Add, axes, false);
        vec![mean.reshape(squares.shape().clone()), squares.clone(), repeated(count, &squares)]
    };
    let mut states = by_blocks(x, axes, least, Combiner::Moments, &of_block)?;
    let squares = states.swap_remove(1);
    Some([states.swap_remove(0), squares])
}

/// The largest, and the sum of powers of e relative to it; through neither a gradient flows.
pub(super) fn exponentials(x: &UOp, axes: &[usize], least: i64) -> Option<[UOp; 2]> {
    let of_block = |x: &UOp, axes: &[usize]| {
        let largest = along(x, ReduceOp::Max, axes, true);
        // Minus infinity has no difference from itself; what is relative to it is 0.
        let lowest = super::number(f64::NEG_INFINITY, x);
        let base = largest.equals(&lowest).select(super::number(0.0, x), &largest);
        let power = super::math::exp(&(x - base.expand(x.shape().clone())));
        let sum = along(&power, ReduceOp::Add, axes, false);
        vec![largest.reshape(sum.shape().clone()), sum]
    };
    let mut states = by_blocks(&x.detach(), axes, least, Combiner::LogSumExp, &of_block)?;
    let sum = states.swap_remove(1);
    Some([states.swap_remove(0), sum])
}

/// The exponents of a piece of the last axis, from and to, cut into parts of so many: [.., rows, parts, n].
pub(super) type OfPiece<'f> = &'f dyn Fn(i64, i64, i64) -> super::Built;

/// Sums of values [.., n, width] weighted by powers of e, and of these powers, both relative to the largest exponent, as [.., rows, width] each.
/// Through neither a gradient flows. Nothing where a block would hold most of the exponents.
///
/// A block's exponents are needed for each column of the values, and those of the next only afterwards: so they need no more memory than a block.
pub(super) fn weighted_sums(values: &UOp, least: i64, exponents: OfPiece<'_>) -> super::Built<Option<[UOp; 2]>> {
    let axis = values.shape().len() - 2;
    let Some(len) = values.shape()[axis].as_const().filter(|len| *len > least) else { return Ok(None) };
    let part = (BLOCK_OF_WEIGHTS / 2..=BLOCK_OF_WEIGHTS).rev().find(|part| len % part == 0).unwrap_or(BLOCK_OF_WEIGHTS);
    let covered = len / part * part;
    let of_piece = |from: i64, to: i64, part: i64| -> super::Built<States> {
        let values = in_parts(&values.detach(), axis, from, to, part);
        Ok(weighted_states(&exponents(from, to, part)?.detach(), &values))
    };
    let mut states = of_piece(0, covered, part)?;
    if covered < len {
        states = Combiner::SoftmaxSum.combine(&states, &of_piece(covered, len, len - covered)?).into_vec();
    }
    let weighted = states.swap_remove(2);
    Ok(Some([states.swap_remove(1), weighted]))
}

/// A piece of an axis as parts and the places in them.
pub(super) fn in_parts(x: &UOp, axis: usize, from: i64, to: i64, part: i64) -> UOp {
    cut(&narrowed(x, axis, from, to), axis, part)
}

/// The state of exponents [.., rows, blocks, n] with values [.., blocks, n, width].
fn weighted_states(exponents: &UOp, values: &UOp) -> States {
    let dims: Vec<Dim> = exponents.shape().to_vec();
    let (blocks, axis) = (dims.len() - 2, dims.len() - 1);
    let largest = along(exponents, ReduceOp::Max, &[axis], true);
    let lowest = super::number(f64::NEG_INFINITY, exponents);
    let base = largest.equals(&lowest).select(super::number(0.0, exponents), &largest);
    let power = super::math::exp(&(exponents - base.expand(exponents.shape().clone())));
    let sum = along(&power, ReduceOp::Add, &[axis], true);
    // [.., rows, blocks, width, n], summed along the last.
    let (width, rows) = (values.shape()[axis].clone(), blocks - 1);
    let mut all = dims.clone();
    all.insert(axis, width.clone());
    let mut of_powers = dims.clone();
    of_powers.insert(axis, Dim::Const(1));
    let order: Vec<usize> = (0..axis - 1).chain([axis, axis - 1]).collect();
    let mut of_values = all.clone();
    of_values[rows] = Dim::Const(1);
    let powers = power.reshape(Shape::from(of_powers)).expand(Shape::from(all.clone()));
    let values = values.permute(&order).reshape(Shape::from(of_values)).expand(Shape::from(all));
    let weighted = (powers * values).reduce(ReduceOp::Add, &[axis + 1]);
    let repeated = |one: &UOp| one.expand(weighted.shape().clone());
    UOp::reduce_states(Combiner::SoftmaxSum, &[repeated(&largest), repeated(&sum), weighted.clone()], &[blocks])
}
