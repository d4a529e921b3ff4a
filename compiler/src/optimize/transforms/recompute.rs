//! A local buffer undone: what a load takes from scratch memory is computed where it is asked for.
//!
//! ```text
//! local buffer: for r2 in 0..64: scratch[r2] = exp(x[r0, r2])
//! reduce r3 in 0..64: scratch[r3]                                =>      reduce r3 in 0..64: exp(x[r0, r3])
//! ```
//!
//! The opposite of a stage (`stage`). The schedule keeps what is asked for several times, which pays where one thread does a row; threads that share a row would each need what
//! others kept, and memory of a thread alone is slow on a GPU.
//!
//! Refused: what is computed in loops of its own that stand in those of the local buffer, for these would stand twice; several stores; what is kept
//! of memory that the kernel replaces.
//!
//! Always: the value is the one that was kept, computed by the same operations. Tested by filetests, and by random lists of opts in the test crate.

use rustc_hash::FxHashMap;

use super::stage::loads_of;
use crate::ir::{AxisKind, Op, UOp, substitute};
use crate::kernel::effects::{memory_in_place, replaces_what_was_read};
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, range_id};
use crate::optimize::opt::Reason;
use crate::symbolic::{linear_terms, simplify};

/// The kernel, in which a load from a local buffer has become the value that was kept.
///
/// # Errors
/// Why not.
pub(crate) fn recompute(root: &UOp, number: u32) -> Result<UOp, Reason> {
    let loads = loads_of(root);
    let load = loads.get(number as usize).ok_or("the kernel has no such load")?;
    let index = &load.src()[0];
    if index.src()[0].op() != Op::LocalBuffer {
        return Err("the load is not one of a local buffer".into());
    }
    let [store] = index.src()[0].src() else {
        return Err("the local buffer is filled by several stores".into());
    };
    let target = &store.src()[0];
    if index.src().len() > 2 || target.src().len() > 2 || replaces_what_was_read(store) {
        return Err("the local buffer is filled or read under a condition".into());
    }
    let fills = closed_ranges(store);
    let is_loop = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    if !fills.iter().all(is_loop) {
        return Err("the local buffer is not filled by loops of one thread".into());
    }
    let value = &store.src()[1];
    check_value(root, value, fills)?;
    let map = iterations(&target.src()[1], &index.src()[1], fills)
        .ok_or("elements do not lie in the order of the loops that fill the local buffer")?;
    let computed = simplify(&substitute(value, &map));
    Ok(simplify(&substitute(root, &[(load.clone(), computed)].into_iter().collect())))
}

/// Whether a kept value may be computed elsewhere.
fn check_value(root: &UOp, value: &UOp, fills: &[UOp]) -> Result<(), Reason> {
    let dependencies = Dependencies::of(value);
    let varies = |node: &&UOp| fills.iter().any(|range| dependencies.get(node).contains(range_id(range)));
    let is_ordered = |node: &&UOp| matches!(node.op(), Op::Running | Op::Exchange | Op::Previous);
    let mut nodes = dependencies.order.iter();
    if nodes.any(|node| is_ordered(&node) || is_loop_end(node) && varies(&node)) {
        return Err("what is kept has loops of its own".into());
    }
    let replaced = memory_in_place(root);
    if dependencies.order.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
        return Err("what is kept could be replaced before".into());
    }
    Ok(())
}

/// In which iteration of each loop an element was filled, if the loops fill elements in row-major order.
fn iterations(filled: &UOp, read: &UOp, fills: &[UOp]) -> Option<FxHashMap<UOp, UOp>> {
    let (terms, begin) = linear_terms(filled);
    let mut steps: Vec<(i64, &UOp)> = Vec::new();
    for range in fills {
        // A loop of one iteration is not named.
        let step = terms.iter().find(|(term, _)| term == range).map(|(_, step)| *step);
        match step {
            Some(step) if step > 0 => steps.push((step, range)),
            None if range.src()[0].is_const(1) => steps.push((0, range)),
            _ => return None,
        }
    }
    if begin != 0 || !terms.iter().all(|(term, _)| fills.contains(term)) {
        return None;
    }
    steps.sort_by_key(|(step, _)| -step);
    let mut map = FxHashMap::default();
    let mut outside: Option<i64> = None;
    for (step, range) in steps {
        let most = range.src()[0].max_value();
        if step == 0 {
            map.insert(range.clone(), UOp::index(0));
            continue;
        }
        let within = match outside {
            Some(outside) if outside % step != 0 || most.checked_mul(step)? > outside => return None,
            Some(outside) => read.modulo(outside),
            None => read.clone(),
        };
        map.insert(range.clone(), simplify(&within.idiv(step)));
        outside = Some(step);
    }
    (outside.is_none_or(|step| step == 1)).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_says_when_it_was_filled() {
        let fills = [UOp::range(3, 0, AxisKind::Loop), UOp::range(5, 1, AxisKind::Loop)];
        let read = UOp::range(15, 2, AxisKind::Loop);
        let map = iterations(&(&fills[0] * 5 + &fills[1]), &read, &fills).expect("row-major");
        assert_eq!((&map[&fills[0]], &map[&fills[1]]), (&simplify(&read.idiv(5)), &simplify(&read.modulo(5))));
        // Where each is read as it was filled, nothing is divided.
        let at = [UOp::range(3, 3, AxisKind::Loop), UOp::range(5, 4, AxisKind::Loop)];
        let map = iterations(&(&fills[0] * 5 + &fills[1]), &(&at[0] * 5 + &at[1]), &fills).expect("row-major");
        assert_eq!((&map[&fills[0]], &map[&fills[1]]), (&at[0], &at[1]));
        // Two of these offsets coincide, and of those some are never filled.
        assert!(iterations(&(&fills[0] * 4 + &fills[1]), &read, &fills).is_none());
        assert!(iterations(&(&fills[0] * 10 + &fills[1] * 2), &read, &fills).is_none());
    }
}
