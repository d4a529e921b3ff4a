//! Nodes whose value is known: constants computed from constants, and nodes whose facts admit one value.

use crate::dtype::Scalar;
use crate::ir::{Op, UOp, fold_constants};
use crate::rewrite::{Bindings, Pattern, Rule, RuleSet};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// For every elementwise op but those that machines approximate, for loops that run once and variables of one value: a node that can have but one value is that constant.
pub static FOLD: LazyLock<RuleSet> = LazyLock::new(|| {
    let elementwise = Op::ALL.iter().copied().filter(|op| op.is_elementwise() && !is_approximated(*op));
    let rules = elementwise.chain([Op::Range, Op::Variable]).map(|op| {
        // Rule names live as long as the process, as the rules do.
        let name: &'static str = format!("fold-{op}").leak();
        Rule::new(name, &[], Pattern::any(op, "node"), known_value)
    });
    RuleSet::new("FOLD", |root| root.shape().is_empty(), rules.collect())
});

/// The constant that a node is, if its operands are constants or its facts say so.
fn known_value(root: &UOp, _: &Bindings<'_>) -> Option<UOp> {
    let dtype = root.dtype();
    if let Some(value) = root.facts().as_const()
        && (dtype.is_integer() || dtype.is_bool())
    {
        return Some(UOp::constant(Scalar::from_i64(value, dtype), dtype));
    }
    let values: SmallVec<[Scalar; 3]> = root.src().iter().map(UOp::as_scalar).collect::<Option<_>>()?;
    // What does not fit an index is no index: such a product is an error of whoever wrote it, and stays visible.
    if dtype.is_index() && overflows(root.op(), &values) {
        return None;
    }
    Some(UOp::constant(fold_constants(root, &values)?, dtype))
}

/// Whether a machine computes an op by a formula of its own, so that its result may be another than that of constant folding in the last
/// place: a value must not depend on whether it was known beforehand.
fn is_approximated(op: Op) -> bool {
    matches!(op, Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos)
}

fn overflows(op: Op, values: &[Scalar]) -> bool {
    let [a, b] = values else { return false };
    let (a, b) = (a.to_i64(), b.to_i64());
    let exact = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        _ => Some(0),
    };
    exact.is_none()
}
