//! Writes: which of them happen in place, and in what order nodes must be computed so that all read what they are to read.
//!
//! Every `write` of a prepared program goes to memory: a param, a `contiguous`, or the outcome of another write. A node that is
//! memory is one *version* of its contents; the write that replaces a version is its *overwriter*. Whoever reads an old version
//! (a *reader*: an op that asks for elements of it, through movement) must run before the first write that replaces any of what it
//! reads (its *guard*). Whether a write does is asked of the exact analysis of `region`; not to know counts as yes.
//!
//! [`in_order`] finds an order of the nodes in which every reader stands before its guard. Where there is none, since a reader needs
//! what the write gives, the reader gets a copy of what it reads. A version that is asked for, or replaced twice, is copied for all
//! writes but one. [`Versions`] says the same of the finished program to `fuse` and `split`.
//!
//! Always: in the order given, each node computed by itself and each write done in place, every value is right. Linear but for
//! questions to `region`, of which there are few for each reader.
//! Not here: which nodes share kernels (`fuse`; it never lets a reader run after its guard); whether memory that was given to the program
//! may be written (the caller says so by writing to the param itself, and not to a `contiguous` of it).
//! Tests: `properties`, and programs of views and writes through tensors in the tests crate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::aliases::chains_meet;
use crate::ir::{Arg, Dim, Op, Sources, UOp, postorder, with_mapped_sources};
use crate::region::{Answer, views_meet};
use crate::view::{ViewSpec, collect_movement_chain};
use crate::watch::{Report, Topic, Watch};

/// Writes that are asked whether they replace what a reader reads, before one is taken to do so.
const QUESTIONS_MAX: usize = 64;

/// An operand through which a node reads a version, and the write that it must precede.
type GuardedReads = SmallVec<[(usize, UOp); 1]>;

/// What follows from the writes of a program for its nodes.
#[derive(Default)]
pub(super) struct Versions {
    /// The write that replaces each version.
    overwriters: FxHashMap<UOp, UOp>,
}

/// The view that a write replaces, as a node on its base.
pub(in crate::schedule) fn target_of(write: &UOp) -> UOp {
    match write.arg() {
        Arg::View(steps) => write.src()[0].through(steps),
        // Any element may be put anywhere.
        Arg::Scatter(..) => write.src()[0].clone(),
        arg => panic!("bug in the compiler: a write with the argument {arg:?}"),
    }
}

/// Whether two views of versions of one memory may share elements; of a view that pads, all that it pads is meant.
pub(in crate::schedule) fn may_meet(a: &UOp, b: &UOp) -> bool {
    if let (Some(a), Some(b)) = (ViewSpec::of_node(a), ViewSpec::of_node(b)) {
        return views_meet(a, b).may_be();
    }
    if let Some(answer @ (Answer::Yes | Answer::No)) = chains_meet(a, b) {
        return answer.may_be();
    }
    match (spec_of(a), spec_of(b)) {
        (Some(a), Some(b)) => views_meet(a, b).may_be(),
        _ => true,
    }
}

/// The view that shows at least the elements that the node does.
fn spec_of(node: &UOp) -> Option<&ViewSpec> {
    let mut node = node;
    loop {
        if let Some(spec) = ViewSpec::of_node(node) {
            return Some(spec);
        }
        node = node.src().first()?;
    }
}

