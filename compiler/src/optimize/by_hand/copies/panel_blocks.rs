//! Panels of some terms at a time, where all terms of a contraction's columns are too much for the near caches.
//!
//! ```text
//! for b, y / 8 { fill all terms, 8, x ; for o { for 8 * x { reduce terms } } }                     from the third cache for each tile of rows
//!
//! for b, y / 8 { reduce c / 32 { fill 32, i, j, 8, x ; for o { for 8 * x { reduce 32 * i * j ; accumulate } } } ; for o, y, x { store } }
//! ```
//!
//! A convolution of many channels sums thousands of terms. A panel of all of them (`panels`) has room for few columns, so that the other operand is read again
//! and again, or lies in a far cache. Of some terms it is near, with as many columns as leave little over, and partial results stay in scratch between one
//! block of terms and the next.
//!
//! Partial results must not be added twice, so tiles divide blocks: where lengths admit none, nothing is done. How terms are cut depends on their numbers alone.
//!
//! Always: made of the opts split, reorder, outermost, accumulate, stage, merge, peel, vectorize, upcast and thread; if one that it needs is refused, nothing is done.
//! Tested below, by filetests of convolutions, and by the gradients that the test crate compares.

use super::pack::{attempt_copy, copied_bytes};
use super::panels::{FAR, ROWS_MIN_IN_ORDER, merge};
use super::product::{attempt, share_blocks};
use super::terms::{Cut, open_terms};
use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load};
use crate::optimize::by_hand::cuts::cut_decided;
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::by_hand::tile::{RegisterRoom, fits_registers, step_cycles};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// More terms than these are always cut. Panels of fewer have room beside them for enough columns, and blocks are made where the model says that a panel comes from far and leaves lanes over. Measured
/// on convolutions of 3 x 3 with AVX2: of 56 x 56, 2,304 terms are as fast in either way, and 4,608 two and a half times as fast in blocks; of 28 x 28, 864 and 1,152 terms to 128 take 0.93 of the time in blocks.
const TERMS_AT_ONCE: i64 = 2400;
/// Terms of a block, at most and at least: fewer are not worth loading and storing what they come to.
const TERMS_MAX: i64 = 1024;
const TERMS_MIN: i64 = 96;
/// Terms of a block that are enough: the longest that is no longer than this is taken, if there is one.
const TERMS_ENOUGH: i64 = 400;
/// Rows, at least: each copied element serves all of them.
const ROWS_MIN: i64 = 16;
/// Rows and vectors of a register tile, at most.
const TILE_ROWS_MAX: u32 = 14;
const TILE_VECTORS_MAX: u32 = 4;
/// Cycles for a copied element, and those of a tile's step beside its multiply-adds.
const COPY_CYCLES: f64 = 1.0;
const LOOP_CYCLES: f64 = 1.0;
/// Blocks for each thread, at least.
const SHARES: i64 = 2;
/// Columns of a block, at most.
const COLUMNS_MAX: i64 = 512;

/// Blocks of a contraction: a range and how many of its iterations belong to one, for the terms and for the outermost loop over columns.
#[derive(Debug, PartialEq)]
struct Blocks {
    terms: Cut,
    rows: u32,
    /// Loops over columns, outermost first.
    columns: Vec<u32>,
    part: (u32, i64),
    whole: bool,
    /// Elements of the widest type in a vector.
    lanes: u32,
    tile_vectors: u32,
    tile_rows: u32,
    /// Of a multiply-add.
    cycles: f64,
}

/// What blocks are chosen for: rows, lanes of a vector, most columns, what repeats all of it, and who shares the blocks.
struct Room {
    rows: i64,
    lanes: i64,
    most: i64,
    outside: i64,
    threads: i64,
}

/// Cycles of a multiply-add in the blocks that a contraction wants, if it wants some.
pub(super) fn cycles_in_blocks(contraction: &Contraction<'_>, target: &Target, threads: i64) -> Option<f64> {
    blocks_of(contraction, target, threads).map(|blocks| blocks.cycles)
}

/// Makes blocks of a contraction that wants some; whether it did.
pub(crate) fn make_panel_blocks(choice: &mut Attempts<'_>) -> bool {
    let found = find_blocks(choice);
    found.is_some_and(|(blocks, terms, load)| choice.all_or_none(|choice| make(choice, &blocks, &terms, &load)))
}

/// The blocks of the first contraction that wants some, its terms, and the load that is copied.
fn find_blocks(choice: &Attempts<'_>) -> Option<(Blocks, Vec<u32>, LoadId)> {
    contractions(&choice.kernel, |contraction| {
        let blocks = blocks_of(contraction, choice.target, i64::from(choice.threads))?;
        let terms = closed_ranges(contraction.reduction).iter().map(range_id).collect();
        Some((blocks, terms, contraction.load_id()?))
    })
}

