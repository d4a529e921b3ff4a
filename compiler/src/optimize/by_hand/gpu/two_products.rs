//! The choice by hand of attention, for machines with blocks of threads: a product of matrices whose results are weighted, row by row, and multiplied with another matrix.
//!
//! ```text
//! grid over tiles of rows                                       the queries
//!   all threads copy the tile's rows of the left operand
//!   reduce blocks of terms (or none)                            the keys
//!     loop over tiles of a block
//!       all threads copy the tile of the right operand, and meet
//!       each thread computes 4 rows by 4 scores in registers, and keeps them in shared memory
//!     16 lanes have a row: they find its largest score, turn scores into weights, and sum these up
//!     loop over tiles of a block
//!       all threads copy the tile of the values, and meet
//!       each thread adds up 4 rows by 4 columns or more: in registers, from block to block
//! ```
//!
//! So what is read from memory serves a tile of rows, scores never leave the block of threads, and each exponential is computed once. A tile has as many rows as
//! shared memory holds scores and weights of. What lies beyond the end of the rows, of the columns, or of a block is masked.
//!
//! Of half floats both are products of matrices, where lanes multiply these (`two_matrices`).
//!
//! What is asked for is the structure, not attention: scores are any sum of products of one load of the row and one of the term; what is kept of a row after that, any chain of local
//! buffers and of reductions over them; and the outputs sum products of what is kept last with loads of the column. Else nothing is done.
//!
//! Always: a row belongs to 16 lanes of one warp. Tested in the test crate, by attention of several types, lengths and masks on the emulator of GPUs.

