//! Products of matrices by blocks of rows, columns and terms, where what a register tile reads lies badly in memory or is too much for the near caches.
//!
//! ```text
//! for i, j { reduce k { load x[k, i]; load w[k, j] } }
//!
//! for j / 512, i / 114 {                                            blocks of results
//!   reduce k / 256 {                                                blocks of terms
//!     fill k, i { s0[k, i] = x[k, i] }                              the rows' operand, read along memory
//!     for j / 16 { fill k { s1[k] = w[k, j] }; for i / 6 { reduce k { load s0[k, i]; load s1[k] }; accumulate s2[i, j] } }
//!   }
//!   for i, j { store s2[i, j] }                                     what comes after the sum
//! }
//! ```
//!
//! Without blocks a tile's rows read the whole of their operand for each tile of columns, and all terms of a tile of columns are copied at once (`pack`): that is the best
//! where rows lie in order and terms are not too many. Blocks are made where it is not (`wants_blocks`):
//!
//! - Rows that lie side by side (a transposed operand): each term is in another line of memory.
//! - Columns whose terms lie side by side (`x @ w.t()`, `x.t() @ w.t()`), from some rows on (`is_worth_turning`): they are turned around while they are copied.
//! - Few rows, or very many terms: no tile of columns is worth a copy of all its terms, or has room for it. Of one tile of rows nothing is copied; then blocks have few
//!   terms, and memory is read along long pieces of rows.
//!
//! Products of narrow numbers are copied in groups of terms (`groups`). What a product is says `operands`, sizes come from `blocks`. All of it is made of the opts split, outermost, accumulate, stage, vectorize, upcast, reorder and thread; if one is
//! refused, nothing is done.
//!
//! Tested by `tests`, by filetests, and against other libraries by `./x peers`.

mod blocks;
mod groups;
mod operands;
pub(super) mod tiles;

