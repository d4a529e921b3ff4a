//! Loads of memory that the same kernel replaces: each stands before the stores that may replace what it reads.
//!
//! ```text
//! x[i] = x[i] * 2; w[i] = x[i] + 1          store x[i], load * 2, after load      the load is an operand of the store
//!                                           store w[i], load + 1
//! ```
//!
//! A kernel's tensor graph says what all values were before anything is written. Its loops do one iteration after another, in any order,
//! so a kernel may only replace what no *other* iteration reads; within one, loads come first. [`order_effects`] makes that an operand: a store
//! into memory that is also loaded has, behind its value, what reads that memory in the loops around the store. Passes rebuild, copy and
//! substitute operands like any others, so no pass can lose the order; the linearizer lists operands first.
//!
//! Always: after this pass, a load of stored memory is below a store of it, or it stands in loops which the store does not stand in, and
//! then the two touch different elements (`schedule` sees to that, and `linearize::effects` proves it on the finished list).
//! Tested below, and by programs that update tensors in place in the tests crate.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ranges::{Dependencies, RangeSet, closed_ranges, inner_loop_ends, open_operands, range_id};
use crate::ir::{Combining, Op, Sources, UOp};

/// Gives each store the loads that must come before it.
pub fn order_effects(root: &UOp) -> UOp {
    let stored: FxHashSet<UOp> = root.src().iter().map(|store| memory_of(store).clone()).collect();
    let dependencies = Dependencies::of(root);
    let is_read = |node: &&UOp| node.op() == Op::Load && stored.contains(memory_of(node));
    let loads: Vec<UOp> = dependencies.order.iter().filter(is_read).cloned().collect();
    if loads.is_empty() {
        return root.clone();
    }
    wait_for(root, &loads, &dependencies)
}

/// The kernel whose stores wait for these loads too.
fn wait_for(root: &UOp, loads: &[UOp], dependencies: &Dependencies) -> UOp {
    let holders = holders_of(dependencies, root);
    let stores = root.src().iter().map(|store| {
        let mut around = RangeSet::default();
        closed_ranges(store).iter().for_each(|range| around.insert(range_id(range)));
        let mut after: Vec<UOp> = Vec::new();
        for load in loads.iter().filter(|load| memory_of(load) == memory_of(store)) {
            for reader in readers_within(load, &around, dependencies, &holders) {
                if !after.contains(&reader) {
                    after.push(reader);
                }
            }
        }
        let src: Sources = open_operands(store).iter().chain(&after).chain(closed_ranges(store)).cloned().collect();
        store.with_src(src)
    });
    UOp::sink(stores)
}

/// Gives stores the loads that they no longer wait for since copies of values were made: of equal loads, each simplified in a value of its own, one
/// may have become another node than the one that the store names.
pub fn find_lost_loads(root: &UOp) -> UOp {
    let replaced = memory_in_place(root);
    if replaced.is_empty() {
        return root.clone();
    }
    let waits: Vec<UOp> = root.src().iter().flat_map(loads_before).cloned().collect();
    let waited: FxHashSet<UOp> = crate::ir::postorder(&waits).into_iter().collect();
    let dependencies = Dependencies::of(root);
    let is_lost = |node: &&UOp| node.op() == Op::Load && replaced.contains(memory_of(node)) && !waited.contains(*node);
    let lost: Vec<UOp> = dependencies.order.iter().filter(is_lost).cloned().collect();
    if lost.is_empty() { root.clone() } else { wait_for(root, &lost, &dependencies) }
}

/// What a store waits for: nothing, unless its kernel also loads what it replaces.
pub fn loads_before(store: &UOp) -> &[UOp] {
    &open_operands(store)[2..]
}

/// Whether a store replaces what the same iteration has loaded, or what it combines with, so that no element may be stored a second time.
pub fn replaces_what_was_read(store: &UOp) -> bool {
    store.op() == Op::Store && (!loads_before(store).is_empty() || accumulates(store).is_some())
}

/// How a store combines its value with what is there; `None` if it replaces it.
pub fn accumulates(store: &UOp) -> Option<Combining> {
    if store.op() == Op::Store { Combining::of(store) } else { None }
}

/// Memory that is both loaded and stored; scratch does not count, for local buffers order that.
pub fn memory_in_place(root: &UOp) -> FxHashSet<UOp> {
    let is_in_place = |store: &&UOp| replaces_what_was_read(store);
    root.src().iter().filter(is_in_place).map(|store| memory_of(store).clone()).collect()
}

fn memory_of(access: &UOp) -> &UOp {
    &access.src()[0].src()[0]
}

