//! Contractions whose results lie in rows shorter than a vector, or fill vectors badly: the rows of the other operand become lanes, and both operands are copied, block by block.
//!
//! ```text
//! for o, c, i, j { reduce b, y, x }                                             the gradient of a convolution by its weight: j has three iterations, o has many
//!
//! for o / 128, c / 32 {                                                         blocks of results
//!   reduce b / 2 {                                                              blocks of terms
//!     fill 2, y, x, 128 { s0[b, y, x, o] = g[b, o, y, x] }                      the lanes' operand, turned around
//!     fill 32, i, j, 2, y, x { s1[c, i, j, b, y, x] = x[b, c, y + i, x + j] }   the columns' operand: windows
//!     for 128 / 32 { for 32 * i * j / 12 { reduce 2 * y * x ; accumulate } }
//!   }
//!   for 128, 32, i, j { store }
//! }
//! ```
//!
//! Such are the gradients of convolutions by their weights, whose results are windows, and convolutions of small images. Lanes along the results would be masked, and lanes along the terms
//! load two vectors for few multiply-adds and add up each result across lanes. Here a step loads a few vectors of one copy and one element of the other for each column, as in a product of matrices.
//! Of rows that fill a vector and many terms, a panel (`panels`) comes from the second cache for each tile of rows, and the last vectors of its rows are partly empty: what takes fewer cycles is counted.
//!
//! *Lanes* is the one loop over results that the copied load does not vary with, *columns* are those that it alone varies with, *terms* the loops of the reduction. What both operands vary with stands
//! outside. Sizes come from `blocks`, and narrow numbers are multiplied as tiles where the machine does that (`tiles`). Partial results must not be added twice, so tiles divide blocks and blocks of terms divide the terms; blocks of results may overlap,
//! and one block of lanes that fill no whole vectors is longer than they are (`split_masked`): of 34 channels 40 are computed at once, and windows are copied once.
//!
//! Always: made of the opts split, split_masked, outermost, reorder, accumulate, stage, merge, vectorize, upcast and thread; if one that it needs is refused, nothing is done. Tested below, and by the
//! values of convolutions and their gradients in the test crate.

mod blocks;
mod tiles;

use super::pack::{attempt_copy, copied_bytes};
use super::panel_blocks::cycles_in_blocks;
use super::panels::merge;
use super::product::{attempt, share_blocks, split, upcast, vectorize};
use super::terms::open_terms;
use crate::ir::{Op, UOp, postorder};
use crate::kernel::effects::replaces_what_was_read;
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load, step_of_load};
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::opt::Opt;
use crate::target::{CACHE_LINE_BYTES, Target};
use blocks::{Blocks, Loop, Room, Sizes, best_blocks, of_cut};
use tiles::make_by_tiles;

/// Copies of neighbouring columns that lie a multiple of so many lines apart are in one set of the nearest cache.
const LINES_OF_SETS: i64 = 64;
/// What a panel must take of the cycles of blocks, at least, for blocks to be made where rows fill a vector. Measured on 40 convolutions, one core with AVX-512 (Zen 5): where the model says 0.87 to 0.98,
/// panels took 0.9 to 1.01 times as long, where 1.0 to 1.1, 0.94 to 1.17, and where 1.13 to 1.3, 1.03 to 1.5, but for two of 1,600 terms that took 0.96 and 0.98.
const GAIN_MIN: f64 = 1.02;
/// Columns for which the lanes' operand is copied element by element: a copied element takes some 3 cycles (`blocks::COPIED_APART`), and has a 32nd of a cycle of multiply-adds for each
/// column, so that of this many a copy takes less than they do.
const COLUMNS_OF_APART_MIN: i64 = 128;

/// A contraction whose rows may become lanes, with the loads by which its operands are found again.
struct Shape {
    columns_load: LoadId,
    lanes_load: LoadId,
    sizes: Sizes,
    /// Whether results that lie side by side are fewer than a vector has lanes.
    has_short_rows: bool,
}

/// Makes blocks of a contraction that wants some; whether it did.
pub(crate) fn make_row_lanes(choice: &mut Attempts<'_>) -> bool {
    if make_by_tiles(choice) {
        return true;
    }
    let threads = i64::from(choice.threads);
    let found = contractions(&choice.kernel, |contraction| {
        let shape = shape_of(contraction, choice.target)?;
        let room = Room::of(&shape.sizes, choice.target, threads);
        let (cycles, blocks) = best_blocks(&shape.sizes, &room)?;
        let of_panel = || {
            let in_blocks = cycles_in_blocks(contraction, choice.target, threads);
            in_blocks.or_else(|| contraction.cycles_with_far_panel(choice.target, shape.sizes.bytes[1]))
        };
        let is_better = || of_panel().is_some_and(|panel| cycles * GAIN_MIN < panel);
        (shape.has_short_rows || !contraction.walks().is_empty() && is_better()).then_some((shape, blocks, room.lanes))
    });
    found.is_some_and(|(shape, blocks, lanes)| choice.all_or_none(|choice| make(choice, &shape, &blocks, lanes)))
}

