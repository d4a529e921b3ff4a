//! The choice by hand of products of matrices for machines with blocks of threads: by tiles in shared memory, and by tiles in registers.
//!
//! ```text
//! grid over tiles of rows and columns
//!   loop over slices of the terms
//!     all threads copy the tile of each operand into shared memory, and meet
//!     loop over the terms of the slice
//!       each thread multiplies its rows with its columns: a tile in registers
//!     all threads meet
//! ```
//!
//! A thread's columns are vectors that lie side by side for neighbouring threads, and its rows are as far apart as there are threads along them: so the threads of a warp read
//! consecutive vectors of the one operand and one or two elements of the other. The copies are made along what is consecutive in memory, whichever range that is.
//!
//! A slice is copied while the one before it is multiplied, where shared memory has room for two (`linearize::ahead`): then threads meet once for each.
//!
//! The terms of a slice go four at a time, written out (`linearize::short_loops`): of an operand whose terms lie side by side in the copy a thread loads four at once.
//!
//! A convolution is such a product, too: of channels of outputs by positions in a row of it, with channels of the input as terms, for each element of the window.
//!
//! The largest tile is taken of which there are enough for all multiprocessors, among those that leave little of their last ones empty. Where a side or the number of
//! terms is no multiple, what lies beyond the end is masked: it is copied as zero, and not stored. Nothing is done where an operand depends on both sides.
//!
//! Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use super::blocks::{Mark, loops_over_outputs};
use super::matrix_tiles::tile_matrices;
use crate::ir::{AxisKind, Op, ThreadDim, UOp, postorder};
use crate::kernel::ranges::{Dependencies, all_ranges, closed_ranges, next_range_id, open_operands, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{AccessPattern, Survey};
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::stage::loads_of;
use crate::symbolic::linear_terms;

/// A tile of outputs, and the threads that compute it.
#[derive(Clone, Copy, Debug)]
struct TileShape {
    /// Rows and columns.
    side: i64,
    /// Threads along each side, and terms of a slice: so the copies have work for each thread.
    threads: i64,
    /// Whether a slice is copied while the one before is multiplied.
    is_ahead: bool,
}

/// Largest first.
const TILES: [TileShape; 3] = [
    TileShape { side: 128, threads: 16, is_ahead: false },
    TileShape { side: 64, threads: 16, is_ahead: false },
    TileShape { side: 32, threads: 8, is_ahead: false },
];

/// The part of tiles and slices that must not be empty, lest smaller tiles or none are better.
const FULL_MIN: f64 = 0.75;

/// Terms that are written out one behind the other: of so many neighbours in a copy, a thread loads all at once.
pub(super) const TERMS_AT_ONCE: i64 = 4;

/// Fewer neighbours in memory are no columns of a tile, if there are others.
const COLUMNS_FEW: i64 = 8;

/// Elements of a copy, or vectors of them, that a thread asks for before it stores the first.
const COPIES_AT_ONCE: i64 = 16;

/// A product of matrices among the loops of a kernel.
pub(crate) struct Product {
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) terms: u32,
    /// Other loops over outputs: batches.
    pub(crate) batches: Vec<u32>,
    /// Whether the terms are the only loop of the reduction.
    pub(crate) has_one_loop: bool,
}

impl Product {
    /// Whether slices of so many terms fit: the last one may be masked where no other loop stands in that of slices.
    pub(crate) fn admits(&self, terms: i64, slice: i64) -> bool {
        self.has_one_loop || terms % slice == 0
    }

    /// Whether a slice may be copied while the one before is multiplied: both ways are tried, where there is a next one.
    pub(crate) fn ways(&self, terms: i64, slice: i64) -> &'static [bool] {
        if self.has_one_loop && terms > slice { &[true, false] } else { &[false] }
    }
}

/// A load of an operand that is still to be copied.
pub(crate) struct Operand {
    pub(crate) number: u32,
    /// Whether it is the one that varies with columns.
    pub(crate) has_columns: bool,
    /// Whether memory is consecutive along the terms, rather than along rows or columns.
    pub(crate) is_along_terms: bool,
}

