//! The register tile around a reduction: how many vectors along the range that became lanes, how many rows along another.
//!
//! A step of the reduction loads each of the tile's vectors once and each row's element once, and multiplies each with each. The accumulators, the vectors and
//! one row's element live in registers at once, and one register is left for what the code generator needs: past that it moves accumulators to memory and
//! back in each step. Of the tiles that fit, the one with the fewest cycles for an element is taken (`register_tile`).
//!
//! Tested below for the register files of common machines, and by the kernels that the choice by hand gives (filetests).

use super::copies::pack::PASSES_MIN;
use super::crossing::square;
use super::lanes::interleave::lines_together;
use super::survey::{AccessPattern, InnerLoops, Survey};
use crate::ir::{AxisKind, UOp};
use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::{LOOP_OF_VECTORS, SHARES_PER_THREAD, UNROLLED_OPS_MAX};
use crate::target::Target;

/// Vectors of a tile with rows, at most, and where these are all of the range.
const VECTORS_MAX: u32 = 4;
const ALL_VECTORS_MAX: u32 = 8;
/// Rows of a tile, at most.
const ROWS_MAX: u32 = 14;
/// Rows along one of two ranges, at most, where terms are lanes: each is read along memory by itself.
const VECTORS_OF_TWO_MAX: u32 = 8;
/// Multiply-adds, and loads, that begin in one cycle.
pub(crate) const STARTS_PER_CYCLE: f64 = 2.0;
/// Cycles until the result of a multiply-add can be added to.
pub(crate) const LATENCY: f64 = 4.0;
/// What a load costs beside its cycle, in cycles: some come from the second cache.
const LOAD_CYCLES: f64 = 0.5;
/// Registers of machines with AVX-512, whose multiply-adds take an element from memory for all lanes: a row then costs no instruction beside them. What a load costs there for a choice between tiles, the cycles
/// that sums wait which just hide the latency, and those of a vector that comes from the second cache. Measured on products of 512 x 256 by 256 x 256 and by 256 x 196, two cores of Zen 5: with AVX-512 4 x 6,
/// 4 x 4, 2 x 13 and 2 x 14 take the same time but for what is computed twice; with AVX2, where such an element is loaded apart, 2 x 6 and 3 x 4 do, 2 x 5 takes 1.03 of it, 3 x 3 1.06, 4 x 2 1.08, 1 x 12 1.12.
const REGISTERS_OF_BROADCASTS: u32 = 32;
const BROADCAST_LOAD_CYCLES: f64 = 0.25;
const WAIT_CYCLES: f64 = 0.3;
const BROADCAST_FAR_CYCLES: f64 = 0.5;

/// Cycles that a vector of a panel takes beside its own where it comes from the second cache. Measured on convolutions of 256 channels of 14 x 14, one core with AVX-512 (Zen 5), lanes along rows: of 144 terms,
/// four vectors by four columns take 9.4 ms and two by fourteen 8.3; and of 64 channels of 56 x 56, one core of Granite Rapids: seven vectors by three rows 12.5 ms, four by six 10.2.
pub(crate) const FAR_LOAD_CYCLES: f64 = 1.0;

/// A register tile: vectors along the vector range, rows along another.
#[derive(Default)]
pub(crate) struct Tile {
    pub(crate) vectors: u32,
    pub(crate) row: Option<(u32, u32)>,
    /// Whether loads walk memory along the rows and stores along the vectors.
    pub(crate) crosses: bool,
}