fn loop_of(range: &UOp) -> Option<Loop> {
    Some((range_id(range), range.src()[0].as_int()?))
}

/// A contraction of two operands of which the rows of one may be lanes.
fn shape_of(contraction: &Contraction<'_>, target: &Target) -> Option<Shape> {
    let own = closed_ranges(contraction.reduction);
    let terms: Vec<Loop> = own.iter().map(loop_of).collect::<Option<_>>()?;
    let below = postorder(open_operands(contraction.reduction));
    let mut others = below.iter().filter(|node| node.op() == Op::Load && *node != contraction.load);
    let (Some(other), None) = (others.next(), others.next()) else { return None };
    let of_lanes = Contraction { load: other, ..*contraction };
    let vary = |range: &UOp| contraction.varies_with(range) && of_lanes.varies_with(range);
    let mut all_rows = contraction.rows();
    let (Some(row), None) = (all_rows.next(), all_rows.next()) else { return None };
    let lanes = loop_of(row)?;
    if !own.iter().all(vary) || other.src()[0].src()[0] == contraction.load.src()[0].src()[0] {
        return None;
    }
    let bytes = [
        copied_bytes(contraction.dependencies, other),
        copied_bytes(contraction.dependencies, contraction.load),
        accumulated_in(contraction.reduction.dtype()).bytes() as i64,
    ];
    let width = i64::from(target.vector_bytes) / bytes.into_iter().max()?;
    let results = loop_of(contraction.lane_of_results()?)?;
    if lanes.1 < width {
        return None;
    }
    let is_column = |range: &&UOp| *range != row && contraction.varies_with(range) && !of_lanes.varies_with(range);
    let columns: Vec<Loop> = contraction.outputs.iter().filter(is_column).map(loop_of).collect::<Option<_>>()?;
    let outside = contraction.outputs.iter().filter(|range| *range != row && !is_column(range));
    let repeated = outside.map(|range| range.src()[0].max_value()).product();
    let last_column = contraction.outputs.iter().rfind(is_column)?;
    let sizes = Sizes {
        lanes,
        repeated,
        bytes,
        lanes_in_order: [run(other, &[row]), run(other, &own.iter().collect::<Vec<_>>())],
        columns_in_order: [run(contraction.load, &[own.last()?]), run(contraction.load, &[last_column])],
        is_gated: contraction.load.src()[0].src().len() > 2,
        is_in_place: contraction.root.src().iter().any(replaces_what_was_read),
        columns,
        terms,
    };
    // Element by element the lanes' operand is worth turning around for many columns alone.
    let is_apart = sizes.lanes_in_order.into_iter().all(|len| len < width / 2);
    if is_apart && sizes.columns.iter().map(|(_, len)| len).product::<i64>() < COLUMNS_OF_APART_MIN {
        return None;
    }
    let has_short_rows = results.1 < width;
    Some(Shape { columns_load: contraction.load_id()?, lanes_load: of_lanes.load_id()?, sizes, has_short_rows })
}