use super::blocks::{Mark, loops_over_outputs};
use super::parts::map_grid;
use super::shared_tiles::{loop_of, split};
use super::two_matrices;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, ReduceOp, ThreadDim, UOp, postorder};
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::kernel::ranges::{Dependencies, all_ranges, closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::stage::loads_of;
use crate::symbolic::linear_terms;

/// Lanes that have a row.
const LANES: i64 = 16;
/// Rows of a thread.
const ROWS_OF_THREAD: i64 = 4;
/// Rows of a tile that are tried, most first.
const ROWS_OF_TILE: [i64; 4] = [64, 32, 16, 8];
/// Terms whose scores are computed from one copy, and terms whose values are copied at once: most first, for rows may be too long for that.
const TERMS_OF_TILE: [[i64; 2]; 3] = [[64, 32], [32, 16], [16, 16]];
/// Banks of shared memory, of four bytes each.
const BANKS: i64 = 32;
/// Columns of a thread: more would not stay in its registers.
const COLUMNS_OF_THREAD: i64 = 16;
/// Terms that are written out one behind the other: of so many neighbours in a copy, a thread loads all at once.
const TERMS_AT_ONCE: i64 = 4;
/// Bytes that a thread loads at once, and that stay unused behind each row of a copy.
const VECTOR_BYTES: usize = 16;
/// Vectors of a copy that a thread asks for before it stores the first.
const COPIES_AT_ONCE: i64 = 16;

/// The loops of two products.
pub(super) struct Chain {
    pub(super) row: u32,
    pub(super) column: u32,
    /// All loops over outputs, outermost first.
    pub(super) outputs: Vec<u32>,
    /// The loop that fills the local buffer of scores.
    pub(super) filled: u32,
    /// The loop of the reduction of a score.
    pub(super) terms: u32,
    /// The loop of the reduction of the second product.
    pub(super) weighted: u32,
    /// Loops of a row that fill other local buffers, and those that reduce what is kept.
    pub(super) beside: Vec<u32>,
}

/// Computes two products in a row by tiles; whether it did.
pub(crate) fn tile_two_products(choice: &mut Attempts<'_>) -> bool {
    if !choice.kernel.contains(Op::LocalBuffer) {
        return false;
    }
    let mark = Mark::of(choice);
    recompute_between(choice);
    let chain = find(&choice.kernel);
    let is_tall = |chain: &Chain| length_of(&choice.kernel, chain.row) >= Some(ROWS_OF_THREAD);
    if let Some(chain) = chain.filter(is_tall) {
        let enough = i64::from(choice.target.costs.cores);
        let len = |id: u32| length_of(&choice.kernel, id).unwrap_or(1);
        let others: i64 =
            chain.outputs.iter().filter(|id| **id != chain.column && **id != chain.row).map(|id| len(*id)).product();
        let rows = len(chain.row);
        let blocks = |tile: i64| (rows + tile - 1) / tile * others;
        let last = ROWS_OF_TILE[ROWS_OF_TILE.len() - 1];
        let fits = |tile: &i64| *tile == last || blocks(*tile) >= enough && *tile < 2 * rows;
        let tiles = ROWS_OF_TILE.into_iter().filter(fits);
        for (tile, is_ahead) in tiles.clone().flat_map(|tile| [(tile, true), (tile, false)]) {
            let mark = Mark::of(choice);
            // What threads keep for themselves will not be in shared memory.
            if choice.with_all_memory(|choice| two_matrices::apply(choice, &chain, tile, is_ahead)).is_some() {
                return true;
            }
            mark.restore(choice);
        }
        for (tile, terms) in tiles.flat_map(|tile| TERMS_OF_TILE.map(|terms| (tile, terms))) {
            let mark = Mark::of(choice);
            if apply(choice, &chain, tile, terms).is_some() {
                return true;
            }
            mark.restore(choice);
        }
    }
    mark.restore(choice);
    false
}

/// What is kept between the first local buffer and the last one is computed again, where that can be: by the lanes of a row, each its part.
fn recompute_between(choice: &mut Attempts<'_>) {
    while let [_, between, _, ..] = local_buffers(&choice.kernel).as_slice() {
        let loads = loads_of(&choice.kernel);
        let Some(number) = loads.iter().position(|load| load.src()[0].src()[0] == *between) else { return };
        if !choice.attempt(Opt::Recompute { load: number as u32 }) {
            return;
        }
    }
}

pub(super) fn length_of(kernel: &UOp, id: u32) -> Option<i64> {
    let range = all_ranges(kernel).into_iter().find(|range| range_id(range) == id)?;
    range.src()[0].as_int()
}

/// A sum over one loop of products of two factors.
fn is_contraction(node: &UOp) -> bool {
    node.op() == Op::ReduceRange
        && *node.arg() == Arg::Combine(ReduceOp::Add)
        && closed_ranges(node).len() == 1
        && open_operands(node)[0].op() == Op::Mul
}

fn loads_below(node: &UOp) -> Vec<UOp> {
    postorder(open_operands(node)).into_iter().filter(|node| node.op() == Op::Load).collect()
}

fn is_of_memory(load: &UOp) -> bool {
    load.src()[0].src()[0].op() == Op::Param
}

/// The two products of a kernel, if it is such.
fn find(kernel: &UOp) -> Option<Chain> {
    let [store] = kernel.src() else { return None };
    let dependencies = Dependencies::of(kernel);
    let depends = |node: &UOp, id: u32| dependencies.get(node).contains(id);
    let buffers = local_buffers(kernel);
    let fills: Vec<u32> = buffers.iter().map(filled_by).collect::<Option<_>>()?;
    let outputs: Vec<u32> = loops_over_outputs(kernel).iter().map(range_id).collect();
    let terms_of_store = linear_terms(&store.src()[0].src()[1]).0;
    let is_column = |id: &u32| {
        let steps_by_one =
            terms_of_store.iter().any(|(term, step)| term.op() == Op::Range && range_id(term) == *id && *step == 1);
        steps_by_one && !buffers.iter().any(|buffer| depends(buffer, *id))
    };
    let column = *outputs.iter().rev().find(|id| is_column(id))?;
    let filled = *fills.first()?;
    let ends = || dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange);
    let scores = ends().find(|node| is_contraction(node) && depends(node, filled))?;
    let second = ends().find(|node| is_contraction(node) && depends(node, column))?;
    let of_memory: Vec<UOp> = loads_below(scores).into_iter().filter(is_of_memory).collect();
    let is_row = |id: &u32| {
        let of_row = |load: &UOp| depends(load, *id) && !depends(load, filled);
        let of_term = |load: &UOp| !depends(load, *id) && depends(load, filled);
        buffers.iter().all(|buffer| depends(buffer, *id))
            && of_memory.len() == 2
            && of_memory.iter().any(of_row)
            && of_memory.iter().any(of_term)
    };
    let row = *outputs.iter().rev().find(|id| is_row(id))?;
    let is_value = |load: &UOp| depends(load, column) && !depends(load, row) && is_of_memory(load);
    let is_kept = |load: &UOp| !is_of_memory(load) && !depends(load, column) && depends(load, row);
    // What the second product's loop reads varies with it.
    let weighted = range_id(&closed_ranges(second)[0]);
    let own: Vec<UOp> = loads_below(second).into_iter().filter(|load| depends(load, weighted)).collect();
    if own.len() != 2 || !own.iter().any(is_value) || !own.iter().any(is_kept) {
        return None;
    }
    let mut beside: Vec<u32> = fills[1..].to_vec();
    for node in ends().filter(|node| *node != scores && *node != second && matches!(node.arg(), Arg::Combine(_))) {
        let [range] = closed_ranges(node) else { return None };
        let is_of_row = depends(node, row) && !depends(node, column);
        if !is_of_row {
            return None;
        }
        beside.push(range_id(range));
    }
    beside.dedup();
    let terms = range_id(&closed_ranges(scores)[0]);
    let chain = Chain { row, column, outputs, filled, terms, weighted, beside };
    let constant = |id: &u32| length_of(kernel, *id).is_some();
    let all = [row, column, filled, terms, weighted];
    (all.iter().chain(&chain.beside).all(constant) && !chain.beside.contains(&terms)).then_some(chain)
}

