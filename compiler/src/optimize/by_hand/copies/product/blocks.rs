//! The sizes of a product's blocks: how many rows, columns and terms lie in scratch together, and which register tile walks them.
//!
//! ```text
//! blocks of rows and columns { blocks of terms { copy a [terms, rows]; tiles of columns { copy b [terms, tile]; tiles of rows { terms { .. } } } } }
//! ```
//!
//! A copied element of the rows' operand serves all columns of a block, one of the columns' operand all rows; partial results stay in scratch while the blocks of
//! terms pass. All of it shares the second cache, so more rows mean fewer columns. Of the sizes that fit, those are taken for which a multiply-add
//! costs the least: its part of a tile's step, of the copies, and of what is left over: a last block, which overlaps the one before it,
//! and threads without a block.
//!
//! Always: tiles fill blocks, since partial results must not be added twice, and how terms are cut depends on their number and the target alone, so the order of
//! a sum does not depend on threads. Tested below.

use crate::ir::DotKind;
use crate::optimize::by_hand::tile::step_cycles;

/// Terms of a block, at most: a tile of columns of so many terms fills half of a first cache.
pub(super) const TERMS: i64 = 256;
/// The same where nothing is used again: so many rows of the columns' operand are read side by side, as many streams as processors fetch ahead. Measured on
/// one row times matrices of 9 to 16 million floats, one core with AVX-512: 14 to 18 GB/s of 15 rows, 19 to 23 of 8, 15 to 20 of 4.
const TERMS_STREAMED: i64 = 8;
/// Blocks of terms, at most: their sums go into one accumulator, which rounds with each.
const BLOCKS_OF_TERMS_MAX: i64 = 1024;
/// Vectors that a tile may have, and one without rows: it has no use of a vector beside its own.
const VECTORS: [u32; 4] = [1, 2, 3, 4];
const VECTORS_OF_ONE_ROW: [u32; 4] = [8, 4, 2, 1];
/// Rows of a tile, at most.
const ROWS_MAX: u32 = 14;
/// Cycles for a copied element, of the operand of columns (a vector of a line that lies apart from the one before it) and of that of rows, whose tiles then read
/// it at a distance. Measured on a transposed product of 1024 x 1024 x 1024, one core with AVX2.
const COLUMN_COPY_CYCLES: f64 = 0.9;
const ROW_COPY_CYCLES: f64 = 1.25;
/// Cycles for an element of the rows' operand that is read where it is, for each block of columns: it comes from the last cache.
const ROW_READ_CYCLES: f64 = 0.4;
/// Cycles of a step of a tile beside its multiply-adds and loads.
const LOOP_CYCLES: f64 = 1.0;
/// Cycles of a step of a tile that fills all registers: what it multiplies waits for one to become free. Measured on a transposed product of
/// 1024 x 1024 x 1024, one core with AVX2: 31.7 ms by 3 vectors and 4 rows, 29.4 by 2 and 6.
const FULL_CYCLES: f64 = 0.5;
/// Cycles to begin a row of a block where memory is read once.
const RUN_CYCLES: f64 = 4.0;
/// Into how many parts a side is cut, of those that are tried: few exactly, many roughly.
const PARTS: [i64; 24] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 24, 32, 48, 64, 96, 128, 256, 512];
/// Shares of each thread that balance what else the machine does, and what fewer cost.
const SHARES: i64 = 4;
const FEW_SHARES: f64 = 1.02;

/// What is known of a product.
pub(crate) struct ProductSize {
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) terms: i64,
    /// Blocks that loops outside make of each block.
    pub(crate) repeated: i64,
    /// Bytes of an element of each operand, and of a partial result.
    pub(crate) row_bytes: i64,
    pub(crate) column_bytes: i64,
    pub(crate) result_bytes: i64,
    /// Whether the rows' operand is copied, and whether the columns' operand is: for a tile at once, or for all columns of a block.
    pub(crate) copies_rows: bool,
    pub(crate) copies_columns: ColumnCopy,
    /// Whether no result may be computed twice.
    pub(crate) is_in_place: bool,
    /// What an instruction multiplies and adds up of it.
    pub(crate) dot: Option<DotKind>,
}

