//! Panels: what a contraction reads awkwardly is copied to scratch, block by block of the results, in the order in which a register tile reads it.
//!
//! A convolution is a product of matrices of which one is never written out: its columns are windows of a padded image. Read in place, its rows are gated, walk
//! memory in steps or are shorter than vectors, and that is paid for again with each row of the other matrix. So a block of columns is copied once, all terms of
//! the reduction for some neighbouring results, and serves all rows:
//!
//! ```text
//! for b, o, y, x { reduce c, i, j }                    for b, y / 4 { fill c, i, j, 4, x ; for o { for 4 * x { reduce c * i * j } } }
//! ```
//!
//! The copy costs some cycles for an element, and without it each multiply-add would pay: from a few rows on it is worth it (`ROWS_MIN`). How many columns a
//! block has follows from scratch memory (`Target::scratch_bytes`), from the caches that it should stay in (`Costs::packed_bytes`), and from how evenly columns fill
//! the tile's vectors.
//!
//! Where results that lie side by side are too few for lanes, as those of the gradient by a weight, terms of the reduction become lanes: then the copy is
//! consecutive along these, as the other operand is.
//!
//! Always: made of the opts split, outermost, stage, merge; if the copy is refused, nothing is done. Tested by filetests of convolutions.

use super::pack::{LOAD_AND_STORE, MASKED_LOAD_AND_STORE, attempt_copy, copied_bytes};
use super::product::attempt;
use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load, step_of_load};
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::by_hand::tile::{
    FAR_LOAD_CYCLES, RegisterRoom, best_tile_of_panel, computed_again, multiply_add_cycles, near_vectors, step_cycles,
    tile_of_two,
};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Rows that share a panel, at least.
pub(crate) const ROWS_MIN: i64 = 8;
/// The same where terms can be lanes without a copy: both operands have them in order. Then what a copied element costs must be less than what sums across
/// lanes and twice the loads of a tile of four by four cost its multiply-adds. Measured on x times the transpose of a matrix of 4096 x 4096, two cores with AVX2:
/// 8 rows take 18 ms with a copy and 5 without, 16 rows 23 and 11, 32 rows 29 and 29, 64 rows 41 and 50.
pub(crate) const ROWS_MIN_IN_ORDER: i64 = 32;
/// Cycles of a lane that is stored by itself.
const STORED_APART: f64 = 1.5;
/// Cycles that the loads of a tile in lanes of terms take beside its multiply-adds, for each of these.
const LOADS_OF_TERMS: f64 = 0.125;
/// Rows of results that are short: three quarters of a vector.
const SHORT_ROWS: (i64, i64) = (4, 3);
/// Vectors of the register tile that columns should fill.
const VECTORS: i64 = 2;
/// Blocks of columns of more than so many elements are no better than shorter ones.
pub(super) const COLUMNS_MAX: i64 = 512;
/// Cycles in which the lanes of a vector are added to each other: a shuffle and an addition for each of their halves, quarters, and so on.
pub(crate) const ACROSS: f64 = 8.0;
/// How much longer a multiply-add takes where the panel does not stay in near caches, but comes in order from the next.
pub(super) const FAR: f64 = 1.08;
/// How much longer for the share of a panel that is beyond half of the second cache, where the rows and results that pass lie. Measured on 22 channels of 34 x 34 with windows of 5 x 5, one
/// core of Zen 3, whose second cache has 512 KiB: panels of 2 to 7 rows, 150 to 520 KB, take 2.42, 2.40, 2.44, 2.53 and 2.68 ms.
const BEYOND_HALF: f64 = 0.5;

/// So many terms of a panel come from the second cache before they are needed. Measured on two cores of Zen 3, beside blocks that stay in the first cache (`row_lanes`) and with the waste of both
/// counted: convolutions of 576 and 1,152 terms were as fast as the model says without any wait, and those of 1,728 and more as it says with one.
const TERMS_AWAITED: i64 = 1500;

