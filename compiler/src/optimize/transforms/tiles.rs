//! A part of a product of narrow numbers as tiles, which one instruction multiplies and adds up ([`ir::tiles`](crate::ir::tiles)).
//!
//! ```text
//! for r0, for r1                                        for r0, for r1
//!   for r3 in 0..16                                       local buffer s:
//!     lanes r4 of 16                                        reduce r2 in 0..16
//!       reduce r2 in 0..16, r5 in 0..16, r6 in 0..2    =>     multiply_tiles of 1 KiB of a and 1 KiB of b
//!         f32(a[.. r3, r5, r6]) * f32(b[.. r5, r4, r6])       add
//!         add                                               store s
//!       store y[r0, r3, r1, r4]                           for r3 in 0..16
//!                                                           lanes r4 of 16: load s[r3, r4], store y[..]
//! ```
//!
//! The sums are tiles over all of the loop of terms. Afterwards they lie in scratch, one element after the other: registers of tiles and of vectors exchange nothing but by memory.
//!
//! A tile is loaded row by row. So the elements of an operand's row must lie beside each other (of the right operand those of a group, for all columns), and its rows as far from
//! each other everywhere: matrices in memory do whose rows have the terms beside each other, and so do copies along these ranges.
//!
//! It is the last opt: tiles stand for elements afterwards.
//!
//! Refused: reductions of which none is a sum of products of such numbers that lie so, longer sides than a register has, and sums of floats of more tiles than an accumulator may take.
//!
//! Always: sums of integers are the same; those of floats are of the same products in another order. Tested below, and in the test crate on the interpreter of lists, by random
//! lists of opts, and as machine code where there is such a machine.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::DType;
use crate::dtype::Scalar;
use crate::ir::tiles::index_of_rows;
use crate::ir::{
    Arg, AxisKind, MemorySpace, Op, ReduceOp, Sources, TileKind, TileShape, UOp, postorder, substitute, tiles,
};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, open_operands, range_id};
use crate::optimize::limits::at_most;
use crate::optimize::opt::{Limit, Reason};
use crate::symbolic::{linear_terms, simplify};
use crate::target::{Feature, Target};

/// The loops of a tile.
pub(crate) struct Sides {
    pub(crate) rows: UOp,
    pub(crate) columns: UOp,
    pub(crate) groups: UOp,
    pub(crate) terms: UOp,
}

impl Sides {
    /// How long they are, if registers have room.
    fn shape(&self) -> Option<TileShape> {
        let len = |range: &UOp| range.src()[0].as_int().and_then(|len| usize::try_from(len).ok());
        let shape = TileShape { rows: len(&self.rows)?, columns: len(&self.columns)?, groups: len(&self.groups)? };
        shape.fits().then_some(shape)
    }
}

/// The kernel in which sums of products over these loops are those of tiles.
///
/// # Errors
/// Why not.
pub(crate) fn multiply_tiles(root: &UOp, sides: &Sides, target: &Target) -> Result<UOp, Reason> {
    let is = |range: &UOp, kinds: &[AxisKind]| range.as_range().is_some_and(|arg| kinds.contains(&arg.kind));
    if !is(&sides.rows, &[AxisKind::Loop]) || !is(&sides.columns, &[AxisKind::Loop, AxisKind::Vector]) {
        return Err("rows and columns are loops over results, columns perhaps lanes".into());
    }
    if sides.rows == sides.columns || sides.groups == sides.terms {
        return Err("a range is named twice".into());
    }
    let Some(shape) = sides.shape() else {
        return Err("a tile has at most 16 rows, 16 columns and 16 groups of terms".into());
    };
    let dependencies = Dependencies::of(root);
    let closes = |node: &&UOp| {
        is_loop_end(node) && [&sides.groups, &sides.terms].iter().any(|range| closed_ranges(node).contains(range))
    };
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    let replaced = memory_in_place(root);
    for reduction in dependencies.order.iter().filter(closes) {
        let reads = postorder(open_operands(reduction));
        if reads.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
            return Err("a factor could be replaced before".into());
        }
        let sums = sums_of(reduction, sides, shape, &dependencies, target)?;
        map.insert(reduction.clone(), kept(&sums, sides, shape));
    }
    match map.is_empty() {
        true => Err("no sum is over the groups".into()),
        false => Ok(simplify(&substitute(root, &map))),
    }
}

