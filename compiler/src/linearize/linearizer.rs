//! Puts a kernel in loop form into a list: loops, what stands in them, accumulators.
//!
//! A value stands in the innermost loop that it depends on. Loops nest as their loop ends say: the ranges of one loop end outermost
//! first, and the first of them inside the innermost loop that the loop end's result depends on. Within one loop, what stands in
//! it (single ops and whole inner loops) is ordered so that each comes after what it needs, and otherwise as in the graph. What a store
//! needs are also the loads of what it replaces (`kernel::effects`), which the list itself no longer names. A reduction over lanes has no accumulator: what
//! each lane has is combined behind the end of their range.
//!
//! Always: see [`check`](super::check). Tested there, and by every kernel that runs.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::loop_tree::{Nest, part_loops};
use super::scopes::{self, Item};
use crate::DType;
use crate::ir::{Arg, AxisKind, Op, ReduceOp, Sources, UOp};
use crate::kernel::local_buffers::scratch_of;
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, open_operands, range_id};

/// The micro-ops of a kernel in order; `has_fma` lets sums of products become fused multiply-adds.
pub fn order(root: &UOp, has_fma: bool) -> Vec<UOp> {
    let root = &part_loops(root);
    let dependencies = Dependencies::of(root);
    let nest = Nest::of(&dependencies);
    let mut running: FxHashMap<u32, Vec<UOp>> = FxHashMap::default();
    for node in dependencies.order.iter().filter(|node| node.op() == Op::Running) {
        running.entry(range_id(&node.src()[node.src().len() - 1])).or_default().push(node.clone());
    }
    let mut emitter = Emitter {
        dependencies,
        nest,
        scopes: FxHashMap::default(),
        has_fma,
        done: FxHashMap::default(),
        list: Vec::new(),
        running,
        totals: FxHashMap::default(),
        indices: FxHashSet::default(),
        accumulators: 0,
        renewed: FxHashSet::default(),
    };
    emitter.scopes = scopes::items_by_scope(&emitter.dependencies, &emitter.nest);
    emitter.emit_constants();
    emitter.emit_scope(None);
    without_unused(emitter.list)
}

/// The list without ops that nothing needs, as a product that became part of a fused multiply-add.
pub(super) fn without_unused(list: Vec<UOp>) -> Vec<UOp> {
    let mut needed: FxHashSet<UOp> = FxHashSet::default();
    let mut kept: Vec<UOp> = Vec::with_capacity(list.len());
    for op in list.into_iter().rev() {
        let acts = matches!(
            op.op(),
            Op::Store | Op::Exchange | Op::Update | Op::EndRange | Op::Range | Op::Barrier | Op::Prefetch
        );
        if acts || needed.contains(&op) {
            needed.extend(op.src().iter().cloned());
            kept.push(op);
        }
    }
    kept.reverse();
    kept
}

struct Emitter {
    dependencies: Dependencies,
    nest: Nest,
    /// What stands in each loop, in order.
    scopes: FxHashMap<Option<u32>, Vec<Item>>,
    has_fma: bool,
    /// What stands in the list for each node.
    done: FxHashMap<UOp, UOp>,
    list: Vec<UOp>,
    /// The running totals of each serial loop.
    running: FxHashMap<u32, Vec<UOp>>,
    /// The accumulator of each.
    totals: FxHashMap<UOp, UOp>,
    indices: FxHashSet<UOp>,
    accumulators: i64,
    /// The first accumulators of states that are closed.
    renewed: FxHashSet<UOp>,
}

impl Emitter {
    /// Constants stand before everything else: they belong to no loop.
    fn emit_constants(&mut self) {
        let constants: Vec<UOp> =
            self.dependencies.order.iter().filter(|node| node.op() == Op::Const).cloned().collect();
        constants.into_iter().for_each(|constant| self.push_constant(constant));
        let has_identity = |node: &&UOp| matches!(node.op(), Op::ReduceRange | Op::Running) && !is_of_lanes(node);
        let reductions: Vec<UOp> = self.dependencies.order.iter().filter(has_identity).cloned().collect();
        reductions.iter().filter_map(identity_of).for_each(|identity| self.push_constant(identity));
    }

    fn push_constant(&mut self, constant: UOp) {
        if self.done.insert(constant.clone(), constant.clone()).is_none() {
            self.push(constant);
        }
    }

