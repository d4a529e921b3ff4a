//! The same contractions of narrow numbers by tiles, where the machine multiplies some ([`ir::tiles`](crate::ir::tiles)): the gradient of a convolution of `bf16` by its weight.
//!
//! ```text
//! for c / 32 {                                                                  blocks of results
//!   reduce b {                                                                  blocks of terms
//!     fill 32, i, j, y, x { s0[c, i, j, y, x] = x[b, c, y + i, x + j] }         rows of tiles: windows, along their terms
//!     fill y, x / 2, o, 2 { s1[y, x / 2, o, 2] = g[b, o, y, x] }                columns of tiles: the terms of a group beside each other
//!     for 32 * i * j / 16, o / 64 { copies 4 { reduce y * x / 28 { multiply_tiles } ; accumulate } }
//!   }
//!   for o, 32, i, j { store }
//! }
//! ```
//!
//! Partial results must not be added twice: tiles divide blocks, and blocks of terms the terms. How terms are cut depends on their numbers alone, as the order of sums does.
//! Measured on one core of a Granite Rapids, in ms of the gradient of 128 by 128 channels of 4 images of 28 x 28, windows of 3 x 3: 1.0 so, 8.6 in lanes of `f32`.
//!
//! Tested below and in tests/it/tile_products.rs.

use super::blocks::of_cut;
use super::{Shape, has_range, shape_of, store_in_squares};
use crate::ir::{Op, TileKind, postorder};
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load};
use crate::optimize::by_hand::copies::dot_panels::multiplied_as_they_are;
use crate::optimize::by_hand::copies::panels::merge;
use crate::optimize::by_hand::copies::product::tiles::{SIDE, TILES_OF_SUMS, even_tile};
use crate::optimize::by_hand::copies::product::{
    attempt, has_loop, scratch_of_blocks, share_blocks, split, upcast, vectorize,
};
use crate::optimize::by_hand::copies::terms::{Cut, open_terms};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Terms of a block, at least: sums of fewer take less than it takes to store and to add them; at most: more leave no room for results.
const TERMS_MIN: i64 = 64;
const TERMS_MAX: i64 = 1024;
/// Cycles to copy an element: of windows in vectors under masks, of the other operand turned around. Measured as the whole of the gradient above with blocks of 16 and of 32 channels, 2.7 and 1.8 ms.
const WINDOW_CYCLES: f64 = 0.25;
const TURN_CYCLES: f64 = 0.5;

/// How a contraction is done by tiles.
struct Tiled {
    shape: Shape,
    kind: TileKind,
    terms: Cut,
    columns: Cut,
    lanes: i64,
    /// Columns of a block, and terms of a tile.
    rows: i64,
    of_tile: i64,
}

/// Makes tiles of a contraction if it may be done so; whether it did.
pub(super) fn make_by_tiles(choice: &mut Attempts<'_>) -> bool {
    if !TileKind::ALL.into_iter().any(|kind| choice.target.tiles.has(kind)) {
        return false;
    }
    let found = contractions(&choice.kernel, |contraction| find(contraction, choice.target, i64::from(choice.threads)));
    found.is_some_and(|tiled| choice.all_or_none(|choice| make(choice, &tiled)))
}

fn find(contraction: &Contraction<'_>, target: &Target, threads: i64) -> Option<Tiled> {
    let shape = shape_of(contraction, target)?;
    let below = postorder(open_operands(contraction.reduction));
    let other = below.iter().find(|node| node.op() == Op::Load && *node != contraction.load)?;
    let [left, right] = multiplied_as_they_are(contraction.reduction, [contraction.load, other])?;
    let kind = TileKind::of(left, right, contraction.reduction.dtype()).filter(|kind| target.tiles.has(*kind))?;
    let lengths: Vec<i64> = shape.sizes.terms.iter().map(|(_, len)| *len).collect();
    let (terms, of_tile) = cut_of_terms(&lengths, kind)?;
    let of_block = of_cut(&shape.sizes.terms, terms);
    let (columns, lanes, rows) = best_block(&shape, of_block, kind, (scratch_of_blocks(target), threads))?;
    Some(Tiled { shape, kind, terms, columns, lanes, rows, of_tile })
}

