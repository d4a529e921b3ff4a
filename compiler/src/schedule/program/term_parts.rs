//! Products of matrices of few results and many terms, as gradients of weights are: by parts of the terms, so that there are blocks for the whole machine.
//!
//! ```text
//! partial[part, ..]    the terms of a part, for each result
//! result               the parts, and the few terms that are left over
//! ```
//!
//! Gradients of the weights of a convolution have several axes of terms, images and positions: then one of them is cut.
//!
//! How many parts follows from the blocks that there are without them, and from the bytes of the partial results.
//!
//! Always: the same terms for each result, with other brackets. Tested in the test crate.

use crate::ir::{Arg, Dim, Op, ReduceOp, UOp};
use crate::target::Costs;
use crate::view::collect_movement_chain;

/// Results of a block, about: a tile of 64 rows by 64 columns.
const RESULTS_OF_BLOCK: f64 = 4096.0;
/// Terms of a part, at least: a block has to begin and to store its results.
const TERMS_MIN: i64 = 256;
/// Products that each element of an operand is part of, at least: of fewer rows or columns, memory takes longer, and other choices have blocks enough.
const REUSED: i64 = 64;
/// How much less time parts have to take.
const WORTH: f64 = 2.0;

/// A sum of products by parts of its terms; none where there are blocks enough.
pub(super) fn by_parts(node: &UOp, costs: &Costs) -> Option<UOp> {
    let Arg::Reduce(ReduceOp::Add, axes) = node.arg() else { return None };
    let operand = &node.src()[0];
    let lens = operand.shape().as_const()?;
    let terms: i64 = axes.iter().map(|axis| lens[usize::from(*axis)]).product();
    let results = lens.iter().product::<i64>() / terms.max(1);
    if results < i64::from(costs.few_results) || !is_product(operand, results.saturating_mul(terms)) {
        return None;
    }
    let total_ns = |parts: i64| {
        let busy = (results as f64 / RESULTS_OF_BLOCK * parts as f64 / f64::from(costs.few_results)).min(1.0);
        let products = results as f64 * terms as f64 / f64::from(costs.terms_per_ns.max(1)) / busy;
        let partial = results as f64 * 8.0 * parts as f64 / f64::from(costs.memory_bytes_per_ns.max(1));
        products + if parts > 1 { partial + f64::from(costs.launch_ns) } else { 0.0 }
    };
    let powers = || {
        let powers = std::iter::successors(Some(1i64), |parts| Some(parts * 2));
        powers.take_while(|parts| parts * TERMS_MIN <= terms)
    };
    // Of one axis some terms may be left over; of several, one that is cut leaves none.
    let cuts = axes.iter().map(|axis| usize::from(*axis)).flat_map(|axis| powers().map(move |parts| (axis, parts)));
    let mut cuts = cuts.filter(|(axis, parts)| axes.len() == 1 || lens[*axis] % parts == 0);
    let first = cuts.next()?;
    let (axis, parts) = cuts.fold(first, |best, cut| if total_ns(cut.1) < total_ns(best.1) { cut } else { best });
    (parts > 1 && total_ns(parts) * WORTH < total_ns(1)).then(|| divided(node, axis, parts))
}

/// Whether a value is a product of two that are each much smaller.
fn is_product(value: &UOp, products: i64) -> bool {
    let mut value = value;
    while value.op() == Op::Cast {
        value = &value.src()[0];
    }
    let elements = |factor: &UOp| {
        let mut factor = factor;
        while factor.op() == Op::Cast || factor.op().is_movement() {
            factor = &factor.src()[0];
        }
        collect_movement_chain(factor).0.shape().numel().max_value()
    };
    value.op() == Op::Mul && value.src().iter().all(|factor| elements(factor).saturating_mul(REUSED) <= products)
}

/// The sum with its terms in so many parts, each in order.
fn divided(node: &UOp, axis: usize, parts: i64) -> UOp {
    let operand = &node.src()[0];
    let shape = operand.shape();
    let (terms, rank) = (shape[axis].max_value(), shape.len());
    let (of_part, whole) = (terms / parts, terms / parts * parts);
    let between = |from: i64, to: i64| {
        let bounds = (0..rank).map(|k| match k == axis {
            true => (Dim::from(from), Dim::from(to)),
            false => (Dim::from(0), shape[k].clone()),
        });
        operand.shrink(&bounds.collect::<Vec<_>>())
    };
    let main = if whole == terms { operand.clone() } else { between(0, whole) };
    let mut cut = shape.to_vec();
    cut[axis] = of_part.into();
    cut.insert(axis, parts.into());
    // Parts outermost: so each of them stores its results side by side.
    let order: Vec<usize> = std::iter::once(axis).chain((0..=rank).filter(|k| *k != axis)).collect();
    let reduced: Vec<usize> = node.reduced_axes().into_iter().flatten().map(|axis| usize::from(*axis) + 1).collect();
    let partial = main.reshape(cut).permute(&order).reduce(ReduceOp::Add, &reduced).contiguous();
    let total = partial.reduce(ReduceOp::Add, &[0]);
    match terms - whole {
        0 => total,
        _ => total + between(whole, terms).reduce(ReduceOp::Add, &[axis]),
    }
}