impl ProductSize {
    /// Terms that a step of a tile takes.
    fn group(&self) -> i64 {
        self.dot.map_or(1, |kind| kind.group() as i64)
    }
}

/// How the columns' operand is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnCopy {
    /// Not at all: each element is loaded once.
    None,
    /// For the columns of a tile, in the order in which they lie.
    OfTile,
    /// For all columns of a block, turned around: terms lie side by side in memory.
    OfBlock,
}

/// The machine.
pub(crate) struct ProductRoom {
    pub(crate) registers: u32,
    pub(crate) lanes: i64,
    pub(crate) scratch_bytes: i64,
    pub(crate) threads: i64,
}

/// Sizes of the blocks and of the register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProductBlocks {
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) terms: i64,
    pub(crate) tile_rows: u32,
    pub(crate) tile_vectors: u32,
}

/// The blocks for which a multiply-add costs the least, if any fit.
pub(crate) fn product_blocks(size: &ProductSize, room: &ProductRoom) -> Option<ProductBlocks> {
    let terms = part_of_terms(size);
    let is_accumulated = terms < size.terms;
    if size.terms / terms > BLOCKS_OF_TERMS_MAX {
        return None;
    }
    let mut best: Option<(f64, ProductBlocks)> = None;
    let tile_rows_max = ROWS_MAX.min(u32::try_from(size.rows).unwrap_or(ROWS_MAX));
    for &tile_vectors in if size.rows == 1 { &VECTORS_OF_ONE_ROW[..] } else { &VECTORS[..] } {
        for tile_rows in (1..=tile_rows_max).filter(|rows| fits(size, room, tile_vectors, *rows)) {
            let width = i64::from(tile_vectors) * room.lanes;
            let of_rows = parts(size.rows, i64::from(tile_rows), size.is_in_place, !is_accumulated);
            for columns in parts(size.columns, width, size.is_in_place, !is_accumulated) {
                for &rows in &of_rows {
                    let blocks = ProductBlocks { rows, columns, terms, tile_rows, tile_vectors };
                    if bytes(size, &blocks, width) > room.scratch_bytes {
                        continue;
                    }
                    let cost = cycles(size, room, &blocks);
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, blocks));
                    }
                }
            }
        }
    }
    best.map(|(_, blocks)| blocks)
}

/// Whether the registers hold a tile. Both operands are read from copies, in order, so a row needs no register beside the element that is multiplied.
///
/// So 3 vectors by 4 rows fit into 16 registers, exactly. It divides the usual numbers of rows, which 2 by 6 does not. Measured on 128 x 768 by 768 x 768, one core
/// with AVX2: 1.86 ms, and 1.95 by 2 by 6, whose rows are two blocks that overlap, each with a copy of the other operand.
fn fits(size: &ProductSize, room: &ProductRoom, vectors: u32, rows: u32) -> bool {
    let beside = if size.rows == 1 { 1 } else { vectors };
    // One is left for the element. Products of 16 bits are added by an instruction of their own, unless the machine has a longer one.
    let product = if size.dot == Some(DotKind::I16) { 1 } else { 0 };
    vectors * rows + beside + product < room.registers
}

/// Terms of a block: all of them, or a number that leaves the fewest over.
fn part_of_terms(size: &ProductSize) -> i64 {
    let most = match (size.copies_columns, size.dot) {
        (ColumnCopy::None, _) => TERMS_STREAMED,
        // As many bytes.
        (_, Some(_)) => TERMS * 4 / size.column_bytes,
        _ => TERMS,
    };
    if size.terms <= most {
        return size.terms;
    }
    let whole_groups = (most / 2..=most).rev().filter(|part| part % size.group() == 0);
    whole_groups.min_by_key(|part| size.terms % part).unwrap_or(most)
}

