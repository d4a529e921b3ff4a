//! Gradients of scans, and of what is put at elements that an index names. Each takes time in proportion to what it scans or puts.

use smallvec::smallvec;

use super::rules::{Contribution, number, zero};
use crate::dtype::lattice::accumulate;
use crate::ir::{Arg, Combiner, Dim, ReduceOp};
use crate::ops::create::positions;
use crate::ops::elementwise::isnan;
use crate::ops::extreme::stored_once;
use crate::ops::indexing::along as gathered;
use crate::ops::math::{exp, log};
use crate::{DType, UOp};

/// Of each element: what all the elements from it on have to do with it.
pub(super) fn scan(node: &UOp, g: &UOp) -> Contribution {
    if let Arg::ScanState(combiner, axis) = *node.arg() {
        return smallvec![Some(running_log_sum(node, g, combiner, axis as usize))];
    }
    let Arg::Scan(op, axis) = *node.arg() else { return smallvec![None] };
    let (x, axis) = (&node.src()[0], axis as usize);
    let from_here = |x: &UOp| x.flip(&[axis]).scan(ReduceOp::Add, axis).flip(&[axis]);
    smallvec![match op {
        ReduceOp::Add => Some(from_here(g)),
        ReduceOp::Mul => Some(running_product(x, g, axis, from_here)),
        ReduceOp::Max | ReduceOp::Min => running_extreme(node, x, g, axis),
    }]
}

/// To element i goes the sum of `g_j exp(x_i - L_j)` over all j from i on. The sums are taken as logarithms, those of positive and of negative `g` apart,
/// so that no power overflows. Where all up to j are minus infinity, or g is 0, nothing goes anywhere.
fn running_log_sum(node: &UOp, g: &UOp, combiner: Combiner, axis: usize) -> UOp {
    let x = &node.src()[0];
    let (none, lowest) = (zero(x), number(f64::NEG_INFINITY, x));
    let is_nothing = node.equals(&lowest);
    let part = |size: &UOp| {
        let counts = none.lt(size).and(&is_nothing.not());
        let log_size = counts.select(&log(&counts.select(size, number(1.0, x))) - node, &lowest);
        let from_here = log_size.flip(&[axis]).scan_states(combiner, axis).flip(&[axis]);
        let is_none = from_here.equals(&lowest);
        // Minus infinity and an infinite element have no sum.
        is_none.select(&none, exp(&(is_none.select(&none, &from_here) + x)))
    };
    part(g) - part(&g.negate())
}

/// The product up to j without element i is that of all that are not zero, divided by it; or 0 if there is another zero.
fn running_product(x: &UOp, g: &UOp, axis: usize, from_here: impl Fn(&UOp) -> UOp) -> UOp {
    let (none, one) = (zero(x), number(1.0, x));
    let is_zero = x.equals(&none);
    let nonzero = is_zero.select(&one, x);
    let zeros = is_zero.cast(DType::I64).scan(ReduceOp::Add, axis);
    let term = g * nonzero.scan(ReduceOp::Mul, axis);
    let part = |count: i64| from_here(&zeros.equals(UOp::int(count, DType::I64)).select(&term, &none));
    is_zero.select(part(1), part(0)).div(&nonzero)
}

/// All of it to the latest element that the running extreme came from.
fn running_extreme(node: &UOp, x: &UOp, g: &UOp, axis: usize) -> Option<UOp> {
    // What is computed is compared as it lies in memory: computed twice, it might be rounded in two ways.
    let x = stored_once(&x.detach());
    let running = x.scan(node_op(node)?, axis);
    let equal = x.equals(&running);
    let holds = if x.dtype().is_float() { equal.or(&isnan(&x).and(&isnan(&running))) } else { equal };
    let position = positions(x.shape(), axis).cast(DType::I64);
    let latest = holds.select(&position, UOp::int(0, DType::I64)).scan(ReduceOp::Max, axis);
    Some(summed(&x, &latest, g, axis))
}

fn node_op(node: &UOp) -> Option<ReduceOp> {
    match node.arg() {
        Arg::Scan(op, _) => Some(*op),
        _ => None,
    }
}

/// In the shape of x: for each element the sum of what the index puts there, added in the type in which sums of its type are.
pub(super) fn summed(x: &UOp, index: &UOp, g: &UOp, axis: usize) -> UOp {
    let wide = accumulate(g.dtype());
    let sums = blank(&x.cast(wide), 0.0).scatter(index, &g.cast(wide), Some(ReduceOp::Add), axis);
    sums.cast(g.dtype())
}

/// A tensor of one number in the shape of another.
fn blank(like: &UOp, value: f64) -> UOp {
    let ones = vec![1i64; like.shape().len()];
    number(value, like).reshape(ones).expand(like.shape().clone())
}

/// Each element gets what the index that it was put at got.
pub(super) fn place(node: &UOp, g: &UOp) -> Contribution {
    let (Arg::Axis(axis), [index, _]) = (node.arg(), node.src()) else { return smallvec![None, None] };
    smallvec![None, Some(gathered(g, index, *axis as usize))]
}