use super::pack::{PASSES_MIN, attempt_copy};
use super::panels::{COLUMNS_MAX, is_worth_turning};
use crate::ir::UOp;
use crate::kernel::ranges::{Dependencies, closed_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::tile::{RegisterRoom, register_tile};
use crate::optimize::opt::Opt;
use crate::optimize::transforms::stage::loads_of;
use crate::target::{CACHE_LINE_BYTES, Target};
use blocks::{ColumnCopy, ProductBlocks, ProductRoom, ProductSize, product_blocks};
use groups::{copy_columns_in_groups, copy_rows_in_groups, wants_dots};
use operands::{Operand, Product, find_product, len};
use tiles::{make_tiles, tile_blocks};

/// Rows of one tile, beside two vectors of columns.
const ROWS_OF_ONE_TILE: i64 = 6;
const VECTORS_OF_ONE_TILE: i64 = 2;
/// Vectors of columns, at least, that are worth a copy of both operands.
const VECTORS_OF_COLUMNS: i64 = 4;
/// Bytes of a page of memory, and how many of them have their addresses in a processor's first table (of 64 entries in Zen, 96 in Golden Cove).
const PAGE_BYTES: i64 = 4096;
const PAGES_AT_HAND: i64 = 64;
/// Vectors that a step of the loops after the sum stores.
const VECTORS_STORED: i64 = 4;

/// The loops of a product's blocks by number.
struct Loops {
    /// Over the columns of a block of results; where partial results are kept, other loops over rows and columns fill them.
    columns: u32,
    fill_rows: Option<u32>,
    pub(super) fill_columns: u32,
    pub(super) terms: u32,
    /// Over the terms of a group, inside of these.
    pub(super) group: Option<u32>,
    /// Whether the loop over rows that fills scratch stands around that over columns.
    rows_outside: bool,
    /// How many loops over blocks of results there are.
    blocks: usize,
}

/// Makes blocks of a product if it wants some; whether it did.
pub(crate) fn make_blocks(choice: &mut Attempts<'_>) -> bool {
    let Some(product) = find_product(&choice.kernel, choice.target) else { return false };
    let widest = product.result_bytes.max(product.of_rows.bytes).max(product.of_columns.bytes);
    let lanes = i64::from(choice.target.vector_bytes) / widest;
    if by_tiles(choice, &product, lanes) {
        return true;
    }
    let Some(size) = wants_blocks(&product, choice.target, lanes) else { return false };
    let room = ProductRoom {
        registers: choice.target.vector_registers,
        lanes,
        scratch_bytes: scratch_of_blocks(choice.target),
        threads: i64::from(choice.threads),
    };
    let Some(blocks) = product_blocks(&size, &room) else { return false };
    choice.all_or_none(|choice| make(choice, &product, &size, &blocks, lanes))
}

/// Makes tiles of a product if the machine multiplies some, and they are better than lanes; whether it did.
fn by_tiles(choice: &mut Attempts<'_>, product: &Product, lanes: i64) -> bool {
    let (Some(kind), Some(size)) = (product.tile, size_of(product)) else { return false };
    let room = (scratch_of_blocks(choice.target), i64::from(choice.threads));
    let is_whole = lanes * product.result_bytes >= crate::ir::tiles::ROW_BYTES_MAX as i64;
    let Some(tiled) = tile_blocks(product, &size, room, kind).filter(|_| is_whole) else { return false };
    choice.all_or_none(|choice| make_tiles(choice, product, &size, &tiled, kind))
}

/// The size of a product, of which both operands are copied.
fn size_of(product: &Product) -> Option<ProductSize> {
    let rows = product.rows.as_ref().map_or(Some(1), len)?;
    let (columns, terms) = (len(&product.columns)?, len(&product.terms)?);
    let repeated = product.others.iter().map(|range| range.src()[0].max_value()).product();
    Some(ProductSize {
        rows,
        columns,
        terms,
        repeated,
        row_bytes: product.of_rows.copied_bytes,
        column_bytes: product.of_columns.copied_bytes,
        result_bytes: product.result_bytes,
        copies_rows: true,
        copies_columns: ColumnCopy::OfBlock,
        is_in_place: product.is_in_place,
        dot: None,
    })
}

/// The size of a product that blocks are better for, with the copies that they make.
fn wants_blocks(product: &Product, target: &Target, lanes: i64) -> Option<ProductSize> {
    let (of_rows, of_columns) = (&product.of_rows, &product.of_columns);
    let size = size_of(product)?;
    let ProductSize { rows, columns, terms, .. } = size;
    if lanes < 2 || columns < lanes {
        return None;
    }
    if let Some(kind) = product.dot.filter(|_| wants_dots(product, rows, terms)) {
        let bytes = kind.factors()[0].bytes() as i64;
        return Some(ProductSize { row_bytes: bytes, column_bytes: bytes, dot: Some(kind), ..size });
    }
    let lines = terms * CACHE_LINE_BYTES;
    // A line for each term, of which the next tile of rows has use if it is still there.
    let rows_apart = product.rows.is_some() && of_rows.term_step != 1;
    let is_one_tile = rows <= ROWS_OF_ONE_TILE;
    let copies_rows = if rows_apart { of_rows.own_step == 1 } else { of_rows.is_computed && !is_one_tile };
    let bytes = columns * terms * of_columns.bytes;
    let is_far = bytes > target.cache_l2_bytes as i64;
    let copies_columns = match (of_columns.own_step, of_columns.term_step) {
        (1, _) if is_one_tile && is_far && !rows_apart => ColumnCopy::None,
        (1, _) if rows_apart => {
            // What one tile of columns reads once is not worth a copy. Measured on the transpose of 600 x 3000 by 600 x 16, two cores with AVX2: 315 us, and 470 with one; by 24 columns, of 4000 x 500, 940 and 700.
            let is_shared = rows > ROWS_OF_ONE_TILE && columns > VECTORS_OF_ONE_TILE * lanes;
            let is_better = copies_rows && 2 * lines > target.cache_l1_bytes as i64 && is_shared;
            is_better.then_some(ColumnCopy::OfTile)?
        }
        (1, _) => {
            let registers = RegisterRoom { registers: target.vector_registers, values: 1, divides: false };
            let most = |len: i64| u32::try_from(len).unwrap_or(u32::MAX >> 1);
            let (vectors, tile_rows) = register_tile(&registers, most(columns / lanes), most(rows));
            let tile = i64::from(vectors) * lanes * terms * of_columns.copied_bytes;
            // Measured on two cores of Zen 3, time by blocks over time by a panel of all terms that just has room: 1.06 for 2048 x 2048 x 2048, 1.09 for 1024 x 2048 x 1024, 1.04 for 512 x 2048 x 512;
            // on one core of Granite Rapids 1.09 for the first. Twice as large, panels whose rows go in blocks (`row_blocks`) were no faster.
            let has_room = tile <= i64::from(target.costs.packed_bytes);
            let fits = has_room && rows / i64::from(tile_rows) >= PASSES_MIN;
            let is_near = 2 * lines <= target.cache_l1_bytes as i64;
            (!fits && !is_near && is_far && !is_one_tile).then_some(ColumnCopy::OfTile)?
        }
        (_, 1) if is_worth_turning(rows, terms, lanes) && terms >= lanes => {
            let is_better = !rows_apart || copies_rows && is_worth_both_copies(&size, of_rows.bytes, target, lanes);
            is_better.then_some(ColumnCopy::OfBlock)?
        }
        _ => return None,
    };
    Some(ProductSize { copies_rows, copies_columns, ..size })
}

/// Whether a product of two transposed matrices is worth a copy of both. Without blocks, a panel of columns is turned around, and tiles of rows walk the other operand where it is.
/// That is slow where the lines of all terms lie in more pages than a processor has at hand, and where one panel has all columns, of which a tile's lie apart. Of few columns
/// there are no tiles: then rows are lanes. Measured, time without blocks over time with them, two cores with AVX-512: 2 for 512 x 512 x 512, 1.4 for 128 x 512 x 256, but
/// 0.9 for 64 x 1024 x 1024, 0.75 for 32 x 300 x 2000, 0.55 for 2000 x 2000 x 17; with AVX2: 1.1, 2.3, 1.2, 1.0 and 0.9.
fn is_worth_both_copies(size: &ProductSize, row_bytes: i64, target: &Target, lanes: i64) -> bool {
    let pages = size.terms.min(size.rows * size.terms * row_bytes / PAGE_BYTES);
    let is_one_panel =
        size.columns <= COLUMNS_MAX && size.columns * size.terms * size.column_bytes <= target.scratch_bytes as i64;
    size.columns >= VECTORS_OF_COLUMNS * lanes && (pages > PAGES_AT_HAND || is_one_panel)
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(
    choice: &mut Attempts<'_>,
    product: &Product,
    size: &ProductSize,
    blocks: &ProductBlocks,
    lanes: i64,
) -> Option<()> {
    let mut loops = open_blocks(choice, product, size, blocks)?;
    if let Some(kind) = size.dot {
        loops.group = Some(next_range_id(&choice.kernel));
        attempt(choice, Opt::Dot { range: loops.terms, terms: kind.group() as u32 })?;
    }
    if let (Some(kind), Some(rows)) = (size.dot, loops.fill_rows) {
        copy_rows_in_groups(choice, product, &loops, rows, blocks, kind)?;
    } else if let (true, Some(rows)) = (size.copies_rows, loops.fill_rows) {
        // In the order in which they lie.
        let (ranges, last) = match product.of_rows.term_step {
            1 => ([rows, loops.terms], blocks.terms),
            _ => ([loops.terms, rows], blocks.rows),
        };
        let fill = stage(choice, &product.of_rows, &loops, &ranges)?;
        vectorize(choice, fill + 1, lanes.min(last))?;
    }
    let mut tile_columns = loops.fill_columns;
    if size.copies_columns == ColumnCopy::OfBlock {
        tile_columns = match size.dot {
            Some(kind) => copy_columns_in_groups(choice, product, &loops, blocks, lanes, kind)?,
            None => turn_columns(choice, product, &loops, blocks, lanes)?,
        };
    }
    vectorize(choice, tile_columns, lanes)?;
    upcast(choice, tile_columns, i64::from(blocks.tile_vectors))?;
    if let Some(rows) = loops.fill_rows {
        upcast(choice, rows, i64::from(blocks.tile_rows))?;
        // The tile of columns stays in the first cache while rows pass.
        let is_loop = |id: u32| has_loop(&choice.kernel, id);
        if loops.rows_outside && is_loop(rows) && is_loop(loops.fill_columns) {
            attempt(choice, Opt::Reorder { range: rows, inner: loops.fill_columns })?;
        }
    }
    if size.copies_columns == ColumnCopy::OfTile {
        stage(choice, &product.of_columns, &loops, &[loops.terms])?;
    }
    if loops.fill_columns != loops.columns {
        vectorize(choice, loops.columns, lanes)?;
        // Fewer where code would be too long.
        let _ = upcast(choice, loops.columns, VECTORS_STORED.min(blocks.columns / lanes));
    }
    share_blocks(choice, loops.blocks);
    Some(())
}

/// Scratch that the copies and partial results of a block may take together: they stay in the second cache.
pub(super) fn scratch_of_blocks(target: &Target) -> i64 {
    target.scratch_bytes.min(target.cache_l2_bytes / 4 * 3) as i64
}

/// Threads share the loops over blocks of results, which stand outermost: the sizes of blocks count on all of them.
pub(crate) fn share_blocks(choice: &mut Attempts<'_>, blocks: usize) {
    let nest = closed_ranges(&choice.kernel.src()[0]);
    let ids: Vec<u32> = nest.iter().take(blocks).map(range_id).collect();
    if choice.threads < 2 {
        return;
    }
    match ids.as_slice() {
        [first, second, ..] => {
            let pair = Opt::ThreadPair { range: *first, inner: *second };
            let _ = choice.attempt(pair) || choice.attempt(Opt::Thread { range: *first });
        }
        [first] => {
            choice.attempt(Opt::Thread { range: *first });
        }
        [] => choice.reasons.push("one thread: there is one block of results".to_string()),
    }
}

/// Opens the loops over blocks.
fn open_blocks(
    choice: &mut Attempts<'_>,
    product: &Product,
    size: &ProductSize,
    blocks: &ProductBlocks,
) -> Option<Loops> {
    let rows = match &product.rows {
        Some(rows) => Some(split(choice, range_id(rows), size.rows, blocks.rows)?),
        None => None,
    };
    let columns = split(choice, range_id(&product.columns), size.columns, blocks.columns)?;
    let nest: Vec<u32> = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id).collect();
    let is_inside = |id: &u32| Some(*id) == rows || *id == columns;
    let inside: Vec<u32> = nest.iter().copied().filter(|id| is_inside(id)).collect();
    if !nest.ends_with(&inside) {
        for range in nest.iter().rev().filter(|id| !is_inside(id)) {
            attempt(choice, Opt::Outermost { range: *range })?;
        }
    }
    let nest: Vec<u32> = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id).collect();
    let (blocks_of_results, rows_first) = (nest.len() - inside.len(), nest.last() == Some(&columns));
    let outer_terms = range_id(&product.terms);
    let terms = split(choice, outer_terms, size.terms, blocks.terms)?;
    // One block, with all terms or all but a few, which are a loop of their own.
    let is_there = crate::kernel::ranges::all_ranges(&choice.kernel).iter().any(|range| range_id(range) == outer_terms);
    if terms == outer_terms || !is_there {
        let (fill_rows, fill_columns, rows_outside) = (rows, columns, rows_first);
        let blocks = blocks_of_results;
        return Some(Loops { columns, fill_rows, fill_columns, terms, group: None, rows_outside, blocks });
    }
    let fresh = next_range_id(&choice.kernel);
    attempt(choice, Opt::Accumulate { range: outer_terms, along: rows.into_iter().chain([columns]).collect() })?;
    let (fill_rows, fill_columns) = (rows.map(|_| fresh), fresh + u32::from(rows.is_some()));
    let blocks = blocks_of_results;
    Some(Loops { columns, fill_rows, fill_columns, terms, group: None, rows_outside: true, blocks })
}