/// Lengths that a block may have of so many rows or columns, the longest first: whole tiles, and no more than there are; all of them where tiles may overlap.
pub(super) fn parts(len: i64, tile: i64, is_even: bool, may_overlap: bool) -> Vec<i64> {
    let mut lengths: Vec<i64> = PARTS.iter().map(|count| part(len, tile, *count)).collect();
    lengths.push(len / tile * tile);
    if may_overlap && !is_even && len >= tile {
        lengths.push(len);
    }
    lengths.retain(|part| *part > 0 && *part <= len && (!is_even || len % part == 0));
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    lengths
}

fn part(len: i64, tile: i64, count: i64) -> i64 {
    let even = (len + count - 1) / count;
    (even + tile - 1) / tile * tile
}

/// Bytes of scratch that the copies and the partial results take.
fn bytes(size: &ProductSize, blocks: &ProductBlocks, width: i64) -> i64 {
    let rows = if size.copies_rows { blocks.rows * blocks.terms * size.row_bytes } else { 0 };
    let columns = match size.copies_columns {
        ColumnCopy::None => 0,
        ColumnCopy::OfTile => width * blocks.terms * size.column_bytes,
        ColumnCopy::OfBlock => blocks.columns * blocks.terms * size.column_bytes,
    };
    let results = if blocks.terms < size.terms { blocks.rows * blocks.columns * size.result_bytes } else { 0 };
    rows + columns + results
}

