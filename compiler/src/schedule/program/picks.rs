//! Sums over the elements that an index picks, as those of losses over classes: the one element is asked for, where a row of them would be gone through.
//!
//! ```text
//! sum over c of (c == index ? value[c] : 0)    =>    value[index], or 0 where the index is none of them
//! ```
//!
//! A CPU's loop runs over what its mask lets it see (`optimize::hidden`); threads of a block have to run as often as each other, so for them the program says it.
//!
//! Always: the same values, but for the sign of a zero. Tested in the test crate, on the emulator of GPUs.

use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, Dim, Op, ReduceOp, Shape, UOp, postorder};

/// Such a sum as the element that is picked.
pub(super) fn picked(node: &UOp) -> Option<UOp> {
    let Arg::Reduce(ReduceOp::Add, axes) = node.arg() else { return None };
    let (operand, [axis]) = (&node.src()[0], &axes[..]) else { return None };
    let axis = usize::from(*axis);
    let choice = without_casts(operand);
    let [is_picked, value, nothing] = choice.src() else { return None };
    let zero = Scalar::zero(value.dtype());
    if choice.op() != Op::Where || constant_of(nothing)? != zero || is_picked.op() != Op::Eq {
        return None;
    }
    let [one, other] = is_picked.src() else { return None };
    let index = match (counts_along(one, axis), counts_along(other, axis)) {
        (true, false) => same_along(other, axis)?,
        (false, true) => same_along(one, axis)?,
        _ => return None,
    };
    let picked = element_of(value, &index, axis)?;
    // The casts that stand outside of the choice.
    let picked = if operand.dtype() == picked.dtype() { picked } else { picked.cast(operand.dtype()) };
    let picked = picked.reshape(node.shape().clone());
    // What is found of a whole row for it belongs to threads that share the row.
    let has_rows = postorder(std::slice::from_ref(value)).iter().any(|node| node.op() == Op::Reduce);
    Some(if has_rows { picked.contiguous() } else { picked })
}

/// The elements of a value that an index names along an axis, where it has a length of one; 0 where it names none.
fn element_of(value: &UOp, index: &UOp, axis: usize) -> Option<UOp> {
    let lens = value.shape().as_const()?.to_vec();
    let shape = index.shape().clone();
    let number = |number: i64| UOp::int(number, index.dtype());
    let wide = |number: UOp| number.reshape(vec![1i64; lens.len()]).expand(shape.clone());
    if !fits(lens[axis], index.dtype()) {
        return None;
    }
    let (first, last) = (wide(number(0)), wide(number(lens[axis] - 1)));
    let is_there = index.lt(&first).or(&last.lt(index)).not();
    let count: i64 = lens.iter().product();
    let dtype = if count <= i64::from(i32::MAX) { DType::I32 } else { DType::I64 };
    let mut element = index.max(&first).min(&last).cast(DType::INDEX) * step_of(&lens, axis);
    for other in (0..lens.len()).filter(|other| *other != axis) {
        let line: Vec<i64> = (0..lens.len()).map(|k| if k == other { lens[k] } else { 1 }).collect();
        element = element + UOp::iota(lens[other]).reshape(line).expand(shape.clone()) * step_of(&lens, other);
    }
    let picked = value.reshape([count]).gather(&element.cast(dtype), 0);
    let zero = UOp::constant(Scalar::zero(value.dtype()), value.dtype());
    Some(is_there.select(&picked, zero.reshape(vec![1i64; lens.len()]).expand(shape)))
}

/// How far apart neighbours along an axis are, of elements in a row.
fn step_of(lens: &[i64], axis: usize) -> i64 {
    lens[axis + 1..].iter().product()
}

fn fits(len: i64, dtype: DType) -> bool {
    dtype.integer_bounds().is_none_or(|(_, most)| len <= most)
}

/// What is below casts that keep each number that is there: of floats to wider ones.
fn without_casts(node: &UOp) -> &UOp {
    match node.op() {
        Op::Cast if node.dtype().is_float() && node.src()[0].dtype().is_float() => &node.src()[0],
        _ => node,
    }
}

fn constant_of(node: &UOp) -> Option<Scalar> {
    let mut node = node;
    while matches!(node.op(), Op::Reshape | Op::Expand) {
        node = &node.src()[0];
    }
    node.as_scalar()
}

/// Whether a value is 0, 1, ... along an axis and the same along all others, in whatever type has these.
fn counts_along(value: &UOp, axis: usize) -> bool {
    let mut node = value;
    while node.op() == Op::Cast && node.dtype().is_integer() || node.op() == Op::Expand {
        node = &node.src()[0];
    }
    let holds = |shape: &Shape| {
        (0..shape.len()).all(|k| if k == axis { shape[k] == value.shape()[k] } else { shape[k] == Dim::Const(1) })
    };
    match node.op() {
        Op::Reshape => {
            let is_line = node.shape().len() == value.shape().len() && holds(node.shape());
            is_line && without_integer_casts(&node.src()[0]).op() == Op::Iota
        }
        Op::Iota => value.shape().len() == 1,
        _ => false,
    }
}

fn without_integer_casts(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Cast && node.dtype().is_integer() {
        node = &node.src()[0];
    }
    node
}

/// An integer that is the same along an axis, with a length of one there.
fn same_along(value: &UOp, axis: usize) -> Option<UOp> {
    let inner = without_integer_casts(value);
    let is_same = inner.op() == Op::Expand && inner.src()[0].shape()[axis] == Dim::Const(1);
    if !is_same || !inner.dtype().is_integer() || inner.dtype().is_index() {
        return None;
    }
    let bounds: Vec<(Dim, Dim)> = (0..value.shape().len())
        .map(|k| (Dim::Const(0), if k == axis { Dim::Const(1) } else { value.shape()[k].clone() }))
        .collect();
    Some(value.shrink(&bounds))
}
