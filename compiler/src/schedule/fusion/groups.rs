//! Kernels while they are being formed: groups of stored values that are merged, and never so that two need each other.
//!
//! A *group* becomes one kernel. Groups are merged by union and find; [`Groups::why_not`] answers whether two may be. Which group
//! reads what another stores is kept as a graph, and two groups may be one only if neither reaches the other in it.
//!
//! Always: the graph of groups has no cycle. A search for a path gives up after [`SEARCH_GROUPS_MAX`] groups and then says that
//! there is one, so that the whole takes linear time.

use rustc_hash::FxHashSet;

use super::cost::{self, Model};
use super::loop_model::{OuterLoops, leading};

/// Groups that a search for a path looks at.
const SEARCH_GROUPS_MAX: usize = 256;

/// One kernel in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Its outer loops.
    pub(super) outer: OuterLoops,
    /// Weighted ops inside.
    pub(super) ops: f64,
    /// Ops of the largest contraction inside.
    pub(super) contraction_ops: f64,
    /// Ops of reductions and elementwise work together: how long it may run.
    pub(super) work: f64,
    /// Bytes of scratch memory.
    pub(super) scratch: f64,
    /// Values that it stores or loads.
    pub(super) buffers: usize,
    /// Whether its loops come in an order that no other store can share.
    pub(super) is_alone: bool,
    /// Whether it is a scan or a scatter along the axis in which memory lies, so that its elements have no lanes.
    pub(super) is_step_by_step: bool,
    /// Whether it loads elements that it replaces. Then no store may be repeated, so all stand in the same loops.
    pub(super) is_in_place: bool,
    /// Whether some store stands in fewer loops than another.
    pub(super) is_mixed: bool,
    /// Groups whose values it loads, or that must run before it for another reason.
    reads: Vec<u32>,
    /// Groups that must run before it and can never be one with it: what it reads or replaces, they leave in memory.
    apart: Vec<u32>,
}

/// All groups.
pub(super) struct Groups {
    model: Model,
    parent: Vec<u32>,
    groups: Vec<Group>,
}

impl Groups {
    /// None, for a machine of these costs.
    pub(super) fn new(model: Model) -> Groups {
        Groups { model, parent: Vec::new(), groups: Vec::new() }
    }

    pub(super) fn add(&mut self, outer: OuterLoops) -> u32 {
        let number = self.groups.len() as u32;
        self.parent.push(number);
        let work = outer.count(u64::MAX >> 1);
        self.groups.push(Group { outer, buffers: 1, work, ..Group::default() });
        number
    }

    /// The group that `number` was merged into.
    pub(super) fn find(&mut self, number: u32) -> u32 {
        let mut root = number;
        while self.parent[root as usize] != root {
            let above = self.parent[root as usize];
            self.parent[root as usize] = self.parent[above as usize];
            root = above;
        }
        root
    }

    pub(super) fn get(&mut self, number: u32) -> &mut Group {
        let root = self.find(number);
        &mut self.groups[root as usize]
    }

    /// Records that `reader` loads a value that `writer` stores.
    pub(super) fn add_read(&mut self, reader: u32, writer: u32) {
        let (reader, writer) = (self.find(reader), self.find(writer));
        if reader != writer {
            self.groups[reader as usize].reads.push(writer);
            self.groups[reader as usize].buffers += 1;
        }
    }

    /// Records that one group must run after another, as a write after the readers of what it replaces, and a reader after the write.
    pub(super) fn add_order(&mut self, after: u32, before: u32) {
        let (after, before) = (self.find(after), self.find(before));
        if after != before {
            self.groups[after as usize].reads.push(before);
            self.groups[after as usize].apart.push(before);
        }
    }

    /// Whether one must run before the other and cannot be one with it.
    fn are_apart(&mut self, a: u32, b: u32) -> bool {
        let names = |groups: &mut Groups, a: u32, b: u32| {
            (0..groups.groups[a as usize].apart.len()).any(|k| groups.find(groups.groups[a as usize].apart[k]) == b)
        };
        names(self, a, b) || names(self, b, a)
    }

    /// Whether a group must run after another.
    pub(super) fn needs(&mut self, group: u32, other: u32) -> bool {
        let (group, other) = (self.find(group), self.find(other));
        self.reaches(group, other, true)
    }

