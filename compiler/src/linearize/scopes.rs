//! What stands directly in each loop of a kernel, in order: every item after those that it needs, in the graph's order otherwise.
//!
//! A node stands in its *home*, the innermost loop that it works in; a loop is an item of the loop around it. That a node needs an operand is said
//! once, in the innermost loop that holds both: further out one loop holds them. So time is linear in the graph's edges and in the depth of its
//! loops, but for a heap.
//!
//! Tested below, and by every kernel that runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::loop_tree::Nest;
use crate::ir::{Op, UOp};
use crate::kernel::ranges::{Dependencies, closed_ranges, range_id};

/// What stands directly in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Node(UOp),
    Loop(u32),
}

/// The items of one loop, and the numbers of those that each needs.
#[derive(Default)]
struct Scope {
    items: Vec<Item>,
    needs: Vec<Vec<usize>>,
}

impl Scope {
    fn add(&mut self, item: Item) -> usize {
        self.items.push(item);
        self.needs.push(Vec::new());
        self.items.len() - 1
    }
}

/// The items of each loop, in order; `None` holds what stands in no loop.
pub(super) fn items_by_scope(dependencies: &Dependencies, nest: &Nest) -> FxHashMap<Option<u32>, Vec<Item>> {
    let mut scopes: FxHashMap<Option<u32>, Scope> = FxHashMap::default();
    // The home of each node and its number there; the number of each loop in the loop around it.
    let mut nodes: FxHashMap<&UOp, (Option<u32>, usize)> = FxHashMap::default();
    let mut loops: FxHashMap<u32, usize> = FxHashMap::default();
    for node in dependencies.order.iter().filter(|node| node.op() != Op::Sink) {
        let home = home_of(node, dependencies, nest);
        let mut inner = home;
        while let Some(id) = inner
            && !loops.contains_key(&id)
        {
            inner = nest.parent[&id];
            loops.insert(id, scopes.entry(inner).or_default().add(Item::Loop(id)));
        }
        let number = scopes.entry(home).or_default().add(Item::Node(node.clone()));
        nodes.insert(node, (home, number));
    }
    for node in dependencies.order.iter().filter(|node| node.op() != Op::Sink) {
        let (home, number) = nodes[node];
        for operand in node.src() {
            let (other_home, other_number) = nodes[operand];
            let common = nest.common(home, other_home);
            let number_in = |home, number| match nest.child_towards(common, home) {
                Some(id) => loops[&id],
                None => number,
            };
            let (user, needed) = (number_in(home, number), number_in(other_home, other_number));
            if let Some(scope) = scopes.get_mut(&common)
                && user != needed
            {
                scope.needs[user].push(needed);
            }
        }
    }
    scopes.into_iter().map(|(home, scope)| (home, sort(scope))).collect()
}

/// The loop in whose body a node does its work: for a loop end, the innermost that it closes, and a loop variable stands in its own loop.
fn home_of(node: &UOp, dependencies: &Dependencies, nest: &Nest) -> Option<u32> {
    if node.op() == Op::Range {
        return Some(range_id(node));
    }
    closed_ranges(node).last().map(range_id).or_else(|| nest.deepest(dependencies.get(node).iter()))
}

/// Items so that each follows its needs, lowest number first.
fn sort(scope: Scope) -> Vec<Item> {
    let Scope { items, mut needs } = scope;
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for (number, needed) in needs.iter_mut().enumerate() {
        needed.sort_unstable();
        needed.dedup();
        needed.iter().for_each(|&other| users[other].push(number));
    }
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let ready = (0..items.len()).filter(|&number| open[number] == 0);
    let mut heap: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut sorted = Vec::with_capacity(items.len());
    while let Some(Reverse(number)) = heap.pop() {
        sorted.push(items[number].clone());
        for &user in &users[number] {
            open[user] -= 1;
            if open[user] == 0 {
                heap.push(Reverse(user));
            }
        }
    }
    assert!(sorted.len() == items.len(), "bug in the compiler: loops need each other's results");
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, AxisKind, ReduceOp};

    #[test]
    fn a_loop_comes_before_what_needs_its_result() {
        let load = |slot: u32, offset: &UOp| {
            let index = vec![UOp::param(slot, DType::F32, 64), offset.clone()];
            UOp::new(Op::Load, DType::F32, vec![UOp::new(Op::Index, DType::F32, index, Arg::None)], Arg::None)
        };
        let (row, term) = (UOp::range(8, 0, AxisKind::Loop), UOp::range(8, 1, AxisKind::Reduce));
        let value = load(1, &(&row * 8 + &term));
        let sum = UOp::new(Op::ReduceRange, DType::F32, vec![value.clone(), term.clone()], Arg::Combine(ReduceOp::Add));
        let target = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 8), row.clone()], Arg::None);
        let root = UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, &sum + 1, row.clone()], Arg::None)]);
        let dependencies = Dependencies::of(&root);
        let scopes = items_by_scope(&dependencies, &Nest::of(&dependencies));
        assert!(scopes[&None].contains(&Item::Loop(0)) && scopes[&Some(0)].contains(&Item::Loop(1)));
        let position = |scope: u32, item: Item| scopes[&Some(scope)].iter().position(|other| *other == item);
        assert!(position(0, Item::Loop(1)) < position(0, Item::Node(&sum + 1)), "{:?}", scopes[&Some(0)]);
        assert!(position(1, Item::Node(value)) < position(1, Item::Node(sum)), "{:?}", scopes[&Some(1)]);
    }
}
