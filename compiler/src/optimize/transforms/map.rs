//! Ranges that become indices of threads: of the grid, of a block, of lanes; and reductions that the threads of a block share.
//!
//! *An index.* The range is no loop any more: each thread does the one iteration that bears its index. So it may be a range of outputs, or one that fills
//! shared scratch. Stores that do not stand in an index which the kernel has are done by the first thread along it (`legalize::first_thread`).
//!
//! *Lanes of a reduction.* Each lane reduces its share, over all other loops; then lanes combine what they have, and all hold the result.
//!
//! *A group.* What a reduction's loop adds up is put into shared memory, an element by each thread along an index of the block, and all threads reduce that. With
//! lanes inside of it, these combine first.
//!
//! Refused: what two threads would store, in results or in what they share, as where the last part of a loop overlaps the one before; what a thread would replace that another still has to read; and all that [`verify::threads`](crate::verify::threads) does not admit, limits of the
//! target among them (`limits`). Tested in the test crate: by hand, and by random lists of opts on random kernels.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::split::is_reduce;
use super::stage::{Copied, materialized_along};
use crate::ir::{Arg, AxisKind, Combining, MemorySpace, Op, ThreadDim, UOp, gcd, postorder, rebuild, substitute};
use crate::kernel::effects::{loads_before, memory_in_place, replaces_what_was_read};
use crate::kernel::indirect::{is_indirect, is_order, reach_of_index};
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::kernel::ranges::{
    Dependencies, NewRanges, all_ranges, closed_ranges, is_loop_end, next_range_id, open_operands, range_id,
    substitute_ranges,
};
use crate::optimize::opt::Reason;
use crate::symbolic::{linear_terms, simplify};

fn kind_of(range: &UOp) -> AxisKind {
    range.as_range().map_or(AxisKind::Loop, |arg| arg.kind)
}

/// A range as an index of threads.
///
/// # Errors
/// Why not.
pub(crate) fn to_index(root: &UOp, range: &UOp, kind: AxisKind) -> Result<UOp, Reason> {
    let index = UOp::range(range.src()[0].clone(), range_id(range), kind);
    let new = match (kind_of(range), kind) {
        (AxisKind::Reduce, AxisKind::Lane) => lanes_of_reduction(root, range, &index)?,
        (AxisKind::Reduce, _) => return Err("a reduction is shared by lanes, or by a group of threads".into()),
        (AxisKind::Loop, _) => {
            let stands_outside = |store: &UOp| !is_computed_along(root, store, range);
            if matches!(kind, AxisKind::Grid(_)) && root.src().iter().any(stands_outside) {
                return Err("a store does not stand in the loop, so each block would compute what it stores".into());
            }
            let as_index = NewRanges { value: index.clone(), ranges: smallvec![index] };
            substitute_ranges(root, &[(range.clone(), as_index)].into_iter().collect())
        }
        _ => return Err("only a loop over outputs or a reduction's can become an index".into()),
    };
    check_replacing_stores(&new)?;
    let is_shared = |buffer: &UOp| matches!(scratch_of(buffer).arg(), Arg::Scratch(_, _, MemorySpace::Shared));
    let filled: Vec<UOp> = local_buffers(&new).into_iter().filter(is_shared).collect();
    let are_apart = filled.iter().chain([&new]).flat_map(|stores| stores.src()).all(threads_store_apart);
    match are_apart {
        true => Ok(new),
        false => Err("two threads would store one element".into()),
    }
}

/// Whether a store stands in a loop, or all that it needs loops for is computed in there anyway, for stores that have its loops too: then the first block stores it.
pub(crate) fn is_computed_along(root: &UOp, store: &UOp, range: &UOp) -> bool {
    let stands_inside = |store: &&UOp| closed_ranges(store).contains(range);
    if stands_inside(&store) {
        return true;
    }
    let mut inside: Vec<UOp> = root.src().iter().filter(stands_inside).cloned().collect();
    inside.retain(|other| closed_ranges(store).iter().all(|own| closed_ranges(other).contains(own)));
    let known: FxHashSet<UOp> = postorder(&inside).into_iter().collect();
    let has_loops = |node: &UOp| is_loop_end(node) || node.op() == Op::LocalBuffer;
    let needed = postorder(&store.src()[..2]);
    !inside.is_empty() && needed.iter().filter(|node| has_loops(node)).all(|node| known.contains(node))
}

