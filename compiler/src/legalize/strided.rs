//! Loads of vectors in small steps become loads of all elements on the way, and a choice of lanes.
//!
//! ```text
//! load x[base + {0, 2, 4, 6}]   =>   low = load x[base + {0, 1, 2, 3}], high = load x[base + 3 + {0, 1, 2, 3}]
//!                                    low[0], low[2], high[1], high[3]
//! ```
//!
//! The last load ends with the last element that is asked for, so nothing is read outside of what lies between the first and the last: where those are
//! memory's, all are. A gather takes a load for each lane, this a load for each step.
//!
//! Always: the same lanes. Only of memory that the kernel does not store to, and that is filled: what lies between is read by nobody else's leave. Loads
//! under masks that differ from lane to lane are left as they are; a condition for all lanes is kept. Tested below, and in the tests crate, where the CPU agrees with the interpreter.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp, postorder, substitute};
use crate::symbolic::simplify;

/// Least lanes for which loads and shuffles are cheaper than single loads.
const LANES_MIN: usize = 4;
/// The step of which two loads hold all lanes.
const STEP: i64 = 2;

/// Replaces every load in steps.
pub fn load_between(root: &UOp) -> UOp {
    let nodes = postorder(std::slice::from_ref(root));
    let stored: FxHashSet<UOp> =
        nodes.iter().filter(|node| node.op() == Op::Store).map(|store| store.src()[0].src()[0].clone()).collect();
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in &nodes {
        let Some(base) = base_of_steps(node) else { continue };
        let memory = &node.src()[0].src()[0];
        if memory.op() == Op::Param && !stored.contains(memory) {
            map.insert(node.clone(), chosen_lanes(node, &base));
        }
    }
    if map.is_empty() { root.clone() } else { substitute(root, &map) }
}

/// Where the first lane of a load in steps lies.
fn base_of_steps(node: &UOp) -> Option<UOp> {
    let lanes = node.dtype().lanes();
    if node.op() != Op::Load || lanes < LANES_MIN {
        return None;
    }
    let index = &node.src()[0];
    let offset = &index.src()[1];
    // One condition for all lanes holds for what lies between as well.
    let is_masked = index.src().get(2).is_some_and(|gate| gate.dtype().lanes() > 1 && gate.op() != Op::Splat);
    let in_steps = offset.op() == Op::Ramp && matches!(offset.arg(), Arg::Number(STEP));
    (in_steps && !is_masked).then(|| offset.src()[0].clone())
}

fn chosen_lanes(load: &UOp, base: &UOp) -> UOp {
    let (dtype, index) = (load.dtype(), &load.src()[0]);
    let lanes = dtype.lanes();
    // The second load ends where the last lane is.
    let second = STEP as usize * (lanes - 1) + 1 - lanes;
    let from = |distance: usize| {
        let offset = simplify(&(base + UOp::index(distance as i64)));
        let place: Sources = [index.src()[0].clone(), offset].into_iter().chain(index.src().get(2).cloned()).collect();
        UOp::new(Op::Load, dtype, smallvec![UOp::new(Op::Index, dtype, place, Arg::None)], Arg::None)
    };
    let (low, high) = (from(0), from(second));
    let lane = |number: usize| {
        let place = number * STEP as usize;
        let (vector, place) = if place < lanes { (&low, place) } else { (&high, place - second) };
        UOp::new(Op::Lane, dtype.element(), smallvec![vector.clone()], Arg::Number(place as i64))
    };
    UOp::new(Op::Stack, dtype, (0..lanes).map(lane).collect::<Sources>(), Arg::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn in_steps(step: i64, lanes: usize) -> UOp {
        let base = UOp::variable("i", 0, 100) * 8;
        let ramp = UOp::new(Op::Ramp, DType::INDEX.with_lanes(lanes), smallvec![base], Arg::Number(step));
        let dtype = DType::F32.with_lanes(lanes);
        let index = UOp::new(Op::Index, dtype, smallvec![UOp::param(1, DType::F32, 4096), ramp], Arg::None);
        UOp::new(Op::Load, dtype, smallvec![index], Arg::None)
    }

    #[test]
    fn lanes_are_those_that_were_asked_for() {
        for lanes in [4usize, 8, 16] {
            let new = load_between(&in_steps(2, lanes));
            let first = |load: &UOp| crate::symbolic::linear_terms(&load.src()[0].src()[1]).1;
            let places = new.src().iter().map(|lane| match lane.arg() {
                Arg::Number(number) => first(&lane.src()[0]) + number,
                _ => panic!("a stack of lanes"),
            });
            let places: Vec<i64> = places.collect();
            assert_eq!(places, (0..lanes as i64).map(|lane| lane * 2).collect::<Vec<_>>());
            let last = new.src().iter().map(|lane| first(&lane.src()[0]) + lanes as i64 - 1).max();
            assert_eq!(last, places.last().copied(), "nothing is read behind the last lane");
        }
    }

    #[test]
    fn a_condition_for_all_lanes_is_one_of_both_loads() {
        let gated = |gate: UOp| {
            let load = in_steps(2, 8);
            let index = &load.src()[0];
            let place: Sources = index.src().iter().cloned().chain([gate]).collect();
            load.with_src([index.with_src(place)].into_iter().collect::<Sources>())
        };
        let holds = UOp::variable("n", 0, 9).lt(&UOp::index(5));
        let bools = DType::BOOL.with_lanes(8);
        let mask = UOp::new(Op::Splat, bools, smallvec![holds.clone()], Arg::None);
        let new = load_between(&gated(mask.clone()));
        assert!(new.src().iter().all(|lane| lane.src()[0].src()[0].src().get(2) == Some(&mask)));
        let each = UOp::new(Op::Stack, bools, vec![holds; 8], Arg::None);
        assert_eq!(load_between(&gated(each.clone())), gated(each));
    }

    #[test]
    fn other_steps_are_left() {
        for step in [1, 3, 8, -2] {
            let load = in_steps(step, 8);
            assert_eq!(load_between(&load), load);
        }
    }
}