/// How many elements a load finds side by side in memory along loops, the innermost last.
fn run(load: &UOp, ranges: &[&UOp]) -> i64 {
    let mut total = 1;
    for range in ranges.iter().rev() {
        let Some(len) = range.src()[0].as_int().filter(|_| step_of_load(load, range) == Some(total)) else { break };
        total *= len;
    }
    total
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, shape: &Shape, blocks: &Blocks, lanes: i64) -> Option<()> {
    let lane = split_lanes(choice, shape.sizes.lanes, blocks.lanes)?;
    let (cut, part) = blocks.columns;
    let cut_column = split(choice, shape.sizes.columns[cut].0, shape.sizes.columns[cut].1, part)?;
    let whole = shape.sizes.columns[cut + 1..].iter().map(|(id, _)| *id);
    let columns: Vec<u32> = [cut_column].into_iter().chain(whole).collect();
    let nest = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id);
    let outside: Vec<u32> = nest.filter(|id| !columns.contains(id) && *id != lane).collect();
    for range in outside.iter().rev() {
        attempt(choice, Opt::Outermost { range: *range })?;
    }
    let terms: Vec<u32> = shape.sizes.terms.iter().map(|(id, _)| *id).collect();
    let (cut, _) = blocks.terms;
    let inner_terms = open_terms(choice, blocks.terms, &terms)?.split_off(cut);
    let fresh = next_range_id(&choice.kernel);
    let filled: Vec<u32> = (0..columns.len() as u32).map(|number| fresh + number).collect();
    let filled_lane = fresh + columns.len() as u32;
    let mut along: Vec<u32> = columns.iter().copied().chain([lane]).collect();
    for range in &terms[..=cut] {
        attempt(choice, Opt::Accumulate { range: *range, along: std::mem::take(&mut along) })?;
        along = filled.iter().copied().chain([filled_lane]).collect();
    }
    let terms_of_block = of_cut(&shape.sizes.terms, blocks.terms);
    // Tile by tile, in the order in which tiles read it: with steps over the lanes of a block, a tile would lie in few sets of the nearest cache.
    let width = blocks.tile_vectors * lanes;
    let of_tile = split(choice, filled_lane, blocks.lanes, width)?;
    let tiles: &[u32] = if of_tile == filled_lane { &[] } else { &[filled_lane] };
    let copied_lanes = copy(choice, &shape.lanes_load, &[tiles, &inner_terms, &[of_tile]])?;
    let copied_columns = match terms_last(shape, terms_of_block, lanes) {
        true => copy(choice, &shape.columns_load, &[&filled, &inner_terms])?,
        false => copy(choice, &shape.columns_load, &[&inner_terms, &filled])?,
    };
    let copied_terms = &copied_lanes[tiles.len()..tiles.len() + inner_terms.len()];
    for loops in [&inner_terms[..], &filled, &columns, copied_terms] {
        merge(choice, loops);
    }
    vectorize(choice, of_tile, lanes)?;
    upcast(choice, of_tile, blocks.tile_vectors)?;
    upcast(choice, filled[0], blocks.tile_columns)?;
    // The tile of lanes stays in the first cache while columns pass.
    choice.attempt(Opt::Reorder { range: filled[0], inner: filled_lane });
    fill_in_vectors(choice, shape, &copied_lanes, &copied_columns, lanes);
    store_in_squares(choice, &columns, lane, lanes);
    share_blocks(choice, outside.len());
    Some(())
}

/// Makes blocks of the lanes, or one that is longer than they are; gives the loop inside.
fn split_lanes(choice: &mut Attempts<'_>, (range, len): Loop, part: i64) -> Option<u32> {
    if part <= len {
        return split(choice, range, len, part);
    }
    let inner = next_range_id(&choice.kernel);
    attempt(choice, Opt::SplitMasked { range, len: u32::try_from(part).ok()? })?;
    Some(inner)
}

/// Whether the columns' copy lies along its terms: as the operand does, unless neighbouring columns would then be in one set of the nearest cache.
fn terms_last(shape: &Shape, terms: i64, lanes: i64) -> bool {
    let [along_terms, along_columns] = shape.sizes.columns_in_order;
    let crowds = terms * shape.sizes.bytes[1] % (LINES_OF_SETS * CACHE_LINE_BYTES) == 0;
    along_terms.min(lanes) > along_columns.min(lanes) && !crowds
}

/// Copies a load along loops; gives the loops of the copy.
fn copy(choice: &mut Attempts<'_>, load: &LoadId, loops: &[&[u32]]) -> Option<Vec<u32>> {
    let load = number_of_load(&choice.kernel, load)?;
    let first = next_range_id(&choice.kernel);
    let ranges = loops.concat();
    let copied = (0..ranges.len() as u32).map(|number| first + number).collect();
    attempt_copy(choice, load, ranges).then_some(copied)
}

/// Lanes of the loops that fill the copies.
fn fill_in_vectors(choice: &mut Attempts<'_>, shape: &Shape, of_lanes: &[u32], of_columns: &[u32], lanes: i64) {
    let [along, across] = shape.sizes.lanes_in_order;
    if let [terms @ .., lane] = of_lanes
        && vectorize(choice, *lane, lanes).is_some()
        && across > along
    {
        // As many terms as lanes: whole vectors of memory, turned around in registers. The innermost loop that is left of them is the one that lies in order, and is walked so.
        let left = terms.iter().rev().find(|id| has_range(choice, **id)).copied();
        if let Some(id) = left.filter(|id| upcast(choice, *id, lanes.min(across)).is_some()) {
            choice.attempt(Opt::Reorder { range: id, inner: *lane });
        }
    }
    if let Some(last) = of_columns.last() {
        let fits = [lanes, lanes / 2, lanes / 4]
            .into_iter()
            .any(|lanes| lanes >= 2 && vectorize(choice, *last, lanes).is_some());
        let _ = fits.then(|| upcast(choice, *last, 2));
    }
}

fn has_range(choice: &Attempts<'_>, id: u32) -> bool {
    crate::kernel::ranges::all_ranges(&choice.kernel).iter().any(|range| range_id(range) == id)
}

