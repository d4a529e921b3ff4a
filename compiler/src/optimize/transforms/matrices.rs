//! A tile of a product of matrices as the lanes of a warp multiply it together: 16 rows, 8 columns, 16 terms ([`fragments`]).
//!
//! ```text
//! for r3 in 0..16                                    lanes r6 of 32
//!   for r4 in 0..8                                     reduce r2
//!     reduce r2, r5 in 0..16             =>              multiply_matrices of parts of a and b
//!       a[r3, r2, r5] * b[r2, r5, r4]                    add
//!     store y[r3, r4]                                  unrolled r7 of 4
//!                                                        store y[row of r7, column of r7]
//! ```
//!
//! The factors are half floats, of which products are exact in `f32`. Sums are of 16 products at once, and how a machine rounds within these is not written down: so this takes a
//! reduction apart, as lanes and copies do. What lies in shared memory in rows of eight
//! elements is loaded by all lanes together; else each lane asks for its elements of the factors by itself, from wherever these are.
//!
//! A kernel may have given its threads the elements of such a tile already: of each 16 rows a thread has two, of each 8 columns two, where 8 indices `block x` count the rows and 4
//! lanes the columns. Then the reduction alone becomes a product of matrices, and rows and columns are the loops of two, written out:
//!
//! ```text
//! block_x r3 of 8, copies r4 of 2, lane r5 of 4, copies r6 of 2
//!   reduce r2, r7 in 0..16                            =>    element 2 * r4 + r6 of
//!     a[r4 * 8 + r3, r2, r7] * b[r2, r7, r5 * 2 + r6]         reduce r2: multiply_matrices of parts of a and b
//! ```
//!
//! A factor in `f32` beside a half float becomes a sum of half floats (`half_parts`): there are two or three products then, the smallest first.
//!
//! It comes last: values of several lanes stand for elements afterwards. Other reductions may follow it alone.
//!
//! Refused: other lengths, types and combinations; factors that depend on rows and columns both, or on lanes of vectors.
//!
//! Always: each element of the outputs is stored by one lane. Tested in the test crate, on the interpreter of lists and on the emulator of GPUs.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::half_parts::{PARTS, PARTS_FOR_HALVES, WEIGHT_SCALE, is_half, is_weight, narrow_part, parts_of};
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, ReduceOp, Sources, ThreadDim, UOp, fragments, postorder, substitute};
use crate::kernel::local_buffers::scratch_of;
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, is_loop_end, next_range_id, open_operands, range_id, substitute_ranges,
};
use crate::optimize::opt::{Opt, Reason};
use crate::symbolic::{linear_terms, simplify};

/// The ranges of a tile.
pub(crate) struct TileRanges<'k> {
    pub(crate) rows: &'k UOp,
    pub(crate) columns: &'k UOp,
    pub(crate) terms: &'k UOp,
}

/// Whether an opt may follow: after matrices are multiplied, other matrices alone.
pub(crate) fn check_may_follow(root: &UOp, opt: &Opt) -> Result<(), Reason> {
    let may_repeat = matches!(opt, Opt::MultiplyMatrices { .. });
    match root.contains(Op::MultiplyTiles) || root.contains(Op::MultiplyMatrices) && !may_repeat {
        true => Err("matrices are multiplied already, which comes last".into()),
        false => Ok(()),
    }
}

/// The kernel in which lanes multiply a tile.
///
/// # Errors
/// Why not.
pub(crate) fn multiply_matrices(root: &UOp, tile: &TileRanges<'_>) -> Result<UOp, Reason> {
    if is_of_two(tile.rows) && is_of_two(tile.columns) {
        return multiply_in_place(root, tile);
    }
    check_ranges(root, tile)?;
    let next = next_range_id(root);
    let lane = UOp::range(fragments::LANES, next, AxisKind::Lane);
    let element = UOp::range(fragments::SUMS as i64, next + 1, AxisKind::Unroll);
    let dependencies = Dependencies::of(root);
    let (group, position) = (lane.idiv(4), lane.modulo(4));
    let mut products: FxHashMap<UOp, UOp> = FxHashMap::default();
    for reduction in reductions_over(tile.terms, &dependencies) {
        let sides = Sides {
            row: Side { ranges: smallvec![(tile.rows.clone(), 1)], len: fragments::ROWS },
            column: Side { ranges: smallvec![(tile.columns.clone(), 1)], len: fragments::COLUMNS },
            terms: tile.terms,
            group: group.clone(),
            position: position.clone(),
            parts: 1,
        };
        let sums = sums_of(&reduction, &sides, &dependencies)?;
        products.insert(reduction, of_element(&sums, &element));
    }
    let row = NewRanges { value: element.idiv(2) * 8 + group, ranges: smallvec![lane, element.clone()] };
    let column = NewRanges { value: position * 2 + element.modulo(2), ranges: smallvec![] };
    let outputs = [(tile.rows.clone(), row), (tile.columns.clone(), column)].into_iter().collect();
    Ok(simplify(&substitute_ranges(&substitute(root, &products), &outputs)))
}

