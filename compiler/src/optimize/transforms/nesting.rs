//! The order of loops, and which of them threads share: a range moved outermost, two adjacent ones swapped, the outermost shared out.
//!
//! Loops nest as loop ends (stores and reductions) say, outermost first. Where stores share loops but not all of them, a loop that stands in
//! another for one store does so for all, and a store whose own loops the other is not one of is repeated by it: the same values again.
//!
//! Always: no store is repeated that replaces what it read, none stands in a loop of others that may be empty, nothing is replaced that a later iteration still reads, and loops nest in
//! one way. Tested in the test crate, by kernels in place and by random lists of opts on random kernels.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::ir::{AxisKind, Sources, UOp, rebuild};
use crate::kernel::effects::{loads_before, replaces_what_was_read};
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, inner_loop_ends, is_loop_end, open_operands, range_id, substitute_ranges,
};
use crate::lower::loops::ranges_by_id;
use crate::optimize::opt::Reason;
use crate::symbolic::simplify;

/// Iterations of an inner loop, at most, for which threads that share it with the outer one repeat what the outer one computes once.
pub(crate) const REPEATED_MAX: i64 = 8;

fn kind_of(range: &UOp) -> AxisKind {
    range.as_range().map_or(AxisKind::Loop, |arg| arg.kind)
}

/// Whether a range is a loop in what the kernel becomes: lanes and copies are none.
fn is_loop(range: &UOp) -> bool {
    !matches!(kind_of(range), AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot)
}

/// The same loop end with its ranges in another order.
fn reordered(loop_end: &UOp, ranges: impl IntoIterator<Item = UOp>) -> UOp {
    loop_end.with_src(open_operands(loop_end).iter().cloned().chain(ranges).collect::<Sources>())
}

/// A range as the outermost loop of every store that closes it.
pub(crate) fn make_outermost(root: &UOp, range: &UOp) -> Result<UOp, Reason> {
    if kind_of(range) != AxisKind::Loop {
        return Err("only a loop over outputs can be moved".into());
    }
    let mut found = false;
    let stores = root.src().iter().map(|store| {
        if !closed_ranges(store).contains(range) {
            return store.clone();
        }
        found = true;
        let (first, others): (Vec<UOp>, Vec<UOp>) =
            closed_ranges(store).iter().cloned().partition(|other| other == range);
        reordered(store, first.into_iter().chain(others))
    });
    let new = UOp::sink(stores.collect::<Vec<_>>());
    if !found {
        return Err("no store closes the range".into());
    }
    check_order(root, &new)?;
    Ok(new)
}

/// Two adjacent loops of stores, local buffers or reductions, the outer one in the inner one.
pub(crate) fn swap(root: &UOp, outer: &UOp, inner: &UOp) -> Result<UOp, Reason> {
    // One loop end has loops of both kinds only if it accumulates: so blocks of a reduction stand outside of loops over partial results or inside.
    if ![outer, inner].iter().all(|range| matches!(kind_of(range), AxisKind::Loop | AxisKind::Reduce)) {
        return Err("only two loops over outputs, or two of a reduction, can be swapped".into());
    }
    if Dependencies::of(inner).get(&inner.src()[0]).contains(range_id(outer)) {
        return Err("the inner loop's length depends on the outer one".into());
    }
    let mut found = false;
    for loop_end in Dependencies::of(root).order.iter().filter(|node| is_loop_end(node)) {
        let loops: Vec<&UOp> = closed_ranges(loop_end).iter().filter(|range| is_loop(range)).collect();
        let nesting = [outer, inner].map(|range| loops.iter().position(|other| *other == range));
        match nesting {
            [None, None] => {}
            [Some(first), Some(second)] if first + 1 == second => found = true,
            [Some(_), Some(_)] => return Err("one loop does not stand directly in the other".into()),
            _ => return Err("something stands in one of the loops alone".into()),
        }
    }
    if !found {
        return Err("no two loops stand in each other so".into());
    }
    let new = rebuild(root, |node, rebuilt| {
        if !is_loop_end(node) || !closed_ranges(node).contains(outer) {
            return rebuilt;
        }
        let exchanged = closed_ranges(&rebuilt).iter().map(|range| match range {
            range if range == outer => inner.clone(),
            range if range == inner => outer.clone(),
            range => range.clone(),
        });
        reordered(&rebuilt, exchanged.collect::<Vec<_>>())
    });
    check_order(root, &new)?;
    Ok(new)
}

/// Whether stores may stand in their loops in this new order.
fn check_order(old: &UOp, new: &UOp) -> Result<(), Reason> {
    let threaded = |root: &UOp| {
        let first = |store: &UOp| closed_ranges(store).iter().find(|range| is_loop(range)).cloned();
        let shared = root.src().first().and_then(first).filter(|range| kind_of(range) == AxisKind::Parallel);
        shared.is_some_and(|range| root.src().iter().all(|store| first(store).as_ref() == Some(&range)))
    };
    if threaded(old) && !threaded(new) {
        return Err("the loop that threads share is the outermost".into());
    }
    check_nest(new)?;
    if !old.src().iter().any(replaces_what_was_read) {
        return Ok(());
    }
    let (before, after) = (Dependencies::of(old), Dependencies::of(new));
    for (old, new) in old.src().iter().zip(new.src()) {
        if misplaced_readers(new, &after) > misplaced_readers(old, &before) {
            return Err("an iteration would read what an earlier one replaced".into());
        }
    }
    Ok(())
}

