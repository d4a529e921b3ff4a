//! Accumulators that always hold the same value become one.
//!
//! ```text
//! a0 = accumulator -inf                     a0 = accumulator -inf
//! a1 = accumulator -inf                     r0 in 0..8
//! r0 in 0..8                                  v0 = load x[r0]
//!   v0 = load x[r0]                    =>     v1 = max a0, v0
//!   v1 = max a0, v0                           update a0, v1
//!   v2 = max a1, v0
//!   update a0, v1
//!   update a1, v2
//! ```
//!
//! A thread that has several columns of an attention has a state for each: the largest score and the sum of weights are the same in all of them. Merged they are two registers of a row, and what follows from them
//! is computed once.
//!
//! Accumulators are taken for equal that begin alike and are updated once, in one loop; those whose updates then differ are taken apart again, until none is.
//!
//! Always: the list's rules (`check`), and values stay to the bit. Nothing is done where a value would be asked for outside of the loop that it stands in, or read on the other side of an update. Tested
//! below, and by attention on the emulator of GPUs.

use rustc_hash::FxHashMap;

use super::linearizer::without_unused;
use crate::ir::{Op, Sources, UOp};

/// Positions of the loops around an op.
type Scope = Vec<usize>;

/// An accumulator with one update.
struct Accumulator<'l> {
    node: &'l UOp,
    scope: Scope,
    updated_at: usize,
    updated_in: Scope,
    value: &'l UOp,
}

/// The list in which accumulators that are equal are one.
pub fn merge(list: Vec<UOp>) -> Vec<UOp> {
    let accumulators = accumulators_of(&list);
    let merged = merged(&list, &accumulators);
    if merged.is_empty() {
        return list;
    }
    match rewritten(&list, &accumulators, &merged) {
        Some(new) => without_unused(new),
        None => list,
    }
}

fn accumulators_of(list: &[UOp]) -> Vec<Accumulator<'_>> {
    let mut found: FxHashMap<&UOp, Scope> = FxHashMap::default();
    let mut updates: FxHashMap<&UOp, Vec<(usize, Scope)>> = FxHashMap::default();
    let mut order: Vec<&UOp> = Vec::new();
    let mut open = Scope::new();
    for (at, node) in list.iter().enumerate() {
        match node.op() {
            Op::Range => open.push(at),
            Op::EndRange => drop(open.pop()),
            Op::Accumulator => {
                found.insert(node, open.clone());
                order.push(node);
            }
            Op::Update => updates.entry(&node.src()[0]).or_default().push((at, open.clone())),
            _ => {}
        }
    }
    let once = order.into_iter().filter_map(|node| match updates.get(node).map(Vec::as_slice) {
        Some([(at, updated_in)]) => Some(Accumulator {
            node,
            scope: found[node].clone(),
            updated_at: *at,
            updated_in: updated_in.clone(),
            value: &list[*at].src()[1],
        }),
        _ => None,
    });
    once.collect()
}

/// What an op is over the operands that stand for its own.
fn over(node: &UOp, standing_for: &FxHashMap<UOp, UOp>) -> UOp {
    let src: Sources = node.src().iter().map(|operand| standing_for.get(operand).unwrap_or(operand).clone()).collect();
    if src[..] == *node.src() { node.clone() } else { node.with_src(src) }
}

/// Those that are equal to one that stands before them, by that one.
fn merged(list: &[UOp], accumulators: &[Accumulator<'_>]) -> FxHashMap<UOp, UOp> {
    let begins_alike = |accumulator: &Accumulator<'_>| {
        let Accumulator { node, scope, updated_in, .. } = accumulator;
        (node.src()[0].clone(), scope.clone(), updated_in.clone())
    };
    let mut classes: Vec<usize> = numbered(accumulators.iter().map(begins_alike));
    loop {
        let mut first: FxHashMap<usize, &UOp> = FxHashMap::default();
        let mut merged: FxHashMap<UOp, UOp> = FxHashMap::default();
        for (accumulator, class) in accumulators.iter().zip(&classes) {
            let before = *first.entry(*class).or_insert(accumulator.node);
            if before != accumulator.node {
                merged.insert(accumulator.node.clone(), before.clone());
            }
        }
        if merged.is_empty() {
            return merged;
        }
        let mut standing_for = merged.clone();
        for node in list.iter().filter(|node| node.op() != Op::Accumulator) {
            let new = over(node, &standing_for);
            if new != *node {
                standing_for.insert(node.clone(), new);
            }
        }
        let value =
            |accumulator: &Accumulator<'_>| standing_for.get(accumulator.value).unwrap_or(accumulator.value).clone();
        let apart = numbered(accumulators.iter().zip(&classes).map(|(one, class)| (*class, value(one))));
        if apart == classes {
            return merged;
        }
        classes = apart;
    }
}

/// Equal keys by one number, in the order in which they come.
fn numbered<K: Eq + std::hash::Hash>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut numbers: FxHashMap<K, usize> = FxHashMap::default();
    keys.map(|key| {
        let next = numbers.len();
        *numbers.entry(key).or_insert(next)
    })
    .collect()
}

