//! How the loops of a kernel nest, and loop ends that share a loop though they stand in different ones.
//!
//! Loops nest as their loop ends say: the ranges of one loop end outermost first, and the first of them inside the innermost loop that the
//! loop end's result depends on. Loop ends that close the same range share its loop, so the same loop must stand around all of them. Passes that
//! copy and simplify values can make one of them independent of a loop around it: [`part_loops`] then gives it a loop of its own.
//!
//! Tested below, and by every kernel that runs.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::ir::{Arg, Op, RangeArg, Sources, UOp, rebuild, substitute};
use crate::kernel::local_buffers::part_scratch;
use crate::kernel::ranges::{
    Dependencies, RangeSet, closed_ranges, inner_loop_ends, is_loop_end, next_range_id, range_id,
};

/// How loops nest: the loop that each stands in, and its depth.
pub(super) struct Nest {
    pub(super) parent: BTreeMap<u32, Option<u32>>,
    depth: FxHashMap<u32, u32>,
    pub(super) loop_ends: BTreeMap<u32, Vec<UOp>>,
    pub(super) ranges: FxHashMap<u32, UOp>,
}

impl Nest {
    pub(super) fn of(dependencies: &Dependencies) -> Nest {
        let mut nest = Nest {
            parent: BTreeMap::new(),
            depth: FxHashMap::default(),
            loop_ends: BTreeMap::new(),
            ranges: FxHashMap::default(),
        };
        // Users first, so that the loops that a loop end stands in are placed before its own.
        let loop_ends: Vec<&UOp> = dependencies.order.iter().rev().filter(|node| is_loop_end(node)).collect();
        for loop_end in &loop_ends {
            for range in closed_ranges(loop_end) {
                nest.ranges.insert(range_id(range), range.clone());
                nest.loop_ends.entry(range_id(range)).or_default().push((*loop_end).clone());
            }
        }
        // A loop that a later loop end puts deeper takes those inside of it along. No loop is deeper than there are loops.
        let rounds_max = nest.ranges.len();
        let mut rounds = 0;
        while nest.deepen(dependencies, &loop_ends) && rounds < rounds_max {
            rounds += 1;
        }
        nest
    }

    /// Puts each loop as deep as its loop ends say by the depths of the loops around them; says whether one that had a depth is deeper now.
    fn deepen(&mut self, dependencies: &Dependencies, loop_ends: &[&UOp]) -> bool {
        let mut is_deeper = false;
        for loop_end in loop_ends {
            let mut outer = self.deepest(dependencies.get(loop_end).iter());
            for id in closed_ranges(loop_end).iter().map(range_id) {
                let outer_depth = outer.map_or(0, |outer| self.depth[&outer] + 1);
                let depth = self.depth.get(&id).copied();
                if depth.is_none_or(|depth| depth < outer_depth) {
                    is_deeper |= depth.is_some();
                    self.parent.insert(id, outer);
                    self.depth.insert(id, outer_depth);
                }
                outer = Some(id);
            }
        }
        is_deeper
    }

    pub(super) fn deepest(&self, ids: impl Iterator<Item = u32>) -> Option<u32> {
        ids.filter(|id| self.depth.contains_key(id)).max_by_key(|id| self.depth[id])
    }

    /// How many loops stand around what depends on these ranges.
    pub(super) fn depth_of(&self, ids: impl Iterator<Item = u32>) -> u32 {
        self.deepest(ids).map_or(0, |id| self.depth[&id] + 1)
    }

    /// The innermost loop that holds both.
    pub(super) fn common(&self, mut a: Option<u32>, mut b: Option<u32>) -> Option<u32> {
        while a != b {
            let depth = |id: Option<u32>| id.map(|id| self.depth[&id]);
            if depth(a) >= depth(b) {
                a = a.and_then(|id| self.parent[&id]);
            } else {
                b = b.and_then(|id| self.parent[&id]);
            }
        }
        a
    }

    /// The loop directly inside `scope` through which `inner` is reached; `None` if `inner` is `scope` itself.
    pub(super) fn child_towards(&self, scope: Option<u32>, inner: Option<u32>) -> Option<u32> {
        let mut at = inner;
        let mut child = None;
        while at != scope {
            child = at;
            at = at.and_then(|id| self.parent[&id]);
        }
        child
    }
}