/// Computes a product of matrices by tiles in shared memory, as its loops are; whether it did.
pub(super) fn tile_with_loops(choice: &mut Attempts<'_>) -> bool {
    let survey = Survey::of(&choice.kernel);
    let Some(product) = find_product(&choice.kernel, &survey) else { return false };
    if tile_matrices(choice, &product, &survey) {
        return true;
    }
    let len = |id: u32| survey.ranges.get(&id).and_then(|range| range.src()[0].as_int()).unwrap_or(0);
    let (rows, columns, terms) = (len(product.rows), len(product.columns), len(product.terms));
    let batches: i64 = product.batches.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let vector = i64::from(survey.lanes_of_widest(choice.target, columns));
    let fits = |tile: &TileShape| {
        let parts = [(rows, tile.side), (columns, tile.side), (terms, tile.threads)];
        is_mostly_full(&parts) && product.admits(terms, tile.threads) && tile.side % (tile.threads * vector) == 0
    };
    let enough = i64::from(choice.target.costs.cores);
    let tiles_of = |len: i64, side: i64| (len + side - 1) / side;
    let is_enough = |tile: &&TileShape| tiles_of(rows, tile.side) * tiles_of(columns, tile.side) * batches >= enough;
    let fitting: Vec<TileShape> = TILES.into_iter().filter(fits).collect();
    let Some(&tile) = fitting.iter().find(is_enough).or(fitting.last()) else { return false };
    // Copied ahead where there is a next slice, and room for it.
    try_each(choice, product.ways(terms, tile.threads), |choice, is_ahead| {
        apply_tile(choice, &product, TileShape { is_ahead, ..tile }, vector).is_some()
    })
}

