//! The rows of a kernel whose reductions threads could share: the loops over outputs that they stand in, and the loops inside that are shared out.
//!
//! A reduction may stand in the loop of another one, which combines blocks of a row: that loop stays one, and all threads walk it together.
//!
//! Tested with the choice by hand (`shared_reductions`).

use super::blocks::loops_over_outputs;
use super::shared_reductions::LANES_MIN;
use crate::ir::{Arg, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{InnerLoops, Survey};

/// Reductions of fewer elements may be done again for each of the outputs that they do not depend on, if they are this part of all work.
const REPEATED_PART: f64 = 4.0;

/// Outputs of a multiprocessor that are enough for each to have a thread: the block that it begins with.
const OUTPUTS_ENOUGH: i64 = 256;

/// The loops that threads may share.
pub(crate) struct Rows {
    /// Loops over outputs that reductions stand in, outermost first.
    pub(crate) around: Vec<u32>,
    /// Of each reduction that no other one stands in, the range that is shared.
    pub(crate) terms: Vec<Terms>,
    /// Of each store that has loops beside the reductions, and of each local buffer, the innermost of these.
    pub(crate) columns: Vec<Shared>,
    /// Whether such a reduction is one of states.
    pub(crate) has_states: bool,
    /// Whether all reductions stand in the same loops, in no other reduction, and nothing of a row is kept.
    pub(crate) is_plain: bool,
}

/// The range of a reduction that is shared.
pub(crate) struct Terms {
    /// The reduction's number in the survey.
    pub(crate) inner: usize,
    /// The range.
    pub(crate) shared: Shared,
}

/// A loop that threads share.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Shared {
    pub(crate) id: u32,
    /// Of a symbolic one, the most that it can be.
    pub(crate) len: i64,
    pub(crate) is_symbolic: bool,
    /// Whether what lies beyond an end is masked already.
    pub(crate) is_masked: bool,
}

impl Shared {
    fn of(range: &UOp) -> Shared {
        let len = &range.src()[0];
        Shared { id: range_id(range), len: len.max_value(), is_symbolic: len.as_int().is_none(), is_masked: false }
    }

    pub(crate) fn is_divided_by(&self, part: i64) -> bool {
        !self.is_symbolic && self.len % part == 0
    }
}

/// The rows of a kernel, if its reductions stand in the same ones.
pub(crate) fn rows_of(kernel: &UOp, survey: &Survey) -> Option<Rows> {
    let nodes = postorder(std::slice::from_ref(kernel));
    if survey.inner.is_empty() || nodes.iter().any(is_serial) {
        return None;
    }
    let outputs: Vec<u32> = loops_over_outputs(kernel).iter().map(range_id).collect();
    let reductions = || survey.inner.iter().filter(|inner| !inner.is_local_buffer);
    let is_of_reduction = |id: &u32| reductions().any(|inner| inner.has_own(*id));
    let mut arounds: Vec<Vec<u32>> = Vec::new();
    let (mut terms, mut columns) = (Vec::new(), Vec::new());
    let mut is_plain = true;
    for (number, inner) in survey.inner.iter().enumerate() {
        let outside = || inner.depends.iter().filter(|id| !inner.has_own(*id));
        let around: Vec<u32> = outside().filter(|id| !is_of_reduction(id)).collect();
        let stands_in_reduction = outside().any(|id| is_of_reduction(&id));
        // In a loop that not all stores stand in, or in one that fills a local buffer.
        if around.iter().any(|id| !outputs.contains(id)) || stands_in_reduction && inner.is_local_buffer {
            return None;
        }
        is_plain &= !stands_in_reduction && !inner.is_local_buffer && arounds.iter().all(|known| *known == around);
        arounds.push(around);
        let holds_other = |other: &InnerLoops| {
            inner.ranges.iter().any(|range| other.is_inside(range_id(range)) && !other.has_own(range_id(range)))
        };
        if inner.is_local_buffer {
            columns.push(inner.ranges.last().map(Shared::of)?);
        } else if !survey.inner.iter().any(holds_other) {
            let steps = |id: u32| survey.accesses.iter().filter(|access| access.steps.get(&id) == Some(&1)).count();
            let shared = inner.ranges.iter().map(Shared::of).max_by_key(|shared| (steps(shared.id), shared.len))?;
            terms.push(Terms { inner: number, shared });
        }
    }
    let widest = arounds.iter().max_by_key(|around| around.len())?;
    let mut repeated = 0.0;
    for (inner, around) in survey.inner.iter().zip(&arounds) {
        if !around.iter().all(|id| widest.contains(id)) {
            return None;
        }
        let times: f64 = widest.iter().filter(|id| !around.contains(id)).map(|id| survey.most(*id) as f64).product();
        repeated += if times > 1.0 { inner.weight * times } else { 0.0 };
    }
    if repeated * REPEATED_PART > survey.work {
        return None;
    }
    for store in kernel.src() {
        let mut beside = closed_ranges(store).iter().filter(|range| !widest.contains(&range_id(range)));
        if let Some(last) = beside.next_back() {
            columns.push(Shared::of(last));
        }
    }
    columns.dedup();
    let is_leaf_state = |terms: &Terms| {
        let ranges = &survey.inner[terms.inner].ranges;
        let is_it = |node: &&UOp| closed_ranges(node) == ranges.as_slice();
        nodes.iter().filter(is_it).any(|node| matches!(node.arg(), Arg::CombineState(_)))
    };
    let has_states = terms.iter().any(is_leaf_state);
    let around = outputs.iter().copied().filter(|id| widest.contains(id)).collect();
    Some(Rows { around, terms, columns, has_states, is_plain })
}

/// Whether outputs are so many that each has a thread, and all along some loop reduce the same terms: threads that are neighbours along it load the same at a time.
pub(crate) fn have_threads_each(choice: &Attempts<'_>, survey: &Survey, rows: &Rows) -> bool {
    let outputs: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let inside = |inner: &InnerLoops, id: u32| {
        let mut held = survey.accesses.iter().filter(|access| inner.holds(access));
        let is_same = held.clone().any(|access| !access.depends.contains(id));
        is_same && held.all(|access| !access.depends.contains(id) || access.steps.get(&id) == Some(&1))
    };
    let are_same = |id: &u32| rows.terms.iter().all(|terms| inside(&survey.inner[terms.inner], *id));
    outputs >= i64::from(choice.target.costs.cores) * OUTPUTS_ENOUGH
        && rows.is_plain
        && rows.columns.is_empty()
        && rows.around.iter().any(|id| survey.most(*id) >= LANES_MIN && are_same(id))
}
