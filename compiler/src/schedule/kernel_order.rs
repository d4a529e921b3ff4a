//! The order in which kernels run: what is loaded has been stored before.
//!
//! Among kernels that are ready, the one whose first value stands first in the program goes first, so the order depends on the
//! graph alone and stays close to the order in which the user wrote it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::cut::Piece;
use super::graph::Graph;
use crate::ir::Op;

/// The pieces, each after those whose values it loads or replaces, and before those that replace what it loads.
///
/// # Panics
/// If two pieces need each other: a bug of `fuse`, which must keep the graph of kernels free of circles.
pub(super) fn in_order(graph: &Graph, pieces: Vec<Piece>) -> Vec<Piece> {
    let writers: FxHashMap<u32, usize> = pieces
        .iter()
        .enumerate()
        .flat_map(|(number, piece)| piece.stores.iter().map(move |&at| (at, number)))
        .collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); pieces.len()];
    let mut missing: Vec<usize> = vec![0; pieces.len()];
    for (number, piece) in pieces.iter().enumerate() {
        for writer in piece.loads.iter().filter_map(|load| writers.get(load)) {
            readers[*writer].push(number);
            missing[number] += 1;
        }
        for (first, second) in orders_of_writes(graph, &writers, piece, number) {
            readers[first].push(second);
            missing[second] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    let first_store = |number: usize| pieces[number].stores[0];
    ready.extend(
        (0..pieces.len()).filter(|&number| missing[number] == 0).map(|number| Reverse((first_store(number), number))),
    );
    let mut order = Vec::with_capacity(pieces.len());
    while let Some(Reverse((_, number))) = ready.pop() {
        order.push(number);
        for &reader in &readers[number] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse((first_store(reader), reader)));
            }
        }
    }
    assert_eq!(order.len(), pieces.len(), "bug in the compiler: kernels that need each other");
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    order.into_iter().filter_map(|number| pieces[number].take()).collect()
}

/// Pairs of kernels, of which this is one, that run in this order because memory is written in place.
pub(super) fn orders_of_writes(
    graph: &Graph,
    writers: &FxHashMap<u32, usize>,
    piece: &Piece,
    number: usize,
) -> Vec<(usize, usize)> {
    if graph.overwriters.is_empty() {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for &position in piece.stores.iter().filter(|&&position| graph.nodes[position as usize].op() == Op::Write) {
        pairs.extend(writers.get(&graph.src[position as usize][0]).map(|&base| (base, number)));
    }
    let guards = piece.members.iter().filter_map(|position| graph.guards.get(position)).flatten();
    pairs.extend(guards.filter_map(|(_, guard)| writers.get(guard)).map(|&guard| (number, guard)));
    pairs.retain(|(first, second)| first != second);
    pairs
}