/// What a store waits for that its loops repeat though it does not depend on all of them: it would be read again after it was replaced.
fn misplaced_readers(store: &UOp, dependencies: &Dependencies) -> usize {
    let is_repeated = |reader: &&UOp| {
        let set = dependencies.get(reader);
        let loops = closed_ranges(store).iter().filter(|range| is_loop(range));
        let stands_in: Vec<bool> = loops.map(|range| set.contains(range_id(range))).collect();
        stands_in.windows(2).any(|pair| !pair[0] && pair[1])
    };
    loads_before(store).iter().filter(is_repeated).count()
}

/// Whether the loops of all stores nest in one way: each store stands in all of its own, and in no other if it must not be repeated.
fn check_nest(root: &UOp) -> Result<(), Reason> {
    let ids = |store: &UOp| -> Vec<u32> {
        closed_ranges(store).iter().filter(|range| is_loop(range)).map(range_id).collect()
    };
    // The loop that each stands in, and its depth: what stands deeper for one store does for all, the last store first, as in the linearizer.
    let mut nesting: FxHashMap<u32, (Option<u32>, usize)> = FxHashMap::default();
    for store in root.src().iter().rev() {
        let mut outer: Option<u32> = None;
        for id in ids(store) {
            let depth = outer.map_or(0, |outer| nesting[&outer].1 + 1);
            if nesting.get(&id).is_none_or(|(_, known)| *known < depth) {
                nesting.insert(id, (outer, depth));
            }
            outer = Some(id);
        }
    }
    let ranges = ranges_by_id(root);
    for store in root.src() {
        let own = ids(store);
        let mut at = own.last().copied();
        let mut around: Vec<u32> = Vec::new();
        while let Some(id) = at {
            let (outer, depth) = nesting[&id];
            if outer.map_or(0, |outer| nesting[&outer].1 + 1) != depth {
                return Err("the stores' loops would nest in two ways".into());
            }
            around.push(id);
            at = outer;
        }
        if !own.iter().all(|id| around.contains(id)) {
            return Err("the stores' loops would nest in two ways".into());
        }
        if around.len() > own.len() && replaces_what_was_read(store) {
            return Err("a store that replaces what it read would be repeated".into());
        }
        let may_be_empty = |id: &u32| ranges[id].src()[0].min_value() < 1;
        if around.iter().any(|id| !own.contains(id) && may_be_empty(id)) {
            return Err("a store would stand in a loop of others that may be empty".into());
        }
    }
    Ok(())
}

/// The reductions and local buffers that stand in the first of two loops, and not in the second: where threads share both, they are repeated for each iteration of the second.
pub(crate) fn between(root: &UOp, first: &UOp, second: &UOp) -> Vec<UOp> {
    let dependencies = Dependencies::of(root);
    // Loops of what stands in both: what stands in these does so too.
    let in_both = |loop_end: &&UOp| {
        let set = dependencies.get(loop_end);
        set.contains(range_id(first)) && set.contains(range_id(second))
    };
    let further: Vec<u32> = inner_loop_ends(&dependencies.order, root)
        .filter(in_both)
        .flat_map(|loop_end| closed_ranges(loop_end).iter().map(range_id))
        .collect();
    let stands_between = |loop_end: &&UOp| {
        let set = dependencies.get(loop_end);
        let is_further_in = further.iter().any(|id| set.contains(*id));
        set.contains(range_id(first)) && !set.contains(range_id(second)) && !is_further_in
    };
    inner_loop_ends(&dependencies.order, root).filter(stands_between).cloned().collect()
}

/// The outermost ranges of all stores as one parallel range.
pub(crate) fn make_parallel(root: &UOp, outer: &[UOp]) -> Result<UOp, Reason> {
    if outer.iter().any(|range| kind_of(range) != AxisKind::Loop) {
        return Err("only a loop over outputs can be shared out".into());
    }
    for store in root.src() {
        if closed_ranges(store).len() < outer.len() || closed_ranges(store)[..outer.len()] != *outer {
            return Err("a store does not have it as its outermost loop".into());
        }
    }
    if !root.src().first().is_some_and(is_loop_end) {
        return Err("the kernel has no stores".into());
    }
    let dependencies = Dependencies::of(root);
    let is_own = |read: &UOp| outer.iter().all(|range| dependencies.get(read).contains(range_id(range)));
    if !root.src().iter().flat_map(loads_before).all(is_own) {
        return Err("one thread would replace what another still has to read".into());
    }
    if let [first, second] = outer
        && second.src()[0].max_value() > REPEATED_MAX
        && !between(root, first, second).is_empty()
    {
        return Err("what is computed once for an iteration of the outer loop would be repeated".into());
    }
    let len = outer.iter().map(|range| range.src()[0].clone()).reduce(|product, len| simplify(&(product * len)));
    let parallel = UOp::range(len.unwrap_or_else(|| UOp::index(1)), range_id(&outer[0]), AxisKind::Parallel);
    let mut map = FxHashMap::default();
    match outer {
        [only] => {
            map.insert(only.clone(), NewRanges { value: parallel.clone(), ranges: smallvec![parallel] });
        }
        [first, second] => {
            let Some(len) = second.src()[0].as_int() else {
                return Err("the length of the inner loop is not a constant".into());
            };
            map.insert(first.clone(), NewRanges { value: parallel.idiv(len), ranges: smallvec![parallel.clone()] });
            map.insert(second.clone(), NewRanges { value: parallel.modulo(len), ranges: smallvec![] });
        }
        _ => return Err("one or two ranges can be shared out".into()),
    }
    Ok(simplify(&substitute_ranges(root, &map)))
}
