//! Products of matrices of narrow numbers by tiles, where a machine has an instruction that multiplies these ([`ir::tiles`](crate::ir::tiles)).
//!
//! ```text
//! for j / 256, i / 256 {                                                  blocks of results, where the terms are cut too
//!   fill s1[k / 2, j, 2] = w[k, j]                                        the columns' operand, in groups of terms
//!   for i / 32 {
//!     copies 2 { fill s0[k / 32, 16, 32] = x[i, k] }                      the rows' operand, where its terms do not lie beside each other
//!     for j / 32 {
//!       copies 2, copies 2 { reduce k / 32 { multiply_tiles of s0 (or x) and s1 }; store s2 }
//!       for i in 0..16 { copies 2, copies 2 { lanes j of 16: what comes after the sum } }
//!     }
//!   }
//! }
//! ```
//!
//! Two by two tiles of sums take four of eight registers, and each tile that is loaded is multiplied twice: so as many tiles are loaded as multiplied, which takes half of the time. Of 16 rows and fewer, four
//! tiles lie side by side.
//!
//! Rows are read where they are if their terms lie beside each other, as a tile is loaded row by row. Else they are copied just before they are asked for, as they are few. Columns of a block are copied for all
//! rows, as long rows of memory of which as many as a group has terms are interleaved, or turned around. Measured on one core of a Granite Rapids, 512 x 512 by 512 x 512 of `bf16`: 150 us so, 227 with both
//! operands copied tile by tile, half a line of memory at a time.
//!
//! Not here: products that are multiplied in lanes (`groups`), and the loops over blocks ([`super`]). Tested below and in tests/it/tile_products.rs.

use super::blocks::{ProductBlocks, ProductSize, parts};
use super::groups::ROWS_MIN_OF_DOTS;
use super::operands::{Operand, Product};
use super::{attempt, has_loop, open_blocks, share_blocks, split, stage_raw, upcast, vectorize};
use crate::ir::{TileKind, tiles};
use crate::kernel::ranges::next_range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;

/// Cycles of an instruction that multiplies tiles of 16 rows, and of one that loads a tile; loads run beside products. "Intel 64 and IA-32 Architectures Optimization Reference Manual", chapter
/// "Intel AMX": a product each 16 cycles, a load each 8. That is 1024 products of `bf16` a cycle, and 2048 of bytes.
const PRODUCT_CYCLES: f64 = 16.0;
const LOAD_CYCLES: f64 = 8.0;
/// Cycles to store a tile of sums and to begin the next (the same chapter: a store each 16 cycles, 52 until a product is there).
const TILE_CYCLES: f64 = 16.0 + 52.0;
/// Products of `bf16` that a machine with such vectors multiplies in lanes in a cycle: two instructions of 16 lanes and two terms, as the same manual says of `vdpbf16ps` and `vpdpbusd` (four terms).
const LANES_PER_CYCLE: f64 = 2.0 * 16.0;
/// Cycles to copy a byte of an operand, counted of instructions: 64 bytes are loaded and stored in two; interleaved in six; turned around in 16, as a square of 16 by 16 pairs takes 64 shuffles.
const COPY_CYCLES: f64 = 2.0 / 64.0;
const INTERLEAVE_CYCLES: f64 = 6.0 / 64.0;
const TURN_CYCLES: f64 = 16.0 / 64.0;
/// Cycles of a byte that comes from beyond the second cache. Measured on one core of a Granite Rapids with `warpweft bench ceilings`: 27 GB/s at some 3.6 GHz.
const FAR_CYCLES: f64 = 1.0 / 7.5;
/// How much longer a term takes that is left over and added in lanes of 32 bits, than one of a whole tile: 16 lanes in two instructions a cycle, and 1024 products.
const LEFT_COST: f64 = 32.0;
/// Terms of a block of floats, at most: more would leave room for few columns in the second cache, and each block of columns reads all rows.
const TERMS_MAX: i64 = 1024;
/// Rows and columns of a tile.
pub(crate) const SIDE: i64 = 16;
/// Tiles of sums in registers, down and side by side.
pub(crate) const TILES_OF_SUMS: [[i64; 2]; 5] = [[2, 2], [1, 4], [2, 1], [1, 2], [1, 1]];
/// Fewer groups of terms than this leave most of a tile empty.
const GROUPS_MIN: i64 = 8;

