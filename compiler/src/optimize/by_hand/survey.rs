//! What the choice by hand knows of a kernel: its loads and stores with the steps that addresses make along each range, its output
//! ranges, and the loops that stand inside of them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::DType;
use crate::dtype::ScalarType;
use crate::ir::{Combining, Op, UOp, postorder};
use crate::kernel::ranges::{Dependencies, RangeSet, closed_ranges, is_further_component, range_id};
use crate::lower::loops::{is_serial, ranges_by_id, trip_count};
use crate::symbolic::linear_terms;
use crate::target::Target;

/// One load or store.
pub(crate) struct AccessPattern {
    pub(crate) steps: FxHashMap<u32, i64>,
    /// What the terms of its address are multiples of, each with its range if it is one; the constant is a term.
    factors: Vec<(Option<u32>, i64)>,
    /// Ranges that its address depends on in another way than by a constant step.
    pub(crate) irregular: RangeSet,
    pub(crate) depends: RangeSet,
    pub(crate) is_store: bool,
    /// Whether it loads from a tensor's memory, of which neighbours can be loaded besides.
    pub(crate) is_load_of_memory: bool,
    /// Whether numbers in memory say which element it is.
    pub(crate) is_told_by_memory: bool,
    pub(crate) bytes: usize,
    pub(crate) weight: f64,
}

impl AccessPattern {
    /// Whether so many neighbours along a range, from a multiple of their number on, lie at a multiple of it in memory, too.
    pub(crate) fn is_aligned(&self, id: u32, lanes: i64) -> bool {
        self.factors.iter().all(|(range, factor)| *range == Some(id) || factor % lanes == 0)
    }
}

/// A kernel as accesses, output ranges and what loops stand inside of them.
pub(crate) struct Survey {
    pub(crate) accesses: Vec<AccessPattern>,
    pub(crate) outputs: Vec<UOp>,
    pub(crate) inner: Vec<InnerLoops>,
    pub(crate) ranges: FxHashMap<u32, UOp>,
    /// Scans: running totals whose steps come one after the other.
    pub(crate) scans: usize,
    pub(crate) work: f64,
    /// Elementwise ops, each counted once however often it runs.
    pub(crate) body_ops: u32,
    /// The same as cycles of one element at a time, additions of reductions included: what each varies with, and how many in all.
    ops: Vec<(RangeSet, f64)>,
    pub(crate) element_bytes: usize,
    /// Simple ops, about, that are computed from reductions for one element of an output, after all loops inside.
    pub(crate) ops_after_reductions: f64,
}

/// Reductions that share their ranges, or the store of a local buffer.
pub(crate) struct InnerLoops {
    pub(crate) ranges: Vec<UOp>,
    /// What the values depend on, their own ranges included.
    pub(crate) depends: RangeSet,
    pub(crate) is_local_buffer: bool,
    /// Whether the largest store is computed from it: not so of what a cut of a range left beside it.
    pub(crate) is_of_largest: bool,
    pub(crate) count: usize,
    pub(crate) weight: f64,
    /// Bytes of the widest accumulator of one value: of half floats they are wider than what is loaded.
    accumulator_bytes: usize,
}

impl InnerLoops {
    pub(crate) fn is_inside(&self, id: u32) -> bool {
        self.depends.contains(id)
    }

    /// Whether an access varies with one of the loops' own ranges, and so stands in them.
    pub(crate) fn holds(&self, access: &AccessPattern) -> bool {
        self.ranges.iter().any(|range| access.depends.contains(range_id(range)))
    }

    pub(crate) fn has_own(&self, id: u32) -> bool {
        self.ranges.iter().any(|range| range_id(range) == id)
    }
}

