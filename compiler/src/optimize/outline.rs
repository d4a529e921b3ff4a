//! A kernel in loop form as text that a person can read: its loops as they nest, and in each what is loaded, reduced and stored there.
//!
//! ```text
//! threads r1 in 0..4
//!   for r4 in 0..32
//!     for r5 in 0..16
//!       l1: load p2[(((r1 * 16) + (r4 * 64)) + r5)]
//!       store s0[((r4 * 16) + r5)] of 512 f32            a local buffer
//!   for r0 in 0..64
//!     lanes r3 of 16
//!       reduce r2 in 0..32
//!         l0: load p1[((r0 * 32) + r2)]
//!         l2: load s0[((r2 * 16) + r3)]
//!         add
//!       store p0[(((r0 * 64) + (r1 * 16)) + r3)]
//! ```
//!
//! Numbers of ranges (`r`) and loads (`l`) are those that opts name (a local buffer makes loads of its own, and those behind it are counted anew); `p` is a parameter, `s` a local buffer. Values between are left out.
//! For people alone: nothing reads it back. Tested below.

use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::transforms::stage::loads_of;
use crate::ir::{Arg, AxisKind, Component, MemorySpace, Op, UOp};
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, range_id};

/// Offsets longer than this are cut short.
const OFFSET_CHARS_MAX: usize = 100;

/// The loops of a kernel as lines of text.
pub fn outline(root: &UOp) -> String {
    let dependencies = Dependencies::of(root);
    let mut outline = Outline {
        nesting: FxHashMap::default(),
        ranges: FxHashMap::default(),
        loads: loads_of(root).into_iter().zip(0..).collect(),
        stages: local_buffers(root).into_iter().zip(0..).collect(),
        dependencies,
    };
    outline.nest();
    let mut text = String::new();
    outline.write(None, 0, &mut text);
    text
}

/// What stands directly in a loop.
#[derive(Clone, PartialEq)]
enum Item {
    Node(UOp),
    Loop(u32),
}

struct Outline {
    dependencies: Dependencies,
    /// The loop that each stands in, and its depth.
    nesting: FxHashMap<u32, (Option<u32>, usize)>,
    ranges: FxHashMap<u32, UOp>,
    loads: FxHashMap<UOp, usize>,
    stages: FxHashMap<UOp, usize>,
}

impl Outline {
    /// Places loops as the linearizer does: loop ends that others need come later, and what stands deeper for one does for all.
    fn nest(&mut self) {
        for loop_end in self.dependencies.order.iter().rev().filter(|node| is_loop_end(node)) {
            let around = self.dependencies.get(loop_end).iter().filter(|id| self.nesting.contains_key(id));
            let mut outer = around.max_by_key(|id| self.nesting[id].1);
            for range in closed_ranges(loop_end) {
                let id = range_id(range);
                let depth = outer.and_then(|outer| self.nesting.get(&outer)).map_or(0, |(_, depth)| depth + 1);
                self.ranges.insert(id, range.clone());
                if self.nesting.get(&id).is_none_or(|(_, known)| *known < depth) {
                    self.nesting.insert(id, (outer, depth));
                }
                outer = Some(id);
            }
        }
    }

    /// The loop in whose body a load or loop end does its work.
    fn home_of(&self, node: &UOp) -> Option<u32> {
        let innermost = || {
            let around = self.dependencies.get(node).iter().filter(|id| self.nesting.contains_key(id));
            around.max_by_key(|id| self.nesting[id].1)
        };
        closed_ranges(node).last().map(range_id).or_else(innermost)
    }

    /// The loop directly in `scope` in which a node stands; `None` if it stands there itself; an error if it stands elsewhere.
    fn towards(&self, scope: Option<u32>, node: &UOp) -> Result<Option<u32>, ()> {
        let (mut at, mut child) = (self.home_of(node), None);
        for _ in 0..=self.nesting.len() {
            if at == scope {
                return Ok(child);
            }
            child = at;
            at = at.and_then(|id| self.nesting[&id].0);
            if child.is_none() {
                break;
            }
        }
        Err(())
    }

    fn write(&self, scope: Option<u32>, depth: usize, text: &mut String) {
        for item in self.items_of(scope) {
            let line = match &item {
                Item::Loop(id) => head(&self.ranges[id]),
                Item::Node(node) if node.op() == Op::Load || is_loop_end(node) => self.line(node),
                Item::Node(_) => continue,
            };
            let _ = writeln!(text, "{:width$}{line}", "", width = depth * 2);
            if let Item::Loop(id) = item {
                self.write(Some(id), depth + 1, text);
            }
        }
    }

    /// What stands directly in a loop, each after what it needs, otherwise in the order of the graph.
    fn items_of(&self, scope: Option<u32>) -> Vec<Item> {
        let mut numbers: FxHashMap<UOp, usize> = FxHashMap::default();
        let mut left: Vec<(Item, FxHashSet<usize>)> = Vec::new();
        for node in self.dependencies.order.iter().filter(|node| !matches!(node.op(), Op::Sink | Op::Range)) {
            let item = match self.towards(scope, node) {
                Err(()) => continue,
                Ok(Some(id)) => Item::Loop(id),
                Ok(None) => Item::Node(node.clone()),
            };
            let number = left.iter().position(|(known, _)| *known == item).unwrap_or(left.len());
            if number == left.len() {
                left.push((item, FxHashSet::default()));
            }
            let needed = node.src().iter().filter_map(|operand| numbers.get(operand)).copied();
            left[number].1.extend(needed.filter(|needed| *needed != number));
            numbers.insert(node.clone(), number);
        }
        let mut written: FxHashSet<usize> = FxHashSet::default();
        let mut items: Vec<Item> = Vec::new();
        while items.len() < left.len() {
            let is_next = |number: &usize| !written.contains(number) && left[*number].1.is_subset(&written);
            // Loops that need each other do not exist; were there any, they would stand as they come.
            let next =
                (0..left.len()).find(is_next).or_else(|| (0..left.len()).find(|number| !written.contains(number)));
            let Some(next) = next else { break };
            written.insert(next);
            items.push(left[next].0.clone());
        }
        items
    }

