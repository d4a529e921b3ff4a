//! Ranges of kind `unroll` become straight-line code, those of kind `vector` become lanes.
//!
//! An unrolled range is replaced by each of its numbers in turn (`unroll`). A vector range is replaced by lanes: what depends on it becomes a vector, what does not is splat
//! where it meets one; a store that closes it stores a vector, a reduction that closes it combines the lanes.
//!
//! Loads and stores whose offset moves by 1 with the lane become vector accesses, by 0 scalar ones, by another constant gathers;
//! any other offset is computed lane by lane, where rules can simplify each. A local buffer that depends on a lane keeps a vector where it
//! kept a value: its scratch grows by the count of lanes, and the lanes of one place lie side by side. Leaves: no range of these two kinds.

use std::cell::RefCell;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::unroll::{State, tree, unroll};
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, Combining, Op, Sources, Substitution, UOp, postorder, with_mapped_sources};
use crate::kernel::effects::{accumulates, find_lost_loads, loads_before};
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, open_operands, range_id};
use crate::symbolic::{linear_terms, simplify};

/// Expands every range of kind `unroll` or `vector`.
pub fn expand(root: &UOp) -> UOp {
    vectorize(&find_lost_loads(&unroll(root)))
}

pub(super) fn kind_of(range: &UOp) -> AxisKind {
    range.as_range().map_or(AxisKind::Loop, |range| range.kind)
}