/// Copies the columns' operand for a block, tile by tile in the order in which tiles read it; gives the loop over the columns of a tile.
fn turn_columns(
    choice: &mut Attempts<'_>,
    product: &Product,
    loops: &Loops,
    blocks: &ProductBlocks,
    lanes: i64,
) -> Option<u32> {
    let width = i64::from(blocks.tile_vectors) * lanes;
    let of_tile = split(choice, loops.fill_columns, blocks.columns, width)?;
    let mut ranges = vec![loops.terms, of_tile];
    if of_tile != loops.fill_columns {
        ranges.insert(0, loops.fill_columns);
    }
    let last = stage(choice, &product.of_columns, loops, &ranges)? + ranges.len() as u32 - 1;
    vectorize(choice, last, lanes)?;
    upcast(choice, last, i64::from(blocks.tile_vectors))?;
    // As many terms as lanes: whole vectors of memory, turned around in registers.
    upcast(choice, last - 1, lanes.min(blocks.terms))?;
    Some(of_tile)
}

pub(super) fn attempt(choice: &mut Attempts<'_>, opt: Opt) -> Option<()> {
    choice.attempt(opt).then_some(())
}

/// The loop over what is inside of a part of a range: itself if the part is all of it.
pub(super) fn split(choice: &mut Attempts<'_>, range: u32, len: i64, part: i64) -> Option<u32> {
    if part == len {
        return Some(range);
    }
    let inner = next_range_id(&choice.kernel);
    attempt(choice, Opt::Split { range, len: u32::try_from(part).ok()? })?;
    Some(inner)
}

