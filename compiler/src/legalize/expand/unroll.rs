//! Ranges of kind `unroll` become straight-line code: a loop end over one is copied for each of its numbers, and what copies of a reduction come to is
//! combined as a tree. Ranges of kind `dot` become lanes of the factors of a dot product; where a reduction closes one over anything else, or of another length than an instruction
//! takes, copies.
//!
//! Always: no range of these kinds is left; an element that two copies load is loaded once. Tested by filetests, and by random opts on random kernels.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::{kind_of, reclose};
use crate::ir::{Arg, AxisKind, Combining, DotKind, Op, Sources, Substitution, UOp, postorder};
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, open_operands, range_id};
use crate::symbolic::simplify;

/// Straight-line code for unrolled ranges, innermost loop ends first.
pub(super) fn unroll(root: &UOp) -> UOp {
    let mut done: FxHashMap<UOp, SmallVec<[UOp; 1]>> = FxHashMap::default();
    let mut numbers = Numbers::of(root);
    for node in postorder(std::slice::from_ref(root)) {
        let mut src = Sources::new();
        for operand in node.src() {
            src.extend(done[operand].iter().cloned());
        }
        let rebuilt = if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
        let unrolled = closed_ranges(&rebuilt).iter().any(is_copied);
        let results = if is_loop_end(&rebuilt) && unrolled {
            unroll_loop_end(&rebuilt, &mut numbers)
        } else {
            smallvec![rebuilt]
        };
        done.insert(node, results);
    }
    let unrolled = done.remove(root).map(|mut results| results.remove(0)).unwrap_or_else(|| root.clone());
    // All copies at once: what two of them load from one address stays one load.
    if unrolled == *root { unrolled } else { simplify(&unrolled) }
}

/// Graphs with a range at one of its numbers, by both: loop ends share what they close.
struct Numbers {
    graphs: FxHashMap<(UOp, i64), Substitution<'static>>,
    /// What depends on no range is the same at each of its numbers: of a chain of reductions each would else be copied with all before it.
    dependencies: Dependencies,
}

impl Numbers {
    fn of(root: &UOp) -> Numbers {
        Numbers { graphs: FxHashMap::default(), dependencies: Dependencies::of(root) }
    }

    fn at(&mut self, node: &UOp, range: &UOp, number: i64) -> UOp {
        let key = (range.clone(), number);
        let graphs = self.graphs.entry(key).or_insert_with(|| Substitution::of(range.clone(), UOp::index(number)));
        self.dependencies.extend(node);
        let (dependencies, id) = (&self.dependencies, range_id(range));
        graphs.apply_to(node, |node| dependencies.get(node).contains(id))
    }
}

fn is_copied(range: &UOp) -> bool {
    matches!(kind_of(range), AxisKind::Unroll | AxisKind::Dot)
}

/// The product of a reduction over the terms of a range, as one op that takes all of them, if there is one.
fn dot_product(loop_end: &UOp, range: &UOp, numbers: &mut Numbers) -> Option<UOp> {
    let value = open_operands(loop_end).first().filter(|value| value.op() == Op::DotProducts)?;
    let [left, right, sums] = value.src() else { return None };
    let group = DotKind::of(left.dtype(), right.dtype(), sums.dtype())?.group();
    if kind_of(range) != AxisKind::Dot || !range.src()[0].is_const(group as i64) || left.dtype().lanes() != 1 {
        return None;
    }
    let mut terms = |factor: &UOp| {
        let src: Sources = (0..group as i64).map(|number| numbers.at(factor, range, number)).collect();
        UOp::new(Op::Stack, factor.dtype().with_lanes(group), src, Arg::None)
    };
    let (left, right) = (terms(left), terms(right));
    Some(value.with_src(Sources::from_iter([left, right, sums.clone()])))
}

fn unroll_loop_end(loop_end: &UOp, numbers: &mut Numbers) -> SmallVec<[UOp; 1]> {
    let (mut unrolled, kept): (Vec<UOp>, Vec<UOp>) = closed_ranges(loop_end).iter().cloned().partition(is_copied);
    let product = unrolled.iter().zip(0..).find_map(|(range, at)| Some((dot_product(loop_end, range, numbers)?, at)));
    let open = match product {
        Some((product, at)) => {
            unrolled.remove(at);
            vec![product]
        }
        None => open_operands(loop_end).to_vec(),
    };
    let mut copies: Vec<Vec<UOp>> = vec![open];
    for range in &unrolled {
        let len =
            range.src()[0].as_int().unwrap_or_else(|| panic!("bug in the compiler: unrolled range of unknown length"));
        let each = copies.iter().flat_map(|operands| (0..len).map(move |number| (operands, number)));
        copies = each
            .map(|(operands, number)| operands.iter().map(|operand| numbers.at(operand, range, number)).collect())
            .collect();
    }
    match loop_end.op() {
        Op::Store => copies.iter().map(|operands| reclose(loop_end, operands, kept.iter().cloned())).collect(),
        _ => {
            let combining = Combining::of_reduction(loop_end);
            let states = copies.iter().map(|operands| combining.reduce_ranges(operands, &kept)).collect();
            smallvec![tree(combining, states).swap_remove(combining.number())]
        }
    }
}

/// The components of one value or state.
pub(super) type State = SmallVec<[UOp; 3]>;

/// The states combined pairwise, so that the chain of dependent operations is short.
pub(super) fn tree(combining: Combining, mut states: Vec<State>) -> State {
    while states.len() > 1 {
        states = states
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => combining.combine(a, b),
                _ => pair[0].clone(),
            })
            .collect();
    }
    states.swap_remove(0)
}
