//! What a condition tells about an expression that is used only where the condition holds: the bounds of gates make indices
//! simpler, and the clauses of a conjunction make each other simpler.
//!
//! A condition is cut into *clauses*. `sum < c`, `c < sum` and `sum == c` bound a sum; from the bounds of all sums follow bounds of
//! their atoms, which stand in the expression as variables with those bounds while it is simplified. Another clause is simply
//! true. A result is taken only if it has fewer operations.
//!
//! Never looks below loads or loops: both sides of a choice are evaluated, so an address has to be right where the condition
//! is false too. Tested against evaluation wherever the condition holds (`conditions_keep_value` of the test crate).

use rustc_hash::FxHashMap;

use super::terms::{Sum, is_long};
use crate::dtype::{DType, Scalar};
use crate::ir::{Op, UOp, floor_div, postorder_until, with_mapped_sources};

/// Larger expressions are not simplified by conditions, which costs a rewrite each.
const NODES_MAX: usize = 400;

/// Conjunctions of more clauses are left alone.
pub(super) const CLAUSES_MAX: usize = 16;

/// The clauses of a conjunction, each once, in order.
pub fn clauses(condition: &UOp) -> Vec<UOp> {
    operands_of(Op::And, condition)
}

/// The operands of a chain of one op, each once.
pub(super) fn operands_of(op: Op, root: &UOp) -> Vec<UOp> {
    let mut found: Vec<UOp> = Vec::new();
    let mut pending = vec![root.clone()];
    while let Some(node) = pending.pop() {
        if node.op() == op {
            pending.extend(node.src().iter().rev().cloned());
        } else if !found.contains(&node) {
            found.push(node);
        }
    }
    found
}

/// The expression, simplified for use only where `condition` (a bool, a conjunction as a rule) holds.
pub fn simplify_given(expr: &UOp, condition: &UOp) -> UOp {
    let expr = super::simplify(expr);
    let condition = super::canonical(condition);
    match given(&super::canonical(&expr), &clauses(&condition)) {
        Some(simpler) => super::simplify(&simpler),
        None => expr,
    }
}

/// A clause as bounds of a sum, both included. What is canonical has no constant in the sum; a rule may see what is not yet.
pub(super) fn as_bounds(clause: &UOp) -> Option<(UOp, Sum, i64, i64)> {
    let [a, b] = clause.src() else { return None };
    if a.dtype() != DType::INDEX || is_long(a) || is_long(b) {
        return None;
    }
    let (node, low, high) = match (clause.op(), a.as_int(), b.as_int()) {
        (Op::Lt, None, Some(limit)) => (a, i64::MIN, limit.checked_sub(1)?),
        (Op::Lt, Some(limit), None) => (b, limit.checked_add(1)?, i64::MAX),
        (Op::Eq, None, Some(value)) => (a, value, value),
        _ => return None,
    };
    Some((node.clone(), Sum::of(node), low, high))
}

/// A simpler form of a canonical expression where all clauses, canonical too, hold; `None` if none was found.
pub(super) fn given(expr: &UOp, clauses: &[UOp]) -> Option<UOp> {
    if clauses.len() > CLAUSES_MAX {
        return None;
    }
    let nodes = postorder_until(std::slice::from_ref(expr), is_opaque);
    if nodes.len() > NODES_MAX {
        return None;
    }
    let mut facts: FxHashMap<UOp, UOp> = FxHashMap::default();
    for clause in clauses {
        facts.insert(clause.clone(), truth(true, clause));
        if clause.op() == Op::Not {
            facts.insert(clause.src()[0].clone(), truth(false, clause));
        }
    }
    let sums: Vec<(UOp, Sum, i64, i64)> = clauses.iter().filter_map(as_bounds).collect();
    let mut best: Option<UOp> = None;
    let mut current = expr.clone();
    let mut keep = |candidate: Option<UOp>, current: &mut UOp| {
        if let Some(candidate) = candidate
            && weight(&candidate) < weight(current)
        {
            *current = candidate.clone();
            best = Some(candidate);
        }
    };
    // Leaves first: a bound of a larger atom hides what it is made of.
    let bounds = atom_bounds(&sums);
    let leaves: Vec<_> = bounds.iter().filter(|(atom, ..)| is_opaque(atom)).cloned().collect();
    keep(with_bounded_leaves(&current, &facts, &leaves), &mut current);
    if leaves.len() < bounds.len() {
        keep(with_bounded_leaves(&current, &facts, &bounds), &mut current);
    }
    for (_, sum, low, high) in sums.iter().filter(|(_, sum, ..)| sum.terms.len() > 1) {
        keep(with_sum_as_variable(&current, sum, *low, *high), &mut current);
    }
    best
}

