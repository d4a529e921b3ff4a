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
//! It is the last opt: values of several lanes stand for elements afterwards.
//!
//! Refused: other lengths, types and combinations; factors that depend on rows and columns both, or on lanes of vectors.
//!
//! Always: each element of the outputs is stored by one lane. Tested in the test crate, on the interpreter of lists and on the emulator of GPUs.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::DType;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, ReduceOp, Sources, UOp, fragments, postorder, substitute};
use crate::kernel::local_buffers::scratch_of;
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, is_loop_end, next_range_id, open_operands, range_id, substitute_ranges,
};
use crate::optimize::opt::Reason;
use crate::symbolic::{linear_terms, simplify};

/// The ranges of a tile.
pub(crate) struct TileRanges<'k> {
    pub(crate) rows: &'k UOp,
    pub(crate) columns: &'k UOp,
    pub(crate) terms: &'k UOp,
}

/// Whether an opt may follow: none after matrices are multiplied.
pub(crate) fn check_may_follow(root: &UOp) -> Result<(), Reason> {
    let nodes = postorder(std::slice::from_ref(root));
    match nodes.iter().any(|node| matches!(node.op(), Op::MultiplyMatrices | Op::MultiplyTiles)) {
        true => Err("matrices are multiplied already, which comes last".into()),
        false => Ok(()),
    }
}

/// The kernel in which lanes multiply a tile.
///
/// # Errors
/// Why not.
pub(crate) fn multiply_matrices(root: &UOp, tile: &TileRanges<'_>) -> Result<UOp, Reason> {
    check_ranges(root, tile)?;
    let next = next_range_id(root);
    let lane = UOp::range(fragments::LANES, next, AxisKind::Lane);
    let element = UOp::range(fragments::SUMS as i64, next + 1, AxisKind::Unroll);
    let dependencies = Dependencies::of(root);
    let closes_terms = |node: &&UOp| node.op() == Op::ReduceRange && closed_ranges(node).contains(tile.terms);
    let mut products: FxHashMap<UOp, UOp> = FxHashMap::default();
    for reduction in dependencies.order.iter().filter(closes_terms) {
        let sums = sums_of(reduction, tile, &lane, &dependencies)?;
        products.insert(reduction.clone(), of_element(&sums, &element));
    }
    let (group, place) = (lane.idiv(4), lane.modulo(4));
    let row = NewRanges { value: element.idiv(2) * 8 + group, ranges: smallvec![lane, element.clone()] };
    let column = NewRanges { value: place * 2 + element.modulo(2), ranges: smallvec![] };
    let outputs = [(tile.rows.clone(), row), (tile.columns.clone(), column)].into_iter().collect();
    Ok(simplify(&substitute_ranges(&substitute(root, &products), &outputs)))
}

