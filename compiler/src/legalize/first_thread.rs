//! Stores that one thread does for all: where a kernel runs in blocks of threads, a store that does not stand in one of their indices would
//! be done once by each thread, with the same value.
//!
//! ```text
//! lane r1 of 32: sum of x[r0, r1]                   lane r1 of 32: sum of x[r0, r1]
//! store out[r0], sum                        =>      lane r2 of 1: store out[r0], sum            the first lane alone
//! ```
//!
//! A range of length 1 of an index is the first thread along it. What is stored is still computed by all, for it may be what they share.
//!
//! Always: afterwards each store into memory that several threads see closes a range of each index that tells them apart. A store that replaces what it read
//! closes all of them before (`optimize` refuses the others). Tested below, and by every kernel of threads that the interpreter of linear lists runs.

use rustc_hash::FxHashSet;

use crate::ir::{Arg, AxisKind, MemorySpace, Op, Sources, UOp, postorder, rebuild};
use crate::kernel::ranges::{closed_ranges, next_range_id};

/// Gives each store the thread indices that it lacks, of length 1.
pub fn store_by_first_threads(root: &UOp) -> UOp {
    let mut kinds: Vec<AxisKind> = Vec::new();
    for range in postorder(std::slice::from_ref(root)).iter().filter(|node| node.op() == Op::Range) {
        let kind = range.as_range().map(|arg| arg.kind).filter(|kind| kind.is_thread_index());
        if let Some(kind) = kind.filter(|kind| !kinds.contains(kind) && !range.src()[0].is_const(1)) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        return root.clone();
    }
    kinds.sort_unstable();
    let mut next = next_range_id(root);
    rebuild(root, |node, rebuilt| {
        if node.op() != Op::Store {
            return rebuilt;
        }
        let memory = &node.src()[0].src()[0];
        let is_needed: fn(AxisKind) -> bool = match memory.arg() {
            Arg::Scratch(_, _, MemorySpace::Private) => return rebuilt,
            // Each block has its own.
            Arg::Scratch(_, _, MemorySpace::Shared) => AxisKind::is_within_block,
            _ => AxisKind::is_thread_index,
        };
        let closed: FxHashSet<AxisKind> =
            closed_ranges(node).iter().filter_map(|range| range.as_range()).map(|arg| arg.kind).collect();
        let mut src: Sources = rebuilt.src().iter().cloned().collect();
        for kind in kinds.iter().filter(|kind| is_needed(**kind) && !closed.contains(kind)) {
            src.push(UOp::range(1, next, *kind));
            next += 1;
        }
        rebuilt.with_src(src)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{ReduceOp, ThreadDim};

    #[test]
    fn what_all_lanes_hold_is_stored_by_the_first() {
        let (row, lane) = (UOp::range(8, 0, AxisKind::Grid(ThreadDim::X)), UOp::range(32, 1, AxisKind::Lane));
        let index = |slot: u32, at: UOp| {
            UOp::new(Op::Index, DType::F32, vec![UOp::param(slot, DType::F32, 256), at], Arg::None)
        };
        let load = UOp::new(Op::Load, DType::F32, vec![index(1, &row * 32 + &lane)], Arg::None);
        let sum = UOp::new(Op::ReduceRange, DType::F32, vec![load.clone(), lane.clone()], Arg::Combine(ReduceOp::Add));
        let store = |at: UOp, value: &UOp, ranges: &[&UOp]| {
            let src: Vec<UOp> =
                [index(0, at), value.clone()].into_iter().chain(ranges.iter().copied().cloned()).collect();
            UOp::new(Op::Store, DType::VOID, src, Arg::None)
        };
        let of_sum = store(row.clone(), &sum, &[&row]);
        let of_all = store(&row * 32 + &lane, &load, &[&row, &lane]);
        let new = store_by_first_threads(&UOp::sink([of_sum, of_all.clone()]));
        let [first, second] = new.src() else { panic!("{}", new.infix()) };
        assert_eq!(closed_ranges(first), [row, UOp::range(1, 2, AxisKind::Lane)]);
        assert_eq!(*second, of_all);
        // Without threads all stays as it is.
        let plain = UOp::sink([store(UOp::index(0), &UOp::float(1.0, DType::F32), &[])]);
        assert_eq!(store_by_first_threads(&plain), plain);
    }
}