impl Survey {
    pub(crate) fn of(root: &UOp) -> Survey {
        let dependencies = Dependencies::of(root);
        let ranges = ranges_by_id(root);
        let trips = |set: &RangeSet| trip_count(set.iter().filter_map(|id| ranges.get(&id).cloned()));
        let mut survey = Survey {
            accesses: Vec::new(),
            outputs: Vec::new(),
            inner: Vec::new(),
            ranges: ranges.clone(),
            scans: 0,
            work: 0.0,
            body_ops: 0,
            ops: Vec::new(),
            element_bytes: 1,
            ops_after_reductions: 0.0,
        };
        let mut states: FxHashSet<&[UOp]> = FxHashSet::default();
        for node in &dependencies.order {
            match node.op() {
                Op::Load | Op::Store => survey.add_access(node, &dependencies, &trips),
                Op::Running => survey.scans += 1,
                Op::ReduceRange if !is_further_component(node, &mut states) => {
                    survey.add_inner(node, &dependencies, &trips)
                }
                op if op.is_elementwise() && !node.dtype().is_index() => {
                    let count = trips(dependencies.get(node));
                    survey.work += count;
                    survey.body_ops += 1;
                    survey.ops.push((dependencies.get(node).clone(), count * cost_of(op)));
                }
                _ => {}
            }
            if node.op() == Op::Store && node.src()[0].src()[0].op() == Op::Scratch {
                survey.add_inner(node, &dependencies, &trips);
            }
        }
        survey.weigh_accesses(&trips);
        survey.ops_after_reductions = ops_after_reductions(&dependencies, root);
        // Of stores that a cut made, the part that was most of the range.
        let trips = |ranges: &[UOp]| ranges.iter().map(|range| range.src()[0].max_value() as f64).product::<f64>();
        let by_size = |a: &&UOp, b: &&UOp| {
            let (a, b) = (closed_ranges(a), closed_ranges(b));
            trips(a).total_cmp(&trips(b)).then(a.len().cmp(&b.len()))
        };
        if let Some(largest) = root.src().iter().max_by(by_size) {
            survey.outputs = closed_ranges(largest).iter().filter(|range| !is_serial(range)).cloned().collect();
            let below = postorder(std::slice::from_ref(largest));
            let reductions: FxHashSet<&[UOp]> =
                below.iter().filter(|node| node.op() == Op::ReduceRange).map(closed_ranges).collect();
            for inner in survey.inner.iter_mut().filter(|inner| !inner.is_local_buffer) {
                inner.is_of_largest = reductions.contains(inner.ranges.as_slice());
            }
        }
        survey
    }

    fn add_access(&mut self, node: &UOp, dependencies: &Dependencies, trips: &dyn Fn(&RangeSet) -> f64) {
        let offset = &node.src()[0].src()[1];
        let is_store = node.op() == Op::Store;
        let depends = if is_store { open_ranges(node, dependencies) } else { dependencies.get(node).clone() };
        let mut access = AccessPattern {
            steps: FxHashMap::default(),
            factors: Vec::new(),
            irregular: RangeSet::default(),
            weight: trips(&depends),
            depends,
            is_store,
            is_load_of_memory: !is_store && node.src()[0].src()[0].op() == Op::Param,
            is_told_by_memory: offset.contains(Op::Load),
            bytes: node.src()[0].dtype().bytes(),
        };
        let (terms, constant) = linear_terms(offset);
        access.factors.push((None, constant));
        for (term, factor) in terms {
            access.factors.push(((term.op() == Op::Range).then(|| range_id(&term)), factor));
            if term.op() == Op::Range {
                *access.steps.entry(range_id(&term)).or_default() += factor;
            } else {
                access.irregular.union_with(Dependencies::of(&term).get(&term));
            }
        }
        self.element_bytes = self.element_bytes.max(access.bytes);
        self.work += access.weight;
        self.accesses.push(access);
    }

    fn add_inner(&mut self, node: &UOp, dependencies: &Dependencies, trips: &dyn Fn(&RangeSet) -> f64) {
        let depends = open_ranges(node, dependencies);
        let weight = trips(&depends);
        let is_local_buffer = node.op() == Op::Store;
        if !is_local_buffer {
            self.work += weight;
            self.ops.push((depends.clone(), weight));
        }
        let ranges = closed_ranges(node).to_vec();
        // Accumulators, or a store.
        let combining = Combining::of(node);
        let count = combining.map_or(1, Combining::arity);
        let accumulator_bytes = match combining {
            Some(Combining::One(_)) => accumulated_in(node.dtype()).bytes(),
            _ => 0,
        };
        match self.inner.iter_mut().find(|inner| inner.ranges == ranges && inner.is_local_buffer == is_local_buffer) {
            Some(inner) => {
                inner.count += count;
                inner.depends.union_with(&depends);
                inner.weight += weight;
                inner.accumulator_bytes = inner.accumulator_bytes.max(accumulator_bytes);
            }
            None => {
                let is_of_largest = true;
                let inner =
                    InnerLoops { ranges, depends, is_local_buffer, is_of_largest, count, weight, accumulator_bytes };
                self.inner.push(inner);
            }
        }
    }

    /// An access inside of a loop runs as often as that loop, whether or not it varies with the loops around that one.
    fn weigh_accesses(&mut self, trips: &dyn Fn(&RangeSet) -> f64) {
        for access in &mut self.accesses {
            let mut open = access.depends.clone();
            for inner in self.inner.iter().filter(|inner| inner.holds(access)) {
                open.union_with(&inner.depends);
            }
            access.weight = trips(&open);
        }
    }

