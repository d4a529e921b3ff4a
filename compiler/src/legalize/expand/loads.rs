//! Loads over lanes: vectors of memory, one element for all lanes, an element for each, and terms of dot products. Their addresses are those of stores, too.
//!
//! Tested with the whole ([`super`]).

use smallvec::smallvec;

use super::vectors::{lane_of_vector, ramp, splat};
use super::{Vectorizer, fetches};
use crate::ir::{Arg, Op, Sources, UOp};
use crate::kernel::ranges::range_id;
use crate::symbolic::simplify;

impl Vectorizer {
    /// A load of all lanes.
    pub(super) fn convert_load(&self, load: &UOp, lane: &UOp, count: usize) -> UOp {
        let index = &load.src()[0];
        let dtype = load.dtype().with_lanes(count);
        if self.dependencies.get(&index.src()[0]).contains(range_id(lane)) {
            let index = self.index_of_lanes(index, self.done[&index.src()[0]].clone(), lane, count);
            return UOp::new(Op::Load, dtype, smallvec![index], Arg::None);
        }
        if index.src().len() == 2 && self.step(&index.src()[1], lane) == Some(-1) {
            return self.convert_reversed_load(load, lane, count);
        }
        match self.vector_index(index, lane, count) {
            Some(Ok(index)) => UOp::new(Op::Load, dtype, smallvec![index], Arg::None),
            Some(Err(scalar)) => splat(&UOp::new(Op::Load, load.dtype(), smallvec![scalar], Arg::None), count),
            None => {
                let memory = &self.done[&index.src()[0]];
                let map = |number: i64| {
                    let rest = index.src()[1..].iter().map(|part| self.at_lane(part, lane, number));
                    let src: Sources = [memory.clone()].into_iter().chain(rest).collect();
                    let index = UOp::new(Op::Index, index.dtype(), src, Arg::None);
                    UOp::new(Op::Load, load.dtype(), smallvec![index], Arg::None)
                };
                UOp::new(Op::Stack, dtype, (0..count as i64).map(map).collect::<Sources>(), Arg::None)
            }
        }
    }

    /// Terms of a dot product for each lane: those of a lane lie beside each other. What memory holds in that order is one vector of it.
    pub(super) fn convert_terms(&self, terms: &UOp, lane: &UOp, count: usize) -> UOp {
        let group = terms.src().len();
        let dtype = terms.dtype().with_lanes(group * count);
        if let Some(index) = self.index_of_terms(terms, lane, group, count) {
            return UOp::new(Op::Load, dtype, smallvec![index], Arg::None);
        }
        let vectors: Vec<UOp> = terms.src().iter().map(|term| splat(&self.done[term], count)).collect();
        let lanes = (0..count).flat_map(|number| vectors.iter().map(move |vector| lane_of_vector(vector, number)));
        UOp::new(Op::Stack, dtype, lanes.collect::<Sources>(), Arg::None)
    }

    /// The address of terms that lie in memory as lanes have them.
    fn index_of_terms(&self, terms: &UOp, lane: &UOp, group: usize, count: usize) -> Option<UOp> {
        let index = side_by_side(terms)?;
        let [memory, offset] = index.src() else { return None };
        let is_given = !self.dependencies.get(memory).contains(range_id(lane)) && !fetches(offset);
        if !is_given || self.step(offset, lane) != Some(group as i64) {
            return None;
        }
        let src: Sources = smallvec![self.done[memory].clone(), self.at_lane(offset, lane, 0)];
        Some(UOp::new(Op::Index, index.dtype().element().with_lanes(group * count), src, Arg::None))
    }

    /// The address in scratch that holds a vector for each element.
    pub(super) fn index_of_lanes(&self, index: &UOp, memory: UOp, lane: &UOp, count: usize) -> UOp {
        let offset = &index.src()[1];
        let varies = self.dependencies.get(offset).contains(range_id(lane));
        let offset = if varies {
            let lengths = splat(&UOp::index(count as i64), count);
            splat(&self.done[offset], count) * lengths + ramp(&UOp::index(0), 1, count)
        } else {
            simplify(&(&self.done[offset] * UOp::index(count as i64)))
        };
        let gate = index.src().get(2).map(|gate| splat(&self.done[gate], count));
        let src: Sources = [memory, offset].into_iter().chain(gate).collect();
        UOp::new(Op::Index, index.dtype().with_lanes(count), src, Arg::None)
    }

