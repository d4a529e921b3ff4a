//! What addresses are made of: an offset is something and a constant, and the constant is part of the instruction that loads or stores.
//!
//! So accesses whose offsets differ by constants alone share one address, and a sum that nothing but addresses ask for is never computed. Who writes instructions and who
//! counts them ask here, so that they agree.
//!
//! Always: an offset is `base + constant`, the base none where it is a constant alone. Tested below.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Arg, Op, UOp};

/// Most elements that a constant part may be: bytes behind a base are a number of 32 bits with a sign.
const DISTANCE_MAX: i64 = 1 << 26;

/// A scalar offset as its base and its constant part.
pub fn split_offset(offset: &UOp) -> (Option<&UOp>, i64) {
    if let Some(constant) = offset.as_int() {
        return (None, constant);
    }
    match (offset.op(), offset.src()) {
        (Op::Add, [base, constant]) => match constant.as_int() {
            Some(constant) if offset.dtype().lanes() == 1 && constant.abs() <= DISTANCE_MAX => (Some(base), constant),
            _ => (Some(offset), 0),
        },
        _ => (Some(offset), 0),
    }
}

/// Offsets of lanes a constant step apart as that of the first one, and the step.
pub fn split_ramp(offset: &UOp) -> Option<(&UOp, i64)> {
    match (offset.op(), offset.arg()) {
        (Op::Ramp, Arg::Number(step)) => {
            let reach = step.saturating_abs().saturating_mul(offset.dtype().lanes() as i64);
            (reach <= DISTANCE_MAX).then(|| (&offset.src()[0], *step))
        }
        _ => None,
    }
}

/// The sums of something and a constant that only addresses ask for, and the offsets of lanes a constant step apart: they need not be computed.
pub fn sums_of_addresses(list: &[UOp]) -> FxHashSet<UOp> {
    let mut sums: FxHashSet<UOp> = FxHashSet::default();
    for node in list.iter().filter(|node| node.op() == Op::Index) {
        if split_ramp(&node.src()[1]).is_some() {
            sums.insert(node.src()[1].clone());
        }
        if split_offset(&node.src()[1]).1 != 0 && node.src()[1].as_int().is_none() {
            sums.insert(node.src()[1].clone());
        }
    }
    for node in list {
        let asked = if node.op() == Op::Index { &node.src()[2..] } else { node.src() };
        for operand in asked {
            sums.remove(operand);
        }
    }
    sums
}

/// What is known in the loops that are open: forgotten when the loop ends that was innermost when it was noted.
pub struct Scoped<K, V> {
    open: Vec<FxHashMap<K, V>>,
}

impl<K: Eq + std::hash::Hash, V> Default for Scoped<K, V> {
    fn default() -> Scoped<K, V> {
        Scoped { open: vec![FxHashMap::default()] }
    }
}

impl<K: Eq + std::hash::Hash, V> Scoped<K, V> {
    /// A loop begins.
    pub fn open(&mut self) {
        self.open.push(FxHashMap::default());
    }

    /// The innermost loop ends.
    pub fn close(&mut self) {
        if self.open.len() > 1 {
            self.open.pop();
        }
    }

    /// Notes a value under a key.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some(innermost) = self.open.last_mut() {
            innermost.insert(key, value);
        }
    }

    /// What was noted, if its loop is still open.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.open.iter().rev().find_map(|scope| scope.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn lanes_a_step_apart_share_an_address() {
        let x = UOp::variable("x", 0, 9).cast(DType::I32);
        let ramp = |step| UOp::new(Op::Ramp, DType::I32.with_lanes(4), vec![x.clone()], Arg::Number(step));
        assert_eq!(split_ramp(&ramp(-9)), Some((&x, -9)));
        assert_eq!((split_ramp(&ramp(1 << 25)), split_ramp(&x)), (None, None));
        let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 64), ramp(9)], Arg::None);
        assert!(sums_of_addresses(&[ramp(9), index.clone()]).contains(&ramp(9)));
        let other = UOp::binary(Op::Mul, &ramp(9), &ramp(9));
        assert!(sums_of_addresses(&[ramp(9), index, other]).is_empty());
    }

    #[test]
    fn constants_are_taken_off_offsets() {
        let x = UOp::variable("x", 0, 9).cast(DType::I32);
        let five = UOp::int(5, DType::I32);
        let sum = UOp::binary(Op::Add, &x, &five);
        assert_eq!(split_offset(&sum), (Some(&x), 5));
        assert_eq!(split_offset(&x), (Some(&x), 0));
        assert_eq!(split_offset(&five), (None, 5));
        let far = UOp::binary(Op::Add, &x, &UOp::int(1 << 30, DType::I32));
        assert_eq!(split_offset(&far), (Some(&far), 0));
    }

    #[test]
    fn a_sum_that_something_else_needs_is_computed() {
        let x = UOp::variable("x", 0, 9).cast(DType::I32);
        let sum = UOp::binary(Op::Add, &x, &UOp::int(5, DType::I32));
        let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 64), sum.clone()], Arg::None);
        assert!(sums_of_addresses(&[sum.clone(), index.clone()]).contains(&sum));
        let other = UOp::binary(Op::Mul, &sum, &x);
        assert!(sums_of_addresses(&[sum.clone(), index, other]).is_empty());
    }

    #[test]
    fn what_a_loop_noted_ends_with_it() {
        let mut known = Scoped::default();
        known.insert(1, 'a');
        known.open();
        known.insert(2, 'b');
        assert_eq!((known.get(&1), known.get(&2)), (Some(&'a'), Some(&'b')));
        known.close();
        assert_eq!((known.get(&1), known.get(&2)), (Some(&'a'), None));
    }
}
