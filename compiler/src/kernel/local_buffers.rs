//! Scratch memory of kernels: how much there is, and that each local buffer has its own.
//!
//! A *local buffer* is a loop nest whose stores fill scratch memory, which loads then read *through the local buffer*: so a value that is needed
//! several times, under loops that its users do not share, is computed once for each iteration of the loops around it. Passes copy
//! local buffers as they copy any value (a register tile computes several rows side by side), and copies still name one scratch; only
//! [`number_scratch`] tells their memory apart, and [`part_scratch`] that of copies which are made when loops are put in order.
//!
//! Always: distinct local buffers write distinct memory afterwards. Not here: where local buffers come from (`lower`), where their loops stand
//! (`linearize`). Tested below, and by every kernel of the test crate that keeps values.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::accumulate::{component_of, into_memory};
use super::ranges::Dependencies;
use crate::DType;
use crate::ir::{
    Arg, AxisKind, MemorySpace, Op, Sources, UOp, postorder, postorder_until, rebuild, substitute, substitute_nested,
};
use crate::lower::loops::ranges_by_id;

/// The local buffers of a kernel, operands first.
pub fn local_buffers(root: &UOp) -> Vec<UOp> {
    let order = postorder_until(std::slice::from_ref(root), |node| !node.contains(Op::LocalBuffer));
    order.into_iter().filter(|node| node.op() == Op::LocalBuffer).collect()
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

/// The stores of a local buffer by component, so that the local buffers which give different components of one state agree: they share its memory.
fn stores_by_component(buffer: &UOp) -> Vec<UOp> {
    let mut stores = buffer.src().to_vec();
    stores.sort_by_key(component_of);
    stores
}

/// Elements of each scratch memory that stores by component fill.
fn lengths(stores: &[UOp]) -> impl Iterator<Item = (u64, DType)> {
    let first_of_each =
        (0..stores.len()).filter(|&at| at == 0 || component_of(&stores[at]) != component_of(&stores[at - 1]));
    first_of_each.map(|at| match stores[at].src()[0].src()[0].arg() {
        Arg::Scratch(_, len, _) => (*len, stores[at].src()[0].src()[0].dtype()),
        _ => panic!("bug in the compiler: a buffer that fills no scratch"),
    })
}

/// Bytes of one space that all local buffers of a kernel take together, once its tiles and lanes are expanded.
pub fn scratch_bytes(root: &UOp, space: MemorySpace) -> u64 {
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
            range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Unroll | AxisKind::Vector | AxisKind::Dot))
        });
        expanded.map(|range| range.src()[0].max_value().max(1) as u64).product()
    };
    let mut known: FxHashSet<Vec<UOp>> = FxHashSet::default();
    let mut bytes = 0u64;
    let is_in_space = |buffer: &&UOp| matches!(scratch_of(buffer).arg(), Arg::Scratch(_, _, of) if *of == space);
    for buffer in buffers.iter().filter(is_in_space) {
        let stores = stores_by_component(buffer);
        if known.contains(&stores) {
            continue;
        }
        let elements = |(len, dtype): (u64, DType)| len.saturating_mul(dtype.element().bytes() as u64);
        let one = lengths(&stores).map(elements).fold(0, u64::saturating_add);
        bytes = bytes.saturating_add(one.saturating_mul(copies(buffer)));
        known.insert(stores);
    }
    bytes
}

/// Gives each local buffer scratch memory of its own, numbered in the order of the graph; local buffers that give components of one state share theirs.
pub fn number_scratch(root: &UOp) -> UOp {
    if !root.contains(Op::LocalBuffer) {
        return root.clone();
    }
    let mut numbers: FxHashMap<Vec<UOp>, u32> = FxHashMap::default();
    let mut next = 0;
    for buffer in local_buffers(root) {
        let stores = stores_by_component(&buffer);
        let count = lengths(&stores).count() as u32;
        numbers.entry(stores).or_insert_with(|| {
            next += count;
            next - count
        });
    }
    rebuild(root, |node, rebuilt| {
        if node.op() != Op::LocalBuffer {
            return rebuilt;
        }
        let first = numbers[&stores_by_component(node)];
        let stores = rebuilt.src().iter().map(|store| {
            let old = &store.src()[0].src()[0];
            let Arg::Scratch(_, len, space) = old.arg() else { return store.clone() };
            let number = first + component_of(store) as u32;
            into_memory(store, &UOp::new(Op::Scratch, old.dtype(), smallvec![], Arg::Scratch(number, *len, *space)))
        });
        rebuilt.with_src(stores.collect::<Sources>())
    })
}

/// Gives local buffers that were copied after they had been numbered scratch memory of their own: the later ones of each number.
pub fn part_scratch(root: &UOp) -> UOp {
    let buffers = local_buffers(root);
    let numbers = |stores: &[UOp]| -> Vec<UOp> { stores.iter().map(|store| store.src()[0].src()[0].clone()).collect() };
    let mut owners: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    let mut own: FxHashMap<Vec<UOp>, FxHashMap<UOp, UOp>> = FxHashMap::default();
    let mut next = postorder(std::slice::from_ref(root)).iter().filter_map(number_of).max();
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for buffer in &buffers {
        let stores = stores_by_component(buffer);
        let scratches = numbers(&stores);
        if scratches.iter().all(|scratch| owners.get(scratch).is_none_or(|owner| *owner == stores)) {
            owners.extend(scratches.into_iter().map(|scratch| (scratch, stores.clone())));
            continue;
        }
        let fresh = own.entry(stores).or_insert_with(|| {
            let mut fresh = FxHashMap::default();
            for scratch in scratches {
                let Arg::Scratch(_, len, space) = *scratch.arg() else { continue };
                fresh.entry(scratch.clone()).or_insert_with(|| {
                    let number = next.map_or(0, |last| last + 1);
                    next = Some(number);
                    UOp::new(Op::Scratch, scratch.dtype(), smallvec![], Arg::Scratch(number, len, space))
                });
            }
            fresh
        });
        map.insert(buffer.clone(), substitute(buffer, fresh));
    }
    if map.is_empty() { root.clone() } else { substitute_nested(root, &map) }
}

/// The number of a node that is scratch memory.
fn number_of(node: &UOp) -> Option<u32> {
    match node.arg() {
        Arg::Scratch(number, ..) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
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
        assert_eq!(scratch_bytes(&kernel, MemorySpace::Private), 24);
        assert_eq!(scratch_bytes(&kernel, MemorySpace::Shared), 0);
        let numbered = number_scratch(&kernel);
        let mut numbers: Vec<Arg> =
            local_buffers(&numbered).iter().map(|buffer| scratch_of(buffer).arg().clone()).collect();
        numbers.dedup();
        assert_eq!(numbers, [0, 1].map(|number| Arg::Scratch(number, 3, MemorySpace::Private)));
    }
}