/// Whether the ranges are those of one tile of outputs, and of a reduction.
fn check_ranges(root: &UOp, tile: &TileRanges<'_>) -> Result<(), Reason> {
    let is = |range: &UOp, len: i64, kind: AxisKind| {
        range.src()[0].is_const(len) && range.as_range().is_some_and(|arg| arg.kind == kind)
    };
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

/// A reduction over all of its ranges as the sums of a lane.
fn sums_of(reduction: &UOp, tile: &TileRanges<'_>, lane: &UOp, dependencies: &Dependencies) -> Result<UOp, Reason> {
    let value = &open_operands(reduction)[0];
    if *reduction.arg() != Arg::Combine(ReduceOp::Add) || reduction.dtype() != DType::F32 || value.op() != Op::Mul {
        return Err("only sums in f32 of products are done by matrices".into());
    }
    let is_vector = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Vector);
    let depends = |node: &UOp, range: &UOp| dependencies.get(node).contains(range_id(range));
    if dependencies.order.iter().any(|node| node.op() == Op::Range && is_vector(node) && depends(value, node)) {
        return Err("the product depends on lanes of vectors".into());
    }
    let factors: Vec<&UOp> =
        value.src().iter().filter(|factor| factor.op() == Op::Cast).map(|cast| &cast.src()[0]).collect();
    let [a, b] = factors.as_slice() else { return Err("the factors are no half floats".into()) };
    if a.dtype() != b.dtype() || ![DType::F16, DType::BF16].contains(&a.dtype()) {
        return Err("the factors are no half floats of one type".into());
    }
    let of_rows = |node: &UOp| depends(node, tile.rows) && !depends(node, tile.columns);
    let of_columns = |node: &UOp| depends(node, tile.columns) && !depends(node, tile.rows);
    let (left, right) = match () {
        () if of_rows(a) && of_columns(b) => (a, b),
        () if of_rows(b) && of_columns(a) => (b, a),
        () => return Err("one factor must depend on rows, the other one on columns".into()),
    };
    let (group, place) = (lane.idiv(4), lane.modulo(4));
    let term = |offset: i64| &place * 2 + offset;
    let together = |factor: &UOp, across: &UOp, count: usize, begin: &dyn Fn(&UOp) -> [UOp; 2]| {
        loaded_together(factor, &Sides { across, terms: tile.terms, lane }, count, begin)
    };
    let of_left = |number: usize| {
        let [row, offset] = fragments::left(number);
        at(left, [(tile.rows, &group + row), (tile.terms, term(offset))])
    };
    let of_right = |number: usize| {
        let [offset, column] = fragments::right(number);
        at(right, [(tile.terms, term(offset)), (tile.columns, &group + column)])
    };
    let stack = |elements: Sources| UOp::new(Op::Stack, a.dtype().with_lanes(elements.len()), elements, Arg::None);
    let side = fragments::SIDE;
    let left =
        together(left, tile.rows, fragments::LEFT / 2, &|matrix| [matrix.modulo(2) * side, matrix.idiv(2) * side])
            .unwrap_or_else(|| stack((0..fragments::LEFT).map(of_left).collect()));
    let right = together(right, tile.columns, fragments::RIGHT / 2, &|matrix| [UOp::index(0), matrix * side])
        .unwrap_or_else(|| stack((0..fragments::RIGHT).map(of_right).collect()));
    let sums = DType::F32.with_lanes(fragments::SUMS);
    let zeros = UOp::constant(crate::dtype::Scalar::zero(DType::F32), sums);
    let product = UOp::new(Op::MultiplyMatrices, sums, smallvec![left, right, zeros], Arg::None);
    let others = closed_ranges(reduction).iter().filter(|range| *range != tile.terms).cloned();
    let all: Sources = std::iter::once(product.clone()).chain(others).collect();
    Ok(if all.len() == 1 { product } else { UOp::new(Op::ReduceRange, sums, all, reduction.arg().clone()) })
}

/// The ranges of a factor: its rows or columns, its terms; and the lanes.
struct Sides<'k> {
    across: &'k UOp,
    terms: &'k UOp,
    lane: &'k UOp,
}

/// A factor that lies in shared memory in rows of eight elements at least, loaded by all lanes together: so many matrices, which begin at the row (or column) and the term that
/// are told of their number.
fn loaded_together(factor: &UOp, sides: &Sides<'_>, count: usize, begin: &dyn Fn(&UOp) -> [UOp; 2]) -> Option<UOp> {
    let index = factor.src().first().filter(|index| factor.op() == Op::Load && index.src().len() == 2)?;
    let (memory, offset) = (&index.src()[0], &index.src()[1]);
    let is_shared =
        memory.op() == Op::LocalBuffer && matches!(scratch_of(memory).arg(), Arg::Scratch(_, _, MemorySpace::Shared));
    let terms = linear_terms(offset).0;
    let step = |range: &UOp| terms.iter().find(|(term, _)| term == range).map(|(_, step)| *step);
    let is_turned = match (step(sides.terms)?, step(sides.across)?) {
        (1, _) => false,
        (_, 1) => true,
        _ => return None,
    };
    let row = sides.lane.modulo(fragments::SIDE);
    let [across, along] = begin(&sides.lane.idiv(fragments::SIDE).modulo(count as i64));
    let (across, along) = if is_turned { (across, along + row) } else { (across + row, along) };
    let place = at(offset, [(sides.across, across), (sides.terms, along)]);
    let facts = place.facts();
    let is_aligned = (facts.modulus | facts.remainder).trailing_zeros() >= fragments::SIDE.trailing_zeros();
    if !is_shared || !is_aligned {
        return None;
    }
    let element = factor.dtype();
    let index =
        UOp::new(Op::Index, element.with_lanes(fragments::SIDE as usize), smallvec![memory.clone(), place], Arg::None);
    let dtype = element.with_lanes(2 * count);
    Some(UOp::new(Op::LoadMatrices, dtype, smallvec![index], Arg::Number(i64::from(is_turned))))
}

/// A value at numbers of two ranges.
fn at(value: &UOp, numbers: [(&UOp, UOp); 2]) -> UOp {
    simplify(&substitute(value, &numbers.into_iter().map(|(range, number)| (range.clone(), number)).collect()))
}

/// The lane of a vector that a range which becomes straight-line code counts.
fn of_element(vector: &UOp, element: &UOp) -> UOp {
    let lane =
        |number: i64| UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number));
    let last = fragments::SUMS as i64 - 1;
    (0..last).rev().fold(lane(last), |rest, number| element.equals(number).select(lane(number), rest))
}