fn is_opaque(node: &UOp) -> bool {
    !node.op().is_elementwise()
}

/// Operations of an expression, down to loads.
pub(super) fn weight(expr: &UOp) -> usize {
    let counts = |node: &&UOp| node.op().is_elementwise() && node.op() != Op::Cast;
    postorder_until(std::slice::from_ref(expr), is_opaque).iter().filter(counts).count()
}

/// Bounds of atoms that follow from bounds of sums: an atom is bounded by what the others leave of the sum.
fn atom_bounds(sums: &[(UOp, Sum, i64, i64)]) -> Vec<(UOp, i64, i64)> {
    let mut bounds: Vec<(UOp, i64, i64)> = Vec::new();
    // A bound of one atom may tighten another's: two rounds find nearly all.
    for _ in 0..2 {
        for (_, sum, low, high) in sums {
            for (atom, factor) in &sum.terms {
                let Some((least, most)) = range_without(sum, atom, &bounds) else { continue };
                // factor * atom lies between low - most and high - least.
                let low = if *low == i64::MIN { None } else { low.checked_sub(most) };
                let high = if *high == i64::MAX { None } else { high.checked_sub(least) };
                let ceil = |a: i64, b: i64| floor_div(a, b) + (a % b != 0) as i64;
                let (low, high) = match *factor > 0 {
                    true => (low.map(|low| ceil(low, *factor)), high.map(|high| floor_div(high, *factor))),
                    false => (high.map(|high| ceil(high, *factor)), low.map(|low| floor_div(low, *factor))),
                };
                let known = current_bounds(atom, &bounds);
                let (low, high) = (known.0.max(low.unwrap_or(i64::MIN)), known.1.min(high.unwrap_or(i64::MAX)));
                if (low, high) != known {
                    bounds.retain(|(other, ..)| other != atom);
                    bounds.push((atom.clone(), low, high));
                }
            }
        }
    }
    bounds
}

fn current_bounds(atom: &UOp, bounds: &[(UOp, i64, i64)]) -> (i64, i64) {
    let known = bounds.iter().find(|(other, ..)| other == atom);
    known.map_or((atom.min_value(), atom.max_value()), |(_, low, high)| (*low, *high))
}

/// Bounds of a sum, its constant included, without one of its terms.
fn range_without(sum: &Sum, left_out: &UOp, bounds: &[(UOp, i64, i64)]) -> Option<(i64, i64)> {
    let (mut least, mut most) = (sum.constant, sum.constant);
    for (atom, factor) in sum.terms.iter().filter(|(atom, _)| atom != left_out) {
        let (low, high) = current_bounds(atom, bounds);
        if low == i64::MIN || high == i64::MAX {
            return None;
        }
        let ends = (low.checked_mul(*factor)?, high.checked_mul(*factor)?);
        least = least.checked_add(ends.0.min(ends.1))?;
        most = most.checked_add(ends.0.max(ends.1))?;
    }
    Some((least, most))
}

/// A truth value in as many lanes as a clause has.
fn truth(value: bool, clause: &UOp) -> UOp {
    UOp::constant(Scalar::Bool(value), clause.dtype())
}

