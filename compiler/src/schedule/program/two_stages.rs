//! Big reductions with few results in two stages: parts of the input each on its own, then the results of the parts, so that all threads have work.
//!
//! The sum of `[3, 4468, 9, 4]` has one result. No axis of it is cut well: what lies behind each other in memory is one axis of 482,544 for this
//! purpose, of which 432 parts have 1,117 elements each. Axes that a `permute` exchanged are put back in the order of the memory first.
//!
//! Always: the same elements are reduced for each result, in another order. Tested by the tests below, and by `tests/it/sums.rs`.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ir::{Axes, Combining, Dim, Op, UOp};
use crate::schedule::cost;
use crate::target::Costs;
use crate::view::{ShapeTracker, View};

/// Nodes below a reduction that are looked at to see how its input lies in memory.
const NODES_LOOKED_AT: usize = 64;

/// Operands of a reduction with its axes as they lie in memory: those that one loop walks are one.
struct InMemory {
    operands: Vec<UOp>,
    axes: Axes,
}

impl InMemory {
    fn of(operands: &[UOp], axes: &Axes, lens: &[i64]) -> InMemory {
        let as_given = InMemory { operands: operands.to_vec(), axes: axes.clone() };
        let Some(steps) = steps_of_sources(operands) else { return as_given };
        // Who has the most elements says which axis is the inner one.
        let elements = |steps: &&Vec<i64>| -> i64 {
            lens.iter().zip(*steps).filter(|(_, step)| **step != 0).map(|(len, _)| *len).product()
        };
        let Some(leading) = steps.iter().rev().max_by_key(elements) else { return as_given };
        let reduced: Vec<usize> = axes.iter().map(|&axis| axis as usize).collect();
        let mut ordered = reduced.clone();
        // What does not step through that memory stays outside.
        ordered.sort_by_key(|&axis| {
            std::cmp::Reverse(if leading[axis] == 0 { i64::MAX } else { leading[axis].saturating_abs() })
        });
        let kept: Vec<usize> = (0..lens.len()).filter(|axis| !reduced.contains(axis)).collect();
        let order: Vec<usize> =
            if ordered == reduced { (0..lens.len()).collect() } else { kept.iter().chain(&ordered).copied().collect() };
        let is_one_loop = |outer: usize, inner: usize| {
            steps.iter().all(|steps| steps[outer] == steps[inner].saturating_mul(lens[inner]))
        };
        let mut shape: Vec<i64> = Vec::new();
        let mut new_axes = Axes::new();
        for (k, &axis) in order.iter().enumerate() {
            let is_reduced = reduced.contains(&axis);
            let joins = k > 0 && is_reduced && reduced.contains(&order[k - 1]) && is_one_loop(order[k - 1], axis);
            match shape.last_mut().filter(|_| joins) {
                Some(len) => *len *= lens[axis],
                None => {
                    if is_reduced {
                        new_axes.push(shape.len() as u8);
                    }
                    shape.push(lens[axis]);
                }
            }
        }
        let moved = |operand: &UOp| match ordered == reduced {
            true => operand.clone(),
            false => operand.permute(&order),
        };
        InMemory {
            operands: operands.iter().map(|operand| moved(operand).reshape(shape.clone())).collect(),
            axes: new_axes,
        }
    }
}

/// For each tensor below some values of one shape, computed from it element by element: how far in memory a step along each axis of the values goes.
///
/// `None` where that is not told by one number an axis, or there is too much to look at.
fn steps_of_sources(values: &[UOp]) -> Option<Vec<Vec<i64>>> {
    let mut walk = Walk { known: FxHashMap::default() };
    let mut steps: Vec<Vec<i64>> = Vec::new();
    for value in values {
        for view in walk.views(value)? {
            steps.push(view.strides().as_const()?);
        }
    }
    Some(steps)
}

/// The walk from values down to what they are computed from.
struct Walk {
    known: FxHashMap<UOp, Vec<View>>,
}