    fn emit_scope(&mut self, scope: Option<u32>) {
        for item in self.scopes.remove(&scope).unwrap_or_default() {
            match item {
                Item::Node(node) => self.emit_node(&node),
                Item::Loop(id) => self.emit_loop(id),
            }
        }
    }

    fn emit_node(&mut self, node: &UOp) {
        if is_loop_end(node) {
            return self.close(node);
        }
        if node.op() == Op::LocalBuffer {
            // Its stores stand before: from here on the memory holds what it should.
            self.done.insert(node.clone(), self.done[scratch_of(node)].clone());
            return;
        }
        if matches!(node.op(), Op::Sink | Op::Range) || self.done.contains_key(node) {
            return;
        }
        if node.op() == Op::Running {
            return self.advance(node);
        }
        // In the list it stands in its loops, and need not name them.
        let operands = match node.op() {
            Op::Previous => &node.src()[..1],
            Op::Exchange => &node.src()[..2],
            _ => open_operands(node),
        };
        let src: Sources = operands.iter().map(|operand| self.done[operand].clone()).collect();
        let new = if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
        // The index of a store into scratch and that of a load are one once the local buffer has become its memory.
        if new.op() != Op::Index || self.indices.insert(new.clone()) {
            self.push(new.clone());
        }
        self.done.insert(node.clone(), new);
    }

    fn push(&mut self, op: UOp) {
        self.list.push(op);
    }

    fn emit_loop(&mut self, id: u32) {
        let range = self.nest.ranges[&id].clone();
        let loop_ends = self.nest.loop_ends[&id].clone();
        // Accumulators start outside of the outermost loop of their reduction.
        for reduction in loop_ends.iter().filter(|loop_end| loop_end.op() == Op::ReduceRange && !is_of_lanes(loop_end))
        {
            if range_id(&closed_ranges(reduction)[0]) == id {
                self.start_accumulators(reduction);
            }
        }
        for running in self.running.get(&id).cloned().unwrap_or_default() {
            match identity_of(&running) {
                Some(identity) => {
                    let accumulator = self.start_accumulator(&running, identity);
                    self.totals.insert(running, accumulator);
                }
                None => self.start_accumulators(&running),
            }
        }
        let len = self.done.get(&range.src()[0]).cloned().unwrap_or_else(|| range.src()[0].clone());
        let range_op = if len == range.src()[0] { range.clone() } else { range.with_src(smallvec![len]) };
        self.push(range_op.clone());
        self.done.insert(range.clone(), range_op.clone());
        self.emit_scope(Some(id));
        let end = UOp::new(Op::EndRange, DType::VOID, smallvec![range_op], Arg::None);
        self.push(end.clone());
        for reduction in loop_ends.iter().filter(|loop_end| loop_end.op() == Op::ReduceRange) {
            if is_of_lanes(reduction) {
                let src: Sources = smallvec![self.done[&reduction.src()[0]].clone(), end.clone()];
                let value = UOp::new(Op::ShuffleReduce, reduction.dtype(), src, reduction.arg().clone());
                self.push(value.clone());
                self.done.insert(reduction.clone(), value);
            } else if range_id(&closed_ranges(reduction)[0]) == id {
                let accumulator = match reduction.arg() {
                    Arg::Step(component) => self.done[&stepped(reduction).1[component.number as usize]].clone(),
                    _ => self.done[reduction].clone(),
                };
                let value = UOp::new(Op::Final, reduction.dtype(), smallvec![accumulator, end.clone()], Arg::None);
                self.push(value.clone());
                self.done.insert(reduction.clone(), value);
            }
        }
    }

    /// The accumulator of a reduction; those of a state, which its other components may have started.
    fn start_accumulators(&mut self, reduction: &UOp) {
        if let Some(identity) = identity_of(reduction) {
            let accumulator = self.start_accumulator(reduction, identity);
            self.done.insert(reduction.clone(), accumulator);
            return;
        }
        for accumulator in stepped(reduction).1 {
            if !self.done.contains_key(accumulator) {
                let started = self.start_accumulator(accumulator, accumulator.src()[0].clone());
                self.done.insert(accumulator.clone(), started);
            }
        }
    }

    fn start_accumulator(&mut self, node: &UOp, identity: UOp) -> UOp {
        let accumulator = UOp::new(Op::Accumulator, node.dtype(), smallvec![identity], Arg::Number(self.accumulators));
        self.accumulators += 1;
        self.push(accumulator.clone());
        accumulator
    }