/// The lengths of all loops of a reduction.
fn terms_of(contraction: &Contraction<'_>) -> Option<Vec<i64>> {
    closed_ranges(contraction.reduction).iter().map(|range| range.src()[0].as_int()).collect()
}

/// Lanes of vectors in which no type needs more than one.
fn lanes_of(contraction: &Contraction<'_>, target: &Target) -> i64 {
    let widest = contraction.load.dtype().bytes().max(accumulated_in(contraction.reduction.dtype()).bytes());
    i64::from(target.vector_bytes) / widest as i64
}

/// How a contraction is cut, if that is better than a panel of all terms.
fn blocks_of(contraction: &Contraction<'_>, target: &Target, threads: i64) -> Option<Blocks> {
    let own = closed_ranges(contraction.reduction);
    let lengths = terms_of(contraction)?;
    let mut all_rows = contraction.rows();
    let (Some(row), None) = (all_rows.next(), all_rows.next()) else { return None };
    let rows = row.src()[0].as_int()?;
    let below = postorder(open_operands(contraction.reduction));
    let loads: Vec<&UOp> = below.iter().filter(|node| node.op() == Op::Load).collect();
    let is_far = lengths.iter().product::<i64>() > TERMS_AT_ONCE;
    let is_lanes = contraction.terms_are_in_order(&own.iter().collect::<Vec<_>>(), target);
    let least = if is_lanes { ROWS_MIN_IN_ORDER } else { ROWS_MIN };
    if rows < least || loads.len() != 2 || !own.iter().all(|range| contraction.varies_with(range)) {
        return None;
    }
    let terms = cut_of_terms(&lengths)?;
    let of_block = lengths.iter().product::<i64>() / lengths[terms.0] * terms.1;
    let bytes = copied_bytes(contraction.dependencies, contraction.load);
    let lanes = lanes_of(contraction, target);
    // The copy and what it comes to share the second cache.
    let room = i64::from(target.costs.packed_bytes).min(target.cache_l2_bytes as i64 / 2) / bytes;
    let most = (room / of_block).min(room / rows).min(COLUMNS_MAX);
    // What both vary with, as groups, stands outside.
    let other = loads.into_iter().find(|load| *load != contraction.load)?;
    let is_shared = |id: u32| contraction.dependencies.get(other).contains(id);
    let mut in_order = columns_in_order(contraction, lanes)?;
    in_order.retain(|(id, _)| !is_shared(*id));
    if in_order.first().is_none_or(|(id, _)| contraction.lane_of_results().is_none_or(|lane| range_id(lane) != *id)) {
        return None;
    }
    let is_outside = |range: &&UOp| *range != row && in_order.iter().all(|(id, _)| *id != range_id(range));
    let outside = contraction.outputs.iter().filter(is_outside).map(|range| range.src()[0].max_value()).product();
    let room = Room { rows, lanes, most, outside, threads };
    let Columns { cycles, loops: columns, part, tile } = best_columns(&in_order, &room, target)?;
    // A panel of fewer terms is better, unless its columns leave lanes over.
    let panel = || contraction.cycles_with_far_panel(target, bytes).map(|cycles| cycles * FAR);
    if !is_far && panel().is_none_or(|panel| panel <= cycles) {
        return None;
    }
    let (range, len) = in_order[columns.len() - 1];
    Some(Blocks {
        terms,
        rows: range_id(row),
        columns,
        part: (range, part),
        whole: part == len,
        lanes: u32::try_from(lanes).ok()?,
        tile_vectors: tile.0,
        tile_rows: tile.1,
        cycles,
    })
}

/// The loops over columns in the order in which results lie in memory, innermost first, if the load is read awkwardly along the first.
fn columns_in_order(contraction: &Contraction<'_>, lanes: i64) -> Option<Vec<(u32, i64)>> {
    let lane = contraction.lane_of_results()?;
    let width = lane.src()[0].as_int()?;
    if width < lanes || !contraction.is_awkward(lane, width, 2 * lanes) {
        return None;
    }
    let mut others: Vec<(i64, u32, i64)> = Vec::new();
    for range in contraction.outputs.iter().filter(|range| *range != lane && contraction.varies_with(range)) {
        let Some(len) = range.src()[0].as_int().filter(|len| *len > 1) else { continue };
        others.push((contraction.step_of_store(range), range_id(range), len));
    }
    others.retain(|(step, ..)| *step > 1);
    others.sort_unstable();
    Some(
        std::iter::once((range_id(lane), width))
            .chain(others.into_iter().map(|(_, range, len)| (range, len)))
            .collect(),
    )
}

