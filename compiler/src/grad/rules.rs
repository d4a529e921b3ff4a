//! What each op passes on to its operands: a rule, or why there is none.
//!
//! A rule is given the node and the gradient of its value, and gives what goes to each operand, in the node's shape and the
//! operand's type (what an elementwise op repeated is summed by the walk). `None` for an operand means that nothing goes there:
//! integers, conditions, and operands whose derivative is 0 everywhere.

use smallvec::{SmallVec, smallvec};

use super::functions::function;
use super::reductions::reduce;
use super::scans::{gather, place, scan, scatter};
use super::strided::as_strided;
use crate::UOp;
use crate::dtype::Scalar;
use crate::dtype::lattice::accumulate;
use crate::ir::{Arg, Dim, Op, ReduceOp};

/// What goes to each operand.
pub type Contribution = SmallVec<[Option<UOp>; 3]>;

/// How an op passes gradients on.
#[derive(Clone, Copy)]
pub enum Rule {
    /// By this function of the node and its gradient.
    Contributes(fn(&UOp, &UOp) -> Contribution),
    /// Not at all, for this reason.
    None(&'static str),
}

use Rule::{Contributes, None as Nothing};

/// The rule of an op.
// tidy: table
pub fn rule(op: Op) -> Rule {
    match op {
        Op::Neg => Contributes(|_, g| smallvec![Some(g.negate())]),
        Op::Exp2 => Contributes(|node, g| smallvec![Some(g * (node * number(std::f64::consts::LN_2, node)))]),
        Op::Log2 => Contributes(|node, g| {
            let x = &node.src()[0];
            smallvec![Some(g.div(x * number(std::f64::consts::LN_2, x)))]
        }),
        Op::Sin => Contributes(|node, g| smallvec![Some(g * node.src()[0].cos())]),
        Op::Cos => Contributes(|node, g| smallvec![Some((g * node.src()[0].sin()).negate())]),
        Op::Sqrt => Contributes(|node, g| smallvec![Some(g.div(node + node))]),
        Op::Cast => Contributes(|node, g| smallvec![Some(g.cast(node.src()[0].dtype()))]),
        Op::Add => Contributes(|_, g| smallvec![Some(g.clone()), Some(g.clone())]),
        Op::Sub => Contributes(|_, g| smallvec![Some(g.clone()), Some(g.negate())]),
        Op::Mul => Contributes(|node, g| smallvec![Some(g * &node.src()[1]), Some(g * &node.src()[0])]),
        Op::Div => Contributes(|node, g| {
            let b = &node.src()[1];
            smallvec![Some(g.div(b)), Some((g * node.div(b)).negate())]
        }),
        Op::CMod => Contributes(|node, g| {
            let (a, b) = (&node.src()[0], &node.src()[1]);
            smallvec![Some(g.clone()), Some((g * a.div(b).trunc()).negate())]
        }),
        Op::Max => Contributes(|node, g| larger(node, g, false)),
        Op::Min => Contributes(|node, g| larger(node, g, true)),
        Op::Where => Contributes(|node, g| {
            let (condition, zero) = (&node.src()[0], number(0.0, node));
            smallvec![None, Some(condition.select(g, &zero)), Some(condition.select(&zero, g))]
        }),
        Op::MulAdd => {
            Contributes(|node, g| smallvec![Some(g * &node.src()[1]), Some(g * &node.src()[0]), Some(g.clone())])
        }
        Op::Function => Contributes(function),

        Op::Reshape => Contributes(|node, g| smallvec![Some(g.reshape(node.src()[0].shape().clone()))]),
        Op::Permute => Contributes(permute),
        Op::Expand => Contributes(expand),
        Op::Pad => Contributes(pad),
        Op::Shrink => Contributes(shrink),
        Op::Flip => Contributes(flip),
        Op::AsStrided => Contributes(as_strided),
        Op::Reduce => Contributes(reduce),
        Op::Scan => Contributes(scan),
        Op::Gather => Contributes(gather),
        Op::Scatter => Contributes(scatter),
        Op::Place => Contributes(place),
        Op::Contiguous => Contributes(|_, g| smallvec![Some(g.clone())]),
        Op::Copy => Contributes(copy),
        Op::Write => Contributes(write),

        Op::Detach => Nothing("it is there to stop gradients"),
        Op::Trunc => Nothing("steps have derivative 0 wherever they have one"),
        Op::Lt | Op::Eq | Op::Ne => Nothing("a comparison gives a bool"),
        Op::Not | Op::And | Op::Or | Op::Xor | Op::Shl | Op::Shr | Op::IDiv | Op::Mod | Op::CDiv => {
            Nothing("works on integers and bools alone")
        }
        Op::Bitcast => Nothing("bits are no number of which there is a derivative"),
        Op::Fetch => Nothing("is of integers"),
        Op::Const | Op::Buffer | Op::Param | Op::Variable | Op::Bind | Op::Iota => Nothing("has no operand"),
        Op::Range
        | Op::Materialize
        | Op::ReduceRange
        | Op::Running
        | Op::Exchange
        | Op::Previous
        | Op::Store
        | Op::Index
        | Op::Load
        | Op::LocalBuffer
        | Op::Sink
        | Op::Ramp
        | Op::Splat
        | Op::Stack
        | Op::Lane
        | Op::HorizontalReduce
        | Op::LoadMatrices
        | Op::MultiplyMatrices
        | Op::DotProducts
        | Op::MultiplyTiles
        | Op::Scratch
        | Op::Accumulator
        | Op::Update
        | Op::Final
        | Op::ShuffleReduce
        | Op::Prefetch
        | Op::Barrier
        | Op::EndRange => Nothing("occurs inside of kernels, after gradients were taken"),
    }
}

/// The number as a constant of the node's type.
pub(super) fn number(value: f64, like: &UOp) -> UOp {
    UOp::float(value, like.dtype())
}

/// Summed along ascending axes, half floats in `f32`.
pub(super) fn sum(x: &UOp, axes: &[usize]) -> UOp {
    x.cast(accumulate(x.dtype())).reduce(ReduceOp::Add, axes).cast(x.dtype())
}

/// To the larger (or smaller) of two; to both by half where they are equal, and all of it to both where one is NaN.
fn larger(node: &UOp, g: &UOp, smaller: bool) -> Contribution {
    let (a, b) = (&node.src()[0], &node.src()[1]);
    let (first_loses, second_loses) = if smaller { (b.lt(a), a.lt(b)) } else { (a.lt(b), b.lt(a)) };
    let zero = number(0.0, g);
    let shared = a.equals(b).select(g * number(0.5, g), g);
    smallvec![Some(first_loses.select(&zero, &shared)), Some(second_loses.select(&zero, &shared))]
}

fn permute(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Axes(order) = node.arg() else { return smallvec![None] };
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(position, &axis)| inverse[axis as usize] = position);
    smallvec![Some(g.permute(&inverse))]
}

