//! The choice by hand of reductions that the threads of a block share, for machines with blocks: one thread would walk a row alone, its neighbours other rows, and
//! most of the machine would wait.
//!
//! *Along the reduction*, where memory is consecutive along it: a warp or several have a row, of short rows a part of a warp. Each lane takes its part of vectors that lie side by
//! side, then lanes exchange what they have, then warps through shared memory. Loops over outputs that stand in the row beside the reductions (the last loop of a softmax) are
//! shared by the same threads. Short rows have a warp each, and several of them a block. Where rows are few, and what is reduced of them little beside their outputs, a row's outputs
//! are shared out among blocks, each of which reduces anew.
//!
//! *Across it*, where memory is consecutive along an output and there are too few outputs for the machine: the lanes of a warp have neighbouring outputs, and each
//! warp of the block its part of the reduction, combined through shared memory (`reductions_across`).
//!
//! All reductions of the kernel stand in the same loops over outputs, or in some of these, or in the loop of another reduction (by blocks), which all threads walk together: else
//! nothing is done, and the choice goes on as before. So it does where an opt on the way is refused.
//!
//! A value of the row that the schedule keeps is computed anew by each thread that asks for it, where that is little; else it is kept in shared memory (`keep_shared`), if that holds a row.
//!
//! Always: lengths that threads do not divide, symbolic ones among them, are done under a mask, and no element is stored twice.
//!
//! Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use rustc_hash::FxHashSet;

use super::blocks::{Mark, largest_divisor};
use super::parts::{exists, map_grid, map_masked_part, map_part, part_of};
use super::reductions_across::share_across;
use super::row_loops::{Rows, Shared, have_threads_each, rows_of};
use super::team::{THREADS_ENOUGH, THREADS_OF_ROW, Team, chunk_of_outputs, fewer_threads, most_threads};
use crate::ir::{Arg, MemorySpace, Op, ThreadDim, UOp};
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::kernel::ranges::next_range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{InnerLoops, Survey};
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::stage::loads_of;
use crate::target::Blocks;

/// Turns of a loop that are written out (`linearize::repeated`).
const TURNS_AT_ONCE: i64 = 8;
/// Terms that a thread should have before a row gets more threads.
pub(crate) const TERMS_OF_THREAD: i64 = 8;
/// Terms that a lane should have before a row gets more lanes.
const TERMS_OF_LANE: i64 = 4;
/// The fewest lanes of a row: of four bytes, they fill a sector.
pub(crate) const LANES_MIN: i64 = 8;
/// Threads of a block of short rows, or of neighbouring outputs.
pub(crate) const THREADS_OF_BLOCK: i64 = 256;
/// Simple ops from which on a value of a row is kept rather than computed again: it is stored once, and loaded instead.
const OPS_KEPT: f64 = 6.0;

/// Shares out the reductions of a kernel among the threads of blocks; whether it did.
pub(crate) fn share_reductions(choice: &mut Attempts<'_>, blocks: &Blocks) -> bool {
    // Rows of which something is kept, if a block can hold it.
    for may_keep in [true, false] {
        let mark = Mark::of(choice);
        recompute_rows(choice, may_keep);
        let is_kept = !local_buffers(&choice.kernel).is_empty();
        if (is_kept || !may_keep) && share_rows(choice, blocks, is_kept) {
            return true;
        }
        mark.restore(choice);
    }
    false
}

fn share_rows(choice: &mut Attempts<'_>, blocks: &Blocks, is_kept: bool) -> bool {
    let survey = Survey::of(&choice.kernel);
    let Some(rows) = rows_of(&choice.kernel, &survey) else { return false };
    let consecutive = |id: u32, inner: &InnerLoops| -> f64 {
        let steps_by_one =
            survey.accesses.iter().filter(|access| inner.holds(access) && access.steps.get(&id) == Some(&1));
        steps_by_one.map(|access| access.weight).sum()
    };
    let reductions = || rows.terms.iter().map(|terms| (&survey.inner[terms.inner], terms.shared));
    let along: f64 = reductions().map(|(inner, shared)| consecutive(shared.id, inner)).sum();
    let across = rows.around.iter().map(|&id| reductions().map(|(inner, _)| consecutive(id, inner)).sum::<f64>());
    let across = across.zip(&rows.around).max_by(|a, b| a.0.total_cmp(&b.0));
    match across {
        Some((weight, &id)) if weight > 0.0 && weight >= along => {
            !is_kept && rows.is_plain && share_across(choice, blocks, &survey, &rows, id)
        }
        _ => !have_threads_each(choice, &survey, &rows) && share_along(choice, blocks, &survey, &rows),
    }
}

