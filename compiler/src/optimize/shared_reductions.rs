//! The choice by hand of reductions that the threads of a block share, for machines with blocks: one thread would walk a row alone, its neighbours other rows, and
//! most of the machine would wait.
//!
//! *Along the reduction*, where memory is consecutive along it: a warp or several have a row. Each lane takes its part of vectors that lie side by side, then lanes
//! exchange what they have, then warps through shared memory. Loops over outputs that stand in the row beside the reductions (the last loop of a softmax) are
//! shared by the same threads. Short rows have a warp each, and several of them a block.
//!
//! *Across it*, where memory is consecutive along an output and there are too few outputs for the machine: the lanes of a warp have neighbouring outputs, and each
//! warp of the block its part of the reduction, combined through shared memory.
//!
//! All reductions of the kernel stand in the same loops over outputs and in no other one: else nothing is done, and the choice goes on as before. So it does where
//! an opt on the way is refused.
//!
//! A value of the row that the schedule keeps is computed anew by each thread that asks for it: others would have to see what one has kept.
//!
//! Always: lengths that threads do not divide, symbolic ones among them, are done under a mask, and no element is stored twice.
//!
//! Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use super::blocks_by_hand::{Mark, largest_divisor, loops_over_outputs};
use super::by_hand::Attempts;
use super::opt::{Opt, ThreadIndex};
use super::survey::{InnerLoops, Survey};
use crate::ir::{Arg, AxisKind, Op, ThreadDim, UOp};
use crate::kernel::ranges::{all_ranges, closed_ranges, next_range_id, range_id};
use crate::lower::loops::is_serial;
use crate::target::Blocks;

/// Terms that a thread should have before a row gets more threads.
const TERMS_OF_THREAD: i64 = 8;
/// Threads of a row, where there are rows for all multiprocessors.
const THREADS_OF_ROW: i64 = 256;
/// Threads of a block of short rows, or of neighbouring outputs.
const THREADS_OF_BLOCK: i64 = 256;
/// Threads that share a reduction of states: what each has is combined by all, one after the other.
const THREADS_OF_STATE: i64 = 32;

/// The loops that threads may share.
struct Rows {
    /// Loops over outputs that all reductions stand in, outermost first.
    around: Vec<u32>,
    /// Of each reduction, the range that is shared.
    terms: Vec<Shared>,
    /// Of each store that has loops beside the reductions, the innermost of these.
    columns: Vec<Shared>,
    /// Whether a reduction is one of states.
    has_states: bool,
}

/// A loop that threads share.
#[derive(Clone, Copy, PartialEq)]
struct Shared {
    id: u32,
    /// Of a symbolic one, the most that it can be.
    len: i64,
    is_symbolic: bool,
}

impl Shared {
    fn of(range: &UOp) -> Shared {
        let len = &range.src()[0];
        Shared { id: range_id(range), len: len.max_value(), is_symbolic: len.as_int().is_none() }
    }

    fn is_divided_by(&self, part: i64) -> bool {
        !self.is_symbolic && self.len % part == 0
    }
}

/// Shares out the reductions of a kernel among the threads of blocks; whether it did.
pub(super) fn share_reductions(choice: &mut Attempts<'_>, blocks: &Blocks) -> bool {
    let mark = Mark::of(choice);
    recompute_rows(choice);
    let survey = Survey::of(&choice.kernel);
    let Some(rows) = rows_of(&choice.kernel, &survey) else {
        mark.restore(choice);
        return false;
    };
    let consecutive = |id: u32, inner: &InnerLoops| -> f64 {
        let steps_by_one =
            survey.accesses.iter().filter(|access| inner.holds(access) && access.steps.get(&id) == Some(&1));
        steps_by_one.map(|access| access.weight).sum()
    };
    let reductions = || survey.inner.iter().zip(&rows.terms);
    let along: f64 = reductions().map(|(inner, shared)| consecutive(shared.id, inner)).sum();
    let across = rows.around.iter().map(|&id| reductions().map(|(inner, _)| consecutive(id, inner)).sum::<f64>());
    let across = across.zip(&rows.around).max_by(|a, b| a.0.total_cmp(&b.0));
    let is_shared = match across {
        Some((weight, &id)) if weight > 0.0 && weight >= along => share_across(choice, blocks, &survey, &rows, id),
        _ => share_along(choice, blocks, &survey, &rows),
    };
    if !is_shared {
        mark.restore(choice);
    }
    is_shared
}

/// What is kept of a row by one thread is computed by those that share it, each time it is asked for.
fn recompute_rows(choice: &mut Attempts<'_>) {
    let is_kept = |load: &UOp| load.src()[0].src()[0].op() == Op::LocalBuffer;
    while let Some(number) = super::stage::loads_of(&choice.kernel).iter().position(is_kept) {
        if !choice.attempt(Opt::Recompute { load: number as u32 }) {
            return;
        }
    }
}