    fn line(&self, node: &UOp) -> String {
        match (node.op(), node.arg()) {
            (Op::ReduceRange, arg) => combining_name(arg),
            (Op::Store, arg @ (Arg::Combine(_) | Arg::CombineState(_))) => {
                format!("accumulate {} with {}", self.index(node), combining_name(arg))
            }
            (Op::Load, _) => {
                format!("l{}: load {}", self.loads.get(node).copied().unwrap_or_default(), self.index(node))
            }
            _ => format!("store {}", self.index(node)),
        }
    }

    /// What a load or store touches.
    fn index(&self, access: &UOp) -> String {
        let index = &access.src()[0];
        let memory = &index.src()[0];
        let buffer_number = |scratch: &UOp| {
            let filled =
                self.stages.iter().find(|(stage, _)| scratch_of(stage) == scratch && stage.src().contains(access));
            filled.map_or(0, |(_, number)| *number)
        };
        let (name, room) = match (memory.op(), memory.arg()) {
            (Op::LocalBuffer, _) => {
                (format!("s{}", self.stages.get(memory).copied().unwrap_or_default()), String::new())
            }
            (Op::Scratch, Arg::Scratch(_, len, space)) => {
                let shared = if *space == MemorySpace::Shared { ", shared" } else { "" };
                (format!("s{}", buffer_number(memory)), format!(" of {len} {}{shared}", memory.dtype()))
            }
            (_, Arg::Param(param)) => (format!("p{}", param.slot), String::new()),
            _ => (memory.infix(), String::new()),
        };
        let mut offset = index.src()[1].infix();
        if offset.chars().count() > OFFSET_CHARS_MAX {
            offset = offset.chars().take(OFFSET_CHARS_MAX).chain("...".chars()).collect();
        }
        let gate = if index.src().len() > 2 { " where it exists" } else { "" };
        format!("{name}[{offset}]{gate}{room}")
    }
}

/// How values are combined, and which component of a state it is.
fn combining_name(arg: &Arg) -> String {
    match arg {
        Arg::Combine(op) => op.op().to_string(),
        Arg::CombineState(Component { combiner, number }) => {
            format!("{} {}", combiner.name(), combiner.components()[*number as usize])
        }
        _ => String::new(),
    }
}

/// The first line of a loop.
fn head(range: &UOp) -> String {
    let (id, len) = (range_id(range), range.src()[0].infix());
    match range.as_range().map_or(AxisKind::Loop, |arg| arg.kind) {
        AxisKind::Vector => format!("lanes r{id} of {len}"),
        AxisKind::Dot => format!("dot r{id} of {len}"),
        AxisKind::Unroll => format!("copies r{id} of {len}"),
        AxisKind::Reduce => format!("reduce r{id} in 0..{len}"),
        AxisKind::Parallel => format!("threads r{id} in 0..{len}"),
        kind if kind.is_thread_index() => format!("{} r{id} of {len}", kind.name()),
        _ => format!("for r{id} in 0..{len}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::ReduceOp;
    use crate::optimize::apply_list;
    use crate::optimize::text::parse_list;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    #[test]
    fn loops_nest_as_they_will_run() {
        let all = [64, 64, 32];
        let a = UOp::param(1, DType::F32, 64 * 32).reshape([64, 1, 32]).expand(all);
        let b = UOp::param(2, DType::F32, 64 * 32).reshape([32, 64]).permute(&[1, 0]).reshape([1, 64, 32]).expand(all);
        let product = (a * b).reduce(ReduceOp::Add, &[2]).reshape([64, 64]);
        let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 4096), product], Arg::None);
        let loops = loops_of(&UOp::sink([store]), &mut Silent);
        let list =
            parse_list("vectorize(r1, 16), stage(l1, r2, r3), outermost(r1), upcast(r0, 2), thread(r1)").unwrap();
        let kernel = apply_list(&loops, &list, &Target::test_avx512()).unwrap().kernel;
        // The panel is packed once for all rows.
        let expected = "\
threads r1 in 0..4
  for r4 in 0..32
    for r5 in 0..16
      l1: load p2[(((r1 * 16) + (r4 * 64)) + r5)]
      store s0[((r4 * 16) + r5)] of 512 f32
  for r0 in 0..32
    copies r6 of 2
      lanes r3 of 16
        reduce r2 in 0..32
          l0: load p1[((((r0 * 2) + r6) * 32) + r2)]
          l2: load s0[((r2 * 16) + r3)]
          add
        store p0[(((((r0 * 2) + r6) * 64) + (r1 * 16)) + r3)]
";
        assert_eq!(outline(&kernel), expected);
    }
}
