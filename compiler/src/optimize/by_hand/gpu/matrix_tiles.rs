//! The choice by hand of products of half floats for machines whose lanes multiply matrices together (`matrices`): by tiles in shared memory, as other products
//! (`shared_tiles`), of which each warp has a part.
//!
//! ```text
//! grid over tiles of rows and columns
//!   loop over slices of the terms
//!     all threads copy the tile of each operand into shared memory, and meet
//!     each warp multiplies its rows with its columns, 16 rows by 8 columns by 16 terms at a time: sums in registers
//!     all threads meet
//! ```
//!
//! A copy is made of vectors of 16 bytes along what is consecutive in memory, neighbours by neighbouring lanes. Behind each of its rows 16 bytes stay unused: so the
//! eight groups of a warp's lanes, which read one element of eight rows, find them in different banks.
//!
//! The largest tile is taken of which there are enough for all multiprocessors, among those that leave little of their last ones empty; what lies beyond the end of a side or of
//! the terms is masked. Of few rows or columns one tile has all, however empty it is: so the other operand is read once.
//!
//! Weights of a convolution are copied for all elements of the window at once, as they lie in memory; then lanes load their elements one by one.
//!
//! Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use super::shared_tiles::{Operand, Product, is_mostly_full, loop_of, next_operand, split, stage_windows, try_each};
use crate::DType;
use crate::ir::{Op, ThreadDim, UOp, fragments, postorder};
use crate::kernel::ranges::next_range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::Survey;
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::target::Feature;

/// A tile of outputs, and the warps that have parts of it, along rows and columns.
#[derive(Clone, Copy, Debug)]
struct MatrixTile {
    rows: i64,
    columns: i64,
    warps: [i64; 2],
}

/// Largest first.
const TILES: [MatrixTile; 6] = [
    MatrixTile { rows: 128, columns: 256, warps: [2, 4] },
    MatrixTile { rows: 128, columns: 128, warps: [2, 4] },
    MatrixTile { rows: 64, columns: 64, warps: [2, 2] },
    MatrixTile { rows: 32, columns: 32, warps: [2, 2] },
    MatrixTile { rows: 16, columns: 32, warps: [1, 4] },
    MatrixTile { rows: 32, columns: 16, warps: [2, 2] },
];

/// Rows, or columns, that are few: a product of so many is bound by memory.
const FEW: i64 = 32;

/// Terms of a slice, most first: rows of 128 bytes are whole lines of the second cache.
const SLICES: [i64; 3] = [64, 32, fragments::TERMS];
/// Half floats of 16 bytes: of a vector, and unused behind each row of a copy.
const VECTOR: u32 = 8;
/// Vectors of a copy that a thread asks for before it stores the first.
const COPIES_AT_ONCE: i64 = 8;

/// Computes a product of half floats by matrices that lanes multiply; whether it did.
pub(crate) fn tile_matrices(choice: &mut Attempts<'_>, product: &Product, survey: &Survey) -> bool {
    if !choice.target.has(Feature::Matrices) || !multiplies_halves(&choice.kernel) {
        return false;
    }
    let len = |id: u32| survey.ranges.get(&id).and_then(|range| range.src()[0].as_int()).unwrap_or(0);
    let (rows, columns, terms) = (len(product.rows), len(product.columns), len(product.terms));
    let batches: i64 = product.batches.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    // The longest slice that leaves little more of its last one empty than shorter ones. Of windows, copies hold all elements beside the terms.
    let in_slices = |slice: i64| (terms + slice - 1) / slice * slice;
    let is_full = |slice: &i64| in_slices(*slice) * 16 <= in_slices(fragments::TERMS) * 17;
    let is_meant = |slice: &i64| product.has_one_loop || *slice < SLICES[0];
    let slice = SLICES.into_iter().filter(is_meant).find(is_full).unwrap_or(fragments::TERMS);
    let fits = |tile: &MatrixTile| {
        let sides = [(rows, tile.rows, columns), (columns, tile.columns, rows)];
        // One tile of few rows, beside many columns: memory takes longer than what is multiplied for nothing.
        let is_few = |(len, side, other): (i64, i64, i64)| {
            let is_smallest = side < FEW || 2 * len > side;
            len <= side && side <= FEW && other >= 2 * FEW && is_smallest
        };
        let is_meant = sides.iter().all(|side| side.1 >= FEW || is_few(*side));
        let counted = sides.map(|side| if is_few(side) { (1, 1) } else { (side.0, side.1) });
        is_meant && is_mostly_full(&[counted[0], counted[1], (terms, slice)])
    };
    let enough = i64::from(choice.target.costs.cores);
    let tiles_of = |len: i64, side: i64| (len + side - 1) / side;
    let is_enough =
        |tile: &&MatrixTile| tiles_of(rows, tile.rows) * tiles_of(columns, tile.columns) * batches >= enough;
    let fitting: Vec<MatrixTile> = TILES.into_iter().filter(fits).collect();
    let tile = fitting.iter().find(is_enough).or(fitting.last()).copied();
    let Some(tile) = tile.filter(|_| product.admits(terms, slice)) else { return false };
    // Copied ahead where there is a next slice, and room for it.
    // One block of the largest tiles has all registers of a multiprocessor.
    choice.with_all_memory(|choice| {
        try_each(choice, product.ways(terms, slice), |choice, is_ahead| {
            apply_tile(choice, product, tile, Slice { terms: slice, is_ahead }).is_some()
        })
    })
}

