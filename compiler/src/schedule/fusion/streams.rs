//! Reductions of states by blocks whose loop stands outside of loops over what they come to.
//!
//! ```text
//! for each row { for each block { keep powers; for each column { weigh values; combine with what came before } }; for each column { store } }
//! ```
//!
//! A state may have components that are the same for all of some outer loops, as the largest score of a block for all columns. If such a component is
//! itself reduced from many elements, then in the order of the loops that the store has it would be computed for each column. So the loop over blocks is seen to
//! stand outside of the columns, and what a block needs may be kept inside of it (`keep`). The kernel's loops are moved so by the optimizer
//! (`optimize::by_hand::blocks_outside`), which sees the same: values kept inside of a reduction that do not depend on a loop around it.
//!
//! Always: this changes what things cost and what may be kept, and no value. Tested in the test crate, by kernel counts and values of attention.

use super::fuse::Fusion;
use super::use_site::Use;
use crate::ir::{Arg, Op};

impl Fusion<'_> {
    /// The outer loops, a bit each, that stand inside of the loops of a reduction of states asked for at `site`: those that a component which is
    /// reduced itself is repeated along. None if the others cannot stand outermost.
    pub(super) fn loops_left(&mut self, position: usize, site: &Use) -> u64 {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let (Arg::ReduceState(..), Some(reduced)) = (node.arg(), node.reduced_axes()) else { return 0 };
        let needed = site.dependence();
        if !needed.loops.is_empty() || !site.gate.is_zero() {
            return 0;
        }
        let mut left = 0;
        for &operand in &graph.src[position] {
            let repeated = &graph.nodes[operand as usize];
            let base = graph.below_movement(operand) as usize;
            if repeated.op() != Op::Expand || graph.nodes[base].op() != Op::Reduce {
                continue;
            }
            let lens = repeated.src()[0].shape();
            let others = (0..lens.len()).filter(|axis| !reduced.contains(&(*axis as u8)));
            for (axis, index) in others.zip(&site.axes) {
                if lens[axis].is(1) && !repeated.shape()[axis].is(1) {
                    left |= index.loops.outer;
                }
            }
        }
        let around = needed.outer & !left;
        let outer = &mut self.groups.get(site.group).outer;
        if left == 0 || !outer.can_pin(around) {
            return 0;
        }
        outer.pin(around);
        left
    }
}