pub(crate) fn choose_tile(survey: &Survey, target: &Target, vector_id: u32, lanes: u32) -> Tile {
    let registers = registers_of_vectors(target);
    let budget = registers * 3 / 4;
    let vectors_in_range = (survey.len(vector_id) as u32).div_ceil(lanes);
    let main = survey
        .inner
        .iter()
        .filter(|inner| !inner.is_local_buffer && inner.depends.contains(vector_id))
        .max_by(|a, b| a.weight.total_cmp(&b.weight));
    let Some(reduction) = main else {
        let kept = rows_of_kept(survey, target, Some(vector_id));
        return kept.map_or_else(
            || copy_tile(survey, target, vector_id, lanes),
            |row| Tile { vectors: 1, row: Some(row), crosses: false },
        );
    };
    // What is repeated already has accumulators for each copy.
    let is_copied = |range: &&UOp| is_copy(range) && reduction.depends.contains(range_id(range));
    let copies: i64 = survey.ranges.values().filter(is_copied).map(|range| range.src()[0].max_value()).product();
    let per_reduction = (budget / (reduction.count as u32 * copies as u32)).max(1);
    let inside = |access: &&AccessPattern| reduction.holds(access);
    let is_reused =
        |access: &&AccessPattern, id: u32| !access.depends.contains(id) && access.depends.contains(vector_id);
    let reused = |id: u32| -> f64 {
        let accesses = survey.accesses.iter().filter(inside).filter(|access| is_reused(access, id));
        accesses.map(|access| access.weight).sum()
    };
    // Rows of a symbolic range are split in two stores, so that only panels can be shared out: there must be enough of them.
    let is_of_threads = survey.work >= f64::from(target.costs.second_thread_ops);
    let enough_panels = vectors_in_range >= 4 * target.threads || !is_of_threads;
    let once_a_row = |id: u32| survey.inner.iter().any(|inner| !inner.is_inside(vector_id) && inner.is_inside(id));
    let rows_in = |id: u32| match survey.len(id) {
        len if len < 2 && enough_panels && !once_a_row(id) => survey.most(id),
        len => len,
    };
    let row = survey
        .outputs
        .iter()
        .map(range_id)
        .filter(|id| *id != vector_id && reduction.depends.contains(*id) && rows_in(*id) >= 2)
        .map(|id| (reused(id), id))
        .filter(|(reuse, _)| *reuse > 0.0)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match row {
        Some((_, id)) => {
            let room = RegisterRoom { registers, values: reduction.count as u32, divides: target.blocks.is_some() };
            let near = vectors_near(survey, target, reduction, vector_id);
            let most = rows_in(id) as u32;
            let tile = |near: u32| best_tile_of_panel(&room, near, vectors_in_range, most);
            let (_, mut vectors, mut rows) = tile(near);
            // Many rows would pass a copy (`pack`), if there is room for one.
            if i64::from(most / rows.max(1)) >= PASSES_MIN {
                (_, vectors, rows) = tile(near.min(vectors_packed(survey, target, reduction, vector_id)));
            }
            Tile { vectors, row: (rows >= 2).then_some((id, rows)), crosses: false }
        }
        None => {
            let most = vectors_in_range.min(16).min(per_reduction);
            let vectors =
                if copies > 1 { vectors_beside(vectors_in_range, most) } else { even_part(vectors_in_range, most) };
            let vectors = match rows_around(survey, reduction, vector_id) {
                Some(around) if is_of_threads => vectors_of_threads(vectors_in_range, vectors, around, target.threads),
                _ => vectors,
            };
            Tile { vectors, ..Tile::default() }
        }
    }
}

/// How many vectors along a range stay near while rows pass: all of them, unless a reduction reads them from a panel in local memory.
fn vectors_near(survey: &Survey, target: &Target, reduction: &InnerLoops, vector_id: u32) -> u32 {
    let Some(term) = reduction.ranges.last().map(range_id).filter(|_| target.blocks.is_none()) else { return u32::MAX };
    let is_of_panel = |access: &AccessPattern| {
        let is_local = !access.is_store && !access.is_load_of_memory && reduction.holds(access);
        let step = access.steps.get(&term).map_or(0, |step| step.unsigned_abs() * access.bytes as u64);
        is_local && access.steps.get(&vector_id) == Some(&1) && step > u64::from(target.vector_bytes)
    };
    let terms = reduction.ranges.iter().map(|range| survey.inner_len(reduction, range_id(range))).product();
    if survey.accesses.iter().any(is_of_panel) { near_vectors(target, terms) } else { u32::MAX }
}

