//! A loop in two, of which the last part may go beyond the end: there nothing is loaded and nothing stored, and reductions combine what changes nothing.
//!
//! ```text
//! for r0 in 0..1000                          for r0 in 0..4
//!   store y[r0], x[r0]            =>           for r1 in 0..256
//!                                                store y[r0 * 256 + r1], x[r0 * 256 + r1], where r0 * 256 + r1 < 1000
//! ```
//!
//! Threads want this: a part that begins earlier (`split`) would be stored by two of them. A symbolic length may be less than one part.
//!
//! Of a reduction the value beyond the end is chosen to be the identity; but a product of two loads, which are zero there, is nothing to a sum by itself. What is left over
//! could be reduced apart, as `split` does: tiles in shared memory want one loop.
//!
//! What the threads of a block share is neither filled nor read beyond the end.
//!
//! Refused where the loop fills scratch memory of a thread, or reads it; and where elements that are read and replaced lie behind the end.
//!
//! Always: each element is stored once, with the same value. Tested by filetests, and by random lists of opts in the test crate.

use smallvec::smallvec;

use super::split::gated;
use crate::ir::{Arg, AxisKind, Combining, MemorySpace, Op, ReduceOp, Sources, UOp, rebuild};
use crate::kernel::effects::memory_in_place;
use crate::kernel::local_buffers::scratch_of;
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, is_loop_end, next_range_id, open_operands, range_id, substitute_ranges,
};
use crate::optimize::opt::Reason;
use crate::symbolic::{linear_terms, simplify};

/// The longest part, so that indices stay far below the largest number.
const PART_MAX: u32 = 1 << 20;

/// A range as an outer loop, which keeps its number, and parts of length `inner` under a mask.
///
/// # Errors
/// Why not.
pub(crate) fn split_masked(root: &UOp, range: &UOp, inner: u32) -> Result<UOp, Reason> {
    let arg = range.as_range().ok_or("it is no range")?;
    if !matches!(arg.kind, AxisKind::Loop | AxisKind::Reduce) {
        return Err("only a loop over outputs or of reductions is split under a mask".into());
    }
    if !(2..=PART_MAX).contains(&inner) {
        return Err("the part is not between 2 and 1048576".into());
    }
    let nodes = crate::ir::postorder(std::slice::from_ref(root));
    let closes = |node: &&UOp| is_loop_end(node) && closed_ranges(node).contains(range);
    let is_of_kind = |node: &UOp| match arg.kind {
        AxisKind::Reduce => node.op() == Op::ReduceRange,
        _ => root.src().contains(node) || node.op() == Op::Store && is_shared(&node.src()[0]),
    };
    if nodes.iter().filter(closes).any(|node| !is_of_kind(node)) {
        return Err("the loop is not one of outputs alone, or of reductions alone".into());
    }
    if !ends_with_memory(root, range) {
        return Err("what is read and replaced does not end where the loop ends".into());
    }
    let before = Dependencies::of(root);
    let is_local = |node: &UOp| node.op() == Op::Index && node.src()[0].op() == Op::LocalBuffer && !is_shared(node);
    if nodes.iter().any(|node| is_local(node) && before.get(&node.src()[1]).contains(range_id(range))) {
        return Err("a local buffer ends where the loop ends".into());
    }
    let len = &range.src()[0];
    let part = UOp::range(i64::from(inner), next_range_id(root), arg.kind);
    let outer_len = simplify(&(len + i64::from(inner - 1)).idiv(i64::from(inner)));
    let (index, ranges) = match outer_len.is_const(1) {
        true => (part.clone(), smallvec![part.clone()]),
        false => {
            let outer = UOp::range(outer_len, arg.id, arg.kind);
            (&outer * i64::from(inner) + &part, smallvec![outer, part.clone()])
        }
    };
    let map = [(range.clone(), NewRanges { value: index.clone(), ranges })].into_iter().collect();
    let new = substitute_ranges(root, &map);
    if simplify(&len.modulo(i64::from(inner))).is_const(0) {
        return Ok(simplify(&new));
    }
    let is_there = index.lt(len);
    let dependencies = Dependencies::of(&new);
    let varies = |node: &UOp| dependencies.get(node).contains(range_id(&part));
    let masked = rebuild(&new, |node, rebuilt| match node.op() {
        Op::Index if (node.src()[0].op() == Op::Param || is_shared(node)) && varies(node) => gated(&rebuilt, &is_there),
        Op::ReduceRange if closed_ranges(node).contains(&part) => with_identity(node, &rebuilt, &is_there, varies),
        _ => rebuilt,
    });
    Ok(simplify(&masked))
}

/// Whether an index is one of memory that the threads of a block share.
fn is_shared(index: &UOp) -> bool {
    let memory = &index.src()[0];
    let memory = if memory.op() == Op::LocalBuffer { scratch_of(memory) } else { memory };
    matches!(memory.arg(), Arg::Scratch(_, _, MemorySpace::Shared))
}

/// A reduction that combines what changes nothing where the mask does not hold.
fn with_identity(reduction: &UOp, rebuilt: &UOp, is_there: &UOp, varies: impl Fn(&UOp) -> bool) -> UOp {
    let combining = Combining::of_reduction(reduction);
    let is_sum = *reduction.arg() == Arg::Combine(ReduceOp::Add);
    let is_zero_elsewhere = |factor: &UOp| {
        let load = if factor.op() == Op::Cast { &factor.src()[0] } else { factor };
        let is_masked = load.op() == Op::Load && load.src()[0].src()[0].op() == Op::Param && varies(load);
        is_masked && load.dtype().is_float() == factor.dtype().is_float()
    };
    let value = &open_operands(reduction)[0];
    if is_sum && value.op() == Op::Mul && value.src().iter().all(is_zero_elsewhere) {
        return rebuilt.clone();
    }
    let arity = combining.arity();
    let values = rebuilt.src()[..arity].iter().enumerate();
    let chosen = values.map(|(number, value)| is_there.select(value, combining.identity(number, value.dtype())));
    rebuilt.with_src(chosen.chain(rebuilt.src()[arity..].iter().cloned()).collect::<Sources>())
}

/// Whether all that is read and replaced lies so that iterations beyond the loop's end would be beyond all elements: the order of loads and stores is seen
/// without the mask.
fn ends_with_memory(root: &UOp, range: &UOp) -> bool {
    let replaced = memory_in_place(root);
    let is_replaced = |node: &UOp| node.op() == Op::Index && replaced.contains(&node.src()[0]);
    let steps_over_all = |index: &UOp| {
        let terms = linear_terms(&index.src()[1]).0;
        let width = |term: &UOp| term.max_value().saturating_sub(term.min_value());
        let others = terms.iter().filter(|(term, _)| term != range);
        let reach = others
            .fold(0i64, |reach, (term, step)| reach.saturating_add(step.saturating_abs().saturating_mul(width(term))));
        terms.iter().any(|(term, step)| term == range && step.saturating_abs() > reach)
    };
    replaced.is_empty()
        || crate::ir::postorder(std::slice::from_ref(root)).iter().filter(|node| is_replaced(node)).all(steps_over_all)
}
