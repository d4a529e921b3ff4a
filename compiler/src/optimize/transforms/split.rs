//! Ranges taken apart: into two loops, a loop and lanes, a loop and straight-line code.
//!
//! The outer part keeps the number of the range. What a length leaves over is handled as [`SplitTail`] says.
//!
//! Always: stores write the same values to the same elements, and reductions combine the same values. Tested by `tests`, and by random lists of opts
//! on random kernels in the test crate.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use crate::ir::{Arg, AxisKind, Combining, MemorySpace, Op, Sources, UOp, postorder, substitute};
use crate::kernel::accumulate::accumulated_ranges;
use crate::kernel::effects::replaces_what_was_read;
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::kernel::ranges::{
    Dependencies, NewRanges, RangeSet, closed_ranges, is_loop_end, next_range_id, open_operands, range_id,
    substitute_ranges,
};
use crate::optimize::opt::{Reason, SplitTail};
use crate::symbolic::{linear_terms, simplify};
use crate::target::Target;

/// Whether a range is one that reductions close.
pub(crate) fn is_reduce(range: &UOp) -> bool {
    range.as_range().is_some_and(|range| range.kind == AxisKind::Reduce)
}

/// Whether a store accumulates over a range: a loop of blocks.
fn is_accumulated(root: &UOp, range: &UOp) -> bool {
    let accumulates = |node: &UOp| accumulated_ranges(node).any(|other| other == range);
    is_reduce(range) && postorder(std::slice::from_ref(root)).iter().any(accumulates)
}

/// Whether a range can become lanes: nothing stands in two vector ranges, and stores move evenly.
pub(crate) fn check_vectorizable(root: &UOp, range: &UOp) -> Result<(), &'static str> {
    let dependencies = Dependencies::of(root);
    let id = range_id(range);
    for node in &dependencies.order {
        let vector = |other: &UOp| other.as_range().is_some_and(|arg| arg.kind == AxisKind::Vector);
        if node.op() == Op::Range && vector(node) {
            let other = range_id(node);
            let both = dependencies.order.iter().any(|value| {
                // A local buffer that is filled in parts keeps vectors in all of them, if it does in one.
                let parts = value.src().iter().filter(|_| value.op() == Op::LocalBuffer);
                let closed = || parts.clone().chain([value]).flat_map(closed_ranges);
                let stands_in =
                    |id: u32| closed().any(|range| range_id(range) == id) || dependencies.get(value).contains(id);
                stands_in(id) && stands_in(other)
            });
            if both || other == id {
                return Err("a value would depend on two vector ranges");
            }
        }
        if node.op() == Op::Exchange && dependencies.get(node).contains(id) {
            return Err("what memory held is asked for one element at a time");
        }
        if node.op() == Op::Store && dependencies.get(&node.src()[0]).contains(id) {
            let plain =
                linear_terms(&node.src()[0].src()[1]).0.iter().all(|(term, _)| term == range || !depends_on(term, id));
            if !plain {
                return Err("a store's index does not move evenly with the range");
            }
        }
    }
    Ok(())
}

fn depends_on(node: &UOp, id: u32) -> bool {
    postorder(std::slice::from_ref(node)).iter().any(|node| node.op() == Op::Range && range_id(node) == id)
}

/// How the rest of a range that a split leaves is handled.
fn tail_of(root: &UOp, range: &UOp, inner: i64) -> Result<SplitTail, &'static str> {
    let len = &range.src()[0];
    if simplify(&len.modulo(inner)).is_const(0) {
        return Ok(SplitTail::None);
    }
    let accumulates_along = |node: &UOp| {
        node.op() == Op::Store && closed_ranges(node).contains(range) && accumulated_ranges(node).next().is_some()
    };
    if postorder(std::slice::from_ref(root)).iter().any(accumulates_along) {
        return Err("partial results would be combined twice with the same: the part does not divide the length");
    }
    if is_reduce(range) {
        return Ok(SplitTail::Apart);
    }
    let mut outputs = root.src().iter().filter(|store| closed_ranges(store).contains(range)).peekable();
    let is_output = outputs.peek().is_some();
    // Of what threads share, two of them must not fill one element.
    if !is_output && fills_shared(root, range) {
        return Err("the loop fills shared memory, of which the part must divide it");
    }
    // What was replaced cannot be computed again. A length that may be less than the part leaves no room to begin earlier.
    if !outputs.any(replaces_what_was_read) && len.min_value() >= inner {
        return Ok(SplitTail::Overlap);
    }
    if is_output { Ok(SplitTail::Apart) } else { Err("the loop fills scratch and may be shorter than the part") }
}

