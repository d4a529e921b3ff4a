//! Reductions that the threads of a block share across memory: it is consecutive along an output, and there are too few outputs for the machine.
//!
//! The lanes of a warp have neighbouring outputs, and each warp of the block its part of the reduction, combined through shared memory. Of a product of a few rows a thread
//! has several rows, in registers: what it reads of the other operand serves them all.
//!
//! Always: each element is stored once. Tested in the test crate, with the choice by hand for GPUs.

use super::blocks::{Mark, largest_divisor};
use super::parts::{exists, map_grid, map_masked_part, map_part, part_of};
use super::row_loops::{Rows, Shared};
use super::shared_reductions::{TERMS_OF_THREAD, THREADS_OF_BLOCK};
use super::team::THREADS_ENOUGH;
use crate::ir::ThreadDim;
use crate::kernel::ranges::next_range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::Survey;
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::target::Blocks;

/// Bytes that a warp loads of consecutive memory at the least.
const SECTOR_BYTES: i64 = 32;
/// Rows that a thread computes, each a register.
const ROWS_AT_ONCE: i64 = 16;
/// Terms that are written out one behind the other: of so many neighbours a thread loads all at once.
const TERMS_AT_ONCE: i64 = 4;

/// Lanes of neighbouring outputs, and warps that have a part of the reduction each.
pub(crate) fn share_across(choice: &mut Attempts<'_>, blocks: &Blocks, survey: &Survey, rows: &Rows, id: u32) -> bool {
    let outputs: i64 = rows.around.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let Some(len) = survey.ranges.get(&id).and_then(|range| range.src()[0].as_int()) else { return false };
    let shortest = rows.terms.iter().map(|terms| terms.shared.len).min().unwrap_or(0);
    let warp = blocks.lanes as i64;
    let at_once = rows_at_once(choice, survey, rows, id, outputs / warp);
    let times = at_once.map_or(1, |(_, times)| times);
    let wanted = i64::from(choice.target.costs.threads) * times / outputs.max(1);
    // States are combined one after the other, so fewer threads have a part of them.
    let most_beside = if rows.has_states { warp } else { outputs_beside(choice, survey, outputs, warp) };
    let divisor = largest_divisor(len, most_beside);
    // A part under a mask, where what divides the length leaves most of a warp without outputs.
    let (side, is_masked) =
        if divisor * 2 <= most_beside && len > most_beside { (most_beside, true) } else { (divisor, false) };
    let threads = if rows.has_states { THREADS_OF_BLOCK } else { threads_of_block(choice, blocks, outputs / side) };
    let most = (threads / side).min(shortest / TERMS_OF_THREAD).min(wanted);
    let divides = |part: &i64| rows.columns.iter().all(|columns| columns.is_divided_by(*part));
    let powers = std::iter::successors(Some(2i64), |part| Some(part * 2)).take_while(|part| *part <= most);
    let Some(group) = powers.filter(divides).last() else { return false };
    let index = ThreadIndex::Block(ThreadDim::X);
    let is_mapped = match is_masked {
        true => map_masked_part(choice, id, side, index),
        false => map_part(choice, id, side, index),
    };
    if !is_mapped {
        return false;
    }
    if !rows.terms.iter().all(|terms| share_terms(choice, terms.shared, group, times > 1)) {
        return false;
    }
    let along_y = ThreadIndex::Block(ThreadDim::Y);
    if !rows.columns.iter().all(|columns| map_part(choice, columns.id, group, along_y)) {
        return false;
    }
    if let Some((row, times)) = at_once {
        choice.attempt(Opt::Upcast { range: row, times: times as u32 });
    }
    map_grid(choice, &rows.around)
}

/// Neighbouring outputs of a block: a warp's, or fewer where that leaves multiprocessors without a block, as long as a warp loads whole sectors.
fn outputs_beside(choice: &Attempts<'_>, survey: &Survey, outputs: i64, warp: i64) -> i64 {
    let of_sector = SECTOR_BYTES / survey.element_bytes.max(1) as i64;
    let mut side = warp;
    while side / 2 >= of_sector && outputs / side < i64::from(choice.target.costs.cores) {
        side /= 2;
    }
    side
}

/// Threads of a block: more, where blocks are so few that the threads of a multiprocessor would not hide each other's waiting.
fn threads_of_block(choice: &Attempts<'_>, blocks: &Blocks, count: i64) -> i64 {
    let enough = i64::from(choice.target.costs.cores) * THREADS_ENOUGH;
    let mut threads = THREADS_OF_BLOCK;
    while threads * 2 <= blocks.threads_max as i64 && count * threads < enough {
        threads *= 2;
    }
    threads
}

/// The terms of a reduction, of which each of a group of threads has a part.
fn share_terms(choice: &mut Attempts<'_>, terms: Shared, group: i64, has_rows: bool) -> bool {
    let range = terms.id;
    let shares = |choice: &mut Attempts<'_>, range| choice.attempt(Opt::Group { range, dim: ThreadDim::Y });
    if has_rows && terms.is_divided_by(group * TERMS_AT_ONCE) {
        // Neighbours along the terms, which lie side by side in what all rows are multiplied with.
        let part = part_of(choice, range, group * TERMS_AT_ONCE);
        return part.is_some_and(|part| part_of(choice, part, TERMS_AT_ONCE).is_some() && shares(choice, part));
    }
    let mark = Mark::of(choice);
    if let Some(part) = part_of(choice, range, group) {
        // A split numbers what it leaves over next.
        let leaves_rest = part != range && exists(&choice.kernel, part + 1);
        if shares(choice, part) && (!leaves_rest || shares(choice, part + 1)) {
            return true;
        }
    }
    mark.restore(choice);
    // What is left over is less than there are threads: under a mask.
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::SplitMasked { range, len: group as u32 }) && shares(choice, part)
}

/// A loop over rows that a thread computes several of, and how many: what is consecutive along `id` and the same for all of them is read once for these.
///
/// As many as there are registers for; fewer where blocks would be too few for all multiprocessors.
fn rows_at_once(choice: &Attempts<'_>, survey: &Survey, rows: &Rows, id: u32, blocks: i64) -> Option<(u32, i64)> {
    let [terms] = rows.terms.as_slice() else { return None };
    if rows.has_states || !rows.columns.is_empty() {
        return None;
    }
    let inner = &survey.inner[terms.inner];
    let is_read_again = |row: &u32| {
        let mut inside = survey.accesses.iter().filter(|access| !access.is_store && inner.holds(access));
        *row != id && inside.any(|access| access.steps.get(&id) == Some(&1) && !access.depends.contains(*row))
    };
    let row = *rows.around.iter().rev().find(|row| is_read_again(row))?;
    let len = survey.ranges.get(&row).and_then(|range| range.src()[0].as_int())?;
    let enough = i64::from(choice.target.costs.cores);
    let saved = |times: &i64| times * enough.min(blocks / times);
    let powers = std::iter::successors(Some(1i64), |times| Some(times * 2)).take_while(|times| *times <= ROWS_AT_ONCE);
    let best = powers.filter(|times| len % times == 0).max_by_key(|times| (saved(times), -times))?;
    (best > 1).then_some((row, best))
}
