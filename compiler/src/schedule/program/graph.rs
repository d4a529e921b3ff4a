//! A program as arrays: its nodes in order, operands first, so that passes over it are loops over numbers.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::realize::without_reshapes;
use super::writes::Versions;
use crate::ir::{Op, UOp};
use crate::schedule::cost::Model;
use crate::schedule::fusion::narrow_factors::narrow_factors;
use crate::target::Costs;

/// A program whose nodes are named by their position.
pub(in crate::schedule) struct Graph {
    /// The nodes, each after its operands.
    pub(in crate::schedule) nodes: Vec<UOp>,
    /// Positions of the operands of each node.
    pub(in crate::schedule) src: Vec<SmallVec<[u32; 3]>>,
    /// Elements of each node, a symbolic length at its largest.
    pub(in crate::schedule) numel: Vec<f64>,
    /// Whether a node must exist in memory when the program has run.
    pub(in crate::schedule) must_store: Vec<bool>,
    /// Of the versions of some memory the first; of anything else, itself.
    memory: Vec<u32>,
    /// Positions of the values asked for.
    pub(in crate::schedule) outputs: Vec<u32>,
    /// Operands through which a node reads what a write is to replace, and that write.
    pub(in crate::schedule) guards: FxHashMap<u32, SmallVec<[(usize, u32); 1]>>,
    /// What things cost.
    pub(in crate::schedule) model: Model,
    /// Casts that stay with the products of what they widen.
    pub(in crate::schedule) narrow_factors: FxHashSet<u32>,
    /// The write that replaces a version of some memory.
    pub(in crate::schedule) overwriters: FxHashMap<u32, u32>,
}

impl Graph {
    /// The graph of prepared values and their nodes, in an order in which they could be computed one by one.
    pub(in crate::schedule) fn of(values: &[UOp], nodes: Vec<UOp>, costs: &Costs) -> Graph {
        let positions: FxHashMap<UOp, u32> = nodes.iter().cloned().zip(0..).collect();
        let outputs: Vec<u32> = values.iter().map(|value| positions[value]).collect();
        let asked: FxHashSet<u32> = outputs.iter().copied().collect();
        let src = nodes.iter().map(|node| node.src().iter().map(|operand| positions[operand]).collect()).collect();
        let numel = nodes.iter().map(|node| node.shape().iter().map(|dim| dim.max_value() as f64).product()).collect();
        let must_store = nodes
            .iter()
            .enumerate()
            .map(|(position, node)| {
                let in_memory = matches!(without_reshapes(node).op(), Op::Param | Op::Buffer);
                !in_memory
                    && (matches!(node.op(), Op::Contiguous | Op::Write | Op::Scan | Op::Fetch | Op::Place)
                        || asked.contains(&(position as u32)))
            })
            .collect();
        let mut memory: Vec<u32> = Vec::with_capacity(nodes.len());
        for (node, position) in nodes.iter().zip(0u32..) {
            // An operand stands before its user.
            let first = if node.op() == Op::Write { memory[positions[&node.src()[0]] as usize] } else { position };
            memory.push(first);
        }
        let mut graph = Graph {
            nodes,
            src,
            numel,
            must_store,
            memory,
            outputs,
            guards: FxHashMap::default(),
            model: Model::of(costs),
            narrow_factors: FxHashSet::default(),
            overwriters: FxHashMap::default(),
        };
        graph.narrow_factors = narrow_factors(&graph, costs);
        graph.add_versions(&positions, &asked);
        graph
    }

    fn add_versions(&mut self, positions: &FxHashMap<UOp, u32>, asked: &FxHashSet<u32>) {
        let versions = Versions::of(&self.nodes);
        if versions.is_empty() {
            return;
        }
        for (node, position) in self.nodes.iter().zip(0u32..) {
            if let Some(write) = versions.overwriter(node) {
                self.overwriters.insert(position, positions[write]);
            }
            let reads = versions.guarded_reads(node, asked.contains(&position));
            // A write that reads the very elements which it replaces does so before.
            let reads = reads.into_iter().filter(|(_, guard)| guard != node);
            let reads: SmallVec<[(usize, u32); 1]> = reads.map(|(k, guard)| (k, positions[&guard])).collect();
            if !reads.is_empty() {
                self.guards.insert(position, reads);
            }
        }
    }

    /// Of the versions of some memory the first: what the memory is called by.
    pub(in crate::schedule) fn memory_of(&self, position: u32) -> u32 {
        self.memory[position as usize]
    }

    /// Whether the node is memory that exists before the program runs.
    pub(in crate::schedule) fn is_memory(&self, position: usize) -> bool {
        matches!(self.nodes[position].op(), Op::Param | Op::Buffer)
    }

    /// The node whose elements a chain of movement ops moves.
    pub(in crate::schedule) fn below_movement(&self, position: u32) -> u32 {
        let mut position = position;
        while self.nodes[position as usize].op().is_movement() && !self.must_store[position as usize] {
            position = self.src[position as usize][0];
        }
        position
    }

    /// The node below a chain of reshapes.
    pub(in crate::schedule) fn below_reshapes(&self, position: u32) -> u32 {
        let mut position = position;
        while self.nodes[position as usize].op() == Op::Reshape {
            position = self.src[position as usize][0];
        }
        position
    }

    /// Bytes of a node's elements.
    pub(in crate::schedule) fn bytes(&self, position: usize) -> f64 {
        self.numel[position] * self.nodes[position].dtype().bytes() as f64
    }
}