/// The kernel in which threads that have the elements of a tile already multiply it together.
fn multiply_in_place(root: &UOp, tile: &TileRanges<'_>) -> Result<UOp, Reason> {
    if !is(tile.terms, fragments::TERMS, AxisKind::Reduce) {
        return Err("the loop of the reduction has 16 terms".into());
    }
    let dependencies = Dependencies::of(root);
    let gives_halves = root.src().iter().all(|store| store.op() == Op::Store && is_half(store.src()[1].dtype()));
    let parts = if gives_halves { PARTS_FOR_HALVES } else { PARTS };
    let mut products: FxHashMap<UOp, UOp> = FxHashMap::default();
    for reduction in reductions_over(tile.terms, &dependencies) {
        let index = |kind: AxisKind, len: i64| {
            let set = dependencies.get(&reduction);
            let mut ranges = dependencies.order.iter().filter(|node| node.op() == Op::Range);
            ranges.find(|range| is(range, len, kind) && set.contains(range_id(range))).cloned()
        };
        let group =
            index(AxisKind::Block(ThreadDim::X), fragments::SIDE).ok_or("no 8 indices block x have the rows")?;
        let lane = index(AxisKind::Lane, 4).ok_or("no 4 lanes have the columns")?;
        let sides = Sides {
            row: Side { ranges: smallvec![(tile.rows.clone(), 8), (group.clone(), 1)], len: fragments::ROWS },
            column: Side { ranges: smallvec![(lane.clone(), 2), (tile.columns.clone(), 1)], len: fragments::COLUMNS },
            terms: tile.terms,
            group,
            position: lane,
            parts,
        };
        let sums = sums_of(&reduction, &sides, &dependencies)?;
        products.insert(reduction, of_element(&sums, &(tile.rows * 2 + tile.columns)));
    }
    if products.is_empty() {
        return Err("nothing is reduced over the terms".into());
    }
    Ok(simplify(&substitute(root, &products)))
}

/// The reductions that close a range.
fn reductions_over(terms: &UOp, dependencies: &Dependencies) -> Vec<UOp> {
    let closes_terms = |node: &&UOp| node.op() == Op::ReduceRange && closed_ranges(node).contains(terms);
    dependencies.order.iter().filter(closes_terms).cloned().collect()
}

fn is(range: &UOp, len: i64, kind: AxisKind) -> bool {
    range.src()[0].is_const(len) && range.as_range().is_some_and(|arg| arg.kind == kind)
}

/// Whether it is a loop of two, written out.
fn is_of_two(range: &UOp) -> bool {
    is(range, 2, AxisKind::Unroll)
}

/// Whether the ranges are those of one tile of outputs, and of a reduction.
fn check_ranges(root: &UOp, tile: &TileRanges<'_>) -> Result<(), Reason> {
    let are_tile = is(tile.rows, fragments::ROWS, AxisKind::Loop)
        && is(tile.columns, fragments::COLUMNS, AxisKind::Loop)
        && is(tile.terms, fragments::TERMS, AxisKind::Reduce);
    if !are_tile {
        return Err("a tile has loops of 16 rows and 8 columns of outputs, and one of a reduction of 16 terms".into());
    }
    for node in postorder(std::slice::from_ref(root)).iter().filter(|node| is_loop_end(node)) {
        let closes = |range: &UOp| closed_ranges(node).contains(range);
        if (closes(tile.rows) || closes(tile.columns)) && !root.src().contains(node) {
            return Err("the rows or columns are loops of something else than outputs".into());
        }
        if closes(tile.rows) != closes(tile.columns) {
            return Err("an output has rows or columns alone".into());
        }
    }
    Ok(())
}

/// A side of a tile, rows or columns: the ranges that say which one it is, and of each how many it steps over.
struct Side {
    ranges: SmallVec<[(UOp, i64); 2]>,
    len: i64,
}

