//! The fusion heuristic: which values get memory of their own, and which stored values share a kernel.
//!
//! Nodes are visited users first. When a node is visited, every site where a kernel asks for it is known ([`Use`]), and it is
//! either computed where it is asked for (*inlined*, once for each different site), *kept* in scratch memory inside of the kernel that
//! asks for it (`materialize`), or *stored* by a kernel of its own group and loaded where it is asked for. Outputs and `contiguous` must be stored; a movement op is only where an index would grow too long
//! (`indices`); of all else the
//! cheaper is taken, in the units of [`cost`]:
//!
//! - inlined, a value costs its ops at each site, as often as the loops open there make it, and a reduction inside of another's
//!   loop repeats all of it; kernels that inline it each load its inputs;
//! - kept, it costs its ops once for each iteration of the loops around it, and its bytes through the nearest cache;
//! - stored, it costs a launch, and its bytes written once and read by each kernel.
//!
//! A float sum or product that is asked for at several sites is never inlined: the loops of each site would add in an order of
//! their own, and one value would have several results.
//!
//! A group that stores a value and a group that asks for it at the same index of the same loops become one kernel with two
//! stores. So do groups that read the same big input along shared leading loops, and small kernels over equal loops.
//!
//! What writes to memory in place demand of a kernel is asked of `fuse_writes`.
//!
//! Always: groups do not need each other in a circle (`groups`); the result depends on the graph alone.
//! Not here: whether the result is legal (`check`), what kernels look like (`split`).

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::cost::{self, Cost};
use super::graph::Graph;
use super::groups::Groups;
use super::loop_model::{AxisIndex, Dependence, OuterLoops, ReductionLoop, Use};
use super::materialize::MaterializePlan;
use crate::ir::{Arg, Axes, Dim, Op, ReduceOp, UOp};
use crate::watch::{Report, Silent, Topic, Watch};

/// No kernel stores the node.
pub(super) const NOT_STORED: u32 = u32::MAX;

/// What keeping a value must gain at the least, of the work of its kernel: it fixes the order of the outer loops, and what else the kernel
/// computes is then laid out in fewer ways.
const KEPT_GAIN_MIN: f64 = 0.02;

/// Groups that are asked whether they can share a kernel because of one input.
const PARTNERS_MAX: usize = 6;
/// Users of more sites than this are not asked whether they can share a kernel: each would be compared with each.
const MERGED_USES_MAX: usize = 256;
/// Different sites at which a value may be asked for before it is stored whatever that costs.
const USES_MAX: usize = 16;

/// What was decided.
pub(super) struct Fused {
    /// Which kernel stores each node, by position; [`NOT_STORED`] for those that none does. Kernels are not numbered densely.
    pub(super) stored: Vec<u32>,
    /// The axes along which values that no kernel stores are kept in scratch memory, by position.
    pub(super) kept: FxHashMap<u32, Axes>,
}

/// Decides for each node of a program.
pub(super) fn fuse(graph: &Graph, fuse: bool, watch: &mut dyn Watch) -> Fused {
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
    pub(super) fuse: bool,
    pub(super) groups: Groups,
    pub(super) loops: Vec<ReductionLoop>,
    /// Where the operands of a state are asked for, by its first component and where that is.
    states: FxHashMap<(UOp, Use), Use>,
    /// A kernel that asks for a component of a state, by its first component and where that is asked for, in any kernel.
    askers: FxHashMap<(UOp, Use), u32>,
    pub(super) uses: Vec<SmallVec<[Use; 1]>>,
    pub(super) stored: Vec<u32>,
    pub(super) kept: FxHashMap<u32, Axes>,
    /// For each write, the site of its memory that it replaces.
    pub(super) targets: FxHashMap<u32, Use>,
    watch: &'a mut dyn Watch,
    pub(super) talks: bool,
}

/// What it costs to inline a node at its uses, to store it, and to keep it if that is possible.
struct Prices {
    inlined_ns: f64,
    stored_ns: f64,
    kept: Result<(f64, MaterializePlan), &'static str>,
}

impl Prices {
    fn text(&self, sites: usize) -> String {
        let kept = match &self.kept {
            Ok((kept_ns, plan)) => format!("keeping it {kept_ns:.0} ns and {} bytes", plan.bytes),
            Err(reason) => format!("it cannot be kept: {reason}"),
        };
        let (inlined, stored) = (self.inlined_ns, self.stored_ns);
        format!("computing it {} costs {inlined:.0} ns, storing it {stored:.0} ns, {kept}", times(sites))
    }
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