impl Walk {
    /// The sources of a node as views of its shape, but for those that are one number everywhere.
    fn views(&mut self, node: &UOp) -> Option<Vec<View>> {
        if let Some(views) = self.known.get(node) {
            return Some(views.clone());
        }
        if self.known.len() == NODES_LOOKED_AT {
            return None;
        }
        // What is being looked at counts, too: so the walk is no deeper than it is long.
        self.known.insert(node.clone(), Vec::new());
        let mut views: Vec<View> = Vec::new();
        if node.op().is_movement() {
            for view in self.views(&node.src()[0])? {
                let moved = ShapeTracker::from_view(view).apply(node.op(), node.arg());
                let [view] = moved.views() else { return None };
                views.push(view.clone());
            }
        } else if node.op().is_elementwise() {
            for operand in node.src() {
                for view in self.views(operand)? {
                    if !views.contains(&view) {
                        views.push(view);
                    }
                }
            }
        } else if node.op() != Op::Const {
            views.push(View::contiguous(node.shape().clone()));
        }
        // What is padded is not walked evenly.
        if views.iter().any(|view| view.mask().is_some()) {
            return None;
        }
        views.retain(|view| view.strides().iter().any(|step| !step.is(0)));
        self.known.insert(node.clone(), views.clone());
        Some(views)
    }
}

/// A big reduction with few results as two: each of some hundred parts of one axis on its own, then the parts.
///
/// `None` where one stage has enough parallel work, or where no axis can be cut.
pub(super) fn in_two_stages(operands: &[UOp], combining: Combining, axes: &Axes, costs: &Costs) -> Option<UOp> {
    let lens = operands[0].shape().as_const()?;
    let is_reduced = |axis: usize| axes.contains(&(axis as u8));
    let results: i64 = (0..lens.len()).filter(|&axis| !is_reduced(axis)).map(|axis| lens[axis]).product();
    let inputs: i64 = lens.iter().product();
    if results >= i64::from(costs.few_results) || inputs < i64::from(costs.inputs_of_two_stages) {
        return None;
    }
    let InMemory { operands, axes } = InMemory::of(operands, axes, &lens);
    let (operands, axes) = (&operands[..], &axes);
    let lens = operands[0].shape().as_const()?;
    let is_reduced = |axis: usize| axes.contains(&(axis as u8));
    // Enough parts for every thread, each still long.
    let parts_wanted = (i64::from(costs.partial_results) / results.max(1)).max(2);
    let divisor_of = |len: i64| (2..=parts_wanted.min(len)).rev().find(|parts| len % parts == 0);
    // The outermost axis that can be cut well keeps the parts in one piece each.
    let cut = (0..lens.len())
        .filter(|&axis| is_reduced(axis))
        .filter_map(|axis| divisor_of(lens[axis]).map(|parts| (axis, parts)))
        .max_by_key(|&(axis, parts)| (parts.min((parts_wanted + 3) / 4), std::cmp::Reverse(axis)));
    match cut {
        Some((axis, parts)) if parts >= cost::PARTS_MIN.min(parts_wanted) => {
            Some(staged(operands, combining, axes, axis, parts).swap_remove(combining.number()))
        }
        _ => by_pieces(operands, combining, axes, &lens, parts_wanted),
    }
}

/// Axis `axis` cut into `parts`, each reduced with all other reduced axes, then the parts.
fn staged(operands: &[UOp], combining: Combining, axes: &Axes, axis: usize, parts: i64) -> Vec<UOp> {
    let shape = operands[0].shape();
    let len = shape[axis].as_const().unwrap_or(parts);
    let mut split: SmallVec<[Dim; 6]> = shape.iter().cloned().collect();
    let whole = len == parts;
    if !whole {
        split[axis] = Dim::from(parts);
        split.insert(axis + 1, Dim::from(len / parts));
    }
    let inner: Vec<UOp> = operands.iter().map(|operand| operand.reshape(split.to_vec())).collect();
    // Behind the cut axis all axes have moved up by one; what is left of the cut axis itself is reduced first too.
    let moved = |old: usize| if old > axis && !whole { old + 1 } else { old };
    let mut first: Vec<usize> = axes.iter().map(|&old| old as usize).filter(|&old| old != axis).map(moved).collect();
    if !whole {
        first.push(axis + 1);
    }
    first.sort_unstable();
    if first.is_empty() {
        return combining.reduce_all(operands, &[axis]);
    }
    let partial: Vec<UOp> = combining.reduce_all(&inner, &first).iter().map(UOp::contiguous).collect();
    let position = (0..axis).filter(|old| !axes.contains(&(*old as u8))).count();
    combining.reduce_all(&partial, &[position])
}

