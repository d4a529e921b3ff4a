//! Checks a linear list against the rules that renderers rely on; see the table in [`linearize`](super).
//!
//! Checking is easier than ordering: one pass over the list, with a stack of open loops.

use rustc_hash::FxHashMap;

use crate::ir::{Op, UOp};

/// What is wrong with a list: a bug in the compiler.
///
/// Each op stands after its operands and inside every loop that an operand stands in, unless the operand was made final or is what lanes combine; loops nest; every
/// accumulator is updated; no dtype is `Index`.
pub fn check(list: &[UOp]) -> Result<(), String> {
    let mut open: Vec<UOp> = Vec::new();
    // The loops that were open where each op was listed.
    let mut scopes: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for (number, op) in list.iter().enumerate() {
        let fail = |message: String| Err(format!("op {number}, {op:?}: {message}"));
        if op.dtype().is_index() {
            return fail("an index without a machine type".to_string());
        }
        for operand in op.src() {
            let Some(scope) = scopes.get(operand) else {
                return fail(format!("operand {operand:?} is not listed before it"));
            };
            if !open.starts_with(scope) && !matches!(op.op(), Op::Final | Op::ShuffleReduce) {
                return fail(format!("operand {operand:?} stands in a loop that has ended"));
            }
        }
        match op.op() {
            Op::EndRange => match open.pop() {
                Some(innermost) if innermost == op.src()[0] => {}
                _ => return fail("does not close the innermost loop".to_string()),
            },
            Op::ReduceRange | Op::Running | Op::Sink | Op::LocalBuffer | Op::Reduce | Op::Gather | Op::Buffer => {
                return fail("should have been lowered".to_string());
            }
            op if op.is_movement() => return fail("should have been lowered".to_string()),
            _ => {}
        }
        if op.op() == Op::Range {
            open.push(op.clone());
        }
        if !matches!(op.op(), Op::Store | Op::Update) && scopes.insert(op.clone(), open.clone()).is_some() {
            return fail("is listed twice".to_string());
        }
    }
    match open.last() {
        Some(range) => Err(format!("loop {range:?} is never closed")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, AxisKind};

    fn range(len: i64) -> (UOp, UOp, UOp) {
        let bound = UOp::int(len, DType::I64);
        let range =
            UOp::new(Op::Range, DType::I64, [bound.clone()].to_vec(), UOp::range(len, 0, AxisKind::Loop).arg().clone());
        let end = UOp::new(Op::EndRange, DType::VOID, [range.clone()].to_vec(), Arg::None);
        (bound, range, end)
    }

    #[test]
    fn a_loop_that_nests_is_accepted() {
        let (bound, range, end) = range(4);
        let next = &range + 1;
        let one = range.const_like(1);
        assert_eq!(check(&[bound, one, range, next, end]), Ok(()));
    }

    #[test]
    fn values_do_not_outlive_their_loop() {
        let (bound, range, end) = range(4);
        let (one, next) = (range.const_like(1), &range + 1);
        let after = &next + &next;
        let error = check(&[bound.clone(), one.clone(), range.clone(), next, end, after]).unwrap_err();
        assert!(error.contains("a loop that has ended"), "{error}");
        let error = check(&[bound, one, range]).unwrap_err();
        assert!(error.contains("never closed"), "{error}");
    }
}
