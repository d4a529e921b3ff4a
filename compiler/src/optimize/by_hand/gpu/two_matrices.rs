//! The choice by hand of attention over half floats, for machines whose lanes multiply matrices together: as `two_products`, with both products by matrices.
//!
//! ```text
//! grid over tiles of rows
//!   all threads copy the tile's rows of the left operand
//!   reduce blocks of terms (or none)
//!     all threads copy the block of the right operand, and meet
//!     each warp multiplies its 16 rows with all terms of the block: a thread has two rows, and of each 8 terms two
//!     the 4 lanes that have a row find its largest score, turn scores into weights, and sum these up
//!     all threads copy the block of the values, and meet
//!     each warp multiplies its weights with the values: a thread has two rows, and of each 8 columns two
//! ```
//!
//! Each thread goes through the terms of a row as the first product gives them to it, and as the second one takes them from it. So it reads no score or weight but its own, and these stay in its
//! registers (`linearize::registers`).
//!
//! Tested in the test crate, by attention of several lengths and masks on the emulator of GPUs.

use super::parts::map_grid;
use super::shared_tiles::split;
use super::two_products::{Chain, copy, keep_all, length_of};
use crate::ir::{AxisKind, ThreadDim, UOp, fragments};
use crate::kernel::ranges::{Dependencies, all_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::stage::loads_of;
use crate::target::Feature;

/// Rows of a warp.
const ROWS: i64 = fragments::ROWS;
/// Groups of lanes of a warp, and lanes of a group.
const GROUPS: i64 = 8;
const LANES: i64 = 4;
/// Terms, or columns, of which a thread has two, that are written out one behind the other: of more, what a thread keeps would not stay in its registers.
const WRITTEN_OUT: i64 = 16;
/// Behind each row that is kept so many elements stay unused: rows of neighbouring groups begin in different banks.
const PAD: i64 = 8;

/// Computes two products by matrices, by tiles of so many rows, of which a block is copied while the one before is multiplied, or before it; whether all of it could be done.
pub(super) fn apply(choice: &mut Attempts<'_>, chain: &Chain, rows_of_tile: i64, is_ahead: bool) -> Option<()> {
    let len = |choice: &Attempts<'_>, id: u32| length_of(&choice.kernel, id);
    let is_whole = len(choice, chain.terms)? % fragments::TERMS == 0
        && len(choice, chain.column)? % fragments::COLUMNS == 0
        && len(choice, chain.filled)? % fragments::TERMS == 0
        && len(choice, chain.weighted) == len(choice, chain.filled);
    if !choice.target.has(Feature::Matrices) || !is_whole || rows_of_tile % ROWS != 0 {
        return None;
    }
    if is_ahead && !is_in_blocks(&choice.kernel, chain) {
        return None;
    }
    let warps = rows_of_tile / ROWS;
    let threads = [
        (LANES, ThreadIndex::Lane),
        (GROUPS, ThreadIndex::Block(ThreadDim::X)),
        (warps, ThreadIndex::Block(ThreadDim::Y)),
    ];
    let threads = if warps > 1 { &threads[..] } else { &threads[..2] };
    let warp = split(choice, chain.row, rows_of_tile)?;
    copy(choice, [warp, chain.terms], &[chain.filled], threads, false)?;
    let row = split(choice, warp, ROWS)?;
    let group = split(choice, row, GROUPS)?;
    let row = written_out(choice, row, 2)?;
    choice.attempt(Opt::Map { range: group, index: threads[1].1 }).then_some(())?;
    if warps > 1 {
        choice.attempt(Opt::Map { range: warp, index: threads[2].1 }).then_some(())?;
    }
    keep_all(choice, PAD)?;
    // The scores.
    copy(choice, [chain.filled, chain.terms], &[warp, group], threads, is_ahead)?;
    let term = share(choice, chain.filled)?;
    let of_scores = split(choice, chain.terms, fragments::TERMS)?;
    // The outputs.
    copy(choice, [chain.weighted, chain.column], &[warp, group], threads, is_ahead)?;
    let column = share(choice, chain.column)?;
    let of_outputs = split(choice, chain.weighted, fragments::TERMS)?;
    for &range in &chain.beside {
        share(choice, range)?;
    }
    let around: Vec<u32> = chain.outputs.iter().copied().filter(|id| *id != chain.column).collect();
    map_grid(choice, &around).then_some(())?;
    // Last, for afterwards values of several lanes stand for elements.
    let products = [(term, of_scores), (column, of_outputs)];
    let mut products = products.into_iter().map(|(columns, terms)| Opt::MultiplyMatrices { rows: row, columns, terms });
    products.all(|opt| choice.attempt(opt)).then_some(())
}

/// Whether there is a loop over blocks of terms.
fn is_in_blocks(kernel: &UOp, chain: &Chain) -> bool {
    let dependencies = Dependencies::of(kernel);
    let is_block = |range: &UOp| {
        let is_reduce = range.as_range().is_some_and(|arg| arg.kind == AxisKind::Reduce);
        is_reduce && range_id(range) != chain.terms
    };
    let blocks: Vec<u32> = all_ranges(kernel).iter().filter(|range| is_block(range)).map(range_id).collect();
    let varies = |load: &UOp| {
        let set = dependencies.get(load);
        set.contains(chain.filled) && set.contains(chain.terms) && blocks.iter().any(|id| set.contains(*id))
    };
    loads_of(kernel).iter().any(varies)
}

/// Of each 8 of a loop's iterations a lane has two neighbours; the number of the loop over these.
fn share(choice: &mut Attempts<'_>, range: u32) -> Option<u32> {
    let tile = split(choice, range, 2 * LANES)?;
    let pair = split(choice, tile, 2)?;
    // Of a reduction, lanes combine what each has reduced: they are outermost.
    choice.attempt(Opt::Map { range: tile, index: ThreadIndex::Lane }).then_some(())?;
    let pair = written_out(choice, pair, 2)?;
    let left = if tile == range { 1 } else { length_of(&choice.kernel, range)? };
    let times = (1..=WRITTEN_OUT).rev().find(|times| left % times == 0)?;
    if times > 1 {
        written_out(choice, range, times)?;
    }
    Some(pair)
}

/// The innermost part of a loop, written out, by its number.
fn written_out(choice: &mut Attempts<'_>, range: u32, times: i64) -> Option<u32> {
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::Upcast { range, times: times as u32 }).then_some(part)
}
