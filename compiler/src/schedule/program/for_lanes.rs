//! What machines with groups of lanes, GPUs, compute otherwise, because one thread after another would be too slow there.
//!
//! | what | how |
//! |---|---|
//! | an order of rows | by counting (`ops::side_by_side`) |
//! | a running total | by parts: what each comes to, running totals of these, and those within each part |
//! | a scatter | by parts of the sources and segments of the axis |
//! | a sum over what an index picks | the one element |
//! | the largest and the sum of powers of a long row | in longer blocks |
//! | a product of matrices of few results and many terms | by parts of the terms |
//!
//! Always: orders are the same; totals are combined in another order, which is the same each time. Tested in the test crate, on the emulator of GPUs.

use rustc_hash::FxHashMap;

use super::{longer_blocks, picks, scan_parts, scatter_parts, term_parts};
use crate::ir::{Arg, Function, Op, UOp, postorder, with_mapped_sources};
use crate::ops::side_by_side;
use crate::target::Costs;

/// Values, and which nodes of the program those below them stand for.
pub(super) struct ForLanes {
    pub(super) values: Vec<UOp>,
    pub(super) of_program: FxHashMap<UOp, UOp>,
}

/// The values with what such a machine computes otherwise; none for another machine.
pub(super) fn for_lanes(values: &[UOp], costs: &Costs) -> Option<ForLanes> {
    if costs.instructions_per_ns == 0 {
        return None;
    }
    let ordered = replaced(values, |node| match (node.arg(), node.src()) {
        (Arg::Function(Function::Order), [_, keys, bits]) => side_by_side::order(keys, bits.as_int()? as u32, costs),
        _ => None,
    });
    let summed = replaced(&ordered.values, |node| match node.op() {
        Op::Scan => scan_parts::by_parts(node, costs),
        Op::Scatter => scatter_parts::by_parts(node, costs),
        Op::Reduce => {
            let others = || picks::picked(node).or_else(|| longer_blocks::in_longer_blocks(node));
            term_parts::by_parts(node, costs).or_else(others)
        }
        _ => None,
    });
    let of_program = summed.of_program.iter().filter_map(|(new, node)| {
        let node = ordered.of_program.get(node)?;
        Some((new.clone(), node.clone()))
    });
    Some(ForLanes { of_program: of_program.collect(), values: summed.values })
}

/// The values, some nodes of which are others.
fn replaced(values: &[UOp], other: impl Fn(&UOp) -> Option<UOp>) -> ForLanes {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut of_program: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in postorder(values) {
        let mapped = with_mapped_sources(&node, |operand| &done[operand]);
        let new = other(&mapped).unwrap_or(mapped);
        of_program.entry(new.clone()).or_insert_with(|| node.clone());
        done.insert(node, new);
    }
    ForLanes { values: values.iter().map(|value| done[value].clone()).collect(), of_program }
}