impl Side {
    /// The ranges where the side's number is this one.
    fn at(&self, number: &UOp) -> SmallVec<[(UOp, UOp); 2]> {
        let mut whole = self.len;
        let parts = self.ranges.iter().map(|(range, step)| {
            let part = if whole == self.len { number.idiv(*step) } else { number.modulo(whole).idiv(*step) };
            whole = *step;
            (range.clone(), part)
        });
        parts.collect()
    }

    /// Of the terms of an offset, how many elements the next number is away.
    fn step_in(&self, terms: &[(UOp, i64)]) -> Option<i64> {
        let step_of = |(range, times): &(UOp, i64)| {
            let (_, step) = terms.iter().find(|(term, _)| term == range)?;
            (step % times == 0).then_some(step / times)
        };
        let step = step_of(self.ranges.first()?)?;
        self.ranges.iter().all(|range| step_of(range) == Some(step)).then_some(step)
    }
}

/// The sides of a tile and its terms; and the numbers of the lane: of its group, and its position in that.
struct Sides<'k> {
    row: Side,
    column: Side,
    terms: &'k UOp,
    group: UOp,
    position: UOp,
    /// Half floats that a factor in `f32` becomes.
    parts: usize,
}

/// A reduction over all of its ranges as the sums of a lane.
fn sums_of(reduction: &UOp, sides: &Sides<'_>, dependencies: &Dependencies) -> Result<UOp, Reason> {
    let value = &open_operands(reduction)[0];
    if *reduction.arg() != Arg::Combine(ReduceOp::Add) || reduction.dtype() != DType::F32 || value.op() != Op::Mul {
        return Err("only sums in f32 of products are done by matrices".into());
    }
    let is_vector = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Vector);
    let depends = |node: &UOp, range: &UOp| dependencies.get(node).contains(range_id(range));
    if dependencies.order.iter().any(|node| node.op() == Op::Range && is_vector(node) && depends(value, node)) {
        return Err("the product depends on lanes of vectors".into());
    }
    let [a, b] = [&value.src()[0], &value.src()[1]].map(narrow_part);
    let half = [a, b].map(UOp::dtype).into_iter().find(|dtype| is_half(*dtype));
    let half = half.ok_or("the factors are no half floats")?;
    // Numbers of f16 do not go as far as those of f32, but weights do not exceed 1.
    let fits = |factor: &UOp| half == DType::BF16 || is_weight(factor);
    let is_split = |factor: &UOp| factor.dtype() == DType::F32 && sides.parts > 1 && fits(factor);
    if [a, b].into_iter().any(|factor| factor.dtype() != half && !is_split(factor)) {
        return Err("the factors are no half floats of one type".into());
    }
    let of = |node: &UOp, side: &Side| side.ranges.iter().any(|(range, _)| depends(node, range));
    let of_rows = |node: &UOp| of(node, &sides.row) && !of(node, &sides.column);
    let of_columns = |node: &UOp| of(node, &sides.column) && !of(node, &sides.row);
    let (left, right) = match () {
        () if of_rows(a) && of_columns(b) => (a, b),
        () if of_rows(b) && of_columns(a) => (b, a),
        () => return Err("one factor must depend on rows, the other one on columns".into()),
    };
    let sums = DType::F32.with_lanes(fragments::SUMS);
    let zeros = UOp::constant(Scalar::zero(DType::F32), sums);
    let lefts: Vec<UOp> = parts_of(left, half, sides.parts).iter().map(|part| left_fragment(part, sides)).collect();
    let rights: Vec<UOp> = parts_of(right, half, sides.parts).iter().map(|part| right_fragment(part, sides)).collect();
    let pairs = lefts.iter().flat_map(|left| rights.iter().map(move |right| (left, right)));
    let product = pairs.fold(zeros, |sum, (left, right)| {
        UOp::new(Op::MultiplyMatrices, sums, smallvec![left.clone(), right.clone(), sum], Arg::None)
    });
    let others = closed_ranges(reduction).iter().filter(|range| *range != sides.terms).cloned();
    let all: Sources = std::iter::once(product.clone()).chain(others).collect();
    let sum = if all.len() == 1 { product } else { UOp::new(Op::ReduceRange, sums, all, reduction.arg().clone()) };
    let is_scaled = half == DType::F16 && [a, b].iter().any(|factor| factor.dtype() != half);
    let scale = UOp::constant(Scalar::from_f64(1.0 / WEIGHT_SCALE, DType::F32), sums);
    Ok(if is_scaled { sum * scale } else { sum })
}

