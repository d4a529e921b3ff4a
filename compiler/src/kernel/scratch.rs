//! Scratch memory of kernels: how much there is, and that each stage has its own.
//!
//! A *stage* is a loop nest whose stores fill scratch memory, which loads then read *through the stage*: so a value that is needed
//! several times, under loops that its users do not share, is computed once for each iteration of the loops around it. Passes copy
//! stages as they copy any value (a register tile computes several rows side by side), and copies still name one scratch; only
//! [`number_scratch`], after the last such pass, tells their memory apart.
//!
//! Always: distinct stages write distinct memory afterwards. Not here: where stages come from (`lower`), where their loops stand
//! (`linearize`). Tested below, and by every kernel of the test crate that keeps values.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::loops::ranges_by_id;
use super::ranges::Dependencies;
use crate::ir::{Arg, AxisKind, Op, Sources, UOp, postorder, rebuild};

/// The stages of a kernel, operands first.
pub fn stages(root: &UOp) -> Vec<UOp> {
    postorder(std::slice::from_ref(root)).into_iter().filter(|node| node.op() == Op::Stage).collect()
}

/// The scratch memory that a stage fills.
///
/// # Panics
/// If the node is no stage.
pub fn scratch_of(stage: &UOp) -> &UOp {
    match (stage.op(), stage.src().first()) {
        (Op::Stage, Some(store)) => &store.src()[0].src()[0],
        _ => panic!("bug in the compiler: {stage:?} has no scratch"),
    }
}

/// Bytes of scratch memory that all stages of a kernel take together, once its tiles and lanes are expanded.
pub fn scratch_bytes(root: &UOp) -> u64 {
    let stages = stages(root);
    if stages.is_empty() {
        return 0;
    }
    let dependencies = Dependencies::of(root);
    let ranges = ranges_by_id(root);
    // A stage inside of a tile is there once for each of the tile's parts.
    let copies = |stage: &UOp| -> u64 {
        let around = dependencies.get(stage).iter().filter_map(|id| ranges.get(&id));
        let expanded = around.filter(|range| {
            range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Unroll | AxisKind::Vector))
        });
        expanded.map(|range| range.src()[0].max_value().max(1) as u64).product()
    };
    let bytes = |stage: &UOp| match scratch_of(stage).arg() {
        Arg::Scratch(_, len) => len * stage.dtype().element().bytes() as u64 * copies(stage),
        _ => 0,
    };
    stages.iter().map(bytes).sum()
}

/// Gives each stage scratch memory of its own, numbered in the order of the graph.
pub fn number_scratch(root: &UOp) -> UOp {
    let numbers: FxHashMap<UOp, u32> = stages(root).into_iter().zip(0..).collect();
    rebuild(root, |node, rebuilt| {
        let Some(&number) = numbers.get(node) else { return rebuilt };
        let old = scratch_of(&rebuilt);
        let Arg::Scratch(_, len) = old.arg() else { return rebuilt };
        let own = UOp::new(Op::Scratch, old.dtype(), smallvec![], Arg::Scratch(number, *len));
        let stores: Sources = rebuilt.src().iter().map(|store| into(store, &own)).collect();
        rebuilt.with_src(stores)
    })
}

/// The store, into other memory.
fn into(store: &UOp, memory: &UOp) -> UOp {
    let index = &store.src()[0];
    let index =
        index.with_src([memory.clone()].into_iter().chain(index.src()[1..].iter().cloned()).collect::<Sources>());
    store.with_src([index].into_iter().chain(store.src()[1..].iter().cloned()).collect::<Sources>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::kernel::lower::lower_to_loops;

    #[test]
    fn copies_of_a_stage_get_memory_of_their_own() {
        let x = UOp::param(1, DType::F32, 12).reshape([4, 3]);
        let kept = (&x * 2).keep(&[1]);
        let value = &kept + kept.flip(&[0]);
        let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 12), value], Arg::None);
        let kernel = lower_to_loops(&UOp::sink([store]));
        // Row i and row 3 - i are two stages of one scratch until they are numbered.
        assert_eq!(stages(&kernel).len(), 2);
        assert_eq!(scratch_bytes(&kernel), 24);
        let numbered = number_scratch(&kernel);
        let mut numbers: Vec<Arg> = stages(&numbered).iter().map(|stage| scratch_of(stage).arg().clone()).collect();
        numbers.dedup();
        assert_eq!(numbers, [Arg::Scratch(0, 3), Arg::Scratch(1, 3)]);
    }
}