    /// The loops that are open where a value asked for at this site is computed.
    fn open_around(&mut self, site: &Use) -> Dependence {
        let needed = site.dependence();
        let mut open = needed.clone();
        for &number in &needed.loops {
            open.join(&self.loops[number as usize].within);
        }
        open.outer = self.groups.get(site.group).outer.open_around(open.outer);
        open
    }

    fn count(&mut self, group: u32, loops: &Dependence) -> f64 {
        let inner: f64 = loops.loops.iter().map(|&number| self.loops[number as usize].len).product();
        self.groups.get(group).outer.count(loops.outer) * inner
    }

    pub(super) fn groups_of(uses: &[Use]) -> SmallVec<[u32; 4]> {
        each_once(uses.iter().map(|site| site.group).collect())
    }

    fn decide_elementwise(&mut self, position: usize, mut uses: SmallVec<[Use; 1]>) {
        let cost = self.costs[position];
        let elements = self.graph.numel[position].max(1.0);
        if uses.len() == 1 && self.evaluations(&uses[0]) <= 1.25 * elements {
            return self.inline(position, uses);
        }
        if Self::groups_of(&uses).len() > 1 {
            uses = self.merge_users(uses);
            if uses.iter().any(|site| self.reads_too_late(position, site)) {
                return self.store(position, uses, "it reads what a write of a kernel replaces");
            }
        }
        if cost.is_reduction {
            self.pin(&uses);
        }
        let evaluations: f64 = uses.iter().map(|site| self.evaluations(site)).sum();
        let repeats = if cost.is_reduction { evaluations / elements } else { 1.0 };
        // One op of each evaluation is spent on the load when the value is stored.
        let ops = (cost.ops - 1.0).max(0.0);
        let computing = evaluations * ops + repeats.max(1.0) * cost.reduce_ops;
        let once = elements * ops + cost.reduce_ops;
        if uses.len() == 1 && evaluations <= 1.25 * elements {
            return self.inline(position, uses);
        }
        let prices = self.prices(position, &uses, computing, once);
        self.take_cheapest(position, uses, prices);
    }

    fn take_cheapest(&mut self, position: usize, uses: SmallVec<[Use; 1]>, prices: Prices) {
        if uses.len() > USES_MAX {
            return self.store(position, uses, "it is asked for at too many sites");
        }
        let best = prices.inlined_ns.min(prices.stored_ns);
        // Inside of a loop over blocks a tile of rows shares what a contraction reads, and it runs as well as in a kernel of its own; the order of the loops
        // is fixed by the blocks.
        let (mut gain, mut fixing) = (0.0, 0.0);
        if matches!(&prices.kept, Ok((_, plan)) if plan.fixed.loops.is_empty()) {
            gain = cost::CONTRACTION_GAIN * self.costs[position].contraction_ops / self.graph.model.terms_per_ns;
            fixing = KEPT_GAIN_MIN * self.groups.get(uses[0].group).work / self.graph.model.ops_per_ns;
        }
        if matches!(prices.kept, Ok((kept_ns, _)) if kept_ns + gain + fixing < best) {
            return self.keep_for(position, uses, prices);
        }
        if prices.inlined_ns <= prices.stored_ns {
            self.inline(position, uses);
        } else {
            self.store_for(position, uses, &prices);
        }
    }

    fn prices(&mut self, position: usize, uses: &[Use], computing: f64, once: f64) -> Prices {
        let kernels = Self::groups_of(uses).len() as f64;
        let input_bytes = self.costs[position].input_bytes;
        let bytes = self.graph.bytes(position);
        let inlined_ns =
            computing / self.graph.model.ops_per_ns + kernels * input_bytes / self.graph.model.bytes_per_ns;
        let writes = if bytes < self.graph.model.large_bytes { 1.0 } else { 1.0 + self.graph.model.large_writes };
        let stored_ns = once / self.graph.model.ops_per_ns
            + (input_bytes + (writes + kernels) * bytes) / self.graph.model.bytes_per_ns
            + self.graph.model.launch_ns;
        let kept = self
            .plan_to_materialize(position, uses)
            .map(|plan| (self.price_of_materializing(position, uses, &plan), plan));
        Prices { inlined_ns, stored_ns, kept }
    }

