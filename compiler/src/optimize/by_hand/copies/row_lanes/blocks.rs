//! The sizes of the blocks of a contraction whose rows become lanes ([`super`]): lanes, columns and terms that lie in scratch together, and the register tile that walks them.
//!
//! ```text
//! blocks of lanes and columns { blocks of terms { copy a [terms, lanes]; copy b [columns, terms]; tiles of lanes { tiles of columns { terms { .. } } } } }
//! ```
//!
//! A copied element of the lanes' operand serves all columns of a block, one of the columns' operand all lanes; partial results stay in scratch while the blocks of terms pass. Of the sizes that
//! have room, those are taken for which a multiply-add costs the least (`cycles`). Of several loops one is cut: those inside of it belong to a block as a whole, those outside stand outside.
//!
//! Tested below.

use crate::optimize::by_hand::copies::pack::{LOAD_AND_STORE, MASKED_LOAD_AND_STORE};
use crate::optimize::by_hand::copies::product::scratch_of_blocks;
use crate::optimize::by_hand::copies::terms::Cut;
use crate::optimize::by_hand::tile::{FAR_LOAD_CYCLES, LATENCY, RegisterRoom, STARTS_PER_CYCLE, multiply_add_cycles};
use crate::target::Target;

/// Terms of a block: fewer are not worth loading and storing what they come to, more leave no room for results.
const TERMS_MIN: i64 = 64;
const TERMS_MAX: i64 = 512;
/// Terms of a block that are enough: of so many, two vectors of lanes stay in the nearest cache with the columns that pass, and results are loaded and stored seldom.
const TERMS_ENOUGH: i64 = 160;
/// Columns of a block, at least: each element of the lanes' operand is turned around once for them.
const COLUMNS_MIN: i64 = 32;
/// Fewer columns, this many at the least, are a block if there are no more, and so many terms of each at the most: lanes along terms end in a sum across lanes for each result, which
/// many terms repay. Measured on windows of 3 x 3 of images of 5 x 5, one core with AVX-512: of 48 channels 59 us with these lanes and 99 without, of 512 channels 1159 and 692.
const FEW_COLUMNS_MIN: i64 = 16;
const TERMS_OF_FEW_COLUMNS_MAX: i64 = 32;
/// Vectors and columns of a register tile, at most.
const TILE_VECTORS_MAX: i64 = 7;
const TILE_COLUMNS_MAX: i64 = 14;
/// How often a lane is computed, at most, where blocks of lanes overlap: else lanes along terms are as good. Measured on the gradient by a weight of 24 channels of 33 x 33, one core with AVX-512:
/// 0.80 ms with 32 lanes for 24, and 0.66 with lanes along terms.
const LANES_AGAIN_MAX: f64 = 1.25;
/// Into how many parts a loop is cut, of those that are tried: few exactly, many roughly.
const PARTS: [i64; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128];
/// Cycles of a vector of the lanes' operand that is copied for a block, where all of it is more than half of the second cache. Measured on 128 channels of 28 x 28 to 128 by 3 x 3, one core with AVX-512
/// (Zen 5): 0.7 cycles for an element that is turned around, by the times of blocks of 196 and of 392 columns.
const FAR_COPY: f64 = 10.0;
/// Cycles of an element that is copied by itself. Measured with [`MASKED_LOAD_AND_STORE`].
const COPIED_APART: f64 = 3.0;
/// Shares of each thread that balance what else the machine does, and what fewer cost.
const SHARES: i64 = 4;
const FEW_SHARES: f64 = 1.02;
/// Cycles of a load of a near tile beside the multiply-adds, for a choice between tiles that have as many.
const NEAR_LOAD: f64 = 0.02;
/// A loop and its length.
pub(super) type Loop = (u32, i64);