/// A sum over all of its ranges as one tile.
fn sums_of(
    reduction: &UOp,
    sides: &Sides,
    shape: TileShape,
    dependencies: &Dependencies,
    target: &Target,
) -> Result<UOp, Reason> {
    let value = &open_operands(reduction)[0];
    let closed = closed_ranges(reduction);
    if reduction.op() != Op::ReduceRange || *reduction.arg() != Arg::Combine(ReduceOp::Add) || value.op() != Op::Mul {
        return Err("only sums of products are done by tiles".into());
    }
    if !closed.contains(&sides.groups) || !closed.contains(&sides.terms) {
        return Err("a sum is over the groups alone, or over their terms".into());
    }
    let depends = |node: &UOp, range: &UOp| dependencies.get(node).contains(range_id(range));
    let is_other_lane = |node: &&UOp| {
        let is_lane = node.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Vector | AxisKind::Dot));
        is_lane && **node != sides.columns && depends(value, node)
    };
    if dependencies.order.iter().any(|node| is_other_lane(&node)) {
        return Err("the product depends on other lanes".into());
    }
    let of_rows = |node: &UOp| depends(node, &sides.rows) && !depends(node, &sides.columns);
    let of_columns = |node: &UOp| depends(node, &sides.columns) && !depends(node, &sides.rows);
    let (left, right) = match (&value.src()[0], &value.src()[1]) {
        (a, b) if of_rows(a) && of_columns(b) => (a, b),
        (a, b) if of_rows(b) && of_columns(a) => (b, a),
        _ => return Err("one factor must depend on rows, the other one on columns".into()),
    };
    let (left, right) = match [left, right].map(loaded_narrow) {
        [Some(left), Some(right)] => (left, right),
        _ => return Err("the factors are not narrow numbers as memory has them".into()),
    };
    let Some(kind) = TileKind::of(left.dtype(), right.dtype(), reduction.dtype()) else {
        return Err("no instruction multiplies such factors".into());
    };
    if !target.tiles.has(kind) {
        return Err(Reason::Lacks(Feature::Tiles(kind)));
    }
    if !sides.terms.src()[0].is_const(kind.group() as i64) {
        return Err("a group has as many terms as fill 32 bits".into());
    }
    let others: Vec<UOp> =
        closed.iter().filter(|range| **range != sides.groups && **range != sides.terms).cloned().collect();
    check_steps(&others, reduction.dtype())?;
    let [group, row] = [kind.group() as i64, (shape.groups * kind.group()) as i64];
    let [left_lanes, right_lanes, sum_lanes] = shape.lanes(kind);
    let left = tile(left, &sides.rows, [(&sides.groups, group), (&sides.terms, 1)], (row, left_lanes), dependencies)?;
    let across = shape.columns as i64 * group;
    let of_columns = [(&sides.columns, group), (&sides.terms, 1)];
    let right = tile(right, &sides.groups, of_columns, (across, right_lanes), dependencies)?;
    let dtype = reduction.dtype().with_lanes(sum_lanes);
    let zeros = UOp::constant(Scalar::zero(reduction.dtype()), dtype);
    let product = UOp::new(Op::MultiplyTiles, dtype, smallvec![left, right, zeros], Arg::Number(shape.rows as i64));
    let all: Sources = std::iter::once(product.clone()).chain(others).collect();
    Ok(if all.len() == 1 { product } else { UOp::new(Op::ReduceRange, dtype, all, reduction.arg().clone()) })
}

/// The load that a factor is, in a wider type.
fn loaded_narrow(factor: &UOp) -> Option<&UOp> {
    let load = factor.src().first().filter(|_| factor.op() == Op::Cast)?;
    (load.op() == Op::Load && load.dtype().lanes() == 1).then_some(load)
}

/// Whether an accumulator may take all products of tiles of floats: there is no instruction that adds tiles, so they cannot go by blocks.
fn check_steps(others: &[UOp], dtype: DType) -> Result<(), Reason> {
    if !dtype.is_float() {
        return Ok(());
    }
    let longest = |range: &UOp| range.src()[0].max_value().max(1) as u64;
    at_most(Limit::Steps, others.iter().map(longest).fold(1, u64::saturating_mul), tiles::STEPS_MAX)
}

/// A load of one element as that of a tile, in rows of so many elements, where the element is so many elements behind the first of its row for each iteration of the ranges inside of one.
fn tile(
    load: &UOp,
    rows: &UOp,
    inside: [(&UOp, i64); 2],
    (row, lanes): (i64, usize),
    dependencies: &Dependencies,
) -> Result<UOp, Reason> {
    let [memory, offset] = load.src()[0].src() else { return Err("a factor is not there everywhere".into()) };
    let terms = linear_terms(offset).0;
    let step_along =
        |range: &UOp| -> i64 { terms.iter().filter(|(term, _)| term == range).map(|(_, step)| step).sum() };
    let named = [rows, inside[0].0, inside[1].0];
    let is_named = |range: &UOp| named.contains(&range);
    let is_odd = |(term, _): &(UOp, i64)| !is_named(term) && postorder(std::slice::from_ref(term)).iter().any(is_named);
    let lies_so = |(range, step): &(&UOp, i64)| range.src()[0].is_const(1) || step_along(range) == *step;
    let is_moved = named.iter().any(|range| dependencies.get(memory).contains(range_id(range)));
    let pitch = if rows.src()[0].is_const(1) { row } else { step_along(rows) };
    if !inside.iter().all(lies_so) || pitch < row || is_moved || terms.iter().any(is_odd) {
        return Err("a factor does not lie in memory as tiles do: the elements of a row one after the other".into());
    }
    let first = named.iter().map(|range| ((*range).clone(), UOp::index(0))).collect();
    let dtype = load.dtype().with_lanes(lanes);
    let index = index_of_rows(memory, simplify(&substitute(offset, &first)), dtype, row, pitch);
    Ok(UOp::new(Op::Load, dtype, smallvec![index], Arg::None))
}

/// An element of a tile that is kept in scratch.
fn kept(sums: &UOp, sides: &Sides, shape: TileShape) -> UOp {
    let element = sums.dtype().element();
    let len = (shape.rows * shape.columns) as u64;
    let scratch = UOp::new(Op::Scratch, element, smallvec![], Arg::Scratch(0, len, MemorySpace::Private));
    let target = UOp::new(Op::Index, sums.dtype(), smallvec![scratch, UOp::index(0)], Arg::None);
    let store = UOp::new(Op::Store, DType::VOID, smallvec![target, sums.clone()], Arg::None);
    let buffer = UOp::new(Op::LocalBuffer, element, smallvec![store], Arg::None);
    let at = simplify(&(&sides.rows * shape.columns as i64 + &sides.columns));
    let index = UOp::new(Op::Index, element, smallvec![buffer, at], Arg::None);
    UOp::new(Op::Load, element, smallvec![index], Arg::None)
}
