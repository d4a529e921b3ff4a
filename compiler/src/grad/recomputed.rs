//! Derivatives of what is computed again for them, so that nothing between operands and value needs to be kept.
//!
//! The graph of the value is built once more over operands that wait for the gradient: each is chosen by a comparison with an element of it, which holds either way.
//! So what is computed again is another graph than the first one, and none of it can be computed before the gradient is there.
//!
//! Tested by tests/it/recomputed.rs, the memory of a training step among it.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::backward::gradients_or_none;
use super::rules::{Contribution, zero};
use crate::UOp;
use crate::ir::{Dim, Shape, substitute};

/// What goes to each operand; nothing goes to the value.
pub(super) fn recomputed(node: &UOp, g: &UOp) -> Contribution {
    let (value, operands) = (&node.src()[0], &node.src()[1..]);
    let waiting: FxHashMap<UOp, UOp> = operands
        .iter()
        .filter(|operand| operand.dtype().is_float())
        .map(|operand| (operand.clone(), behind(operand, g)))
        .collect();
    let again = substitute(value, &waiting);
    let targets: Vec<UOp> = operands.iter().filter_map(|operand| waiting.get(operand).cloned()).collect();
    let mut found = match gradients_or_none(&again, g, &targets) {
        Ok(found) => found.into_iter(),
        Err(error) => unreachable!("operands and gradient fit the value: {error}"),
    };
    let mut parts: Contribution = smallvec![None];
    parts.extend(
        operands.iter().map(|operand| if waiting.contains_key(operand) { found.next().flatten() } else { None }),
    );
    parts
}

/// x, which cannot be computed before the gradient is.
fn behind(x: &UOp, g: &UOp) -> UOp {
    let lengths = g.shape();
    if lengths.iter().any(|length| length.min_value() < 1) {
        return x.clone();
    }
    let first: Vec<(Dim, Dim)> = lengths.iter().map(|_| (Dim::Const(0), Dim::Const(1))).collect();
    let one = if first.is_empty() { g.clone() } else { g.shrink(&first).reshape(Shape::from([0i64; 0])) };
    one.equals(&one).select(x, one.differs(&one).select(x, zero(x)))
}
