//! Panels of some terms at a time whose lanes are terms, where all terms of a few results are more than scratch holds.
//!
//! ```text
//! for c { reduce b, y / 9 { fill i, j, b, 9, x ; for o, i, j { reduce b, 9 * x ; accumulate } } ; for o, i, j { store } }
//! ```
//!
//! The gradient of a convolution by its weight sums over all positions of all images: few results, each of very many terms. Of one window's positions all terms are copied once
//! (`panels`), as long as they fit; of large images they do not, and read in place each is gated or walks memory in steps. Of some rows of all images they fit again, and what these
//! come to is added to partial results in scratch.
//!
//! Partial results must not be added twice, so parts and tiles divide what they are parts of. How terms are cut depends on their numbers and the target alone.
//!
//! Always: made of the opts outermost, split, reorder, accumulate, stage, merge, vectorize, upcast and thread; if one that it needs is refused, nothing is done. Tested below, and by
//! the gradients that the test crate compares.

use super::pack::{attempt_copy, copied_bytes};
use super::panels::{ROWS_MIN, ROWS_MIN_IN_ORDER};
use super::product::{attempt, share_blocks};
use super::terms::{Cut, open_terms};
use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load, step_of_load};
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::by_hand::tile::{RegisterRoom, tile_of_two};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Terms of a block, at least: fewer are not worth a sum across lanes for each.
const TERMS_MIN: i64 = 512;
/// Columns of a block, at most: more share no more of what is loaded in a register tile.
const COLUMNS_MAX: i64 = 64;

/// A loop over columns and its length.
type Column = (u32, i64);

/// How a contraction is cut.
struct Blocks {
    load: LoadId,
    /// Loops of the reduction, outermost first.
    terms: Vec<u32>,
    cut: Cut,
    /// The loop over rows and its length, and the columns, outermost first.
    row: (u32, i64),
    columns: Vec<Column>,
    lanes: u32,
}

/// Makes blocks of a contraction that wants some; whether it did.
pub(crate) fn make_term_blocks(choice: &mut Attempts<'_>) -> bool {
    let found = contractions(&choice.kernel, |contraction| blocks_of(contraction, choice.target));
    found.is_some_and(|blocks| choice.all_or_none(|choice| make(choice, &blocks)))
}

fn blocks_of(contraction: &Contraction<'_>, target: &Target) -> Option<Blocks> {
    let own = closed_ranges(contraction.reduction);
    let lengths: Vec<i64> = own.iter().map(|range| range.src()[0].as_int()).collect::<Option<_>>()?;
    let mut all_rows = contraction.rows();
    let (Some(row), None) = (all_rows.next(), all_rows.next()) else { return None };
    let rows = row.src()[0].as_int()?;
    let is_in_order = contraction.terms_are_in_order(&own.iter().collect::<Vec<_>>(), target);
    let least = if is_in_order { ROWS_MIN_IN_ORDER } else { ROWS_MIN };
    if rows < least || !own.iter().all(|range| contraction.varies_with(range)) {
        return None;
    }
    let lane = own.last()?;
    let bytes = copied_bytes(contraction.dependencies, contraction.load);
    let widest = bytes.max(accumulated_in(contraction.reduction.dtype()).bytes() as i64);
    let lanes = i64::from(target.vector_bytes) / widest;
    let is_walked = |load: &UOp| step_of_load(load, lane) == Some(1) && load.src()[0].src().len() == 2;
    let below = postorder(open_operands(contraction.reduction));
    let mut others = below.iter().filter(|node| node.op() == Op::Load && *node != contraction.load);
    let (Some(other), None) = (others.next(), others.next()) else { return None };
    let width = lane.src()[0].as_int()?;
    if !is_walked(other) || width < lanes || !contraction.is_awkward(lane, width, 2 * lanes) {
        return None;
    }
    // What lies side by side is better off as lanes, and what fits in scratch is copied at once.
    let results = contraction.lane_of_results()?.src()[0].as_int()?;
    let all: i64 = lengths.iter().product();
    if results >= lanes || all.saturating_mul(bytes * results) <= i64::from(target.costs.scratch_bytes) {
        return None;
    }
    let room = i64::from(target.costs.packed_bytes) / bytes;
    let (columns, cut) = best_cut(contraction, other, &lengths, room)?;
    let terms = own.iter().map(range_id).collect();
    Some(Blocks {
        load: contraction.load_id()?,
        terms,
        cut,
        row: (range_id(row), rows),
        columns,
        lanes: u32::try_from(lanes).ok()?,
    })
}

/// The most columns, inner loops first, of which some terms fit, and how these are cut. Columns vary with the copied load alone.
fn best_cut(contraction: &Contraction<'_>, other: &UOp, lengths: &[i64], room: i64) -> Option<(Vec<Column>, Cut)> {
    let is_shared = |range: &UOp| contraction.dependencies.get(other).contains(range_id(range));
    let (mut columns, mut total) = (Vec::new(), 1);
    let mut best = None;
    for range in contraction.outputs.iter().rev().filter(|range| contraction.varies_with(range) && !is_shared(range)) {
        let Some(len) = range.src()[0].as_int().filter(|len| total * len <= COLUMNS_MAX) else { break };
        columns.insert(0, (range_id(range), len));
        total *= len;
        if let Some(cut) = cut_of_terms(lengths, room / total).filter(|_| total > 1) {
            best = Some((columns.clone(), cut));
        }
    }
    best
}

