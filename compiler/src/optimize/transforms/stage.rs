//! Copies in scratch memory because loops run better so: three opts that add a local buffer to a kernel.
//!
//! *Reductions kept along a range.* A reduction whose lanes are its own leaves one number; what is computed from it after that is computed number
//! by number. Kept along an output range, the reductions fill scratch first, and what follows runs over that range in whole vectors.
//!
//! *Packed loads.* A load that steps through memory along a range that should be lanes is copied, so that lanes lie side by side; the copy
//! is made in the loops that it depends on alone, and serves all iterations of the others.
//!
//! *A staged load.* Any load, copied along any of the ranges that it depends on, in any order: a panel of a matrix packed once outside of all rows, or
//! tile by tile. The copy is made in the innermost loop of those that the load depends on and that it is not made along.
//!
//! *What is computed from a load alone* may be staged in its place (`computed_from`): a type that the machine has no arithmetic for, or packed weights, are decoded
//! once for each element of the copy.
//!
//! The same in memory that the threads of a block share: made for all of them, along each of their indices that the load depends on, and filled by all of
//! them along these. Its other loops are loops of the first thread until they are mapped to indices too (`map`).
//!
//! Refused: what is copied of memory that the kernel replaces, and private copies along the loop or indices that threads share.
//!
//! Always: a kept value is the value, and so is a packed one. Whether it pays is the choice's business (`by_hand`).

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::split::is_reduce;
use crate::DType;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, Sources, UOp, substitute};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, closed_ranges, even_step, next_range_id, open_operands, range_id};
use crate::optimize::limits::{at_most, shared_bytes};
use crate::optimize::opt::{Limit, Reason};
use crate::symbolic::simplify;
use crate::target::Target;

/// Most elements that stand unused behind a row.
pub(crate) const PAD_MAX: u32 = 64;

/// Every reduction that stands in an output range, and in no other reduction or local buffer, kept along that range.
///
/// # Errors
/// Why not.
pub(crate) fn materialize_reductions(root: &UOp, range: &UOp) -> Result<UOp, Reason> {
    if is_reduce(range) {
        return Err("the range is one of a reduction".into());
    }
    check_not_shared(range)?;
    if range.src()[0].as_int().is_none() {
        return Err("the length is not a constant".into());
    }
    let dependencies = Dependencies::of(root);
    let outputs: Vec<u32> = root.src().iter().flat_map(closed_ranges).map(range_id).collect();
    let stands_outside = |reduction: &UOp| dependencies.get(reduction).iter().all(|id| outputs.contains(&id));
    let is_kept = |node: &UOp| {
        node.op() == Op::ReduceRange && dependencies.get(node).contains(range_id(range)) && stands_outside(node)
    };
    // Reductions in the value of a reduction that is kept are part of it.
    let mut inside: Vec<UOp> = dependencies.order.iter().filter(|node| is_kept(node)).cloned().collect();
    let values: Vec<UOp> = inside.iter().flat_map(open_operands).cloned().collect();
    let values = crate::ir::postorder(&values);
    inside.retain(|reduction| !values.contains(reduction));
    if inside.is_empty() {
        return Err("no reduction depends on the range".into());
    }
    let replaced = memory_in_place(root);
    if values.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
        return Err("what is kept could be replaced before".into());
    }
    // Components of one state are kept by one loop.
    let is_one_state = |a: &UOp, b: &UOp| a == b || matches!(a.arg(), Arg::CombineState(_)) && a.src() == b.src();
    let next = next_range_id(root);
    let number_of =
        |reduction: &UOp| inside.iter().position(|other| is_one_state(other, reduction)).unwrap_or_default() as u32;
    let kept = inside.iter().map(|reduction| (reduction, Copied::by_each_thread(range, next + number_of(reduction))));
    let map = kept
        .map(|(reduction, along)| (reduction.clone(), materialized_along(reduction, &[along], MemorySpace::Private)))
        .collect();
    Ok(simplify(&substitute(root, &map)))
}