/// How terms are cut, and the terms of a tile: the longest blocks that whole groups of neighbours fill.
fn cut_of_terms(lengths: &[i64], kind: TileKind) -> Option<(Cut, i64)> {
    let group = kind.group() as i64;
    let inside = |number: usize| lengths[number + 1..].iter().product::<i64>();
    let is_last = |number: usize| number + 1 == lengths.len();
    let cuts = lengths.iter().enumerate().flat_map(|(number, &len)| {
        let parts = (1..=len / 2).filter(move |part| len % part == 0);
        parts.map(move |part| ((number, part), part * inside(number)))
    });
    let neighbours = |(number, part): Cut| if is_last(number) { part } else { lengths[lengths.len() - 1] };
    let fits = cuts.filter(|(cut, terms)| (TERMS_MIN..=TERMS_MAX).contains(terms) && neighbours(*cut) % group == 0);
    let with_tile = fits.filter_map(|(cut, terms)| Some((cut, even_tile(terms, kind)?, terms)));
    with_tile.max_by_key(|(_, _, terms)| *terms).map(|(cut, tile, _)| (cut, tile))
}

/// How columns may be cut so that they fill whole tiles, and how many a block then has.
fn cuts_of_columns(lengths: &[i64], is_in_place: bool) -> Vec<(Cut, i64)> {
    let mut cuts = Vec::new();
    let mut inside = 1;
    for (number, &len) in lengths.iter().enumerate().rev() {
        let step = (1..=SIDE).find(|step| step * inside % SIDE == 0).unwrap_or(SIDE);
        let parts = (1..=len / step).map(|steps| steps * step).filter(|part| !is_in_place || len % part == 0);
        cuts.extend(parts.map(|part| ((number, part), part * inside)));
        inside *= len;
    }
    cuts
}

/// Which columns and lanes a block has, for which the copies cost the least; and how many columns these are.
fn best_block(shape: &Shape, terms: i64, kind: TileKind, (scratch, threads): (i64, i64)) -> Option<(Cut, i64, i64)> {
    let (sizes, bytes) = (&shape.sizes, kind.factors()[0].bytes() as i64);
    let lengths: Vec<i64> = sizes.columns.iter().map(|(_, len)| *len).collect();
    let all: i64 = lengths.iter().product();
    let mut best: Option<(f64, (Cut, i64, i64))> = None;
    for (cut, rows) in cuts_of_columns(&lengths, sizes.is_in_place) {
        for lanes in (1..=sizes.lanes.1 / SIDE).map(|tiles| tiles * SIDE).filter(|lanes| sizes.lanes.1 % lanes == 0) {
            let taken =
                (rows + lanes) * terms * bytes + rows * lanes * sizes.bytes[2] + SIDE * SIDE * 4 * sizes.bytes[2];
            if taken > scratch {
                continue;
            }
            let count = |len: i64, part: i64| (len + part - 1) / part;
            let again = (count(lengths[cut.0], cut.1) * cut.1) as f64 / lengths[cut.0] as f64;
            let shares = sizes.repeated * count(all, rows) * (sizes.lanes.1 / lanes);
            let uneven = (count(shares, threads) * threads) as f64 / shares as f64;
            let cost = (1.0 / 512.0 + TURN_CYCLES / rows as f64 + WINDOW_CYCLES / lanes as f64) * again * uneven;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, (cut, lanes, rows)));
            }
        }
    }
    best.map(|(_, block)| block)
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, tiled: &Tiled) -> Option<()> {
    let (sizes, group) = (&tiled.shape.sizes, tiled.kind.group() as i64);
    let lane = split(choice, sizes.lanes.0, sizes.lanes.1, tiled.lanes)?;
    let (cut, part) = tiled.columns;
    let cut_column = split(choice, sizes.columns[cut].0, sizes.columns[cut].1, part)?;
    let columns: Vec<u32> =
        [cut_column].into_iter().chain(sizes.columns[cut + 1..].iter().map(|(id, _)| *id)).collect();
    let nest = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id);
    let outside: Vec<u32> = nest.filter(|id| !columns.contains(id) && *id != lane).collect();
    for range in outside.iter().rev() {
        attempt(choice, Opt::Outermost { range: *range })?;
    }
    let terms: Vec<u32> = sizes.terms.iter().map(|(id, _)| *id).collect();
    let (cut, part) = tiled.terms;
    let inner = open_terms(choice, tiled.terms, &terms)?.split_off(cut);
    let fresh = next_range_id(&choice.kernel);
    let filled: Vec<u32> = (0..columns.len() as u32).map(|number| fresh + number).collect();
    let filled_lane = fresh + columns.len() as u32;
    let mut along: Vec<u32> = columns.iter().copied().chain([lane]).collect();
    for range in &terms[..=cut] {
        attempt(choice, Opt::Accumulate { range: *range, along: std::mem::take(&mut along) })?;
        along = filled.iter().copied().chain([filled_lane]).collect();
    }
    let last = if cut + 1 == terms.len() { part } else { sizes.terms[terms.len() - 1].1 };
    copy_windows(choice, &tiled.shape.columns_load, &[&filled[..], &inner].concat(), (last, tiled))?;
    let (neighbours, of_group) = (*inner.last()?, next_range_id(&choice.kernel));
    if last == group {
        return None;
    }
    attempt(choice, Opt::Split { range: neighbours, len: u32::try_from(group).ok()? })?;
    copy_lanes(choice, tiled, &inner, [filled_lane, of_group], last / group)?;
    for loops in [&inner, &filled, &columns] {
        merge(choice, loops);
    }
    let is_one = |loops: &[u32]| loops[1..].iter().all(|id| !has_range(choice, *id));
    (is_one(&inner) && is_one(&filled)).then_some(())?;
    let (first, groups_of_block) = (inner[0], of_cut(&sizes.terms, tiled.terms) / group);
    let groups = split(choice, first, groups_of_block, tiled.of_tile / group)?;
    multiply(choice, tiled, [filled[0], filled_lane], [groups, of_group], outside.len(), (&columns, lane))
}