/// Tiles of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TileBlocks {
    blocks: ProductBlocks,
    /// Rows of a tile, and terms.
    rows: i64,
    terms: i64,
    /// Cycles of a multiply-add, with what threads wait.
    cycles: f64,
}

/// The tiles of a product for which a multiply-add costs the least, if there is room for any and lanes cost more.
pub(super) fn tile_blocks(
    product: &Product,
    size: &ProductSize,
    room: (i64, i64),
    kind: TileKind,
) -> Option<TileBlocks> {
    let (scratch_bytes, threads) = room;
    let bytes = kind.factors()[0].bytes() as i64;
    let (terms, part) = terms_of_tile(size.terms, kind, product.of_columns.own_step == 1)?;
    if size.columns < SIDE {
        return None;
    }
    let is_accumulated = size.terms / part > 1;
    let rows = size.rows.min(SIDE);
    let mut best: Option<TileBlocks> = None;
    for [down, side] in TILES_OF_SUMS {
        if down * rows > size.rows || side * SIDE > size.columns {
            continue;
        }
        for columns in parts(size.columns, side * SIDE, size.is_in_place, !is_accumulated) {
            for block_rows in parts(size.rows, down * rows, size.is_in_place, !is_accumulated) {
                let sums = if is_accumulated { block_rows * columns * size.result_bytes } else { 0 };
                let kept = down * side * rows * SIDE * size.result_bytes;
                let copied_rows = if is_copied(&product.of_rows, kind) { down * rows } else { 0 };
                if (columns + copied_rows) * part * bytes + sums + kept > scratch_bytes {
                    continue;
                }
                let blocks = ProductBlocks {
                    rows: block_rows,
                    columns,
                    terms: part,
                    tile_rows: down as u32,
                    tile_vectors: side as u32,
                };
                let mut tiled = TileBlocks { blocks, rows, terms, cycles: 0.0 };
                // Each block of columns reads all rows, which are no longer near if they are many.
                let is_far = size.rows * size.terms * bytes > scratch_bytes;
                let far = if is_far { FAR_CYCLES * bytes as f64 / columns as f64 } else { 0.0 };
                tiled.cycles = (cycles(product, size, &tiled, kind) + far) * unevenness(size, &blocks, threads);
                if best.is_none_or(|best| tiled.cycles < best.cycles) {
                    best = Some(tiled);
                }
            }
        }
    }
    // Lanes would leave as many threads without a block.
    let is_better = |best: &TileBlocks| cycles(product, size, best, kind) < cycles_in_lanes(product, size, kind);
    best.filter(is_better)
}

/// Terms of a tile that leaves nothing over of so many: the most.
pub(crate) fn even_tile(terms: i64, kind: TileKind) -> Option<i64> {
    tiles_of(kind).find(|tile| terms % tile == 0)
}