fn expand(node: &UOp, g: &UOp) -> Contribution {
    let (from, to) = (node.src()[0].shape(), node.shape());
    let axes: Vec<usize> = (0..to.len()).filter(|&axis| from[axis].is(1) && !to[axis].is(1)).collect();
    smallvec![Some(if axes.is_empty() { g.clone() } else { sum(g, &axes).reshape(from.clone()) })]
}

fn pad(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Bounds(bounds) = node.arg() else { return smallvec![None] };
    let lengths = node.src()[0].shape();
    let kept: Vec<(Dim, Dim)> =
        bounds.iter().zip(lengths.iter()).map(|((before, _), len)| (before.clone(), before + len)).collect();
    // Symbolic lengths may be written otherwise than the operand's.
    smallvec![Some(g.shrink(&kept).reshape(lengths.clone()))]
}

fn shrink(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Bounds(bounds) = node.arg() else { return smallvec![None] };
    let lengths = node.src()[0].shape();
    let cut: Vec<(Dim, Dim)> =
        bounds.iter().zip(lengths.iter()).map(|((start, end), len)| (start.clone(), len - end)).collect();
    smallvec![Some(g.pad(&cut).reshape(lengths.clone()))]
}

fn flip(node: &UOp, g: &UOp) -> Contribution {
    smallvec![Some(UOp::new(Op::Flip, g.dtype(), vec![g.clone()], node.arg().clone()))]
}

/// To the base where it was not replaced, to the value through the view.
fn write(node: &UOp, g: &UOp) -> Contribution {
    let Arg::View(steps) = node.arg() else { return smallvec![None, None] };
    let value = &node.src()[1];
    let ones = vec![1i64; value.shape().len()];
    let nothing = zero(node).reshape(ones).expand(value.shape().clone());
    smallvec![Some(g.write(steps, &nothing)), Some(g.through(steps))]
}

/// Back to the device whose memory the operand reads; staying where it is if that reads none.
fn copy(node: &UOp, g: &UOp) -> Contribution {
    let leaves = crate::ir::postorder(&node.src()[..1]);
    let device = leaves.iter().rev().find_map(|leaf| match leaf.arg() {
        Arg::Buffer(buffer) => Some(buffer.device.clone()),
        Arg::Device(device) => Some(device.clone()),
        _ => None,
    });
    smallvec![Some(match device {
        Some(device) => UOp::new(Op::Copy, g.dtype(), vec![g.clone()], Arg::Device(device)),
        None => g.clone(),
    })]
}

/// Zero of the node's type, for choosing.
pub(super) fn zero(like: &UOp) -> UOp {
    UOp::constant(Scalar::zero(like.dtype()), like.dtype())
}