/// Terms that are copied at once.
#[derive(Clone, Copy)]
struct Slice {
    terms: i64,
    /// Whether a slice is copied while the one before is multiplied.
    is_ahead: bool,
}

/// Whether a kernel sums products of half floats in `f32`.
fn multiplies_halves(kernel: &UOp) -> bool {
    let is_half =
        |factor: &UOp| factor.op() == Op::Cast && [DType::F16, DType::BF16].contains(&factor.src()[0].dtype());
    let nodes = postorder(std::slice::from_ref(kernel));
    let mut sums = nodes.iter().filter(|node| node.op() == Op::ReduceRange).map(|node| &node.src()[0]);
    sums.any(|value| value.op() == Op::Mul && value.src().iter().all(is_half))
}

fn apply_tile(choice: &mut Attempts<'_>, product: &Product, tile: MatrixTile, slice: Slice) -> Option<()> {
    let rows = split(choice, product.rows, tile.rows)?;
    let columns = split(choice, product.columns, tile.columns)?;
    let terms = split(choice, product.terms, slice.terms)?;
    while let Some(operand) = next_operand(&choice.kernel, [rows, columns, terms]) {
        copy_operand(choice, &operand, [rows, columns, terms], tile, slice.is_ahead)?;
    }
    let row = split(choice, rows, fragments::ROWS)?;
    let column = split(choice, columns, fragments::COLUMNS)?;
    let term = split(choice, terms, fragments::TERMS)?;
    let sides = [(rows, tile.rows / fragments::ROWS, 0), (columns, tile.columns / fragments::COLUMNS, 1)];
    for (range, parts, along) in sides {
        let times = parts / tile.warps[along];
        if times > 1 {
            choice.attempt(Opt::Upcast { range, times: times as u32 }).then_some(())?;
        }
        if tile.warps[along] > 1 {
            choice.attempt(Opt::Map { range, index: ThreadIndex::Block(DIMS[along]) }).then_some(())?;
        }
    }
    let mut dims = ThreadDim::ALL.into_iter();
    for id in [product.columns, product.rows].into_iter().chain(product.batches.iter().rev().copied()) {
        // Of so few that they are one tile, the loop is the tile's.
        if ![row, column].contains(&id)
            && loop_of(&choice.kernel, id).is_some()
            && let Some(dim) = dims.next()
        {
            choice.attempt(Opt::Map { range: id, index: ThreadIndex::Grid(dim) });
        }
    }
    // Last, for afterwards values of several lanes stand for elements.
    choice.attempt(Opt::MultiplyMatrices { rows: row, columns: column, terms: term }).then_some(())
}

/// Indices of warps along rows and columns.
const DIMS: [ThreadDim; 2] = [ThreadDim::Y, ThreadDim::X];

/// Copies the tile of an operand into shared memory, by all threads.
fn copy_operand(
    choice: &mut Attempts<'_>,
    operand: &Operand,
    [rows, columns, terms]: [u32; 3],
    tile: MatrixTile,
    is_ahead: bool,
) -> Option<()> {
    let side = if operand.has_columns { columns } else { rows };
    let ranges = if operand.is_along_terms { vec![side, terms] } else { vec![terms, side] };
    let copy = next_range_id(&choice.kernel);
    let (load, pad) = (operand.number, VECTOR);
    let stage = match is_ahead {
        true => Opt::StageAhead { load, pad, ranges },
        false => Opt::StagePadded { load, pad, ranges },
    };
    if !operand.is_along_terms || !stage_windows(choice, load, [side, terms]) {
        choice.attempt(stage).then_some(())?;
    }
    choice.attempt(Opt::Vectorize { range: copy + 1, lanes: VECTOR }).then_some(())?;
    choice.attempt(Opt::Flatten { range: copy, inner: copy + 1 }).then_some(())?;
    let indices = [
        (fragments::LANES, ThreadIndex::Lane),
        (tile.warps[1], ThreadIndex::Block(DIMS[1])),
        (tile.warps[0], ThreadIndex::Block(DIMS[0])),
    ];
    for (len, index) in indices {
        let left = loop_of(&choice.kernel, copy).and_then(|range| range.src()[0].as_int()).unwrap_or(1);
        if len > 1 && left % len == 0 {
            let part = split(choice, copy, len)?;
            choice.attempt(Opt::Map { range: part, index }).then_some(())?;
        }
    }
    // What a thread copies is asked for at once.
    let left = loop_of(&choice.kernel, copy).and_then(|range| range.src()[0].as_int());
    if let Some(times) = left.filter(|len| (2..=COPIES_AT_ONCE).contains(len)) {
        choice.attempt(Opt::Upcast { range: copy, times: times as u32 });
    }
    Some(())
}