/// Cycles of a multiply-add that is asked for.
fn cycles(size: &ProductSize, room: &ProductRoom, blocks: &ProductBlocks) -> f64 {
    let count = |len: i64, part: i64| (len + part - 1) / part;
    let (of_rows, of_columns) = (count(size.rows, blocks.rows), count(size.columns, blocks.columns));
    // What is left over of a tile is computed twice, as what is left over of a block is.
    let width = i64::from(blocks.tile_vectors) * room.lanes;
    let again = |len: i64, blocks: i64, part: i64, tile: i64| (blocks * count(part, tile) * tile) as f64 / len as f64;
    let rows_again = again(size.rows, of_rows, blocks.rows, i64::from(blocks.tile_rows));
    let columns_again = again(size.columns, of_columns, blocks.columns, width);
    let of_tile = f64::from(blocks.tile_vectors * blocks.tile_rows) * room.lanes as f64;
    let registers = blocks.tile_vectors * (blocks.tile_rows + 1) + 1;
    let full = if size.rows > 1 && registers >= room.registers { FULL_CYCLES } else { 0.0 };
    let of_step = step_cycles(blocks.tile_vectors, blocks.tile_rows) + LOOP_CYCLES + full;
    let step = of_step / (of_tile * size.group() as f64) * rows_again * columns_again;
    let of_columns_copy = match size.copies_columns {
        ColumnCopy::None => RUN_CYCLES / blocks.columns as f64,
        ColumnCopy::OfTile | ColumnCopy::OfBlock => COLUMN_COPY_CYCLES / blocks.rows as f64 * columns_again,
    };
    let row_cycles = if size.copies_rows { ROW_COPY_CYCLES * rows_again } else { ROW_READ_CYCLES };
    let of_rows_copy = row_cycles / blocks.columns as f64;
    let shares = of_rows * of_columns * size.repeated;
    let uneven = (count(shares, room.threads) * room.threads) as f64 / shares as f64;
    let few = if room.threads > 1 && shares < SHARES * room.threads { FEW_SHARES } else { 1.0 };
    (step + of_columns_copy + of_rows_copy) * uneven * few
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avx2(threads: i64) -> ProductRoom {
        ProductRoom { registers: 16, lanes: 8, scratch_bytes: 512 << 10, threads }
    }

    fn size(rows: i64, terms: i64, columns: i64) -> ProductSize {
        ProductSize {
            rows,
            columns,
            terms,
            repeated: 1,
            row_bytes: 4,
            column_bytes: 4,
            result_bytes: 4,
            copies_rows: true,
            copies_columns: ColumnCopy::OfTile,
            is_in_place: false,
            dot: None,
        }
    }

    fn blocks(size: &ProductSize, threads: i64) -> ProductBlocks {
        product_blocks(size, &avx2(threads)).expect("there are blocks that fit")
    }

    #[test]
    fn blocks_are_whole_tiles_that_fit_and_leave_little_over() {
        for (rows, terms, columns) in
            [(1024, 1024, 1024), (2048, 2048, 2048), (777, 555, 333), (64, 65_536, 64), (7, 999, 5000)]
        {
            for threads in [1, 2, 16] {
                let size = size(rows, terms, columns);
                let blocks = blocks(&size, threads);
                let width = i64::from(blocks.tile_vectors) * 8;
                assert_eq!((blocks.rows % i64::from(blocks.tile_rows), blocks.columns % width), (0, 0), "{blocks:?}");
                assert!(bytes(&size, &blocks, width) <= 512 << 10, "{blocks:?}");
                let computed = |len: i64, part: i64| (len + part - 1) / part * part;
                let again = computed(rows, blocks.rows) * computed(columns, blocks.columns);
                assert!(again as f64 / ((rows * columns) as f64) < 1.3, "{rows} x {columns}: {blocks:?}");
            }
        }
    }

    #[test]
    fn terms_are_cut_alike_for_any_number_of_threads_rows_and_columns() {
        for terms in [257, 1000, 4096, 4099] {
            let parts: Vec<i64> = [(8, 100, 1), (512, 512, 1), (512, 512, 7), (2000, 64, 16)]
                .map(|(rows, columns, threads)| blocks(&size(rows, terms, columns), threads).terms)
                .to_vec();
            assert!(parts.iter().all(|part| *part == parts[0] && terms % part < 4), "{terms}: {parts:?}");
        }
    }

    #[test]
    fn blocks_of_dot_products_have_whole_groups_and_room_for_a_product() {
        for (kind, bytes) in [(DotKind::I16, 2), (DotKind::Bf16, 2), (DotKind::Bytes, 1)] {
            for terms in [514, 1037, 4099] {
                let size =
                    ProductSize { row_bytes: bytes, column_bytes: bytes, dot: Some(kind), ..size(512, terms, 512) };
                let blocks = blocks(&size, 1);
                assert!(blocks.terms == terms || blocks.terms % kind.group() as i64 == 0, "{blocks:?}");
                // Sums, vectors of columns, an element of a row; and the products that are added, where that is an instruction of its own.
                let product = u32::from(kind == DotKind::I16);
                let registers = blocks.tile_vectors * (blocks.tile_rows + 1) + 1 + product;
                assert!(registers <= 16, "{blocks:?}");
            }
        }
    }

    #[test]
    fn no_accumulator_takes_many_blocks() {
        assert!(product_blocks(&size(64, 1 << 18, 64), &avx2(2)).is_some());
        assert_eq!(product_blocks(&size(64, 1 << 19, 64), &avx2(2)), None);
    }

    #[test]
    fn what_may_not_be_computed_twice_is_cut_evenly() {
        let blocks = blocks(&ProductSize { is_in_place: true, ..size(768, 4096, 3072) }, 2);
        assert_eq!((768 % blocks.rows, 3072 % blocks.columns), (0, 0), "{blocks:?}");
        assert_eq!(
            product_blocks(&ProductSize { is_in_place: true, ..size(101, 4096, 3071) }, &avx2(2)).map(|b| b.columns),
            None
        );
    }

    #[test]
    fn one_row_streams_long_pieces_of_memory() {
        let size = ProductSize { copies_rows: false, copies_columns: ColumnCopy::None, ..size(1, 4096, 4096) };
        let blocks = blocks(&size, 2);
        assert_eq!((blocks.terms, blocks.columns), (8, 2048));
    }
}
