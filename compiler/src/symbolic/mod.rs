//! Simplification of expressions inside kernels and of symbolic dims: rule sets by family, and [`simplify`] that applies them all.
//!
//! The heart is index arithmetic. An index expression is a *sum* (`terms`) of atoms with coefficients; quotients and
//! remainders of sums by constants are cut down by `div_mod` and joined by `recombine`; comparisons stand between a sum and a
//! constant (`compare`). Bounds of variables decide what can be.
//!
//! Always: a rule keeps value, dtype and shape for every assignment that the bounds admit; scalars only (rank 0).
//! Not here: tensor-level rules (`schedule`), lowering of ops that a target lacks (`kernel`).
//! Tests: the forms that expressions come to, below; every rule at random and on every instance of a small domain (`it/rules.rs` in the
//! test crate), whole expressions at random (`rewrite_keeps_value`, `conditions_keep_value` there), the conformance runner's `symbolic`.

mod boolean;
mod compare;
mod constants;
mod div_mod;
mod final_form;
mod float;
mod given;
mod integer;
mod ranges;
mod recombine;
mod sharing;
mod symbolic_division;
mod terms;
mod valid;

pub use boolean::{BOOLEAN, CHOICE};
pub use compare::COMPARE;
pub use constants::FOLD;
pub use float::FLOAT;
pub use given::GIVEN;
pub use integer::{INDEX, INTEGER};
pub use terms::linear_terms;
pub use valid::{clauses, simplify_given};

use crate::ir::{Op, UOp, postorder};
use crate::rewrite::{RuleSet, rewrite_gradually};

/// Every rule set of this module, in the order in which they are tried.
pub fn all_rules() -> [&'static RuleSet; 8] {
    [&FOLD, &INTEGER, &INDEX, &COMPARE, &BOOLEAN, &CHOICE, &FLOAT, &GIVEN]
}

/// All but the rules that simplify by conditions, which use the others: so nested conditions cost no more than one.
fn plain_rules() -> [&'static RuleSet; 7] {
    [&FOLD, &INTEGER, &INDEX, &COMPARE, &BOOLEAN, &CHOICE, &FLOAT]
}

/// An expression of the same value with fewer operations, where one is found. Linear in the nodes of the expression.
///
/// Lengths of ranges stay as they are, so that a range remains one node wherever it is named.
pub fn simplify(expr: &UOp) -> UOp {
    if expr.op() == Op::Const {
        return expr.clone();
    }
    let canonical = canonical(expr);
    if canonical.op() == Op::Const {
        return canonical;
    }
    let simpler = ranges::with_plain_lengths(&canonical, final_form::with_few_ops);
    if simpler == *expr {
        return simpler;
    }
    // What is canonical may be longer in rare cases, as when digits of two bases are mixed: then better as it was.
    if operations(&simpler) <= operations(expr) { simpler } else { expr.clone() }
}

/// How many operations an expression takes: distinct elementwise nodes, without casts.
fn operations(expr: &UOp) -> usize {
    let counts = |node: &&UOp| node.op().is_elementwise() && node.op() != Op::Cast;
    postorder(std::slice::from_ref(expr)).iter().filter(counts).count()
}

/// The form that the rules come to, on which they work. Nodes that are in it remember it.
fn canonical(expr: &UOp) -> UOp {
    rewritten(expr, &all_rules(), UOp::mark_canonical)
}

/// As [`canonical`], by the plain rules alone.
fn plainly_canonical(expr: &UOp) -> UOp {
    rewritten(expr, &plain_rules(), |_| ())
}

