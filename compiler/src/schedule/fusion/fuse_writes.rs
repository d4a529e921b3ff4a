//! Fusion where memory is written in place: what may be computed inside of the kernel of a write, and what must run before it.
//!
//! A node that reads an old version of memory must run before its *guard*, the write that replaces what it reads (`writes`). It may be
//! computed by the guard's own kernel if it reads each element at the very index at which that kernel replaces it, for a kernel loads
//! an element before it stores it; and then all stores of that kernel must stand in the same loops, so that no element is replaced
//! twice. It may not be computed by a kernel that needs the guard. Else it is given memory, and with it a kernel that can run in time.

use super::cost;
use super::fuse::{Fusion, walks_along_memory};
use super::loop_model::OuterLoops;
use super::use_site::Use;
use crate::ir::{Arg, Op, UOp};
use crate::schedule::writes::{may_meet, target_of};

impl Fusion<'_> {
    /// A write is a kernel's store into memory that exists; what it needs computed is its value, and that memory's last version.
    pub(super) fn write(&mut self, position: usize, uses: &[Use]) {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let value = graph.src[position][1];
        let shape = graph.nodes[value as usize].shape();
        let group = self.groups.add(OuterLoops::of_store(shape));
        self.stored[position] = group;
        self.groups.get(group).is_alone = matches!(node.arg(), Arg::Scatter(..));
        self.groups.get(group).is_step_by_step = walks_along_memory(node);
        for user in Self::groups_of(uses) {
            self.groups.add_read(user, group);
        }
        let own = Use::of_store(group, shape);
        let target = target_of(node);
        let site = site_in_base(&own, &target);
        self.keep_before_guards(position, group);
        let mut reason = "written in place".to_string();
        self.join_readers(position, uses, &site, &mut reason);
        self.keep_readers_apart(position, uses);
        self.targets.insert(position as u32, site);
        if let Some(&next) = graph.overwriters.get(&(position as u32)) {
            let after = self.groups.find(self.stored[next as usize]);
            let lies_apart = !may_meet(&target, &target_of(&graph.nodes[next as usize]));
            match self.groups.why_not(after, group) {
                Ok(outer) if self.fuse && lies_apart => {
                    self.groups.merge(after, group, outer);
                    reason.push_str(", by the kernel of a write to other elements of the same memory");
                }
                Err(why) if lies_apart => {
                    reason
                        .push_str(&format!(", apart from the next write, to other elements of the same memory: {why}"));
                }
                _ => {}
            }
            self.groups.add_order(after, group);
        }
        if self.talks {
            self.tell(position, &reason);
        }
        let group = self.groups.find(group);
        // A value, and where it is put: both are asked for in the loops over the value.
        for &operand in &graph.src[position][1..] {
            self.uses[operand as usize].push(Use { group, ..own.clone() });
        }
    }

    /// Makes the kernels that read what a write of all elements writes, each at the very index where it is written, kernels of the write.
    /// They use the value, and load nothing.
    fn join_readers(&mut self, position: usize, uses: &[Use], site: &Use, reason: &mut String) {
        let graph = self.graph;
        let value = graph.src[position][1] as usize;
        if !self.fuse || !writes_all(&graph.nodes[position]) {
            return;
        }
        let next = graph.overwriters.get(&(position as u32)).map(|&next| self.stored[next as usize]);
        for user in Self::groups_of(uses) {
            let reads_there = |read: &&Use| read.group == user;
            let at_site = |read: &Use| read.axes == site.axes && read.gate == site.gate;
            // Of two writes to one site in a kernel, it would not be said which comes last.
            let is_next = next.is_some_and(|next| self.groups.find(next) == self.groups.find(user));
            let joins = !is_next
                && uses.iter().filter(reads_there).all(at_site)
                && !self
                    .reads_too_late(position, &Use { group: user, ..Use::of_store(user, graph.nodes[value].shape()) })
                && self.groups.get(user).ops + self.costs[value].own_ops <= cost::KERNEL_OPS_MAX as f64;
            let group = self.stored[position];
            if joins && let Ok(outer) = self.groups.why_not_join(user, group) {
                self.groups.merge(user, group, outer);
                reason.push_str(", by a kernel that uses it");
            }
        }
    }

    /// Keeps the kernels that read what a write leaves in memory from becoming one with its kernel.
    fn keep_readers_apart(&mut self, position: usize, uses: &[Use]) {
        for user in Self::groups_of(uses) {
            self.groups.add_order(user, self.stored[position]);
        }
    }

    /// Whether computing the node at this site would read what has been, or may have been, replaced.
    pub(super) fn reads_too_late(&mut self, position: usize, site: &Use) -> bool {
        let graph = self.graph;
        let Some(reads) = graph.guards.get(&(position as u32)) else { return false };
        let node = &graph.nodes[position];
        reads.iter().any(|&(k, guard)| {
            let (group, writer) = (self.groups.find(site.group), self.groups.find(self.stored[guard as usize]));
            if group != writer {
                return self.groups.needs(group, writer);
            }
            // A reduction reads many elements for each that is stored, and what a scatter puts somewhere others may still ask for.
            let scatters = matches!(graph.nodes[guard as usize].arg(), Arg::Scatter(..));
            if scatters || node.op() == Op::Reduce || self.groups.get(group).is_mixed {
                return true;
            }
            let read = site_in_base(&site.of_operand(node, k), &node.src()[k]);
            let target = &self.targets[&guard];
            read.axes != target.axes || read.gate != target.gate
        })
    }

    /// Lets the kernels that replace what a node reads run after this kernel, which computes the node.
    pub(super) fn keep_before_guards(&mut self, position: usize, group: u32) {
        let Some(reads) = self.graph.guards.get(&(position as u32)) else { return };
        for &(_, guard) in reads {
            let writer = self.stored[guard as usize];
            if self.groups.find(writer) == self.groups.find(group) {
                self.groups.get(group).is_in_place = true;
            } else {
                self.groups.add_order(writer, group);
            }
        }
    }
}

/// Whether a write replaces all elements of its base, in their order.
pub(in crate::schedule) fn writes_all(write: &UOp) -> bool {
    let Arg::View(steps) = write.arg() else { return false };
    steps.iter().all(|(op, _)| *op == Op::Reshape)
}

/// The site in the base of a chain of movement ops of a site in the chain's result.
fn site_in_base(site: &Use, view: &UOp) -> Use {
    let (mut site, mut node) = (site.clone(), view);
    while node.op().is_movement() {
        site = site.of_operand(node, 0);
        node = &node.src()[0];
    }
    site
}