/// Which loop of the terms is cut, and in parts of how many iterations: the outermost one that leaves blocks of about as many terms as are enough.
fn cut_of_terms(lengths: &[i64]) -> Option<Cut> {
    let all: i64 = lengths.iter().product();
    let cuts = lengths.iter().enumerate().filter(|(_, len)| **len > 1).flat_map(|(number, &len)| {
        let parts = (1..=len / 2).filter(move |part| len % part == 0);
        parts.map(move |part| (number, part, all / len * part))
    });
    let fits = cuts.filter(|(.., terms)| (TERMS_MIN..=TERMS_MAX).contains(terms));
    // Of an outer loop what is inside stays one; past enough, less is better, and below it, more. Of an inner one a part should be as long as it may.
    let rank = |number: usize, terms: i64| match number {
        0 if terms <= TERMS_ENOUGH => TERMS_ENOUGH - terms,
        0 => terms,
        _ => TERMS_MAX - terms,
    };
    fits.min_by_key(|&(number, _, terms)| (number, rank(number, terms))).map(|(number, part, _)| (number, part))
}

/// The columns of a block.
struct Columns {
    /// Of a multiply-add.
    cycles: f64,
    /// Loops that it has, outermost first, and how many iterations of that one.
    loops: Vec<u32>,
    part: i64,
    /// Vectors and rows of the register tile.
    tile: (u32, u32),
}

/// The columns for which a multiply-add takes the fewest cycles.
fn best_columns(in_order: &[(u32, i64)], room: &Room, target: &Target) -> Option<Columns> {
    let mut best: Option<(f64, usize, i64, (u32, u32))> = None;
    let mut inside = 1;
    for (number, &(_, len)) in in_order.iter().enumerate() {
        let outside = in_order[number + 1..].iter().fold(room.outside, |count, (_, len)| count.saturating_mul(*len));
        for part in (1..=len.min(room.most / inside)).filter(|part| part * inside % room.lanes == 0) {
            let columns = part * inside;
            let parts = (len + part - 1) / part;
            let shares = outside.saturating_mul(parts);
            let Some((step, tile)) = best_tile(columns / room.lanes, room.rows, target) else { continue };
            if room.threads > 1 && shares < SHARES * room.threads {
                continue;
            }
            let again = (parts * part) as f64 / len as f64;
            let cost = (step / room.lanes as f64 + COPY_CYCLES / room.rows as f64) * again;
            // A percent is as good as nothing: then more columns.
            if best.is_none_or(|(least, ..)| cost < least * 1.01) {
                best = Some((cost, number, part, tile));
            }
        }
        inside *= len;
        if inside > room.most {
            break;
        }
    }
    let (cycles, number, part, tile) = best?;
    let loops = in_order[..=number].iter().rev().map(|(range, _)| *range).collect();
    Some(Columns { cycles, loops, part, tile })
}

/// Cycles of a vector's multiply-add, and the tile that divides a block and takes the fewest.
fn best_tile(vectors: i64, rows: i64, target: &Target) -> Option<(f64, (u32, u32))> {
    let room = RegisterRoom { registers: target.vector_registers, values: 1, divides: true };
    let tiles = (1..=TILE_VECTORS_MAX).flat_map(|v| (1..=TILE_ROWS_MAX).map(move |r| (v, r)));
    let divides = |&(v, r): &(u32, u32)| vectors % i64::from(v) == 0 && rows % i64::from(r) == 0;
    let cycles = |(v, r): (u32, u32)| (step_cycles(v, r) + LOOP_CYCLES) / f64::from(v * r);
    let fitting = tiles.filter(|&(v, r)| fits_registers(&room, v, r)).filter(divides);
    fitting.map(|tile| (cycles(tile), tile)).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, blocks: &Blocks, terms: &[u32], load: &LoadId) -> Option<()> {
    let mut columns = blocks.columns.clone();
    if !blocks.whole {
        columns[0] = next_range_id(&choice.kernel);
        attempt(choice, Opt::Split { range: blocks.part.0, len: u32::try_from(blocks.part.1).ok()? })?;
    }
    // What is walked inside of a block stands inside of all else.
    let nest = closed_ranges(&choice.kernel.src()[0]).iter().map(range_id);
    let outside: Vec<u32> = nest.filter(|id| !columns.contains(id) && *id != blocks.rows).collect();
    for range in outside.iter().rev() {
        attempt(choice, Opt::Outermost { range: *range })?;
    }
    let inner_terms = open_terms(choice, blocks.terms, terms)?;
    let fresh = next_range_id(&choice.kernel);
    let along = [blocks.rows].into_iter().chain(columns.iter().copied()).collect();
    attempt(choice, Opt::Accumulate { range: terms[blocks.terms.0], along })?;
    let filled: Vec<u32> = (1..=columns.len() as u32).map(|number| fresh + number).collect();
    let load = number_of_load(&choice.kernel, load)?;
    let copy = next_range_id(&choice.kernel);
    let ranges: Vec<u32> = inner_terms.iter().chain(&filled).copied().collect();
    let last_of_copy = copy + ranges.len() as u32 - 1;
    attempt_copy(choice, load, ranges).then_some(())?;
    [&inner_terms, &filled, &columns].into_iter().for_each(|loops| merge(choice, loops));
    let lanes = blocks.lanes;
    attempt(choice, Opt::Vectorize { range: filled[0], lanes })?;
    upcast(choice, filled[0], blocks.tile_vectors)?;
    upcast(choice, fresh, blocks.tile_rows)?;
    cut_decided(choice);
    for range in [last_of_copy, *columns.last()?, columns[0]] {
        // Of what is shorter than a vector some is better than nothing.
        let fits = [lanes, lanes / 2].into_iter().any(|lanes| choice.attempt(Opt::Vectorize { range, lanes }));
        let _ = fits && choice.attempt(Opt::Upcast { range, times: 2 });
    }
    share_blocks(choice, outside.len());
    Some(())
}