/// The kernel with loops parted that loop ends share without standing inside of the same one.
///
/// What is parted is computed in both loops; each round parts one loop, outer ones first.
pub(super) fn part_loops(root: &UOp) -> UOp {
    let mut root = root.clone();
    while let Some(loop_end) = misplaced_loop_end(&root) {
        let dependencies = Dependencies::of(&root);
        let (ranges, set): (&[UOp], &RangeSet) = (closed_ranges(&loop_end), dependencies.get(&loop_end));
        let next = next_range_id(&root);
        let own = ranges.iter().zip(next..).filter_map(|(range, id)| {
            let kind = range.as_range()?.kind;
            let src: Sources = range.src().iter().cloned().collect();
            let fresh = UOp::new(Op::Range, range.dtype(), src, Arg::Range(RangeArg { id, kind }));
            Some((range.clone(), fresh))
        });
        let map: FxHashMap<UOp, UOp> = own.collect();
        // Those that stand inside of the same loop go on sharing.
        root = rebuild(&root, |node, rebuilt| {
            let goes_along = is_loop_end(node) && closed_ranges(node) == ranges && dependencies.get(node) == set;
            if goes_along { substitute(&rebuilt, &map) } else { rebuilt }
        });
        // A local buffer that is filled in both loops is two.
        root = part_scratch(&root);
    }
    root
}

/// A loop end whose ranges another one closes inside of another loop.
fn misplaced_loop_end(root: &UOp) -> Option<UOp> {
    let dependencies = Dependencies::of(root);
    let nest = Nest::of(&dependencies);
    let mut parents: FxHashMap<u32, Option<u32>> = FxHashMap::default();
    for loop_end in inner_loop_ends(&dependencies.order, root).rev() {
        let mut parent = nest.deepest(dependencies.get(loop_end).iter());
        for range in closed_ranges(loop_end) {
            if *parents.entry(range_id(range)).or_insert(parent) != parent {
                return Some(loop_end.clone());
            }
            parent = Some(range_id(range));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{AxisKind, ReduceOp};

    #[test]
    fn loops_inside_of_one_that_another_store_puts_deeper_are_deeper_too() {
        let [column, row, part] = [(0, 4), (1, 4), (2, 2)].map(|(id, len)| UOp::range(len, id, AxisKind::Loop));
        let term = UOp::range(8, 3, AxisKind::Reduce);
        let at = |slot: u32, offset: &UOp| {
            UOp::new(Op::Index, DType::F32, vec![UOp::param(slot, DType::F32, 64), offset.clone()], Arg::None)
        };
        let element = &row * 2 + &part;
        let value = UOp::new(Op::Load, DType::F32, vec![at(2, &(&element * 8 + &term))], Arg::None);
        let sum = UOp::new(Op::ReduceRange, DType::F32, vec![value.clone(), term.clone()], Arg::Combine(ReduceOp::Add));
        let one = UOp::new(Op::Load, DType::F32, vec![at(3, &element)], Arg::None);
        let wide = at(0, &(&column * 8 + &element));
        let wide = UOp::new(Op::Store, DType::VOID, vec![wide, one, column, row.clone(), part.clone()], Arg::None);
        let narrow = UOp::new(Op::Store, DType::VOID, vec![at(1, &element), sum, row, part], Arg::None);
        let dependencies = Dependencies::of(&UOp::sink([wide, narrow]));
        let nest = Nest::of(&dependencies);
        assert_eq!(nest.parent, BTreeMap::from([(0, None), (1, Some(0)), (2, Some(1)), (3, Some(2))]));
        assert_eq!([0, 1, 2, 3].map(|id| nest.depth[&id]), [0, 1, 2, 3]);
        assert_eq!(nest.deepest(dependencies.get(&value).iter()), Some(3));
    }

    #[test]
    fn a_reduction_that_has_become_independent_gets_a_loop_of_its_own() {
        let load = |slot: u32, offset: UOp| {
            let index = vec![UOp::param(slot, DType::F32, 64), offset];
            UOp::new(Op::Load, DType::F32, vec![UOp::new(Op::Index, DType::F32, index, Arg::None)], Arg::None)
        };
        let (row, term) = (UOp::range(8, 0, AxisKind::Loop), UOp::range(8, 1, AxisKind::Reduce));
        let reduction =
            |value: UOp| UOp::new(Op::ReduceRange, DType::F32, vec![value, term.clone()], Arg::Combine(ReduceOp::Add));
        let inside = reduction(load(1, &row * 8 + &term));
        let outside = reduction(load(1, term.clone()));
        let target = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 8), row.clone()], Arg::None);
        let store = UOp::new(Op::Store, DType::VOID, vec![target, inside + outside, row], Arg::None);
        let parted = part_loops(&UOp::sink([store]));
        assert_eq!(next_range_id(&parted), 3, "{}", parted.infix());
        assert_eq!(misplaced_loop_end(&parted), None);
    }
}