/// Whether no two threads store one element, as far as the store's offset shows. One thread may store an element twice.
///
/// By the steps of the offset's terms, the least first: an index steps over all that the terms before it reach, and terms that are no indices
/// step over what an index before them reaches.
fn threads_store_apart(store: &UOp) -> bool {
    let is_index = |node: &UOp| node.op() == Op::Range && kind_of(node).is_thread_index();
    let mut terms = linear_terms(&store.src()[0].src()[1]).0;
    let parts = take_sums_apart(&mut terms);
    let is_part = |term: &UOp| parts.iter().any(|part| part.term == *term);
    // An index from memory is a digit of the offset, whatever it depends on.
    let is_digit = |term: &UOp| is_index(term) || is_part(term) || is_indirect(term);
    let hides_index = |term: &UOp| !is_digit(term) && postorder(std::slice::from_ref(term)).iter().any(is_index);
    if !closed_ranges(store).iter().any(is_index) {
        return true;
    }
    let position = position_in_row(store, &terms);
    // Rows and positions say which element it is, each by itself.
    let row = position.as_ref().and_then(|(position, len)| match terms.len() == position.len() + 1 {
        true => terms.iter().find_map(|(term, step)| row_of(term, len).filter(|_| *step == 1)),
        false => None,
    });
    let is_named = |range: &UOp| {
        let is_in_sum = |part: &PartOfSum| part.terms.iter().any(|(term, _)| term == range);
        row.as_ref() == Some(range) || terms.iter().any(|(term, _)| term == range) || parts.iter().any(is_in_sum)
    };
    let is_missing = |range: &UOp| is_index(range) && !range.src()[0].is_const(1) && !is_named(range);
    let is_hidden = |(term, _): &(UOp, i64)| row.is_none() && hides_index(term);
    let is_one_lost = !is_order(store) && closed_ranges(store).iter().any(is_missing);
    if is_one_lost || terms.iter().any(is_hidden) {
        return false;
    }
    let width = |term: &UOp| match term.op() {
        Op::Range => term.src()[0].max_value().saturating_sub(1).max(0),
        _ => reach_of_index(store, term).unwrap_or(term.max_value().saturating_sub(term.min_value())),
    };
    let step_of = |(term, step): &(UOp, i64)| (step.saturating_abs(), is_index(term) || is_part(term), width(term));
    if !parts.iter().all(|part| steps_apart(part.terms.iter().map(step_of).collect())) {
        return false;
    }
    match position {
        Some((position, _)) if row.is_some() => steps_apart(position.iter().map(step_of).collect()),
        _ => steps_apart(bounded_by_gate(store, terms, step_of)),
    }
}

/// A term that is the quotient or the remainder of a sum of ranges.
struct PartOfSum {
    term: UOp,
    /// The terms of the sum.
    terms: Vec<(UOp, i64)>,
}

