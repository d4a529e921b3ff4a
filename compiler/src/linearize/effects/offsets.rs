//! Offsets as sums of loop variables with factors, and what gates say of loop variables, for given values of the list's variables.
//!
//! Tested with the whole ([`super`]).

use rustc_hash::FxHashMap;

use super::equation::{Sum, Term};
use crate::dtype::Scalar;
use crate::ir::{Arg, Op, UOp};

/// Values of the variables of a list.
pub(super) type Values<'a> = FxHashMap<&'a UOp, i128>;

/// The number that an expression has in every iteration, if it has one.
pub(super) fn fixed_value(node: &UOp, values: &Values<'_>) -> Option<i128> {
    if let Some(number) = node.as_int() {
        return Some(number as i128);
    }
    let order = crate::ir::postorder(std::slice::from_ref(node));
    if order.iter().any(|part| matches!(part.op(), Op::Range | Op::Load)) {
        return None;
    }
    let leaf = |leaf: &UOp| values.get(leaf).map(|value| Scalar::Int(*value as i64));
    crate::ir::evaluate(node, leaf).map(|value| value.to_i64() as i128)
}

/// Iterations of a loop.
pub(super) fn length(range: &UOp, values: &Values<'_>) -> i128 {
    fixed_value(&range.src()[0], values).unwrap_or(range.src()[0].max_value() as i128).max(0)
}

/// The offset of an access as a sum; `None` if it is none.
pub(super) fn offset_of(index: &UOp, values: &Values<'_>) -> Option<Sum> {
    let mut sum = Sum { is_gated: index.src().len() > 2, ..Sum::default() };
    let gate = Gate::of(index, values);
    let mut pending: Vec<(&UOp, i128)> = vec![(&index.src()[1], 1)];
    while let Some((node, factor)) = pending.pop() {
        if node.dtype().lanes() == 1
            && let Some(number) = fixed_value(node, values)
        {
            sum.constant += factor * number;
            continue;
        }
        match (node.op(), node.src()) {
            (Op::Const, _) => sum.constant += factor * node.as_int()? as i128,
            (Op::Add, [a, b]) => pending.extend([(a, factor), (b, factor)]),
            (Op::Sub, [a, b]) => pending.extend([(a, factor), (b, -factor)]),
            (Op::Neg, [a]) => pending.push((a, -factor)),
            (Op::Splat | Op::Cast, [a]) if a.dtype().element().is_integer() => pending.push((a, factor)),
            (Op::Mul, [a, b]) => match (fixed_value(a, values), fixed_value(b, values)) {
                (_, Some(number)) => pending.push((a, factor * number)),
                (Some(number), _) => pending.push((b, factor * number)),
                _ => return None,
            },
            (Op::Shl, [a, b]) => pending.push((a, factor << b.as_int().filter(|bits| (0..48).contains(bits))?)),
            (Op::Ramp, [base]) => {
                let Arg::Number(step) = node.arg() else { return None };
                sum.add(Term::Lane, factor * *step as i128, (0, gate.lanes - 1));
                pending.push((base, factor));
            }
            (Op::Range, _) => {
                let id = node.as_range()?.id;
                let most = gate.loops.get(&id).copied().unwrap_or(i128::MAX);
                sum.add(Term::Loop(id), factor, (0, length(node, values).min(most) - 1));
            }
            (Op::IDiv | Op::CDiv | Op::Mod | Op::CMod | Op::Shr | Op::And, [a, b]) => {
                let (range, number) = (without_casts(a).as_range()?.id, fixed_value(b, values)?);
                let most = length(without_casts(a), values) - 1;
                let is_quotient = matches!(node.op(), Op::IDiv | Op::CDiv | Op::Shr);
                let base = match node.op() {
                    Op::Shr if (0..48).contains(&number) => 1 << number,
                    Op::And if (number + 1).count_ones() == 1 => number + 1,
                    Op::Shr | Op::And => return None,
                    _ => number,
                };
                match is_quotient {
                    _ if base < 1 => return None,
                    true => sum.add(Term::Quotient(range, base), factor, (0, most / base)),
                    false => sum.add(Term::Remainder(range, base), factor, (0, most.min(base - 1))),
                }
            }
            _ => return None,
        }
    }
    // A vector at one offset is that many elements in a row.
    if index.dtype().lanes() > 1 && index.src()[1].dtype().lanes() == 1 {
        sum.add(Term::Lane, 1, (0, gate.lanes - 1));
    }
    Some(sum)
}

/// What the gate of an access says of lanes and loop variables: the access is made where they are less than these numbers.
pub(super) struct Gate {
    pub(super) lanes: i128,
    pub(super) loops: FxHashMap<u32, i128>,
}

impl Gate {
    pub(super) fn of(index: &UOp, values: &Values<'_>) -> Gate {
        let mut gate = Gate { lanes: index.dtype().lanes() as i128, loops: FxHashMap::default() };
        let mut pending: Vec<&UOp> = index.src().get(2).into_iter().collect();
        while let Some(part) = pending.pop() {
            match (part.op(), part.src()) {
                (Op::And, [a, b]) => pending.extend([a, b]),
                (Op::Splat, [one]) => pending.push(one),
                (Op::Lt, [number, limit]) => {
                    let limit = if limit.op() == Op::Splat { &limit.src()[0] } else { limit };
                    let limit = fixed_value(limit, values).map(|limit| limit.max(1));
                    match (limit, without_casts(number).as_range()) {
                        (Some(limit), Some(range)) => drop(gate.loops.insert(range.id, limit)),
                        (Some(limit), None) if is_number_of_lane(number) => gate.lanes = gate.lanes.min(limit),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        gate
    }
}

/// Whether a vector is 0, 1, 2, ...
pub(super) fn is_number_of_lane(node: &UOp) -> bool {
    let is_zero = |base: &UOp| base.as_int() == Some(0);
    node.op() == Op::Ramp && *node.arg() == Arg::Number(1) && is_zero(&node.src()[0])
}

pub(super) fn without_casts(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Cast && node.src()[0].dtype().is_integer() {
        node = &node.src()[0];
    }
    node
}