impl Versions {
    /// The overwriters among nodes of which each version has at most one.
    pub(in crate::schedule) fn of(nodes: &[UOp]) -> Versions {
        let writes = nodes.iter().filter(|node| node.op() == Op::Write);
        Versions { overwriters: writes.map(|write| (write.src()[0].clone(), write.clone())).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.overwriters.is_empty()
    }

    pub(super) fn overwriter(&self, version: &UOp) -> Option<&UOp> {
        self.overwriters.get(version)
    }

    /// The first write that may replace what a view of a version shows.
    fn guard(&self, view: &UOp) -> Option<UOp> {
        let (version, _) = collect_movement_chain(view);
        let mut write = self.overwriters.get(&version)?;
        for _ in 0..QUESTIONS_MAX {
            if may_meet(view, &target_of(write)) {
                return Some(write.clone());
            }
            write = self.overwriters.get(write)?;
        }
        Some(write.clone())
    }

    /// The operands through which a node reads old versions, with their guards. Movement reads nothing by itself, unless it is asked for.
    pub(super) fn guarded_reads(&self, node: &UOp, is_asked: bool) -> GuardedReads {
        if self.is_empty() || node.op().is_movement() && !is_asked {
            return GuardedReads::new();
        }
        // The base of a write is not read.
        let skipped = (node.op() == Op::Write) as usize;
        let operands = node.src().iter().enumerate().skip(skipped);
        operands.filter_map(|(k, operand)| self.guard(operand).map(|guard| (k, guard))).collect()
    }
}

/// Prepared values with copies where writes demand them, and their nodes in an order in which every reader precedes its guard.
pub(in crate::schedule) fn in_order(values: Vec<UOp>, watch: &mut dyn Watch) -> (Vec<UOp>, Vec<UOp>) {
    let nodes = postorder(&values);
    if nodes.iter().all(|node| node.op() != Op::Write) {
        return (values, nodes);
    }
    let values = with_one_writer_each(&values, &nodes, watch);
    let nodes = postorder(&values);
    let waiting = Waiting::of(&nodes, &values);
    let (order, copied) = waiting.run(watch);
    if copied.is_empty() {
        return (values, order);
    }
    with_copies(&values, order, &copied)
}

fn tell(watch: &mut dyn Watch, write: &UOp, reason: &str) {
    if watch.wants(Topic::Fusion) {
        let about = format!("write {} in {}", write.src()[1].shape(), write.src()[0].shape());
        watch.report(Report::Decision { topic: Topic::Fusion, about: &about, reason });
    }
}

/// The program with every version replaced by at most one write, and by none if it is asked for; and with values that show the memory
/// which they are written to, other than at the very elements, in memory of their own.
fn with_one_writer_each(values: &[UOp], nodes: &[UOp], watch: &mut dyn Watch) -> Vec<UOp> {
    let asked: FxHashSet<&UOp> = values.iter().collect();
    let mut replaced: FxHashSet<UOp> = FxHashSet::default();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in nodes {
        let mut new = with_mapped_sources(node, |operand| &done[operand]);
        if new.op() == Op::Write {
            let mut base = new.src()[0].clone();
            if let Some(memory) = memory_copied(&node.src()[0], &asked) {
                tell(watch, &new, "in place of what it would be a copy of");
                base = done[memory].clone();
            }
            let is_kept = asked.contains(&node.src()[0]);
            if is_kept || replaced.contains(&base) {
                let why = if is_kept { "its old contents are asked for" } else { "another write replaces it too" };
                tell(watch, &new, &format!("copied: {why}"));
                base = base.contiguous();
            }
            // A copy is a version like any other.
            while replaced.contains(&base) {
                base = base.contiguous();
            }
            replaced.insert(base.clone());
            new = with_values_apart(&new, base, watch);
        }
        done.insert(node.clone(), new);
    }
    values.iter().map(|value| done[value].clone()).collect()
}

/// The write to a base, with what shows other elements than those that each replaces, of the memory that is written to, in memory of its own.
fn with_values_apart(write: &UOp, base: UOp, watch: &mut dyn Watch) -> UOp {
    let (target, is_scatter) = match write.arg() {
        Arg::View(steps) => (base.through(steps), false),
        _ => (base.clone(), true),
    };
    let mut src: Sources = [base].into_iter().collect();
    for operand in &write.src()[1..] {
        let (version, _) = collect_movement_chain(operand);
        let is_of_others = is_scatter || *operand != target;
        let meets = is_of_others && is_version_of(&version, &src[0]) && may_meet(operand, &target);
        if meets {
            tell(watch, write, "through a temporary: its value is another view of the same elements");
        }
        src.push(if meets { operand.contiguous() } else { operand.clone() });
    }
    write.with_src(src)
}

/// The memory that a write's base is a copy of, if the write may go there: it is of the program's own, and neither is asked for. Who reads it does so before, as with all writes.
fn memory_copied<'n>(base: &'n UOp, asked: &FxHashSet<&UOp>) -> Option<&'n UOp> {
    let copied = base.src().first().filter(|_| base.op() == Op::Contiguous && !asked.contains(base))?;
    let is_free = matches!(copied.op(), Op::Contiguous | Op::Write) && !asked.contains(copied);
    let mut memory = copied;
    while memory.op() == Op::Write || memory.op().is_movement() {
        memory = &memory.src()[0];
    }
    (is_free && memory.op() == Op::Contiguous).then_some(copied)
}

/// Whether `version` is `base` or an earlier version of its memory. Only as many as a guard is looked for among are looked at.
fn is_version_of(version: &UOp, base: &UOp) -> bool {
    let mut node = base;
    for _ in 0..QUESTIONS_MAX {
        if node == version {
            return true;
        }
        if node.op() != Op::Write {
            return false;
        }
        node = &node.src()[0];
    }
    true
}

/// Nodes by position, and what each still waits for.
struct Waiting<'a> {
    nodes: &'a [UOp],
    /// For each node, the nodes that wait for it, and whether it is an operand of them.
    users: Vec<SmallVec<[(u32, bool); 2]>>,
    /// Operands and readers that are not there yet.
    missing: Vec<usize>,
    /// Of these, operands.
    missing_operands: Vec<usize>,
    /// For each write, who must come before it: the reader, and by which operand it reads.
    readers: FxHashMap<u32, Vec<(u32, usize)>>,
}

/// For each reader, the operands that it reads from a copy, and the write before which the copy is made.
type Copied = FxHashMap<UOp, SmallVec<[(usize, UOp); 1]>>;

