//! Materializing: a value that a kernel needs several times is computed once and kept in scratch memory inside of its loops.
//!
//! The third way besides computing a value wherever it is asked for and storing it in memory. Its sites must agree in some axes,
//! the *fixed* ones, whose indices name outer loops alone; along all others, the *kept* axes, it is computed in one go, inside of the
//! loops of the fixed axes. So the scores of one query are kept for their maximum, their exponentials and their sum:
//!
//! ```text
//! for each query { for each key { store score }; max over keys; for each key { store power }; sum over keys; for each d { .. } }
//! ```
//!
//! A loop over the blocks of a reduction may stand outside of outer loops too (`streams`): then a value is kept for one block.
//!
//! It may be kept where the fixed loops can stand outermost, the sites always exist (no padding in between; a gather may say where along the kept axes), and the memory is
//! small. Because everything inside is walked once for each iteration of the fixed loops, what is read there again and again has a price if it
//! does not stay in cache: the *working set*, as many bytes as the kept value has, times the length of the contraction that makes or uses it.
//!
//! Not here: whether it pays (`fuse`), how it is lowered (`lower::tensors`).

use smallvec::SmallVec;

use super::fuse::Fusion;
use super::loop_model::{Dependence, ReductionLoop};
use super::use_site::{AxisIndex, Use};
use crate::ir::Axes;

/// How a value would be kept.
pub(super) struct MaterializePlan {
    /// Axes that are computed in one go.
    pub(super) axes: Axes,
    /// The loops of the other axes.
    pub(super) fixed: Dependence,
    /// How often the value is computed, over the whole kernel.
    pub(super) evaluations: f64,
    /// Bytes of scratch memory.
    pub(in crate::schedule) bytes: f64,
    /// Iterations of the loops around it.
    pub(super) rows: f64,
    /// Bytes beside it that do not stay in the cache of one core from one iteration to the next, over the whole kernel.
    pub(super) read_again: f64,
}

impl Fusion<'_> {
    /// How a node that is asked for at these sites could be kept, or why it cannot be.
    pub(super) fn plan_to_materialize(
        &mut self,
        position: usize,
        uses: &[Use],
    ) -> Result<MaterializePlan, &'static str> {
        let Some(first) = uses.first() else { return Err("nobody asks for it") };
        if uses.iter().any(|site| site.group != first.group) {
            return Err("several kernels ask for it");
        }
        if uses.iter().any(|site| site.gate.is_padded) {
            return Err("padding stands between");
        }
        if self.graph.guards.contains_key(&(position as u32)) {
            return Err("it reads what a write replaces");
        }
        let (mut plan, kept_len) = self.fixed_and_kept_axes(position, first, uses);
        if plan.axes.is_empty() {
            return Err("all sites are the same");
        }
        plan.bytes *= kept_len;
        // What is asked for where a tensor says is kept whole, along that axis.
        let mut fixed = (0..first.axes.len()).filter(|axis| !plan.axes.contains(&(*axis as u8)));
        if !first.gate.is_zero() && fixed.any(|axis| !first.axes[axis].always_exists()) {
            return Err("a tensor says which of it there are");
        }
        let outer = &self.groups.get(first.group).outer;
        if !outer.can_pin(plan.fixed.outer) {
            return Err("its loops cannot stand outermost");
        }
        // Where the innermost outer loop becomes lanes, a vector is kept at each site.
        let scratch =
            if outer.names_last(plan.fixed.outer) { plan.bytes * self.graph.model.vector_lanes } else { plan.bytes };
        if scratch + self.groups.get(first.group).scratch > self.graph.model.scratch_bytes {
            return Err("it would take too much scratch memory");
        }
        let blocks: f64 = plan.fixed.loops.iter().map(|&number| self.loops[number as usize].len).product();
        plan.rows = self.groups.get(first.group).outer.count_pinned(plan.fixed.outer) * blocks;
        plan.evaluations = plan.rows * kept_len;
        let mut contraction: f64 = self.costs[position].contraction_len;
        for site in uses {
            let reads = self.evaluations(site).max(plan.evaluations);
            contraction = contraction.max(reads / plan.evaluations);
        }
        let is_leading = plan.fixed.outer & (plan.fixed.outer + 1) == 0;
        if self.costs[position].contraction_ops > self.graph.model.small_contraction_ops && !is_leading {
            return Err("a big contraction does not change the order of the outer loops");
        }
        if contraction * plan.bytes > self.graph.model.working_set_bytes {
            plan.read_again = contraction * plan.bytes * plan.rows / self.graph.model.rows_shared;
        }
        Ok(plan)
    }

    /// A plan with the axes in which all sites agree, outside of loops that a reduction opens, as fixed ones; and the count of elements along the others.
    fn fixed_and_kept_axes(&self, position: usize, first: &Use, uses: &[Use]) -> (MaterializePlan, f64) {
        let node = &self.graph.nodes[position];
        let mut plan = MaterializePlan {
            axes: Axes::new(),
            fixed: Dependence::default(),
            evaluations: 0.0,
            bytes: node.dtype().bytes() as f64,
            rows: 1.0,
            read_again: 0.0,
        };
        let mut kept_len = 1.0;
        for (axis, dim) in node.shape().iter().enumerate().filter(|(_, dim)| !dim.is(1)) {
            let index = &first.axes[axis];
            let agree = uses.iter().all(|site| site.axes[axis].key == index.key);
            let stands_outside = index.loops.loops.iter().all(|&number| self.loops[number as usize].is_of_blocks);
            if agree && stands_outside {
                plan.fixed.join(&index.loops);
                index
                    .loops
                    .loops
                    .iter()
                    .for_each(|&number| plan.fixed.outer |= self.loops[number as usize].within.outer);
            } else {
                plan.axes.push(axis as u8);
                kept_len *= dim.max_value() as f64;
            }
        }
        (plan, kept_len)
    }

    /// Keeps the node: opens the loops that compute it, and hands the one site inside of them down to its operands.
    pub(super) fn materialize(&mut self, position: usize, uses: &[Use], plan: MaterializePlan) {
        let graph = self.graph;
        let mut site = Use { gate: AxisIndex::zero(), ..uses[0].clone() };
        let group = self.groups.get(site.group);
        group.outer.pin(plan.fixed.outer);
        group.scratch += plan.bytes;
        let mut within = plan.fixed.clone();
        within.outer = group.outer.open_around(within.outer);
        for &axis in &plan.axes {
            let number = self.loops.len() as u32;
            let len = graph.nodes[position].shape()[axis as usize].max_value() as f64;
            self.loops.push(ReductionLoop { len, within: within.clone(), keeps: true, is_of_blocks: false });
            within.join(&Dependence { outer: 0, loops: smallvec::smallvec![number] });
            site.axes[axis as usize] = AxisIndex::reduction(number);
        }
        self.kept.insert(position as u32, plan.axes);
        let site: SmallVec<[Use; 1]> = smallvec::smallvec![site];
        self.inline(position, site);
    }

    /// Whether a site stands in loops that compute a kept value.
    pub(super) fn is_in_kept(&self, site: &Use) -> bool {
        site.dependence().loops.iter().any(|&number| self.loops[number as usize].keeps)
    }
}
