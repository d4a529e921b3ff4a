//! The fusion heuristic: which values get memory of their own, and which stored values share a kernel.
//!
//! Nodes are visited users first. When a node is visited, every site where a kernel asks for it is known ([`Use`]), and it is
//! either computed where it is asked for (*inlined*, once for each different site), *kept* in scratch memory inside of the kernel that
//! asks for it (`materialize`), or *stored* by a kernel of its own group and loaded where it is asked for. Outputs and `contiguous` must be
//! stored; a movement op is only where an index would grow too long (`indices`); of all else the cheaper is taken (`prices`).
//!
//! A group that stores a value and a group that asks for it at the same index of the same loops become one kernel with two
//! stores. Other kernels that become one: `share`. What writes to memory in place demands of a kernel is asked of `fuse_writes`.
//!
//! Always: groups do not need each other in a circle (`groups`); the result depends on the graph alone.
//! Not here: whether the result is legal (`check`), what kernels look like (`cut`).

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::cost::{self, Cost};
use super::groups::Groups;
use super::loop_model::{Dependence, OuterLoops, ReductionLoop};
use super::use_site::{AxisIndex, Use, WHOLE};
use crate::ir::{Arg, Axes, Op, UOp};
use crate::schedule::graph::Graph;
use crate::watch::{Report, Silent, Topic, Watch};

/// No kernel stores the node.
pub(in crate::schedule) const NOT_STORED: u32 = u32::MAX;

/// What was decided.
pub(in crate::schedule) struct Fused {
    /// Which kernel stores each node, by position; [`NOT_STORED`] for those that none does. Kernels are not numbered densely.
    pub(in crate::schedule) stored: Vec<u32>,
    /// The axes along which values that no kernel stores are kept in scratch memory, by position.
    pub(in crate::schedule) kept: FxHashMap<u32, Axes>,
}

/// Decides for each node of a program.
pub(in crate::schedule) fn fuse(graph: &Graph, fuse: bool, watch: &mut dyn Watch) -> Fused {
    // Costs of a first decision count everything down to the program's memory, as if nothing below were stored; those of the second
    // begin at what the first stored.
    let costs = cost::costs(graph, None);
    if !fuse {
        return decide(graph, costs, fuse, watch);
    }
    let first = decide(graph, costs.clone(), fuse, &mut Silent);
    let stored: Vec<bool> = first.stored.iter().map(|group| *group != NOT_STORED).collect();
    decide(graph, cost::costs(graph, Some((&costs, &stored))), fuse, watch)
}

fn decide(graph: &Graph, costs: Vec<Cost>, fuse: bool, watch: &mut dyn Watch) -> Fused {
    let talks = watch.wants(Topic::Fusion);
    let mut fusion = Fusion {
        graph,
        costs,
        fuse,
        groups: Groups::new(graph.model),
        loops: Vec::new(),
        states: FxHashMap::default(),
        askers: FxHashMap::default(),
        uses: vec![SmallVec::new(); graph.nodes.len()],
        stored: vec![NOT_STORED; graph.nodes.len()],
        kept: FxHashMap::default(),
        targets: FxHashMap::default(),
        watch,
        talks,
    };
    for position in (0..graph.nodes.len()).rev() {
        fusion.visit(position);
    }
    if fuse {
        fusion.merge_small();
    }
    let stored = (0..graph.nodes.len()).map(|position| match fusion.stored[position] {
        NOT_STORED => NOT_STORED,
        group => fusion.groups.find(group),
    });
    Fused { stored: stored.collect(), kept: fusion.kept }
}