/// What is to be copied, and in which loops.
pub(super) struct Panel {
    load: LoadId,
    /// Loops of the reduction, outermost first, and whether the copy is consecutive along these.
    pub(super) terms: Vec<u32>,
    pub(super) terms_last: bool,
    /// Loops over results outside of the block, outermost first.
    pub(super) outside: Vec<u32>,
    /// The outermost loop of the block, and how many of its iterations belong to it, if that is not all.
    pub(super) part: Option<(u32, i64)>,
    /// Loops of the block, outermost first.
    pub(super) columns: Vec<u32>,
}

impl Panel {
    /// Whether a loop over results stands outside of the block, with all of its iterations.
    pub(super) fn is_outside(&self, id: u32) -> bool {
        self.outside.contains(&id) && !self.columns.contains(&id)
    }

    /// How often a column is computed, where the last block overlaps the one before.
    fn again(&self, outputs: &[UOp]) -> f64 {
        let part = |(id, part): (u32, i64)| {
            let len = outputs.iter().find(|range| range_id(range) == id)?.src()[0].as_int()?;
            Some(((len + part - 1) / part * part) as f64 / len as f64)
        };
        self.part.and_then(part).unwrap_or(1.0)
    }

    /// Columns of a block.
    pub(super) fn columns_of_block(&self, outputs: &[UOp]) -> Option<i64> {
        let len = |id: &u32| match self.part {
            Some((range, len)) if range == *id => Some(len),
            _ => outputs.iter().find(|range| range_id(range) == *id)?.src()[0].as_int(),
        };
        self.columns.iter().map(len).product()
    }
}

/// Copies a panel if there is a contraction that wants one.
pub(crate) fn copy_panel(choice: &mut Attempts<'_>) -> bool {
    let Some(panel) = find_panel(&choice.kernel, choice.target) else { return false };
    choice.all_or_none(|choice| make_panel(choice, &panel))
}

fn make_panel(choice: &mut Attempts<'_>, panel: &Panel) -> Option<()> {
    let mut columns = panel.columns.clone();
    if let Some((range, len)) = panel.part {
        columns[0] = next_range_id(&choice.kernel);
        attempt(choice, Opt::Split { range, len: len as u32 })?;
    }
    move_outermost(choice, &panel.outside)?;
    let load = number_of_load(&choice.kernel, &panel.load)?;
    let (outer, inner) = if panel.terms_last { (&columns, &panel.terms) } else { (&panel.terms, &columns) };
    let ranges = outer.iter().chain(inner).copied().collect();
    attempt_copy(choice, load, ranges).then_some(())?;
    merge(choice, &panel.terms);
    merge(choice, &columns);
    Some(())
}

/// Moves loops over results outermost, in this order. What stands there already stays.
pub(super) fn move_outermost(choice: &mut Attempts<'_>, ranges: &[u32]) -> Option<()> {
    let is_outermost = |root: &UOp, range: u32| {
        root.src().iter().all(|store| closed_ranges(store).first().is_some_and(|first| range_id(first) == range))
    };
    for &range in ranges.iter().rev() {
        if !is_outermost(&choice.kernel, range) {
            attempt(choice, Opt::Outermost { range })?;
        }
    }
    Some(())
}

/// Makes one loop of neighbouring ones, outermost first, where memory is walked as one.
pub(super) fn merge(choice: &mut Attempts<'_>, loops: &[u32]) {
    for pair in loops.windows(2).rev() {
        choice.attempt(Opt::Merge { range: pair[0], inner: pair[1] });
    }
}

/// The contraction with the most terms that reads something awkwardly.
fn find_panel(root: &UOp, target: &Target) -> Option<Panel> {
    contractions(root, |contraction| {
        contraction.panel(target, copied_bytes(contraction.dependencies, contraction.load))
    })
}

/// Results whose windows are copied together.
struct Block {
    /// See [`Panel`].
    columns: Vec<u32>,
    part: Option<(u32, i64)>,
}

/// How many columns there may be, how many of them stay in near caches and in half of the second one, how many a register tile has, and who shares the blocks.
struct Room {
    near: i64,
    half: i64,
    threads: i64,
    most: i64,
    tile: i64,
    lanes: i64,
    /// Those that share the panel, and the registers of their tile.
    rows: i64,
    registers: u32,
    /// Vectors of which all terms stay in the nearest cache.
    near_vectors: u32,
}

