//! Every rule of the compiler, one by one: instances of its pattern, and the values before and after.
//!
//! [`random`] makes instances of any size and type by choices; [`small`] makes every instance of a small domain, which proves a rule of
//! integers there; [`functions`] holds what is approximated (exponentials, logarithms, sines) to its last places. A rule *matches* an
//! instance if its set is for it, and *rewrites* it if it builds another node.
//!
//! Tests: `it/rules.rs`, which fails for a rule that no instance made rewrite; the kinds `rules`, `rules_small` and `functions` of the soak.

pub mod functions;
pub mod random;
pub mod small;

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Evaluator, UOp};
use warpweft_compiler::legalize::{decompose, exponentials, half_floats, transcendental};
use warpweft_compiler::rewrite::{Rule, RuleSet, instance};
use warpweft_compiler::symbolic;

use crate::choices::Choices;

/// Rule sets whose rules keep every value exactly.
pub fn exact_sets() -> Vec<&'static RuleSet> {
    let mut sets = symbolic::all_rules().to_vec();
    sets.extend([
        &*decompose::DIVISION,
        &*half_floats::HALF_FLOATS,
        &*half_floats::HALF_FLOATS_CAST,
        &*half_floats::HALF_FLOATS_COMPUTED,
    ]);
    sets
}

/// Rule sets whose rules approximate: their errors are counted in last places.
pub fn approximate_sets() -> [&'static RuleSet; 5] {
    [
        &transcendental::TRANSCENDENTAL,
        &transcendental::TRANSCENDENTAL_FUSED,
        &transcendental::TRANSCENDENTAL_BUT_POWERS,
        &exponentials::EXPONENTIALS,
        &exponentials::POWERS_OF_TWO,
    ]
}

/// Every rule that keeps values exactly, with its set.
pub fn exact_rules() -> Vec<(&'static RuleSet, &'static Rule)> {
    exact_sets().into_iter().flat_map(|set| set.rules().iter().map(move |rule| (set, rule))).collect()
}

/// What a rule did with an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is no such instance, or the rule's set is not for it.
    NoMatch,
    /// It stays: a condition does not hold.
    Stays,
    /// It was rewritten, and keeps its value.
    Rewritten,
}

/// A rule on an instance made by choices.
///
/// # Errors
/// With the rule, both expressions, the assignment and both values, if a value changes.
pub fn try_rule(set: &RuleSet, rule: &Rule, choices: &mut Choices<'_>) -> Result<Outcome, String> {
    let dtype = *choices.one_of(&random::TYPES);
    let Some(before) = instance(rule.pattern, dtype, &mut random::RuleMaker::new(choices)) else {
        return Ok(Outcome::NoMatch);
    };
    check_instance(set, rule, &before, &|leaves| {
        let value = |number: u64| {
            let values = leaves.iter().enumerate();
            values.map(|(position, leaf)| random::leaf_value(leaf, number, position)).collect()
        };
        (0..60).map(value).collect()
    })
}

/// The rule on this instance, for the assignments that `assign` makes for its leaves.
///
/// # Errors
/// As [`try_rule`].
pub fn check_instance(
    set: &RuleSet,
    rule: &Rule,
    before: &UOp,
    assign: &dyn Fn(&[UOp]) -> Vec<Vec<Scalar>>,
) -> Result<Outcome, String> {
    if !set.admits(before) {
        return Ok(Outcome::NoMatch);
    }
    let Some(after) = rule.apply(before) else { return Ok(Outcome::Stays) };
    let name = format!("{} of {}", rule.name, set.name());
    if (after.dtype(), after.shape()) != (before.dtype(), before.shape()) {
        return Err(format!("{name} turns {} into {}: {}", before.dtype(), after.dtype(), before.infix()));
    }
    let mut both = Evaluator::new(&[before.clone(), after.clone()]);
    let leaves: Vec<UOp> = both.leaves().to_vec();
    for values in assign(&leaves) {
        let results = both.evaluate(&values);
        let Some([wanted, found]) = results.as_deref() else {
            return Err(format!("{name}: {} or {} has no value", before.infix(), after.infix()));
        };
        if wanted != found {
            let assignment: Vec<String> =
                leaves.iter().zip(&values).map(|(leaf, value)| format!("{} = {value:?}", leaf.infix())).collect();
            return Err(format!(
                "{name}: {} is {wanted:?}, {} is {found:?}, for {} of {}",
                before.infix(),
                after.infix(),
                assignment.join(", "),
                before.dtype()
            ));
        }
    }
    Ok(Outcome::Rewritten)
}
