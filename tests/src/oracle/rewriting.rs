//! Oracles of rewriting: what a rule, a condition or a substitution gives has the value of what it takes the place of.

use rustc_hash::FxHashMap;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, Evaluator, UOp, evaluate, substitute};
use warpweft_compiler::{DType, symbolic};

use super::report;
use crate::choices::{Choices, caught};
use crate::{generate, rules};

/// Simplifying an expression changes its value for no assignment of its variables; all are tried where there are few.
///
/// # Errors
/// With the expression, the assignment and both values.
pub fn rewrite_keeps_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let graph = match choices.once_in(3) {
        true => generate::positions(&mut choices),
        false => generate::index_expression(&mut choices),
    };
    for root in &graph.roots {
        let simpler =
            caught(|| Ok(symbolic::simplify(root))).map_err(|why| report(&why, "rewrite symbolic", &graph))?;
        let mut all = Evaluator::new(&[root.clone(), simpler.clone(), sum_of_terms(root)]);
        for leaves in assignments(all.leaves()) {
            let values = all.evaluate(&leaves);
            let Some([before, after, sum]) = values.as_deref() else {
                return Err(report("the expression has no value", "rewrite symbolic", &graph));
            };
            if before != after {
                let why = format!("{} is {before:?}, {} is {after:?}, for {leaves:?}", root.infix(), simpler.infix());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
            if before != sum {
                let why = format!("{} is {before:?}, its terms are {sum:?}, for {leaves:?}", root.infix());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
            if !root.facts().contains(before.to_i64()) {
                let why = format!("{before:?} for {leaves:?} is not within {:?}", root.facts());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
        }
    }
    Ok(())
}

/// An index as the sum of its terms; anything else as it is.
fn sum_of_terms(root: &UOp) -> UOp {
    if !root.dtype().is_index() {
        return root.clone();
    }
    let (terms, constant) = symbolic::linear_terms(root);
    terms.iter().fold(UOp::index(constant), |sum, (atom, factor)| sum + atom * *factor)
}

/// An expression that is simplified for where a condition holds has its value there.
///
/// # Errors
/// With the expression, the condition, the assignment and both values.
pub fn conditions_keep_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let mut graph = generate::index_expression(&mut choices);
    let leaves: Vec<UOp> = graph.parameters.iter().map(|parameter| parameter.node.clone()).collect();
    let mut condition = UOp::bool(true);
    for _ in 0..choices.between(1, 3) {
        let pick = |choices: &mut Choices<'_>| {
            let named = || UOp::variable("a", 0, 9);
            if leaves.is_empty() { named() } else { choices.one_of(&leaves).clone() }
        };
        let sum = pick(&mut choices) * choices.between(-3, 3) + pick(&mut choices);
        let sum = if choices.once_in(3) { sum.modulo(choices.between(1, 5)) } else { sum };
        let limit = UOp::index(choices.between(-12, 12));
        let clause = match choices.between(0, 4) {
            0 | 1 => sum.lt(&limit),
            2 => limit.lt(&sum),
            3 => sum.equals(&limit),
            _ => sum.differs(&limit),
        };
        condition = condition.and(&clause);
    }
    graph.roots.push(condition.clone());
    let (expressions, _) = graph.roots.split_at(graph.roots.len() - 1);
    for root in expressions {
        let simplified = caught(|| Ok(symbolic::simplify_given(root, &condition)));
        let simpler = simplified.map_err(|why| report(&why, "parse", &graph))?;
        let mut all = Evaluator::new(&[root.clone(), simpler.clone(), condition.clone()]);
        for leaves in assignments(all.leaves()) {
            let values = all.evaluate(&leaves);
            let Some([before, after, holds]) = values.as_deref() else {
                return Err(report("the expression has no value", "parse", &graph));
            };
            if holds.to_bool() && before != after {
                let (root, simpler, condition) = (root.infix(), simpler.infix(), condition.infix());
                let why = format!("{root} is {before:?}, {simpler} is {after:?}, for {leaves:?}, where {condition}");
                return Err(report(&why, "parse", &graph));
            }
        }
    }
    Ok(())
}

/// All assignments of variables, or some hundreds from everywhere between their bounds.
fn assignments(leaves: &[UOp]) -> Vec<Vec<Scalar>> {
    const ASSIGNMENTS_MAX: u64 = 600;
    let spans: Vec<u64> = leaves.iter().map(|leaf| (leaf.max_value() - leaf.min_value()) as u64 + 1).collect();
    let count = spans.iter().fold(1u64, |count, span| count.saturating_mul(*span));
    let all = |mut number: u64| {
        let digit = |(leaf, span): (&UOp, &u64)| {
            let value = leaf.min_value() + (number % span) as i64;
            number /= span;
            Scalar::Int(value)
        };
        leaves.iter().zip(&spans).map(digit).collect()
    };
    let some = |number: u64| {
        let bounds = leaves.iter().map(|leaf| (leaf.min_value(), leaf.max_value())).enumerate();
        bounds.map(|(position, ends)| rules::random::sample(ends, number, position)).collect()
    };
    match count <= ASSIGNMENTS_MAX {
        true => (0..count).map(all).collect(),
        false => (0..ASSIGNMENTS_MAX / 2).map(some).collect(),
    }
}

/// One rule, chosen and instantiated by the bytes, keeps the value of what it replaces.
///
/// # Errors
/// With the rule, both expressions, the assignment and both values.
pub fn rule_keeps_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let number = choices.byte() as usize * 256 + choices.byte() as usize;
    let all = rules::exact_rules();
    let (set, rule) = all[number % all.len()];
    rules::try_rule(set, rule, &mut choices).map(|_| ())
}

/// A graph whose variables are replaced by constants has the value that the graph has for these constants.
///
/// # Errors
/// With the graph and both values.
pub fn substitution_is_evaluation(bytes: &[u8]) -> Result<(), String> {
    let graph = generate::index_expression(&mut Choices::new(bytes));
    for root in &graph.roots {
        let value_of = |leaf: &UOp| Scalar::Int((leaf.min_value() + leaf.max_value()) / 2);
        let variables = graph.parameters.iter().map(|parameter| parameter.node.clone());
        let map: FxHashMap<UOp, UOp> = variables
            .filter(|node| matches!(node.arg(), Arg::Variable(_)))
            .map(|node| (node.clone(), UOp::constant(value_of(&node), DType::INDEX)))
            .collect();
        let constant = symbolic::simplify(&substitute(root, &map));
        let expected = evaluate(root, |leaf| Some(value_of(leaf)));
        if constant.as_scalar() != expected {
            return Err(report(&format!("{} is not {expected:?}", constant.infix()), "rewrite symbolic", &graph));
        }
    }
    Ok(())
}
