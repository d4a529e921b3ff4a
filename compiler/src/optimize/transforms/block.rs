//! Reductions by blocks: a loop of a reduction that stands outside of the loops over what it reduces to.
//!
//! ```text
//! for r0 in 0..64                          for r2 in 0..32                              the blocks
//!   for r1 in 0..64                          for r4 in 0..64
//!     reduce r2 in 0..32                       for r5 in 0..64
//!       reduce r3 in 0..16                       reduce r3 in 0..16
//!         add a[r0, r2, r3] * b[..]                add a[r4, r2, r3] * b[..]
//!     store p0[r0, r1]                           accumulate s0[r4, r5] with add         partial results
//!                                          for r0 in 0..64
//!                                            for r1 in 0..64
//!                                              store p0[r0, r1], s0[r0, r1]             what comes after the last block
//! ```
//!
//! Partial results lie in a local buffer with an element for each iteration of the loops that the blocks move out of; a state has one for each component. What is
//! computed from the reduction is a loop nest of its own behind that, so it runs once. All reductions over the loop move together, each along those of the named loops that
//! it depends on. What a split left over is a reduction of its own and stays where it is.
//!
//! A loop of what is accumulated already, along the same loops, becomes one more loop of blocks: no partial results of their own.
//!
//! Refused: loops that threads share, reductions that need each other, lengths that depend on other loops, memory that the kernel replaces.
//!
//! Always: the same values are combined, in another order. Tested by random lists of opts on random kernels in the test crate.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::split::is_reduce;
use super::stage::{check_not_shared, flat_offset, room};
use crate::DType;
use crate::ir::{Arg, AxisKind, Combining, Component, MemorySpace, Op, Sources, UOp, postorder, substitute};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{
    Dependencies, RangeSet, all_ranges, closed_ranges, is_loop_end, next_range_id, open_operands, range_id,
};
use crate::optimize::limits::at_most;
use crate::optimize::opt::{Limit, Reason};
use crate::symbolic::simplify;
use crate::target::Target;

/// A loop of reductions outside of some of the loops that they stand in.
///
/// # Errors
/// Why not.
pub(crate) fn block(root: &UOp, range: &UOp, along: &[UOp], target: &Target) -> Result<UOp, Reason> {
    if !is_reduce(range) {
        return Err("only a loop of a reduction can become one of blocks".into());
    }
    let dependencies = Dependencies::of(root);
    check_loops(range, along, &dependencies)?;
    if let Some(blocks) = more_blocks(range, along, &dependencies) {
        return Ok(simplify(&substitute(root, &blocks)));
    }
    let loop_ends =
        || dependencies.order.iter().filter(|node| is_loop_end(node) && closed_ranges(node).contains(range));
    if loop_ends().any(|loop_end| loop_end.op() == Op::Store) {
        return Err("its partial results are in memory already".into());
    }
    let reductions: Vec<&UOp> = loop_ends().collect();
    check_values(root, &reductions, along, &dependencies)?;
    let next = next_range_id(root);
    let fresh: FxHashMap<UOp, UOp> = along.iter().cloned().zip((next..).zip(along).map(renumbered)).collect();
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut reached = RangeSet::default();
    for reduction in reductions {
        let set = dependencies.get(reduction);
        let own: Vec<&UOp> = along.iter().filter(|other| set.contains(range_id(other))).collect();
        own.iter().for_each(|other| reached.insert(range_id(other)));
        let bytes = bytes_of(reduction, &own, &dependencies);
        at_most(Limit::Scratch, bytes, target.scratch_bytes)?;
        map.insert(reduction.clone(), by_blocks(reduction, range, &own, &fresh, &dependencies));
    }
    if !along.iter().all(|other| reached.contains(range_id(other))) {
        return Err("no reduction over the loop stands in one that is named".into());
    }
    Ok(simplify(&substitute(root, &map)))
}