/// Which loop of the terms is cut, and in parts of how many iterations: the outermost one of which the longest part that fits leaves enough terms. The innermost stays whole.
fn cut_of_terms(lengths: &[i64], room: i64) -> Option<Cut> {
    let all: i64 = lengths.iter().product();
    let (_, outer) = lengths.split_last()?;
    outer.iter().enumerate().filter(|(_, len)| **len > 1).find_map(|(number, &len)| {
        let parts = (1..=len / 2).rev().filter(|part| len % part == 0);
        let of_part = |part: i64| all / len * part;
        let part = parts.into_iter().find(|part| of_part(*part) <= room)?;
        (of_part(part) >= TERMS_MIN).then_some((number, part))
    })
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, blocks: &Blocks) -> Option<()> {
    let columns: Vec<u32> = blocks.columns.iter().map(|(id, _)| *id).collect();
    let nest = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id);
    let outside: Vec<u32> = nest.filter(|id| !columns.contains(id) && *id != blocks.row.0).collect();
    for range in outside.iter().rev() {
        attempt(choice, Opt::Outermost { range: *range })?;
    }
    let inner_terms = open_terms(choice, blocks.cut, &blocks.terms)?;
    let fresh = next_range_id(&choice.kernel);
    let along = [blocks.row.0].into_iter().chain(columns.iter().copied()).collect();
    attempt(choice, Opt::Accumulate { range: blocks.terms[blocks.cut.0], along })?;
    let filled: Vec<u32> = (1..=columns.len() as u32).map(|number| fresh + number).collect();
    let load = number_of_load(&choice.kernel, &blocks.load)?;
    let copy = next_range_id(&choice.kernel);
    let ranges: Vec<u32> = filled.iter().chain(&inner_terms).copied().collect();
    let last_of_copy = copy + ranges.len() as u32 - 1;
    attempt_copy(choice, load, ranges).then_some(())?;
    // As many terms as lie in order in both operands are one loop.
    let mut lane = *inner_terms.last()?;
    for pair in inner_terms.windows(2).rev() {
        if !choice.attempt(Opt::Merge { range: pair[0], inner: pair[1] }) {
            break;
        }
        lane = pair[0];
    }
    let mut total = blocks.columns.iter().map(|(_, len)| len).product::<i64>();
    let mut column = filled[0];
    for pair in filled.windows(2).rev() {
        if !choice.attempt(Opt::Merge { range: pair[0], inner: pair[1] }) {
            (column, total) = (*filled.last()?, blocks.columns.last()?.1);
            break;
        }
    }
    let lanes = blocks.lanes;
    attempt(choice, Opt::Vectorize { range: lane, lanes })?;
    let room = RegisterRoom { registers: choice.target.vector_registers, values: 1, divides: true };
    let (rows, total) = (u32::try_from(blocks.row.1).ok()?, u32::try_from(total).ok()?);
    let (of_rows, of_columns) = tile_of_two(&room, [(rows, u32::MAX), (total, u32::MAX)]);
    for (range, times) in [(fresh, of_rows), (column, of_columns)] {
        if times >= 2 {
            attempt(choice, Opt::Upcast { range, times })?;
        }
    }
    if choice.attempt(Opt::Vectorize { range: last_of_copy, lanes }) {
        choice.attempt(Opt::Upcast { range: last_of_copy, times: 2 });
    }
    share_blocks(choice, outside.len());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::by_hand::copies::tests::Convolution;

    /// The opts by hand of the gradient by a weight on a machine with AVX-512.
    fn opts(images: i64, channels: i64, side: i64, rows: i64) -> String {
        Convolution::new([images, channels, side, rows]).gradient_by_weight(&Target::test_avx512())
    }

    #[test]
    fn large_images_go_by_blocks_of_rows() {
        let large = opts(8, 32, 128, 8);
        assert!(large.contains("accumulate(") && large.contains("stage("), "{large}");
        // They fit in scratch, or too few rows would read them.
        assert!(!opts(2, 32, 40, 8).contains("accumulate("));
        assert!(!opts(8, 32, 128, 4).contains("accumulate("));
    }

    #[test]
    fn blocks_have_enough_terms_and_fit() {
        assert_eq!(cut_of_terms(&[8, 135, 97], 65_536 / 9), Some((1, 9)));
        assert_eq!(cut_of_terms(&[8, 64, 64], 20_000), Some((0, 4)));
        // Of a prime length, one; and what leaves too few terms is not cut.
        assert_eq!(cut_of_terms(&[8, 131, 97], 7000), Some((1, 1)));
        assert_eq!(cut_of_terms(&[2, 131, 97], 7000), None);
        assert_eq!(cut_of_terms(&[131], 100), None);
    }
}