    /// Why two groups of which neither loads what the other stores may not be one, if they may not; else their common loops.
    pub(super) fn why_not(&mut self, a: u32, b: u32) -> Result<OuterLoops, &'static str> {
        let (a, b) = (self.find(a), self.find(b));
        let outer = self.why_not_alike(a, b)?;
        if self.reaches(a, b, true) || self.reaches(b, a, true) {
            return Err("one needs what the other stores");
        }
        Ok(outer)
    }

    /// As [`Groups::why_not`] for a group that loads from another, which stores nothing but that. Every load of that value has been
    /// recorded: what forbids it is that the reader needs the value by a way around as well.
    pub(super) fn why_not_join(&mut self, reader: u32, writer: u32) -> Result<OuterLoops, &'static str> {
        let (reader, writer) = (self.find(reader), self.find(writer));
        let outer = self.why_not_alike(reader, writer)?;
        if self.reaches(reader, writer, false) || self.reaches(writer, reader, true) {
            return Err("it needs another kernel that needs the value too");
        }
        Ok(outer)
    }

    fn why_not_alike(&mut self, a: u32, b: u32) -> Result<OuterLoops, &'static str> {
        if self.are_apart(a, b) {
            return Err("one reads or replaces what the other leaves in memory");
        }
        let (first, second) = (&self.groups[a as usize], &self.groups[b as usize]);
        if first.is_alone || second.is_alone {
            return Err("the iterations of a loop of one come in order");
        }
        let outer = first.outer.joined(&second.outer)?;
        let lens_differ = first.outer.lens.len() != second.outer.lens.len();
        if first.ops + second.ops > cost::KERNEL_OPS_MAX as f64 {
            return Err("one kernel of both would be too long to compile fast");
        }
        if first.buffers + second.buffers > cost::KERNEL_BUFFERS_MAX {
            return Err("one kernel of both would name too many buffers");
        }
        if first.scratch + second.scratch > self.model.scratch_bytes {
            return Err("one kernel of both would take too much scratch memory");
        }
        if first.contraction_ops.min(second.contraction_ops) > self.model.merged_contraction_ops {
            return Err("both hold a contraction, which wants all registers");
        }
        if lens_differ && (first.is_in_place || second.is_in_place) {
            return Err("one replaces what it loads, and their loops differ");
        }
        let shared = first.outer.lens.len().min(second.outer.lens.len());
        let rows = outer.count(leading(shared));
        if lens_differ
            && rows < 4.0 * self.model.threads
            && first.work.max(second.work) > self.model.ops_per_ns * self.model.launch_ns
        {
            return Err("the loops that they share are too few for all threads");
        }
        Ok(outer)
    }

    /// Makes two groups one over these outer loops; gives its number.
    pub(super) fn merge(&mut self, a: u32, b: u32, outer: OuterLoops) -> u32 {
        let (a, b) = (self.find(a), self.find(b));
        // The older number survives, so that numbers do not depend on the order of the question.
        let (kept, gone) = (a.min(b), a.max(b));
        let old = std::mem::take(&mut self.groups[gone as usize]);
        self.parent[gone as usize] = kept;
        let group = &mut self.groups[kept as usize];
        group.is_mixed |= old.is_mixed || group.outer.lens.len() != old.outer.lens.len();
        group.is_in_place |= old.is_in_place;
        group.outer = outer;
        group.ops += old.ops;
        group.work += old.work;
        group.scratch += old.scratch;
        group.contraction_ops = group.contraction_ops.max(old.contraction_ops);
        group.buffers += old.buffers;
        group.reads.extend(old.reads);
        group.apart.extend(old.apart);
        kept
    }

    /// Whether `from` loads what `to` stores, through others or, if that counts, directly.
    fn reaches(&mut self, from: u32, to: u32, directly: bool) -> bool {
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        // Loads within a group are none.
        seen.insert(from);
        let mut pending = vec![from];
        while let Some(group) = pending.pop() {
            for k in 0..self.groups[group as usize].reads.len() {
                let below = self.groups[group as usize].reads[k];
                let below = self.find(below);
                if below == to && group == from && !directly {
                    continue;
                }
                if below == to || seen.len() >= SEARCH_GROUPS_MAX {
                    return true;
                }
                if seen.insert(below) {
                    pending.push(below);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_need_each_other_stay_apart() {
        let mut groups = Groups::new(Model::of(&crate::target::Costs::cpu()));
        let numbers: Vec<u32> = (0..4).map(|_| groups.add(OuterLoops::of_store(&[8].into()))).collect();
        groups.add_read(numbers[0], numbers[1]);
        groups.add_read(numbers[1], numbers[2]);
        assert_eq!(groups.why_not(numbers[0], numbers[2]).unwrap_err(), "one needs what the other stores");
        let outer = groups.why_not(numbers[3], numbers[0]).unwrap();
        let merged = groups.merge(numbers[3], numbers[0], outer);
        assert_eq!(groups.find(numbers[3]), merged);
        assert!(groups.why_not(numbers[3], numbers[2]).is_err(), "merged with 0, which needs 2 through 1");
    }

    #[test]
    fn a_group_joins_what_it_loads_unless_another_stands_between() {
        let mut groups = Groups::new(Model::of(&crate::target::Costs::cpu()));
        let numbers: Vec<u32> = (0..3).map(|_| groups.add(OuterLoops::of_store(&[8].into()))).collect();
        groups.add_read(numbers[0], numbers[1]);
        groups.add_read(numbers[0], numbers[2]);
        groups.add_read(numbers[1], numbers[2]);
        assert!(groups.why_not_join(numbers[0], numbers[2]).is_err());
        let outer = groups.why_not_join(numbers[1], numbers[2]).unwrap();
        groups.merge(numbers[1], numbers[2], outer);
        assert!(groups.why_not_join(numbers[0], numbers[2]).is_ok());
    }
}