/// The reductions and local buffers that a value is computed in, innermost first: those whose loops it depends on.
fn holders_of(dependencies: &Dependencies, root: &UOp) -> FxHashMap<UOp, Vec<UOp>> {
    let mut holders: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for loop_end in inner_loop_ends(&dependencies.order, root) {
        let ids: Vec<u32> = closed_ranges(loop_end).iter().map(range_id).collect();
        let below: FxHashSet<UOp> = crate::ir::postorder(open_operands(loop_end)).into_iter().collect();
        let stands_in = |node: &UOp| ids.iter().any(|id| dependencies.get(node).contains(*id));
        for node in below.iter().filter(|node| node.op() == Op::Load) {
            // Itself, or a loop around it: the terms of a product may depend on fewer loops than their sum.
            let around = |holder: &UOp| stands_in(holder) && below.contains(holder);
            if stands_in(node) || holders.get(node).is_some_and(|known| known.iter().any(around)) {
                holders.entry(node.clone()).or_default().push(loop_end.clone());
            }
        }
    }
    holders
}

/// The load, where it stands in no loop but these; else the reductions and local buffers around it of which that holds.
fn readers_within(
    load: &UOp,
    around: &RangeSet,
    dependencies: &Dependencies,
    holders: &FxHashMap<UOp, Vec<UOp>>,
) -> Vec<UOp> {
    let stands_within = |node: &UOp| dependencies.get(node).iter().all(|id| around.contains(id));
    if stands_within(load) {
        return vec![load.clone()];
    }
    let mut readers: Vec<UOp> =
        holders.get(load).into_iter().flatten().filter(|node| stands_within(node)).cloned().collect();
    // A store into scratch is below its local buffer, which is what others wait for.
    readers.iter_mut().for_each(|reader| {
        if reader.op() == Op::Store {
            let buffer =
                dependencies.order.iter().find(|node| node.op() == Op::LocalBuffer && node.src().contains(reader));
            *reader = buffer.unwrap_or(reader).clone();
        }
    });
    readers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, ReduceOp};
    use crate::lower::tensors::lower_to_loops;

    fn store(slot: u32, len: u64, value: UOp) -> UOp {
        UOp::new(Op::Store, DType::VOID, vec![UOp::param(slot, value.dtype(), len), value], Arg::None)
    }

    #[test]
    fn a_load_is_an_operand_of_the_store_that_replaces_it() {
        let x = UOp::param(0, DType::F32, 8);
        let kernel = lower_to_loops(&UOp::sink([store(0, 8, UOp::param(2, DType::F32, 8)), store(1, 8, &x + 1)]));
        let ordered = order_effects(&kernel);
        let [replacing, reading] = ordered.src() else { panic!("{}", ordered.infix()) };
        assert_eq!(loads_before(replacing).len(), 1, "{}", ordered.infix());
        assert!(crate::ir::postorder(std::slice::from_ref(reading)).contains(&loads_before(replacing)[0]));
        assert!(!replaces_what_was_read(reading));
        assert_eq!(memory_in_place(&ordered).into_iter().collect::<Vec<_>>(), [x]);
    }

    #[test]
    fn a_reduction_of_what_is_replaced_comes_before_all_of_it() {
        let x = UOp::param(0, DType::F32, 8);
        let sum = x.reduce(ReduceOp::Add, &[0]).reshape([1]).expand([8]);
        let ordered = order_effects(&lower_to_loops(&UOp::sink([store(0, 8, &x - sum)])));
        let after: Vec<Op> = loads_before(&ordered.src()[0]).iter().map(UOp::op).collect();
        assert!(after.contains(&Op::Load) && after.contains(&Op::ReduceRange), "{after:?}");
    }

    #[test]
    fn a_load_that_became_another_node_is_waited_for_again() {
        let (x, row) = (UOp::param(0, DType::F32, 64), UOp::range(4, 0, crate::ir::AxisKind::Loop));
        let index = |memory: &UOp, offset: &UOp| {
            UOp::new(Op::Index, DType::F32, vec![memory.clone(), offset.clone()], Arg::None)
        };
        let load = |offset: &UOp| UOp::new(Op::Load, DType::F32, vec![index(&x, offset)], Arg::None);
        let kernel = |same: &UOp| {
            let first = load(&(&row * 8 + 4));
            let replacing = vec![index(&x, &(&row * 8 + 4)), &first + 1, first, row.clone()];
            let reading = vec![index(&UOp::param(1, DType::F32, 4), &row), load(same), row.clone()];
            UOp::sink([replacing, reading].map(|src| UOp::new(Op::Store, DType::VOID, src, Arg::None)))
        };
        let whole = kernel(&(&row * 8 + 4));
        assert_eq!(find_lost_loads(&whole), whole);
        let same = (&row * 2 + 1) * 4;
        let found = find_lost_loads(&kernel(&same));
        assert!(loads_before(&found.src()[0]).contains(&load(&same)), "{}", found.infix());
    }

    #[test]
    fn kernels_that_replace_nothing_they_read_stay_as_they_are() {
        let x = UOp::param(1, DType::F32, 8);
        let kernel = lower_to_loops(&UOp::sink([store(0, 8, &x + 1)]));
        assert_eq!(order_effects(&kernel), kernel);
    }
}