/// How many vectors along a range may be packed, if a reduction reads them from memory in lines that lie apart: all of the others come from the second cache, and by parts of lines.
fn vectors_packed(survey: &Survey, target: &Target, reduction: &InnerLoops, vector_id: u32) -> u32 {
    let Some(term) = reduction.ranges.last().map(range_id).filter(|_| target.blocks.is_none()) else { return u32::MAX };
    let is_apart = |access: &AccessPattern| {
        let step = access.steps.get(&term).map_or(0, |step| step.unsigned_abs() * access.bytes as u64);
        let is_walked = access.is_load_of_memory && access.steps.get(&vector_id) == Some(&1);
        is_walked && reduction.holds(access) && step > u64::from(target.vector_bytes)
    };
    if !survey.accesses.iter().any(is_apart) {
        return u32::MAX;
    }
    let terms: i64 = reduction.ranges.iter().map(|range| survey.inner_len(reduction, range_id(range))).product();
    let bytes = terms.max(1).saturating_mul(i64::from(target.vector_bytes));
    u32::try_from(i64::from(target.costs.packed_bytes) / bytes).unwrap_or(u32::MAX)
}

fn is_copy(range: &UOp) -> bool {
    range.as_range().is_some_and(|arg| arg.kind == AxisKind::Unroll)
}

/// The rows that share a contraction whose results a local buffer keeps for each row, as the scores of attention: which range, and how many of it. What is stored
/// is computed from the buffer, so the tile is around the loop that fills it, which gets its vectors later.
pub(crate) fn rows_of_kept(survey: &Survey, target: &Target, vector_id: Option<u32>) -> Option<(u32, u32)> {
    let mut best: Option<(f64, u32, u32)> = None;
    let (contractions, fills): (Vec<_>, Vec<_>) = survey.inner.iter().partition(|inner| !inner.is_local_buffer);
    for (fill, column) in fills.iter().flat_map(|fill| fill.ranges.iter().map(move |range| (fill, range_id(range)))) {
        let inside =
            |access: &&AccessPattern, inner: &InnerLoops| inner.holds(access) && access.depends.contains(column);
        let in_lanes = |inner: &InnerLoops| {
            survey.accesses.iter().any(|access| inside(&access, inner) && access.steps.get(&column) == Some(&1))
        };
        // What is copied already has a tile of its own.
        let is_copied = |inner: &InnerLoops| {
            let mut copies = survey.ranges.values().filter(|range| is_copy(range));
            copies.any(|range| inner.is_inside(range_id(range)))
        };
        let fits = |inner: &&&InnerLoops| inner.is_inside(column) && in_lanes(inner) && !is_copied(inner);
        for contraction in contractions.iter().filter(fits) {
            for row in survey.outputs.iter().map(range_id).filter(|row| Some(*row) != vector_id) {
                let shared = survey
                    .accesses
                    .iter()
                    .filter(|access| inside(access, contraction) && !access.depends.contains(row));
                let reuse: f64 = shared.map(|access| access.weight).sum();
                let elements = fill.ranges.iter().map(|range| survey.most(range_id(range))).product::<i64>();
                let kept =
                    i64::from(target.costs.kept_bytes) / elements.saturating_mul(survey.element_bytes as i64).max(1);
                let most = u32::try_from(survey.len(row).min(kept)).unwrap_or(0);
                let is_around = contraction.is_inside(row) && fill.is_inside(row) && most >= 2;
                if !is_around || reuse <= best.map_or(0.0, |(other, ..)| other) {
                    continue;
                }
                let lanes = survey.lanes(target, column, survey.len(column));
                let room = RegisterRoom {
                    registers: target.vector_registers,
                    values: contraction.count as u32,
                    divides: false,
                };
                let vectors = (survey.len(column) as u32).div_ceil(lanes);
                let (_, rows) = register_tile(&room, vectors, most);
                best = Some((reuse, row, rows));
            }
        }
    }
    best.filter(|(_, _, rows)| *rows >= 2 && target.blocks.is_none()).map(|(_, row, rows)| (row, rows))
}