/// A variable that stands for something while an expression is simplified. Its name is none that a user or the compiler gives.
fn stand_in(number: usize, low: i64, high: i64) -> UOp {
    UOp::variable(&format!("\u{0}{number}"), low, high)
}

/// The expression simplified with known truth values and with atoms of narrower bounds.
fn with_bounded_leaves(expr: &UOp, truths: &FxHashMap<UOp, UOp>, bounds: &[(UOp, i64, i64)]) -> Option<UOp> {
    let mut there = truths.clone();
    let mut back: FxHashMap<UOp, UOp> = FxHashMap::default();
    for (number, (atom, low, high)) in bounds.iter().enumerate() {
        if low > high {
            // The condition never holds; whatever the expression is then, it is not used.
            return None;
        }
        let new = if low == high { UOp::index(*low) } else { stand_in(number, *low, *high) };
        back.insert(new.clone(), atom.clone());
        there.insert(atom.clone(), new);
    }
    back.retain(|new, _| new.op() != Op::Const);
    simplified_elsewhere(expr, &there, &back)
}

/// The expression simplified with one atom of a bounded sum written as the sum minus the other terms.
fn with_sum_as_variable(expr: &UOp, sum: &Sum, low: i64, high: i64) -> Option<UOp> {
    let (least, most) = sum.bounds()?;
    let (low, high) = (low.max(least), high.min(most));
    let (pivot, factor) = sum.terms.iter().find(|(_, factor)| factor.abs() == 1)?;
    if low > high {
        return None;
    }
    let variable = if low == high { UOp::index(low) } else { stand_in(0, low, high) };
    // pivot = factor * (variable - others), since the factor is 1 or -1.
    let others = sum.plus(&Sum::atom(pivot.clone()), factor.checked_neg()?)?;
    let solved = Sum::atom(variable.clone()).plus(&others, -1)?.times(*factor)?;
    let there = FxHashMap::from_iter([(pivot.clone(), solved.to_uop())]);
    let back = FxHashMap::from_iter((low != high).then(|| (variable, sum.to_uop())));
    simplified_elsewhere(expr, &there, &back)
}

/// Replaces, simplifies, and replaces back. `None` if nothing was there to replace.
fn simplified_elsewhere(expr: &UOp, there: &FxHashMap<UOp, UOp>, back: &FxHashMap<UOp, UOp>) -> Option<UOp> {
    let moved = replace(expr, there);
    if moved == *expr {
        return None;
    }
    let simpler = super::plainly_canonical(&moved);
    Some(super::plainly_canonical(&replace(&simpler, back)))
}

fn replace(expr: &UOp, map: &FxHashMap<UOp, UOp>) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in postorder_until(std::slice::from_ref(expr), |node| is_opaque(node) || map.contains_key(node)) {
        let new = match map.get(&node) {
            Some(new) => new.clone(),
            None if is_opaque(&node) => node.clone(),
            None => with_mapped_sources(&node, |operand| &done[operand]),
        };
        done.insert(node, new);
    }
    done.remove(expr).unwrap_or_else(|| expr.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::evaluate;

    /// Rules see conditions whose operands are not canonical yet, too.
    #[test]
    fn a_sum_in_a_condition_may_have_a_constant() {
        let x = UOp::variable("x", -50, 50);
        let expr = UOp::binary(Op::Mod, &x, &UOp::index(8));
        let (sum, twice) = (&(&x + &x) + -8, &(&x * 3) + 5);
        for condition in [sum.equals(12), sum.lt(-100), UOp::index(80).lt(&sum), twice.equals(-40)] {
            let Some(simpler) = given(&expr, std::slice::from_ref(&condition)) else { continue };
            for at in -50..=50 {
                let value = |expr: &UOp| evaluate(expr, |_| Some(Scalar::Int(at)));
                if value(&condition) == Some(Scalar::Bool(true)) {
                    assert_eq!(value(&simpler), value(&expr), "x = {at}");
                }
            }
        }
        assert_eq!(given(&expr, &[sum.equals(12)]).and_then(|simpler| simpler.as_int()), Some(2));
    }
}
