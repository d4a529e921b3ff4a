//! Contractions as panels see them: a sum of products, one of its loads, and the loops around.
//!
//! *Rows* are the loops over results that the load does not vary with, *columns* those that it does, *terms* the loops of the reduction. All is read off the kernel;
//! nothing is changed here. Tested by what is made of it (`panels`, `panel_blocks`).

use crate::ir::{Combining, Op, ReduceOp, UOp, postorder};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, closed_ranges, even_step, open_operands, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::transforms::stage::loads_of;
use crate::symbolic::linear_terms;

/// A load in a reduction, and what stands around.
pub(crate) struct Contraction<'k> {
    pub(crate) root: &'k UOp,
    pub(crate) store: &'k UOp,
    pub(crate) outputs: &'k [UOp],
    pub(crate) reduction: &'k UOp,
    pub(crate) load: &'k UOp,
    pub(crate) dependencies: &'k Dependencies,
}

/// The memory that a load reads, and which of its loads it is: that stays when loops are split.
pub(crate) struct LoadId {
    memory: UOp,
    ordinal: usize,
}

/// What the first contraction of a kernel gives for which there is something: each sum, with each load of plain memory.
pub(crate) fn contractions<T>(root: &UOp, wanted: impl Fn(&Contraction<'_>) -> Option<T>) -> Option<T> {
    let [store, others @ ..] = root.src() else { return None };
    if !root.contains(Op::ReduceRange) {
        return None;
    }
    let dependencies = Dependencies::of(root);
    let outputs = closed_ranges(store);
    let is_plain = |node: &UOp| node.op() == Op::LocalBuffer || node.as_range().is_some_and(|_| is_serial(node));
    if others.iter().any(|other| closed_ranges(other) != outputs) || dependencies.order.iter().any(is_plain) {
        return None;
    }
    let replaced = memory_in_place(root);
    let reductions = dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange);
    reductions
        .filter(|node| matches!(Combining::of(node), Some(Combining::One(ReduceOp::Add))))
        .filter(|node| !postorder(open_operands(node)).iter().any(|inner| inner.op() == Op::ReduceRange))
        .flat_map(|reduction| {
            let loads = postorder(open_operands(reduction)).into_iter().filter(|node| node.op() == Op::Load);
            loads.map(move |load| (reduction, load)).collect::<Vec<_>>()
        })
        .filter(|(_, load)| load.src()[0].src()[0].op() == Op::Param && !replaced.contains(&load.src()[0].src()[0]))
        .find_map(|(reduction, load)| {
            wanted(&Contraction { root, store, outputs, reduction, load: &load, dependencies: &dependencies })
        })
}

/// The load's number after the loops around it were split.
pub(crate) fn number_of_load(root: &UOp, id: &LoadId) -> Option<u32> {
    let mut of_memory = loads_of(root).into_iter().zip(0..).filter(|(load, _)| load.src()[0].src()[0] == id.memory);
    of_memory.nth(id.ordinal).map(|(_, number)| number)
}

/// By how much a load's address grows along a range, if it moves evenly along all.
pub(crate) fn step_of_load(load: &UOp, range: &UOp) -> Option<i64> {
    even_step(&load.src()[0].src()[1], range)
}

impl Contraction<'_> {
    /// Which load it is.
    pub(crate) fn load_id(&self) -> Option<LoadId> {
        let memory = self.load.src()[0].src()[0].clone();
        let of_memory = loads_of(self.root).into_iter().filter(|load| load.src()[0].src()[0] == memory);
        let ordinal = of_memory.collect::<Vec<_>>().iter().position(|load| load == self.load)?;
        Some(LoadId { memory, ordinal })
    }

    /// Whether the load varies with a loop.
    pub(crate) fn varies_with(&self, range: &UOp) -> bool {
        self.dependencies.get(self.load).contains(range_id(range))
    }

    /// The loops over results that the reduction stands in and the load does not vary with.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &UOp> {
        let around = self.dependencies.get(self.reduction);
        self.outputs.iter().filter(move |range| around.contains(range_id(range)) && !self.varies_with(range))
    }

    /// By how much the first store's address grows along a range.
    pub(crate) fn step_of_store(&self, range: &UOp) -> i64 {
        let terms = linear_terms(&self.store.src()[0].src()[1]).0;
        terms.iter().find(|(term, _)| term == range).map_or(0, |(_, step)| *step)
    }

    /// The loop whose results lie side by side in memory, if the load varies with it.
    pub(crate) fn lane_of_results(&self) -> Option<&UOp> {
        self.outputs.iter().find(|range| self.varies_with(range) && self.step_of_store(range) == 1)
    }

    /// Whether the load does not come in whole vectors along the range: it is gated, walks memory in steps, or there are too few elements.
    pub(crate) fn is_awkward(&self, lane: &UOp, width: i64, tile: i64) -> bool {
        !self.is_in_rows(lane) || (width % tile != 0 && width < 4 * tile)
    }

    /// Whether the load comes in order along the range, and without a condition.
    pub(crate) fn is_in_rows(&self, lane: &UOp) -> bool {
        let (index, set) = (&self.load.src()[0], self.dependencies.get(self.load));
        let inside = |range: &UOp| set.contains(range_id(range));
        let is_gated = index.src().get(2).is_some() && closed_ranges(self.reduction).iter().any(inside);
        !is_gated && step_of_load(self.load, lane) == Some(1)
    }
}