/// Whether so many rows are worth a copy that turns an operand around, of which the terms lie in order. A copied element costs two steps of shuffles in halves of a vector
/// for each doubling of lanes, and a load and a store. Without the copy, terms are lanes: each result is a sum across them, and a tile of four by four waits for loads; or, of
/// one vector of rows, these are lanes and the other operand is packed: results are stored one by one. Measured on one core with AVX-512: of 512 terms, 16 rows of 1024 columns
/// take 120 us turned and 94 as lanes, 24 rows 162 and 250.
pub(crate) fn is_worth_turning(rows: i64, terms: i64, lanes: i64) -> bool {
    let (terms, width) = (terms as f64, lanes.max(1) as f64);
    let copied = terms * (width.log2() + LOAD_AND_STORE) / width;
    let of_terms = ACROSS + terms / width * LOADS_OF_TERMS;
    let saved = if rows == lanes { of_terms.min(STORED_APART) } else { of_terms };
    rows >= ROWS_MIN_IN_ORDER || rows >= ROWS_MIN && copied / rows as f64 <= saved
}

impl Contraction<'_> {
    /// The panel that it wants, of elements of so many bytes.
    pub(super) fn panel(&self, target: &Target, bytes: i64) -> Option<Panel> {
        let set = self.dependencies.get(self.load);
        let around = self.dependencies.get(self.reduction);
        let shares = |range: &&UOp| around.contains(range_id(range)) && !set.contains(range_id(range));
        let rows: i64 = self.outputs.iter().filter(shares).map(|range| range.src()[0].max_value()).product();
        let own: Vec<&UOp> =
            closed_ranges(self.reduction).iter().filter(|range| set.contains(range_id(range))).collect();
        let lengths: Option<Vec<i64>> = own.iter().map(|range| range.src()[0].as_int()).collect();
        let terms: i64 = lengths?.iter().product();
        let columns_in = |room: u64| (room as i64 / bytes / terms.max(1)).min(COLUMNS_MAX);
        let (near, most) = (columns_in(target.costs.packed_bytes.into()), columns_in(target.scratch_bytes));
        // Inside of another reduction, the copy would be made anew in each of its steps, and be read by few.
        let is_nested = around.iter().any(|id| self.outputs.iter().all(|range| range_id(range) != id));
        // Of accumulators, where these are wider.
        let widest = bytes.max(accumulated_in(self.reduction.dtype()).bytes() as i64);
        let lanes = i64::from(target.vector_bytes) / widest;
        let enough = match self.terms_are_in_order(&own, target) {
            true => is_worth_turning(rows, terms, lanes),
            false => rows >= ROWS_MIN,
        };
        if !enough || own.is_empty() || most < 1 || is_nested {
            return None;
        }
        let threads = i64::from(target.threads);
        let registers = target.vector_registers;
        let near_vectors = near_vectors(target, terms);
        let half = columns_in(target.cache_l2_bytes / 2);
        let room = Room { near, half, most, threads, tile: VECTORS * lanes, lanes, rows, registers, near_vectors };
        let of_results = || self.columns(&room).map(|block| (block, false));
        let of_terms = || self.columns_of_terms(&own, &room).map(|block| (block, true));
        // Of results far shorter than a vector, as those of the gradient by a weight, a copy would go element by element; unless terms come in no longer rows.
        let length = |range: &UOp| range.src()[0].max_value();
        let of_terms_is_longer = |lane: &UOp| own.last().is_some_and(|term| length(term) > length(lane));
        let is_short = |lane: &UOp| length(lane) * SHORT_ROWS.0 <= lanes * SHORT_ROWS.1 && of_terms_is_longer(lane);
        let (block, terms_last) = match self.lane_of_results().is_some_and(is_short) {
            true => of_terms().or_else(of_results)?,
            false => of_results().or_else(of_terms)?,
        };
        let Block { columns, part } = block;
        let in_part = |id: &u32| part.is_some_and(|(range, _)| range == *id);
        let is_outside = |id: &u32| set.contains(*id) && (!columns.contains(id) || in_part(id));
        let outside = self.outputs.iter().map(range_id).filter(is_outside).collect();
        let terms = own.into_iter().map(range_id).collect();
        Some(Panel { load: self.load_id()?, terms, terms_last, outside, part, columns })
    }

    /// Cycles of a multiply-add with the panel that it wants, of elements of so many bytes, where that does not stay in the nearest cache while rows pass.
    pub(super) fn cycles_with_far_panel(&self, target: &Target, bytes: i64) -> Option<f64> {
        let panel = self.panel(target, bytes)?;
        let columns = panel.columns_of_block(self.outputs)?;
        let terms: i64 = closed_ranges(self.reduction).iter().map(|range| range.src()[0].max_value()).product();
        let rows: i64 = self.rows().map(|range| range.src()[0].max_value()).product();
        if near_vectors(target, terms) > 0 {
            return None;
        }
        let is_awaited = terms > TERMS_AWAITED;
        let lanes = i64::from(target.vector_bytes) / bytes.max(accumulated_in(self.reduction.dtype()).bytes() as i64);
        let room = RegisterRoom { registers: target.vector_registers, values: 1, divides: false };
        let most = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let is_gated = self.load.src()[0].src().len() > 2;
        let copied = if is_gated { MASKED_LOAD_AND_STORE } else { LOAD_AND_STORE };
        let again = panel.again(self.outputs);
        if panel.terms_last {
            // Both operands come in vectors of terms, and each result is added up across them.
            let (a, b) = tile_of_two(&room, [(most(rows), u32::MAX), (most(columns), u32::MAX)]);
            let from_far = if is_awaited { FAR_LOAD_CYCLES * f64::from(a + b) } else { 0.0 };
            let step = (step_cycles(a, b) + from_far) / f64::from(a * b);
            return Some(((step + copied / rows as f64) / lanes as f64 + ACROSS / terms as f64) * again);
        }
        let vectors = (columns + lanes - 1) / lanes;
        // The tile is chosen for a panel that is far.
        let (far, tile_vectors, tile_rows) = best_tile_of_panel(&room, 0, most(vectors), most(rows));
        let step = if is_awaited {
            far
        } else {
            let again = computed_again(most(vectors), tile_vectors) * computed_again(most(rows), tile_rows);
            multiply_add_cycles(&room) * again
        };
        Some((step + copied / rows as f64) * vectors as f64 / columns as f64 * again)
    }

    /// Whether all that the reduction loads lies in order along its last term, in vectors and without conditions.
    pub(crate) fn terms_are_in_order(&self, own: &[&UOp], target: &Target) -> bool {
        let Some(lane) = own.last() else { return false };
        let bytes = lane.src()[0].as_int().unwrap_or(0) * self.load.dtype().bytes() as i64;
        let loads = postorder(open_operands(self.reduction)).into_iter().filter(|node| node.op() == Op::Load);
        let mut in_order = loads.map(|load| step_of_load(&load, lane) == Some(1) && load.src()[0].src().len() == 2);
        bytes >= VECTORS * i64::from(target.vector_bytes) && in_order.all(|is_so| is_so)
    }

    /// The results of a block that lie side by side in memory, as lanes and copies of a register tile.
    fn columns(&self, room: &Room) -> Option<Block> {
        let set = self.dependencies.get(self.load);
        let inside = |range: &&UOp| set.contains(range_id(range));
        let lane = self.lane_of_results()?;
        let width = lane.src()[0].as_int()?;
        if !self.is_awkward(lane, width, room.tile) {
            return None;
        }
        let mut columns = vec![range_id(lane)];
        if width > room.most {
            let len = room.near.max(room.tile).min(room.most) / room.tile * room.tile;
            return (len >= room.tile).then_some(Block { columns, part: Some((range_id(lane), len)) });
        }
        let (mut total, mut part) = (width, None);
        // Further out, as long as results lie side by side in memory and all of what is inside is taken.
        while part.is_none() {
            let next = self.outputs.iter().filter(inside).find(|range| {
                let is_new = !columns.contains(&range_id(range));
                is_new && self.step_of_store(range) == total && range.src()[0].as_int().is_some_and(|len| len > 1)
            });
            let Some((next, len)) = next.and_then(|range| Some((range, range.src()[0].as_int()?))) else { break };
            let is_outside = |range: &&UOp| *range != next && inside(range) && !columns.contains(&range_id(range));
            let outside = self.outputs.iter().filter(is_outside).map(|range| range.src()[0].max_value()).product();
            let rows = best_part(len, total, outside, room);
            if rows < 2 {
                break;
            }
            columns.insert(0, range_id(next));
            total *= rows;
            part = (rows < len).then_some((range_id(next), rows));
        }
        // A copy of rows in order that has no more in a row leaves as much of the last vector empty.
        let is_alike = total == width && self.is_in_rows(lane);
        // Fewer would not fill a tile.
        (total >= room.tile && !is_alike).then_some(Block { columns, part })
    }

    /// Results whose terms become lanes: another load is walked along these, and this one, copied, is too.
    fn columns_of_terms(&self, own: &[&UOp], room: &Room) -> Option<Block> {
        let terms: i64 = own.iter().map(|range| range.src()[0].max_value()).product();
        // Where results fill lanes they are better ones, be it those of the other matrix: nothing is added across lanes.
        let lane = self.outputs.iter().find(|range| self.step_of_store(range) == 1);
        if lane.is_some_and(|lane| results_fill_lanes(lane.src()[0].max_value(), terms, room)) {
            return None;
        }
        let lane = own.last()?;
        let is_walked =
            |load: &UOp| load != self.load && step_of_load(load, lane) == Some(1) && load.src()[0].src().len() == 2;
        let loads = postorder(open_operands(self.reduction)).into_iter().filter(|node| node.op() == Op::Load);
        let width = lane.src()[0].as_int()?;
        if !loads.collect::<Vec<_>>().iter().any(is_walked) || !self.is_awkward(lane, width, room.tile) {
            return None;
        }
        let set = self.dependencies.get(self.load);
        let mut columns: Vec<u32> = Vec::new();
        let mut total = 1;
        for range in self.outputs.iter().rev().filter(|range| set.contains(range_id(range))) {
            let Some(len) = range.src()[0].as_int().filter(|len| total * len <= room.most) else { break };
            columns.insert(0, range_id(range));
            total *= len;
        }
        (total > 1).then_some(Block { columns, part: None })
    }
}