pub(crate) fn vectorize(choice: &mut Attempts<'_>, range: u32, lanes: i64) -> Option<()> {
    let lanes = u32::try_from(lanes).ok()?;
    attempt(choice, Opt::Vectorize { range, lanes: 1 << lanes.max(1).ilog2() })
}

pub(crate) fn upcast(choice: &mut Attempts<'_>, range: u32, times: i64) -> Option<()> {
    if times < 2 { Some(()) } else { attempt(choice, Opt::Upcast { range, times: u32::try_from(times).ok()? }) }
}

/// Copies an operand along ranges; gives the first loop of the copy.
fn stage(choice: &mut Attempts<'_>, operand: &Operand, loops: &Loops, ranges: &[u32]) -> Option<u32> {
    let ranges_left = crate::kernel::ranges::all_ranges(&choice.kernel);
    let is_left = |id: u32| ranges_left.iter().any(|range| range_id(range) == id);
    // A tile of all columns of a block leaves no loop over them.
    let side = match loops.fill_rows {
        _ if is_left(loops.fill_columns) => Some((loops.fill_columns, operand.is_of_columns)),
        Some(rows) if is_left(rows) => Some((rows, !operand.is_of_columns)),
        _ => None,
    };
    let load = load_of(choice, &operand.memory, loops.terms, side)?;
    let fresh = next_range_id(&choice.kernel);
    attempt_copy(choice, load, ranges.to_vec()).then_some(fresh)
}

