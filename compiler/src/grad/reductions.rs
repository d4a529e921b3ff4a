//! Gradients of reductions and of indexing.

use smallvec::smallvec;

use super::rules::{Contribution, number, sum, zero};
use crate::dtype::Scalar;
use crate::ir::{Arg, Dim, Op, ReduceOp, Shape};
use crate::ops::create::positions;
use crate::ops::extreme::{Tie, place_of, places_along, spread_back, stored_once, ties};
use crate::ops::movement::{insert_axis, move_axis};
use crate::ops::padding::pad_with;
use crate::{DType, UOp};

/// The gradient of a reduction repeated along the axes that went away.
struct Spread {
    gradient: UOp,
    axes: Vec<usize>,
}

fn spread(node: &UOp, g: &UOp, axes: &[u8]) -> Spread {
    let axes: Vec<usize> = axes.iter().map(|&axis| axis as usize).collect();
    Spread { gradient: spread_back(g, node.src()[0].shape(), &axes), axes }
}

pub(super) fn reduce(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Reduce(op, axes) = node.arg() else { return smallvec![None] };
    let spread = spread(node, g, axes);
    let x = &node.src()[0];
    smallvec![match op {
        ReduceOp::Add => Some(spread.gradient),
        ReduceOp::Mul => Some(product(x, &spread)),
        ReduceOp::Max | ReduceOp::Min => to_place(x, *op, None, &spread, Tie::First),
    }]
}

/// All of it to the one element that the reduction found, by its place; where there are more elements than places can count, in equal
/// parts to all that hold the value.
fn to_place(x: &UOp, op: ReduceOp, inside: Option<&UOp>, spread: &Spread, tie: Tie) -> Option<UOp> {
    let x = x.detach();
    let (Ok(found), Ok(places)) = (place_of(&x, op, &spread.axes, inside, tie), places_along(x.shape(), &spread.axes))
    else {
        return to_all(&x, op, inside, spread);
    };
    // Both are stored, for every element along the axes asks for them: fused with what computes them, that has no loop of its own to fill.
    let found = found.contiguous().expand(x.shape().clone());
    Some(places.equals(found).select(stored_once(&spread.gradient), zero(&x)))
}

/// Equal parts of it to all that hold the value.
fn to_all(x: &UOp, op: ReduceOp, inside: Option<&UOp>, spread: &Spread) -> Option<UOp> {
    let holds = ties(x, op, &spread.axes, inside).ok()?;
    let ones = holds.select(number(1.0, x), zero(x));
    let count = spread_back(&sum(&ones, &spread.axes), x.shape(), &spread.axes);
    Some(holds.select(spread.gradient.div(count), zero(x)))
}

/// Of a known extreme: its reduction, what that reduces, and where that counts.
fn known_extreme<'n>(node: &'n UOp, g: &UOp) -> Option<(ReduceOp, &'n UOp, Option<&'n UOp>, Spread)> {
    let [reduced, x, rest @ ..] = node.src() else { return None };
    let Arg::Reduce(op, axes) = without_reshapes(reduced).arg() else { return None };
    Some((*op, x, rest.first(), spread(without_reshapes(reduced), g, axes)))
}

fn without_reshapes(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Reshape {
        node = &node.src()[0];
    }
    node
}

/// Of an extreme whose gradient goes to one element.
pub(super) fn by_place(node: &UOp, g: &UOp, tie: Tie) -> Contribution {
    let mut parts: Contribution = node.src().iter().map(|_| None).collect();
    if let Some((op, x, inside, spread)) = known_extreme(node, g) {
        parts[1] = to_place(x, op, inside, &spread, tie);
    }
    parts
}

/// Of an extreme whose gradient all share that hold it.
pub(super) fn evenly(node: &UOp, g: &UOp) -> Contribution {
    let mut parts: Contribution = node.src().iter().map(|_| None).collect();
    if let Some((op, x, inside, spread)) = known_extreme(node, g) {
        parts[1] = to_all(&x.detach(), op, inside, &spread);
    }
    parts
}

/// Each element of x gets the sum of what the places along its line got that name it.
pub(super) fn gather_along(node: &UOp, g: &UOp) -> Contribution {
    let [_, x, index, axis] = node.src() else { return smallvec![None] };
    let (axis, last) = (axis.as_int().unwrap_or(0) as usize, x.shape().len() - 1);
    // Other axes of the index may be shorter: what is missing names nothing.
    let missing = |k: usize| if k == axis { Dim::Const(0) } else { &x.shape()[k] - &index.shape()[k] };
    let padding: Vec<(Dim, Dim)> = (0..=last).map(|k| (Dim::Const(0), missing(k))).collect();
    let line = |values: &UOp, blank: Scalar| {
        let whole = pad_with(values, &padding, blank);
        let moved = move_axis(&whole, axis, last);
        let mut square = moved.shape().to_vec();
        square.insert(last, x.shape()[axis].clone());
        insert_axis(&moved, last).expand(square)
    };
    let named = line(&index.cast(DType::I64), Scalar::Int(-1));
    let places = positions(named.shape(), last).cast(DType::I64);
    let picked = named.equals(places).select(line(g, Scalar::zero(g.dtype())), zero(g));
    smallvec![None, Some(move_axis(&sum(&picked, &[last + 1]), last, axis)), None, None]
}

/// The product of the other elements: of all that are not zero if this is the only zero, 0 if another is, and the
/// product divided by this element otherwise.
fn product(x: &UOp, spread: &Spread) -> UOp {
    let (nothing, one) = (zero(x), number(1.0, x));
    let is_zero = x.equals(&nothing);
    let kept = crate::ops::reduce::kept_shape(x.shape(), &spread.axes);
    let back = |reduced: UOp| reduced.reshape(kept.clone()).expand(x.shape().clone());
    let nonzero = is_zero.select(&one, x);
    let zeros = back(sum(&is_zero.select(&one, &nothing), &spread.axes));
    let rest = back(nonzero.reduce(ReduceOp::Mul, &spread.axes));
    let here = is_zero.select(&one, &nothing);
    // How many zeros there are besides this element.
    let others = (zeros - here).equals(&nothing);
    &spread.gradient * others.select(rest.div(&nonzero), &nothing)
}

/// Each element of x gets the sum of what the places that read it got: a product with the index as a matrix of ones and zeros.
pub(super) fn gather(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Axis(axis) = node.arg() else { return smallvec![None, None] };
    let axis = *axis as usize;
    let (x, index) = (&node.src()[0], &node.src()[1]);
    let shape = x.shape();
    let reads = index.shape().numel();
    let (before, after) = (&shape[..axis], &shape[axis + 1..]);
    let dims =
        |middle: [Dim; 2]| -> Shape { before.iter().cloned().chain(middle).chain(after.iter().cloned()).collect() };
    let square = dims([shape[axis].clone(), reads.clone()]);
    let gradient = g.reshape(dims([Dim::Const(1), reads.clone()])).expand(square.clone());
    let line = |x: &UOp, at: usize| -> UOp {
        let aligned: Shape =
            (0..square.len()).map(|k| if k == at { square[k].clone() } else { Dim::Const(1) }).collect();
        x.reshape(aligned).expand(square.clone())
    };
    let places = line(&UOp::iota(shape[axis].clone()).cast(index.dtype()), axis);
    let named = line(&index.reshape([reads]), axis + 1);
    let picked = named.equals(&places).select(gradient, zero(g));
    smallvec![Some(sum(&picked, &[axis + 1])), None]
}