/// The loop that fills a local buffer of a thread, if that is one loop, and each element is filled once.
fn filled_by(buffer: &UOp) -> Option<u32> {
    let [store] = buffer.src() else { return None };
    let [range] = closed_ranges(store) else { return None };
    let is_own = matches!(scratch_of(buffer).arg(), Arg::Scratch(_, _, MemorySpace::Private));
    let is_loop = range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    (is_own && is_loop && *store.arg() == Arg::None).then(|| range_id(range))
}

/// The number of the load from memory that depends on some ranges, and on none of others.
fn load_of(kernel: &UOp, on: &[u32], not_on: &[u32]) -> Option<(u32, UOp)> {
    let dependencies = Dependencies::of(kernel);
    let is_it = |load: &UOp| {
        let set = dependencies.get(load);
        is_of_memory(load) && on.iter().all(|id| set.contains(*id)) && !not_on.iter().any(|id| set.contains(*id))
    };
    let loads = loads_of(kernel);
    let number = loads.iter().position(is_it)?;
    Some((number as u32, loads[number].clone()))
}

fn apply(choice: &mut Attempts<'_>, chain: &Chain, rows_of_tile: i64, [scored, valued]: [i64; 2]) -> Option<()> {
    let groups = rows_of_tile / ROWS_OF_THREAD;
    let rows = split(choice, chain.row, rows_of_tile)?;
    let threads = [(LANES, ThreadIndex::Lane), (groups, ThreadIndex::Block(ThreadDim::Y))];
    copy(choice, [rows, chain.terms], &[chain.filled], &threads, false)?;
    let row = split(choice, rows, ROWS_OF_THREAD)?;
    choice.attempt(Opt::Upcast { range: row, times: ROWS_OF_THREAD as u32 }).then_some(())?;
    choice.attempt(of_group(rows)).then_some(())?;
    // The two rows of a warp lie half of all banks apart.
    keep_all(choice, BANKS / 2)?;
    // The scores.
    let filled = split(choice, chain.filled, tile_of(length_of(&choice.kernel, chain.filled)?, scored, LANES))?;
    copy(choice, [filled, chain.terms], &[rows], &threads, false)?;
    share(choice, filled)?;
    if length_of(&choice.kernel, chain.terms)? % TERMS_AT_ONCE == 0 {
        split(choice, chain.terms, TERMS_AT_ONCE)?;
    }
    // The outputs.
    let weighted =
        split(choice, chain.weighted, tile_of(length_of(&choice.kernel, chain.weighted)?, valued, TERMS_AT_ONCE))?;
    copy(choice, [weighted, chain.column], &[rows], &threads, false)?;
    if length_of(&choice.kernel, weighted)? % TERMS_AT_ONCE == 0 {
        split(choice, weighted, TERMS_AT_ONCE)?;
    }
    share_columns(choice, chain.column)?;
    for &range in &chain.beside {
        let part = split(choice, range, LANES)?;
        choice.attempt(Opt::Map { range: part, index: ThreadIndex::Lane }).then_some(())?;
    }
    let around: Vec<u32> = chain.outputs.iter().copied().filter(|id| *id != chain.column).collect();
    map_grid(choice, &around).then_some(())
}

fn of_group(range: u32) -> Opt {
    Opt::Map { range, index: ThreadIndex::Block(ThreadDim::Y) }
}

/// The length of tiles, of so many at most, that leave little of the last one empty; a multiple of a number.
pub(super) fn tile_of(len: i64, most: i64, multiple: i64) -> i64 {
    let count = (len + most - 1) / most;
    let part = (len + count - 1) / count;
    (part + multiple - 1) / multiple * multiple
}