impl<'a> Waiting<'a> {
    fn of(nodes: &'a [UOp], values: &[UOp]) -> Waiting<'a> {
        let positions: FxHashMap<&UOp, u32> = nodes.iter().zip(0..).collect();
        let versions = Versions::of(nodes);
        let asked: FxHashSet<&UOp> = values.iter().collect();
        let mut waiting = Waiting {
            nodes,
            users: vec![SmallVec::new(); nodes.len()],
            missing: vec![0; nodes.len()],
            missing_operands: vec![0; nodes.len()],
            readers: FxHashMap::default(),
        };
        for (position, node) in nodes.iter().enumerate() {
            for operand in node.src() {
                waiting.users[positions[operand] as usize].push((position as u32, true));
                waiting.missing[position] += 1;
                waiting.missing_operands[position] += 1;
            }
            for (k, guard) in versions.guarded_reads(node, asked.contains(node)) {
                // A write reads its own value before it writes.
                if guard != *node {
                    waiting.users[position].push((positions[&guard], false));
                    waiting.missing[positions[&guard] as usize] += 1;
                    waiting.readers.entry(positions[&guard]).or_default().push((position as u32, k));
                }
            }
        }
        waiting
    }

    /// The order, and what must be read from copies for there to be one.
    fn run(mut self, watch: &mut dyn Watch) -> (Vec<UOp>, Copied) {
        let mut copied = Copied::default();
        let mut done = vec![false; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut ready: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        // Writes that wait for readers alone.
        let mut blocked: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        ready.extend((0..self.nodes.len()).filter(|&node| self.missing[node] == 0).map(|node| Reverse(node as u32)));
        while order.len() < self.nodes.len() {
            let position = match ready.pop() {
                Some(Reverse(position)) => position,
                None => match blocked.pop() {
                    Some(Reverse(position)) if done[position as usize] => continue,
                    Some(Reverse(position)) => {
                        self.copy_for(position, &done, &mut copied, watch);
                        position
                    }
                    None => panic!("bug in the compiler: nodes that wait for each other without a write"),
                },
            };
            done[position as usize] = true;
            order.push(self.nodes[position as usize].clone());
            for (user, is_operand) in std::mem::take(&mut self.users[position as usize]) {
                let node = user as usize;
                self.missing[node] -= 1;
                self.missing_operands[node] -= is_operand as usize;
                if done[node] {
                    continue;
                }
                if self.missing[node] == 0 {
                    ready.push(Reverse(user));
                } else if self.missing_operands[node] == 0 {
                    blocked.push(Reverse(user));
                }
            }
        }
        (order, copied)
    }

    /// Lets a write go ahead of its readers, which are to read a copy.
    fn copy_for(&self, write: u32, done: &[bool], copied: &mut Copied, watch: &mut dyn Watch) {
        let node = &self.nodes[write as usize];
        tell(watch, node, "after a copy of the old elements: what reads them needs what is written");
        for &(reader, k) in self.readers.get(&write).map(Vec::as_slice).unwrap_or_default() {
            if !done[reader as usize] {
                copied.entry(self.nodes[reader as usize].clone()).or_default().push((k, node.clone()));
            }
        }
    }
}

/// The nodes in the same order, with copies made before the writes that they are for.
fn with_copies(values: &[UOp], order: Vec<UOp>, copied: &Copied) -> (Vec<UOp>, Vec<UOp>) {
    let mut before: FxHashMap<&UOp, Vec<UOp>> = FxHashMap::default();
    for (reader, k, write) in order
        .iter()
        .filter_map(|node| Some((node, copied.get(node)?)))
        .flat_map(|(node, list)| list.iter().map(move |(k, write)| (node, *k, write)))
    {
        before.entry(write).or_default().push(reader.src()[k].clone());
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut copies: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut nodes: Vec<UOp> = Vec::with_capacity(order.len() + before.len());
    let mut listed: FxHashSet<UOp> = FxHashSet::default();
    let known: FxHashSet<&UOp> = order.iter().collect();
    for node in &order {
        for view in before.get(node).into_iter().flatten() {
            let steps = copy_of(&done[view], |copy| known.contains(copy));
            nodes.extend(steps.iter().filter(|step| listed.insert((*step).clone())).cloned());
            copies.extend(steps.last().map(|copy| (view.clone(), copy.clone())));
        }
        let from_copy = copied.get(node);
        let src: crate::ir::Sources = (node.src().iter().enumerate())
            .map(|(k, operand)| {
                let is_copied = from_copy.is_some_and(|list| list.iter().any(|(other, _)| *other == k));
                if is_copied { copies[operand].clone() } else { done[operand].clone() }
            })
            .collect();
        let new = if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
        if listed.insert(new.clone()) {
            nodes.push(new.clone());
        }
        done.insert(node.clone(), new);
    }
    (values.iter().map(|value| done[value].clone()).collect(), nodes)
}

/// A copy of a view that is a node of its own, and what is made on the way to it. A copy that the program has already may itself be
/// written to.
fn copy_of(view: &UOp, is_known: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let plain = view.contiguous();
    if !is_known(&plain) {
        return vec![plain];
    }
    let mut lens = view.shape().to_vec();
    loop {
        lens.push(Dim::Const(1));
        let longer = view.reshape(lens.clone());
        let copy = longer.contiguous();
        if !is_known(&copy) {
            return vec![longer, copy.clone(), copy.reshape(view.shape().clone())];
        }
    }
}