fn fills_shared(root: &UOp, range: &UOp) -> bool {
    let is_shared = |stage: &UOp| matches!(scratch_of(stage).arg(), Arg::Scratch(_, _, MemorySpace::Shared));
    let closes = |stage: &UOp| stage.src().iter().any(|store| closed_ranges(store).contains(range));
    local_buffers(root).iter().any(|stage| is_shared(stage) && closes(stage))
}

/// A range in two: an outer loop, and a part of length `inner` that becomes what `kind` says.
pub(crate) fn split(root: &UOp, range: &UOp, inner: u32, kind: AxisKind, target: &Target) -> Result<UOp, Reason> {
    let inner = inner as i64;
    let len = &range.src()[0];
    let arg = range.as_range().ok_or("it is no range")?;
    if matches!(arg.kind, AxisKind::Parallel | AxisKind::Unroll | AxisKind::Vector | AxisKind::Dot)
        || arg.kind.is_thread_index()
    {
        return Err("the range has become something else already".into());
    }
    // What is known of a length may be less than what is known of its parts.
    if inner < 2 || inner > len.max_value() || simplify(&len.idiv(inner)).max_value() < 1 {
        return Err("the part is not between 2 and the length".into());
    }
    if is_accumulated(root, range) && matches!(kind, AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot) {
        return Err("partial results are combined in memory one block after the other".into());
    }
    let tail = tail_of(root, range, inner)?;
    let next = next_range_id(root);
    let part = UOp::range(inner, next, kind);
    if is_reduce(range) && !is_accumulated(root, range) {
        // The rest is a loop of its own behind the whole parts: short on a CPU, and one more loop of all threads on a GPU.
        let left = left_of_loop(len, inner, kind).filter(|_| target.blocks.is_none());
        return Ok(split_reduce(root, range, inner, kind, next, left));
    }
    let outer_len = match tail {
        SplitTail::Apart => simplify(&len.idiv(inner)),
        SplitTail::None | SplitTail::Overlap => simplify(&(len + (inner - 1)).idiv(inner)),
    };
    let is_one = outer_len.is_const(1);
    let outer = UOp::range(outer_len, arg.id, arg.kind);
    let begin = match tail {
        _ if is_one => UOp::index(0),
        SplitTail::Overlap => (&outer * inner).min(len - inner),
        SplitTail::None | SplitTail::Apart => &outer * inner,
    };
    let ranges = if is_one { smallvec![part.clone()] } else { smallvec![outer, part.clone()] };
    let value = begin + part;
    let guarded = match ranges.first() {
        Some(outer) if !is_one => guard_loads(root, range, &value, outer, &UOp::index(inner - 1).lt(len)),
        _ => root.clone(),
    };
    let map: FxHashMap<UOp, NewRanges> = [(range.clone(), NewRanges { value, ranges })].into_iter().collect();
    let main = substitute_ranges(&guarded, &map);
    if tail != SplitTail::Apart {
        return Ok(simplify(&main));
    }
    let rest = tail_stores(root, range, &simplify(&(len.idiv(inner) * inner)), next + 1);
    Ok(simplify(&UOp::sink(main.src().iter().chain(&rest).cloned())))
}

/// The value with its loads gated that would leave a loop which may be empty.
///
/// Where a range becomes `value`, in a loop of length 0 or 1 or of which an index takes but a quotient, an address may no longer name the loop. It then is
/// computed outside, and where the loop is empty it need not be one of memory's: so it is loaded only if the loop is not empty.
fn guard_loads(root: &UOp, range: &UOp, value: &UOp, new_loop: &UOp, is_not_empty: &UOp) -> UOp {
    if new_loop.src()[0].min_value() > 0 {
        return root.clone();
    }
    let dependencies = Dependencies::of(root);
    let map: FxHashMap<UOp, UOp> = [(range.clone(), value.clone())].into_iter().collect();
    crate::ir::rebuild(root, |node, rebuilt| {
        if node.op() != Op::Load || !dependencies.get(&node.src()[0]).contains(range_id(range)) {
            return rebuilt;
        }
        let offset = simplify(&substitute(&node.src()[0].src()[1], &map));
        if depends_on(&offset, range_id(new_loop)) {
            return rebuilt;
        }
        rebuilt.with_src([gated(&rebuilt.src()[0], is_not_empty)].into_iter().collect::<Sources>())
    })
}

/// An index that exists where it did and the gate holds.
pub(crate) fn gated(index: &UOp, gate: &UOp) -> UOp {
    let both = match index.src().get(2) {
        Some(old) => old & gate,
        None => gate.clone(),
    };
    index.with_src(Sources::from_iter([index.src()[0].clone(), index.src()[1].clone(), both]))
}

