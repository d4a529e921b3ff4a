//! From decisions to kernels: the graph cut into one small graph for each kernel.
//!
//! A *kernel AST* is a sink of stores. Each store writes a tensor value, row-major, into a `Param`; inside of the value all memory is
//! `Param`s, numbered from 0: first what the kernel stores, in the order of the program, then what it loads, in the order of the
//! first visit. So kernels of equal structure are equal, wherever in whichever program they stand.
//!
//! Linear in the total size of the kernels.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::fuse::{Fused, NOT_STORED};
use super::graph::Graph;
use super::normalize::view_of;
use crate::DType;
use crate::ir::{Arg, Op, Shape, UOp, with_mapped_sources};

/// A kernel whose buffers are still named by the nodes whose values they hold.
pub(super) struct Piece {
    /// The kernel AST.
    pub(super) ast: UOp,
    /// Positions of the nodes that it stores, ascending.
    pub(super) stores: Vec<u32>,
    /// Positions of the nodes that it loads, by slot after those of the stores.
    pub(super) loads: Vec<u32>,
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
    let mut loads: Vec<u32> = Vec::new();
    let mut pending: Vec<(u32, bool)> = stores.iter().rev().map(|&position| (position, false)).collect();
    while let Some((position, operands_done)) = pending.pop() {
        if done.contains_key(&position) {
            continue;
        }
        let node = &graph.nodes[position as usize];
        let home = stored[position as usize];
        if graph.is_memory(position as usize) || (home != NOT_STORED && home != group) {
            let slot = (stores.len() + loads.len()) as u32;
            loads.push(position);
            done.insert(position, loaded(node, slot));
        } else if operands_done {
            let value = match node.op() {
                Op::Contiguous => done[&graph.src[position as usize][0]].clone(),
                _ => {
                    let src = &graph.src[position as usize];
                    let by_node: FxHashMap<&UOp, u32> = node.src().iter().zip(src.iter().copied()).collect();
                    with_mapped_sources(node, |operand| done[&by_node[operand]].clone())
                }
            };
            let kept = fused.kept.get(&position).map(|axes| axes.iter().map(|&axis| axis as usize).collect::<Vec<_>>());
            done.insert(position, kept.map_or(value.clone(), |axes| value.keep(&axes)));
        } else {
            pending.push((position, true));
            pending.extend(graph.src[position as usize].iter().rev().map(|&operand| (operand, false)));
        }
    }
    let sinks = stores.iter().zip(0..).map(|(position, slot)| {
        let value = &done[position];
        let target = UOp::param(slot, value.dtype(), elements(value.shape()));
        UOp::new(Op::Store, DType::VOID, smallvec![target, value.clone()], Arg::None)
    });
    Piece { ast: UOp::sink(sinks), stores, loads }
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
