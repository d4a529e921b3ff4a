//! The numbers that fusion is decided by, and what each node of a program would cost.
//!
//! Times are nanoseconds; what machines differ in is of the target ([`Costs`]). They are rough on purpose: a decision that a factor
//! of two in them would turn is one that hardly matters. Counted are launches, bytes that move to and from memory, and ops,
//! repeated ones among them.
//!
//! Not measured on each machine, because schedules must not depend on the machine that made them.

use smallvec::SmallVec;

use crate::ir::{Arg, Op, UOp};
use crate::schedule::graph::Graph;
use crate::schedule::indices;
use crate::target::Costs;

/// Fewer parts than this do not pay for a second kernel.
pub(in crate::schedule) const PARTS_MIN: i64 = 8;
/// Elementwise ops (weighted) that one expression in a kernel may have: code generation takes more than linear time.
pub(super) const EXPRESSION_OPS_MAX: u64 = 300;
/// Weighted ops that all of a kernel may have.
pub(super) const KERNEL_OPS_MAX: u64 = 450;
/// Buffers that a kernel may name.
pub(super) const KERNEL_BUFFERS_MAX: usize = 64;
/// The part of its time that a contraction must at least save to be kept inside of another kernel, where it runs less well.
pub(super) const CONTRACTION_GAIN: f64 = 0.25;
/// How much longer a contraction takes, as a part of its time, where its results are not asked for as neighbours that a tile of registers could hold: in
/// the loops of another reduction or of a scan, kept for a reduction alone, or where a tensor says. Measured on AVX-512 as the time above that of two kernels: 2 for
/// products of 64 terms and of 4, 8 for 16 terms, 0.3 for 256, 1 to 3 for convolutions over whole images, scans and scatters, 100 for windows of 2 x 2 results.
pub(super) const SCATTERED_CONTRACTION_LOSS: f64 = 2.0;

/// How many times as long an op takes as in lanes where a scan or a scatter walks the axis in which memory lies, one element after the other. Measured for scans on
/// AVX-512 (exp, cos and gelu): 6 to 7.
pub(super) const STEP_OPS_LOSS: f64 = 6.0;

/// A reduction whose operand is so many times longer than what it is made of is a contraction, as a matmul is.
pub(super) const CONTRACTION_REREADS: f64 = 3.0;

/// The costs of a kind of machine, as numbers to reckon with.
#[derive(Clone, Copy, Debug)]
pub(in crate::schedule) struct Model {
    pub(super) launch_ns: f64,
    pub(super) bytes_per_ns: f64,
    pub(super) shared_cache_bytes_per_ns: f64,
    pub(super) scratch_bytes_per_ns: f64,
    pub(super) ops_per_ns: f64,
    pub(super) terms_per_ns: f64,
    pub(super) threads: f64,
    pub(super) cores: f64,
    /// Rows of which all cores have about even shares: one for each thread, or where a block of threads has a row, for each block.
    pub(super) even_rows: f64,
    pub(super) vector_lanes: f64,
    pub(super) rows_shared: f64,
    pub(super) scratch_bytes: f64,
    pub(super) working_set_bytes: f64,
    pub(super) cached_bytes: f64,
    pub(super) large_bytes: f64,
    pub(super) large_writes: f64,
    pub(super) merged_contraction_ops: f64,
    pub(super) small_contraction_ops: f64,
    pub(super) big_contraction_ops: f64,
}

impl Model {
    pub(in crate::schedule) fn of(costs: &Costs) -> Model {
        Model {
            launch_ns: f64::from(costs.launch_ns),
            bytes_per_ns: f64::from(costs.memory_bytes_per_ns),
            shared_cache_bytes_per_ns: f64::from(costs.shared_cache_bytes_per_ns),
            scratch_bytes_per_ns: f64::from(costs.scratch_bytes_per_ns),
            ops_per_ns: f64::from(costs.ops_per_ns),
            terms_per_ns: f64::from(costs.terms_per_ns),
            threads: f64::from(costs.threads),
            cores: f64::from(costs.cores),
            even_rows: f64::from(costs.threads.min(costs.few_results)),
            vector_lanes: f64::from(costs.vector_lanes),
            rows_shared: f64::from(costs.rows_shared),
            scratch_bytes: f64::from(costs.scratch_bytes),
            working_set_bytes: f64::from(costs.working_set_bytes),
            cached_bytes: f64::from(costs.cached_bytes),
            large_bytes: f64::from(costs.large_bytes),
            large_writes: f64::from(costs.large_writes),
            merged_contraction_ops: f64::from(costs.merged_contraction_ops),
            small_contraction_ops: f64::from(costs.small_contraction_ops),
            big_contraction_ops: f64::from(costs.big_contraction_ops),
        }
    }

    /// Ops that all cores could have done while some of them wait, because so many rows are all that they can share.
    pub(super) fn waiting(&self, work: f64, rows: f64) -> f64 {
        work * (1.0 / rows.clamp(1.0, self.even_rows) - 1.0 / self.even_rows) * self.cores
    }
}

/// Simple ops that an op is worth once it is decomposed for a machine.
pub(super) fn weight(op: Op) -> u64 {
    match op {
        Op::Exp2 => 10,
        Op::Log2 => 14,
        Op::Sin | Op::Cos => 20,
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
    /// Loads from memory for one element.
    pub(super) loads: f64,
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
        let in_memory = Cost {
            ops: 1.0,
            loads: 1.0,
            input_bytes: bytes,
            leaf_bytes: bytes,
            own_ops: cost.own_ops,
            ..Cost::default()
        };
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
            (cost.ops, cost.loads) = (1.0, 1.0);
            cost.input_bytes = graph.bytes(position);
            cost.leaf_bytes = cost.input_bytes;
        } else if node.op().is_movement() || node.op() == Op::Contiguous {
            let k = src[0] as usize;
            let operand = self.for_users[k];
            (cost.ops, cost.loads) = (operand.ops, operand.loads);
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
        cost.loads = costs().map(|cost| cost.loads).sum::<f64>().min(cost.ops);
        cost.input_bytes = costs().map(|cost| cost.input_bytes).sum::<f64>().min(64.0 * elements.max(1.0));
        cost.leaf_bytes = costs().map(|cost| cost.leaf_bytes).sum::<f64>().min(64.0 * elements.max(1.0));
        cost.is_reduction =
            src.iter().any(|&k| self.for_users[k as usize].is_reduction && graph.numel[k as usize] * 2.0 > elements);
        start
    }
}

/// Whether an op's result is worth asking for a kernel of its own when nothing is fused.
pub(super) fn is_work(node: &UOp) -> bool {
    node.op().is_elementwise() || matches!(node.op(), Op::Reduce | Op::Scan | Op::Fetch | Op::Place | Op::Gather)
}
