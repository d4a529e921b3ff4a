//! The numbers that fusion is decided by, and what each node of a program would cost.
//!
//! Times are nanoseconds of a nominal machine of two cores with wide vectors. They are rough on purpose: a decision that a factor
//! of two in them would turn is one that hardly matters. Counted are launches, bytes that move to and from memory, and ops,
//! repeated ones among them.
//!
//! Not measured on each machine, because schedules must not depend on the machine that made them.

use smallvec::SmallVec;

use super::graph::Graph;
use super::indices;
use crate::ir::{Arg, Op, UOp};

/// One kernel more: launch, a wake-up of threads, cold loops.
pub(super) const LAUNCH_NS: f64 = 1500.0;
/// Bytes between memory and cores in a nanosecond.
pub(super) const BYTES_PER_NS: f64 = 10.0;
/// Simple ops on 4-byte elements in a nanosecond.
pub(super) const OPS_PER_NS: f64 = 16.0;
/// Threads for which there should be work.
pub(super) const THREADS: f64 = 16.0;
/// Below so many results, a reduction has too little parallel work by itself: 4 for each of 16 threads.
pub(super) const FEW_RESULTS: i64 = 64;
/// Partial results that a reduction cut in two stages should have: 64 for each of 16 threads.
pub(super) const PARTIAL_RESULTS: i64 = 1024;
/// From so many inputs on, a reduction is worth two kernels.
pub(super) const MANY_INPUTS: i64 = 1 << 18;
/// Fewer parts than this do not pay for a second kernel.
pub(super) const PARTS_MIN: i64 = 8;
/// Elementwise ops (weighted) that one expression in a kernel may have: code generation takes more than linear time.
pub(super) const EXPRESSION_OPS_MAX: u64 = 300;
/// Weighted ops that all of a kernel may have.
pub(super) const KERNEL_OPS_MAX: u64 = 450;
/// Buffers that a kernel may name.
pub(super) const KERNEL_BUFFERS_MAX: usize = 64;
/// Bytes between scratch memory and registers in a nanosecond.
pub(super) const SCRATCH_BYTES_PER_NS: f64 = 64.0;
/// Bytes of scratch memory that a kernel may keep values in: the cache of one core.
pub(super) const SCRATCH_BYTES_MAX: f64 = (1u64 << 19) as f64;
/// Bytes that may be read again for each row of a kernel at no price: they stay in the cache of one core.
pub(super) const WORKING_SET_MAX: f64 = (1u64 << 18) as f64;
/// Bytes between the last cache, which all cores share, and registers in a nanosecond.
pub(super) const SHARED_CACHE_BYTES_PER_NS: f64 = 60.0;
/// Rows of a contraction that share what they read, in a register tile.
pub(super) const ROWS_SHARED: f64 = 4.0;
/// Values of more bytes are in no cache when they are read, and in memory that the system may have to provide first.
pub(super) const LARGE_BYTES: f64 = (1u64 << 26) as f64;
/// Times that the bytes of such a value move besides when it is written: its lines are fetched before, and pages are filled with zeros.
pub(super) const LARGE_WRITES: f64 = 2.0;
/// Terms that a contraction with a kernel of its own sums in a nanosecond.
pub(super) const TERMS_PER_NS: f64 = 50.0;
/// The part of its time that a contraction must at least save to be kept inside of another kernel, where it runs less well.
pub(super) const CONTRACTION_GAIN: f64 = 0.25;
/// Two kernels that hold contractions of more than so many ops each are faster apart.
pub(super) const SMALL_CONTRACTION_OPS: f64 = (1u64 << 17) as f64;
/// Two contractions of more than so many ops each want all registers for themselves.
pub(super) const BIG_CONTRACTION_OPS: f64 = (1u64 << 22) as f64;

/// A reduction whose operand is so many times longer than what it is made of is a contraction, as a matmul is.
pub(super) const CONTRACTION_REREADS: f64 = 3.0;

/// Simple ops that an op is worth once it is decomposed for a machine.
pub(super) fn weight(op: Op) -> u64 {
    match op {
        Op::Exp2 => 10,
        Op::Log2 => 14,
        Op::Sin => 20,
        Op::Sqrt | Op::Div => 2,
        Op::IDiv | Op::Mod | Op::CDiv | Op::CMod => 4,
        Op::Gather => 3,
        _ => 1,
    }
}

/// What a node would cost where it is computed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Weighted ops for one element, down to memory or to the next reductions.
    pub(super) ops: f64,
    /// Ops of all reductions below, each done once.
    pub(super) reduce_ops: f64,
    /// Distinct weighted ops of its expression, itself among them, even if it is stored.
    pub(super) own_ops: f64,
    /// Terms that all contractions below sum.
    pub(super) contraction_ops: f64,
    /// Terms that a contraction below sums for one element, 0 where there is none.
    pub(super) contraction_len: f64,
    /// Bytes in memory below.
    pub(super) input_bytes: f64,
    /// Bytes in memory or of results of reductions, whichever comes first below.
    pub(super) leaf_bytes: f64,
    /// Whether each element needs a reduction of its own: recomputing it repeats that.
    pub(super) is_reduction: bool,
    /// Whether the expression has to be cut here, since it grows too long, or the index at which it is asked for does.
    pub(super) is_cut: bool,
}