/// What is kept of a row by one thread is computed by those that share it, each time it is asked for; unless that is much, and may be kept by all.
fn recompute_rows(choice: &mut Attempts<'_>, may_keep: bool) {
    let is_kept = |load: &UOp| {
        let buffer = &load.src()[0].src()[0];
        buffer.op() == Op::LocalBuffer && !(may_keep && buffer.src().iter().any(|store| ops_of(store) >= OPS_KEPT))
    };
    while let Some(number) = loads_of(&choice.kernel).iter().position(is_kept) {
        if !choice.attempt(Opt::Recompute { load: number as u32 }) {
            return;
        }
    }
}

/// Simple ops, about, of the value that a store puts somewhere: what it loads or reduces is there.
fn ops_of(store: &UOp) -> f64 {
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    let mut open = vec![&store.src()[1]];
    let mut ops = 0.0;
    while let Some(node) = open.pop() {
        if !node.op().is_elementwise() || node.dtype().is_index() || !seen.insert(node) {
            continue;
        }
        ops += match node.op() {
            Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos => 16.0,
            Op::Div | Op::Sqrt => 8.0,
            _ => 1.0,
        };
        open.extend(node.src());
    }
    ops
}

fn share_along(choice: &mut Attempts<'_>, blocks: &Blocks, survey: &Survey, rows: &Rows) -> bool {
    let warp = blocks.lanes as i64;
    let count: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let terms = rows.terms.iter().map(|terms| terms.shared.len).max().unwrap_or(0);
    let outputs = rows.columns.iter().map(|shared| shared.len).max().unwrap_or(0);
    // Where a thread reduces all by itself, it is for the sake of outputs that threads share.
    let row = if terms < warp { outputs } else { terms };
    if row < warp || rows.terms.is_empty() || terms < warp && outputs < THREADS_OF_ROW {
        return false;
    }
    let mut most = most_threads(choice, blocks, survey, rows, [count, row]);
    let chunk = chunk_of_outputs(choice, survey, rows, (count, most.min(THREADS_OF_ROW)));
    if chunk.is_some() {
        most = THREADS_OF_ROW;
    }
    let mut threads = warp.min(most);
    while threads * 2 <= most && threads * 2 * TERMS_OF_THREAD <= row {
        threads *= 2;
    }
    while threads <= warp && threads > LANES_MIN && threads * TERMS_OF_LANE > row && chunk.is_none() {
        threads /= 2;
    }
    if chunk.is_none() {
        threads = fewer_threads(choice, survey, rows, [count, threads]);
    }
    let enough = i64::from(choice.target.costs.cores) * THREADS_ENOUGH;
    let team = match rows.has_states {
        true => Team::of_states(count, terms, most, enough),
        false => Team { lanes: threads.min(warp), threads: [(threads / warp).max(1), 1] },
    };
    // Before reductions go through shared memory: each row of the block has its own part of it.
    share_block(choice, survey, rows, &team);
    let mut around = rows.around.clone();
    if !keep_rows(choice) || !rows.terms.iter().all(|terms| share_terms(choice, survey, &team, terms.shared)) {
        return false;
    }
    for columns in &rows.columns {
        let mut columns = *columns;
        if let Some(chunk) = chunk.filter(|chunk| columns.len > *chunk) {
            let part = next_range_id(&choice.kernel);
            let len = u32::try_from(chunk).unwrap_or(u32::MAX);
            let opt = match columns.is_divided_by(chunk) {
                true => Opt::Split { range: columns.id, len },
                false => Opt::SplitMasked { range: columns.id, len },
            };
            if !choice.attempt(opt) {
                return false;
            }
            around.push(columns.id);
            columns = Shared { id: part, len: chunk, is_masked: !columns.is_divided_by(chunk), is_symbolic: false };
        }
        if !share_columns(choice, survey, &team, columns) {
            return false;
        }
    }
    map_grid(choice, &around)
}

/// What is kept of rows is kept by all threads of the block; whether all of it is.
fn keep_rows(choice: &mut Attempts<'_>) -> bool {
    let is_own = |load: &UOp| {
        let buffer = &load.src()[0].src()[0];
        let is_shared = |scratch: &UOp| matches!(scratch.arg(), Arg::Scratch(_, _, MemorySpace::Shared));
        buffer.op() == Op::LocalBuffer && !is_shared(scratch_of(buffer))
    };
    while let Some(number) = loads_of(&choice.kernel).iter().position(is_own) {
        if !choice.attempt(Opt::KeepShared { load: number as u32, pad: 0 }) {
            return false;
        }
    }
    true
}