/// The store over other leading operands and ranges.
pub(super) fn reclose(store: &UOp, open: &[UOp], ranges: impl Iterator<Item = UOp>) -> UOp {
    UOp::new(store.op(), store.dtype(), open.iter().cloned().chain(ranges).collect::<Sources>(), store.arg().clone())
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

/// Lanes for vector ranges.
fn vectorize(root: &UOp) -> UOp {
    let dependencies = Dependencies::of(root);
    let mut lanes: FxHashMap<u32, UOp> = FxHashMap::default();
    for node in &dependencies.order {
        if node.op() == Op::Range && kind_of(node) == AxisKind::Vector {
            lanes.insert(range_id(node), node.clone());
        }
    }
    if lanes.is_empty() {
        return root.clone();
    }
    let mut vectorizer = Vectorizer {
        dependencies,
        lanes,
        done: FxHashMap::default(),
        steps: Default::default(),
        places: Default::default(),
    };
    let order = vectorizer.dependencies.order.clone();
    let wanted = vectorizer.wanted(root);
    for node in order {
        let new = if wanted.contains(&node) { vectorizer.convert(&node) } else { node.clone() };
        vectorizer.done.insert(node, new);
    }
    vectorizer.done.remove(root).unwrap_or_else(|| root.clone())
}

/// Whether a node is a load or a reduction, or has some below.
fn fetches(node: &UOp) -> bool {
    node.contains(Op::Load) || node.contains(Op::ReduceRange)
}

struct Vectorizer {
    dependencies: Dependencies,
    lanes: FxHashMap<u32, UOp>,
    done: FxHashMap<UOp, UOp>,
    /// By how much each index expression grows from lane to lane, and what it is in one lane: many accesses ask for one.
    steps: RefCell<FxHashMap<(UOp, UOp), Option<i64>>>,
    places: RefCell<FxHashMap<(UOp, UOp, i64), UOp>>,
}

impl Vectorizer {
    /// The vector range that a node depends on, if any; a bug if there are two.
    fn lane_of(&self, node: &UOp) -> Option<UOp> {
        let mut found = self.dependencies.get(node).iter().filter_map(|id| self.lanes.get(&id));
        let lane = found.next().cloned();
        assert!(found.next().is_none(), "bug in the compiler: a value depends on two vector ranges");
        lane
    }

    /// The nodes whose lanes somebody asks for: not those that only say where vectors of memory lie, of which loads and stores make the first
    /// lane themselves.
    fn wanted(&self, root: &UOp) -> FxHashSet<UOp> {
        let order = &self.dependencies.order;
        let mut wanted: FxHashSet<UOp> = FxHashSet::with_capacity_and_hasher(order.len(), FxBuildHasher);
        wanted.insert(root.clone());
        for node in order.iter().rev() {
            if !wanted.contains(node) {
                continue;
            }
            let plain = self.plain_index(node);
            wanted.extend(node.src().iter().filter(|operand| plain != Some(*operand)).cloned());
            if let Some([memory, _, gate @ ..]) = plain.map(UOp::src) {
                wanted.extend([memory].into_iter().chain(gate).cloned());
            }
        }
        wanted
    }

    /// The address of a load or store over lanes, if its place is index arithmetic in memory that is the same for all lanes.
    fn plain_index<'n>(&self, node: &'n UOp) -> Option<&'n UOp> {
        let index = node.src().first().filter(|_| matches!(node.op(), Op::Load | Op::Store))?;
        let [memory, offset, ..] = index.src() else { return None };
        let is_given = memory.op() == Op::Param && !fetches(offset);
        let has_lanes = match node.op() {
            Op::Load => self.lane_of(node).is_some(),
            _ => closed_ranges(node).iter().any(|range| kind_of(range) == AxisKind::Vector),
        };
        (is_given && has_lanes).then_some(index)
    }

    fn convert(&self, node: &UOp) -> UOp {
        if is_loop_end(node) {
            return self.convert_loop_end(node);
        }
        let Some(lane) = self.lane_of(node) else {
            return with_mapped_sources(node, |operand| self.done[operand].clone());
        };
        let count = lane.src()[0].as_int().unwrap_or(1) as usize;
        match node.op() {
            Op::Range => ramp(&UOp::index(0), 1, count),
            Op::Load => self.convert_load(node, &lane, count),
            Op::Running => {
                let values = node.arg().values_of_reduction();
                let in_lanes = |(number, operand): (usize, &UOp)| match number < values {
                    true => splat(&self.done[operand], count),
                    false => self.done[operand].clone(),
                };
                let src: Sources = node.src().iter().enumerate().map(in_lanes).collect();
                UOp::new(Op::Running, node.dtype().with_lanes(count), src, node.arg().clone())
            }
            Op::Stack => self.convert_terms(node, &lane, count),
            Op::DotProducts => {
                let [left, right, sums] = [0, 1, 2].map(|operand: usize| &node.src()[operand]);
                let group = left.dtype().lanes();
                let factor = |factor: &UOp| repeated(&self.done[factor], group, count);
                let src: Sources = smallvec![factor(left), factor(right), splat(&self.done[sums], count)];
                UOp::new(Op::DotProducts, node.dtype().with_lanes(count), src, Arg::None)
            }
            // Addresses are made by the loads and stores that use them.
            Op::Index => node.clone(),
            Op::LocalBuffer => with_mapped_sources(node, |store| match self.lane_of(store) {
                Some(_) => self.done[store].clone(),
                // Its value became the same in all lanes, but who reads the local buffer finds a vector at each of its places.
                None => self.convert_store_of_lanes(store, &lane, self.kept_ranges(store)),
            }),
            op if op.is_elementwise() => {
                let src: Sources = node.src().iter().map(|operand| splat(&self.done[operand], count)).collect();
                if node.dtype().is_index() {
                    return self.convert_index_value(node, &lane, count, src);
                }
                let dtype = node.dtype().with_lanes(count);
                UOp::new(op, dtype, src, node.arg().clone())
            }
            op => panic!("bug in the compiler: {op} over a vector range"),
        }
    }

    /// Index arithmetic stays a ramp where it is affine in the lane.
    fn convert_index_value(&self, node: &UOp, lane: &UOp, count: usize, src: Sources) -> UOp {
        match self.step(node, lane) {
            Some(step) => ramp(&self.at_lane(node, lane, 0), step, count),
            None => UOp::new(node.op(), node.dtype().with_lanes(count), src, node.arg().clone()),
        }
    }

    /// By how much an index expression grows from lane to lane, if that is one constant.
    fn step(&self, node: &UOp, lane: &UOp) -> Option<i64> {
        let key = (node.clone(), lane.clone());
        *self.steps.borrow_mut().entry(key).or_insert_with(|| self.new_step(node, lane))
    }

    fn new_step(&self, node: &UOp, lane: &UOp) -> Option<i64> {
        let id = range_id(lane);
        let mut step = 0;
        for (term, factor) in linear_terms(node).0 {
            if term == *lane {
                step += factor;
            } else if self.term_depends_on(&term, id) {
                return None;
            }
        }
        Some(step)
    }

    fn term_depends_on(&self, term: &UOp, id: u32) -> bool {
        // Terms may be nodes that linear_terms made anew, so the graph below is asked, not the table.
        postorder(std::slice::from_ref(term)).iter().any(|node| node.op() == Op::Range && range_id(node) == id)
    }

    /// Index arithmetic as it stands in one lane.
    fn at_lane(&self, node: &UOp, lane: &UOp, number: i64) -> UOp {
        if number == 0
            && let Some(sum) = self.without_lane(node, lane)
        {
            return sum;
        }
        let place = || simplify(&Substitution::of(lane.clone(), UOp::index(number)).apply(node));
        self.places.borrow_mut().entry((node.clone(), lane.clone(), number)).or_insert_with(place).clone()
    }

    /// Index arithmetic in the first lane, where that takes leaving out a term of a sum: so most offsets are.
    fn without_lane(&self, node: &UOp, lane: &UOp) -> Option<UOp> {
        if node == lane {
            return Some(UOp::index(0));
        }
        if !self.dependencies.get(node).contains(range_id(lane)) {
            return Some(node.clone());
        }
        let (Op::Add | Op::Mul, [left, right]) = (node.op(), node.src()) else { return None };
        let (left, right) = (self.without_lane(left, lane)?, self.without_lane(right, lane)?);
        match node.op() {
            Op::Add if left.is_const(0) => Some(right),
            Op::Add if right.is_const(0) => Some(left),
            // The terms that stay keep their order.
            Op::Add => Some(node.with_src(smallvec![left, right])),
            Op::Mul if left.is_const(0) || right.is_const(0) => Some(UOp::index(0)),
            _ => None,
        }
    }

    fn convert_load(&self, load: &UOp, lane: &UOp, count: usize) -> UOp {
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
                    let place = index.src()[1..].iter().map(|part| self.at_lane(part, lane, number));
                    let src: Sources = [memory.clone()].into_iter().chain(place).collect();
                    let index = UOp::new(Op::Index, index.dtype(), src, Arg::None);
                    UOp::new(Op::Load, load.dtype(), smallvec![index], Arg::None)
                };
                UOp::new(Op::Stack, dtype, (0..count as i64).map(map).collect::<Sources>(), Arg::None)
            }
        }
    }

    /// Terms of a dot product for each lane: those of a lane lie beside each other. What memory holds in that order is one vector of it.
    fn convert_terms(&self, terms: &UOp, lane: &UOp, count: usize) -> UOp {
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

    /// The address in scratch that holds a vector at each place.
    fn index_of_lanes(&self, index: &UOp, memory: UOp, lane: &UOp, count: usize) -> UOp {
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
    fn vector_index(&self, index: &UOp, lane: &UOp, count: usize) -> Option<Result<UOp, UOp>> {
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

    /// The ranges of a loop end that stay loops.
    fn kept_ranges(&self, loop_end: &UOp) -> Sources {
        let kept = closed_ranges(loop_end).iter().filter(|range| kind_of(range) != AxisKind::Vector);
        kept.map(|range| self.done[range].clone()).collect()
    }

    fn convert_loop_end(&self, loop_end: &UOp) -> UOp {
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
    fn convert_store_of_lanes(&self, store: &UOp, lane: &UOp, kept: Sources) -> UOp {
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
                // Every lane writes one place: the last one stays, as it would in a loop.
                let last = lane_of_vector(&vector, count - 1);
                reclose(store, &operands(scalar, last), kept.into_iter())
            }
            None => panic!("bug in the compiler: a store whose place no rule can follow over a vector range"),
        }
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
fn repeated(terms: &UOp, group: usize, count: usize) -> UOp {
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

/// base, base + step, ... as a vector.
fn ramp(base: &UOp, step: i64, count: usize) -> UOp {
    if step == 0 {
        return splat(base, count);
    }
    UOp::new(Op::Ramp, base.dtype().with_lanes(count), smallvec![base.clone()], Arg::Number(step))
}

fn lane_of_vector(vector: &UOp, number: usize) -> UOp {
    match vector.op() {
        Op::Splat => vector.src()[0].clone(),
        _ => UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number as i64)),
    }
}

/// The value in every lane; itself if it is a vector already.
fn splat(value: &UOp, count: usize) -> UOp {
    if value.dtype().lanes() == count && count > 1 {
        return value.clone();
    }
    if let Arg::Scalar(scalar) = value.arg() {
        return constant_vector(*scalar, value, count);
    }
    UOp::new(Op::Splat, value.dtype().with_lanes(count), smallvec![value.clone()], Arg::None)
}

fn constant_vector(scalar: Scalar, like: &UOp, count: usize) -> UOp {
    UOp::constant(scalar, like.dtype().with_lanes(count))
}
