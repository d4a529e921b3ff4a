//! Gradients of reductions.

use smallvec::smallvec;

use super::rules::{Contribution, number, sum, zero};
use crate::UOp;
use crate::ir::{Arg, Combiner, Component, Op, ReduceOp};
use crate::ops::extreme::{Tie, index_of, indices_along, spread_back, stored_once, ties};
use crate::ops::math::exp;

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
    let (op, axes) = match node.arg() {
        Arg::Reduce(op, axes) => (op, axes),
        Arg::ReduceState(component, axes) => return state(node, g, *component, axes),
        _ => return smallvec![None],
    };
    let spread = spread(node, g, axes);
    let x = &node.src()[0];
    smallvec![match op {
        ReduceOp::Add => Some(spread.gradient),
        ReduceOp::Mul => Some(product(x, &spread)),
        ReduceOp::Max | ReduceOp::Min => to_index(x, *op, None, &spread, Tie::First),
    }]
}

/// Of a component of states: to the components of each element.
fn state(node: &UOp, g: &UOp, component: Component, axes: &[u8]) -> Contribution {
    let (src, shape) = (node.src(), node.src()[0].shape());
    let Spread { gradient: g, axes } = spread(node, g, axes);
    let outcome = UOp::reduce_states(component.combiner, src, &axes);
    let back = |number: usize| spread_back(&outcome[number], shape, &axes);
    match (component.combiner, component.number) {
        (Combiner::Moments, 0) => {
            let distance = &src[0] - back(0);
            smallvec![Some(&g * src[2].div(back(2))), None, Some(&g * distance.div(back(2)))]
        }
        (Combiner::Moments, 1) => {
            let distance = &src[0] - back(0);
            let mean = &src[2] * &distance * number(2.0, &g);
            smallvec![Some(&g * mean), Some(g.clone()), Some(&g * (&distance * &distance))]
        }
        (Combiner::Moments, _) => smallvec![None, None, Some(g)],
        (Combiner::LogSumExp | Combiner::SoftmaxSum, 0) => {
            let spread = Spread { gradient: g, axes };
            let by_largest = to_index(&src[0], ReduceOp::Max, None, &spread, Tie::First);
            std::iter::once(by_largest).chain(src[1..].iter().map(|_| None)).collect()
        }
        (Combiner::LogSumExp | Combiner::SoftmaxSum, number_of_sum) => {
            let sum = number_of_sum as usize;
            let largest = back(0);
            let factor = src[0].equals(&largest).select(number(1.0, &g), exp(&(&src[0] - &largest)));
            let spread = Spread { gradient: (&g * back(sum)).negate(), axes };
            let by_largest = to_index(&src[0], ReduceOp::Max, None, &spread, Tie::First);
            let own = &g * (&src[sum] * &factor);
            let of_largest = Some(by_largest.map_or(own.clone(), |other| own + other));
            let of_sum = |number: usize| (number == sum).then(|| &g * &factor);
            std::iter::once(of_largest).chain((1..src.len()).map(of_sum)).collect()
        }
        // Indices name the elements.
        (_, 0) if g.dtype().is_float() => smallvec![Some(src[1].equals(back(1)).select(&g, zero(&g))), None],
        _ => src.iter().map(|_| None).collect(),
    }
}

/// All of it to the one element that the reduction found, by its index; where there are more elements than indices can count, in equal
/// parts to all that hold the value.
fn to_index(x: &UOp, op: ReduceOp, inside: Option<&UOp>, spread: &Spread, tie: Tie) -> Option<UOp> {
    let x = x.detach();
    let (Ok(found), Ok(indices)) =
        (index_of(&x, op, &spread.axes, inside, tie), indices_along(x.shape(), &spread.axes))
    else {
        return to_all(&x, op, inside, spread);
    };
    // Both are stored, for every element along the axes asks for them: fused with what computes them, that has no loop of its own to fill.
    let found = found.contiguous().expand(x.shape().clone());
    Some(indices.equals(found).select(stored_once(&spread.gradient), zero(&x)))
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
pub(super) fn by_index(node: &UOp, g: &UOp, tie: Tie) -> Contribution {
    let mut parts: Contribution = node.src().iter().map(|_| None).collect();
    if let Some((op, x, inside, spread)) = known_extreme(node, g) {
        parts[1] = to_index(x, op, inside, &spread, tie);
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