/// The first of two ways that is not refused on the way; whether there is one.
pub(crate) fn try_each(
    choice: &mut Attempts<'_>,
    ways: &[bool],
    apply: impl Fn(&mut Attempts<'_>, bool) -> bool,
) -> bool {
    ways.iter().any(|way| {
        let mark = Mark::of(choice);
        let is_applied = apply(choice, *way);
        if !is_applied {
            mark.restore(choice);
        }
        is_applied
    })
}

/// Whether lengths, in parts of which the last one may not be full, are not much more than they would be otherwise.
pub(crate) fn is_mostly_full(lens_and_parts: &[(i64, i64)]) -> bool {
    let full = lens_and_parts.iter().map(|(len, part)| *len as f64 / ((len + part - 1) / part * part) as f64);
    lens_and_parts.iter().all(|(len, _)| *len > 0) && full.product::<f64>() >= FULL_MIN
}

/// The product that a kernel is, if it is one: a reduction over one range, of loads that each vary with it and with rows or columns, but not both.
pub(super) fn find_product(kernel: &UOp, survey: &Survey) -> Option<Product> {
    let [reduction] = survey.inner.as_slice() else { return None };
    // Of several loops, as those of a convolution over channels and elements of a window, the longest one goes by slices, the others around them.
    let terms = reduction.ranges.iter().rev().max_by_key(|range| range.src()[0].max_value())?;
    if reduction.is_local_buffer || reduction.count != 1 || all_ranges(kernel).iter().any(is_serial) {
        return None;
    }
    let terms = range_id(terms);
    let outputs: Vec<u32> = loops_over_outputs(kernel).iter().map(range_id).collect();
    let depends_on_all = |id: &u32| reduction.is_inside(*id);
    let loads = || survey.accesses.iter().filter(|access| !access.is_store && access.depends.contains(terms));
    let stores = || survey.accesses.iter().filter(|access| access.is_store);
    // Whether each load varies with one of two loops.
    let shares_with = |columns: u32, id: &u32| {
        let is_one_of_both = |access: &AccessPattern| access.depends.contains(*id) != access.depends.contains(columns);
        *id != columns && loads().all(is_one_of_both)
    };
    // Neighbouring threads store side by side; but for what is stored window by window, as windows have few elements.
    let is_beside = |id: &&u32| stores().all(|access| access.steps.get(*id) == Some(&1));
    let beside = *outputs.iter().rev().find(is_beside)?;
    let longest = *outputs.iter().rev().filter(|id| !shares_with(beside, id)).max_by_key(|id| survey.most(**id))?;
    let columns = if survey.most(beside) < COLUMNS_FEW { longest } else { beside };
    let rows = *outputs.iter().rev().find(|id| shares_with(columns, id))?;
    let has_both = [rows, columns].iter().all(|id| loads().any(|access| access.depends.contains(*id)));
    let batches = outputs.iter().copied().filter(|id| *id != rows && *id != columns).collect();
    let has_one_loop = reduction.ranges.len() == 1;
    (has_both && outputs.iter().all(depends_on_all)).then_some(Product { rows, columns, terms, batches, has_one_loop })
}

fn apply_tile(choice: &mut Attempts<'_>, product: &Product, tile: TileShape, vector: i64) -> Option<()> {
    let rows = split(choice, product.rows, tile.side)?;
    let columns = split(choice, product.columns, tile.side)?;
    let terms = split(choice, product.terms, tile.threads)?;
    while let Some(operand) = next_operand(&choice.kernel, [rows, columns, terms]) {
        copy_operand(choice, &operand, [rows, columns, terms], tile, vector)?;
    }
    split(choice, terms, TERMS_AT_ONCE)?;
    // A thread's part: vectors of columns, and rows.
    split_off(choice, columns, vector, |range| Opt::Vectorize { range, lanes: vector as u32 })?;
    split_off(choice, columns, tile.threads, |range| block(range, ThreadDim::X))?;
    split_off(choice, rows, tile.threads, |range| block(range, ThreadDim::Y))?;
    for range in [columns, rows] {
        if let Some(times) = loop_of(&choice.kernel, range).and_then(|range| range.src()[0].as_int()) {
            choice.attempt(Opt::Upcast { range, times: times as u32 }).then_some(())?;
        }
    }
    map_tiles(choice, product);
    Some(())
}

/// The loops over tiles and over batches as the grid. It has three dimensions: where there are more loops, those of batches become one, if they can.
fn map_tiles(choice: &mut Attempts<'_>, product: &Product) {
    let is_left = |choice: &Attempts<'_>, id: &u32| loop_of(&choice.kernel, *id).is_some();
    let mut batches: Vec<u32> = product.batches.iter().copied().filter(|id| is_left(choice, id)).collect();
    let sides: Vec<u32> = [product.columns, product.rows].into_iter().filter(|id| is_left(choice, id)).collect();
    if sides.len() + batches.len() > ThreadDim::ALL.len() {
        let mark = Mark::of(choice);
        let mut inside_first = batches.iter().rev();
        let is_joined = inside_first
            .all(|id| is_outermost(choice, *id) || choice.attempt(Opt::Outermost { range: *id }))
            && batches[1..].iter().all(|inner| choice.attempt(Opt::Flatten { range: batches[0], inner: *inner }));
        match is_joined {
            true => batches.truncate(1),
            false => mark.restore(choice),
        }
    }
    for (id, dim) in sides.into_iter().chain(batches.into_iter().rev()).zip(ThreadDim::ALL) {
        choice.attempt(Opt::Map { range: id, index: ThreadIndex::Grid(dim) });
    }
}

fn is_outermost(choice: &Attempts<'_>, id: u32) -> bool {
    loops_over_outputs(&choice.kernel).first().map(range_id) == Some(id)
}

fn block(range: u32, dim: ThreadDim) -> Opt {
    Opt::Map { range, index: ThreadIndex::Block(dim) }
}

/// The number of the inner part of a range, which may go beyond the end of it.
pub(crate) fn split(choice: &mut Attempts<'_>, range: u32, len: i64) -> Option<u32> {
    let whole = length_of(&choice.kernel, range)?;
    if whole == len {
        return Some(range);
    }
    let part = next_range_id(&choice.kernel);
    let part_len = u32::try_from(len).ok()?;
    let opt = match whole % len {
        0 => Opt::Split { range, len: part_len },
        _ => Opt::SplitMasked { range, len: part_len },
    };
    choice.attempt(opt).then_some(part)
}

/// Something made of the innermost part of a range.
fn split_off(choice: &mut Attempts<'_>, range: u32, len: i64, opt: impl Fn(u32) -> Opt) -> Option<()> {
    if len < 2 {
        return Some(());
    }
    let opt = match opt(range) {
        // It takes the innermost part by itself.
        opt @ Opt::Vectorize { .. } => opt,
        _ => opt(split(choice, range, len)?),
    };
    choice.attempt(opt).then_some(())
}

fn length_of(kernel: &UOp, id: u32) -> Option<i64> {
    let range = all_ranges(kernel).into_iter().find(|range| range_id(range) == id)?;
    range.src()[0].as_int()
}

/// A range that is still a loop over outputs, or over a copy.
pub(crate) fn loop_of(kernel: &UOp, id: u32) -> Option<UOp> {
    let is_loop = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    all_ranges(kernel).into_iter().find(|range| range_id(range) == id && is_loop(range))
}

/// A load from a buffer that stands in the reduction and varies with a tile's rows or columns.
pub(crate) fn next_operand(kernel: &UOp, [rows, columns, terms]: [u32; 3]) -> Option<Operand> {
    let dependencies = Dependencies::of(kernel);
    let closes =
        |node: &&UOp| node.op() == Op::ReduceRange && closed_ranges(node).iter().any(|range| range_id(range) == terms);
    let reduction = dependencies.order.iter().find(closes)?;
    let inside = postorder(open_operands(reduction));
    let loads = loads_of(kernel);
    loads.iter().enumerate().find_map(|(number, load)| {
        let set = dependencies.get(load);
        let is_operand = load.src()[0].src()[0].op() == Op::Param
            && set.contains(terms)
            && (set.contains(rows) || set.contains(columns))
            && inside.contains(load);
        let steps = linear_terms(&load.src()[0].src()[1]).0;
        let is_along_terms = !steps.iter().any(|(term, step)| {
            let is_side = term.op() == Op::Range && [rows, columns].contains(&range_id(term));
            *step == 1 && is_side
        });
        is_operand.then(|| Operand { number: number as u32, has_columns: set.contains(columns), is_along_terms })
    })
}

/// Loops of the reduction besides the terms along which an operand is consecutive within a term, as weights of a convolution along the elements of their window: outermost first.
///
/// A copy along these too is read once, as it lies in memory; one of each element apart would read all sectors again for each of them.
pub(crate) fn window_loops(kernel: &UOp, load: u32, terms: u32) -> Vec<u32> {
    let loads = loads_of(kernel);
    let Some([_, offset]) = loads.get(load as usize).map(|load| load.src()[0].src()) else { return Vec::new() };
    let steps = linear_terms(offset).0;
    let step_of_terms = steps.iter().find(|(term, _)| term.op() == Op::Range && range_id(term) == terms);
    let Some((_, step_of_terms)) = step_of_terms else { return Vec::new() };
    let is_inside = |(term, step): &&(UOp, i64)| {
        term.as_range().is_some_and(|arg| arg.kind == AxisKind::Reduce) && *step > 0 && step < step_of_terms
    };
    let mut inside: Vec<&(UOp, i64)> = steps.iter().filter(is_inside).collect();
    inside.sort_by_key(|(_, step)| std::cmp::Reverse(*step));
    // Each steps over all that the next ones come to.
    let mut reach = 1;
    let is_dense = inside.iter().rev().all(|(range, step)| {
        let is_next = *step == reach;
        reach *= range.src()[0].as_int().unwrap_or(0);
        is_next
    });
    match is_dense && reach == *step_of_terms {
        true => inside.iter().map(|(range, _)| range_id(range)).collect(),
        false => Vec::new(),
    }
}

/// Stages a load along its window loops besides, where there is room for that, and makes one loop of the terms and these: `terms` is the loop that fills the copy along them.
pub(crate) fn stage_windows(choice: &mut Attempts<'_>, load: u32, [side, terms]: [u32; 2]) -> bool {
    let loops = window_loops(&choice.kernel, load, terms);
    if loops.is_empty() {
        return false;
    }
    let mark = Mark::of(choice);
    let fill = next_range_id(&choice.kernel) + 1;
    let ranges: Vec<u32> = [side, terms].into_iter().chain(loops.iter().copied()).collect();
    let is_staged = choice.attempt(Opt::StageShared { load, ranges })
        && (1..=loops.len() as u32).all(|number| choice.attempt(Opt::Flatten { range: fill, inner: fill + number }));
    if !is_staged {
        mark.restore(choice);
    }
    is_staged
}

/// Copies the tile of an operand into shared memory, by all threads.
fn copy_operand(
    choice: &mut Attempts<'_>,
    operand: &Operand,
    [rows, columns, terms]: [u32; 3],
    tile: TileShape,
    vector: i64,
) -> Option<()> {
    let side = if operand.has_columns { columns } else { rows };
    // Columns lie side by side in the copy, for they are read as vectors.
    let ranges = if operand.has_columns || !operand.is_along_terms { vec![terms, side] } else { vec![side, terms] };
    let fills = next_range_id(&choice.kernel);
    let is_side_last = ranges[1] == side;
    let load = operand.number;
    let stage = match tile.is_ahead {
        true => Opt::StageAhead { load, pad: 0, ranges },
        false => Opt::StageShared { load, ranges },
    };
    if is_side_last || !stage_windows(choice, load, [side, terms]) {
        choice.attempt(stage).then_some(())?;
    }
    let (fill_side, fill_terms) = if is_side_last { (fills + 1, fills) } else { (fills, fills + 1) };
    if operand.is_along_terms {
        split_off(choice, fill_terms, tile.threads, |range| block(range, ThreadDim::X))?;
        split_off(choice, fill_side, tile.threads, |range| block(range, ThreadDim::Y))?;
    } else {
        split_off(choice, fill_side, vector, |range| Opt::Vectorize { range, lanes: vector as u32 })?;
        split_off(choice, fill_side, tile.threads, |range| block(range, ThreadDim::X))?;
        choice.attempt(block(fill_terms, ThreadDim::Y)).then_some(())?;
    }
    // What a thread copies is asked for at once.
    let left = loop_of(&choice.kernel, fill_side).and_then(|range| range.src()[0].as_int());
    if let Some(times) = left.filter(|len| *len <= COPIES_AT_ONCE) {
        choice.attempt(Opt::Upcast { range: fill_side, times: times as u32 });
    }
    Some(())
}

#[cfg(test)]
mod tests;