/// Sums of ranges that an offset holds with their quotients or remainders, as [`flatten`](super::flatten) makes them: each becomes its quotient and its remainder, which together
/// say what the sum is.
fn take_sums_apart(terms: &mut Vec<(UOp, i64)>) -> Vec<PartOfSum> {
    let mut parts: Vec<PartOfSum> = Vec::new();
    let divided = |(term, _): &(UOp, i64)| match term.op() {
        Op::IDiv | Op::Mod => Some((term.src()[0].clone(), term.src()[1].as_int().filter(|divisor| *divisor > 0)?)),
        _ => None,
    };
    let mut sums: Vec<(UOp, i64)> = terms.iter().filter_map(divided).collect();
    sums.dedup();
    for (sum, divisor) in sums {
        let (own, constant) = linear_terms(&sum);
        let step_of =
            |terms: &[(UOp, i64)], node: &UOp| terms.iter().find(|(term, _)| term == node).map_or(0, |(_, step)| *step);
        let times = own.first().map_or(0, |(range, step)| step_of(terms, range) / step);
        let is_whole = |(range, step): &(UOp, i64)| range.op() == Op::Range && step_of(terms, range) == times * step;
        if constant != 0 || !own.iter().all(is_whole) || parts.iter().any(|part| part.terms == own) {
            continue;
        }
        let (quotient, remainder) = (sum.idiv(divisor), sum.modulo(divisor));
        let steps = [times * divisor + step_of(terms, &quotient), times + step_of(terms, &remainder)];
        terms.retain(|(term, _)| {
            ![&quotient, &remainder].contains(&term) && !own.iter().any(|(range, _)| range == term)
        });
        for (term, step) in [quotient, remainder].into_iter().zip(steps) {
            terms.push((term.clone(), step));
            parts.push(PartOfSum { term, terms: own.clone() });
        }
    }
    parts
}

/// The steps of an offset's terms. Those that the gate keeps below a length together are one, which steps as far as that: what lies beyond the end of a row, or of all rows, is not stored.
fn bounded_by_gate(
    store: &UOp,
    mut terms: Vec<(UOp, i64)>,
    step_of: impl Fn(&(UOp, i64)) -> (i64, bool, i64),
) -> Vec<(i64, bool, i64)> {
    let mut steps = Vec::new();
    let conditions = store.src()[0].src().get(2).map(conditions_of).unwrap_or_default();
    for condition in conditions.iter().filter(|condition| condition.op() == Op::Lt) {
        let (position, begin) = linear_terms(&condition.src()[0]);
        let (Some(len), Some((first, least))) = (condition.src()[1].as_int(), position.first()) else { continue };
        // In the offset the position may count rows: all of its steps are as many times longer.
        let times = terms.iter().find(|(term, _)| term == first).map_or(0, |(_, step)| step / least.max(&1));
        let members: Vec<(UOp, i64)> = position.iter().map(|(term, step)| (term.clone(), step * times)).collect();
        let inner: Vec<(i64, bool, i64)> = members.iter().map(&step_of).collect();
        let is_position = begin == 0
            && times > 0
            && position.iter().all(|(term, step)| term.op() == Op::Range && *step > 0)
            && members.iter().all(|member| terms.contains(member));
        if !is_position || !steps_apart(inner.clone()) {
            continue;
        }
        let unit = inner.iter().fold(0, |unit, (step, ..)| gcd(unit, *step));
        let has_index = inner.iter().any(|(_, is_index, _)| *is_index);
        steps.push((unit, has_index, times.saturating_mul(len - 1) / unit.max(1)));
        terms.retain(|term| !members.contains(term));
    }
    steps.extend(terms.iter().map(step_of));
    steps
}

/// Whether terms never come to one sum for two threads: of each its step, whether it is an index, and how often it steps at most.
fn steps_apart(mut steps: Vec<(i64, bool, i64)>) -> bool {
    steps.sort_unstable();
    // What all terms so far reach, what those up to the last index reach, and what all steps since then are multiples of.
    let (mut reach, mut needed, mut multiple) = (0i64, None::<i64>, 0i64);
    steps.into_iter().all(|(step, is_index, width)| {
        let before = reach;
        reach = reach.saturating_add(step.saturating_mul(width));
        if is_index {
            (needed, multiple) = (Some(reach), 0);
            return step > before;
        }
        multiple = gcd(multiple, step);
        needed.is_none_or(|needed| multiple > needed)
    })
}

