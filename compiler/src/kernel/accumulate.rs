//! Stores that combine what they store with what memory holds: sums, extremes and states whose partial results lie in memory.
//!
//! ```text
//! store p0[row], v, r0   [add]                       =>   store p0[row], add(previous, v), r0
//! local buffer { store s0[i], v, k, i   [add] }             =>   local buffer { store s0[i], k == 0 ? v : add(previous, v), k, i }
//! ```
//!
//! A store that closes a loop of a *reduction* accumulates over it: each element holds what the iterations so far came to, and the first one
//! begins anew, without a look at what memory held. So such a local buffer needs no loop that clears its local buffer, and may stand in any loop. A store that closes none
//! (a scatter) combines with what was there before the kernel.
//!
//! Of a state each component has a local buffer of its own and a store of its own, which names behind its value those of the components that it is
//! combined from; their local buffer is made of all of these stores, those of the component that it gives first. All are combined from what memory held before any of
//! them stores. A component that is the same for all iterations of some loops has no element for each of them, and is stored outside of these loops.
//!
//! Always: until [`open_accumulations`] such a store is one node, which passes copy like any other. Afterwards all its loads are named by it.
//! Tested below, by random opts on random kernels, and proved on the finished list (`linearize::accumulations`).

use smallvec::smallvec;

use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, Combining, Op, Sources, UOp, rebuild};
use crate::kernel::effects::{accumulates, loads_before};
use crate::kernel::ranges::{closed_ranges, open_operands};

/// Stores that combine become stores of what is there, combined: the last pass that may move or copy stores has run.
pub fn open_accumulations(root: &UOp) -> UOp {
    rebuild(root, |_, node| match (node.op(), node.src().first().and_then(accumulates)) {
        (Op::LocalBuffer, Some(Combining::Several(_))) => opened_stage(&node),
        (Op::Store, _) => match accumulates(&node) {
            Some(combining @ Combining::One(_)) => opened(&[&node], combining).swap_remove(0),
            _ => node,
        },
        _ => node,
    })
}

/// The component of a state that a store holds in memory; 0 where it is no state.
pub fn component_of(store: &UOp) -> usize {
    accumulates(store).map_or(0, Combining::number)
}

/// The loops of a reduction that a store closes: it accumulates over them.
pub fn accumulated_ranges(store: &UOp) -> impl Iterator<Item = &UOp> {
    let is_store = store.op() == Op::Store;
    closed_ranges(store).iter().filter(move |range| is_store && is_of_reduction(range))
}

fn is_of_reduction(range: &UOp) -> bool {
    range.as_range().is_some_and(|arg| arg.kind == AxisKind::Reduce)
}

/// A local buffer of the partial states of a reduction: the stores of copies stand side by side, in the same order for each component. Those of a component that
/// is kept along fewer loops are fewer, each for as many copies of the others that follow each other.
fn opened_stage(buffer: &UOp) -> UOp {
    let Some(combining) = buffer.src().first().and_then(accumulates) else { return buffer.clone() };
    let component = |number: usize| buffer.src().iter().filter(move |store| component_of(store) == number);
    let components: Vec<Vec<&UOp>> = (0..combining.arity()).map(|number| component(number).collect()).collect();
    let most = components.iter().map(Vec::len).max().unwrap_or(1);
    let states = (0..most).map(|copy| {
        let stores: Vec<&UOp> = components.iter().map(|stores| stores[copy * stores.len() / most]).collect();
        opened(&stores, combining)
    });
    let states: Vec<Vec<UOp>> = states.collect();
    let others = (0..combining.arity()).filter(|number| *number != combining.number());
    let order = std::iter::once(combining.number()).chain(others);
    let mut stores: Sources = Sources::new();
    for store in order.flat_map(|number| states.iter().map(move |state| &state[number])) {
        if !stores.contains(store) {
            stores.push(store.clone());
        }
    }
    buffer.with_src(stores)
}