/// The elements of the left factor that a lane holds.
fn left_fragment(left: &UOp, sides: &Sides<'_>) -> UOp {
    let side = fragments::SIDE;
    let begin = |matrix: &UOp| [matrix.modulo(2) * side, matrix.idiv(2) * side];
    loaded_together(left, &sides.row, sides, fragments::LEFT / 2, &begin).unwrap_or_else(|| {
        let element = |number: usize| {
            let [row, term] = fragments::left(number);
            element_of(left, &sides.row, &(&sides.group + row), &(&sides.position * 2 + term), sides.terms)
        };
        stack((0..fragments::LEFT).map(element).collect())
    })
}

/// The elements of the right factor that a lane holds.
fn right_fragment(right: &UOp, sides: &Sides<'_>) -> UOp {
    let begin = |matrix: &UOp| [UOp::index(0), matrix * fragments::SIDE];
    loaded_together(right, &sides.column, sides, fragments::RIGHT / 2, &begin).unwrap_or_else(|| {
        let element = |number: usize| {
            let [term, column] = fragments::right(number);
            element_of(right, &sides.column, &(&sides.group + column), &(&sides.position * 2 + term), sides.terms)
        };
        stack((0..fragments::RIGHT).map(element).collect())
    })
}

fn stack(elements: Sources) -> UOp {
    UOp::new(Op::Stack, elements[0].dtype().with_lanes(elements.len()), elements, Arg::None)
}

/// A factor at a number of its side, and at a term.
fn element_of(factor: &UOp, side: &Side, number: &UOp, term: &UOp, terms: &UOp) -> UOp {
    at(factor, side.at(number).into_iter().chain([(terms.clone(), term.clone())]))
}

/// A factor that lies in shared memory in rows of eight elements at least, loaded by all lanes together: so many matrices, which begin at the row (or column) and the term that
/// are told of their number.
fn loaded_together(
    factor: &UOp,
    across: &Side,
    sides: &Sides<'_>,
    count: usize,
    begin: &dyn Fn(&UOp) -> [UOp; 2],
) -> Option<UOp> {
    let index = factor.src().first().filter(|index| factor.op() == Op::Load && index.src().len() == 2)?;
    let (memory, offset) = (&index.src()[0], &index.src()[1]);
    let is_shared =
        memory.op() == Op::LocalBuffer && matches!(scratch_of(memory).arg(), Arg::Scratch(_, _, MemorySpace::Shared));
    let terms = linear_terms(offset).0;
    let along_terms = terms.iter().find(|(term, _)| term == sides.terms).map(|(_, step)| *step)?;
    let (from_row, from_term, is_turned) = match (along_terms, across.step_in(&terms)?) {
        (1, step) => (step, 1, false),
        (step, 1) => (1, step, true),
        _ => return None,
    };
    let lane = &sides.group * 4 + &sides.position;
    let row = lane.modulo(fragments::SIDE);
    let [number, along] = begin(&lane.idiv(fragments::SIDE).modulo(count as i64));
    let (number, along) = if is_turned { (number, along + row) } else { (number + row, along) };
    let origin = across.ranges.iter().map(|(range, _)| (range.clone(), UOp::index(0)));
    let origin = at(offset, origin.chain([(sides.terms.clone(), UOp::index(0))]));
    let offset = simplify(&(origin + number * from_row + along * from_term));
    let facts = offset.facts();
    let is_aligned = (facts.modulus | facts.remainder).trailing_zeros() >= fragments::SIDE.trailing_zeros();
    if !is_shared || !is_aligned {
        return None;
    }
    let element = factor.dtype();
    let index =
        UOp::new(Op::Index, element.with_lanes(fragments::SIDE as usize), smallvec![memory.clone(), offset], Arg::None);
    let dtype = element.with_lanes(2 * count);
    Some(UOp::new(Op::LoadMatrices, dtype, smallvec![index], Arg::Number(i64::from(is_turned))))
}

/// A value at numbers of some ranges.
fn at(value: &UOp, numbers: impl IntoIterator<Item = (UOp, UOp)>) -> UOp {
    simplify(&substitute(value, &numbers.into_iter().collect()))
}

/// The lane of a vector that a range which becomes straight-line code counts.
fn of_element(vector: &UOp, element: &UOp) -> UOp {
    let lane =
        |number: i64| UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number));
    let last = fragments::SUMS as i64 - 1;
    (0..last).rev().fold(lane(last), |rest, number| element.equals(number).select(lane(number), rest))
}