/// Copies the windows for a block, each along its terms.
fn copy_windows(choice: &mut Attempts<'_>, load: &LoadId, along: &[u32], (len, tiled): (i64, &Tiled)) -> Option<()> {
    let load = number_of_load(&choice.kernel, load)?;
    let last = next_range_id(&choice.kernel) + along.len() as u32 - 1;
    attempt(choice, Opt::Stage { load, ranges: along.to_vec() })?;
    let narrow = i64::from(choice.target.vector_bytes) / tiled.kind.factors()[0].bytes() as i64;
    let narrow = 1 << narrow.min(len).ilog2();
    vectorize(choice, last, narrow)?;
    upcast(choice, last, (len + narrow - 1) / narrow)
}

/// Copies the other operand with the terms of a group beside each other.
fn copy_lanes(
    choice: &mut Attempts<'_>,
    tiled: &Tiled,
    terms: &[u32],
    [lane, group]: [u32; 2],
    groups: i64,
) -> Option<()> {
    let load = number_of_load(&choice.kernel, &tiled.shape.lanes_load)?;
    let ranges: Vec<u32> = terms.iter().copied().chain([lane, group]).collect();
    let last = next_range_id(&choice.kernel) + ranges.len() as u32 - 1;
    attempt(choice, Opt::Stage { load, ranges })?;
    vectorize(choice, last - 1, SIDE)?;
    let [along, across] = tiled.shape.sizes.lanes_in_order;
    let of_group = tiled.kind.group() as i64;
    if across > along {
        // As many terms as lanes, which are turned around.
        upcast(choice, last - 2, (SIDE / of_group).min(groups))?;
    }
    upcast(choice, last, of_group)
}

/// Tiles of the loops over rows and lanes of a block, and what stores its results.
fn multiply(
    choice: &mut Attempts<'_>,
    tiled: &Tiled,
    [rows, lane]: [u32; 2],
    [groups, terms]: [u32; 2],
    blocks: usize,
    (columns, stored_lane): (&[u32], u32),
) -> Option<()> {
    let tile_rows = split(choice, rows, tiled.rows, SIDE)?;
    let lanes = next_range_id(&choice.kernel);
    vectorize(choice, lane, SIDE)?;
    let is_loop = has_loop(&choice.kernel, lane);
    if is_loop {
        attempt(choice, Opt::Reorder { range: tile_rows, inner: lane })?;
    }
    let divides = |[down, side]: &&[i64; 2]| tiled.rows / SIDE % down == 0 && tiled.lanes / SIDE % side == 0;
    let [down, side] = *TILES_OF_SUMS.iter().find(divides)?;
    if tile_rows != rows {
        upcast(choice, rows, down)?;
    }
    if is_loop {
        upcast(choice, lane, side)?;
    }
    store_in_squares(choice, columns, stored_lane, SIDE);
    share_blocks(choice, blocks);
    attempt(choice, Opt::MultiplyTiles { rows: tile_rows, columns: lanes, groups, terms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_terms_are_whole_groups_and_not_many() {
        let of = |lengths: &[i64]| cut_of_terms(lengths, TileKind::Bf16);
        assert_eq!(of(&[4, 28, 28]), Some(((0, 1), 28)));
        assert_eq!(of(&[4, 56, 56]), Some(((1, 14), 28)));
        assert_eq!(of(&[8, 14, 14]), Some(((0, 4), 28)));
        // Rows of seven have no pairs.
        assert_eq!(of(&[8, 7, 7]), None);
    }
}