/// Some loops, and those of the reductions and local buffers that stand in them or in others that are given by number; each once.
pub(crate) fn loops_inside(dependencies: &Dependencies, first: Vec<UOp>, around: RangeSet) -> Vec<UOp> {
    let mut inside = around;
    let mut own: Vec<UOp> = Vec::new();
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    let mut take = |taken: &[UOp], inside: &mut RangeSet| {
        for range in taken {
            inside.insert(range_id(range));
            if seen.insert(range.clone()) {
                own.push(range.clone());
            }
        }
    };
    take(&first, &mut inside);
    // Users first: what a reduction or local buffer stands in is known before it.
    for loop_end in dependencies.order.iter().rev().filter(|node| is_loop_end(node)) {
        let is_inner = loop_end.op() == Op::ReduceRange || loop_end.src()[0].src()[0].op() == Op::Scratch;
        if is_inner && dependencies.get(loop_end).iter().any(|id| inside.contains(id)) {
            take(closed_ranges(loop_end), &mut inside);
        }
    }
    own
}

/// The range under another number.
pub(crate) fn with_number(range: &UOp, id: u32) -> UOp {
    let kind = range.as_range().map_or(AxisKind::Loop, |arg| arg.kind);
    UOp::range(range.src()[0].clone(), id, kind)
}

/// The stores that a range repeats, for what it counts from `whole` on alone.
///
/// They share the loops outside of the range with what they were made from; loops inside of it, those of reductions and local buffers too, are their own.
fn tail_stores(root: &UOp, range: &UOp, whole: &UOp, next: u32) -> Vec<UOp> {
    let stores: Vec<UOp> = root.src().iter().filter(|store| closed_ranges(store).contains(range)).cloned().collect();
    let sink = UOp::sink(stores.iter().cloned());
    let dependencies = Dependencies::of(&sink);
    let mut inside = RangeSet::default();
    inside.insert(range_id(range));
    let mut own: Vec<UOp> = Vec::new();
    for store in &stores {
        own.extend_from_slice(closed_ranges(store).rsplit(|other| other == range).next().unwrap_or_default());
    }
    let own = loops_inside(&dependencies, own, inside);
    let len = simplify(&(&range.src()[0] - whole));
    let kind = range.as_range().map_or(AxisKind::Loop, |arg| arg.kind);
    let is_one = len.is_const(1);
    let rest = UOp::range(len, next, kind);
    let ranges = if is_one { smallvec![] } else { smallvec![rest.clone()] };
    let value = if is_one { whole.clone() } else { whole + &rest };
    let sink = if is_one { sink } else { guard_loads(&sink, range, &value, &rest, &whole.lt(&range.src()[0])) };
    let mut map: FxHashMap<UOp, NewRanges> = [(range.clone(), NewRanges { value, ranges })].into_iter().collect();
    for (other, id) in own.into_iter().zip(next + 1..) {
        let fresh = with_number(&other, id);
        map.insert(other, NewRanges { value: fresh.clone(), ranges: smallvec![fresh] });
    }
    substitute_ranges(&sink, &map).src().to_vec()
}

