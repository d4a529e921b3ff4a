//! Sums of indices and conjunctions of conditions, associated by loop depth: what depends on outer loops alone stands together.
//!
//! ```text
//! (r2 + r0) + r1                           =>   (r0 + r1) + r2                  one addition in the innermost loop, not two
//! and(splat(r0 < 5), and(v, splat(r1 < 7)))  =>   and(splat(and(r0 < 5, r1 < 7)), v)   one operation on vectors, not two
//! ```
//!
//! A *chain* is a tree of one associative operation whose inner nodes nothing else uses; it may go on below a splat, since a splat of a
//! conjunction is the conjunction of splats. Its operands are combined from the outermost loop inwards, so that each partial result stands in
//! the outermost loop that it can stand in; operands of one loop in the order of the graph, so that chains over the same operands share
//! their beginnings. Constants of a sum come last, where they become part of an address.
//!
//! Always: the value stays, for the operations are exact: indices do not overflow, conditions have no order. Floats are left alone. Linear in
//! nodes but for the sorting of each chain. Tested below, and by every kernel that runs.

use rustc_hash::FxHashMap;

use super::loop_tree::Nest;
use crate::ir::{Arg, Op, UOp, with_mapped_sources};
use crate::kernel::ranges::Dependencies;

/// The kernel with its chains associated by loop depth.
pub fn reassociate(root: &UOp) -> UOp {
    let dependencies = Dependencies::of(root);
    let nest = Nest::of(&dependencies);
    let mut chains =
        Chains { users: users_of(&dependencies.order), ranks: FxHashMap::default(), done: FxHashMap::default() };
    for (position, node) in dependencies.order.iter().enumerate() {
        chains.ranks.insert(node, (nest.depth_of(dependencies.get(node).iter()), position));
    }
    for node in &dependencies.order {
        if chains.is_inner(node) {
            continue;
        }
        let new = match family(node) {
            Some(op) => chains.rebuild(node, op),
            None => with_mapped_sources(node, |operand| &chains.done[operand]),
        };
        chains.done.insert(node, new);
    }
    chains.done.remove(root).unwrap_or_else(|| root.clone())
}

/// The operation of the chain that a node belongs to; a difference belongs to a sum.
fn family(node: &UOp) -> Option<Op> {
    match node.op() {
        Op::And | Op::Or if node.dtype().is_bool() => Some(node.op()),
        Op::Add | Op::Sub if node.dtype().is_index() => Some(Op::Add),
        _ => None,
    }
}

/// The only user of each node, or none where it has several.
fn users_of(order: &[UOp]) -> FxHashMap<&UOp, Option<&UOp>> {
    let mut users: FxHashMap<&UOp, Option<&UOp>> = FxHashMap::default();
    for node in order {
        for operand in node.src() {
            users.entry(operand).and_modify(|user| *user = None).or_insert(Some(node));
        }
    }
    users
}

/// An operand of a chain.
struct Term {
    value: UOp,
    /// It stands in all lanes.
    splat: bool,
    /// It is subtracted.
    minus: bool,
    /// Constants last, then by depth, vectors after scalars, then by position in the graph.
    rank: (bool, u32, bool, usize),
}

struct Chains<'k> {
    users: FxHashMap<&'k UOp, Option<&'k UOp>>,
    /// Depth of the loop that each node stands in, and its position in the order of the graph.
    ranks: FxHashMap<&'k UOp, (u32, usize)>,
    done: FxHashMap<&'k UOp, UOp>,
}

impl<'k> Chains<'k> {
    /// Whether a node is written with the chain of its only user.
    fn is_inner(&self, node: &UOp) -> bool {
        let Some(Some(user)) = self.users.get(node) else { return false };
        match family(node) {
            Some(op) => family(user) == Some(op) || (user.op() == Op::Splat && self.joins(user, op)),
            None => node.op() == Op::Splat && family(&node.src()[0]).is_some_and(|op| self.joins(node, op)),
        }
    }

    /// Whether a splat stands between two parts of one chain.
    fn joins(&self, splat: &UOp, op: Op) -> bool {
        let below = &splat.src()[0];
        let is_user = |user: &Option<&UOp>| user.is_some_and(|user| family(user) == Some(op));
        let alone = self.users.get(below).is_some_and(Option::is_some);
        alone && family(below) == Some(op) && self.users.get(splat).is_some_and(is_user)
    }

    fn rebuild(&self, root: &'k UOp, op: Op) -> UOp {
        let mut terms: Vec<Term> = Vec::new();
        // Operands with whether they are subtracted and whether they stand below a splat.
        let mut pending: Vec<(&'k UOp, bool, bool)> = Vec::new();
        let open = |node: &'k UOp, minus: bool, splat: bool, pending: &mut Vec<(&'k UOp, bool, bool)>| {
            pending.push((&node.src()[1], minus != (node.op() == Op::Sub), splat));
            pending.push((&node.src()[0], minus, splat));
        };
        open(root, false, false, &mut pending);
        while let Some((node, minus, splat)) = pending.pop() {
            match (family(node), node.op()) {
                (Some(_), _) if self.is_inner(node) => open(node, minus, splat, &mut pending),
                (None, Op::Splat) if self.is_inner(node) => open(&node.src()[0], minus, true, &mut pending),
                _ => terms.push(self.term(node, minus, splat)),
            }
        }
        terms.sort_by_key(|term| term.rank);
        combined(op, terms, root)
    }