/// What becomes of a store that accumulates a reduction over the loop in an element for each iteration of the named loops: it does so for each iteration of this one, too.
fn more_blocks(range: &UOp, along: &[UOp], dependencies: &Dependencies) -> Option<FxHashMap<UOp, UOp>> {
    let mut loop_ends =
        dependencies.order.iter().filter(|node| is_loop_end(node) && closed_ranges(node).contains(range));
    let (Some(reduction), None) = (loop_ends.next(), loop_ends.next()) else { return None };
    let combining = Combining::of(reduction).filter(|combining| matches!(combining, Combining::One(_)))?;
    let mut users = dependencies.order.iter().filter(|node| node.src().contains(reduction));
    let (Some(store), None) = (users.next(), users.next()) else { return None };
    let is_along = |other: &UOp| along.contains(other);
    let is_same = store.op() == Op::Store
        && store.src()[0].src()[0].op() == Op::Scratch
        && store.src().get(1) == Some(reduction)
        && Combining::of(store) == Some(combining)
        && closed_ranges(store).iter().filter(|other| is_along(other)).count() == along.len()
        && closed_ranges(store).iter().all(|other| is_along(other) || is_reduce(other));
    // Of no iterations nothing would be stored.
    if !is_same || range.src()[0].min_value() < 1 {
        return None;
    }
    let inner: Vec<UOp> = closed_ranges(reduction).iter().filter(|other| *other != range).cloned().collect();
    let value = combining.reduce_range(open_operands(reduction), &inner);
    let (blocks, loops): (Vec<UOp>, Vec<UOp>) = closed_ranges(store).iter().cloned().partition(is_reduce);
    let waits = open_operands(store).iter().skip(2).cloned();
    let src: Sources = [store.src()[0].clone(), value]
        .into_iter()
        .chain(waits)
        .chain(blocks)
        .chain([range.clone()])
        .chain(loops)
        .collect();
    Some([(store.clone(), UOp::new(Op::Store, DType::VOID, src, store.arg().clone()))].into_iter().collect())
}

/// The loop under a new number; lanes and copies stay what they are.
fn renumbered((id, range): (u32, &UOp)) -> UOp {
    let kind = match range.as_range().map(|arg| arg.kind) {
        Some(kind @ (AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot)) => kind,
        _ => AxisKind::Loop,
    };
    UOp::range(range.src()[0].clone(), id, kind)
}

fn check_loops(range: &UOp, along: &[UOp], dependencies: &Dependencies) -> Result<(), Reason> {
    if along.is_empty() {
        return Err("blocks move out of one loop or more".into());
    }
    for (position, other) in along.iter().enumerate() {
        if other == range || along[..position].contains(other) {
            return Err("a range is named twice".into());
        }
        check_not_shared(other)?;
        if !dependencies.get(&other.src()[0]).is_empty() {
            return Err("a length depends on other loops".into());
        }
    }
    if !dependencies.get(&range.src()[0]).is_empty() {
        return Err("a length depends on other loops".into());
    }
    Ok(())
}

/// Whether what is reduced can be computed in other loops.
fn check_values(root: &UOp, reductions: &[&UOp], along: &[UOp], dependencies: &Dependencies) -> Result<(), Reason> {
    let replaced = memory_in_place(root);
    let values: Vec<UOp> = reductions.iter().flat_map(|reduction| open_operands(reduction)).cloned().collect();
    let below = postorder(&values);
    if reductions.iter().any(|reduction| below.contains(reduction)) {
        return Err("reductions over the loop need each other".into());
    }
    if below.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
        return Err("what is reduced could be replaced before".into());
    }
    let inner = reductions.iter().flat_map(|reduction| all_ranges(reduction));
    let mut lengths = inner.map(|range| dependencies.get(&range.src()[0]).clone());
    if lengths.any(|set| along.iter().any(|other| set.contains(range_id(other)))) {
        return Err("a length depends on other loops".into());
    }
    Ok(())
}

/// The loops along which a component's partial results are kept: those of all that it is combined from, and no loops that it is the same for, if
/// these are the innermost.
///
/// Components must be the same for all other loops, or different: they stand in these together.
fn loops_of_component<'a>(
    reduction: &UOp,
    number: usize,
    along: &[&'a UOp],
    dependencies: &Dependencies,
) -> SmallVec<[&'a UOp; 4]> {
    let Some(Combining::Several(component)) = Combining::of(reduction) else { return along.iter().copied().collect() };
    let values = &reduction.src()[..component.combiner.arity()];
    let is_along = |id: u32| along.iter().any(|range| range_id(range) == id);
    let around = |value: &UOp| dependencies.get(value).iter().filter(|id| !is_along(*id)).collect::<Vec<u32>>();
    let read = values.iter().enumerate().filter(|(other, _)| component.combiner.reads(number, *other));
    let needed = read.map(|(_, value)| {
        let is_needed = |range: &UOp| dependencies.get(value).contains(range_id(range));
        along.iter().rposition(|range| is_needed(range)).map_or(0, |last| last + 1)
    });
    let count = needed.max().unwrap_or(along.len());
    let agree = values.iter().all(|value| around(value) == around(&values[0]));
    along[..if agree { count } else { along.len() }].iter().copied().collect()
}