/// The terms of an offset that are the position in a row, and the row's length, which the position stays below: of a single loop, by its length; else by the gate of the store.
fn position_in_row(store: &UOp, terms: &[(UOp, i64)]) -> Option<(Vec<(UOp, i64)>, UOp)> {
    let is_loop = |(term, step): &(UOp, i64)| term.op() == Op::Range && *step > 0;
    let is_part =
        |part: &[(UOp, i64)]| !part.is_empty() && part.iter().all(|term| is_loop(term) && terms.contains(term));
    let conditions = store.src()[0].src().get(2).map(conditions_of).unwrap_or_default();
    let masked = conditions.iter().filter(|condition| condition.op() == Op::Lt).find_map(|condition| {
        let (position, begin) = linear_terms(&condition.src()[0]);
        (begin == 0 && is_part(&position)).then(|| (position, condition.src()[1].clone()))
    });
    let is_whole =
        |(term, step): &&(UOp, i64)| *step == 1 && term.op() == Op::Range && term.src()[0].as_int().is_none();
    masked.or_else(|| {
        let (range, step) = terms.iter().find(is_whole)?;
        Some((vec![(range.clone(), *step)], range.src()[0].clone()))
    })
}

/// The conditions that a gate is made of.
fn conditions_of(gate: &UOp) -> Vec<UOp> {
    match gate.op() {
        Op::And => gate.src().iter().flat_map(conditions_of).collect(),
        _ => vec![gate.clone()],
    }
}

/// The loop, if a term is rows of a symbolic length.
fn row_of(term: &UOp, len: &UOp) -> Option<UOp> {
    match term.src() {
        [a, b] if term.op() == Op::Mul && b == len && a.op() == Op::Range => Some(a.clone()),
        [a, b] if term.op() == Op::Mul && a == len && b.op() == Op::Range => Some(b.clone()),
        _ => None,
    }
}

/// Whether each thread reads itself what it replaces, and replaces it once.
fn check_replacing_stores(root: &UOp) -> Result<(), Reason> {
    let replacing: Vec<&UOp> = root.src().iter().filter(|store| replaces_what_was_read(store)).collect();
    if replacing.is_empty() {
        return Ok(());
    }
    let mut kinds: Vec<AxisKind> = all_ranges(root).iter().map(kind_of).filter(|kind| kind.is_thread_index()).collect();
    kinds.dedup();
    let dependencies = Dependencies::of(root);
    for store in replacing {
        for kind in &kinds {
            let Some(own) = closed_ranges(store).iter().find(|range| kind_of(range) == *kind) else {
                return Err("a store that replaces what it read does not stand in an index of threads".into());
            };
            if !loads_before(store).iter().all(|read| dependencies.get(read).contains(range_id(own))) {
                return Err("one thread would replace what another still has to read".into());
            }
        }
    }
    Ok(())
}

/// The reductions that close a range, those over other ranges inside of those over lanes.
fn lanes_of_reduction(root: &UOp, range: &UOp, lanes: &UOp) -> Result<UOp, Reason> {
    let new = rebuild(root, |node, rebuilt| {
        if node.op() != Op::ReduceRange || !closed_ranges(node).contains(range) {
            return rebuilt;
        }
        let combining = Combining::of_reduction(&rebuilt);
        let mut inner = over_others(&rebuilt, combining, range);
        // A state has no op over lanes; the rules of threads say so.
        if inner.len() == 1 {
            inner = combining.reduce_ranges(&inner, std::slice::from_ref(range));
            return inner.swap_remove(0);
        }
        rebuilt
    });
    Ok(simplify(&substitute(&new, &[(range.clone(), lanes.clone())].into_iter().collect())))
}

/// The components of a reduction over all of its ranges but one.
fn over_others(reduction: &UOp, combining: Combining, range: &UOp) -> SmallVec<[UOp; 3]> {
    let others: Vec<UOp> = closed_ranges(reduction).iter().filter(|other| *other != range).cloned().collect();
    if others.is_empty() {
        return open_operands(reduction).iter().cloned().collect();
    }
    combining.reduce_ranges(open_operands(reduction), &others)
}