    fn term(&self, node: &'k UOp, minus: bool, splat: bool) -> Term {
        let (depth, position) = self.ranks[node];
        let is_splat = node.op() == Op::Splat;
        let value = if is_splat { self.done[node].src()[0].clone() } else { self.done[node].clone() };
        let splat = splat || is_splat;
        let is_vector = !splat && node.dtype().lanes() > 1;
        Term { value, splat, minus, rank: (node.op() == Op::Const, depth, is_vector, position) }
    }
}

/// The terms in this order; what is subtracted waits for something to subtract it from.
fn combined(op: Op, mut terms: Vec<Term>, root: &UOp) -> UOp {
    if let Some(first) = terms.iter().position(|term| !term.minus) {
        terms[..=first].rotate_right(1);
    }
    let lanes = root.dtype().lanes();
    let splat = |value: &UOp| UOp::new(Op::Splat, value.dtype().with_lanes(lanes), vec![value.clone()], Arg::None);
    let mut terms = terms.into_iter();
    let Some(mut total) = terms.next() else { return root.clone() };
    for term in terms {
        let op = if term.minus { Op::Sub } else { op };
        if total.splat && !term.splat {
            total = Term { value: splat(&total.value), splat: false, ..total };
        }
        let operand = if term.splat && !total.splat { splat(&term.value) } else { term.value };
        total.value = UOp::binary(op, &total.value, &operand);
    }
    if total.splat { splat(&total.value) } else { total.value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::AxisKind;

    /// A kernel of two loops that stores what is made of their variables.
    fn kernel(value: impl Fn(&UOp, &UOp) -> UOp) -> UOp {
        let (i, j) = (UOp::range(8, 0, AxisKind::Loop), UOp::range(9, 1, AxisKind::Loop));
        let target = UOp::param(0, DType::F32, 4096);
        let index = UOp::new(Op::Index, DType::F32, vec![target, value(&i, &j)], Arg::None);
        let src = vec![index, UOp::float(1.0, DType::F32), i.clone(), j.clone()];
        UOp::sink([UOp::new(Op::Store, DType::VOID, src, Arg::None)])
    }

    #[track_caller]
    fn check(value: impl Fn(&UOp, &UOp) -> UOp, wanted: &str) {
        let new = reassociate(&kernel(value));
        assert_eq!(new.src()[0].src()[0].src()[1].infix(), wanted);
    }

    #[test]
    fn what_depends_on_outer_loops_stands_together() {
        check(|i, j| (j * 3 + i * 64) + 7, "(((r0 * 64) + (r1 * 3)) + 7)");
        check(|i, j| (j * 3 + 7) + i * 64, "(((r0 * 64) + (r1 * 3)) + 7)");
        check(|i, j| (j * 3 - i) + i * 64, "(((r0 * 64) - r0) + (r1 * 3))");
        check(|i, j| (i * 9 - j) - i.modulo(2), "(((r0 * 9) - (r0 % 2)) - r1)");
    }

    #[test]
    fn what_others_use_stays_whole() {
        check(|i, j| ((j + i) + i * 9) * (j + i), "(((r0 * 9) + (r0 + r1)) * (r0 + r1))");
    }

    #[test]
    fn conditions_of_all_lanes_are_combined_before_they_become_vectors() {
        let (i, j) = (UOp::range(8, 0, AxisKind::Loop), UOp::range(9, 1, AxisKind::Loop));
        let splat = |x: &UOp| UOp::new(Op::Splat, x.dtype().with_lanes(8), vec![x.clone()], Arg::None);
        let and = |a: &UOp, b: &UOp| UOp::binary(Op::And, a, b);
        let ramp = UOp::new(Op::Ramp, DType::INDEX.with_lanes(8), vec![j.clone()], Arg::Number(1));
        let lanes = ramp.lt(&UOp::constant(crate::dtype::Scalar::Int(5), DType::INDEX.with_lanes(8)));
        let of_loops = [i.lt(5), i.modulo(3).lt(1)].map(|condition| splat(&condition));
        let gate = and(&of_loops[0], &and(&lanes, &of_loops[1]));
        let index = UOp::new(
            Op::Index,
            DType::F32.with_lanes(8),
            vec![UOp::param(1, DType::F32, 64), j.clone(), gate],
            Arg::None,
        );
        let load = UOp::new(Op::Load, DType::F32.with_lanes(8), vec![index], Arg::None);
        let target =
            UOp::new(Op::Index, DType::F32.with_lanes(8), vec![UOp::param(0, DType::F32, 64), j.clone()], Arg::None);
        let store = UOp::new(Op::Store, DType::VOID, vec![target, load, i.clone(), j.clone()], Arg::None);
        let new = reassociate(&UOp::sink([store]));
        let gate = &new.src()[0].src()[1].src()[0].src()[2];
        assert_eq!(*gate, and(&splat(&and(&i.lt(5), &i.modulo(3).lt(1))), &lanes), "{}", gate.infix());
    }
}