pub(crate) fn check_not_shared(range: &UOp) -> Result<(), Reason> {
    match range.as_range() {
        Some(arg) if arg.kind == AxisKind::Parallel || arg.kind.is_thread_index() => {
            Err("threads share the range: each would copy all of it".into())
        }
        _ => Ok(()),
    }
}

/// Loads of memory that cross `lane` in steps, packed for all of `row` and `lane`.
///
/// # Errors
/// Why not.
pub(crate) fn pack(root: &UOp, lane: &UOp, row: &UOp) -> Result<UOp, Reason> {
    if [lane, row].iter().any(|range| range.src()[0].as_int().is_none()) {
        return Err("a length is not a constant".into());
    }
    check_not_shared(lane)?;
    check_not_shared(row)?;
    if lane == row {
        return Err("a range is named twice".into());
    }
    let dependencies = Dependencies::of(root);
    let next = next_range_id(root);
    let replaced = memory_in_place(root);
    let crosses = |node: &&UOp| {
        let (Op::Load, [index]) = (node.op(), node.src()) else { return false };
        let [memory, _, gate @ ..] = index.src() else { return false };
        let reads = crate::ir::postorder(gate).iter().any(|below| below.op() == Op::Load);
        if memory.op() != Op::Param || reads {
            return false;
        }
        // What is copied before it is asked for must not change in between.
        if replaced.contains(memory) {
            return false;
        }
        let step = |range: &UOp| even_step(&node.src()[0].src()[1], range).map_or(0, i64::abs);
        dependencies.get(node).contains(range_id(lane)) && step(lane) > 1 && step(row) >= 1
    };
    let loads: Vec<UOp> = dependencies.order.iter().filter(crosses).cloned().collect();
    if loads.is_empty() {
        return Err("no load crosses the range in steps".into());
    }
    let ids = (next..).step_by(2);
    let map: FxHashMap<UOp, UOp> = loads
        .iter()
        .zip(ids)
        .map(|(load, id)| {
            let along = [Copied::by_each_thread(row, id), Copied::by_each_thread(lane, id + 1)];
            (load.clone(), materialized_along(load, &along, MemorySpace::Private))
        })
        .collect();
    Ok(simplify(&substitute(root, &map)))
}

/// The loads of a kernel in the order of its graph: their numbers are those that the opt `stage` names them by.
pub fn loads_of(root: &UOp) -> Vec<UOp> {
    crate::ir::postorder(std::slice::from_ref(root)).into_iter().filter(|node| node.op() == Op::Load).collect()
}

/// What one load gives, copied for all of some ranges: by each thread for itself, or by the threads of a block for all of them.
///
/// # Errors
/// Why not.
pub(crate) fn stage_load(
    root: &UOp,
    number: u32,
    ranges: &[UOp],
    space: MemorySpace,
    target: &Target,
) -> Result<UOp, Reason> {
    stage(root, number, ranges, Layout::dense(space), target)
}

/// As [`stage_load`] for each thread by itself, of what is computed from the load alone.
///
/// # Errors
/// Why not; also where nothing is computed from it alone.
pub(crate) fn stage_computed(root: &UOp, number: u32, ranges: &[UOp], target: &Target) -> Result<UOp, Reason> {
    let load = loads_of(root).into_iter().nth(number as usize).ok_or("the kernel has no such load")?;
    let value = computed_from(&Dependencies::of(root), &load);
    if value == load {
        return Err("nothing is computed from the load alone".into());
    }
    stage_value(root, &value, ranges, Layout::dense(MemorySpace::Private), target)
}

