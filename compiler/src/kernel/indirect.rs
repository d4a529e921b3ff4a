//! Indirect indices: those that a store takes from memory, of a scatter and of an order (`Op::Scatter`, `Op::Place`).
//!
//! Such an index is a term of the store's offset that is no loop variable: a number that was loaded or computed. The gate of the store keeps it below the length of its axis. So it
//! is a digit of the offset like a loop variable, and the loops over the other axes tell stores apart as they do elsewhere. Two iterations of a scatter's serial loop may have one index;
//! two of an order never do, for each index stands once in it.
//!
//! Tested below, and with the choice by hand for GPUs in the test crate.

use super::ranges::closed_ranges;
use crate::ir::{AxisKind, Op, UOp, postorder};
use crate::symbolic::{clauses, linear_terms};

/// Whether a term of an offset is a number that was loaded or computed.
pub fn is_indirect(term: &UOp) -> bool {
    let is_computed = |node: &UOp| matches!(node.op(), Op::Load | Op::Exchange | Op::ReduceRange);
    term.op() != Op::Range && postorder(std::slice::from_ref(term)).iter().any(is_computed)
}

/// How far an indirect index goes at most where the store's gate holds, if its least is 0.
pub fn reach_of_index(store: &UOp, index: &UOp) -> Option<i64> {
    let conditions = store.src()[0].src().get(2).map(clauses)?;
    let number = without_casts(index);
    let below = |condition: &UOp| {
        let [a, b] = condition.src() else { return None };
        b.as_int().filter(|_| condition.op() == Op::Lt && without_casts(a) == number)
    };
    let above = |condition: &UOp| {
        let [a, b] = condition.src() else { return false };
        condition.op() == Op::Lt && a.as_int().is_some_and(|least| least >= -1) && without_casts(b) == number
    };
    let is_positive = number.min_value() >= 0 || conditions.iter().any(above);
    conditions.iter().filter_map(below).min().filter(|_| is_positive).map(|len| (len - 1).max(0))
}

/// Whether a store is one of an order: its index is indirect, and no loop in order may have one twice.
pub fn is_order(store: &UOp) -> bool {
    let is_serial = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Serial);
    !closed_ranges(store).iter().any(is_serial)
        && linear_terms(&store.src()[0].src()[1]).0.iter().any(|(term, _)| is_indirect(term))
}

fn without_casts(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Cast {
        node = &node.src()[0];
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::Arg;

    /// A store at `named * 8 + column` of an index that was loaded, under a gate.
    fn store(row: AxisKind, gate: impl Fn(&UOp) -> UOp) -> (UOp, UOp) {
        let (row, column) = (UOp::range(4, 0, row), UOp::range(8, 1, AxisKind::Loop));
        let index = |slot: u32, dtype: DType, offset: UOp, gate: Option<UOp>| {
            let src: Vec<UOp> = [UOp::param(slot, dtype, 64), offset].into_iter().chain(gate).collect();
            UOp::new(Op::Index, dtype, src, Arg::None)
        };
        let number = UOp::new(Op::Load, DType::I32, vec![index(1, DType::I32, row.clone(), None)], Arg::None);
        let named = number.cast(DType::INDEX);
        let target = index(0, DType::F32, &named * 8 + &column, Some(gate(&number)));
        let src = vec![target, UOp::float(1.0, DType::F32), row, column];
        (UOp::new(Op::Store, DType::VOID, src, Arg::None), named)
    }

    #[test]
    fn a_gate_says_how_far_an_index_goes() {
        let below = |number: &UOp| number.lt(&UOp::int(5, DType::I32));
        let both = |number: &UOp| UOp::int(-1, DType::I32).lt(number).and(below(number));
        let (within, named) = store(AxisKind::Loop, both);
        assert!(is_indirect(&named) && !is_indirect(&UOp::range(4, 0, AxisKind::Loop)));
        assert_eq!(reach_of_index(&within, &named), Some(4));
        // Without a least index it may be any.
        let (half, named) = store(AxisKind::Loop, below);
        assert_eq!(reach_of_index(&half, &named), None);
    }

    #[test]
    fn indices_of_a_serial_loop_are_no_order() {
        let is_order_along = |kind: AxisKind| is_order(&store(kind, |number| number.lt(&UOp::int(5, DType::I32))).0);
        assert!(is_order_along(AxisKind::Loop) && !is_order_along(AxisKind::Serial));
    }
}
