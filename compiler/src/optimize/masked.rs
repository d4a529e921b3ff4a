//! A loop over outputs in two, of which the last part may go beyond the end: there nothing is loaded and nothing stored.
//!
//! ```text
//! for r0 in 0..1000                          for r0 in 0..4
//!   store y[r0], x[r0]            =>           for r1 in 0..256
//!                                                store y[r0 * 256 + r1], x[r0 * 256 + r1], where r0 * 256 + r1 < 1000
//! ```
//!
//! Threads want this: a part that begins earlier (`split`) would be stored by two of them. A symbolic length may be less than one part.
//!
//! Refused where the loop fills scratch memory, or is one of a reduction, whose rest `split` takes apart; and where elements that are read and replaced
//! lie behind the end, or a local buffer that the loop reads.
//!
//! Always: each element is stored once, with the same value. Tested by filetests, and by random lists of opts in the test crate.

use smallvec::smallvec;

use super::opt::Reason;
use super::split::gated;
use crate::ir::{AxisKind, Op, UOp, rebuild};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, is_loop_end, next_range_id, range_id, substitute_ranges,
};
use crate::symbolic::{linear_terms, simplify};

/// The longest part, so that indices stay far below the largest number.
const PART_MAX: u32 = 1 << 20;

/// A range as an outer loop, which keeps its number, and parts of length `inner` under a mask.
///
/// # Errors
/// Why not.
pub(super) fn split_masked(root: &UOp, range: &UOp, inner: u32) -> Result<UOp, Reason> {
    let arg = range.as_range().ok_or("it is no range")?;
    if arg.kind != AxisKind::Loop {
        return Err("only a loop over outputs is split under a mask".into());
    }
    if !(2..=PART_MAX).contains(&inner) {
        return Err("the part is not between 2 and 1048576".into());
    }
    let nodes = crate::ir::postorder(std::slice::from_ref(root));
    let closes = |node: &&UOp| is_loop_end(node) && closed_ranges(node).contains(range);
    if nodes.iter().filter(closes).any(|node| !root.src().contains(node)) {
        return Err("the loop is not one of outputs alone".into());
    }
    if !ends_with_memory(root, range) {
        return Err("what is read and replaced does not end where the loop ends".into());
    }
    let before = Dependencies::of(root);
    let is_local = |node: &UOp| node.op() == Op::Index && node.src()[0].op() == Op::LocalBuffer;
    if nodes.iter().any(|node| is_local(node) && before.get(node).contains(range_id(range))) {
        return Err("a local buffer ends where the loop ends".into());
    }
    let len = &range.src()[0];
    let part = UOp::range(i64::from(inner), next_range_id(root), AxisKind::Loop);
    let outer_len = simplify(&(len + i64::from(inner - 1)).idiv(i64::from(inner)));
    let (index, ranges) = match outer_len.is_const(1) {
        true => (part.clone(), smallvec![part.clone()]),
        false => {
            let outer = UOp::range(outer_len, arg.id, AxisKind::Loop);
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
    let masked = rebuild(&new, |node, rebuilt| {
        let is_memory = node.op() == Op::Index && node.src()[0].op() == Op::Param;
        if is_memory && dependencies.get(node).contains(range_id(&part)) { gated(&rebuilt, &is_there) } else { rebuilt }
    });
    Ok(simplify(&masked))
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