/// The last of the ops above a load, each the only one that asks for what is below it, that vary with no other loops than the load does; the load itself if there is
/// none. A product is not the last where it is added up: rounded by itself it would be another value than within a multiply-add.
pub(crate) fn computed_from(dependencies: &Dependencies, load: &UOp) -> UOp {
    let set = dependencies.get(load);
    let mut path = vec![load.clone()];
    loop {
        let value = &path[path.len() - 1];
        let mut users = dependencies.order.iter().filter(|node| node.src().contains(value));
        let (Some(user), None) = (users.next(), users.next()) else { break };
        let varies_alike = dependencies.get(user).iter().all(|id| set.contains(id));
        if !user.op().is_elementwise() || user.dtype().is_index() || !varies_alike {
            break;
        }
        path.push(user.clone());
    }
    let adds_up = |node: &UOp| matches!(node.op(), Op::Add | Op::Sub | Op::Neg | Op::ReduceRange);
    let is_added_up = |value: &UOp| dependencies.order.iter().any(|node| adds_up(node) && node.src().contains(value));
    while path.len() > 1 && path.last().is_some_and(|value| value.op() == Op::Mul && is_added_up(value)) {
        path.pop();
    }
    path.pop().unwrap_or_else(|| load.clone())
}

/// As [`stage_load`] in memory that threads share, with unused elements behind each row along the last range.
pub(crate) fn stage_padded(root: &UOp, number: u32, ranges: &[UOp], pad: u32, target: &Target) -> Result<UOp, Reason> {
    if pad > PAD_MAX {
        return Err("at most 64 elements stand unused behind a row".into());
    }
    stage(root, number, ranges, Layout { space: MemorySpace::Shared, pad: i64::from(pad), copies: 1 }, target)
}

/// As [`stage_padded`], with room for a second copy behind the first (`linearize::ahead`).
///
/// # Errors
/// Why not.
pub(crate) fn stage_ahead(root: &UOp, number: u32, ranges: &[UOp], pad: u32, target: &Target) -> Result<UOp, Reason> {
    if pad > PAD_MAX {
        return Err("at most 64 elements stand unused behind a row".into());
    }
    stage(root, number, ranges, Layout { space: MemorySpace::Shared, pad: i64::from(pad), copies: 2 }, target)
}

/// Where a copy lies: in which memory, with how many unused elements behind each row along its last range.
#[derive(Clone, Copy)]
struct Layout {
    space: MemorySpace,
    pad: i64,
    /// For how many copies there is room.
    copies: u64,
}

impl Layout {
    fn dense(space: MemorySpace) -> Layout {
        Layout { space, pad: 0, copies: 1 }
    }
}

fn stage(root: &UOp, number: u32, ranges: &[UOp], layout: Layout, target: &Target) -> Result<UOp, Reason> {
    let loads = loads_of(root);
    stage_value(root, loads.get(number as usize).ok_or("the kernel has no such load")?, ranges, layout, target)
}

fn stage_value(root: &UOp, load: &UOp, ranges: &[UOp], layout: Layout, target: &Target) -> Result<UOp, Reason> {
    let space = layout.space;
    let dependencies = Dependencies::of(root);
    let set = dependencies.get(load);
    if ranges.is_empty() {
        return Err("a stage is made along one range or more".into());
    }
    let mut bytes = load.dtype().bytes() as u64 * layout.copies;
    let last = ranges.len() - 1;
    for (position, range) in ranges.iter().enumerate() {
        if ranges[..position].contains(range) {
            return Err("a range is named twice".into());
        }
        if !set.contains(range_id(range)) {
            return Err("the load does not depend on a range, or it is not open there".into());
        }
        let is_shared_index = range.as_range().is_some_and(|arg| arg.kind.is_within_block());
        if space == MemorySpace::Private || !is_shared_index {
            check_not_shared(range)?;
        }
        if !dependencies.get(&range.src()[0]).is_empty() {
            return Err("a length depends on other loops".into());
        }
        let pad = if position == last { layout.pad as u64 } else { 0 };
        bytes = bytes.saturating_mul(room(range) + pad);
    }
    match space {
        MemorySpace::Private => at_most(Limit::Scratch, bytes, target.scratch_bytes)?,
        MemorySpace::Shared => at_most(Limit::Shared, bytes, shared_bytes(target))?,
    }
    let replaced = memory_in_place(root);
    let below = crate::ir::postorder(std::slice::from_ref(load));
    if below.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
        return Err("what is copied could be replaced before".into());
    }
    let along = ranges.iter().zip(next_range_id(root)..).map(|(range, id)| Copied::by_its_threads(range, id));
    let map = [(load.clone(), laid_out(load, &along.collect::<Vec<_>>(), layout))].into_iter().collect();
    Ok(simplify(&substitute(root, &map)))
}