/// Several rows in a block, where there are enough for all multiprocessors besides.
fn share_block(choice: &mut Attempts<'_>, survey: &Survey, rows: &Rows, team: &Team) {
    let Some(&row) = rows.around.last() else { return };
    let len = survey.ranges.get(&row).and_then(|range| range.src()[0].as_int()).unwrap_or(1);
    let count: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let for_each = count / i64::from(choice.target.costs.cores);
    let most = (THREADS_OF_BLOCK / team.all()).min(for_each).max(1);
    let several = largest_divisor(len, most);
    let mark = Mark::of(choice);
    let index = ThreadIndex::Block(team.dim_of_rows());
    let is_shared = match several * 2 <= most && len > most && rows.is_plain {
        true => map_masked_part(choice, row, most, index),
        false => several <= 1 || map_part(choice, row, several, index),
    };
    if !is_shared {
        mark.restore(choice);
    }
}

/// Elements of a loop that a thread takes at once: as many as fill the widest access, where all threads have as many and they lie so in memory.
fn vector_of(choice: &Attempts<'_>, survey: &Survey, team: &Team, shared: Shared) -> i64 {
    let lanes = i64::from(survey.lanes_of_widest(choice.target, shared.len));
    let now = Survey::of(&choice.kernel);
    let mut along = now.accesses.iter().filter(|access| access.steps.get(&shared.id) == Some(&1));
    let is_aligned = along.all(|access| access.is_aligned(shared.id, lanes));
    let fills = shared.is_divided_by(lanes * team.all()) && !shared.is_masked;
    if team.lanes > 1 && fills && is_aligned { lanes } else { 1 }
}

fn share_terms(choice: &mut Attempts<'_>, survey: &Survey, team: &Team, terms: Shared) -> bool {
    let warp = choice.target.blocks.as_ref().map_or(1, |blocks| blocks.lanes as i64);
    if terms.len < warp.min(team.all()) {
        // Each thread has them all.
        return true;
    }
    let (range, all) = (terms.id, team.all());
    if terms.len < all {
        let part = next_range_id(&choice.kernel);
        return choice.attempt(Opt::SplitMasked { range, len: all as u32 }) && share_part(choice, team, part, 1, true);
    }
    let vector = vector_of(choice, survey, team, terms);
    let Some(part) = part_of(choice, range, all * vector) else { return false };
    // A split numbers what it leaves over next.
    let rest = part + 1;
    let leaves_rest = part != range && exists(&choice.kernel, rest);
    share_part(choice, team, part, vector, true) && (!leaves_rest || share_part(choice, team, rest, vector, true))
}

fn share_columns(choice: &mut Attempts<'_>, survey: &Survey, team: &Team, columns: Shared) -> bool {
    let vector = vector_of(choice, survey, team, columns);
    let (range, all) = (columns.id, team.all() * vector);
    if columns.len < LANES_MIN && columns.len < all {
        return true;
    }
    if columns.is_divided_by(all) {
        return part_of(choice, range, all).is_some_and(|part| share_part(choice, team, part, vector, false));
    }
    // Of a long row some turns by themselves: so these are written out, whatever the number of all turns.
    let part = next_range_id(&choice.kernel);
    let turns = if columns.len >= 2 * TURNS_AT_ONCE * all { TURNS_AT_ONCE } else { 1 };
    choice.attempt(Opt::SplitMasked { range, len: (all * turns) as u32 })
        && part_of(choice, part, all).is_some_and(|part| share_part(choice, team, part, vector, false))
}

/// A loop of as many vectors as there are threads, one for each of them.
fn share_part(choice: &mut Attempts<'_>, team: &Team, range: u32, vector: i64, is_reduction: bool) -> bool {
    let inner = |choice: &mut Attempts<'_>, len: i64| match len > 1 {
        true => part_of(choice, range, len).map(Some),
        false => Some(None),
    };
    let Some(vectors) = inner(choice, vector) else { return false };
    let Some(lanes) = inner(choice, team.lanes) else { return false };
    let along_first = if team.threads[1] > 1 { team.threads[0] } else { 1 };
    let Some(first) = inner(choice, along_first) else { return false };
    let shares = |choice: &mut Attempts<'_>, range: u32, dim: ThreadDim| {
        choice.attempt(match is_reduction {
            true => Opt::Group { range, dim },
            false => Opt::Map { range, index: ThreadIndex::Block(dim) },
        })
    };
    let is_all_lanes = lanes == Some(range);
    let of_threads = match first {
        Some(first) => shares(choice, first, ThreadDim::X) && shares(choice, range, ThreadDim::Y),
        None => is_all_lanes || shares(choice, range, ThreadDim::X),
    };
    of_threads
        && lanes.is_none_or(|range| choice.attempt(Opt::Map { range, index: ThreadIndex::Lane }))
        && vectors.is_none_or(|range| choice.attempt(Opt::Vectorize { range, lanes: vector as u32 }))
}
