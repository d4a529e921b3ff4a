//! Operators of nodes: `a + b`, where either side may be an integer and one side a reference.
//!
//! What they make is said in [`build`](super::build). Tested there, and by all that is written with them.

use std::ops;

use super::build::Operand;
use super::op::Op;
use super::uop::UOp;

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => { $(
        impl<T: Operand> ops::$trait<T> for UOp {
            type Output = UOp;
            fn $method(self, other: T) -> UOp {
                let other = other.beside(&self);
                UOp::binary(Op::$op, &self, &other)
            }
        }
        impl<T: Operand> ops::$trait<T> for &UOp {
            type Output = UOp;
            fn $method(self, other: T) -> UOp {
                let other = other.beside(self);
                UOp::binary(Op::$op, self, &other)
            }
        }
        impl ops::$trait<UOp> for i64 {
            type Output = UOp;
            fn $method(self, other: UOp) -> UOp {
                UOp::binary(Op::$op, &other.const_like(self), &other)
            }
        }
        impl ops::$trait<&UOp> for i64 {
            type Output = UOp;
            fn $method(self, other: &UOp) -> UOp {
                UOp::binary(Op::$op, &other.const_like(self), other)
            }
        }
    )* };
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}

impl ops::Not for &UOp {
    type Output = UOp;
    fn not(self) -> UOp {
        UOp::not(self)
    }
}

impl ops::Not for UOp {
    type Output = UOp;
    fn not(self) -> UOp {
        UOp::not(&self)
    }
}

impl ops::Neg for &UOp {
    type Output = UOp;
    fn neg(self) -> UOp {
        self.negate()
    }
}

impl ops::Neg for UOp {
    type Output = UOp;
    fn neg(self) -> UOp {
        self.negate()
    }
}