fn upcast(choice: &mut Attempts<'_>, range: u32, times: u32) -> Option<()> {
    if times < 2 { Some(()) } else { attempt(choice, Opt::Upcast { range, times }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::by_hand::copies::tests::Convolution;

    /// The opts by hand of a convolution of two images on a machine with AVX2.
    fn opts(channels: i64, side: i64, rows: i64, threads: u32) -> String {
        opts_of("f32", channels, side, rows, threads)
    }

    /// The same for elements of a type.
    fn opts_of(dtype: &'static str, channels: i64, side: i64, rows: i64, threads: u32) -> String {
        let target = Target { threads, ..Target::test_avx2() };
        Convolution { dtype, ..Convolution::new([2, channels, side, rows]) }.result(&target)
    }

    #[test]
    fn many_terms_go_by_blocks_and_few_do_not() {
        let many = opts(288, 28, 64, 2);
        assert!(many.contains("accumulate(r4") && many.contains("thread"), "{many}");
        assert!(!opts(64, 28, 64, 2).contains("accumulate"));
    }

    #[test]
    fn blocks_of_fewer_terms_leave_no_lanes_over() {
        let costs = crate::target::Costs { packed_bytes: 128 << 10, ..crate::target::Costs::cpu() };
        let target = Target { cache_l2_bytes: 512 << 10, costs, ..Target::test_avx2() };
        let opts = |side: i64| Convolution::new([8, 128, side, 128]).result(&target);
        // Rows of 28 columns are three and a half vectors, and four of them are fourteen.
        assert!(opts(28).contains("accumulate(r4"));
        assert!(!opts(32).contains("accumulate"));
    }

    #[test]
    fn lanes_are_as_many_as_fill_a_vector() {
        let (four, eight) = (opts(288, 28, 64, 1), opts_of("f64", 288, 28, 64, 1));
        let lanes = |opts: &str| -> Vec<String> {
            opts.split("vectorize(").skip(1).map(|rest| rest.split(')').next().unwrap_or("").to_string()).collect()
        };
        assert!(eight.contains("accumulate"), "{eight}");
        assert!(lanes(&four).iter().any(|lane| lane.ends_with(", 8")), "{four}");
        assert!(lanes(&eight).iter().all(|lane| lane.ends_with(", 4") || lane.ends_with(", 2")), "{eight}");
    }

    #[test]
    fn terms_are_cut_alike_for_any_number_of_threads_and_rows() {
        let cut = |opts: String| opts.split(", ").find(|opt| opt.starts_with("split(r4")).map(str::to_string);
        let first = cut(opts(288, 28, 64, 1));
        assert!(first.is_some());
        assert_eq!(
            [cut(opts(288, 28, 64, 2)), cut(opts(288, 28, 32, 1)), cut(opts(288, 56, 64, 1))],
            [&first; 3].map(Clone::clone)
        );
    }

    #[test]
    fn blocks_have_enough_terms_and_not_many() {
        assert_eq!(cut_of_terms(&[512, 3, 3]), Some((0, 32)));
        assert_eq!(cut_of_terms(&[8, 14, 14]), Some((0, 2)));
        // One image is too much: of each, some rows.
        assert_eq!(cut_of_terms(&[4, 56, 56]), Some((1, 4)));
        assert_eq!(cut_of_terms(&[2, 1031]), None);
    }
}
