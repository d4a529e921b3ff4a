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

use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{Dependencies, RangeSet, closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;

/// Rows of a register tile.
const ROWS: u32 = 6;
/// Rows whose partial results are kept at once, most first: register tiles without a rest.
const ROWS_OF_TILE: [u32; 5] = [96, 48, 24, 12, 6];

/// Rows of a tile of what tiles of a variable number leave over.
const ROWS_OF_REST: u32 = 12;

/// A reduction that holds what some of its loops do not change.
struct Held {
    /// The loop over blocks.
    blocks: u32,
    /// Output loops that what is kept inside does not depend on, outermost first.
    left: Vec<u32>,
    /// An output loop that loads inside do not all depend on.
    row: Option<UOp>,
    /// Other output loops that stand inside of that one, outermost first.
    inside_row: Vec<u32>,
}

/// Moves loops over blocks outside, one after the other; whether there were any.
pub(crate) fn move_blocks_outside(choice: &mut Attempts<'_>) -> bool {
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
    let row = held.row.as_ref().filter(|row| row.src()[0].as_int().is_some() || has_shares_outside(choice, row));
    let tiles = row.into_iter().flat_map(|row| tiles_of(&row.src()[0]).into_iter().map(move |rows| (row, rows)));
    for (row, rows) in tiles {
        let part = next_range_id(&choice.kernel);
        let (before, applied) = (choice.kernel.clone(), choice.applied.len());
        // Partial results are kept for the innermost loops: what stands between, as heads do inside of rows, would be done for each row of the tile.
        for inner in &held.inside_row {
            choice.attempt(Opt::Reorder { range: range_id(row), inner: *inner });
        }
        let is_whole = row.src()[0].is_const(i64::from(rows));
        let row = range_id(row);
        let tile = if is_whole { row } else { part };
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

/// Whether the loops outside of one are enough for all threads: parts of a loop that was cut are not shared out.
fn has_shares_outside(choice: &Attempts<'_>, row: &UOp) -> bool {
    let stores = choice.kernel.src().iter().map(closed_ranges).filter(|ranges| ranges.contains(row));
    let count = |ranges: &[UOp]| {
        let outside = ranges.iter().take_while(|range| *range != row);
        outside.map(|range| range.src()[0].max_value() as f64).product::<f64>()
    };
    choice.threads < 2 || stores.map(count).all(|count| count >= f64::from(choice.threads))
}

/// Rows that a tile of so many may have, in the order in which they are tried: the last tile overlaps the one before it, and what is computed twice should be
/// no more than an eighth of all. Of a variable number, what tiles leave over has loops of its own, once in smaller tiles and then row by row.
fn tiles_of(len: &UOp) -> Vec<u32> {
    let Some(len) = len.as_int() else {
        let most = len.max_value();
        let is_rest = most < i64::from(ROWS_OF_TILE[0]);
        let rows = if is_rest { ROWS_OF_REST } else { ROWS_OF_TILE[0] };
        return if i64::from(rows) <= most { vec![rows] } else { Vec::new() };
    };
    let mut tiles: Vec<u32> = ROWS_OF_TILE.into_iter().filter(|rows| i64::from(*rows) <= len).collect();
    let again = |rows: i64| (len + rows - 1) / rows * rows - len;
    tiles.sort_by_key(|rows| again(i64::from(*rows)) * 8 > len);
    tiles
}

/// A reduction over one loop with a local buffer inside that an output loop around does not change.
fn find_held(root: &UOp) -> Option<Held> {
    let dependencies = Dependencies::of(root);
    let mut outputs: Vec<UOp> = Vec::new();
    for range in root.src().iter().flat_map(closed_ranges) {
        if !outputs.contains(range) {
            outputs.push(range.clone());
        }
    }
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
        // Most of what a block loads is the same for all of a tile of rows; what only a mask does not ask for, as heads, are none.
        let loads = || below.iter().filter(|node| node.op() == Op::Load && node.src()[0].src()[0].op() == Op::Param);
        let is_shared = |load: &UOp, row: u32| {
            let set = dependencies.get(load);
            set.contains(id) && !set.contains(row)
        };
        let shared: Vec<usize> = same.iter().map(|row| loads().filter(|load| is_shared(load, *row)).count()).collect();
        let most = shared.iter().copied().max().filter(|most| *most > 0);
        let row = most.and_then(|most| shared.iter().rposition(|count| *count == most));
        let inside_row = row.map_or_else(Vec::new, |row| same[row + 1..].to_vec());
        let row = row.and_then(|row| outputs.iter().find(|range| range_id(range) == same[row]).cloned());
        return Some(Held { blocks: id, left, row, inside_row });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_computed_twice() {
        let first = |len: i64| tiles_of(&UOp::index(len)).first().copied();
        assert_eq!(
            [4096, 128, 100, 64, 12, 7, 5].map(first),
            [96, 48, 12, 24, 12, 6, 0].map(|rows| Some(rows).filter(|rows| *rows > 0))
        );
        let variable = |most: i64| tiles_of(&UOp::variable("n", 0, most));
        assert_eq!([4096, 96, 95, 12, 11].map(variable), [vec![96], vec![96], vec![12], vec![12], vec![]]);
    }
}
