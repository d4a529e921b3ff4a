//! Rules that simplify parts of an expression by the conditions under which they are used.

use super::compare::canonical_less;
use super::terms::{atom_order, is_long};
use super::valid::{CLAUSES_MAX, as_bounds, clauses, given, operands_of, weight};
use crate::dtype::DType;
use crate::ir::{Op, UOp};
use crate::rules;

rules! {
    /// Choices and conjunctions, each part simplified for where it counts.
    pub GIVEN |root| for root.shape().is_empty() =>
    "clauses-together":  [x, y]     x & y            => conjunction(root), if root.dtype().is_bool();
    "clauses-apart":     [x, y]     x | y            => disjunction(root), if root.dtype().is_bool();
    "choose-given":      [p, x, y]  p.select(x, y)   => choice_given(p, x, y);
    "quotient-of-choice":  [p, x, y, c]  p.select(x, y).idiv(c)    => divided_choice(root, p, x, y, c);
    "remainder-of-choice": [p, x, y, c]  p.select(x, y).modulo(c)  => divided_choice(root, p, x, y, c);
}

/// A conjunction whose clauses about one sum are joined, and whose other clauses are simplified by each other.
fn conjunction(root: &UOp) -> Option<UOp> {
    let mut parts = clauses(root);
    if parts.len() > CLAUSES_MAX {
        return None;
    }
    parts = join_bounds(parts)?;
    for number in (0..parts.len()).rev() {
        let others: Vec<UOp> =
            parts.iter().enumerate().filter(|(at, _)| *at != number).map(|(_, part)| part.clone()).collect();
        if let Some(simpler) = given(&parts[number], &others) {
            parts[number] = simpler;
        }
    }
    rebuilt(root, Op::And, parts)
}

/// By De Morgan, a disjunct counts only where the others are false.
fn disjunction(root: &UOp) -> Option<UOp> {
    let mut parts = operands_of(Op::Or, root);
    if parts.len() > CLAUSES_MAX {
        return None;
    }
    for number in (0..parts.len()).rev() {
        let others = parts.iter().enumerate().filter(|(at, _)| *at != number);
        let others: Vec<UOp> = others.flat_map(|(_, part)| clauses(&super::plainly_canonical(&!part))).collect();
        if let Some(simpler) = given(&parts[number], &others) {
            parts[number] = simpler;
        }
    }
    rebuilt(root, Op::Or, parts)
}

/// The chain of the parts in canonical order; `None` if that is the root itself.
fn rebuilt(root: &UOp, op: Op, mut parts: Vec<UOp>) -> Option<UOp> {
    parts.sort_by(atom_order);
    parts.dedup();
    let neutral = UOp::bool(op == Op::And);
    parts.retain(|part| *part != neutral);
    // Each link in the order that its operands are put in by themselves, or the two orders would undo each other for ever.
    let link = |chain: UOp, part: UOp| {
        let [first, second] = if atom_order(&chain, &part).is_gt() { [&part, &chain] } else { [&chain, &part] };
        UOp::binary(op, first, second)
    };
    let new = parts.into_iter().reduce(link).unwrap_or(neutral);
    (new != *root).then_some(new)
}

/// One lower and one upper bound for each sum; false where they exclude each other, an equality where they leave one value.
fn join_bounds(parts: Vec<UOp>) -> Option<Vec<UOp>> {
    let mut bounded: Vec<(UOp, i64, i64, Vec<UOp>)> = Vec::new();
    let mut result = Vec::new();
    for part in parts {
        let Some((node, _, low, high)) = as_bounds(&part) else {
            result.push(part);
            continue;
        };
        match bounded.iter_mut().find(|(other, ..)| *other == node) {
            Some((_, least, most, from)) => {
                (*least, *most) = (low.max(*least), high.min(*most));
                from.push(part);
            }
            None => bounded.push((node, low, high, vec![part])),
        }
    }
    for (node, low, high, from) in bounded {
        let (low, high) = (exclude(&node, low, 1, &mut result), exclude(&node, high, -1, &mut result));
        if low > high {
            return Some(vec![UOp::bool(false)]);
        }
        match from.as_slice() {
            [only] if as_bounds(only).is_some_and(|(_, _, least, most)| (least, most) == (low, high)) => {
                result.push(only.clone())
            }
            _ if low == high => result.push(node.equals(low)),
            _ => {
                if low != i64::MIN && node.min_value() < low {
                    result.push(UOp::index(low.checked_sub(1)?).lt(&node));
                }
                if high != i64::MAX && node.max_value() > high {
                    result.push(node.lt(high.checked_add(1)?));
                }
            }
        }
    }
    Some(result)
}

/// Moves a bound past a value that another clause (`node != bound`) excludes, and drops that clause.
fn exclude(node: &UOp, bound: i64, step: i64, others: &mut Vec<UOp>) -> i64 {
    let says =
        |clause: &UOp| clause.op() == Op::Ne && clause.src()[0] == *node && clause.src()[1].as_int() == Some(bound);
    match others.iter().position(says) {
        Some(at) => {
            others.remove(at);
            bound.saturating_add(step)
        }
        None => bound,
    }
}

/// `p ? x : y` with x simplified for where p holds, y for where it does not.
fn choice_given(p: &UOp, x: &UOp, y: &UOp) -> Option<UOp> {
    if let Some(larger) = as_max_or_min(p, x, y) {
        return Some(larger);
    }
    let holds = given(x, &clauses(p));
    let fails = given(y, &clauses(&super::plainly_canonical(&!p)));
    if holds.is_none() && fails.is_none() {
        return None;
    }
    Some(p.select(holds.unwrap_or_else(|| x.clone()), fails.unwrap_or_else(|| y.clone())))
}

/// `(p ? x : y) // c` and `(p ? x : y) % c` with the division inside, where it goes away because p bounds x and y is a constant, or
/// the other way round.
fn divided_choice(root: &UOp, p: &UOp, x: &UOp, y: &UOp, c: &UOp) -> Option<UOp> {
    if root.dtype() != DType::INDEX || (x.op() != Op::Const && y.op() != Op::Const) {
        return None;
    }
    let plain = |node: UOp| super::plainly_canonical(&node);
    let divided = |branch: &UOp, condition: &UOp| {
        let division = plain(UOp::binary(root.op(), branch, c));
        given(&division, &clauses(condition)).unwrap_or(division)
    };
    let (yes, no) = (divided(x, p), divided(y, &plain(!p)));
    let choice = plain(p.select(&yes, &no));
    (weight(&choice) < weight(root)).then_some(choice)
}

/// `a < b ? b : a` is the larger one, however the comparison is written.
pub(super) fn as_max_or_min(p: &UOp, x: &UOp, y: &UOp) -> Option<UOp> {
    if x.dtype() != DType::INDEX || p.op() != Op::Lt || p.src()[0].dtype() != DType::INDEX || is_long(x) || is_long(y) {
        return None;
    }
    let is_condition = |less: Option<UOp>| less.is_some_and(|less| less == *p);
    // Of two equal values either may be chosen, so `<=`, which is `<` beside one more, will do as well.
    match () {
        () if is_condition(canonical_less(x, y)) || is_condition(canonical_less(x, &(y + 1))) => Some(x.min(y)),
        () if is_condition(canonical_less(y, x)) || is_condition(canonical_less(y, &(x + 1))) => Some(x.max(y)),
        () => None,
    }
}
