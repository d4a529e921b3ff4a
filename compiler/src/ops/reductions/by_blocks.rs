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
use crate::dtype::Scalar;
use crate::ir::{Combiner, Dim, Op, ReduceOp, Shape};
use crate::ops::create::without_own;
use crate::ops::movement::{pad_axis, shrink_axis};
use crate::view::dims::{divide_exactly, simplified};
use crate::{DType, UOp};

/// Elements of a block along the innermost axis: a few thousand bytes.
const BLOCK: i64 = 1024;
/// Elements of a block along any other axis, where neighbours along the innermost one are walked together.
const BLOCK_ACROSS: i64 = 64;

/// Exponents of a block whose values are weighted: with a block of the values they stay in the cache of one core.
pub(in crate::ops) const BLOCK_OF_WEIGHTS: i64 = 512;

/// Single floats in the widest vectors of a processor.
const LANES_MOST: i64 = 16;

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
    let mut most = axes.iter().map(|&axis| x.shape()[axis].max_value());
    if most.try_fold(1i64, |total, len| total.checked_mul(len))? <= least {
        return None;
    }
    let is_innermost = axes.last().is_some_and(|&axis| axis + 1 == x.shape().len());
    Some(in_blocks(x, axes, if is_innermost { BLOCK } else { BLOCK_ACROSS }, None, combiner, of_block))
}