/// Registers of whole vectors. Where threads run in blocks a register holds 4 bytes, and half of a thread's are left so that more threads have some.
fn registers_of_vectors(target: &Target) -> u32 {
    match target.blocks {
        Some(_) => target.vector_registers * 4 / target.vector_bytes / 2,
        None => target.vector_registers,
    }
}

/// The tile of a kernel without reductions on the vector range: a square where memory is crossed (`crossing`), else a few vectors, which hide the loop.
fn copy_tile(survey: &Survey, target: &Target, vector_id: u32, lanes: u32) -> Tile {
    square(survey, target, vector_id, lanes).unwrap_or_else(|| {
        let vectors = (survey.len(vector_id) as u32).div_ceil(lanes);
        // A long body hides the loop by itself, and code generation takes time by its length.
        let most = (UNROLLED_OPS_MAX / survey.body_ops.max(1)).clamp(1, 4).min(vectors);
        let vectors = lines_together(survey, target, vector_id, lanes * most) / lanes;
        Tile { vectors: vectors.max(1), row: None, crosses: false }
    })
}

/// A part of at most `most` that divides `len`, if there is one not much smaller; else `most`.
pub(crate) fn even_part(len: u32, most: u32) -> u32 {
    let even = (most.div_ceil(2).max(1)..=most).rev().find(|part| len.is_multiple_of(*part));
    even.unwrap_or(most).max(1)
}

/// Of so many vectors, how many go beside each other where at most `most` do and at least half of these: those that leave the least over, and of these the most.
pub(crate) fn vectors_beside(vectors: u32, most: u32) -> u32 {
    let passes = |beside: &u32| vectors.div_ceil(*beside) * beside;
    (most.div_ceil(2).max(1)..=most.max(1)).rev().min_by_key(passes).unwrap_or(1)
}

/// How often a reduction is computed for other rows of results, along all ranges around it but that of the lanes.
fn rows_around(survey: &Survey, reduction: &InnerLoops, vector_id: u32) -> Option<u32> {
    let around = survey.outputs.iter().map(range_id).filter(|id| *id != vector_id && reduction.is_inside(*id));
    u32::try_from(around.map(|id| survey.len(id).max(1)).product::<i64>()).ok()
}

/// Of at most so many vectors beside each other, how many leave the threads shares that are even, where reductions of a few rows alone are shared out: the most of those that let
/// the busiest thread do the least.
///
/// ```text
/// 9 vectors, up to 9 beside each other, 2 threads: 5, and then 4    alone: 9
/// ```
fn vectors_of_threads(vectors: u32, most: u32, around: u32, threads: u32) -> u32 {
    let shares = |beside: u32| vectors.div_ceil(beside).saturating_mul(around);
    if shares(most) >= threads * SHARES_PER_THREAD {
        return most;
    }
    let busiest = |beside: &u32| f64::from(shares(*beside).div_ceil(threads)) * (f64::from(*beside) + LOOP_OF_VECTORS);
    (1..=most).rev().min_by(|a, b| busiest(a).total_cmp(&busiest(b))).unwrap_or(most)
}

/// The registers that a tile may take, and the values that each of its elements accumulates.
pub(crate) struct RegisterRoom {
    pub(crate) registers: u32,
    pub(crate) values: u32,
    /// Whether the tile must divide both lengths: two threads must not store what overlaps.
    pub(crate) divides: bool,
}

/// Whether a tile's accumulators have registers at once, with its vectors and an element of a row; or with its rows' elements and a vector, which the code generator finds only where
/// a quarter of all registers is left. Measured on two cores with AVX2, convolutions in tiles of two rows: five vectors take 0.77 of the time of three rows by three vectors, six twice the time of six by two.
pub(crate) fn fits_registers(room: &RegisterRoom, vectors: u32, rows: u32) -> bool {
    let accumulators = vectors * rows * room.values;
    (vectors + 2).min(rows + room.registers / 4) + accumulators <= room.registers
}