/// Bytes that the partial results of a reduction take.
fn bytes_of(reduction: &UOp, along: &[&UOp], dependencies: &Dependencies) -> u64 {
    let (values, _) = reduction.src().split_at(reduction.arg().values_of_reduction());
    let of_component = |(number, value): (usize, &UOp)| {
        let own = loops_of_component(reduction, number, along, dependencies);
        own.iter().fold(value.dtype().bytes() as u64, |bytes, range| bytes.saturating_mul(room(range)))
    };
    values.iter().enumerate().map(of_component).fold(0, u64::saturating_add)
}

/// What a reduction comes to, loaded from a local buffer that is filled a block at a time.
fn by_blocks(
    reduction: &UOp,
    range: &UOp,
    along: &[&UOp],
    fresh: &FxHashMap<UOp, UOp>,
    dependencies: &Dependencies,
) -> UOp {
    let combining =
        Combining::of(reduction).unwrap_or_else(|| panic!("bug in the compiler: {reduction:?} combines nothing"));
    let inner: Vec<UOp> = closed_ranges(reduction).iter().filter(|other| *other != range).cloned().collect();
    let partial: Vec<UOp> = combining.reduce_ranges(&reduction.src()[..combining.arity()], &inner).into_vec();
    let partial: Vec<UOp> = partial.iter().map(|value| substitute(value, fresh)).collect();
    let loops_of = |number: usize| -> Vec<UOp> {
        // Folded with the others over loops of its own, it stands where they stand.
        let own =
            if inner.is_empty() { loops_of_component(reduction, number, along, dependencies) } else { along.into() };
        own.into_iter().cloned().collect()
    };
    let store = |number: usize| {
        let here = loops_of(number);
        let loops: Vec<UOp> = here.iter().map(|other| fresh[other].clone()).collect();
        let total: u64 = here.iter().map(room).product();
        let dtype = partial[number].dtype();
        let scratch =
            UOp::new(Op::Scratch, dtype, smallvec![], Arg::Scratch(number as u32, total, MemorySpace::Private));
        let index = UOp::new(Op::Index, dtype, smallvec![scratch, flat_offset(&loops, &here)], Arg::None);
        let arg = match combining {
            Combining::One(op) => Arg::Combine(op),
            Combining::Several(component) => Arg::CombineState(Component { number: number as u8, ..component }),
        };
        let others = partial.iter().enumerate().filter(|(other, _)| match combining {
            Combining::One(_) => false,
            Combining::Several(component) => {
                component.combiner.reads(number, *other) || loops_of(*other).len() <= here.len()
            }
        });
        let open = [index, partial[number].clone()].into_iter().chain(others.map(|(_, value)| value.clone()));
        let closed = std::iter::once(range.clone()).chain(loops);
        UOp::new(Op::Store, DType::VOID, open.chain(closed).collect::<Sources>(), arg)
    };
    let number = combining.number();
    let others = (0..combining.arity()).filter(|other| *other != number);
    let stores: Sources = std::iter::once(number).chain(others).map(store).collect();
    let here = loops_of(number);
    loaded(UOp::new(Op::LocalBuffer, reduction.dtype(), stores, Arg::None), &here, range, combining)
}

/// A partial result after the last block; of no blocks there is none.
fn loaded(stage: UOp, here: &[UOp], range: &UOp, combining: Combining) -> UOp {
    let (dtype, offset) = (stage.dtype(), flat_offset(here, here));
    let load = |src: Sources| {
        let index = UOp::new(Op::Index, dtype, src, Arg::None);
        UOp::new(Op::Load, dtype, smallvec![index], Arg::None)
    };
    if range.src()[0].min_value() > 0 {
        return load([stage, offset].into_iter().collect());
    }
    let is_some = UOp::index(0).lt(&range.src()[0]);
    let value = load([stage, offset, is_some.clone()].into_iter().collect());
    is_some.select(value, combining.identity(combining.number(), dtype))
}