/// Innermost axes as long as a block holds them; of the next one a part; all others are walked from block to block. Of an axis there may be what parts of so many
/// elements left over: a block holds it, whatever is known of its length.
fn in_blocks(
    x: &UOp,
    axes: &[usize],
    block: i64,
    rest: Option<(usize, i64)>,
    combiner: Combiner,
    of_block: OfBlock<'_>,
) -> States {
    let mut inner: Vec<usize> = Vec::new();
    let mut held = 1;
    for (number, &axis) in axes.iter().enumerate().rev() {
        let len = &x.shape()[axis];
        let most = rest.filter(|(other, _)| *other == axis).map_or(i64::MAX, |(_, part)| part).min(len.max_value());
        if most <= block / held {
            held *= most.max(1);
            inner.insert(0, axis);
            continue;
        }
        if block / held < 2 {
            break;
        }
        let parts = Parts::of(len, block / held);
        let main = parts.main(x, axis);
        let moved = |old: &usize| if *old > axis { old + 1 } else { *old };
        let block_axes: Vec<usize> = std::iter::once(axis + 1).chain(inner.iter().map(moved)).collect();
        let state = joined(&main, &axes[..=number], &block_axes, combiner, of_block);
        if parts.covered == *len {
            return state;
        }
        let left_over = parts.rest(x, axis);
        let rest = in_blocks(&left_over, axes, block, Some((axis, parts.len)), combiner, of_block);
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

/// Whether it is one number wherever it is asked for: known now, or once lengths are.
fn is_one_number(state: &UOp) -> bool {
    let mut node = without_own(state);
    while node.op().is_movement() || (node.op() == Op::Cast && node.shape().is_empty()) {
        node = without_own(&node.src()[0]);
    }
    node.op() == Op::Const || node.dtype() == DType::INDEX
}

/// An axis as parts of one length, and what is left over. Of a symbolic length either may be nothing.
struct Parts {
    /// Elements of a part.
    len: i64,
    /// Where the last part ends.
    covered: Dim,
}

impl Parts {
    /// Of a part that divides the length, if there is one not much shorter than the longest allowed.
    fn of(len: &Dim, longest: i64) -> Parts {
        let lens = (longest / 2..=longest).rev().filter(|part| *part > 1);
        // Of an expression it takes long to say what divides it.
        let mut asked = lens.filter(|part| len.as_const().is_some() || longest % part == 0);
        match asked.find(|part| divide_exactly(len, &Dim::Const(*part)).is_some()) {
            Some(part) => Parts { len: part, covered: len.clone() },
            None => Parts { len: longest, covered: simplified(len / longest * longest) },
        }
    }

    /// What parts cover of an axis, cut into them.
    fn main(&self, x: &UOp, axis: usize) -> UOp {
        cut(&shrink_axis(x, axis, 0, &self.covered), axis, self.len)
    }

    /// What is left over of an axis: shorter than a part.
    fn rest(&self, x: &UOp, axis: usize) -> UOp {
        shrink_axis(x, axis, self.covered.clone(), x.shape()[axis].clone())
    }
}

/// One axis, of whole parts, as parts and the positions in them.
fn cut(x: &UOp, axis: usize, part: i64) -> UOp {
    let mut dims: Vec<Dim> = x.shape().to_vec();
    dims[axis] = simplified(&dims[axis] / part);
    dims.insert(axis + 1, Dim::Const(part));
    x.reshape(Shape::from(dims))
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
    let mut states = by_blocks(&x.detach(), axes, least, Combiner::LogSumExp, &exponentials_of_block)?;
    let sum = states.swap_remove(1);
    Some([states.swap_remove(0), sum])
}

/// The largest of a block's elements, and the sum of powers of e relative to it.
fn exponentials_of_block(x: &UOp, axes: &[usize]) -> States {
    let largest = along(x, ReduceOp::Max, axes, true);
    // Minus infinity has no difference from itself; what is relative to it is 0.
    let lowest = crate::ops::number(f64::NEG_INFINITY, x);
    let base = largest.equals(&lowest).select(crate::ops::number(0.0, x), &largest);
    let power = crate::ops::math::exp(&(x - base.expand(x.shape().clone())));
    let sum = along(&power, ReduceOp::Add, axes, false);
    vec![largest.reshape(sum.shape().clone()), sum]
}

/// The same of an axis in blocks of just so many elements, and what is left over.
pub(crate) fn exponentials_in_blocks(x: &UOp, axis: usize, block: i64) -> Vec<UOp> {
    let len = x.shape()[axis].max_value();
    let parts = Parts { len: block, covered: Dim::Const(len / block * block) };
    let of_blocks = exponentials_of_block(&parts.main(x, axis), &[axis + 1]);
    let state = UOp::reduce_states(Combiner::LogSumExp, &of_blocks, &[axis]);
    if len % block == 0 {
        return state;
    }
    let rest = exponentials_of_block(&parts.rest(x, axis), &[axis]);
    Combiner::LogSumExp.combine(&state, &rest).into_vec()
}

/// Takes a piece of an axis of as many elements as there are weights, and cuts it into parts: [.., parts, n, ..].
pub(in crate::ops) type OfAxis<'f> = &'f dyn Fn(&UOp, usize) -> UOp;

/// The exponents of a piece of all: [.., rows, parts, n].
pub(super) type OfPiece<'f> = &'f dyn Fn(OfAxis<'_>) -> crate::ops::Built;

/// Sums of values [.., n, width] weighted by powers of e, and of these powers, both relative to the largest exponent, as [.., rows, width] each.
/// Through neither a gradient flows. Nothing where a block would hold most of the exponents.
///
/// A block's exponents are needed for each column of the values, and those of the next only afterwards: so they need no more memory than a block.
pub(in crate::ops) fn weighted_sums(
    values: &UOp,
    least: i64,
    block: i64,
    exponents: OfPiece<'_>,
) -> crate::ops::Built<Option<[UOp; 2]>> {
    let axis = values.shape().len() - 2;
    let len = &values.shape()[axis];
    if len.max_value() <= least {
        return Ok(None);
    }
    let values = values.detach();
    let parts = Parts::of(len, block);
    // Of a short part what does not fill a vector is much.
    let is_whole = block >= BLOCK_OF_WEIGHTS || parts.len % LANES_MOST == 0;
    let states = if parts.covered == *len && is_whole {
        let main = |x: &UOp, axis: usize| parts.main(x, axis);
        weighted_states(&exponents(&main)?.detach(), &main(&values, axis))
    } else {
        // What is left over is a part with keys that weigh nothing, so that there is one loop, and one kernel.
        let part = filled_part(len, block);
        let whole = simplified((len + (part - 1)) / part * part);
        let padded = |x: &UOp, axis: usize| cut(&pad_axis(x, axis, 0, &whole - len), axis, part);
        let is_key = padded(&UOp::constant(Scalar::Bool(true), DType::BOOL).reshape([1]).expand([len.clone()]), 0);
        let all = exponents(&padded)?.detach();
        let hidden = crate::ops::number(f64::NEG_INFINITY, &all);
        let all = crate::ops::broadcast_to(&is_key, all.shape())?.select(&all, hidden);
        weighted_states(&all, &padded(&values, axis))
    };
    let [_, sum, weighted] = &states[..] else { return Ok(None) };
    Ok(Some([sum.clone(), weighted.clone()]))
}

/// The length of parts of which the last one is filled up: of a number, with as little as vectors allow.
fn filled_part(len: &Dim, block: i64) -> i64 {
    len.as_const().map_or(block, |len| {
        let count = (len + block - 1) / block;
        let part = (len + count - 1) / count;
        (part + LANES_MOST - 1) / LANES_MOST * LANES_MOST
    })
}

/// The state of exponents [.., rows, blocks, n] with values [.., blocks, n, width].
fn weighted_states(exponents: &UOp, values: &UOp) -> States {
    let dims: Vec<Dim> = exponents.shape().to_vec();
    let (blocks, axis) = (dims.len() - 2, dims.len() - 1);
    let largest = along(exponents, ReduceOp::Max, &[axis], true);
    let lowest = crate::ops::number(f64::NEG_INFINITY, exponents);
    let base = largest.equals(&lowest).select(crate::ops::number(0.0, exponents), &largest);
    let power = crate::ops::math::exp(&(exponents - base.expand(exponents.shape().clone())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::interpret::{Value, interpret};
    use crate::ops::attention::{AttentionOptions, scaled_dot_product_attention};
    use crate::ops::{reduce, statistics};

    const MOST: i64 = 40_000;

    /// The first so many of numbers between -1 and 1, [n].
    fn of_length(len: &Dim) -> UOp {
        UOp::param(0, DType::F64, MOST as u64).shrink(&[(Dim::Const(0), len.clone())])
    }

    fn values(root: &UOp, len: i64) -> Vec<f64> {
        let drawn: Vec<f64> = (0..MOST).map(|k| ((k * 37 + 11) % 101) as f64 / 50.5 - 1.0).collect();
        let leaf = |leaf: &UOp| match leaf.op() {
            Op::Variable => Some(Value::index(len)),
            _ => Value::from_f64(DType::F64, vec![MOST], &drawn),
        };
        interpret(std::slice::from_ref(root), &leaf).unwrap()[0].to_f64()
    }

    /// Whether blocks of a variable length give what the same number does, whatever is left over.
    #[track_caller]
    fn check(lens: &[i64], build: impl Fn(&Dim) -> UOp) {
        let symbolic = build(&Dim::from(UOp::variable("n", 0, MOST)));
        for &len in lens {
            let (found, want) = (values(&symbolic, len), values(&build(&Dim::Const(len)), len));
            let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * b.abs();
            assert!(found.len() == want.len() && found.iter().zip(&want).all(same), "{len}: {found:?}, not {want:?}");
        }
    }

    #[test]
    fn parts_of_a_variable_length_leave_less_than_a_part() {
        let n = Dim::from(UOp::variable("n", 0, MOST));
        for len in [n.clone(), &n + 7, &n * 3, &n * 256 + 1] {
            let x = UOp::param(0, DType::F32, 1).reshape([1]).expand([len.clone()]);
            let parts = Parts::of(&len, 512);
            let (main, rest) = (parts.main(&x, 0), parts.rest(&x, 0));
            assert!(main.shape()[1].is(512) && rest.shape()[0].max_value() < 512, "{len}: {}", rest.shape());
            assert!(main.shape()[0].max_value() <= len.max_value() / 512, "{}", main.shape());
        }
        assert_eq!(Parts::of(&(&n * 1024), 512).covered, &n * 1024);
    }

    #[test]
    fn statistics_of_a_variable_length_are_those_of_a_number() {
        let rows = |len: &Dim| {
            let row = of_length(len).reshape([Dim::Const(1), len.clone()]);
            UOp::iota(2).cast(DType::F64).reshape([2, 1]).expand([Dim::Const(2), len.clone()])
                * row.expand([Dim::Const(2), len.clone()])
        };
        let lens = [0, 1, 1023, 1024, 1025, 5000, 20_000];
        check(&lens, |len| statistics::var(&rows(len), &[1], 1, false).unwrap());
        check(&lens, |len| reduce::logsumexp(&rows(len), &[1], false).unwrap());
        check(&lens[..5], |len| reduce::softmax(&rows(len), 1).unwrap());
        let columns = |len: &Dim| of_length(len).reshape([len.clone(), Dim::Const(1)]);
        check(&[0, 1, 63, 64, 65, 5000], |len| statistics::var(&columns(len), &[0], 0, false).unwrap());
    }

    #[test]
    fn attention_over_a_variable_length_is_that_over_a_number() {
        let of_shape = |shape: &[Dim; 2]| of_length(&(&shape[0] * &shape[1])).reshape(shape.to_vec());
        for is_causal in [false, true] {
            let options = AttentionOptions { is_causal, ..Default::default() };
            let attention = |rows: &Dim, keys: &Dim| {
                let [q, k] = [rows, keys].map(|len| of_shape(&[len.clone(), Dim::Const(2)]));
                scaled_dot_product_attention(&q, &k, &(&k * 2), &options).unwrap()
            };
            let half = |len: &Dim| len.floor_div(&Dim::Const(2));
            check(&[0, 2, 1022, 1024, 1026, 2049], |len| attention(&Dim::Const(3), &half(len)));
            check(&[2, 1026], |len| attention(&half(len), &half(len)));
        }
    }
}