    /// A load that walks memory backwards is a load that walks forwards from its last element, with its lanes in reverse.
    fn convert_reversed_load(&self, load: &UOp, lane: &UOp, count: usize) -> UOp {
        let index = &load.src()[0];
        let dtype = load.dtype().with_lanes(count);
        let first = self.at_lane(&index.src()[1], lane, count as i64 - 1);
        let forward = UOp::new(Op::Index, dtype, smallvec![self.done[&index.src()[0]].clone(), first], Arg::None);
        let vector = UOp::new(Op::Load, dtype, smallvec![forward], Arg::None);
        let lanes = (0..count).rev().map(|number| lane_of_vector(&vector, number));
        UOp::new(Op::Stack, dtype, lanes.collect::<Sources>(), Arg::None)
    }

    /// The address of a vector access: `Ok` of a vector one, `Err` of a scalar one that serves all lanes; `None` where each lane
    /// needs an address of its own.
    pub(super) fn vector_index(&self, index: &UOp, lane: &UOp, count: usize) -> Option<Result<UOp, UOp>> {
        let (buffer, offset) = (self.done[&index.src()[0]].clone(), &index.src()[1]);
        let gate = index.src().get(2);
        let gate_varies = gate.is_some_and(|gate| self.dependencies.get(gate).contains(range_id(lane)));
        // Offsets that hold loads (gathers) are vectors of their own.
        if fetches(offset) {
            let offset = match &self.done[offset] {
                // What is loaded for all lanes says where they begin, as a row of a table.
                ramp if ramp.op() == Op::Ramp && *ramp.arg() == Arg::Number(1) => ramp.src()[0].clone(),
                offset => splat(offset, count),
            };
            let gate = gate.map(|gate| splat(&self.done[gate], count));
            let src: Sources = [buffer, offset].into_iter().chain(gate).collect();
            return Some(Ok(UOp::new(Op::Index, index.dtype().with_lanes(count), src, Arg::None)));
        }
        let step = self.step(offset, lane)?;
        let base = self.at_lane(offset, lane, 0);
        if step == 0 && !gate_varies {
            let src: Sources = [buffer, base].into_iter().chain(gate.map(|gate| self.done[gate].clone())).collect();
            return Some(Err(UOp::new(Op::Index, index.dtype(), src, Arg::None)));
        }
        let offset = if step == 1 { base } else { ramp(&base, step, count) };
        let gate = gate.map(|gate| splat(&self.done[gate], count));
        let src: Sources = [buffer, offset].into_iter().chain(gate).collect();
        Some(Ok(UOp::new(Op::Index, index.dtype().with_lanes(count), src, Arg::None)))
    }
}

/// The address of the first of some loads, if they are of elements that lie beside each other.
fn side_by_side(terms: &UOp) -> Option<UOp> {
    let first = terms.src().first().filter(|term| term.op() == Op::Load)?.src()[0].clone();
    let [memory, offset] = first.src() else { return None };
    let follows = |(term, number): (&UOp, i64)| {
        let (Op::Load, [index]) = (term.op(), term.src()) else { return false };
        matches!(index.src(), [other, at] if other == memory && simplify(&(at - offset)).is_const(number))
    };
    terms.src().iter().zip(0..).all(follows).then_some(first)
}

/// The terms of each lane of a dot product; the same ones in all lanes, if there are no others.
pub(super) fn repeated(terms: &UOp, group: usize, count: usize) -> UOp {
    if terms.dtype().lanes() != group || count == 1 {
        return terms.clone();
    }
    let dtype = terms.dtype().element();
    let together = side_by_side(terms).map(|index| {
        let index =
            UOp::new(Op::Index, dtype.with_lanes(group), index.src().iter().cloned().collect::<Sources>(), Arg::None);
        UOp::new(Op::Load, dtype.with_lanes(group), smallvec![index], Arg::None)
    });
    let vector = together.unwrap_or_else(|| terms.clone());
    let lanes = (0..group * count).map(|number| lane_of_vector(&vector, number % group));
    UOp::new(Op::Stack, dtype.with_lanes(group * count), lanes.collect::<Sources>(), Arg::None)
}