    /// Whether an access varies with a range, or stands in a loop that is repeated for it.
    pub(crate) fn is_concerned(&self, access: &AccessPattern, id: u32) -> bool {
        let repeated = |inner: &&InnerLoops| inner.is_inside(id) && !inner.has_own(id);
        access.depends.contains(id) || self.inner.iter().filter(repeated).any(|inner| inner.holds(access))
    }

    /// How good a range would be as lanes, for the accesses that `concerns` admits: positive if more is consecutive than strided.
    pub(crate) fn lane_score(&self, id: u32, concerns: impl Fn(&AccessPattern) -> bool) -> f64 {
        let score = |access: &AccessPattern| {
            if access.irregular.contains(id) {
                return -1.0;
            }
            match access.steps.get(&id) {
                Some(1) => 1.0,
                Some(0) | None => 0.4,
                // A load for each step, and choices of lanes (`legalize::strided`).
                Some(2) if !access.is_store => 0.5,
                Some(3) if access.is_load_of_memory => 0.35,
                Some(4) if access.is_load_of_memory => 0.25,
                Some(_) => -0.6,
            }
        };
        let concerned = self.accesses.iter().filter(|access| concerns(access));
        concerned.map(|access| score(access) * access.weight).sum()
    }

    /// How many cycles lanes along a range save: those of ops and of what is loaded or stored together, less what it costs to make vectors of elements that lie
    /// apart, or to take them apart.
    pub(crate) fn cycles_saved_by_lanes(&self, id: u32, lanes: u32) -> f64 {
        let together = 1.0 - 1.0 / f64::from(lanes);
        let of_access = |access: &AccessPattern| match access.steps.get(&id) {
            _ if access.irregular.contains(id) => -APART,
            Some(0 | 1) | None => together,
            Some(2..=4) if access.is_load_of_memory => together / 2.0,
            Some(_) => -APART,
        };
        let accesses = self.accesses.iter().filter(|access| self.is_concerned(access, id));
        let of_accesses: f64 = accesses.map(|access| of_access(access) * access.weight).sum();
        let ops = self.ops.iter().filter(|(depends, _)| depends.contains(id));
        of_accesses + ops.map(|(_, cycles)| cycles * together).sum::<f64>()
    }

    /// What lanes along a range cost beside [`Survey::cycles_saved_by_lanes`] where numbers in memory say which elements are loaded, and vectors are too short for gathers that are worth it.
    pub(crate) fn cycles_of_gathers(&self, id: u32) -> f64 {
        let gathers =
            |access: &&AccessPattern| !access.is_store && access.is_told_by_memory && access.irregular.contains(id);
        self.accesses.iter().filter(gathers).map(|access| (GATHERED - APART) * access.weight).sum()
    }

    /// The cycles of a kernel without reductions, with lanes along a range, if its loops stand in this order: what a value does not depend on repeats it, where it
    /// stands further in for what else it depends on.
    pub(crate) fn cycles_in_order(&self, order: &[u32], vector_id: u32, lanes: u32) -> f64 {
        let times = |depends: &RangeSet| -> f64 {
            let own = order.iter().rposition(|id| depends.contains(*id)).map_or(&[][..], |last| &order[..=last]);
            own.iter().filter(|id| !depends.contains(**id)).map(|id| self.most(*id) as f64).product()
        };
        let together = |depends: &RangeSet| if depends.contains(vector_id) { f64::from(lanes) } else { 1.0 };
        let of_ops = self.ops.iter().map(|(depends, cycles)| cycles * times(depends) / together(depends));
        let of_access = |access: &AccessPattern| match access.steps.get(&vector_id) {
            _ if access.irregular.contains(vector_id) => 1.0 + APART,
            Some(0 | 1) | None => 1.0 / together(&access.depends),
            Some(_) => 1.0 + APART,
        };
        of_ops.sum::<f64>()
            + self.accesses.iter().map(|access| of_access(access) * access.weight * times(&access.depends)).sum::<f64>()
    }

    /// The length that a range has in any case: of a symbolic one, the least.
    pub(crate) fn len(&self, id: u32) -> i64 {
        self.ranges.get(&id).map_or(0, |range| range.src()[0].min_value())
    }

    /// The largest length that a range can have, for splits that do what is left over on its own.
    pub(crate) fn most(&self, id: u32) -> i64 {
        self.ranges.get(&id).map_or(0, |range| range.src()[0].max_value())
    }

    /// The length with which a range of inner loops counts: what is left over of a reduction is reduced apart, so it may have less.
    pub(crate) fn inner_len(&self, inner: &InnerLoops, id: u32) -> i64 {
        if inner.is_local_buffer { self.len(id) } else { self.most(id) }
    }