/// What is known of a contraction whose rows may become lanes.
pub(super) struct Sizes {
    pub(super) lanes: Loop,
    /// Outermost first.
    pub(super) columns: Vec<Loop>,
    pub(super) terms: Vec<Loop>,
    /// Iterations of the loops that stand outside.
    pub(super) repeated: i64,
    /// Bytes of an element of each copy, of lanes and of columns, and of a partial result.
    pub(super) bytes: [i64; 3],
    /// Elements that lie side by side in memory: of the lanes' operand along the lanes and along the terms, of the columns' operand along the terms and along the columns.
    pub(super) lanes_in_order: [i64; 2],
    pub(super) columns_in_order: [i64; 2],
    /// Whether the columns' operand is loaded under a condition.
    pub(super) is_gated: bool,
    pub(super) is_in_place: bool,
}

/// Sizes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) lanes: i64,
    /// Which loop over columns is cut, and how many of its iterations a block has; what is inside of it is whole, and what is outside stands outside of blocks.
    pub(super) columns: Cut,
    /// The same of the terms.
    pub(super) terms: Cut,
    pub(super) tile_vectors: i64,
    pub(super) tile_columns: i64,
}

/// The machine.
pub(super) struct Room {
    pub(super) registers: i64,
    /// Of a vector in which no type needs more than one.
    pub(super) lanes: i64,
    pub(super) scratch_bytes: i64,
    /// What a tile of lanes and two of columns may take for the lanes to stay in the nearest cache while columns pass: until they are read again, one of columns was read to its end, and the next is.
    pub(super) near_bytes: i64,
    /// What stays in the second cache from one block to the next.
    pub(super) kept_bytes: i64,
    /// Cycles of a vector's multiply-add in a tile whose loads are near.
    pub(super) multiply_add: f64,
    pub(super) threads: i64,
}

impl Room {
    pub(super) fn of(sizes: &Sizes, target: &Target, threads: i64) -> Room {
        let widest = sizes.bytes.into_iter().max().unwrap_or(1);
        let registers = RegisterRoom { registers: target.vector_registers, values: 1, divides: false };
        Room {
            registers: i64::from(target.vector_registers),
            lanes: i64::from(target.vector_bytes) / widest,
            scratch_bytes: scratch_of_blocks(target),
            near_bytes: target.cache_l1_bytes as i64,
            kept_bytes: target.cache_l2_bytes as i64 / 2,
            multiply_add: multiply_add_cycles(&registers),
            threads,
        }
    }
}

/// How many columns a block has at the least, if there are enough.
fn least_columns(columns: i64, terms: i64) -> Option<i64> {
    let few_do = columns >= FEW_COLUMNS_MIN && terms <= columns * TERMS_OF_FEW_COLUMNS_MAX;
    (columns >= COLUMNS_MIN || few_do).then_some(columns.min(COLUMNS_MIN))
}

/// The blocks for which a multiply-add costs the least, if any fit, and its cycles.
pub(super) fn best_blocks(sizes: &Sizes, room: &Room) -> Option<(f64, Blocks)> {
    let lengths = |loops: &[Loop]| loops.iter().map(|(_, len)| *len).collect::<Vec<_>>();
    let (columns, terms) = (lengths(&sizes.columns), lengths(&sizes.terms));
    let columns_min = least_columns(columns.iter().product(), terms.iter().product())?;
    let of_columns = cuts_of_columns(&columns, sizes.is_in_place);
    let terms = cut_of_terms(&terms)?;
    let mut best: Option<(f64, Blocks)> = None;
    for tile_vectors in 1..=TILE_VECTORS_MAX {
        let width = tile_vectors * room.lanes;
        // A column needs no register beside the element that is multiplied.
        let most = TILE_COLUMNS_MAX.min((room.registers - 1 - tile_vectors) / tile_vectors);
        for lanes in lengths_of_lanes(sizes.lanes.1, width, sizes.is_in_place) {
            for (columns, count) in of_columns.iter().filter(|(_, count)| *count >= columns_min) {
                for tile_columns in (1..=most).filter(|tile| count % tile == 0) {
                    let blocks = Blocks { lanes, columns: *columns, terms, tile_vectors, tile_columns };
                    let cost = cycles(sizes, room, &blocks, *count);
                    if cost.is_some_and(|cost| best.is_none_or(|(least, _)| cost < least)) {
                        best = cost.map(|cost| (cost, blocks));
                    }
                }
            }
        }
    }
    best
}