/// Results are stored in whole vectors of memory, turned around in registers.
fn store_in_squares(choice: &mut Attempts<'_>, columns: &[u32], lane: u32, lanes: i64) {
    let in_order = columns.iter().rev().find(|id| has_range(choice, **id)).copied();
    if in_order.is_some_and(|column| vectorize(choice, column, lanes).is_some()) {
        let _ = upcast(choice, lane, lanes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::by_hand::copies::tests::Convolution;

    fn target(threads: u32) -> Target {
        Target { threads, ..Target::test_avx512() }
    }

    /// The opts by hand of the gradient by a weight, and of a convolution: of images, their channels, the length of a side, and channels of the result.
    fn gradient(sizes: [i64; 4], threads: u32) -> String {
        Convolution::new(sizes).gradient_by_weight(&target(threads))
    }

    fn convolution(sizes: [i64; 4], threads: u32) -> String {
        Convolution::new(sizes).result(&target(threads))
    }

    #[test]
    fn gradients_by_weights_have_lanes_along_channels_of_the_result() {
        let opts = gradient([8, 64, 28, 64], 1);
        // The images stand outside of the rows that a block has: both are loops of blocks.
        assert!(opts.contains("accumulate(r4, ") && opts.contains("accumulate(r5, "), "{opts}");
        assert_eq!(opts.matches("stage(").count(), 2, "{opts}");
        let of_view = Convolution { is_view: true, ..Convolution::new([8, 64, 28, 64]) };
        assert_eq!(of_view.gradient_by_weight(&target(1)), opts, "it may begin anywhere");
        // No whole vectors: windows are copied once for all 34, of which one block has 40.
        let of_vectors = |channels: i64| {
            let target = Target { threads: 2, ..Target::test_avx2() };
            Convolution::new([4, 64, 28, channels]).gradient_by_weight(&target)
        };
        assert!(of_vectors(34).starts_with("split_masked(r0, 40)"), "{}", of_vectors(34));
        assert!(!of_vectors(64).contains("split_masked"), "{}", of_vectors(64));
        // Fewer channels than lanes.
        assert!(!gradient([8, 64, 28, 8], 1).contains("accumulate(r5, "));
    }

    #[test]
    fn small_images_have_lanes_along_channels_and_wide_ones_do_not() {
        let both_copied = |opts: String| opts.matches("stage(").count() == 2;
        assert!(both_copied(convolution([2, 256, 14, 256], 1)));
        assert!(both_copied(convolution([4, 512, 7, 512], 1)));
        // One image of few elements: of few terms, lanes along them would end in as many sums across lanes.
        assert!(both_copied(convolution([1, 64, 5, 64], 1)) && !both_copied(convolution([1, 512, 5, 512], 1)));
        assert!(!both_copied(convolution([2, 64, 64, 64], 1)));
    }

    #[test]
    fn wide_rows_have_lanes_along_channels_where_panels_are_far_and_leave_lanes_empty() {
        let both_copied = |sizes: [i64; 4]| {
            let target = Target { threads: 2, ..Target::test_avx2() };
            Convolution::new(sizes).result(&target).matches("stage(").count() == 2
        };
        assert!(both_copied([2, 192, 35, 96]));
        // Too few columns for a tile: a panel would lie along terms, and come from far like its rows.
        assert!(both_copied([4, 256, 14, 256]) && both_copied([4, 96, 14, 96]));
        // No part of the rows of a prime number of channels is a tile, but overlapping blocks of them are.
        assert!(both_copied([3, 500, 22, 67]));
        // Few terms: the panel stays in the nearest cache.
        assert!(!both_copied([2, 16, 35, 96]));
    }

    #[test]
    fn a_panel_counts_what_its_tiles_leave_over() {
        let both_copied = |sizes: [i64; 4]| convolution(sizes, 2).matches("stage(").count() == 2;
        // Panels of 112 columns are seven vectors, of which tiles of two leave one over; 224 are fourteen.
        assert!(both_copied([8, 64, 28, 64]) && !both_copied([8, 64, 56, 64]));
    }

    #[test]
    fn a_block_of_more_than_a_tile_is_copied_tile_by_tile() {
        // Tiles of two vectors of 16, of 128 lanes: the loop over them stands outside of the terms in the copy.
        let opts = convolution([8, 128, 28, 128], 2);
        assert!(opts.contains("split(r11, 32), stage(l1, r11, r8, r5, r6, r12)"), "{opts}");
        let of_one = convolution([8, 64, 14, 32], 2);
        assert!(of_one.contains("stage(l1, r7, r5, r6, r10)"), "{of_one}");
    }

    #[test]
    fn threads_share_blocks() {
        let opts = gradient([8, 64, 28, 64], 2);
        assert!(opts.contains("thread"), "{opts}");
    }
}