    /// One more value of a running total, which is what it gives.
    fn advance(&mut self, running: &UOp) {
        if let Arg::Step(component) = *running.arg() {
            let next = self.done[&stepped(running).0[component.number as usize]].clone();
            self.done.insert(running.clone(), next);
            // What is computed from the accumulators are their next values alone, which stand before.
            return self.close_state(running);
        }
        let (accumulator, value) = (self.totals[running].clone(), self.done[&running.src()[0]].clone());
        let Arg::Combine(op) = *running.arg() else { panic!("bug in the compiler: a running total of nothing") };
        let new = op.combine(&accumulator, &value);
        self.push(new.clone());
        self.push(UOp::new(Op::Update, DType::VOID, smallvec![accumulator, new.clone()], Arg::None));
        self.done.insert(running.clone(), new);
    }

    /// The end of a loop end's innermost body: a store, or an update of its accumulator.
    fn close(&mut self, loop_end: &UOp) {
        if is_of_lanes(loop_end) {
            // Lanes combine what they have after the end of their range.
            return;
        }
        if loop_end.op() == Op::Store {
            let (index, value) = (self.done[&loop_end.src()[0]].clone(), self.done[&loop_end.src()[1]].clone());
            self.push(UOp::new(Op::Store, DType::VOID, smallvec![index, value], Arg::None));
            return;
        }
        let Arg::Combine(op) = *loop_end.arg() else { return self.close_state(loop_end) };
        let accumulator = self.done[loop_end].clone();
        let value = self.done[&loop_end.src()[0]].clone();
        let fusable = self.has_fma && op == ReduceOp::Add && value.op() == Op::Mul && value.dtype().is_float();
        let added = if op == ReduceOp::Add { self.add_to(&accumulator, &value) } else { None };
        let new = if let Some(new) = added {
            new
        } else if fusable {
            value.src()[0].muladd(&value.src()[1], &accumulator)
        } else {
            op.combine(&accumulator, &value)
        };
        self.push(new.clone());
        self.push(UOp::new(Op::Update, DType::VOID, smallvec![accumulator, new], Arg::None));
    }

    /// Products that add to zero add to a sum instead, if these are such: then what comes of them.
    fn add_to(&mut self, sum: &UOp, product: &UOp) -> Option<UOp> {
        if !matches!(product.op(), Op::MultiplyMatrices | Op::DotProducts | Op::MultiplyTiles) {
            return None;
        }
        let sums = &product.src()[2];
        let before = match sums.as_scalar().is_some_and(|zero| zero.to_f64() == 0.0) {
            true => sum.clone(),
            false => {
                let before = self.add_to(sum, sums)?;
                self.push(before.clone());
                before
            }
        };
        Some(product.with_src(Sources::from_iter([product.src()[0].clone(), product.src()[1].clone(), before])))
    }

    /// Renews all accumulators of a state, after all that is computed from what they held; once for all of its components.
    fn close_state(&mut self, reduction: &UOp) {
        let (next, accumulators) = stepped(reduction);
        if !self.renewed.insert(accumulators[0].clone()) {
            return;
        }
        for (accumulator, value) in accumulators.iter().zip(next) {
            let (accumulator, value) = (self.done[accumulator].clone(), self.done[value].clone());
            self.push(UOp::new(Op::Update, DType::VOID, smallvec![accumulator, value], Arg::None));
        }
    }
}

/// Whether it is a reduction over the lanes of a group of threads.
fn is_of_lanes(loop_end: &UOp) -> bool {
    let is_lane = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Lane);
    loop_end.op() == Op::ReduceRange && closed_ranges(loop_end).iter().any(is_lane)
}

/// What a reduction of one value begins with.
fn identity_of(reduction: &UOp) -> Option<UOp> {
    let Arg::Combine(op) = reduction.arg() else { return None };
    Some(UOp::constant(op.identity(reduction.dtype().element()), reduction.dtype()))
}

/// Of a reduction or running state that renews accumulators: what they become, and they.
fn stepped(reduction: &UOp) -> (&[UOp], &[UOp]) {
    let open = &reduction.src()[..reduction.arg().values_of_reduction()];
    open.split_at(open.len() / 2)
}