/// The list with one accumulator for all that are equal; nothing where that would change a value.
fn rewritten(list: &[UOp], accumulators: &[Accumulator<'_>], merged: &FxHashMap<UOp, UOp>) -> Option<Vec<UOp>> {
    let known: FxHashMap<&UOp, &Accumulator<'_>> = accumulators.iter().map(|one| (one.node, one)).collect();
    let mut standing_for = merged.clone();
    let mut new: Vec<UOp> = Vec::with_capacity(list.len());
    // Where what is written stands, and how many updates stand before each accumulator that it reads.
    let mut written: FxHashMap<UOp, (Scope, Vec<usize>)> = FxHashMap::default();
    let mut updates: FxHashMap<&UOp, usize> = FxHashMap::default();
    let mut open = Scope::new();
    for (at, node) in list.iter().enumerate() {
        if node.op() == Op::Update {
            *updates.entry(&node.src()[0]).or_default() += 1;
        }
        match node.op() {
            Op::Range => open.push(at),
            Op::EndRange => drop(open.pop()),
            Op::Accumulator | Op::Update
                if merged.contains_key(if node.op() == Op::Update { &node.src()[0] } else { node }) =>
            {
                continue;
            }
            _ => {}
        }
        let read = || node.src().iter().filter_map(|operand| known.get(operand));
        let accumulators = node.src().iter().filter(|operand| operand.op() == Op::Accumulator);
        let before: Vec<usize> = accumulators.map(|read| updates.get(read).copied().unwrap_or(0)).collect();
        let one = over(node, &standing_for);
        if one != *node {
            standing_for.insert(node.clone(), one.clone());
        }
        if matches!(node.op(), Op::Store | Op::Update) {
            new.push(one);
            continue;
        }
        if let Some((scope, known_before)) = written.get(&one) {
            // What memory holds may have changed since, and what changes it does so twice.
            let is_of_memory =
                matches!(node.op(), Op::Load | Op::LoadMatrices | Op::Previous | Op::Exchange | Op::Barrier);
            if is_of_memory || !open.starts_with(scope) || *known_before != before {
                return None;
            }
            continue;
        }
        // The one that is left is updated before this one was.
        let is_renewed = |read: &&Accumulator<'_>| {
            let left = merged.get(read.node).and_then(|left| known.get(left));
            at < read.updated_at && left.is_some_and(|left| left.updated_at < at)
        };
        if read().any(is_renewed) {
            return None;
        }
        written.insert(one.clone(), (open.clone(), before));
        new.push(one);
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::check;
    use crate::linearize::text::{parse, print};

    /// Two states of eight numbers: of each the largest, and a sum of what depends on it and on a number of its own.
    const STATES: &str = "p0: f32 = param #0 [8]
      p1: f32 = param #1 [64]
      least: f32 = const -inf
      zero: f32 = const 0.0
      two: f32 = const 2.0
      first: i64 = const 0
      second: i64 = const 1
      eight: i64 = const 8
      a0 = accumulator least, #0
      a1 = accumulator zero, #1
      a2 = accumulator least, #2
      a3 = accumulator zero, #3
      r0: i64 = range eight, reduce #0
      v0 = index p1, r0
      v1 = load v0
      v2 = max a0, v1
      v3 = sub a0, v2
      v4 = muladd a1, v3, v1
      v5 = update a0, v2
      v6 = update a1, v4
      v7 = max a2, v1
      v8 = sub a2, v7
      v9 = muladd a3, v8, two
      v10 = update a2, v7
      v11 = update a3, v9
      v12 = end r0
      v13 = final a1, v12
      v14 = final a3, v12
      v15 = index p0, first
      v16 = store v15, v13
      v17 = index p0, second
      v18 = store v17, v14\n";

    /// How many accumulators and largest ones are left.
    fn left(body: &str) -> (usize, usize) {
        let text = format!("linear %k(f32[8] write, f32[64] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = merge(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        let count = |op: Op| linear.ops.iter().filter(|node| node.op() == op).count();
        (count(Op::Accumulator), count(Op::Max))
    }

    #[test]
    fn what_is_the_same_in_two_states_is_kept_once() {
        assert_eq!(left(STATES), (3, 1));
        // Both states are the same.
        assert_eq!(left(&STATES.replace("muladd a3, v8, two", "muladd a3, v8, v1")), (2, 1));
    }

    #[test]
    fn what_differs_stays() {
        for (from, to) in [
            // It begins with another number, or becomes another one.
            ("a2 = accumulator least", "a2 = accumulator zero"),
            ("v7 = max a2, v1", "v7 = max a2, two"),
            // It is read where the other one is renewed already.
            ("v9 = muladd a3, v8, two", "v9 = muladd a3, a2, two"),
            // It is read behind its own update, as the other one is not.
            (
                "v8 = sub a2, v7\n      v9 = muladd a3, v8, two\n      v10 = update a2, v7\n",
                "v10 = update a2, v7\n      v8 = sub a2, v7\n      v9 = muladd a3, v8, two\n",
            ),
            // It says which element is loaded, and memory may hold another one by then.
            (
                "v9 = muladd a3, v8, two",
                "v22: i64 = cast v7\n v23 = index p1, v22\n v24 = load v23\n v9 = muladd a3, v8, v24",
            ),
        ] {
            assert!(STATES.contains(from));
            let body = STATES.replace(from, to).replace(
                "v4 = muladd a1, v3, v1",
                "v25: i64 = cast v2\n v26 = index p1, v25\n v27 = load v26\n v4 = muladd a1, v3, v27",
            );
            assert_eq!(left(&body).0, 4, "{to}");
        }
    }
}