/// The rows of a kernel, if its reductions stand side by side in the same ones.
fn rows_of(kernel: &UOp, survey: &Survey) -> Option<Rows> {
    let is_state = |node: &UOp| matches!(node.arg(), Arg::CombineState(_));
    let nodes = crate::ir::postorder(std::slice::from_ref(kernel));
    let has_local_buffers = survey.inner.iter().any(|inner| inner.is_local_buffer);
    if survey.inner.is_empty() || has_local_buffers || nodes.iter().any(is_serial) {
        return None;
    }
    let outputs: Vec<u32> = loops_over_outputs(kernel).iter().map(range_id).collect();
    let mut around: Option<Vec<u32>> = None;
    let mut terms = Vec::new();
    for inner in &survey.inner {
        let outside: Vec<u32> = inner.depends.iter().filter(|id| !inner.has_own(*id)).collect();
        // In a loop that not all stores stand in, or in that of another reduction.
        if outside.iter().any(|id| !outputs.contains(id)) || around.as_ref().is_some_and(|known| *known != outside) {
            return None;
        }
        around = Some(outside);
        let steps = |id: u32| survey.accesses.iter().filter(|access| access.steps.get(&id) == Some(&1)).count();
        terms.push(inner.ranges.iter().map(Shared::of).max_by_key(|shared| (steps(shared.id), shared.len))?);
    }
    let around = around?;
    let mut columns = Vec::new();
    for store in kernel.src() {
        let mut beside = closed_ranges(store).iter().filter(|range| !around.contains(&range_id(range)));
        if let Some(last) = beside.next_back() {
            columns.push(Shared::of(last));
        }
    }
    columns.dedup();
    let around = outputs.into_iter().filter(|id| around.contains(id)).collect();
    Some(Rows { around, terms, columns, has_states: nodes.iter().any(is_state) })
}

/// Threads that have a row, and how.
struct Team {
    threads: i64,
    /// Elements that a thread takes at once.
    vector: i64,
    has_lanes: bool,
}

fn share_along(choice: &mut Attempts<'_>, blocks: &Blocks, survey: &Survey, rows: &Rows) -> bool {
    let lanes = blocks.lanes as i64;
    let count: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let shortest = rows.terms.iter().map(|shared| shared.len).min().unwrap_or(0);
    if shortest < lanes || rows.terms.is_empty() {
        return false;
    }
    let is_few = count < i64::from(choice.target.costs.few_results);
    let most = match (rows.has_states, is_few) {
        (true, _) => THREADS_OF_STATE,
        (false, true) => blocks.threads_max as i64,
        (false, false) => THREADS_OF_ROW,
    };
    let mut threads = lanes.min(most);
    while threads * 2 <= most && threads * 2 * TERMS_OF_THREAD <= shortest {
        threads *= 2;
    }
    let full = i64::from(survey.lanes_of_widest(choice.target, shortest));
    let fills =
        |vector: i64| rows.terms.iter().chain(&rows.columns).all(|shared| shared.is_divided_by(vector * threads));
    let vector = if !rows.has_states && fills(full) { full } else { 1 };
    let team = Team { threads, vector, has_lanes: !rows.has_states };
    // Before reductions go through shared memory: each row of the block has its own part of it.
    share_block(choice, survey, rows, THREADS_OF_BLOCK / threads);
    rows.terms.iter().all(|terms| share_terms(choice, &team, terms.id))
        && rows.columns.iter().all(|columns| share_columns(choice, &team, lanes, *columns))
        && map_grid(choice, &rows.around)
}

/// Several rows in a block, where there are enough for all multiprocessors besides.
fn share_block(choice: &mut Attempts<'_>, survey: &Survey, rows: &Rows, room: i64) {
    let Some(&row) = rows.around.last() else { return };
    let len = survey.ranges.get(&row).and_then(|range| range.src()[0].as_int()).unwrap_or(1);
    let several = largest_divisor(len, room.max(1));
    let mark = Mark::of(choice);
    if several > 1 && !map_part(choice, row, several, ThreadIndex::Block(ThreadDim::Y)) {
        mark.restore(choice);
    }
}

/// The innermost part of a loop as an index: of all of it, where it is no longer than that.
fn map_part(choice: &mut Attempts<'_>, range: u32, len: i64, index: ThreadIndex) -> bool {
    part_of(choice, range, len).is_some_and(|part| choice.attempt(Opt::Map { range: part, index }))
}

/// The number of a loop over the innermost part of another.
fn part_of(choice: &mut Attempts<'_>, range: u32, len: i64) -> Option<u32> {
    if length_of(&choice.kernel, range) == Some(len) {
        return Some(range);
    }
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::Split { range, len: u32::try_from(len).ok()? }).then_some(part)
}