/// The local buffers of a row are kept by the block: the rows of a warp begin so many banks apart.
pub(super) fn keep_all(choice: &mut Attempts<'_>, apart: i64) -> Option<()> {
    let is_own = |load: &UOp| {
        let buffer = &load.src()[0].src()[0];
        buffer.op() == Op::LocalBuffer && matches!(scratch_of(buffer).arg(), Arg::Scratch(_, _, MemorySpace::Private))
    };
    loop {
        let loads = loads_of(&choice.kernel);
        let Some(number) = loads.iter().position(is_own) else { return Some(()) };
        let Arg::Scratch(_, len, _) = *scratch_of(&loads[number].src()[0].src()[0]).arg() else { return None };
        let pad = (apart - len as i64).rem_euclid(BANKS) as u32;
        choice.attempt(Opt::KeepShared { load: number as u32, pad }).then_some(())?;
    }
}

/// Lanes take turns at a loop; what is left of it is written out.
fn share(choice: &mut Attempts<'_>, range: u32) -> Option<()> {
    let lanes = split(choice, range, LANES)?;
    choice.attempt(Opt::Map { range: lanes, index: ThreadIndex::Lane }).then_some(())?;
    write_out(choice, range)
}

fn write_out(choice: &mut Attempts<'_>, range: u32) -> Option<()> {
    let left = loop_of(&choice.kernel, range).and_then(|range| range.src()[0].as_int()).unwrap_or(1);
    (left < 2 || choice.attempt(Opt::Upcast { range, times: left as u32 })).then_some(())
}

/// Vectors of columns by lanes.
fn share_columns(choice: &mut Attempts<'_>, column: u32) -> Option<()> {
    let len = length_of(&choice.kernel, column)?;
    if len > COLUMNS_OF_THREAD * LANES {
        return None;
    }
    let vector = [4, 2].into_iter().find(|lanes| len % (lanes * LANES) == 0);
    if let Some(lanes) = vector {
        choice.attempt(Opt::Vectorize { range: column, lanes: lanes as u32 }).then_some(())?;
    }
    share(choice, column)
}

/// Copies an operand's tile into shared memory, by all threads, those first who are neighbours, while the block before is computed with, or before it: the load that depends on both ranges, and on none of others.
pub(super) fn copy(
    choice: &mut Attempts<'_>,
    [across, along]: [u32; 2],
    not_on: &[u32],
    threads: &[(i64, ThreadIndex)],
    is_ahead: bool,
) -> Option<()> {
    let (number, load) = load_of(&choice.kernel, &[across, along], not_on)?;
    let steps = linear_terms(&load.src()[0].src()[1]).0;
    let step_of =
        |id: u32| steps.iter().find(|(term, _)| term.op() == Op::Range && range_id(term) == id).map(|(_, step)| *step);
    let ranges = if step_of(across) == Some(1) { vec![along, across] } else { vec![across, along] };
    let bytes = load.dtype().bytes();
    let inner = length_of(&choice.kernel, ranges[1])?;
    let pad = (VECTOR_BYTES / bytes) as u32;
    let fill = next_range_id(&choice.kernel);
    let stage = match is_ahead {
        true => Opt::StageAhead { load: number, pad, ranges },
        false => Opt::StagePadded { load: number, pad, ranges },
    };
    choice.attempt(stage).then_some(())?;
    let vector = [8, 4, 2].into_iter().find(|lanes| lanes * bytes as i64 <= VECTOR_BYTES as i64 && inner % lanes == 0);
    if let Some(lanes) = vector {
        choice.attempt(Opt::Vectorize { range: fill + 1, lanes: lanes as u32 }).then_some(())?;
    }
    if loop_of(&choice.kernel, fill + 1).is_some() {
        choice.attempt(Opt::Flatten { range: fill, inner: fill + 1 }).then_some(())?;
    }
    for &(len, index) in threads {
        if loop_of(&choice.kernel, fill).is_some() {
            let part = split(choice, fill, len)?;
            choice.attempt(Opt::Map { range: part, index }).then_some(())?;
        }
    }
    let left = loop_of(&choice.kernel, fill).and_then(|range| range.src()[0].as_int());
    if let Some(times) = left.filter(|len| (2..=COPIES_AT_ONCE).contains(len)) {
        choice.attempt(Opt::Upcast { range: fill, times: times as u32 });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_leave_little_of_the_last_one_empty() {
        assert_eq!([512, 128, 77, 64, 33, 16, 7].map(|len| tile_of(len, 64, LANES)), [64, 64, 48, 64, 48, 16, 16]);
        assert_eq!([512, 77, 197, 5].map(|len| tile_of(len, 32, TERMS_AT_ONCE)), [32, 28, 32, 8]);
    }
}
