//! Panels of narrow numbers that an instruction multiplies as tiles ([`ir::tiles`](crate::ir::tiles)): a convolution of `bf16` or of bytes on a machine that has it.
//!
//! ```text
//! for o, y, x { reduce c, i, j }         for y / 4 { fill k / 32, 16, 4, x, 2 ; for o / 32, 4 * x / 32 { copies 2, copies 2 { reduce k / 32 { multiply_tiles } } } }          k: c, i, j as one
//! ```
//!
//! What is copied, for which results and how, is as for dot products ([`dot_panels`](super::dot_panels)): the terms of a group beside each other, for all columns of a block. So each row of a tile
//! lies in one piece, and rows are as far apart as the block has columns. Of the weight nothing is copied: rows of a tile are rows of it.
//!
//! Terms that no tile takes, as three of the 147 of windows of 7 x 7 in three channels, are copied by themselves and added in lanes.
//!
//! Two by two tiles of sums are computed together, of few rows or columns others (`TILES_OF_SUMS`). Tiles at the ends of a side overlap.
//! Measured on one core of a Granite Rapids, in ms, four images, windows of 3 x 3, `bf16` (two images, windows of 7 x 7 in strides of two): 64 by 64 channels of 56 x 56 0.88, 128 by 128 of 28 x 28
//! 1.01, 256 by 256 of 14 x 14 0.90 (by dot products 10), 3 by 64 of 224 x 224 2.5.
//!
//! Always: made of the opts split, outermost, flatten, stage, merge, vectorize, upcast, reorder, thread and multiply_tiles; if one is refused, nothing is done. Tested in tests/it/tile_products.rs.

use super::dot_panels::{DotPanel, fill_in_groups, find};
use super::pack::attempt_copy;
use super::panels::move_outermost;
use super::product::tiles::{SIDE, TILES_OF_SUMS, tile_of_all};
use super::product::{attempt, has_loop, load_of, share_blocks, split, upcast, vectorize};
use crate::ir::{TileKind, UOp};
use crate::kernel::ranges::{Dependencies, all_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::contractions;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;
use crate::optimize::transforms::stage::loads_of;

/// Copies a panel for tiles, if a contraction wants one and the machine multiplies some; whether it did.
pub(crate) fn copy_tile_panel(choice: &mut Attempts<'_>) -> bool {
    let kinds = TileKind::ALL.into_iter().filter(|kind| choice.target.tiles.has(*kind));
    kinds.collect::<Vec<_>>().into_iter().any(|kind| {
        let found = contractions(&choice.kernel, |contraction| {
            let found = find(contraction, choice.target, kind.factors()[0].bytes(), kind.sums())?;
            let [left, right] = found.plain?;
            (TileKind::of(left, right, kind.sums()) == Some(kind)).then_some(found)
        });
        found.is_some_and(|panel| choice.all_or_none(|choice| make(choice, &panel, kind)))
    })
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, found: &DotPanel, kind: TileKind) -> Option<()> {
    let (panel, group) = (&found.panel, kind.group() as i64);
    let of_tile = tile_of_all(found.terms, kind)?;
    let mut columns = panel.columns.clone();
    if let Some((range, len)) = panel.part {
        columns[0] = next_range_id(&choice.kernel);
        attempt(choice, Opt::Split { range, len: u32::try_from(len).ok()? })?;
    }
    move_outermost(choice, &panel.outside)?;
    for pair in panel.terms.windows(2).rev() {
        attempt(choice, Opt::Flatten { range: pair[0], inner: pair[1] })?;
    }
    let groups = split(choice, panel.terms[0], found.terms, of_tile)?;
    let terms = split(choice, groups, of_tile, group)?;
    let steps = (groups != panel.terms[0]).then_some(panel.terms[0]);
    let outer: Vec<u32> = steps.into_iter().chain([groups]).collect();
    let along: Vec<u32> = outer.iter().chain(&columns).copied().chain([terms]).collect();
    let fill = next_range_id(&choice.kernel);
    let load = load_of(choice, &found.memory, terms, None)?;
    attempt(choice, Opt::Stage { load, ranges: along })?;
    if found.terms % of_tile != 0 {
        copy_left_over(choice, found, &columns)?;
    }
    fill_in_groups(choice, found, (fill + outer.len() as u32, &columns), kind.factors()[0].bytes() as i64, group)?;
    let last = columns[columns.len() - 1];
    let is_one = columns.len() == 1 || !has_loop(&choice.kernel, last);
    let (range, len) = if is_one { (columns[0], found.all) } else { (last, found.width) };
    let (row, rows) = found.rows;
    let tile_rows = split(choice, row, rows, rows.min(SIDE))?;
    let lanes = next_range_id(&choice.kernel);
    vectorize(choice, range, SIDE.min(len))?;
    let outer_of = |len: i64| (len + SIDE - 1) / SIDE;
    let fits = |[down, side]: &&[i64; 2]| *down <= outer_of(rows) && *side <= outer_of(len);
    let [down, side] = *TILES_OF_SUMS.iter().find(fits)?;
    if tile_rows != row {
        // Columns pass while rows of the weight stay in the first cache.
        attempt(choice, Opt::Reorder { range: tile_rows, inner: range })?;
        upcast(choice, row, down)?;
    } else if has_loop(&choice.kernel, range) {
        attempt(choice, Opt::Reorder { range: row, inner: range })?;
    }
    upcast(choice, range, side)?;
    share_blocks(choice, panel.outside.len());
    attempt(choice, Opt::MultiplyTiles { rows: tile_rows, columns: lanes, groups, terms })
}

/// Copies the terms that are left over for the columns of a block, in the type in which lanes add them up.
fn copy_left_over(choice: &mut Attempts<'_>, found: &DotPanel, columns: &[u32]) -> Option<()> {
    let dependencies = Dependencies::of(&choice.kernel);
    // What fills the panel has loops of its own.
    let is_left = |load: &UOp| load.src()[0].src()[0] == found.memory && dependencies.get(load).contains(columns[0]);
    let loads = loads_of(&choice.kernel);
    let number = loads.iter().position(is_left)?;
    let terms: Vec<u32> = all_ranges(&choice.kernel)
        .iter()
        .filter(|range| is_reduce(range) && dependencies.get(&loads[number]).contains(range_id(range)))
        .map(range_id)
        .collect();
    let last = next_range_id(&choice.kernel) + (terms.len() + columns.len()) as u32 - 1;
    attempt_copy(choice, u32::try_from(number).ok()?, terms.iter().chain(columns).copied().collect()).then_some(())?;
    let lanes = 1 << SIDE.min(found.width).ilog2();
    vectorize(choice, last, lanes)?;
    upcast(choice, last, (found.width + lanes - 1) / lanes)
}