/// Cycles of one step of a tile, as copies and other ways are weighed against it.
pub(crate) fn step_cycles(vectors: u32, rows: u32) -> f64 {
    let loads = f64::from(vectors + rows);
    starts(vectors, rows).max(LATENCY) + loads * LOAD_CYCLES
}

/// The same with a far panel's loads, as tiles are weighed against each other.
fn chosen_step_cycles(room: &RegisterRoom, from_far: u32, vectors: u32, rows: u32) -> f64 {
    if room.registers < REGISTERS_OF_BROADCASTS || room.divides {
        return step_cycles(vectors, rows) + FAR_LOAD_CYCLES * f64::from(from_far);
    }
    let loads = f64::from(vectors + rows) * BROADCAST_LOAD_CYCLES + f64::from(from_far) * BROADCAST_FAR_CYCLES;
    starts(vectors, rows).max(LATENCY + WAIT_CYCLES) + loads
}

/// Cycles in which the multiply-adds of a step begin, or its loads if these take longer.
fn starts(vectors: u32, rows: u32) -> f64 {
    f64::from((vectors * rows).max(vectors + rows)) / STARTS_PER_CYCLE
}

/// How often an element is computed where a length is walked in parts, of which the last overlaps the one before.
pub(crate) fn computed_again(len: u32, part: u32) -> f64 {
    f64::from(len.div_ceil(part) * part) / f64::from(len.max(1))
}

/// Vectors and rows of which any tile leaves next to nothing over.
const MANY: u32 = 1 << 16;

/// Cycles of a vector's multiply-add in the best tile that there is, of lengths that it divides.
pub(crate) fn multiply_add_cycles(room: &RegisterRoom) -> f64 {
    best_tile(room, MANY, MANY).0
}

/// Vectors and rows of the tile that takes the fewest cycles for an element, of a loop over so many vectors and rows.
pub(crate) fn register_tile(room: &RegisterRoom, vectors_in_range: u32, rows_in_range: u32) -> (u32, u32) {
    let (_, vectors, rows) = best_tile(room, vectors_in_range, rows_in_range);
    (vectors, rows)
}

/// The same, behind the cycles that it takes for an element, what is computed twice included.
pub(crate) fn best_tile(room: &RegisterRoom, vectors_in_range: u32, rows_in_range: u32) -> (f64, u32, u32) {
    best_tile_of_panel(room, u32::MAX, vectors_in_range, rows_in_range)
}

/// Of how many vectors of a panel all terms stay in the nearest cache while rows pass.
pub(crate) fn near_vectors(target: &Target, terms: i64) -> u32 {
    let bytes = terms.max(1).saturating_mul(i64::from(target.vector_bytes));
    u32::try_from(target.cache_l1_bytes as i64 / 2 / bytes).unwrap_or(u32::MAX)
}

/// The same, of a panel of which so many vectors stay in the nearest cache. A panel is read in steps of its columns, so those of a tile of more come from the second cache, late.
pub(crate) fn best_tile_of_panel(
    room: &RegisterRoom,
    near: u32,
    vectors_in_range: u32,
    rows_in_range: u32,
) -> (f64, u32, u32) {
    let divides = |len: u32, part: u32| !room.divides || len.is_multiple_of(part);
    let fits = |vectors: u32, rows: u32| {
        let is_whole = divides(vectors_in_range, vectors) && divides(rows_in_range, rows);
        is_whole && fits_registers(room, vectors, rows)
    };
    let of_element = |step: f64, vectors: u32, rows: u32| {
        let again = computed_again(vectors_in_range, vectors) * computed_again(rows_in_range, rows);
        step / f64::from(vectors * rows) * again
    };
    let (mut least, mut best) = (f64::INFINITY, (f64::INFINITY, 1, 1));
    let all = (VECTORS_MAX + 1..=ALL_VECTORS_MAX).filter(|vectors| *vectors == vectors_in_range);
    for vectors in (1..=VECTORS_MAX.min(vectors_in_range.max(1))).chain(all) {
        for rows in (1..=ROWS_MAX.min(rows_in_range.max(1))).filter(|rows| fits(vectors, *rows)) {
            let from_far = if vectors <= near { 0 } else { vectors };
            let step = step_cycles(vectors, rows) + FAR_LOAD_CYCLES * f64::from(from_far);
            least = of_element(step, vectors, rows).min(least);
            let needed = of_element(chosen_step_cycles(room, from_far, vectors, rows), vectors, rows);
            if needed < best.0 {
                best = (needed, vectors, rows);
            }
        }
    }
    (least, best.1, best.2)
}

