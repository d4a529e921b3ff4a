//! From decisions to kernels: the graph cut into one small graph for each kernel.
//!
//! A *kernel AST* is a sink of stores. Each store writes a tensor value, row-major, into a `Param`; inside of the value all memory is
//! `Param`s, numbered from 0: first what the kernel stores, in the order of the program, then what it loads, in the order of the
//! first visit. A write stores into a view of the memory that it replaces part of; a kernel may also load from that memory, under the
//! same number. So kernels of equal structure are equal, wherever in whichever program they stand.
//!
//! Linear in the total size of the kernels.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::fuse::{Fused, NOT_STORED};
use super::fuse_writes::writes_all;
use super::graph::Graph;
use super::normalize::view_of;
use crate::DType;
use crate::ir::{Arg, Op, Shape, Sources, UOp, with_mapped_sources};

/// A kernel whose buffers are still named by the nodes whose values they hold.
pub(super) struct Piece {
    /// The kernel AST.
    pub(super) ast: UOp,
    /// Positions of the nodes that it stores, ascending.
    pub(super) stores: Vec<u32>,
    /// Positions of the nodes that it loads: versions of memory.
    pub(super) loads: Vec<u32>,
    /// Positions of the nodes that it computes without storing them, and of those that it stores.
    pub(super) members: Vec<u32>,
    /// The memory of each slot, by the position of its first version.
    pub(super) memory: Vec<u32>,
    /// What of the AST each node became.
    pub(super) values: FxHashMap<u32, UOp>,
}

/// The kernels, in the order of the first value that each stores.
pub(super) fn split(graph: &Graph, fused: &Fused) -> Vec<Piece> {
    let stored = &fused.stored;
    let mut numbers: FxHashMap<u32, usize> = FxHashMap::default();
    let mut members: Vec<Vec<u32>> = Vec::new();
    for (position, &group) in stored.iter().enumerate() {
        // A value of no elements needs no kernel.
        if group == NOT_STORED || graph.numel[position] == 0.0 {
            continue;
        }
        let number = *numbers.entry(group).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[number].push(position as u32);
    }
    members.into_iter().map(|stores| piece(graph, fused, stores)).collect()
}

fn piece(graph: &Graph, fused: &Fused, stores: Vec<u32>) -> Piece {
    let stored = &fused.stored;
    let group = stored[stores[0] as usize];
    let mut done: FxHashMap<u32, UOp> = FxHashMap::default();
    let mut piece = Piece {
        ast: UOp::sink([]),
        stores,
        loads: Vec::new(),
        members: Vec::new(),
        memory: Vec::new(),
        values: FxHashMap::default(),
    };
    let slots: Vec<u32> = piece.stores.iter().map(|&position| slot_of(graph, &mut piece.memory, position)).collect();
    // A write asks for its value alone: what it replaces part of stays where it is.
    // What is stored, and for a scatter where.
    let asked = |position: u32| -> SmallVec<[u32; 2]> {
        match graph.nodes[position as usize].op() {
            Op::Write => graph.src[position as usize][1..].iter().copied().collect(),
            _ => SmallVec::from_slice(&[position]),
        }
    };
    let asked_of_all = piece.stores.iter().rev().flat_map(|&position| asked(position).into_iter().rev());
    let mut pending: Vec<(u32, bool)> = asked_of_all.map(|position| (position, false)).collect();
    while let Some((position, operands_done)) = pending.pop() {
        if done.contains_key(&position) {
            continue;
        }
        let node = &graph.nodes[position as usize];
        let home = stored[position as usize];
        if graph.is_memory(position as usize) || (home != NOT_STORED && home != group) {
            let slot = slot_of(graph, &mut piece.memory, position);
            piece.loads.push(position);
            done.insert(position, loaded(node, slot));
        } else if operands_done {
            let value = computed(graph, position, &done);
            piece.members.push(position);
            let kept = fused.kept.get(&position).map(|axes| axes.iter().map(|&axis| axis as usize).collect::<Vec<_>>());
            done.insert(position, kept.map_or(value.clone(), |axes| value.materialize(&axes)));
        } else {
            pending.push((position, true));
            let skipped = (node.op() == Op::Write) as usize;
            let operands = graph.src[position as usize][skipped..].iter().rev();
            pending.extend(operands.map(|&operand| (operand, false)));
        }
    }
    let sinks = piece.stores.iter().zip(slots).map(|(&position, slot)| {
        let node = &graph.nodes[position as usize];
        let values: Vec<UOp> = asked(position).iter().map(|operand| done[operand].clone()).collect();
        let value = &values[0];
        let target = match node.arg() {
            Arg::View(steps) => loaded(&node.src()[0], slot).through(steps),
            Arg::Scatter(..) if node.op() == Op::Write => loaded(&node.src()[0], slot),
            _ => UOp::param(slot, value.dtype(), elements(value.shape())),
        };
        let arg = if values.len() > 1 { node.arg().clone() } else { Arg::None };
        UOp::new(Op::Store, DType::VOID, [target].into_iter().chain(values).collect::<Sources>(), arg)
    });
    piece.ast = UOp::sink(sinks);
    let writes = piece.stores.iter().copied().filter(|&position| asked(position)[0] != position);
    piece.members.extend(writes);
    piece.values = done;
    piece
}

/// A node over what its operands have become.
fn computed(graph: &Graph, position: u32, done: &FxHashMap<u32, UOp>) -> UOp {
    let (node, src) = (&graph.nodes[position as usize], &graph.src[position as usize]);
    match node.op() {
        Op::Contiguous => done[&src[0]].clone(),
        // What replaces all elements is read at the indices where it does: what is read is the value.
        Op::Write if writes_all(node) => done[&src[1]].reshape(node.shape().clone()),
        Op::Write => panic!("bug in the compiler: a kernel reads part of what it writes"),
        _ => {
            let by_node: FxHashMap<&UOp, u32> = node.src().iter().zip(src.iter().copied()).collect();
            with_mapped_sources(node, |operand| &done[&by_node[operand]])
        }
    }
}

/// The slot of a node's memory among a kernel's.
fn slot_of(graph: &Graph, memory: &mut Vec<u32>, position: u32) -> u32 {
    let first = graph.memory_of(position);
    let slot = memory.iter().position(|&known| known == first).unwrap_or_else(|| {
        memory.push(first);
        memory.len() - 1
    });
    slot as u32
}

/// A value in memory, as a kernel that loads it sees it.
fn loaded(node: &UOp, slot: u32) -> UOp {
    match node.arg() {
        Arg::Param(param) => UOp::param(slot, node.dtype(), param.len),
        _ => view_of(&UOp::param(slot, node.dtype(), elements(node.shape())), node.shape()),
    }
}

/// Elements that memory for a value of that shape must have, symbolic lengths at their largest.
pub(super) fn elements(shape: &Shape) -> u64 {
    shape.iter().map(|dim| dim.max_value().max(0) as u64).product()
}