/// Lengths of blocks of lanes: whole tiles. One block of all of them may be longer than there are; what is beyond the end is neither loaded nor stored.
fn lengths_of_lanes(len: i64, width: i64, is_in_place: bool) -> Vec<i64> {
    let part = |count: &i64| (len + count - 1) / count;
    let whole = |len: i64| (len + width - 1) / width * width;
    let mut lengths: Vec<i64> = PARTS.iter().map(|count| whole(part(count))).collect();
    lengths.push(len / width * width);
    lengths.retain(|part| *part > 0 && (*part <= len || *part == whole(len)) && (!is_in_place || len % part == 0));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// How columns may be cut, and how many a block then has.
fn cuts_of_columns(lengths: &[i64], is_in_place: bool) -> Vec<(Cut, i64)> {
    let mut cuts = Vec::new();
    let mut inside = 1;
    for (number, &len) in lengths.iter().enumerate().rev() {
        let mut parts: Vec<i64> = PARTS.iter().map(|count| (len + count - 1) / count).collect();
        parts.dedup();
        parts.retain(|part| !is_in_place || len % part == 0);
        cuts.extend(parts.into_iter().map(|part| ((number, part), part * inside)));
        inside *= len;
    }
    cuts
}

/// How terms are cut: without a rest, and so that a block has the most of those that are enough, or the fewest that are more. It depends on their numbers alone, as the order of sums does.
fn cut_of_terms(lengths: &[i64]) -> Option<Cut> {
    let inside = |number: usize| lengths[number + 1..].iter().product::<i64>();
    let cuts = lengths.iter().enumerate().flat_map(|(number, &len)| {
        let parts = (1..=len / 2).filter(move |part| len % part == 0);
        parts.map(move |part| ((number, part), part * inside(number)))
    });
    let fits = cuts.filter(|(_, terms)| (TERMS_MIN..=TERMS_MAX).contains(terms));
    let rank = |terms: i64| if terms <= TERMS_ENOUGH { (0, TERMS_ENOUGH - terms) } else { (1, terms) };
    fits.min_by_key(|(_, terms)| rank(*terms)).map(|(cut, _)| cut)
}

/// Cycles of a multiply-add that is asked for, of blocks that have so many columns; `None` if they have no room.
fn cycles(sizes: &Sizes, room: &Room, blocks: &Blocks, columns: i64) -> Option<f64> {
    let count = |len: i64, part: i64| (len + part - 1) / part;
    let terms = of_cut(&sizes.terms, blocks.terms);
    let elements = [blocks.lanes * terms, columns * terms, blocks.lanes * columns];
    let bytes: i64 = elements.iter().zip(sizes.bytes).map(|(elements, bytes)| elements * bytes).sum();
    if bytes > room.scratch_bytes {
        return None;
    }
    let (cut, part) = blocks.columns;
    let parts = |len: i64, part: i64| count(len, part) * part;
    let lanes_again = parts(sizes.lanes.1, blocks.lanes) as f64 / sizes.lanes.1 as f64;
    if lanes_again > LANES_AGAIN_MAX {
        return None;
    }
    let columns_again = parts(sizes.columns[cut].1, part) as f64 / sizes.columns[cut].1 as f64;
    let of_tile = (blocks.tile_vectors * blocks.tile_columns * room.lanes) as f64;
    let tile_of_lanes = blocks.tile_vectors * room.lanes * terms * sizes.bytes[0];
    let is_near = tile_of_lanes + 2 * blocks.tile_columns * terms * sizes.bytes[1] <= room.near_bytes;
    let from_far = if is_near { 0.0 } else { FAR_LOAD_CYCLES * blocks.tile_vectors as f64 };
    let step = step_of_near_tile(blocks, room.multiply_add) + from_far;
    let [along, across] = sizes.lanes_in_order;
    let all_lanes = sizes.terms.iter().map(|(_, len)| len).product::<i64>() * sizes.lanes.1 * sizes.bytes[0];
    let of_line = if all_lanes > room.kept_bytes { FAR_COPY } else { 0.0 };
    let (in_order, turned) = (LOAD_AND_STORE + of_line, LOAD_AND_STORE + of_line + (room.lanes as f64).log2());
    let lanes_copy = copy_cycles(along, in_order, room.lanes).min(copy_cycles(across, turned, room.lanes));
    let in_order = sizes.columns_in_order.into_iter().max().unwrap_or(1);
    let load_and_store = if sizes.is_gated { MASKED_LOAD_AND_STORE } else { LOAD_AND_STORE };
    let columns_copy = copy_cycles(in_order, load_and_store, room.lanes);
    let copies = lanes_copy / columns as f64 + columns_copy / blocks.lanes as f64;
    let of_results = LOAD_AND_STORE / (room.lanes * terms) as f64;
    let outside: i64 = sizes.columns[..cut].iter().map(|(_, len)| len).product();
    let shares = sizes.repeated * count(sizes.lanes.1, blocks.lanes) * count(sizes.columns[cut].1, part) * outside;
    let uneven = (count(shares, room.threads) * room.threads) as f64 / shares as f64;
    let few = if room.threads > 1 && shares < SHARES * room.threads { FEW_SHARES } else { 1.0 };
    let again = lanes_again * columns_again;
    Some((step / of_tile + copies + of_results) * again * uneven * few)
}

/// Cycles of a step of a tile that reads near copies, in order: those of its multiply-adds, as of the best tile that there is. Measured on one core with AVX-512 (Zen 5), tiles of 4 by 4, 2 by 14, 2 by 7 and
/// 4 by 6 are at the same share of what multiply-adds allow.
fn step_of_near_tile(blocks: &Blocks, multiply_add: f64) -> f64 {
    let (products, loads) = (blocks.tile_vectors * blocks.tile_columns, blocks.tile_vectors + blocks.tile_columns);
    // Sums that just hide the latency wait for whatever is late.
    let starts = (products.max(loads) as f64).max((LATENCY + 1.0) * STARTS_PER_CYCLE);
    starts * multiply_add + loads as f64 * NEAR_LOAD
}

/// Cycles for an element of a copy of which so many elements lie in order, where a vector takes some.
fn copy_cycles(in_order: i64, of_vector: f64, lanes: i64) -> f64 {
    let in_vector = 1 << in_order.min(lanes).max(1).ilog2();
    (of_vector / f64::from(in_vector)).min(COPIED_APART)
}

/// Iterations inside of a block, of loops of which one is cut.
pub(super) fn of_cut(loops: &[Loop], (number, part): Cut) -> i64 {
    part * loops[number + 1..].iter().map(|(_, len)| len).product::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_cut_without_a_rest() {
        assert_eq!(cut_of_terms(&[8, 14, 14]), Some((1, 7)));
        assert_eq!(cut_of_terms(&[8, 28, 28]), Some((1, 4)));
        assert_eq!(cut_of_terms(&[8, 7, 7]), Some((0, 2)));
        assert_eq!(cut_of_terms(&[256, 3, 3]), Some((0, 16)));
        // No part has few enough terms, or enough.
        assert_eq!(cut_of_terms(&[2, 19, 19]), Some((0, 1)));
        assert_eq!([cut_of_terms(&[1, 31]), cut_of_terms(&[2, 1031])], [None, None]);
    }

    #[test]
    fn lanes_are_whole_tiles_that_divide_what_is_replaced_and_one_block_may_be_longer() {
        assert_eq!(lengths_of_lanes(34, 8, false), [8, 16, 24, 32, 40]);
        assert_eq!(lengths_of_lanes(99, 40, false), [40, 80, 120]);
        assert_eq!(lengths_of_lanes(48, 16, true), [16, 48]);
        assert_eq!(lengths_of_lanes(34, 8, true), [0; 0]);
    }

    /// Of a convolution by windows of 3 x 3: images, channels, the length of a side, and channels of the result.
    fn convolution([images, channels, side, rows]: [i64; 4]) -> Sizes {
        Sizes {
            lanes: (0, rows),
            columns: vec![(1, side), (2, side)],
            terms: vec![(3, channels), (4, 3), (5, 3)],
            repeated: images,
            bytes: [4; 3],
            lanes_in_order: [1, 9 * channels],
            columns_in_order: [1, side],
            is_gated: true,
            is_in_place: false,
        }
    }

    #[test]
    fn lanes_that_come_from_far_are_copied_for_more_columns() {
        // How much more a multiply-add takes in blocks of half as many columns.
        let more = |cache_l2_bytes: u64| {
            let sizes = convolution([8, 128, 28, 128]);
            let room = Room::of(&sizes, &Target { cache_l2_bytes, ..Target::test_avx512() }, 2);
            let cost = |part: i64| {
                let blocks =
                    Blocks { lanes: 128, columns: (0, part), terms: (0, 16), tile_vectors: 2, tile_columns: 7 };
                cycles(&sizes, &room, &blocks, part * 28)
            };
            Some(cost(7)? - cost(14)?)
        };
        // 128 x 1152 numbers have 576 KiB.
        let [far, near] = [1 << 20, 2 << 20].map(|bytes| more(bytes).expect("there is room"));
        assert!(far > 2.5 * near && near > 0.0, "{far} {near}");
    }

    #[test]
    fn near_tiles_cost_what_their_multiply_adds_do() {
        let step = |tile_vectors, tile_columns| {
            let blocks = Blocks { lanes: 128, columns: (0, 14), terms: (0, 16), tile_vectors, tile_columns };
            step_of_near_tile(&blocks, 0.7) / (tile_vectors * tile_columns) as f64
        };
        let [square, wide, long, short, one] = [step(4, 4), step(4, 6), step(2, 14), step(1, 4), step(1, 14)];
        assert!(wide < square && (long - square).abs() < 0.01 && square < 0.72, "{square} {wide} {long}");
        // Four sums wait for each other, and one vector needs a load for each multiply-add, and one more.
        assert!(short > 1.7 && one > 0.74, "{short} {one}");
    }

    #[test]
    fn blocks_fit_scratch() {
        for threads in [1, 2, 7] {
            let (lanes, columns, terms) = ((7, 256), vec![(1, 256), (2, 3), (3, 3)], vec![(4, 8), (5, 14), (6, 14)]);
            let sizes = Sizes {
                lanes,
                columns,
                terms,
                repeated: 1,
                bytes: [4; 3],
                lanes_in_order: [1, 196],
                columns_in_order: [14, 1],
                is_gated: true,
                is_in_place: false,
            };
            let room = Room::of(&sizes, &Target::test_avx512(), threads);
            let (_, blocks) = best_blocks(&sizes, &room).expect("blocks");
            let (columns, terms) = (of_cut(&sizes.columns, blocks.columns), of_cut(&sizes.terms, blocks.terms));
            assert!(4 * (blocks.lanes * terms + columns * terms + blocks.lanes * columns) <= 512 << 10);
            assert_eq!([blocks.lanes % (16 * blocks.tile_vectors), columns % blocks.tile_columns], [0, 0]);
            // Each thread has as much to do.
            let shares = (256 / blocks.lanes) * (2304 / columns);
            assert!(shares % threads == 0 || threads == 7, "{blocks:?}");
        }
    }
}