/// Splits a reduce range: reduction over the outer part first, then over the inner one, so that the inner one's values are independent
/// accumulators; what is left over is reduced apart.
fn split_reduce(root: &UOp, range: &UOp, inner: i64, kind: AxisKind, next: u32, left: Option<i64>) -> UOp {
    let len = &range.src()[0];
    let id = range_id(range);
    let parts = simplify(&len.idiv(inner));
    let whole = simplify(&(&parts * inner));
    let leaves_rest = !simplify(&len.modulo(inner)).is_const(0);
    let is_one = parts.is_const(1);
    let outer = UOp::range(parts, id, AxisKind::Reduce);
    let part = UOp::range(inner, next, if kind == AxisKind::Loop { AxisKind::Reduce } else { kind });
    let rest_part = UOp::range(left.unwrap_or(inner), next + 1, kind_of_rest(kind));
    let mut next = next + 2;
    // The loops of what is left over, for those that it cannot share.
    let mut fresh: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in postorder(std::slice::from_ref(root)) {
        let src: Sources = node.src().iter().map(|operand| done[operand].clone()).collect();
        let closes = node.op() == Op::ReduceRange && closed_ranges(&node).contains(range);
        let new = if !closes {
            if src[..] == *node.src() { node.clone() } else { node.with_src(src) }
        } else {
            let combining = Combining::of_reduction(&node);
            let position = closed_ranges(&node).iter().position(|other| other == range).unwrap_or_default();
            let (before, after) = (&closed_ranges(&node)[..position], &closed_ranges(&node)[position + 1..]);
            let values = &src[..combining.arity()];
            let at = |values: &[UOp], index: UOp| -> Vec<UOp> {
                let map: FxHashMap<UOp, UOp> = [(range.clone(), index)].into_iter().collect();
                values.iter().map(|value| substitute(value, &map)).collect()
            };
            let around = |outer: &[UOp], inner: &[UOp]| [before, outer, inner].concat();
            let (outer_ranges, begin) = if is_one {
                (around(&[], after), UOp::index(0))
            } else {
                (around(std::slice::from_ref(&outer), after), &outer * inner)
            };
            let index = begin + &part;
            let runs = UOp::index(inner - 1).lt(len);
            let guarded = values.iter().map(|value| match is_one {
                true => value.clone(),
                false => guard_loads(value, range, &index, &outer, &runs),
            });
            let guarded: Vec<UOp> = guarded.collect();
            let main = at(&guarded, index);
            let mut main = nested_reduction(combining, &main, &outer_ranges, &part, kind);
            if !leaves_rest {
                main.swap_remove(combining.number())
            } else {
                let index = if left == Some(1) { whole.clone() } else { &whole + &rest_part };
                let is_there = left.is_none().then(|| index.lt(len));
                let rest = those_that_are(is_there.as_ref(), combining, at(values, index));
                // Loops inside of the range would stand twice, in its loop and beside it.
                let mut inside = RangeSet::default();
                inside.insert(id);
                let operands = UOp::sink(open_operands(&node).iter().cloned());
                for loop_inside in loops_inside(&Dependencies::of(&operands), after.to_vec(), inside) {
                    fresh.entry(loop_inside.clone()).or_insert_with(|| {
                        next += 1;
                        with_number(&loop_inside, next - 1)
                    });
                }
                let after: Vec<UOp> = after.iter().map(|other| fresh[other].clone()).collect();
                let rest: Vec<UOp> = rest.iter().map(|value| substitute(value, &fresh)).collect();
                let rest = nested_reduction(combining, &rest, &around(&[], &after), &rest_part, kind);
                combining.combine(&main, &rest).swap_remove(combining.number())
            }
        };
        done.insert(node, new);
    }
    simplify(&done.remove(root).unwrap_or_else(|| root.clone()))
}

/// What is left over of loops and of groups of terms is a loop.
fn kind_of_rest(kind: AxisKind) -> AxisKind {
    if matches!(kind, AxisKind::Loop | AxisKind::Dot) { AxisKind::Reduce } else { kind }
}

/// How many iterations are left over for a loop, if that is a number. Lanes and copies are as many as those of whole parts, of which some are not there.
fn left_of_loop(len: &UOp, inner: i64, kind: AxisKind) -> Option<i64> {
    simplify(&len.modulo(inner)).as_int().filter(|_| matches!(kind, AxisKind::Loop | AxisKind::Reduce | AxisKind::Dot))
}

/// The terms where they are there, and what changes nothing elsewhere; all of them if there is no condition.
fn those_that_are(there: Option<&UOp>, combining: Combining, values: Vec<UOp>) -> Vec<UOp> {
    let Some(there) = there else { return values };
    let each = values.into_iter().enumerate().map(|(number, value)| {
        let value = gate_loads(&value, there);
        let identity = combining.identity(number, value.dtype());
        there.select(&value, &identity)
    });
    each.collect()
}

/// A reduction over loops inside a reduction over lanes or copies; one reduction over both where the part is a loop too. A part of one iteration is none.
fn nested_reduction(
    combining: Combining,
    values: &[UOp],
    loops: &[UOp],
    part: &UOp,
    kind: AxisKind,
) -> SmallVec<[UOp; 3]> {
    if matches!(kind, AxisKind::Loop | AxisKind::Reduce | AxisKind::Dot) {
        let own = Some(part.clone()).filter(|part| !part.src()[0].is_const(1));
        let ranges: Sources = loops.iter().cloned().chain(own).collect();
        return combining.reduce_ranges(values, &ranges);
    }
    combining.reduce_ranges(&combining.reduce_ranges(values, loops), std::slice::from_ref(part))
}

/// Every load in a value that depends on what the gate depends on, gated by it as well.
fn gate_loads(value: &UOp, gate: &UOp) -> UOp {
    let dependencies = Dependencies::of(value);
    let gate_ids: Vec<u32> = Dependencies::of(gate).get(gate).iter().collect();
    crate::ir::rebuild(value, |node, rebuilt| {
        let varies = gate_ids.iter().any(|id| dependencies.get(node).contains(*id));
        if node.op() != Op::Index || !varies {
            return rebuilt;
        }
        gated(&rebuilt, gate)
    })
}

#[cfg(test)]
mod tests;
