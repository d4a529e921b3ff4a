//! Integers of a list with what is known of their operands: addresses of further iterations become those of the first and a constant (`addresses`).
//!
//! Tested by the passes that copy iterations (`short_loops`, `repeated`, `ahead`).

use crate::ir::{Op, UOp};
use crate::linearize::addresses::split_offset;

/// Sums and products of integers with what is known of their operands; constants of sums come last. Integers wrap, so all of this is exact.
pub(super) fn folded(node: &UOp) -> UOp {
    if !node.dtype().is_integer() || node.dtype().lanes() > 1 {
        return node.clone();
    }
    let int = |value: i64| UOp::int(value, node.dtype());
    match (node.op(), node.src()) {
        (Op::Mul, [a, b]) => match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) => a.checked_mul(b).filter(|product| fits(*product, node)).map_or(node.clone(), int),
            (Some(0), _) | (_, Some(0)) => int(0),
            (Some(1), _) => b.clone(),
            (_, Some(1)) => a.clone(),
            _ => node.clone(),
        },
        (Op::Add, [a, b]) => sum(a, b).unwrap_or_else(|| node.clone()),
        (Op::Cast, [a]) => match a.as_int().filter(|value| fits(*value, node)) {
            Some(value) => int(value),
            None => node.clone(),
        },
        _ => node.clone(),
    }
}

/// A sum with its constant last, if that does not leave its type.
fn sum(a: &UOp, b: &UOp) -> Option<UOp> {
    let ((base, first), (other, second)) = (split_offset(a), split_offset(b));
    let constant = first.checked_add(second)?;
    if !fits(constant, a) {
        return None;
    }
    let base = match (base, other) {
        (Some(base), Some(other)) => Some(UOp::binary(Op::Add, base, other)),
        (one, None) | (None, one) => one.cloned(),
    };
    let constant_node = UOp::int(constant, a.dtype());
    Some(match base {
        None => constant_node,
        Some(base) if constant == 0 => base,
        Some(base) => UOp::binary(Op::Add, &base, &constant_node),
    })
}

/// Whether the type of an op has a number.
fn fits(value: i64, node: &UOp) -> bool {
    node.dtype().bytes() >= 8 || i32::try_from(value).is_ok() && node.dtype().bytes() == 4
}