    fn price_of_materializing(&mut self, position: usize, uses: &[Use], plan: &MaterializePlan) -> f64 {
        let cost = self.costs[position];
        let elements = self.graph.numel[position].max(1.0);
        let repeats = if cost.is_reduction { (plan.evaluations / elements).max(1.0) } else { 1.0 };
        let computing = plan.evaluations * (cost.ops - 1.0).max(0.0) + repeats * cost.reduce_ops;
        let work = self.groups.get(uses[0].group).work + cost.reduce_ops;
        // Written once and read by each user; that a contraction reads it over and over costs the same from memory.
        let moves = plan.evaluations * (1 + uses.len()) as f64;
        let moved = moves * self.graph.nodes[position].dtype().bytes() as f64;
        (computing + self.graph.model.waiting(work, plan.rows)) / self.graph.model.ops_per_ns
            + cost.input_bytes / self.graph.model.bytes_per_ns
            + moved / self.graph.model.scratch_bytes_per_ns
            + plan.read_again / self.graph.model.shared_cache_bytes_per_ns
    }

    /// Lets the loops that a value with a reduction below depends on stand outermost, where they can.
    fn pin(&mut self, uses: &[Use]) {
        for site in uses {
            let needed = site.dependence();
            if needed.loops.is_empty() && self.groups.get(site.group).outer.can_pin(needed.outer) {
                self.groups.get(site.group).outer.pin(needed.outer);
            }
        }
    }

    fn decide_reduction(&mut self, position: usize, mut uses: SmallVec<[Use; 1]>) {
        let cost = self.costs[position];
        let elements = self.graph.numel[position].max(1.0);
        if Self::groups_of(&uses).len() > 1 {
            uses = self.merge_users(uses);
            if uses.iter().any(|site| self.reads_too_late(position, site)) {
                return self.store(position, uses, "it reads what a write of a kernel replaces");
            }
        }
        uses.iter_mut().for_each(|site| self.share_state(position, site));
        let uses = each_once(uses);
        self.pin(&uses);
        if let Some(reason) = self.why_stored(position, &uses) {
            return self.store(position, uses, reason);
        }
        let mut computing = 0.0;
        let mut waits = 0.0;
        for site in &uses {
            let open = self.open_around(site);
            let evaluations = self.count(site.group, &open);
            computing += cost.reduce_ops * (evaluations / elements).max(1.0);
            let group = self.groups.get(site.group);
            waits += self.graph.model.waiting(cost.reduce_ops + group.work, group.outer.count(open.outer));
        }
        let mut prices = self.prices(position, &uses, computing, cost.reduce_ops);
        prices.inlined_ns += waits / self.graph.model.ops_per_ns;
        if uses.len() > 1 && depends_on_order(&self.graph.nodes[position]) {
            prices.inlined_ns = f64::INFINITY;
        }
        self.take_cheapest(position, uses, prices);
    }

    /// Makes one kernel of those that ask for components of one state at the same index of the same loops, so that what it is made of is read once.
    fn share_state(&mut self, position: usize, site: &mut Use) {
        let Some(first) = self.graph.nodes[position].first_component() else { return };
        if !site.dependence().loops.is_empty() {
            return;
        }
        let anywhere = (first.clone(), Use { group: 0, ..site.clone() });
        let Some(&other) = self.askers.get(&anywhere) else {
            self.askers.insert(anywhere, site.group);
            return;
        };
        let (other, own) = (self.groups.find(other), self.groups.find(site.group));
        if other == own || !self.try_merge(other, own) {
            return;
        }
        let below = self.states.get(&(first.clone(), Use { group: other, ..site.clone() })).cloned();
        site.group = self.groups.find(own);
        if let Some(below) = below {
            self.states.insert((first, site.clone()), Use { group: site.group, ..below });
        }
        if self.talks {
            self.tell(position, "computed by the kernel that computes another component of its state");
        }
    }