/// Each element of x gets the sum of what the elements that read it got.
pub(super) fn gather(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Axis(axis) = *node.arg() else { return smallvec![None, None] };
    let axis = axis as usize;
    let (x, index) = (&node.src()[0], &node.src()[1]);
    let reads = index.shape().numel();
    let mut shape = x.shape().to_vec();
    shape[axis] = reads.clone();
    let mut line = vec![Dim::Const(1); shape.len()];
    line[axis] = reads;
    let index = index.reshape(line).expand(shape.clone());
    smallvec![Some(summed(x, &index, &g.reshape(shape), axis)), None]
}

/// Each element of x gets the sum of what the elements along its line got whose index names it.
pub(super) fn gather_along(node: &UOp, g: &UOp) -> Contribution {
    let [_, x, index, axis] = node.src() else { return smallvec![None] };
    let axis = axis.as_int().unwrap_or(0) as usize;
    smallvec![None, Some(summed(x, index, g, axis)), None, None]
}

/// To x and to the source, by how they were combined.
pub(super) fn scatter(node: &UOp, g: &UOp) -> Contribution {
    let (Arg::Scatter(op, axis), [x, index, source]) = (node.arg(), node.src()) else { return smallvec![None] };
    let at = Indexed { index, axis: *axis as usize };
    let (to_x, to_source) = match op {
        Some(ReduceOp::Add) => (Some(g.clone()), at.read(g)),
        Some(ReduceOp::Mul) => at.of_product(x, source, g),
        Some(op @ (ReduceOp::Max | ReduceOp::Min)) => at.of_extreme(*op, x, source, g),
        None => at.of_replaced(g),
    };
    smallvec![to_x, None, to_source]
}

struct Indexed<'n> {
    index: &'n UOp,
    axis: usize,
}

impl Indexed<'_> {
    /// What a tensor holds where the index says, 0 where that is out of range.
    fn read(&self, x: &UOp) -> Option<UOp> {
        Some(gathered(x, self.index, self.axis))
    }

    fn put(&self, x: &UOp, source: &UOp, op: Option<ReduceOp>) -> UOp {
        x.scatter(self.index, source, op, self.axis)
    }

    /// The last of the sources for an element gets what the element gets, and x where no source was put.
    fn of_replaced(&self, g: &UOp) -> (Option<UOp>, Option<UOp>) {
        let none = UOp::int(-1, DType::I64);
        let shape = g.shape().clone();
        let nobody = none.reshape(vec![1i64; shape.len()]).expand(shape);
        let number = positions(self.index.shape(), self.axis).cast(DType::I64);
        let winner = self.put(&nobody, &number, None);
        let wins = self.read(&winner).map(|winner| winner.equals(&number));
        let to_source = wins.zip(self.read(g)).map(|(wins, g)| wins.select(&g, zero(&g)));
        (Some(winner.equals(&none).select(g, zero(g))), to_source)
    }

    /// The product of all others: of those that are not zero, unless another is.
    fn of_product(&self, x: &UOp, source: &UOp, g: &UOp) -> (Option<UOp>, Option<UOp>) {
        let (none, one) = (zero(x), number(1.0, x));
        let split = |value: &UOp| {
            let is_zero = value.equals(&none);
            (is_zero.cast(DType::I64), is_zero.select(&one, value))
        };
        let ((x_zeros, x_rest), (zeros, rest)) = (split(x), split(source));
        let all_zeros = self.put(&x_zeros, &zeros, Some(ReduceOp::Add));
        let term = g * self.put(&x_rest, &rest, Some(ReduceOp::Mul));
        let without = |all: &UOp, own: &UOp, term: &UOp, rest: &UOp| {
            let alone = (all - own).equals(UOp::int(0, DType::I64));
            alone.select(term.div(rest), &none)
        };
        let to_source = self.read(&all_zeros).zip(self.read(&term));
        let to_source = to_source.map(|(all, term)| without(&all, &zeros, &term, &rest));
        (Some(without(&all_zeros, &x_zeros, &term, &x_rest)), to_source)
    }

    /// All that hold the extreme for an element share.
    fn of_extreme(&self, op: ReduceOp, x: &UOp, source: &UOp, g: &UOp) -> (Option<UOp>, Option<UOp>) {
        let (x, source) = (stored_once(&x.detach()), stored_once(&source.detach()));
        let best = stored_once(&self.put(&x, &source, Some(op)));
        let holds = |value: &UOp, best: &UOp| {
            let equal = value.equals(best).or(&isnan(value).and(&isnan(best)));
            equal.select(number(1.0, value), zero(value))
        };
        let x_holds = holds(&x, &best);
        let Some(holds) = self.read(&best).map(|best| holds(&source, &best)) else { return (None, None) };
        let count = self.put(&x_holds, &holds, Some(ReduceOp::Add));
        let share = g.div(count);
        (Some(x_holds * &share), self.read(&share).map(|share| holds * share))
    }
}
