//! Products of matrices of narrow numbers by tiles, where a machine has an instruction that multiplies these ([`ir::tiles`](crate::ir::tiles)).
//!
//! ```text
//! for j / 256, i / 256 {                                                  blocks of results, where the terms are cut too
//!   fill s1[j / 16, k / 32, 16, 16, 2] = w[k, j]                          the columns' operand, tile by tile, in groups of terms
//!   for i / 32 {
//!     copies 2 { fill s0[k / 32, 16, 32] = x[i, k] }                      the rows' operand, tile by tile
//!     for j / 32 {
//!       copies 2, copies 2 { reduce k / 32 { multiply_tiles of s0 and s1 }; store s2 }
//!       for i in 0..16 { copies 2, copies 2 { lanes j of 16: what comes after the sum } }
//!     }
//!   }
//! }
//! ```
//!
//! Two by two tiles of sums take four of eight registers, and each tile that is loaded is multiplied twice: so as many tiles are loaded as multiplied, which takes half of the time. Of 16 rows and fewer, four
//! tiles lie side by side. Rows are copied just before they are asked for, as they are few; columns of a block are copied for all rows.
//!
//! How a copy is made follows from how the operand lies, as in `groups`: along its terms whole rows of tiles are copied, or turned around; across them rows of memory are interleaved.
//!
//! Not here: products that are multiplied in lanes (`groups`), and the loops over blocks ([`super`]). Tested below and in tests/it/tile_products.rs.

use super::blocks::{ProductBlocks, ProductSize, parts};
use super::groups::ROWS_MIN_OF_DOTS;
use super::operands::{Operand, Product};
use super::{attempt, open_blocks, share_blocks, split, stage_raw, upcast, vectorize};
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
/// Rows and columns of a tile.
const SIDE: i64 = 16;
/// Tiles of sums in registers, down and side by side.
const TILES_OF_SUMS: [[i64; 2]; 5] = [[2, 2], [1, 4], [2, 1], [1, 2], [1, 1]];
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
                if (columns + down * rows) * part * bytes + sums + kept > scratch_bytes {
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
                tiled.cycles = cycles(product, size, &tiled, kind) * unevenness(size, &blocks, threads);
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

/// Terms of a tile and of a block: as many as there is room for, or fewer that leave nothing over. What is left over is added in lanes, which takes columns that lie side by side.
fn terms_of_tile(terms: i64, kind: TileKind, may_leave: bool) -> Option<(i64, i64)> {
    let group = kind.group() as i64;
    let whole = (GROUPS_MIN..=tiles::ROWS_MAX as i64).rev().map(|groups| groups * group);
    let parts: Vec<(i64, i64)> =
        whole.filter(|tile| terms >= *tile).map(|tile| (tile, part_of_terms(terms, tile, kind))).collect();
    let leaves_few = |(_, part): &(i64, i64)| {
        let left = terms % part;
        left == 0 || may_leave && left * SIDE <= terms
    };
    let first = parts.first().filter(|part| leaves_few(part));
    let even = || parts.iter().find(|(_, part)| terms % part == 0);
    first.or_else(even).or_else(|| parts.iter().find(|part| leaves_few(part))).copied()
}

/// Terms of a block: all of them where one accumulator may take them, or as even a part as can be, of 1536 two of 768.
fn part_of_terms(terms: i64, tile: i64, kind: TileKind) -> i64 {
    let most = if kind.sums().is_float() { tiles::PRODUCTS_MAX as i64 / tile } else { i64::MAX };
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
    let of_rows = copy_cycles(&product.of_rows, false, bytes) / blocks.columns as f64 * rows_again;
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
    let rows = loops.fill_rows?;
    let groups = split(choice, loops.terms, blocks.terms, tiled.terms)?;
    let terms = split(choice, groups, tiled.terms, group)?;
    let steps = (groups != loops.terms).then_some(loops.terms);
    let tile_rows = split(choice, rows, blocks.rows, tiled.rows)?;
    let tile_columns = split(choice, loops.fill_columns, blocks.columns, SIDE)?;
    let along: Vec<u32> = steps.into_iter().chain([tile_rows, groups, terms]).collect();
    copy_rows(choice, &product.of_rows, tile_columns, &along, tiled)?;
    let outer = Some(loops.fill_columns).filter(|columns| *columns != tile_columns);
    let along: Vec<u32> = outer.into_iter().chain(steps).chain([groups, tile_columns, terms]).collect();
    copy_columns(choice, &product.of_columns, tile_columns, &along, tiled, group)?;
    let lanes = next_range_id(&choice.kernel);
    vectorize(choice, tile_columns, SIDE)?;
    if tile_rows != rows {
        if outer.is_some() {
            attempt(choice, Opt::Reorder { range: tile_rows, inner: loops.fill_columns })?;
        }
        upcast(choice, rows, i64::from(blocks.tile_rows))?;
    } else if outer.is_some() {
        attempt(choice, Opt::Reorder { range: rows, inner: loops.fill_columns })?;
    }
    if outer.is_some() {
        upcast(choice, loops.fill_columns, i64::from(blocks.tile_vectors))?;
    }
    if loops.fill_columns != loops.columns {
        vectorize(choice, loops.columns, SIDE)?;
    }
    share_blocks(choice, loops.blocks);
    attempt(choice, Opt::MultiplyTiles { rows: tile_rows, columns: lanes, groups, terms })
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
    vectorize(choice, groups, lanes.min(SIDE))?;
    upcast(choice, rows, 1 << tiled.rows.ilog2())
}

/// Copies the columns' operand for a block, tile by tile: the terms of a group beside each other.
fn copy_columns(
    choice: &mut Attempts<'_>,
    operand: &Operand,
    columns: u32,
    along: &[u32],
    tiled: &TileBlocks,
    group: i64,
) -> Option<()> {
    let last = stage_raw(choice, operand, columns, along)? + along.len() as u32 - 1;
    vectorize(choice, last - 1, SIDE)?;
    if operand.own_step != 1 {
        // As many terms as lanes, which are turned around.
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
        assert_eq!((of(1050), of(40)), (Some((32, 1024)), Some((20, 40))), "26 are few, 8 are not");
        assert_eq!((of(15), of(17), of(80)), (None, Some((16, 16)), Some((20, 80))));
        let turned = |terms: i64| terms_of_tile(terms, TileKind::Bf16, false);
        assert_eq!((turned(1050), turned(17), turned(48)), (None, None, Some((24, 48))));
        // Sums of integers are exact, however many.
        assert_eq!(terms_of_tile(4096, TileKind::SignedBytes, true), Some((64, 4096)));
    }
}
