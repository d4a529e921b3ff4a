//! Scratch memory of kernels: how much there is, and that each local buffer has its own.
//!
//! A *local buffer* is a loop nest whose stores fill scratch memory, which loads then read *through the local buffer*: so a value that is needed
//! several times, under loops that its users do not share, is computed once for each iteration of the loops around it. Passes copy
//! local buffers as they copy any value (a register tile computes several rows side by side), and copies still name one scratch; only
//! [`number_scratch`], after the last such pass, tells their memory apart.
//!
//! Always: distinct local buffers write distinct memory afterwards. Not here: where local buffers come from (`lower`), where their loops stand
//! (`linearize`). Tested below, and by every kernel of the test crate that keeps values.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::ranges::Dependencies;
use crate::ir::{Arg, AxisKind, Op, Sources, UOp, postorder, rebuild};
use crate::lower::loops::ranges_by_id;

/// The local buffers of a kernel, operands first.
pub fn local_buffers(root: &UOp) -> Vec<UOp> {
    postorder(std::slice::from_ref(root)).into_iter().filter(|node| node.op() == Op::LocalBuffer).collect()
}

/// The scratch memory that a local buffer fills.
///
/// # Panics
/// If the node is no local buffer.
pub fn scratch_of(buffer: &UOp) -> &UOp {
    match (buffer.op(), buffer.src().first()) {
        (Op::LocalBuffer, Some(store)) => &store.src()[0].src()[0],
        _ => panic!("bug in the compiler: {buffer:?} has no scratch"),
    }
}

/// Bytes of scratch memory that all local buffers of a kernel take together, once its tiles and lanes are expanded.
pub fn scratch_bytes(root: &UOp) -> u64 {
    let buffers = local_buffers(root);
    if buffers.is_empty() {
        return 0;
    }
    let dependencies = Dependencies::of(root);
    let ranges = ranges_by_id(root);
    // A local buffer inside of a tile is there once for each of the tile's parts.
    let copies = |buffer: &UOp| -> u64 {
        let around = dependencies.get(buffer).iter().filter_map(|id| ranges.get(&id));
        let expanded = around.filter(|range| {
            range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Unroll | AxisKind::Vector))
        });
        expanded.map(|range| range.src()[0].max_value().max(1) as u64).product()
    };
    let bytes = |buffer: &UOp| match scratch_of(buffer).arg() {
        Arg::Scratch(_, len, _) => len * buffer.dtype().element().bytes() as u64 * copies(buffer),
        _ => 0,
    };
    buffers.iter().map(bytes).sum()
}

/// Gives each local buffer scratch memory of its own, numbered in the order of the graph.
pub fn number_scratch(root: &UOp) -> UOp {
    let numbers: FxHashMap<UOp, u32> = local_buffers(root).into_iter().zip(0..).collect();
    rebuild(root, |node, rebuilt| {
        let Some(&number) = numbers.get(node) else { return rebuilt };
        let old = scratch_of(&rebuilt);
        let Arg::Scratch(_, len, space) = old.arg() else { return rebuilt };
        let own = UOp::new(Op::Scratch, old.dtype(), smallvec![], Arg::Scratch(number, *len, *space));
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
    use crate::ir::MemorySpace;
    use crate::lower::tensors::lower_to_loops;

    #[test]
    fn copies_of_a_stage_get_memory_of_their_own() {
        let x = UOp::param(1, DType::F32, 12).reshape([4, 3]);
        let kept = (&x * 2).materialize(&[1]);
        let value = &kept + kept.flip(&[0]);
        let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 12), value], Arg::None);
        let kernel = lower_to_loops(&UOp::sink([store]));
        // Row i and row 3 - i are two local buffers of one scratch until they are numbered.
        assert_eq!(local_buffers(&kernel).len(), 2);
        assert_eq!(scratch_bytes(&kernel), 24);
        let numbered = number_scratch(&kernel);
        let mut numbers: Vec<Arg> =
            local_buffers(&numbered).iter().map(|buffer| scratch_of(buffer).arg().clone()).collect();
        numbers.dedup();
        assert_eq!(numbers, [0, 1].map(|number| Arg::Scratch(number, 3, MemorySpace::Private)));
    }
}