/// Where no axis divides: the longest reduced axis without its remainder in two stages, and the remainder by itself.
fn by_pieces(operands: &[UOp], combining: Combining, axes: &Axes, lens: &[i64], parts: i64) -> Option<UOp> {
    let axis = axes.iter().map(|&axis| axis as usize).max_by_key(|&axis| (lens[axis], std::cmp::Reverse(axis)))?;
    let whole = lens[axis] / parts * parts;
    if whole == 0 || whole == lens[axis] {
        return None;
    }
    let piece = |from: i64, to: i64| -> Vec<UOp> {
        let bounds: Vec<(Dim, Dim)> = lens
            .iter()
            .enumerate()
            .map(|(k, &len)| if k == axis { (Dim::from(from), Dim::from(to)) } else { (Dim::from(0), Dim::from(len)) })
            .collect();
        operands.iter().map(|operand| operand.shrink(&bounds)).collect()
    };
    let reduced: Vec<usize> = axes.iter().map(|&axis| axis as usize).collect();
    let main = staged(&piece(0, whole), combining, axes, axis, parts);
    let rest = combining.reduce_all(&piece(whole, lens[axis]), &reduced);
    Some(combining.combine(&main, &rest).swap_remove(combining.number()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, ReduceOp};
    use crate::view::track_movement;

    fn param(len: u64) -> UOp {
        UOp::param(0, DType::F32, len)
    }

    /// A sum of one value in two stages; itself where one is enough.
    fn one(value: &UOp) -> UOp {
        let Arg::Reduce(op, axes) = value.arg() else { panic!("no reduction: {value:?}") };
        in_two_stages(value.src(), Combining::One(*op), axes, &Costs::cpu()).unwrap_or_else(|| value.clone())
    }

    /// What the parts are reduced from.
    fn input_of_parts(value: &UOp) -> UOp {
        let partial = &value.src()[0];
        assert_eq!(partial.op(), Op::Contiguous);
        partial.src()[0].src()[0].clone()
    }

    #[test]
    fn big_reductions_with_few_results_are_cut_in_two() {
        let sum = one(&param(1 << 24).reduce(ReduceOp::Add, &[0]));
        assert_eq!(sum.src()[0].op(), Op::Contiguous);
        assert_eq!(sum.src()[0].shape().as_const().unwrap(), [1024]);
        let rows = param(1 << 24).reshape([4096, 4096]);
        assert_eq!(one(&rows.reduce(ReduceOp::Add, &[0])).src()[0].op(), Op::Reshape);
        // Rows enough for every thread stay whole; 4 results of 2^20 inputs each become 256 parts.
        let rows = param(1 << 20).reshape([512, 2048]).reduce(ReduceOp::Max, &[1]);
        assert_eq!(one(&rows), rows);
        let four = one(&param(1 << 22).reshape([4, 1 << 20]).reduce(ReduceOp::Max, &[1]));
        assert_eq!(four.src()[0].shape().as_const().unwrap(), [4, 256]);
        // A prime length has a remainder, which is added by itself.
        let prime = one(&param(1_000_003).reduce(ReduceOp::Add, &[0]));
        assert_eq!((prime.op(), prime.shape().len()), (Op::Add, 0));
    }

    #[test]
    fn axes_that_lie_in_a_row_are_one_axis() {
        let x = param(3 * 4468 * 9 * 4).reshape([3, 4468, 9, 4]).exp2();
        let sum = one(&x.reduce(ReduceOp::Add, &[0, 1, 2, 3]));
        assert_eq!(input_of_parts(&sum).shape().as_const().unwrap(), [432, 1117]);
        // One of two tensors lies otherwise.
        let y = UOp::param(1, DType::F32, 300 * 1000).reshape([1000, 300]).permute(&[1, 0]);
        let both = param(300 * 1000).reshape([300, 1000]) * y;
        let sum = one(&both.reduce(ReduceOp::Add, &[0, 1]));
        assert_eq!(input_of_parts(&sum).shape().as_const().unwrap(), [300, 1000]);
    }

    #[test]
    fn axes_are_reduced_in_the_order_of_the_memory() {
        let x = param(12 * 35 * 272 * 8).reshape([12, 35, 272, 8]).permute(&[1, 0, 3, 2]);
        let sum = one(&x.reduce(ReduceOp::Add, &[0, 1, 2, 3]));
        let (memory, view) = track_movement(&input_of_parts(&sum));
        assert_eq!((memory.op(), view.shape().as_const().unwrap().to_vec()), (Op::Param, vec![1020, 896]));
        assert!(view.is_contiguous());
        // An axis that is kept stands between those that are reduced.
        let x = param(2000 * 5 * 300).reshape([2000, 5, 300]).permute(&[2, 1, 0]);
        let sum = one(&x.reduce(ReduceOp::Max, &[0, 2]));
        assert_eq!(sum.shape().as_const().unwrap(), [5]);
        assert_eq!(input_of_parts(&sum).shape().as_const().unwrap(), [5, 200, 10, 300]);
    }
}