/// Whether a result takes fewer cycles where results are lanes, the last vector of them perhaps half empty, than where terms are and each sum is added across.
fn results_fill_lanes(results: i64, terms: i64, room: &Room) -> bool {
    let vectors = ((results + room.lanes - 1) / room.lanes) as f64;
    let of_results = terms as f64 * vectors / results.max(1) as f64;
    results >= room.tile || of_results <= terms as f64 / room.lanes as f64 + ACROSS
}

/// How many iterations of a loop belong to a block, each so many columns: those that leave the least of tiles, blocks and shares over, of those that fill a tile; of two alike
/// the larger part. The loop runs once for each iteration outside.
fn best_part(len: i64, each: i64, outside: i64, room: &Room) -> i64 {
    let again = |count: i64, part: i64| (count + part - 1) / part * part;
    let waste = |part: &i64| {
        let (blocks, columns) = (again(len, *part) as f64 / len as f64, part * each);
        let beyond = BEYOND_HALF * (columns - room.half).max(0) as f64 / columns as f64;
        let reads = if columns > room.near { FAR + beyond } else { 1.0 };
        let items = outside * again(len, *part) / part;
        let shares = again(items, room.threads) as f64 / items as f64;
        let vectors = again(columns, room.lanes) / room.lanes;
        let registers = RegisterRoom { registers: room.registers, values: 1, divides: false };
        let most = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let (cycles, ..) = best_tile_of_panel(&registers, room.near_vectors, most(vectors), most(room.rows));
        shares * reads * blocks * cycles * (vectors * room.lanes) as f64 / columns as f64
    };
    let least = (room.tile + each - 1) / each;
    // A percent is as good as nothing.
    (least..=(room.most / each).min(len))
        .rev()
        .min_by(|a, b| (waste(a) * 100.0).round().total_cmp(&(waste(b) * 100.0).round()))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests;