    /// Lanes that fill a vector along a range: of the widest elements that are loaded or stored along it other than seldom, or accumulated. What is the same for
    /// all lanes, as the number of a row, is no vector in memory.
    ///
    /// Half floats accumulate in twice their bytes: with lanes for their own, each accumulator would take two registers. A thread of a block has no vectors but in
    /// memory.
    pub(crate) fn full_lanes(&self, target: &Target, id: u32) -> i64 {
        let inside = self.inner.iter().filter(|inner| target.blocks.is_none() && inner.is_inside(id));
        let accumulated = inside.map(|inner| inner.accumulator_bytes).max().unwrap_or(0);
        (target.vector_bytes as usize / self.widest_along(target, id).max(accumulated)).max(1) as i64
    }

    /// Bytes of the widest elements along a range. On CPUs those that are a small part of all do not count: a vector of them in two registers costs as much as two
    /// vectors, and all the rest, as what a window's largest element is found by before its index is stored in 8 bytes, takes half of its instructions.
    fn widest_along(&self, target: &Target, id: u32) -> usize {
        let along = || self.accesses.iter().filter(|access| access.depends.contains(id));
        let widest = along().map(|access| access.bytes).max().unwrap_or(self.element_bytes);
        let weight =
            |wider: usize| -> f64 { along().filter(|access| access.bytes > wider).map(|access| access.weight).sum() };
        let is_seldom = |bytes: &usize| weight(*bytes) < SELDOM * weight(0);
        if target.blocks.is_some() {
            widest
        } else {
            along().map(|access| access.bytes).filter(is_seldom).min().unwrap_or(widest)
        }
    }

    /// Lanes along a range, of which so many elements count.
    pub(crate) fn lanes(&self, target: &Target, id: u32, len: i64) -> u32 {
        fitting(self.full_lanes(target, id), len)
    }

    /// Lanes along any range: of the widest elements that the kernel loads or stores.
    pub(crate) fn lanes_of_widest(&self, target: &Target, len: i64) -> u32 {
        fitting((target.vector_bytes as usize / self.element_bytes).max(1) as i64, len)
    }
}

/// The part of all accesses along a range below which wide elements do not choose its lanes.
const SELDOM: f64 = 0.25;

/// The type in which elements of a type are summed up (`legalize::half_floats`).
pub(crate) fn accumulated_in(dtype: DType) -> DType {
    match dtype.scalar() {
        ScalarType::F16 | ScalarType::BF16 => DType::F32,
        _ => dtype,
    }
}

/// As many lanes as there are elements for, at most.
fn fitting(full: i64, len: i64) -> u32 {
    let mut lanes = full;
    while lanes > len {
        lanes /= 2;
    }
    lanes.max(1) as u32
}

/// The ranges that are open inside a loop end.
fn open_ranges(loop_end: &UOp, dependencies: &Dependencies) -> RangeSet {
    let mut set = dependencies.get(loop_end).clone();
    for range in closed_ranges(loop_end) {
        set.insert(range_id(range));
    }
    set
}

/// Cycles that an element takes to become a lane, or to be taken out of a vector, beside its load or store.
const APART: f64 = 1.0;
/// The same where numbers in memory say which element it is: addresses are made in vectors, checked, and taken out of these one by one, too. Measured on one core of Zen 3, with AVX2: 429 of 130
/// elements of each of 129 rows take 53 us in vectors of four indices and 41 one by one; 57 of 1,860 of each of 715 rows 72 and 55.
const GATHERED: f64 = 12.0;

/// Simple ops, about, that an op is once it is decomposed.
fn cost_of(op: Op) -> f64 {
    match op {
        Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos => 16.0,
        Op::Div | Op::Sqrt => 4.0,
        _ => 1.0,
    }
}

/// The ops above a reduction that stand in the loops of outputs alone, by what they cost once they are decomposed.
fn ops_after_reductions(dependencies: &Dependencies, root: &UOp) -> f64 {
    let outputs: Vec<u32> = root.src().iter().flat_map(closed_ranges).map(range_id).collect();
    let mut above: FxHashSet<&UOp> = FxHashSet::default();
    let mut ops = 0.0;
    for node in &dependencies.order {
        if node.op() == Op::ReduceRange || node.src().iter().any(|operand| above.contains(operand)) {
            above.insert(node);
            let outside = dependencies.get(node).iter().all(|id| outputs.contains(&id));
            if node.op().is_elementwise() && outside {
                ops += cost_of(node.op());
            }
        }
    }
    ops
}
