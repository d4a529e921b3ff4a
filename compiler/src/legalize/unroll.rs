//! Ranges of kind `unroll` become straight-line code: a loop end over one is copied for each of its numbers, and what copies of a reduction come to is
//! combined as a tree.
//!
//! Always: no range of this kind is left; a place that two copies load is loaded once. Tested by filetests, and by random opts on random kernels.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::expand::{kind_of, reclose};
use crate::ir::{AxisKind, Combining, Op, Sources, Substitution, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, is_loop_end, open_operands};
use crate::symbolic::simplify;

/// Straight-line code for unrolled ranges, innermost loop ends first.
pub(super) fn unroll(root: &UOp) -> UOp {
    let mut done: FxHashMap<UOp, SmallVec<[UOp; 1]>> = FxHashMap::default();
    let mut numbers = Numbers::default();
    for node in postorder(std::slice::from_ref(root)) {
        let mut src = Sources::new();
        for operand in node.src() {
            src.extend(done[operand].iter().cloned());
        }
        let rebuilt = if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
        let unrolled = closed_ranges(&rebuilt).iter().any(|range| kind_of(range) == AxisKind::Unroll);
        let results = if is_loop_end(&rebuilt) && unrolled {
            unroll_loop_end(&rebuilt, &mut numbers)
        } else {
            smallvec![rebuilt]
        };
        done.insert(node, results);
    }
    let unrolled = done.remove(root).map(|mut results| results.remove(0)).unwrap_or_else(|| root.clone());
    // All copies at once: what two of them load from one place stays one load.
    if unrolled == *root { unrolled } else { simplify(&unrolled) }
}

/// Graphs with a range at one of its numbers, by both: loop ends share what they close.
#[derive(Default)]
struct Numbers(FxHashMap<(UOp, i64), Substitution<'static>>);

impl Numbers {
    fn at(&mut self, node: &UOp, range: &UOp, number: i64) -> UOp {
        let key = (range.clone(), number);
        let graphs = self.0.entry(key).or_insert_with(|| Substitution::of(range.clone(), UOp::index(number)));
        graphs.apply(node)
    }
}

fn unroll_loop_end(loop_end: &UOp, numbers: &mut Numbers) -> SmallVec<[UOp; 1]> {
    let (unrolled, kept): (Vec<UOp>, Vec<UOp>) =
        closed_ranges(loop_end).iter().cloned().partition(|range| kind_of(range) == AxisKind::Unroll);
    let open = open_operands(loop_end);
    let mut copies: Vec<Vec<UOp>> = vec![open.to_vec()];
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
