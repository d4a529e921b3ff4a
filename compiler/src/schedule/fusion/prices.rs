//! What it costs to compute a value where it is asked for, to store it, or to keep it in scratch; the cheapest is taken.
//!
//! Prices are nanoseconds by the model of the target ([`loop_model`](super::loop_model)): ops, bytes of memory and of caches, launches, and
//! what kernels with little to share out among threads wait. A float sum or product that is asked for at several sites is never
//! computed at each: the loops of each site would add in an order of their own. A contraction loses its register tile where its results are not asked for as
//! neighbours (`is_scattered`); what that costs stands against the store and the launch of a kernel of its own.
//! Tested by `tests/filetests/schedule/fusion.uop`, `contractions.uop` and the counts of kernels (`it kernel_counts`).

use smallvec::SmallVec;

use super::cost;
use super::fuse::{Fusion, each_once};
use super::loop_model::OuterLoops;
use super::materialize::MaterializePlan;
use super::use_site::{AxisIndex, Use};
use crate::ir::{Arg, Op, ReduceOp, UOp};

/// What keeping a value must gain at the least, of the work of its kernel: it fixes the order of the outer loops, and what else the kernel
/// computes is then laid out in fewer ways.
const KEPT_GAIN_MIN: f64 = 0.02;
/// Different sites at which a value may be asked for before it is stored whatever that costs.
const USES_MAX: usize = 16;

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
    pub(super) fn decide_elementwise(&mut self, position: usize, mut uses: SmallVec<[Use; 1]>) {
        let cost = self.costs[position];
        let elements = self.graph.numel[position].max(1.0);
        let has_lanes = self.has_lanes(&uses);
        if uses.len() == 1 && has_lanes && self.evaluations(&uses[0]) <= 1.25 * elements {
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
        // A loop with a reduction in it is not cut at padding everywhere.
        let evaluations: f64 = match cost.is_reduction {
            true => uses.iter().map(|site| self.evaluations(site)).sum(),
            false => uses.iter().map(|site| self.evaluations_within(site)).sum(),
        };
        let repeats = if cost.is_reduction { evaluations / elements } else { 1.0 };
        // One op of each evaluation is spent on the load when the value is stored.
        let ops = (cost.ops - 1.0).max(0.0);
        let gathered: f64 = uses.iter().map(|site| self.gathered_loads(position, site)).sum();
        let loss = if has_lanes { 1.0 } else { cost::STEP_OPS_LOSS };
        let computing = evaluations * ops * loss + gathered + repeats.max(1.0) * cost.reduce_ops;
        let once = elements * ops + cost.reduce_ops;
        if uses.len() == 1 && has_lanes && evaluations <= 1.25 * elements {
            return self.inline(position, uses);
        }
        let prices = self.prices(position, &uses, computing, once);
        self.take_cheapest(position, uses, prices);
    }

    /// Whether all kernels that ask for a value can compute it in lanes.
    fn has_lanes(&mut self, uses: &[Use]) -> bool {
        !uses.iter().any(|site| self.groups.get(site.group).is_step_by_step)
    }

    /// What loads cost more where a tensor says which elements of rows they are, so that they do not lie beside each other.
    fn gathered_loads(&mut self, position: usize, site: &Use) -> f64 {
        if !site.axes.last().is_some_and(|index| index.is_gathered) {
            return 0.0;
        }
        let apart = (cost::weight(Op::Gather) - 1) as f64;
        self.evaluations_within(site) * self.costs[position].loads * apart
    }

    pub(super) fn decide_reduction(&mut self, position: usize, mut uses: SmallVec<[Use; 1]>) {
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
        let mut lost_terms = 0.0;
        for site in &uses {
            let open = self.open_around(site);
            let evaluations = self.count(site.group, &open);
            let repeats = (evaluations / elements).max(1.0);
            let loss = if self.has_lanes(std::slice::from_ref(site)) { 1.0 } else { cost::STEP_OPS_LOSS };
            computing += cost.reduce_ops * repeats * loss;
            let group = self.groups.get(site.group);
            waits += self.graph.model.waiting(cost.reduce_ops + group.work, group.outer.count(open.outer));
            if self.is_scattered(site) {
                lost_terms += cost::SCATTERED_CONTRACTION_LOSS * repeats * self.contraction_terms(position);
            }
        }
        let mut prices = self.prices(position, &uses, computing, cost.reduce_ops);
        prices.inlined_ns += waits / self.graph.model.ops_per_ns + lost_terms / self.graph.model.terms_per_ns;
        let model = &self.graph.model;
        if lost_terms > 0.0 && self.graph.bytes(position) < model.cached_bytes {
            let moved = (1 + Self::groups_of(&uses).len()) as f64 * self.graph.bytes(position);
            prices.stored_ns += moved / model.shared_cache_bytes_per_ns - moved / model.bytes_per_ns;
        }
        if uses.len() > 1 && depends_on_order(&self.graph.nodes[position]) {
            prices.inlined_ns = f64::INFINITY;
        }
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
            // Where a contraction reads what is kept, a tile of rows is kept; where it is only reduced, each row stands alone.
            let feeds_contraction = self.groups.get(uses[0].group).contraction_ops > 0.0;
            let part = if feeds_contraction { cost::CONTRACTION_GAIN } else { cost::SCATTERED_CONTRACTION_LOSS };
            gain = part * self.costs[position].contraction_ops / self.graph.model.terms_per_ns;
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

    /// A reason to store a reduction that is not a matter of its price.
    fn why_stored(&mut self, position: usize, uses: &[Use]) -> Option<&'static str> {
        let cost = self.costs[position];
        let model = &self.graph.model;
        let (merged, big) = (model.merged_contraction_ops, model.big_contraction_ops);
        let ops = if self.is_contraction(position) { cost.reduce_ops } else { 0.0 };
        for site in uses {
            // Of two neighbours neither feeds the other. What feeds a reduction may be worth more where it is: it is asked for row by row.
            let is_neighbour = site.dependence().loops.is_empty();
            let most = if is_neighbour { merged } else { big };
            let group = self.groups.get(site.group);
            if group.ops + cost.ops > cost::KERNEL_OPS_MAX as f64 {
                return Some("its kernel grows too long");
            }
            // What is kept has loops of its own, one after the other: they do not compete for registers.
            if ops > most && group.contraction_ops > most && !self.is_in_kept(site) {
                return Some(match is_neighbour {
                    true => "its kernel holds another contraction, which wants all registers",
                    false => "its kernel holds a big contraction already, which wants all registers",
                });
            }
        }
        None
    }

    /// Whether a reduction reads its inputs several times over, as a matmul does. States are combined, not multiplied.
    pub(super) fn is_contraction(&self, position: usize) -> bool {
        if matches!(self.graph.nodes[position].arg(), Arg::ReduceState(..)) {
            return false;
        }
        let operand = self.graph.src[position][0] as usize;
        self.graph.bytes(operand) > cost::CONTRACTION_REREADS * self.costs[operand].leaf_bytes
    }

    /// Whether a tile of the results asked for at a site would be scattered: the site stands in the loops of another reduction, other than loops over blocks,
    /// which stand outside of tiles, and those of a kept value; or in a scan or a scatter, which walks its loop step by step; or a tensor says which it is, or
    /// padding whether there is any.
    fn is_scattered(&mut self, site: &Use) -> bool {
        let loops = site.dependence().loops;
        let mut loops = loops.iter().map(|&number| &self.loops[number as usize]);
        let is_nested = !self.is_in_kept(site) && loops.any(|reduction| !reduction.is_of_blocks);
        let is_chosen = site.gate.is_padded || site.axes.iter().any(|index| index.is_gathered);
        let lanes = self.graph.model.vector_lanes;
        let group = self.groups.get(site.group);
        is_nested || is_chosen || group.is_alone || is_interleaved(site, &group.outer, lanes)
    }

    /// Terms that a contraction sums, whether it is stored or not; 0 for all else.
    fn contraction_terms(&self, position: usize) -> f64 {
        let is_contraction = self.graph.nodes[position].reduced_axes().is_some() && self.is_contraction(position);
        if is_contraction { self.graph.numel[self.graph.src[position][0] as usize] } else { 0.0 }
    }

    /// Ops of a contraction, whether it is stored or not; 0 for all else.
    pub(super) fn contraction_ops(&self, position: usize) -> f64 {
        if self.graph.nodes[position].reduced_axes().is_none() || !self.is_contraction(position) {
            return 0.0;
        }
        let operand = self.graph.src[position][0] as usize;
        self.graph.numel[operand] * (self.costs[operand].ops + 1.0)
    }

    /// Whether a kernel that asks for a stored value should store it itself: it asks at the very index of the store, or computing
    /// it again costs less than loading it in a second kernel.
    pub(super) fn pays_to_join(&mut self, position: usize, sites: &[&Use], own: &Use) -> bool {
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
}

/// Whether results that would be lanes come in an order in which few lie beside each other, as channels that become pixels of 2 x 2 do.
fn is_interleaved(site: &Use, outer: &OuterLoops, lanes: f64) -> bool {
    let Some(last) = outer.lens.len().checked_sub(1) else { return false };
    let own = 1 << last;
    let is_part = |index: &AxisIndex| index.loops.outer & own != 0 && index.loops.outer != own;
    outer.count(own) < lanes && site.axes.iter().any(is_part)
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

fn times(count: usize) -> String {
    match count {
        1 => "at its one site".to_string(),
        count => format!("at its {count} sites"),
    }
}