/// The stores of one state, of what memory holds combined with their values.
fn opened(stores: &[&UOp], combining: Combining) -> Vec<UOp> {
    let previous: Vec<UOp> = stores.iter().map(|store| previous(store, is_first(store).as_ref())).collect();
    (0..stores.len()).map(|number| opened_component(stores, combining, number, &previous)).collect()
}

/// The store of one component. It stands in the loops of those that it is combined from, and in more perhaps.
fn opened_component(stores: &[&UOp], combining: Combining, number: usize, previous: &[UOp]) -> UOp {
    let store = stores[number];
    let is_read = |other: usize| match combining {
        Combining::One(_) => true,
        Combining::Several(component) => component.combiner.reads(number, other),
    };
    let lanes = store.src()[1].dtype().lanes();
    // What the component is not made of only has to be of some value.
    let operand = |other: usize, value: &UOp| match is_read(other) {
        true => splat(value, lanes),
        false => UOp::constant(Scalar::zero(value.dtype().element()), value.dtype().element().with_lanes(lanes)),
    };
    let all = |values: &mut dyn Iterator<Item = &UOp>| -> Vec<UOp> {
        values.enumerate().map(|(other, value)| operand(other, value)).collect()
    };
    let held = all(&mut previous.iter());
    let values = all(&mut stores.iter().map(|store| &store.src()[1]));
    let next = combining.combine(&held, &values).swap_remove(number);
    let value = match is_first(store) {
        Some(first) => splat(&first, lanes).select(&values[number], next),
        None => next,
    };
    // What other components are combined from is loaded before this one is replaced.
    let others = previous.iter().enumerate().filter(|(other, _)| stores.len() > 1 && is_read(*other));
    let src: Sources = [&store.src()[0], &value]
        .into_iter()
        .chain(loads_before(store))
        .chain(others.map(|(_, previous)| previous))
        .chain(closed_ranges(store))
        .cloned()
        .collect();
    UOp::new(Op::Store, store.dtype(), src, Arg::None)
}

/// What memory holds at the index of a store, unless nothing has been stored yet.
fn previous(store: &UOp, is_first: Option<&UOp>) -> UOp {
    let mut index = store.src()[0].clone();
    if let Some(first) = is_first {
        let holds = !first;
        let gate = match index.src().get(2) {
            Some(gate) => gate & splat(&holds, gate.dtype().lanes()),
            None => holds,
        };
        index = index.with_src(Sources::from_iter([index.src()[0].clone(), index.src()[1].clone(), gate]));
    }
    let dtype = index.dtype();
    let src: Sources = std::iter::once(&index).chain(closed_ranges(store)).cloned().collect();
    UOp::new(Op::Previous, dtype, src, Arg::None)
}

/// Whether a store's iteration is the first of the reduction; `None` where it closes no loop of one.
fn is_first(store: &UOp) -> Option<UOp> {
    let zeros = accumulated_ranges(store).map(|range| range.equals(&UOp::index(0)));
    zeros.reduce(|all, one| all & one)
}

/// The value in each of so many lanes; itself if it has them.
fn splat(value: &UOp, lanes: usize) -> UOp {
    match value.dtype().lanes() == lanes {
        true => value.clone(),
        false => UOp::new(Op::Splat, value.dtype().with_lanes(lanes), smallvec![value.clone()], Arg::None),
    }
}

/// The store with memory of its own for its component.
pub(super) fn into_memory(store: &UOp, memory: &UOp) -> UOp {
    let index = &store.src()[0];
    let rest = index.src()[1..].iter().cloned();
    let index = index.with_src([memory.clone()].into_iter().chain(rest).collect::<Sources>());
    let open = open_operands(store)[1..].iter().cloned();
    store.with_src([index].into_iter().chain(open).chain(closed_ranges(store).iter().cloned()).collect::<Sources>())
}