fn rewritten(expr: &UOp, sets: &[&'static RuleSet], settled: fn(&UOp)) -> UOp {
    // What no rule changes no part of the rules changes.
    let is_leaf = |node: &UOp| node.is_canonical() || ranges::has_symbolic_length(node);
    let (canonical, passed) = rewrite_gradually(expr, sets, &FOLD, is_leaf, settled);
    debug_assert!(passed.is_none(), "{passed:?}");
    canonical
}

/// Least and largest value that an expression can have, as far as can be proven: by its own facts and by those of its simplified
/// form.
pub fn proven_bounds(expr: &UOp) -> (i64, i64) {
    let simpler = simplify(expr);
    (expr.min_value().max(simpler.min_value()), expr.max_value().min(simpler.max_value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expr: &UOp, simplified: &str) {
        assert_eq!(simplify(expr).infix(), simplified, "from {}", expr.infix());
    }

    #[test]
    fn digits_meet_again() {
        let (i, j) = (UOp::variable("i", 0, 15), UOp::variable("j", 0, 11));
        let flat = &i * 12 + &j;
        check(&(flat.modulo(8) + flat.idiv(8) * 8), "((i * 12) + j)");
        check(&(flat.idiv(12) * 5 + flat.modulo(12)), "((i * 5) + j)");
        check(&(flat.modulo(8) + flat.idiv(8).modulo(24) * 8), "((i * 12) + j)");
    }

    #[test]
    fn low_digits_are_cut_off() {
        let (i, j) = (UOp::variable("i", 0, 99), UOp::variable("j", 0, 3));
        check(&(&i * 4 + &j).idiv(20), "(i // 5)");
        check(&(&i * 4 + &j).lt(44), "(i < 11)");
    }

    #[test]
    fn comparisons_stand_between_a_sum_and_a_constant() {
        let x = UOp::variable("x", 0, 99);
        check(&!(&x + 3).lt(7), "(3 < x)");
        check(&(&x * 2).lt(9), "(x < 5)");
        check(&x.idiv(7).lt(3), "(x < 21)");
    }

    #[test]
    fn conjunctions_of_any_order_and_nesting_end_in_one_form() {
        let x = UOp::variable("x", 0, 9);
        // Of several ops, so that some stand before and some after a conjunction in the order of operands.
        let index = UOp::new(
            Op::Index,
            crate::DType::BOOL,
            vec![UOp::param(0, crate::DType::BOOL, 10), x.clone()],
            crate::ir::Arg::None,
        );
        let load = UOp::new(Op::Load, crate::DType::BOOL, vec![index], crate::ir::Arg::None);
        let parts = [x.lt(4), UOp::index(0).lt(&x), (&x + 1).modulo(2).lt(1), load];
        let and = |a: &UOp, b: &UOp| UOp::binary(Op::And, a, b);
        let mut forms = Vec::new();
        for order in 0..24usize {
            let mut left = parts.to_vec();
            let taken = [order % 4, order / 4 % 3, order / 12].map(|at| left.remove(at));
            let [a, b, c] = &taken;
            let d = &left[0];
            for nested in [and(&and(&and(a, b), c), d), and(a, &and(b, &and(c, d))), and(&and(a, b), &and(c, d))] {
                forms.push(simplify(&nested));
            }
        }
        assert!(forms.iter().all(|form| *form == forms[0]), "{}", forms[0].infix());
    }

    #[test]
    fn what_no_rule_changes_remembers_it_and_nothing_else() {
        let x = UOp::variable("remembers", 0, 99);
        let (long, short) = (&x * 2 + &x, &x * 3);
        assert!(!short.is_canonical());
        assert_eq!(canonical(&long), short);
        assert_eq!([&x, &short, &long].map(|node| node.is_canonical()), [true, true, false]);
        // Conditions are looked at by all rules alone.
        let bound = UOp::binary(Op::And, &x.lt(50), &x.lt(20));
        plainly_canonical(&bound);
        assert!(!bound.is_canonical());
    }

    #[test]
    fn a_long_sum_ends() {
        let mut node = UOp::index(0);
        for number in 0..5_000 {
            node = node + UOp::range(7, number % 300, crate::ir::AxisKind::Loop);
        }
        simplify(&node);
    }

    #[test]
    fn digits_that_are_cut_off_and_joined_again_end() {
        let variable = |name: &str, len: i64| UOp::variable(name, 0, len - 1);
        let (a, b, c, d) = (variable("a", 5), variable("b", 3), variable("c", 8), variable("d", 6));
        let low = &a * 6 + &b * 9 + &c * 6 + &d;
        let high = (&b + &c * 4 + low.idiv(21)).modulo(8);
        simplify(&(&a * 378 + &b * 567 + &c * 378 + &d * 63 + low.modulo(21) - high * 21 + 588).modulo(1323));
        let (a, b, c) = (variable("a", 4), variable("b", 7), variable("c", 4));
        let low = (&a * 4 - &b * 2 + &c + 4).modulo(7) * 4 - (&a * 4 - &b * 16 + &c - 38).idiv(7);
        simplify(&(low.modulo(6) - low.idiv(6).modulo(4) * 6 + 12).modulo(36));
    }

    #[test]
    fn linear_terms_look_through_sums() {
        let (i, j) = (UOp::variable("i", 0, 15), UOp::variable("j", 0, 11));
        let (terms, constant) = linear_terms(&((&i * 3 - &j + 4) * 2 + &j.idiv(5)));
        assert_eq!(constant, 8);
        assert_eq!(terms, [(i, 6), (j.clone(), -2), (j.idiv(5), 1)]);
    }
}