    /// A reason to store a reduction that is not a matter of its price.
    fn why_stored(&mut self, position: usize, uses: &[Use]) -> Option<&'static str> {
        let cost = self.costs[position];
        let big = self.is_contraction(position) && cost.reduce_ops > self.graph.model.big_contraction_ops;
        for site in uses {
            let group = self.groups.get(site.group);
            if group.ops + cost.ops > cost::KERNEL_OPS_MAX as f64 {
                return Some("its kernel grows too long");
            }
            // What is kept has loops of its own, one after the other: they do not compete for registers.
            if big && group.contraction_ops > self.graph.model.big_contraction_ops && !self.is_in_kept(site) {
                return Some("its kernel holds a big contraction already, which wants all registers");
            }
        }
        None
    }

    /// Whether a reduction reads its inputs several times over, as a matmul does. States are combined, not multiplied.
    fn is_contraction(&self, position: usize) -> bool {
        if matches!(self.graph.nodes[position].arg(), Arg::ReduceState(..)) {
            return false;
        }
        let operand = self.graph.src[position][0] as usize;
        self.graph.bytes(operand) > cost::CONTRACTION_REREADS * self.costs[operand].leaf_bytes
    }

    /// Tries to make one kernel of those that ask for a node at the same index; gives the uses that are left.
    fn merge_users(&mut self, uses: SmallVec<[Use; 1]>) -> SmallVec<[Use; 1]> {
        if uses.len() > MERGED_USES_MAX {
            return uses;
        }
        let mut merged: SmallVec<[Use; 1]> = SmallVec::new();
        for mut site in uses {
            site.group = self.groups.find(site.group);
            let partners = merged.iter().filter(|other| other.axes == site.axes && other.gate == site.gate);
            let partners: SmallVec<[u32; 4]> = partners.map(|other| other.group).take(PARTNERS_MAX).collect();
            let is_outer = site.dependence().loops.is_empty();
            for partner in partners {
                let partner = self.groups.find(partner);
                if is_outer && partner != site.group {
                    self.try_merge(partner, site.group);
                    site.group = self.groups.find(site.group);
                }
            }
            merged.push(site);
        }
        merged.iter_mut().for_each(|site| site.group = self.groups.find(site.group));
        each_once(merged)
    }

    fn try_merge(&mut self, a: u32, b: u32) -> bool {
        match self.groups.why_not(a, b) {
            Ok(outer) => {
                self.groups.merge(a, b, outer);
                true
            }
            Err(_) => false,
        }
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
        let contraction = if self.is_contraction(position) { self.costs[position].reduce_ops } else { 0.0 };
        let work = self.costs[position].reduce_ops;
        let group = self.groups.get(site.group);
        group.ops += 1.0;
        group.work += work;
        group.contraction_ops = group.contraction_ops.max(contraction);
        let below = Use { group: site.group, axes, gate: site.gate.clone() };
        if let Some(state) = state {
            self.states.insert(state, below.clone());
        }
        below
    }

    fn store_for(&mut self, position: usize, uses: SmallVec<[Use; 1]>, prices: &Prices) {
        let reason = if self.talks { prices.text(uses.len()) } else { String::new() };
        self.store(position, uses, &reason);
    }

    fn keep_for(&mut self, position: usize, uses: SmallVec<[Use; 1]>, prices: Prices) {
        if self.talks {
            self.tell(position, &format!("kept in scratch: {}", prices.text(uses.len())));
        }
        if let Ok((_, plan)) = prices.kept {
            self.materialize(position, &uses, plan);
        }
    }

    /// Gives the node memory, and a group that stores it: one that asks for it at the same index, if it may.
    fn store(&mut self, position: usize, uses: SmallVec<[Use; 1]>, reason: &str) {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let group = self.groups.add(OuterLoops::of_store(node.shape()));
        self.stored[position] = group;
        self.groups.get(group).is_alone = node.op() == Op::Scan;
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
        for &user in &users {
            let sites = &sites_of[&user];
            // Users write `contiguous` to keep kernels apart; a stage of a reduction is one of its own for the same reason.
            let apart = !self.fuse || node.op() == Op::Contiguous;
            let ops = self.groups.get(user).ops + self.costs[position].own_ops;
            let joins = !apart && ops <= cost::KERNEL_OPS_MAX as f64 && self.pays_to_join(position, sites, &own);
            // A kernel that stores the value computes it at every site where it asks for it, and does not load it.
            let mut computed = std::iter::once(&own).chain(sites.iter().copied());
            let joins =
                joins && !computed.any(|site| self.reads_too_late(position, &Use { group: user, ..site.clone() }));
            if apart {
                refused = "it was asked to be apart";
                continue;
            }
            if !joins && !self.talks {
                continue;
            }
            match self.groups.why_not_join(user, group) {
                Ok(outer) if joins => drop(self.groups.merge(user, group, outer)),
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
        let mut inside: SmallVec<[Use; 1]> = SmallVec::new();
        for mut site in std::iter::once(own).chain(uses) {
            site.group = self.groups.find(site.group);
            if site.group == group && !inside.contains(&site) {
                inside.push(site);
            }
        }
        self.inline(position, inside);
    }

    /// Whether a kernel that asks for a stored value should store it itself: it asks at the very index of the store, or computing
    /// it again costs less than loading it in a second kernel.
    fn pays_to_join(&mut self, position: usize, sites: &[&Use], own: &Use) -> bool {
        let elsewhere: SmallVec<[&Use; 2]> =
            sites.iter().copied().filter(|site| site.axes != own.axes || site.gate != own.gate).collect();
        if elsewhere.is_empty() {
            return true;
        }
        let cost = self.costs[position];
        let source_ops = self.graph.src[position].iter().map(|&k| self.costs[k as usize].ops).fold(0.0, f64::max);
        let ops = cost.ops.max(source_ops);
        let repeats_reduction = self.graph.src[position].iter().any(|&k| self.costs[k as usize].is_reduction)
            || self.graph.nodes[position].op() == Op::Reduce;
        let shares_rows = elsewhere.iter().all(|site| site.axes.first() == own.axes.first()) && !own.axes.is_empty();
        let evaluations: f64 = elsewhere.iter().map(|site| self.evaluations(site)).sum();
        let again_ns = evaluations * ops / self.graph.model.ops_per_ns;
        let load_ns = self.graph.bytes(position) / self.graph.model.bytes_per_ns + self.graph.model.launch_ns;
        shares_rows && !repeats_reduction && again_ns < load_ns
    }

    /// Lets kernels that read the same big input share it, along leading loops that they have in common.
    fn share_input(&mut self, position: usize, uses: &[Use]) {
        if !self.fuse {
            return;
        }
        let mut leaders: SmallVec<[&Use; 4]> = SmallVec::new();
        for site in uses {
            let first = site.axes.iter().find(|index| !index.is_zero());
            let partner =
                leaders.iter().find(|leader| leader.axes.iter().find(|index| !index.is_zero()) == first).copied();
            match partner {
                Some(leader) if first.is_some_and(|index| *index == AxisIndex::outer(0)) => {
                    let (a, b) = (self.groups.find(leader.group), self.groups.find(site.group));
                    if a != b && self.try_merge(a, b) && self.talks {
                        self.tell(position, "read by one kernel instead of two, which share it");
                    }
                }
                _ if leaders.len() < PARTNERS_MAX => leaders.push(site),
                _ => {}
            }
        }
    }

    /// Makes one kernel of small ones over equal outer loops, which saves launches.
    fn merge_small(&mut self) {
        let mut open: FxHashMap<SmallVec<[Dim; 4]>, u32> = FxHashMap::default();
        for position in 0..self.graph.nodes.len() {
            if self.stored[position] == NOT_STORED {
                continue;
            }
            let group = self.groups.find(self.stored[position]);
            let small = self.graph.model.ops_per_ns * self.graph.model.launch_ns;
            if self.groups.get(group).work > small {
                continue;
            }
            let lens = self.groups.get(group).outer.lens.clone();
            let partner = open.get(&lens).copied().map(|partner| self.groups.find(partner));
            match partner {
                Some(partner) if partner == group => {}
                Some(partner) => {
                    let fits = self.groups.get(partner).work + self.groups.get(group).work <= small;
                    if !(fits && self.try_merge(partner, group)) {
                        open.insert(lens, group);
                    }
                }
                None => {
                    open.insert(lens, group);
                }
            }
        }
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

/// Whether a reduction's result depends on the order in which elements are combined: each loop nest has an order of its own, so that two
/// of them would make two results of one value.
fn depends_on_order(node: &UOp) -> bool {
    match node.arg() {
        Arg::Reduce(op, _) => node.dtype().is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul),
        Arg::ReduceState(component, _) => component.combiner.is_rounded(),
        _ => false,
    }
}

/// The things in the order in which they first stand.
fn each_once<T: Clone + Eq + std::hash::Hash, A: smallvec::Array<Item = T>>(mut things: SmallVec<A>) -> SmallVec<A> {
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

fn times(count: usize) -> String {
    match count {
        1 => "at its one site".to_string(),
        count => format!("at its {count} sites"),
    }
}