/// As [`stage`], of what memory has, whatever is computed from it. The load that is meant stands in the last of the ranges, and in that loop over columns if it is theirs.
fn stage_raw(choice: &mut Attempts<'_>, operand: &Operand, columns: u32, ranges: &[u32]) -> Option<u32> {
    let load = load_of(choice, &operand.memory, *ranges.last()?, Some((columns, operand.is_of_columns)))?;
    let fresh = next_range_id(&choice.kernel);
    attempt(choice, Opt::Stage { load, ranges: ranges.to_vec() })?;
    Some(fresh)
}

/// The number of the load of some memory that stands in a loop over terms; of a matrix that is multiplied with itself, the one that varies with a loop, or that does not. What a
/// cut of the terms leaves over is read where it is.
pub(super) fn load_of(choice: &Attempts<'_>, memory: &UOp, terms: u32, side: Option<(u32, bool)>) -> Option<u32> {
    let dependencies = Dependencies::of(&choice.kernel);
    let is_meant = |load: &UOp| {
        let depends = dependencies.get(load);
        let is_side = side.is_none_or(|(range, varies)| depends.contains(range) == varies);
        load.src()[0].src()[0] == *memory && depends.contains(terms) && is_side
    };
    loads_of(&choice.kernel).iter().position(is_meant).and_then(|load| u32::try_from(load).ok())
}

/// Whether a range is still there, and no tile of one iteration.
pub(crate) fn has_loop(root: &UOp, id: u32) -> bool {
    crate::kernel::ranges::all_ranges(root)
        .iter()
        .any(|range| range_id(range) == id && len(range).is_none_or(|len| len > 1))
}

#[cfg(test)]
mod tests;
