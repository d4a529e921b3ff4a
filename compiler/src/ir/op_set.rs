//! Sets of ops. Each node knows which ops stand in it and below it ([`UOp::contains`](super::UOp::contains)), so that a pass sees without a walk that it
//! has nothing to do.

use super::op::Op;

/// A set of ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpSet(u128);

const _: () = assert!(Op::ALL.len() <= u128::BITS as usize, "one bit for each op");

impl OpSet {
    /// The set of one op.
    pub(crate) const fn of(op: Op) -> OpSet {
        OpSet(1 << op as u8)
    }

    /// What is in either.
    pub(crate) const fn union(self, other: OpSet) -> OpSet {
        OpSet(self.0 | other.0)
    }

    /// Whether an op is in it.
    pub(crate) const fn contains(self, op: Op) -> bool {
        self.0 >> op as u8 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use crate::DType;
    use crate::ir::{Op, UOp};

    #[test]
    fn a_node_contains_its_op_and_those_below() {
        let x = UOp::param(0, DType::F32, 8);
        let value = (&x + 1).exp2();
        let found: Vec<Op> = Op::ALL.iter().copied().filter(|op| value.contains(*op)).collect();
        assert_eq!(found, [Op::Const, Op::Param, Op::Exp2, Op::Add]);
        assert!(!x.contains(Op::Add));
    }
}