/// Rows of each of two ranges where lanes are terms of a reduction, as in products of what lies in order along these: each row is a vector of its own, and those of the
/// range that has fewer stay in registers while the others come by one at a time. Each side is a length, and how many go beside each other at most.
pub(crate) fn tile_of_two(
    room: &RegisterRoom,
    [(first, first_most), (second, second_most)]: [(u32, u32); 2],
) -> (u32, u32) {
    let most = |len: u32, most: u32| len.min(most).clamp(1, VECTORS_OF_TWO_MAX);
    let tiles = (1..=most(first, first_most)).flat_map(|a| (1..=most(second, second_most)).map(move |b| (a, b)));
    let divides = |len: u32, part: u32| !room.divides || len.is_multiple_of(part);
    let fits = |&(a, b): &(u32, u32)| {
        let is_whole = divides(first, a) && divides(second, b);
        is_whole && a * b * room.values + a.min(b) < room.registers
    };
    let cycles = |&(a, b): &(u32, u32)| {
        step_cycles(a, b) / f64::from(a * b) * computed_again(first, a) * computed_again(second, b)
    };
    tiles.filter(fits).min_by(|x, y| cycles(x).total_cmp(&cycles(y))).unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(registers: u32, vectors: u32, rows: u32) -> (u32, u32) {
        register_tile(&RegisterRoom { registers, values: 1, divides: false }, vectors, rows)
    }

    #[test]
    fn tiles_fill_the_registers_and_leave_room_for_what_is_loaded() {
        assert_eq!(tile(16, 64, 512), (2, 6));
        assert_eq!(tile(32, 64, 516), (4, 6));
        assert_eq!(tile(16, 1, 516), (1, 12));
        // All vectors of a row beside two of another operand.
        assert_eq!([tile(16, 5, 32), tile(16, 6, 36), tile(32, 8, 3)], [(5, 2), (2, 6), (4, 3)]);
    }

    #[test]
    fn a_tile_of_a_panel_has_more_rows_where_its_vectors_come_from_afar() {
        let room = RegisterRoom { registers: 32, values: 1, divides: false };
        let tile = |near: u32| {
            let (_, vectors, rows) = best_tile_of_panel(&room, near, 7, 64);
            (vectors, rows)
        };
        assert_eq!([tile(7), tile(u32::MAX)], [(7, 3), (7, 3)]);
        assert_eq!(tile(0), (2, 13));
        // Half of 32 KiB has room for one vector of 144 terms, and for none of 576.
        assert_eq!([144, 576].map(|terms| near_vectors(&Target::test_avx512(), terms)), [1, 0]);
    }

    #[test]
    fn rows_of_two_ranges_fill_the_registers_and_leave_little_over() {
        let tile = |registers: u32, first: u32, second: u32| {
            tile_of_two(&RegisterRoom { registers, values: 1, divides: false }, [(first, u32::MAX), (second, u32::MAX)])
        };
        // Nine windows are three times three, not three times four.
        assert_eq!([tile(32, 64, 9), tile(16, 64, 9), tile(32, 50, 25)], [(8, 3), (4, 3), (5, 5)]);
        assert_eq!([tile(32, 4, 4096), tile(16, 2, 2), tile(16, 1, 3)], [(4, 6), (2, 2), (1, 3)]);
    }

    #[test]
    fn vectors_beside_each_other_leave_little_over() {
        let beside = |vectors: u32, most: u32| vectors_beside(vectors, most);
        assert_eq!(
            [beside(4, 4), beside(8, 4), beside(7, 6), beside(5, 4), beside(7, 8), beside(3, 1)],
            [4, 4, 4, 3, 7, 1]
        );
    }

    #[test]
    fn few_vectors_are_shared_out_evenly() {
        let vectors = |vectors: u32, most: u32, around: u32| vectors_of_threads(vectors, most, around, 2);
        assert_eq!([vectors(9, 9, 1), vectors(16, 12, 1), vectors(2, 2, 1), vectors(1, 1, 1)], [5, 8, 1, 1]);
        // Rows that are reduced apart are shared out, and whole.
        assert_eq!([vectors(9, 9, 8), vectors(9, 9, 3), vectors(90, 9, 1)], [9, 5, 9]);
    }

    #[test]
    fn a_tile_divides_what_threads_share() {
        let room = RegisterRoom { registers: 31, values: 1, divides: true };
        assert_eq!(register_tile(&room, 250, 1000), (2, 10));
        assert_eq!(register_tile(&room, 7, 11), (1, 11));
    }

    #[test]
    fn where_elements_of_rows_are_broadcast_from_memory_a_tile_leaves_little_over() {
        // Of thirteen vectors two leave one over, three two and four three.
        assert_eq!([tile(32, 13, 512), tile(32, 12, 512)], [(2, 14), (4, 6)]);
        // Where each is loaded by itself, larger tiles are worth some that is computed twice: 512 rows are 86 of six.
        assert_eq!([tile(16, 25, 512), tile(16, 15, 512)], [(2, 6), (3, 3)]);
    }

    /// The opts of what is computed from the scores of all keys for each query: exponents, less the largest.
    fn kept_scores(queries: i64, keys: i64, width: i64) -> String {
        let text = format!(
            "graph %scores(y: f32[8, {queries}, {keys}], q: f32[8, {queries}, {width}], k: f32[8, {keys}, {width}]) {{
  a = reshape q, [8, {queries}, 1, {width}]
  b = expand a, [8, {queries}, {keys}, {width}]
  c = reshape k, [8, 1, {keys}, {width}]
  d = expand c, [8, {queries}, {keys}, {width}]
  p = mul b, d
  scores = reduce p, add (3)
  kept = materialize scores, (2)
  most = reduce kept, max (2)
  m = reshape most, [8, {queries}, 1]
  n = expand m, [8, {queries}, {keys}]
  e = sub kept, n
  f = exp2 e
  done = store y, f
  z = sink done
  return z
}}"
        );
        let ast = crate::ir::text::parse(&text).expect("a graph").roots[0].clone();
        let loops = crate::pipeline::loops_of(&ast, &mut crate::watch::Silent);
        crate::optimize::Opts::List(crate::optimize::choose(&loops, &Target::test_avx2()).applied).to_string()
    }

    #[test]
    fn rows_share_the_contraction_of_which_results_are_kept() {
        let opts = kept_scores(256, 256, 64);
        assert!(opts.contains("upcast(r1, 4)") && opts.contains("pack("), "{opts}");
        // Of four rows 64 KiB would be kept, of two 32.
        assert!(kept_scores(256, 4096, 16).contains("upcast(r1, 2)"), "{}", kept_scores(256, 4096, 16));
    }

    #[test]
    fn a_tile_does_not_do_much_twice() {
        // Seven vectors are one tile of three rows, not two of four vectors.
        assert_eq!(tile(32, 7, 64), (7, 3));
        // Of 8 rows, six and six would be half again as much.
        assert_eq!(tile(16, 64, 8), (2, 4));
        assert_eq!(tile(16, 3, 60), (3, 3));
    }
}
