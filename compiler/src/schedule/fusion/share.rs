//! Kernels that become one: because they ask for one value at the same index, for components of one state, for one big input, or
//! because they are small.
//!
//! Always: only kernels that may be one are merged (`Groups::why_not`), and what is tried is bounded, so that the time does not grow with the
//! square of the users.
//! Tested by `tests/filetests/schedule/fusion.uop` and the counts of kernels (`it kernel_counts`).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::fuse::{Fusion, NOT_STORED, each_once};
use super::use_site::{AxisIndex, Use};
use crate::ir::Dim;

/// Groups that are asked whether they can share a kernel because of one input.
const PARTNERS_MAX: usize = 6;
/// Users of more sites than this are not asked whether they can share a kernel: each would be compared with each.
const MERGED_USES_MAX: usize = 256;

impl Fusion<'_> {
    /// Tries to make one kernel of those that ask for a node at the same index; gives the uses that are left.
    pub(super) fn merge_users(&mut self, uses: SmallVec<[Use; 1]>) -> SmallVec<[Use; 1]> {
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

    pub(super) fn try_merge(&mut self, a: u32, b: u32) -> bool {
        match self.groups.why_not(a, b) {
            Ok(outer) => {
                self.groups.merge(a, b, outer);
                true
            }
            Err(_) => false,
        }
    }

    /// Makes one kernel of those that ask for components of one state at the same index of the same loops, so that what it is made of is read once.
    pub(super) fn share_state(&mut self, position: usize, site: &mut Use) {
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

    /// Lets kernels that read the same big input share it, along leading loops that they have in common.
    pub(super) fn share_input(&mut self, position: usize, uses: &[Use]) {
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
    pub(super) fn merge_small(&mut self) {
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
}
