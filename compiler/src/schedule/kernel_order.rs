//! The order in which kernels run: what is loaded has been stored before, and temporaries live for a short time.
//!
//! ```text
//! p = softmax ..; dq = p' @ k; q = softmax ..; dr = q' @ k; dk = p'.T @ a + q'.T @ b          as the program stands: p is kept until the end
//! p = softmax ..; dq = p' @ k; p'.T @ a; q = softmax ..; dr = q' @ k; dk = .. + q'.T @ b      what is the last to need p goes before q
//! ```
//!
//! Among kernels that are ready, one that *shrinks* what is kept goes first: it is the last that names temporaries of more bytes than those that it begins to store.
//! So less memory is needed, and what was just stored is loaded again while caches hold it. Otherwise the one whose first value stands first in the program goes
//! first, so the order depends on the graph alone and stays close to the order in which the user wrote it.
//!
//! Always: a kernel that shrinks what is kept does so until it runs. Time is n log n in kernels and what they name. Tested in `schedule::tests`, and by `check_order`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

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
    let mut kept = Kept::of(graph, &pieces);
    let mut ready: BinaryHeap<Reverse<(bool, u32, usize)>> = BinaryHeap::new();
    let entry = |kept: &Kept, number: usize| Reverse((!kept.shrinks(number), pieces[number].stores[0], number));
    ready.extend((0..pieces.len()).filter(|&number| missing[number] == 0).map(|number| entry(&kept, number)));
    let mut order = Vec::with_capacity(pieces.len());
    let mut has_run = vec![false; pieces.len()];
    while let Some(Reverse((_, _, number))) = ready.pop() {
        if std::mem::replace(&mut has_run[number], true) {
            continue;
        }
        order.push(number);
        let last_users = kept.run(number);
        for &reader in &readers[number] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(entry(&kept, reader));
            }
        }
        // It may stand there already, as one that shrinks nothing.
        let shrinking = last_users.into_iter().filter(|user| missing[*user] == 0 && kept.shrinks(*user));
        ready.extend(shrinking.map(|user| entry(&kept, user)));
    }
    assert_eq!(order.len(), pieces.len(), "bug in the compiler: kernels that need each other");
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    order.into_iter().filter_map(|number| pieces[number].take()).collect()
}

/// A temporary, and the kernels that name it.
#[derive(Default)]
struct Temporary {
    bytes: f64,
    is_stored: bool,
    /// Kernels that name it and have not run, and the exclusive or of their numbers: of one, its number.
    users: usize,
    users_together: usize,
}

/// What is kept between kernels.
struct Kept {
    temporaries: Vec<Temporary>,
    /// For each kernel the temporaries that it names.
    named: Vec<Vec<usize>>,
}

impl Kept {
    fn of(graph: &Graph, pieces: &[Piece]) -> Kept {
        let outputs: FxHashSet<u32> = graph.outputs.iter().map(|&output| graph.memory_of(output)).collect();
        let mut numbers: FxHashMap<u32, usize> = FxHashMap::default();
        let mut temporaries: Vec<Temporary> = Vec::new();
        let named = pieces
            .iter()
            .enumerate()
            .map(|(piece_number, piece)| {
                let memories = piece.stores.iter().chain(&piece.loads).map(|&position| graph.memory_of(position));
                let is_own = |memory: &u32| !graph.is_memory(*memory as usize) && !outputs.contains(memory);
                let mut named: Vec<usize> = memories
                    .filter(is_own)
                    .map(|memory| {
                        *numbers.entry(memory).or_insert_with(|| {
                            let bytes = graph.bytes(memory as usize);
                            temporaries.push(Temporary { bytes, ..Temporary::default() });
                            temporaries.len() - 1
                        })
                    })
                    .collect();
                named.sort_unstable();
                named.dedup();
                for &number in &named {
                    temporaries[number].users += 1;
                    temporaries[number].users_together ^= piece_number;
                }
                named
            })
            .collect();
        Kept { temporaries, named }
    }

    /// Whether less is kept after a kernel than before it.
    fn shrinks(&self, kernel: usize) -> bool {
        let change = |temporary: &Temporary| match (temporary.is_stored, temporary.users) {
            (true, 1) => -temporary.bytes,
            (true, _) => 0.0,
            (false, _) => temporary.bytes,
        };
        self.named[kernel].iter().map(|&number| change(&self.temporaries[number])).sum::<f64>() < 0.0
    }

    /// Says that a kernel runs; the kernels that are now the last to name something.
    fn run(&mut self, kernel: usize) -> Vec<usize> {
        let mut last_users = Vec::new();
        for &number in &self.named[kernel] {
            let temporary = &mut self.temporaries[number];
            temporary.is_stored = true;
            temporary.users -= 1;
            temporary.users_together ^= kernel;
            if temporary.users == 1 {
                last_users.push(temporary.users_together);
            }
        }
        last_users
    }
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
