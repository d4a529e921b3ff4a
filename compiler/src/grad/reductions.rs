//! Gradients of reductions and of indexing.

use smallvec::smallvec;

use super::rules::{Contribution, number, sum, zero};
use crate::UOp;
use crate::ir::{Arg, Dim, ReduceOp, Shape};

/// The gradient of a reduction, and its value, repeated along the axes that went away.
struct Spread {
    gradient: UOp,
    value: UOp,
    axes: Vec<usize>,
}

fn spread(node: &UOp, g: &UOp, axes: &[u8]) -> Spread {
    let shape = node.src()[0].shape();
    let axes: Vec<usize> = axes.iter().map(|&axis| axis as usize).collect();
    let kept = crate::ops::reduce::kept_shape(shape, &axes);
    let back = |x: &UOp| x.reshape(kept.clone()).expand(shape.clone());
    Spread { gradient: back(g), value: back(node), axes }
}

pub(super) fn reduce(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Reduce(op, axes) = node.arg() else { return smallvec![None] };
    let spread = spread(node, g, axes);
    let x = &node.src()[0];
    smallvec![Some(match op {
        ReduceOp::Add => spread.gradient,
        ReduceOp::Mul => product(x, &spread),
        ReduceOp::Max | ReduceOp::Min => extreme(x, &spread),
    })]
}

/// To all that hold the extreme value, in equal parts.
fn extreme(x: &UOp, spread: &Spread) -> UOp {
    let holds = x.equals(&spread.value);
    let ones = holds.select(number(1.0, x), zero(x));
    let kept = crate::ops::reduce::kept_shape(x.shape(), &spread.axes);
    let count = sum(&ones, &spread.axes).reshape(kept).expand(x.shape().clone());
    holds.select(spread.gradient.div(count), zero(x))
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
