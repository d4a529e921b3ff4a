//! Ends of loops over lanes: a store that closes a vector range stores a vector, and a reduction that closes one combines its lanes.
//!
//! Always: a store keeps the loops that are no lanes. Tested with the whole ([`super`]).

use smallvec::smallvec;

use super::unroll::{State, tree};
use super::vectors::{lane_of_vector, splat};
use super::{Vectorizer, kind_of, reclose};
use crate::ir::{Arg, AxisKind, Combining, Op, Sources, UOp};
use crate::kernel::effects::{accumulates, loads_before};
use crate::kernel::ranges::{closed_ranges, open_operands};

impl Vectorizer {
    /// The ranges of a loop end that stay loops.
    pub(super) fn kept_ranges(&self, loop_end: &UOp) -> Sources {
        let kept = closed_ranges(loop_end).iter().filter(|range| kind_of(range) != AxisKind::Vector);
        kept.map(|range| self.done[range].clone()).collect()
    }

    /// A store or a reduction.
    pub(super) fn convert_loop_end(&self, loop_end: &UOp) -> UOp {
        let kept = self.kept_ranges(loop_end);
        let closes_lanes = closed_ranges(loop_end).iter().find(|range| kind_of(range) == AxisKind::Vector);
        match loop_end.op() {
            Op::ReduceRange => self.convert_reduction(loop_end, closes_lanes, &kept),
            _ => match self.lane_of(loop_end) {
                Some(lane) => self.convert_store_of_lanes(loop_end, &lane, kept),
                None => self.convert_store(loop_end, closes_lanes, kept),
            },
        }
    }

    fn convert_reduction(&self, reduction: &UOp, closes_lanes: Option<&UOp>, kept: &[UOp]) -> UOp {
        let combining = Combining::of_reduction(reduction);
        let mut values: State = open_operands(reduction).iter().map(|value| self.done[value].clone()).collect();
        // The components of a state are combined with each other: if one is a vector, all are.
        if let Some(lane) = closes_lanes.cloned().or_else(|| self.lane_of(reduction)).filter(|_| values.len() > 1) {
            let count = lane.src()[0].as_int().unwrap_or(1) as usize;
            values.iter_mut().for_each(|value| *value = splat(value, count));
        }
        let mut state = combining.reduce_ranges(&values, kept);
        let Some(lane) = closes_lanes else { return state.swap_remove(combining.number()) };
        let count = lane.src()[0].as_int().unwrap_or(1) as usize;
        match combining {
            Combining::One(op) => {
                let vector = splat(&state[0], count);
                UOp::new(Op::HorizontalReduce, vector.dtype().element(), smallvec![vector], Arg::Combine(op))
            }
            Combining::Several(_) => reduce_lanes(combining, state, count).swap_remove(combining.number()),
        }
    }

    /// A store into scratch, in loops that are lanes of something else: of all lanes at once.
    pub(super) fn convert_store_of_lanes(&self, store: &UOp, lane: &UOp, kept: Sources) -> UOp {
        let (index, value) = (&store.src()[0], &store.src()[1]);
        let count = lane.src()[0].as_int().unwrap_or(1) as usize;
        let scratch = &index.src()[0];
        let Arg::Scratch(number, len, space) = scratch.arg() else {
            panic!("bug in the compiler: a store leaves the lanes that it depends on open")
        };
        let widened = Arg::Scratch(*number, len * count as u64, *space);
        let scratch = UOp::new(Op::Scratch, scratch.dtype(), smallvec![], widened);
        let index = self.index_of_lanes(index, scratch, lane, count);
        let open: Vec<UOp> =
            [index, splat(&self.done[value], count)].into_iter().chain(self.behind_value(store, count)).collect();
        reclose(store, &open, kept.into_iter())
    }

    /// What a store waits for; of a state that accumulates, the values of its components, which are all of so many lanes.
    fn behind_value<'s>(&'s self, store: &'s UOp, count: usize) -> impl Iterator<Item = UOp> + 's {
        let is_state = matches!(accumulates(store), Some(Combining::Several(_))) && count > 1;
        loads_before(store).iter().map(move |node| match is_state {
            true => splat(&self.done[node], count),
            false => self.done[node].clone(),
        })
    }

    fn convert_store(&self, store: &UOp, lane: Option<&UOp>, kept: Sources) -> UOp {
        let (index, value) = (&store.src()[0], &store.src()[1]);
        let count = lane.and_then(|lane| lane.src()[0].as_int()).unwrap_or(1) as usize;
        let operands = |index: UOp, value: UOp| -> Vec<UOp> {
            [index, value].into_iter().chain(self.behind_value(store, count)).collect()
        };
        let Some(lane) = lane else {
            return reclose(store, &operands(self.done[index].clone(), self.done[value].clone()), kept.into_iter());
        };
        let vector = splat(&self.done[value], count);
        match self.vector_index(index, lane, count) {
            Some(Ok(index)) => reclose(store, &operands(index, vector), kept.into_iter()),
            Some(Err(scalar)) => {
                // All lanes write one element: the last one stays, as it would in a loop.
                let last = lane_of_vector(&vector, count - 1);
                reclose(store, &operands(scalar, last), kept.into_iter())
            }
            None => panic!("bug in the compiler: a store whose offset no rule can follow over a vector range"),
        }
    }
}

/// The states in the lanes of vectors combined into one: halves of the lanes with each other, as long as there are halves.
fn reduce_lanes(combining: Combining, mut state: State, lanes: usize) -> State {
    let mut lanes = lanes;
    while lanes > 1 && lanes.is_multiple_of(2) {
        lanes /= 2;
        let half = |vector: &UOp, first: usize| match lanes {
            1 => lane_of_vector(vector, first),
            _ => {
                let dtype = vector.dtype().element().with_lanes(lanes);
                let src: Sources = (first..first + lanes).map(|number| lane_of_vector(vector, number)).collect();
                UOp::new(Op::Stack, dtype, src, Arg::None)
            }
        };
        let [low, high] = [0, lanes].map(|first| state.iter().map(|vector| half(vector, first)).collect::<State>());
        state = combining.combine(&low, &high);
    }
    if lanes == 1 {
        return state;
    }
    let one = |number: usize| state.iter().map(|vector| lane_of_vector(vector, number)).collect();
    tree(combining, (0..lanes).map(one).collect())
}
