//! Loads of vectors whose lanes lie near each other become loads of whole vectors, and a choice of lanes.
//!
//! ```text
//! load x[base + {0, 2, 4, 6}]   =>   low = load x[base + {0, 1, 2, 3}], high = load x[base + 3 + {0, 1, 2, 3}]
//!                                    low[0], low[2], high[1], high[3]
//!
//! load x[base], load x[base + 1], load x[base + 2], load x[base]   as lanes of one vector   =>   two loads of two lanes, a choice of four
//! ```
//!
//! A ramp has one step from lane to lane; where loops of a few iterations became part of a longer one, as the channels of a picture, each lane is a load of its own.
//! All loads begin and end between the first and the last element that is asked for, so nothing else is read: where those two are memory's, all are. A gather takes a
//! load for each lane, this one for each vector on the way.
//!
//! Always: the same lanes. Only of memory that the kernel does not store to, and that is filled: what lies between is read by nobody else's leave. Loads
//! under masks that differ from lane to lane are left as they are; a condition for all lanes is kept. Tested below, and in the tests crate, where the CPU agrees with the interpreter.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp, postorder, substitute_nested};
use crate::symbolic::{linear_terms, simplify};
use crate::target::Target;

/// Least lanes for which loads and shuffles are cheaper than single loads.
const LANES_MIN: usize = 4;
/// Lanes that a vector gives at least, on the average: of fewer, loads and shuffles are as many as single loads.
const LANES_OF_EACH_MIN: usize = 2;

/// Lanes near each other: an address to count from, and how far from it each lies.
struct Near {
    memory: UOp,
    base: UOp,
    distances: Vec<usize>,
    /// A condition on all lanes, as one lane has it.
    gate: Option<UOp>,
}

/// The step that is worth whole vectors where threads run in blocks: neighbours among threads load the rest of what memory gives at once.
const STEP_OF_BLOCKS: usize = 2;

/// Replaces every vector of elements that lie near each other.
pub fn load_between(root: &UOp, target: &Target) -> UOp {
    let near_lanes = |node: &UOp| match &target.blocks {
        None => steps_of(node).or_else(|| single_loads(node)),
        Some(_) => steps_of(node).filter(|near| near.distances[1] == STEP_OF_BLOCKS),
    };
    let nodes = postorder(std::slice::from_ref(root));
    let stored: FxHashSet<UOp> =
        nodes.iter().filter(|node| node.op() == Op::Store).map(|store| store.src()[0].src()[0].clone()).collect();
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in &nodes {
        let Some(near) = near_lanes(node) else { continue };
        if near.memory.op() == Op::Param
            && !stored.contains(&near.memory)
            && let Some(new) = chosen_lanes(node, &near)
        {
            map.insert(node.clone(), new);
        }
    }
    if map.is_empty() { root.clone() } else { substitute_nested(root, &map) }
}

/// A load in steps.
fn steps_of(node: &UOp) -> Option<Near> {
    let lanes = node.dtype().lanes();
    if node.op() != Op::Load || lanes < LANES_MIN {
        return None;
    }
    let index = &node.src()[0];
    let offset = &index.src()[1];
    let Arg::Number(step) = offset.arg() else { return None };
    let step = usize::try_from(*step).ok().filter(|step| offset.op() == Op::Ramp && *step >= 2)?;
    // One condition for all lanes holds for what lies between as well.
    let gate = match index.src().get(2) {
        Some(gate) if gate.op() == Op::Splat || gate.dtype().lanes() == 1 => Some(lane_of_all(gate)),
        Some(_) => return None,
        None => None,
    };
    let distances = (0..lanes).map(|lane| lane * step).collect();
    Some(Near { memory: index.src()[0].clone(), base: offset.src()[0].clone(), distances, gate })
}

fn lane_of_all(gate: &UOp) -> UOp {
    if gate.op() == Op::Splat { gate.src()[0].clone() } else { gate.clone() }
}

/// Lanes that are loads of their own, of addresses that differ by constants.
fn single_loads(node: &UOp) -> Option<Near> {
    if node.op() != Op::Stack || node.src().len() < LANES_MIN {
        return None;
    }
    let is_load = |lane: &UOp| lane.op() == Op::Load && lane.dtype().lanes() == 1 && lane.src()[0].src().len() == 2;
    if !node.src().iter().all(is_load) {
        return None;
    }
    let index_of = |lane: &UOp| lane.src()[0].clone();
    let first = index_of(&node.src()[0]);
    let memory = first.src()[0].clone();
    let (terms, begin) = linear_terms(&first.src()[1]);
    let mut constants = Vec::with_capacity(node.src().len());
    for lane in node.src() {
        let index = index_of(lane);
        let (other, constant) = linear_terms(&index.src()[1]);
        if index.src()[0] != memory || other != terms {
            return None;
        }
        constants.push(constant);
    }
    let least = *constants.iter().min()?;
    let distances = constants.iter().map(|constant| usize::try_from(constant.checked_sub(least)?).ok());
    let base = simplify(&(&first.src()[1] + UOp::index(least.checked_sub(begin)?)));
    Some(Near { memory, base, distances: distances.collect::<Option<Vec<usize>>>()?, gate: None })
}

/// Where whole vectors begin that hold all lanes, and how many elements each has; `None` where they are too many.
fn vectors_of(distances: &[usize]) -> Option<(Vec<usize>, usize)> {
    let lanes = distances.len();
    let reach = distances.iter().max()? + 1;
    let room = lanes.min(reach);
    let width = if room.is_power_of_two() { room } else { room.next_power_of_two() / 2 };
    let mut sorted = distances.to_vec();
    sorted.sort_unstable();
    let mut begins: Vec<usize> = Vec::new();
    for distance in sorted {
        if begins.last().is_none_or(|begin| distance >= begin + width) {
            begins.push(distance.min(reach - width));
        }
    }
    (width >= 2 && begins.len() * LANES_OF_EACH_MIN <= lanes).then_some((begins, width))
}