/// Elements that a local buffer has along a range: of a symbolic length, as many as there can be.
pub(crate) fn room(range: &UOp) -> u64 {
    range.src()[0].max_value().max(1) as u64
}

/// Where a local buffer along ranges has an element: row-major, the last range consecutive.
pub(crate) fn flat_offset(at: &[UOp], ranges: &[UOp]) -> UOp {
    padded_offset(at, ranges, 0)
}

/// As [`flat_offset`], where elements that nothing uses stand behind each row along the last range.
fn padded_offset(at: &[UOp], ranges: &[UOp], pad: i64) -> UOp {
    let last = ranges.len().saturating_sub(1);
    let flat = at.iter().zip(ranges).enumerate().fold(UOp::index(0), |flat, (position, (index, range))| {
        let pad = if position == last { pad } else { 0 };
        flat * (room(range) as i64 + pad) + index
    });
    simplify(&flat)
}

/// A range for all of which a local buffer is filled, and the loop that fills it.
pub(crate) struct Copied {
    range: UOp,
    fill: UOp,
}

impl Copied {
    /// The local buffer is filled by a loop of this kind, under a new number.
    pub(crate) fn new(range: &UOp, id: u32, kind: AxisKind) -> Copied {
        Copied { range: range.clone(), fill: UOp::range(range.src()[0].clone(), id, kind) }
    }

    /// The loop that fills it.
    pub(crate) fn fill(&self) -> &UOp {
        &self.fill
    }

    /// It is filled by a loop.
    fn by_each_thread(range: &UOp, id: u32) -> Copied {
        Copied::new(range, id, AxisKind::Loop)
    }

    /// It is filled by a loop; along an index of threads by these.
    pub(crate) fn by_its_threads(range: &UOp, id: u32) -> Copied {
        let kind = range.as_range().map(|arg| arg.kind).filter(|kind| kind.is_within_block());
        Copied::new(range, id, kind.unwrap_or(AxisKind::Loop))
    }
}

/// The value loaded from a local buffer that computes it for all of some ranges.
pub(crate) fn materialized_along(value: &UOp, along: &[Copied], space: MemorySpace) -> UOp {
    laid_out(value, along, Layout::dense(space))
}

fn laid_out(value: &UOp, along: &[Copied], layout: Layout) -> UOp {
    let fills: Vec<UOp> = along.iter().map(|copied| copied.fill.clone()).collect();
    let ranges: Vec<UOp> = along.iter().map(|copied| copied.range.clone()).collect();
    let map = ranges.iter().cloned().zip(fills.iter().cloned()).collect();
    filled(&substitute(value, &map), &fills, &ranges, layout)
}

/// What a local buffer holds at a position, one index for each of the loops that fill it with a value.
pub(crate) fn filled_buffer(value: &UOp, fills: &[UOp], at: &[UOp]) -> UOp {
    filled(value, fills, at, Layout::dense(MemorySpace::Private))
}

fn filled(value: &UOp, fills: &[UOp], at: &[UOp], Layout { space, pad, copies }: Layout) -> UOp {
    let rows: u64 = fills.iter().rev().skip(1).map(room).product();
    let total = copies * rows * fills.last().map_or(1, |last| room(last) + pad as u64);
    let dtype = value.dtype();
    let index = |memory: UOp, at: &[UOp]| {
        UOp::new(Op::Index, dtype, smallvec![memory, padded_offset(at, fills, pad)], Arg::None)
    };
    let scratch = UOp::new(Op::Scratch, dtype, smallvec![], Arg::Scratch(0, total, space));
    let sources: Sources = [index(scratch, fills), value.clone()].into_iter().chain(fills.iter().cloned()).collect();
    let store = UOp::new(Op::Store, DType::VOID, sources, Arg::None);
    let stage = UOp::new(Op::LocalBuffer, dtype, smallvec![store], Arg::None);
    UOp::new(Op::Load, dtype, smallvec![index(stage, at)], Arg::None)
}

#[cfg(test)]
mod tests;