pub(super) struct Fusion<'a> {
    pub(super) graph: &'a Graph,
    pub(super) costs: Vec<Cost>,
    pub(in crate::schedule) fuse: bool,
    pub(super) groups: Groups,
    pub(super) loops: Vec<ReductionLoop>,
    /// Where the operands of a state are asked for, by its first component and where that is.
    pub(super) states: FxHashMap<(UOp, Use), Use>,
    /// A kernel that asks for a component of a state, by its first component and where that is asked for, in any kernel.
    pub(super) askers: FxHashMap<(UOp, Use), u32>,
    pub(super) uses: Vec<SmallVec<[Use; 1]>>,
    pub(in crate::schedule) stored: Vec<u32>,
    pub(in crate::schedule) kept: FxHashMap<u32, Axes>,
    /// For each write, the site of its memory that it replaces.
    pub(super) targets: FxHashMap<u32, Use>,
    watch: &'a mut dyn Watch,
    pub(super) talks: bool,
}

impl Fusion<'_> {
    fn visit(&mut self, position: usize) {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let uses = self.distinct_uses(position);
        if node.op() == Op::Write {
            self.write(position, &uses);
        } else if graph.must_store[position] {
            self.store(position, uses, "it must exist in memory");
        } else if graph.is_memory(position) {
            for &group in &Self::groups_of(&uses) {
                self.groups.get(group).buffers += 1;
            }
            self.share_input(position, &uses);
        } else if uses.is_empty() || node.src().is_empty() {
            // Constants and counters are written into the code.
        } else if node.op().is_movement() && self.costs[position].is_cut {
            self.store(position, uses, "the index at which it reads grows too long");
        } else if node.op().is_movement() {
            if node.op() == Op::Reshape && graph.is_memory(graph.src[position][0] as usize) {
                self.share_input(position, &uses);
            }
            self.inline(position, uses);
        } else if uses.iter().any(|site| self.reads_too_late(position, site)) {
            self.store(position, uses, "it reads what a write replaces before its kernel would run");
        } else if !self.fuse && cost::is_work(node) {
            self.store(position, uses, "nothing is fused");
        } else if self.costs[position].is_cut {
            self.store(position, uses, "its expression grows too long");
        } else if graph.narrow_factors.contains(&(position as u32)) {
            self.inline(position, uses);
        } else if node.op() == Op::Reduce {
            self.decide_reduction(position, uses);
        } else {
            self.decide_elementwise(position, uses);
        }
    }

    /// The sites where the node is asked for, each once, under the present numbers of the groups.
    fn distinct_uses(&mut self, position: usize) -> SmallVec<[Use; 1]> {
        let mut uses = std::mem::take(&mut self.uses[position]);
        uses.iter_mut().for_each(|site| site.group = self.groups.find(site.group));
        each_once(uses)
    }

    /// How often a value asked for at this site is computed.
    pub(super) fn evaluations(&mut self, site: &Use) -> f64 {
        let open = self.open_around(site);
        self.count(site.group, &open)
    }

    /// As [`Fusion::evaluations`], without those that are padding.
    pub(super) fn evaluations_within(&mut self, site: &Use) -> f64 {
        self.evaluations(site) * site.share as f64 / WHOLE as f64
    }

    /// The loops that are open where a value asked for at this site is computed.
    pub(super) fn open_around(&mut self, site: &Use) -> Dependence {
        let needed = site.dependence();
        let mut open = needed.clone();
        for &number in &needed.loops {
            open.join(&self.loops[number as usize].within);
        }
        open.outer = self.groups.get(site.group).outer.open_around(open.outer);
        open
    }

    pub(super) fn count(&mut self, group: u32, loops: &Dependence) -> f64 {
        let inner: f64 = loops.loops.iter().map(|&number| self.loops[number as usize].len).product();
        self.groups.get(group).outer.count(loops.outer) * inner
    }

    pub(super) fn groups_of(uses: &[Use]) -> SmallVec<[u32; 4]> {
        each_once(uses.iter().map(|site| site.group).collect())
    }

    /// Computes the node wherever it is asked for: hands its uses down to its operands.
    pub(super) fn inline(&mut self, position: usize, uses: SmallVec<[Use; 1]>) {
        let graph = self.graph;
        let node = &graph.nodes[position];
        for site in &uses {
            self.keep_before_guards(position, site.group);
            match (node.op(), node.arg()) {
                (Op::Reduce, _) => {
                    let below = self.inside_of_reduction(position, site);
                    for &operand in &graph.src[position] {
                        self.uses[operand as usize].push(below.clone());
                    }
                }
                (op, _) => {
                    if !op.is_movement() {
                        self.groups.get(site.group).ops += cost::weight(op) as f64;
                    }
                    for (k, &operand) in graph.src[position].iter().enumerate() {
                        self.uses[operand as usize].push(site.of_operand(node, k));
                    }
                }
            }
        }
    }

    /// Opens the loops of a reduction that is asked for at `site`; gives the site of its operand.
    fn inside_of_reduction(&mut self, position: usize, site: &Use) -> Use {
        let graph = self.graph;
        let Some(reduced) = graph.nodes[position].reduced_axes() else { return site.clone() };
        // Components of one state that are asked for at one site are found by the same loops.
        let state = graph.nodes[position].first_component().map(|first| (first, site.clone()));
        if let Some(known) = state.as_ref().and_then(|state| self.states.get(state)) {
            return Use { group: site.group, ..known.clone() };
        }
        let operand = &graph.nodes[graph.src[position][0] as usize];
        let mut within = self.open_around(site);
        let left = self.loops_left(position, site);
        within.outer &= !left;
        let mut kept = site.axes.iter();
        let mut axes: SmallVec<[AxisIndex; 4]> = SmallVec::new();
        for (axis, dim) in operand.shape().iter().enumerate() {
            if !reduced.contains(&(axis as u8)) {
                axes.push(kept.next().cloned().unwrap_or_else(AxisIndex::zero));
            } else if dim.is(1) {
                axes.push(AxisIndex::zero());
            } else {
                let number = self.loops.len() as u32;
                let len = dim.max_value() as f64;
                self.loops.push(ReductionLoop { len, within: within.clone(), keeps: false, is_of_blocks: left != 0 });
                within.join(&Dependence { outer: 0, loops: smallvec::smallvec![number] });
                axes.push(AxisIndex::reduction(number));
            }
        }
        let contraction = self.contraction_ops(position);
        let work = self.costs[position].reduce_ops;
        let group = self.groups.get(site.group);
        group.ops += 1.0;
        group.work += work;
        group.contraction_ops = group.contraction_ops.max(contraction);
        let below = Use { group: site.group, axes, gate: site.gate.clone(), share: site.share };
        if let Some(state) = state {
            self.states.insert(state, below.clone());
        }
        below
    }

    /// Gives the node memory, and a group that stores it: one that asks for it at the same index, if it may.
    pub(super) fn store(&mut self, position: usize, uses: SmallVec<[Use; 1]>, reason: &str) {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let group = self.groups.add(OuterLoops::of_store(node.shape()));
        self.stored[position] = group;
        self.groups.get(group).is_alone = matches!(node.op(), Op::Scan | Op::Fetch | Op::Place);
        self.groups.get(group).is_step_by_step = walks_along_memory(node);
        // Its loops are opened below, when it is known whether a user's kernel is theirs too.
        self.groups.get(group).contraction_ops = self.contraction_ops(position);
        let own = Use::of_store(group, node.shape());
        let users = Self::groups_of(&uses);
        let mut sites_of: FxHashMap<u32, SmallVec<[&Use; 2]>> = FxHashMap::default();
        uses.iter().for_each(|site| sites_of.entry(site.group).or_default().push(site));
        // All loads first: a user that joins must not wait for another user.
        for &user in &users {
            self.groups.add_read(user, group);
        }
        if let Some(&write) = graph.overwriters.get(&(position as u32)) {
            self.groups.add_order(self.stored[write as usize], group);
        }
        let mut refused = "it is asked for at other sites than it is stored at";
        let mut inside: SmallVec<[Use; 1]> = smallvec::smallvec![own.clone()];
        for &user in &users {
            let sites = &sites_of[&user];
            // Users write `contiguous` to keep kernels apart; a stage of a reduction is one of its own for the same reason.
            let apart = !self.fuse || node.op() == Op::Contiguous;
            let ops = self.groups.get(user).ops + self.costs[position].own_ops;
            let joins = !apart && ops <= cost::KERNEL_OPS_MAX as f64 && self.pays_to_join(position, sites, &own);
            let joins = joins && !self.joined_reads_too_late(position, &inside, sites, user);
            if apart {
                refused = "it was asked to be apart";
                continue;
            }
            if !joins && !self.talks {
                continue;
            }
            match self.groups.why_not_join(user, group) {
                Ok(outer) if joins => {
                    self.groups.merge(user, group, outer);
                    inside.extend(sites.iter().map(|site| (*site).clone()));
                }
                Ok(_) => {}
                Err(why) => refused = why,
            }
        }
        drop(sites_of);
        let group = self.groups.find(group);
        if self.talks {
            let joined = users.iter().any(|&user| self.groups.find(user) == group);
            let text = match (joined, users.is_empty()) {
                (true, _) => format!("stored, by a kernel that uses it: {reason}"),
                (false, true) => format!("stored: {reason}"),
                (false, false) => format!("stored: {reason}; apart from who uses it: {refused}"),
            };
            self.tell(position, &text);
        }
        inside.iter_mut().for_each(|site| site.group = group);
        let inside = each_once(inside);
        self.inline(position, inside);
    }

    /// Whether a kernel that stores the node and is joined by a user would read what it replaces itself. It computes the node, and does not load it, at
    /// the sites of this user and at those of the users that have joined before. The user may be the one that replaces; if one that joined before is, the user
    /// loads the node and so needs that kernel.
    fn joined_reads_too_late(&mut self, position: usize, joined: &[Use], sites: &[&Use], user: u32) -> bool {
        if !self.graph.guards.contains_key(&(position as u32)) {
            return false;
        }
        let mut computed = joined.iter().chain(sites.iter().copied());
        let group = self.groups.find(user);
        computed.any(|site| self.reads_too_late(position, &Use { group, ..site.clone() }))
    }

    pub(super) fn tell(&mut self, position: usize, reason: &str) {
        let node = &self.graph.nodes[position];
        let about = match node.arg() {
            Arg::Reduce(..) | Arg::ReduceState(..) => {
                let name = match node.arg() {
                    Arg::ReduceState(component, _) => component.combiner.name(),
                    Arg::Reduce(op, _) => op.name(),
                    _ => "",
                };
                let axes: Vec<String> = node.reduced_axes().into_iter().flatten().map(u8::to_string).collect();
                format!("reduce {name} over {} of {}", axes.join(","), node.src()[0].shape())
            }
            _ => format!("{} {}", node.op(), node.shape()),
        };
        self.watch.report(Report::Decision { topic: Topic::Fusion, about: &about, reason });
    }
}

/// Whether a node is a scan or a scatter along the last axis that has more than one element.
pub(super) fn walks_along_memory(node: &UOp) -> bool {
    let (shape, axis) = match node.arg() {
        Arg::Scan(_, axis) | Arg::ScanState(_, axis) => (node.shape(), *axis),
        Arg::Scatter(_, axis) if node.op() == Op::Write => (node.src()[1].shape(), *axis),
        _ => return false,
    };
    shape.iter().skip(axis as usize + 1).all(|len| len.is(1))
}

/// The things in the order in which they first stand.
pub(super) fn each_once<T: Clone + Eq + std::hash::Hash, A: smallvec::Array<Item = T>>(
    mut things: SmallVec<A>,
) -> SmallVec<A> {
    if things.len() <= FEW {
        let mut distinct: SmallVec<A> = SmallVec::new();
        for thing in things {
            if !distinct.contains(&thing) {
                distinct.push(thing);
            }
        }
        return distinct;
    }
    let mut seen = FxHashSet::default();
    things.retain(|thing| seen.insert(thing.clone()));
    things
}

/// So many things are compared with each other faster than they are hashed.
const FEW: usize = 16;