fn length_of(kernel: &UOp, id: u32) -> Option<i64> {
    let range = all_ranges(kernel).into_iter().find(|range| range_id(range) == id)?;
    range.src()[0].as_int()
}

fn exists(kernel: &UOp, id: u32) -> bool {
    all_ranges(kernel).iter().any(|range| range_id(range) == id)
}

fn share_terms(choice: &mut Attempts<'_>, team: &Team, range: u32) -> bool {
    let Some(part) = part_of(choice, range, team.threads * team.vector) else { return false };
    // A split numbers what it leaves over next.
    let rest = part + 1;
    let leaves_rest = part != range && exists(&choice.kernel, rest);
    share_part(choice, team, part, true) && (!leaves_rest || share_part(choice, team, rest, true))
}

fn share_columns(choice: &mut Attempts<'_>, team: &Team, lanes: i64, columns: Shared) -> bool {
    let (range, all) = (columns.id, team.threads * team.vector);
    if columns.len < lanes {
        return true;
    }
    if columns.is_divided_by(all) {
        return part_of(choice, range, all).is_some_and(|part| share_part(choice, team, part, false));
    }
    let part = next_range_id(&choice.kernel);
    let masked = Opt::SplitMasked { range, len: all as u32 };
    choice.attempt(masked) && share_part(choice, team, part, false)
}

/// A loop of as many vectors as there are threads, one for each of them.
fn share_part(choice: &mut Attempts<'_>, team: &Team, range: u32, is_reduction: bool) -> bool {
    let mut vector = None;
    if team.vector > 1 {
        vector = part_of(choice, range, team.vector);
        if vector.is_none() {
            return false;
        }
    }
    let lanes = choice.target.blocks.as_ref().map_or(1, |blocks| blocks.lanes as i64);
    let mut lane = None;
    if team.has_lanes {
        lane = part_of(choice, range, lanes);
        if lane.is_none() {
            return false;
        }
    }
    let warps = lane != Some(range);
    let shared = !warps
        || choice.attempt(if is_reduction {
            Opt::Group { range, dim: ThreadDim::X }
        } else {
            Opt::Map { range, index: ThreadIndex::Block(ThreadDim::X) }
        });
    shared
        && lane.is_none_or(|range| choice.attempt(Opt::Map { range, index: ThreadIndex::Lane }))
        && vector.is_none_or(|range| choice.attempt(Opt::Vectorize { range, lanes: team.vector as u32 }))
}

/// Lanes of neighbouring outputs, and warps that have a part of the reduction each.
fn share_across(choice: &mut Attempts<'_>, blocks: &Blocks, survey: &Survey, rows: &Rows, id: u32) -> bool {
    let outputs: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let Some(len) = survey.ranges.get(&id).and_then(|range| range.src()[0].as_int()) else { return false };
    let shortest = rows.terms.iter().map(|shared| shared.len).min().unwrap_or(0);
    let wanted = i64::from(choice.target.costs.threads) / outputs.max(1);
    let side = largest_divisor(len, blocks.lanes as i64);
    let most = (THREADS_OF_BLOCK / side).min(shortest / TERMS_OF_THREAD).min(wanted);
    let divides = |part: &i64| rows.columns.iter().all(|columns| columns.is_divided_by(*part));
    let powers = std::iter::successors(Some(2i64), |part| Some(part * 2)).take_while(|part| *part <= most);
    let Some(group) = powers.filter(divides).last() else { return false };
    if !map_part(choice, id, side, ThreadIndex::Block(ThreadDim::X)) {
        return false;
    }
    for Shared { id: range, .. } in rows.terms.iter().copied() {
        let Some(part) = part_of(choice, range, group) else { return false };
        let leaves_rest = part != range && exists(&choice.kernel, part + 1);
        let shares = |choice: &mut Attempts<'_>, range| choice.attempt(Opt::Group { range, dim: ThreadDim::Y });
        if !shares(choice, part) || leaves_rest && !shares(choice, part + 1) {
            return false;
        }
    }
    let along_y = ThreadIndex::Block(ThreadDim::Y);
    rows.columns.iter().all(|columns| map_part(choice, columns.id, group, along_y)) && map_grid(choice, &rows.around)
}

/// The loops that are left of the outer ones as the grid, the innermost first; those for which no index is left stay loops.
fn map_grid(choice: &mut Attempts<'_>, around: &[u32]) -> bool {
    let is_loop = |kernel: &UOp, id: u32| {
        let found = all_ranges(kernel).into_iter().find(|range| range_id(range) == id);
        found.is_some_and(|range| {
            range.op() == Op::Range && range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop)
        })
    };
    let mut dims = ThreadDim::ALL.into_iter();
    for &id in around.iter().rev() {
        if is_loop(&choice.kernel, id)
            && let Some(dim) = dims.next()
        {
            choice.attempt(Opt::Map { range: id, index: ThreadIndex::Grid(dim) });
        }
    }
    true
}