/// The costs of all nodes, operands first; linear in the size of the graph.
///
/// Ops are numbered in the order of the graph. An expression that reaches back further than `EXPRESSION_OPS_MAX` is cut at the
/// operand that reaches back. That bounds the distinct ops of an expression from above, however often they are shared.
///
/// `earlier` has the costs and the stored values of an earlier decision. What was stored then counts as memory to those that use it, and
/// what was cut stays so.
pub(super) fn costs(graph: &Graph, earlier: Option<(&[Cost], &[bool])>) -> Vec<Cost> {
    let mut pricing = Pricing { graph, own: Vec::new(), for_users: Vec::new(), first: Vec::new(), counter: 0 };
    let long_indices = indices::cuts(graph);
    for position in 0..graph.nodes.len() {
        let (mut cost, start) = pricing.price(position);
        cost.own_ops = if start == u64::MAX { 1.0 } else { (pricing.counter - start) as f64 };
        let bytes = graph.bytes(position);
        let in_memory =
            Cost { ops: 1.0, input_bytes: bytes, leaf_bytes: bytes, own_ops: cost.own_ops, ..Cost::default() };
        if graph.must_store[position] {
            cost = in_memory;
        }
        let was_stored = earlier.is_some_and(|(_, stored)| stored[position]);
        cost.is_cut |=
            earlier.is_some_and(|(costs, _)| costs[position].is_cut) || long_indices.contains(&(position as u32));
        let is_stored = graph.must_store[position] || was_stored;
        pricing.first.push(if is_stored { u64::MAX } else { start });
        pricing.own.push(cost);
        pricing.for_users.push(if is_stored { in_memory } else { cost });
    }
    pricing.own
}

struct Pricing<'a> {
    graph: &'a Graph,
    own: Vec<Cost>,
    /// What each node costs those that use it.
    for_users: Vec<Cost>,
    /// Number of the first op of the expression that ends in each node; `u64::MAX` where it holds none.
    first: Vec<u64>,
    counter: u64,
}

impl Pricing<'_> {
    /// The cost of a node that is not stored, and where its expression begins.
    fn price(&mut self, position: usize) -> (Cost, u64) {
        let (graph, node) = (self.graph, &self.graph.nodes[position]);
        let src = &graph.src[position];
        let elements = graph.numel[position];
        let below =
            |pick: &dyn Fn(&Cost) -> f64| src.iter().map(|&k| pick(&self.for_users[k as usize])).fold(0.0, f64::max);
        let mut cost = Cost {
            reduce_ops: below(&|cost| cost.reduce_ops),
            contraction_ops: below(&|cost| cost.contraction_ops),
            contraction_len: below(&|cost| cost.contraction_len),
            ..Cost::default()
        };
        let mut start = u64::MAX;
        if graph.is_memory(position) {
            cost.ops = 1.0;
            cost.input_bytes = graph.bytes(position);
            cost.leaf_bytes = cost.input_bytes;
        } else if node.op().is_movement() || node.op() == Op::Contiguous {
            let k = src[0] as usize;
            let operand = self.for_users[k];
            cost.ops = operand.ops;
            cost.input_bytes = operand.input_bytes.min(graph.bytes(position));
            cost.leaf_bytes = operand.leaf_bytes.min(graph.bytes(position));
            cost.is_reduction = operand.is_reduction && graph.numel[k] * 2.0 > elements;
            start = self.first[k];
        } else if node.op() == Op::Reduce {
            let k = src[0] as usize;
            cost.reduce_ops += graph.numel[k] * (self.for_users[k].ops + 1.0);
            cost.input_bytes = self.for_users[k].input_bytes;
            cost.leaf_bytes = graph.bytes(position);
            let is_state = matches!(node.arg(), Arg::ReduceState(..));
            if !is_state && graph.bytes(k) > CONTRACTION_REREADS * self.for_users[k].leaf_bytes {
                cost.contraction_ops += graph.numel[k];
                cost.contraction_len = cost.contraction_len.max(graph.numel[k] / elements.max(1.0));
            }
            cost.is_reduction = true;
            start = self.counter;
            self.counter += 1;
        } else if !src.is_empty() {
            start = self.price_elementwise(position, &mut cost);
        }
        (cost, start)
    }

    /// Adds an op to the expressions of its operands, but for those that reach back too far, which are cut.
    fn price_elementwise(&mut self, position: usize, cost: &mut Cost) -> u64 {
        let graph = self.graph;
        let src = &graph.src[position];
        let elements = graph.numel[position];
        let own = weight(graph.nodes[position].op());
        let is_far = |k: u32| {
            let first = self.first[k as usize];
            first != u64::MAX && self.counter + own - first > EXPRESSION_OPS_MAX
        };
        let far: SmallVec<[u32; 3]> = src.iter().copied().filter(|&k| is_far(k)).collect();
        for &k in &far {
            let base = graph.below_movement(k);
            self.own[base as usize].is_cut = true;
            self.first[base as usize] = u64::MAX;
            self.first[k as usize] = u64::MAX;
        }
        let near = src.iter().filter(|k| !far.contains(k)).map(|&k| self.first[k as usize]);
        let start = near.fold(self.counter, u64::min);
        self.counter += own;
        let span = (self.counter - start) as f64;
        let costs = || src.iter().map(|&k| &self.for_users[k as usize]);
        cost.ops = (costs().map(|cost| cost.ops).sum::<f64>() + own as f64).min(span + src.len() as f64);
        cost.input_bytes = costs().map(|cost| cost.input_bytes).sum::<f64>().min(64.0 * elements.max(1.0));
        cost.leaf_bytes = costs().map(|cost| cost.leaf_bytes).sum::<f64>().min(64.0 * elements.max(1.0));
        cost.is_reduction =
            src.iter().any(|&k| self.for_users[k as usize].is_reduction && graph.numel[k as usize] * 2.0 > elements);
        start
    }
}

/// Whether an op's result is worth asking for a kernel of its own when nothing is fused.
pub(super) fn is_work(node: &UOp) -> bool {
    node.op().is_elementwise() || matches!(node.op(), Op::Reduce | Op::Scan | Op::Gather)
}