/// Terms of a tile that leaves few over of so many, all of which are a block: those for which a term costs the least.
pub(crate) fn tile_of_all(terms: i64, kind: TileKind) -> Option<i64> {
    let leaves_few = |tile: &i64| *tile <= terms && terms % tile * SIDE <= terms;
    let cost = |tile: &i64| cost_of_terms(terms, terms % tile, *tile, kind);
    tiles_of(kind).filter(leaves_few).min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// Terms that a tile may have, the most first.
fn tiles_of(kind: TileKind) -> impl Iterator<Item = i64> {
    (GROUPS_MIN..=tiles::ROWS_MAX as i64).rev().map(move |groups| groups * kind.group() as i64)
}

/// Terms of a tile and of a block: those for which a term costs the least. What is left over is added in lanes, which takes columns that lie side by side.
fn terms_of_tile(terms: i64, kind: TileKind, may_leave: bool) -> Option<(i64, i64)> {
    let parts = tiles_of(kind).filter(|tile| terms >= *tile).map(|tile| (tile, part_of_terms(terms, tile, kind)));
    let left = |part: i64| terms % part;
    let leaves_few = |(_, part): &(i64, i64)| left(*part) == 0 || may_leave && left(*part) * SIDE <= terms;
    let cost = |(tile, part): &(i64, i64)| cost_of_terms(terms, left(*part), *tile, kind);
    parts.filter(leaves_few).min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// What terms cost of which some are left over, in terms of whole tiles.
fn cost_of_terms(terms: i64, left: i64, tile: i64, kind: TileKind) -> f64 {
    (terms - left) as f64 * (kind.terms_max() as f64 / tile as f64) + left as f64 * LEFT_COST
}

/// Terms of a block: all of them where they are not too many, or as even a part as can be, of 1536 two of 768.
fn part_of_terms(terms: i64, tile: i64, kind: TileKind) -> i64 {
    let most = if kind.sums().is_float() { TERMS_MAX / tile } else { i64::MAX };
    let whole = terms / tile;
    let blocks = (whole + most.min(whole) - 1) / most.min(whole);
    let even = (blocks..2 * blocks).find(|blocks| whole % blocks == 0);
    even.map_or(most.min(whole), |blocks| whole / blocks) * tile
}

/// Cycles to copy an element of an operand.
fn copy_cycles(operand: &Operand, is_of_columns: bool, bytes: i64) -> f64 {
    let of_byte = match (operand.term_step == 1, is_of_columns) {
        (true, false) => COPY_CYCLES,
        (false, true) => INTERLEAVE_CYCLES,
        _ => TURN_CYCLES,
    };
    of_byte * bytes as f64
}

/// Cycles of a multiply-add that is asked for.
fn cycles(product: &Product, size: &ProductSize, tiled: &TileBlocks, kind: TileKind) -> f64 {
    let blocks = &tiled.blocks;
    let count = |len: i64, part: i64| (len + part - 1) / part;
    let bytes = kind.factors()[0].bytes() as i64;
    let (down, side) = (i64::from(blocks.tile_rows), i64::from(blocks.tile_vectors));
    let again = |len: i64, part: i64, tile: i64| (count(len, part) * count(part, tile) * tile) as f64 / len as f64;
    let rows_again = again(size.rows, blocks.rows, down * tiled.rows);
    let columns_again = again(size.columns, blocks.columns, side * SIDE);
    // A product takes as long as it has rows.
    let product_cycles = PRODUCT_CYCLES * tiled.rows as f64 / SIDE as f64;
    let step = (product_cycles * (down * side) as f64).max(LOAD_CYCLES * (down + side) as f64);
    let steps = (blocks.terms / tiled.terms) as f64;
    let of_tile = (step * steps + TILE_CYCLES) / (down * side * tiled.rows * SIDE * blocks.terms) as f64;
    let of_columns = copy_cycles(&product.of_columns, true, bytes) / blocks.rows as f64 * columns_again;
    let row_cycles = if is_copied(&product.of_rows, kind) { copy_cycles(&product.of_rows, false, bytes) } else { 0.0 };
    let of_rows = row_cycles / blocks.columns as f64 * rows_again;
    of_tile * rows_again * columns_again + of_columns + of_rows
}

/// How much longer it takes because threads have no block, at the end.
fn unevenness(size: &ProductSize, blocks: &ProductBlocks, threads: i64) -> f64 {
    let count = |len: i64, part: i64| (len + part - 1) / part;
    let shares = count(size.rows, blocks.rows) * count(size.columns, blocks.columns) * size.repeated;
    (count(shares, threads) * threads) as f64 / shares as f64
}

/// The same where lanes add up groups of terms: of few rows nothing is copied (`groups`).
fn cycles_in_lanes(product: &Product, size: &ProductSize, kind: TileKind) -> f64 {
    let bytes = kind.factors()[0].bytes() as i64;
    let of_rows = if product.of_rows.term_step == 1 { COPY_CYCLES } else { INTERLEAVE_CYCLES };
    let of_copies =
        of_rows * bytes as f64 / size.columns as f64 + copy_cycles(&product.of_columns, true, bytes) / size.rows as f64;
    let of_copy = if size.rows < ROWS_MIN_OF_DOTS { 0.0 } else { of_copies };
    1.0 / (LANES_PER_CYCLE * kind.group() as f64) + of_copy
}

/// Applies the opts, one after the other; `None` if one is refused.
pub(super) fn make_tiles(
    choice: &mut Attempts<'_>,
    product: &Product,
    size: &ProductSize,
    tiled: &TileBlocks,
    kind: TileKind,
) -> Option<()> {
    let (blocks, group) = (&tiled.blocks, kind.group() as i64);
    let loops = open_blocks(choice, product, size, blocks)?;
    let (rows, columns) = (loops.fill_rows?, loops.fill_columns);
    let groups = split(choice, loops.terms, blocks.terms, tiled.terms)?;
    let terms = split(choice, groups, tiled.terms, group)?;
    let steps = (groups != loops.terms).then_some(loops.terms);
    let tile_rows = split(choice, rows, blocks.rows, tiled.rows)?;
    if is_copied(&product.of_rows, kind) {
        let along: Vec<u32> = steps.into_iter().chain([tile_rows, groups, terms]).collect();
        copy_rows(choice, &product.of_rows, columns, &along, tiled)?;
    }
    let along: Vec<u32> = steps.into_iter().chain([groups, columns, terms]).collect();
    copy_columns(choice, product, columns, &along, tiled, kind)?;
    let lanes = next_range_id(&choice.kernel);
    vectorize(choice, columns, SIDE)?;
    let is_loop = has_loop(&choice.kernel, columns);
    if is_loop {
        attempt(choice, Opt::Reorder { range: tile_rows, inner: columns })?;
    }
    if tile_rows != rows {
        upcast(choice, rows, i64::from(blocks.tile_rows))?;
    }
    if is_loop {
        upcast(choice, columns, i64::from(blocks.tile_vectors))?;
    }
    if columns != loops.columns {
        vectorize(choice, loops.columns, SIDE)?;
    }
    share_blocks(choice, loops.blocks);
    attempt(choice, Opt::MultiplyTiles { rows: tile_rows, columns: lanes, groups, terms })
}

/// Whether the rows' operand is copied: a tile is loaded from where its rows lie along the terms, and not over each other.
fn is_copied(of_rows: &Operand, kind: TileKind) -> bool {
    of_rows.term_step != 1 || of_rows.own_step < kind.terms_max() as i64
}

/// Copies the rows' operand of a tile, for all terms: each row of it in one piece.
fn copy_rows(
    choice: &mut Attempts<'_>,
    operand: &Operand,
    columns: u32,
    along: &[u32],
    tiled: &TileBlocks,
) -> Option<()> {
    let last = stage_raw(choice, operand, columns, along)? + along.len() as u32 - 1;
    let (rows, groups) = (last - 2, last - 1);
    // Groups follow each other as terms do.
    attempt(choice, Opt::Merge { range: groups, inner: last })?;
    let lanes = 1 << tiled.terms.ilog2();
    if operand.term_step == 1 {
        return vectorize(choice, groups, lanes);
    }
    // As many rows as lanes: whole vectors of memory, turned around in registers.
    vectorize(choice, groups, SIDE.min(lanes))?;
    upcast(choice, rows, 1 << tiled.rows.ilog2())
}

/// Copies the columns' operand for a block: the terms of a group beside each other, for all of its columns.
fn copy_columns(
    choice: &mut Attempts<'_>,
    product: &Product,
    columns: u32,
    along: &[u32],
    tiled: &TileBlocks,
    kind: TileKind,
) -> Option<()> {
    let (operand, group) = (&product.of_columns, kind.group() as i64);
    let last = stage_raw(choice, operand, columns, along)? + along.len() as u32 - 1;
    if operand.own_step == 1 {
        let narrow = i64::from(choice.target.vector_bytes) / kind.factors()[1].bytes() as i64;
        vectorize(choice, last - 1, narrow.min(tiled.blocks.columns))?;
    } else {
        // As many terms as lanes, which are turned around.
        vectorize(choice, last - 1, SIDE)?;
        upcast(choice, last - 2, (SIDE / group).min(tiled.terms / group))?;
    }
    upcast(choice, last, group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_fill_tiles_and_leave_little_over() {
        let of = |terms: i64| terms_of_tile(terms, TileKind::Bf16, true);
        assert_eq!((of(512), of(1024), of(1536)), (Some((32, 512)), Some((32, 1024)), Some((32, 768))));
        assert_eq!(
            (of(1050), of(40)),
            (Some((26, 520)), Some((20, 40))),
            "10 are left over, of tiles of 32 26 would be"
        );
        assert_eq!(of(47), None, "15 are many");
        let of_all = |terms: i64| tile_of_all(terms, TileKind::Bf16);
        assert_eq!((of_all(576), of_all(147), of_all(27), of_all(47)), (Some(32), Some(24), Some(26), None));
        assert_eq!((of(15), of(17), of(80)), (None, Some((16, 16)), Some((20, 80))));
        assert_eq!(of(300), Some((30, 300)), "no 12 that would be left over of tiles of 32");
        let turned = |terms: i64| terms_of_tile(terms, TileKind::Bf16, false);
        assert_eq!((turned(1050), turned(17), turned(48)), (None, None, Some((24, 48))));
        // Sums of integers are exact, however many.
        assert_eq!(terms_of_tile(4096, TileKind::SignedBytes, true), Some((64, 4096)));
    }
}
