//! Loops of reductions outside of loops that what is kept inside of them does not depend on.
//!
//! ```text
//! for rows { for columns { reduce blocks { keep scores of the block; .. } } }         scores are computed again for each column
//! for tiles of rows { for blocks { keep scores; for rows, columns { accumulate } }; for rows, columns { store } }
//! ```
//!
//! Fusion lets a reduction by blocks keep values inside of its loop only where this is done with it (`schedule::streams`). Partial results are kept for a
//! tile of rows besides, where loads inside of the loop do not depend on the row: so what a block loads, and packs, serves a tile of them, whose register tile is
//! opened here as well.
//!
//! Always: where nothing is kept inside of a reduction, nothing is done. Tested by the loops of attention in the test crate.

use super::by_hand::Attempts;
use super::opt::Opt;
use super::split::is_reduce;
use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{Dependencies, RangeSet, closed_ranges, next_range_id, open_operands, range_id};

/// Rows of a register tile.
const ROWS: u32 = 6;
/// Rows whose partial results are kept at once, most first: register tiles without a rest.
const ROWS_OF_TILE: [u32; 5] = [96, 48, 24, 12, 6];

/// A reduction that holds what some of its loops do not change.
struct Held {
    /// The loop over blocks.
    blocks: u32,
    /// Output loops that what is kept inside does not depend on, outermost first.
    left: Vec<u32>,
    /// An output loop that loads inside do not all depend on, and its least length.
    rows: Option<(u32, i64)>,
}

/// Moves loops over blocks outside, one after the other; whether there were any.
pub(super) fn move_blocks_outside(choice: &mut Attempts<'_>) -> bool {
    let mut moved = false;
    while let Some(held) = find_held(&choice.kernel) {
        if !move_outside(choice, &held) {
            break;
        }
        moved = true;
    }
    moved
}

fn move_outside(choice: &mut Attempts<'_>, held: &Held) -> bool {
    let block = |first: Option<u32>| {
        let along = first.into_iter().chain(held.left.iter().copied()).collect();
        Opt::Accumulate { range: held.blocks, along }
    };
    let tiles =
        held.rows.into_iter().flat_map(|(row, len)| tiles_of(len).into_iter().map(move |rows| (row, len, rows)));
    for (row, len, rows) in tiles {
        let part = next_range_id(&choice.kernel);
        let (before, applied) = (choice.kernel.clone(), choice.applied.len());
        let tile = if len == i64::from(rows) { row } else { part };
        let is_split = tile == row || choice.attempt(Opt::Split { range: row, len: rows });
        let fresh = next_range_id(&choice.kernel);
        if is_split && choice.attempt(block(Some(tile))) {
            choice.attempt(Opt::Upcast { range: fresh, times: ROWS });
            return true;
        }
        choice.kernel = before;
        choice.applied.truncate(applied);
    }
    choice.attempt(block(None))
}

/// Rows that a tile of so many may have, in the order in which they are tried: the last tile overlaps the one before it, and what is computed twice should be
/// no more than an eighth of all.
fn tiles_of(len: i64) -> Vec<u32> {
    let mut tiles: Vec<u32> = ROWS_OF_TILE.into_iter().filter(|rows| i64::from(*rows) <= len).collect();
    let again = |rows: i64| (len + rows - 1) / rows * rows - len;
    tiles.sort_by_key(|rows| again(i64::from(*rows)) * 8 > len);
    tiles
}

/// A reduction over one loop with a local buffer inside that an output loop around does not change.
fn find_held(root: &UOp) -> Option<Held> {
    let dependencies = Dependencies::of(root);
    let outputs: Vec<UOp> = {
        let longest = root.src().iter().map(closed_ranges).max_by_key(|ranges| ranges.len());
        longest.unwrap_or(&[]).to_vec()
    };
    for reduction in dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange) {
        let [blocks] = closed_ranges(reduction) else { continue };
        let (around, id) = (dependencies.get(reduction), range_id(blocks));
        if !is_reduce(blocks) {
            continue;
        }
        let below = postorder(open_operands(reduction));
        let is_kept = |node: &&UOp| node.op() == Op::LocalBuffer && dependencies.get(node).contains(id);
        let kept: Vec<&RangeSet> = below.iter().filter(is_kept).map(|stage| dependencies.get(stage)).collect();
        let own: Vec<u32> = outputs.iter().map(range_id).filter(|other| around.contains(*other)).collect();
        let (same, left): (Vec<u32>, Vec<u32>) =
            own.into_iter().partition(|other| kept.iter().any(|set| set.contains(*other)));
        if kept.is_empty() || left.is_empty() {
            continue;
        }
        let is_shared = |row: &u32| {
            let loads = below.iter().filter(|node| node.op() == Op::Load && node.src()[0].src()[0].op() == Op::Param);
            let mut sets = loads.map(|load| dependencies.get(load));
            sets.any(|set| set.contains(id) && !set.contains(*row))
        };
        let row = same.into_iter().rev().find(is_shared);
        let len_of =
            |row: u32| outputs.iter().find(|range| range_id(range) == row).map(|range| range.src()[0].min_value());
        let rows = row.and_then(|row| len_of(row).map(|len| (row, len)));
        return Some(Held { blocks: id, left, rows });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_computed_twice() {
        let first = |len: i64| tiles_of(len).first().copied();
        assert_eq!(
            [4096, 128, 100, 64, 12, 7, 5].map(first),
            [96, 48, 12, 24, 12, 6, 0].map(|rows| Some(rows).filter(|rows| *rows > 0))
        );
    }
}