/// The reductions that close a range, of which the threads along an index of the block each do one iteration.
///
/// # Errors
/// Why not.
pub(crate) fn group(root: &UOp, range: &UOp, dim: ThreadDim) -> Result<UOp, Reason> {
    if !is_reduce(range) {
        return Err("only a loop of a reduction is shared by a group of threads".into());
    }
    if range.src()[0].as_int().is_none() {
        return Err("the length is not a constant".into());
    }
    let dependencies = Dependencies::of(root);
    let reductions =
        dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange && closed_ranges(node).contains(range));
    let replaced = memory_in_place(root);
    let mut next = next_range_id(root);
    // By operands: components of one state are put into memory by one loop.
    let mut numbers: FxHashMap<Vec<UOp>, u32> = FxHashMap::default();
    let mut indices: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for reduction in reductions {
        let values = postorder(open_operands(reduction));
        if values.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
            return Err("what is put into shared memory could be replaced before".into());
        }
        let set = dependencies.get(reduction);
        let own = dependencies.order.iter().filter(|node| node.op() == Op::Range && kind_of(node).is_within_block());
        let own: Vec<UOp> = own.filter(|index| set.contains(range_id(index))).cloned().collect();
        numbers.entry(reduction.src().to_vec()).or_insert_with(|| {
            next += own.len() as u32 + 1;
            next - own.len() as u32 - 1
        });
        indices.insert(reduction.clone(), own);
    }
    let new = rebuild(root, |node, rebuilt| {
        let Some(own) = indices.get(node) else { return rebuilt };
        let combining = Combining::of_reduction(&rebuilt);
        let first = numbers[node.src()];
        let by_index = own.iter().zip(first..).map(|(index, id)| Copied::by_its_threads(index, id));
        let by_group = Copied::new(range, first + own.len() as u32, AxisKind::Block(dim));
        let mut along: Vec<Copied> = by_index.chain([by_group]).collect();
        // Neighbours in a warp lie beside each other: so neither who stores nor who loads meets another in a bank.
        along.sort_by_key(|copied| std::cmp::Reverse(distance_in_block(copied.fill())));
        let parts = over_others(&rebuilt, combining, range);
        let kept: Vec<UOp> = parts.iter().map(|part| materialized_along(part, &along, MemorySpace::Shared)).collect();
        combining.reduce_ranges(&kept, std::slice::from_ref(range)).swap_remove(combining.number())
    });
    check_replacing_stores(&new)?;
    Ok(simplify(&new))
}

/// How far apart neighbours along an index of a block's threads are in it: those of a lane are nearest.
fn distance_in_block(index: &UOp) -> u8 {
    match kind_of(index) {
        AxisKind::Block(ThreadDim::X) => 1,
        AxisKind::Block(ThreadDim::Y) => 2,
        AxisKind::Block(ThreadDim::Z) => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    /// Whether lanes that take turns store apart at an offset that is made of their common count.
    fn are_apart(offset: impl Fn(&UOp) -> UOp) -> bool {
        let [lane, turn] = [UOp::range(32, 0, AxisKind::Lane), UOp::range(4, 1, AxisKind::Loop)];
        let offset = offset(&(&turn * 32 + &lane));
        let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 1 << 16), offset], Arg::None);
        let store = vec![index, UOp::float(1.0, DType::F32), lane, turn];
        threads_store_apart(&UOp::new(Op::Store, DType::VOID, store, Arg::None))
    }

    #[test]
    fn a_quotient_and_a_remainder_say_together_which_element_it_is() {
        assert!(are_apart(|count| count.idiv(4) * 40 + count.modulo(4) * 8));
        // The same, of which a pass has made one product less.
        assert!(are_apart(|count| count * 10 - count.modulo(4) * 2));
        assert!(are_apart(|count| simplify(&(count.idiv(5) * 40 + count.modulo(5) * 8))));
        assert!(are_apart(|count| count.modulo(4) * 32 + count.idiv(4)));
        // Rows are shorter than their elements come to, or one of both is missing.
        assert!(!are_apart(|count| count.idiv(4) * 3 + count.modulo(4)));
        assert!(!are_apart(|count| count.modulo(4) * 31 + count.idiv(4)));
        assert!(!are_apart(|count| count.idiv(4) * 40));
        assert!(!are_apart(|count| count.modulo(4) * 8));
        assert!(!are_apart(|count| count.idiv(4) * 40 + count.modulo(5) * 8));
    }
}