fn chosen_lanes(node: &UOp, near: &Near) -> Option<UOp> {
    let (begins, width) = vectors_of(&near.distances)?;
    let element = node.dtype().element();
    let dtype = element.with_lanes(width);
    let load = |begin: &usize| {
        let offset = simplify(&(&near.base + UOp::index(*begin as i64)));
        let gate = near.gate.iter().map(|gate| {
            let dtype = gate.dtype().with_lanes(width);
            UOp::new(Op::Splat, dtype, smallvec![gate.clone()], Arg::None)
        });
        let src: Sources = [near.memory.clone(), offset].into_iter().chain(gate).collect();
        UOp::new(Op::Load, dtype, smallvec![UOp::new(Op::Index, dtype, src, Arg::None)], Arg::None)
    };
    let vectors: Vec<UOp> = begins.iter().map(load).collect();
    let lane = |distance: &usize| {
        // The last that begins before: only the very last was moved ahead, so that it ends with the last element.
        let number = begins.partition_point(|begin| begin <= distance) - 1;
        let at = Arg::Number((distance - begins[number]) as i64);
        UOp::new(Op::Lane, element, smallvec![vectors[number].clone()], at)
    };
    Some(UOp::new(Op::Stack, node.dtype(), near.distances.iter().map(lane).collect::<Sources>(), Arg::None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn near(root: &UOp) -> UOp {
        load_between(root, &Target::test_avx512())
    }

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
            let new = near(&in_steps(2, lanes));
            let first = |load: &UOp| crate::symbolic::linear_terms(&load.src()[0].src()[1]).1;
            let offsets = new.src().iter().map(|lane| match lane.arg() {
                Arg::Number(number) => first(&lane.src()[0]) + number,
                _ => panic!("a stack of lanes"),
            });
            let offsets: Vec<i64> = offsets.collect();
            assert_eq!(offsets, (0..lanes as i64).map(|lane| lane * 2).collect::<Vec<_>>());
            let last = new.src().iter().map(|lane| first(&lane.src()[0]) + lanes as i64 - 1).max();
            assert_eq!(last, offsets.last().copied(), "nothing is read behind the last lane");
        }
    }

    #[test]
    fn a_condition_for_all_lanes_is_one_of_both_loads() {
        let gated = |gate: UOp| {
            let load = in_steps(2, 8);
            let index = &load.src()[0];
            let src: Sources = index.src().iter().cloned().chain([gate]).collect();
            load.with_src([index.with_src(src)].into_iter().collect::<Sources>())
        };
        let holds = UOp::variable("n", 0, 9).lt(&UOp::index(5));
        let bools = DType::BOOL.with_lanes(8);
        let mask = UOp::new(Op::Splat, bools, smallvec![holds.clone()], Arg::None);
        let new = near(&gated(mask.clone()));
        assert!(new.src().iter().all(|lane| lane.src()[0].src()[0].src().get(2) == Some(&mask)));
        let each = UOp::new(Op::Stack, bools, vec![holds; 8], Arg::None);
        assert_eq!(near(&gated(each.clone())), gated(each));
    }

    #[test]
    fn other_steps_are_left() {
        for step in [1, 8, 100, -2] {
            let load = in_steps(step, 8);
            assert_eq!(near(&load), load);
        }
    }

    /// Elements of memory that the lanes of a value are, counted from `i`, of which the value reads nothing behind the last or before the first.
    fn elements_of(value: &UOp, asked: &[i64]) -> Vec<i64> {
        let mut elements = Vec::new();
        for lane in value.src() {
            let (vector, Arg::Number(number)) = (&lane.src()[0], lane.arg()) else { panic!("a stack of lanes") };
            let begin = linear_terms(&vector.src()[0].src()[1]).1;
            let end = begin + vector.dtype().lanes() as i64;
            assert!(asked.iter().min().is_some_and(|first| begin >= *first), "{begin} {asked:?}");
            assert!(asked.iter().max().is_some_and(|last| end <= last + 1), "{end} {asked:?}");
            elements.push(begin + number);
        }
        elements
    }

    #[test]
    fn loads_of_single_lanes_become_few_of_whole_vectors() {
        let memory = UOp::param(1, DType::F32, 4096);
        let single = |distance: i64| {
            let offset = UOp::variable("i", 0, 100) * 8 + distance;
            let index = UOp::new(Op::Index, DType::F32, smallvec![memory.clone(), offset], Arg::None);
            UOp::new(Op::Load, DType::F32, smallvec![index], Arg::None)
        };
        let stack = |distances: &[i64]| {
            let dtype = DType::F32.with_lanes(distances.len());
            UOp::new(Op::Stack, dtype, distances.iter().map(|k| single(*k)).collect::<Sources>(), Arg::None)
        };
        for asked in [
            (0..16).map(|lane| lane % 3 + 5).collect::<Vec<i64>>(),
            (0..16).map(|lane| lane / 2).collect(),
            (0..8).map(|lane| 3 * lane).collect(),
            (0..16).rev().collect(),
            vec![7, 0, 1, 2, 3, 4, 5, 6],
        ] {
            assert_eq!(elements_of(&near(&stack(&asked)), &asked), asked);
        }
        // Nowhere near each other.
        let far = stack(&[0, 100, 200, 300, 400, 500, 600, 700]);
        assert_eq!(near(&far), far);
        let steps: Vec<i64> = (0..16).map(|lane| 3 * lane).collect();
        assert_eq!(elements_of(&near(&in_steps(3, 16)), &steps), steps);
    }
}
