//! Typed constructors and operators, so that building a graph reads like arithmetic.
//!
//! Operators take `UOp`, `&UOp` or an integer on either side; an integer becomes a constant of the other side's dtype. Constructors
//! fold nothing and simplify nothing (that is `symbolic`'s work), with one exception: arithmetic on two `Index` constants folds,
//! because shapes and strides are made of it. The plain methods panic on operands that do not fit, as [`UOp::new`] does; code
//! that handles a user's shapes calls [`UOp::try_new`].

use std::sync::Arc;

use smallvec::smallvec;

use super::arg::{Arg, BufferArg, ParamArg, RangeArg, SELDOM, VariableArg};
use super::axis::AxisKind;
use super::dim::{Dim, Shape};
use super::op::Op;
use super::uop::{Sources, UOp};
use crate::dtype::{DType, Scalar};

/// Anything that can stand as an operand beside a node: a node, or an integer that takes its dtype.
pub trait Operand {
    /// As a node of the dtype of `other`.
    fn beside(self, other: &UOp) -> UOp;
}

impl Operand for UOp {
    fn beside(self, _: &UOp) -> UOp {
        self
    }
}

impl Operand for &UOp {
    fn beside(self, _: &UOp) -> UOp {
        self.clone()
    }
}

impl Operand for i64 {
    fn beside(self, other: &UOp) -> UOp {
        other.const_like(self)
    }
}

/// Constants and leaves.
impl UOp {
    /// A constant.
    pub fn constant(value: Scalar, dtype: DType) -> UOp {
        UOp::new(Op::Const, dtype, Sources::new(), Arg::Scalar(value))
    }

    /// An integer constant of dtype `Index`.
    pub fn index(value: i64) -> UOp {
        UOp::constant(Scalar::Int(value), DType::INDEX)
    }

    /// The integer `value` as a constant of any dtype.
    pub fn int(value: i64, dtype: DType) -> UOp {
        UOp::constant(Scalar::from_i64(value, dtype), dtype)
    }

    /// The number `value` as a constant of any dtype.
    pub fn float(value: f64, dtype: DType) -> UOp {
        UOp::constant(Scalar::from_f64(value, dtype), dtype)
    }

    /// A bool constant.
    pub fn bool(value: bool) -> UOp {
        UOp::constant(Scalar::Bool(value), DType::BOOL)
    }

    /// The integer `value` as a constant of this node's dtype.
    pub fn const_like(&self, value: i64) -> UOp {
        UOp::int(value, self.dtype())
    }

    /// The constant's value, if it is a constant.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self.arg() {
            Arg::Scalar(value) => Some(*value),
            _ => None,
        }
    }

    /// The constant's value, if it is an integer (or bool) constant that `i64` holds.
    pub fn as_int(&self) -> Option<i64> {
        match self.arg() {
            Arg::Scalar(Scalar::Int(value)) => Some(*value),
            Arg::Scalar(Scalar::UInt(value)) => i64::try_from(*value).ok(),
            Arg::Scalar(Scalar::Bool(value)) => Some(*value as i64),
            _ => None,
        }
    }

    /// Whether it is the constant `value`, of any dtype.
    pub fn is_const(&self, value: i64) -> bool {
        self.as_scalar().is_some_and(|scalar| scalar == Scalar::from_i64(value, self.dtype()))
    }

    /// A named integer from `min` to `max`, both included.
    pub fn variable(name: &str, min: i64, max: i64) -> UOp {
        let arg = VariableArg { name: name.to_string(), min, max };
        UOp::new(Op::Variable, DType::INDEX, Sources::new(), Arg::Variable(Arc::new(arg)))
    }

    /// The variable with a value; the same variable wherever only its bounds matter.
    pub fn bind(&self, value: i64) -> UOp {
        UOp::new(Op::Bind, DType::INDEX, smallvec![self.clone(), UOp::index(value)], Arg::None)
    }

    /// A parameter of `len` elements.
    pub fn param(slot: u32, dtype: DType, len: u64) -> UOp {
        UOp::new(Op::Param, dtype, Sources::new(), Arg::Param(ParamArg { slot, len }))
    }

    /// Memory that a tensor owns.
    pub fn buffer(id: u64, dtype: DType, len: u64, device: &Arc<str>) -> UOp {
        UOp::new(Op::Buffer, dtype, Sources::new(), Arg::Buffer(BufferArg { id, len, device: device.clone() }))
    }

    /// 0, 1, 2, ... of dtype `Index` along one axis.
    pub fn iota(len: impl Into<Dim>) -> UOp {
        UOp::new(Op::Iota, DType::INDEX, Sources::new(), Arg::Shape(Shape::from([len.into()])))
    }

    /// A loop variable from 0 to `len` - 1.
    pub fn range(len: impl Into<Dim>, id: u32, kind: AxisKind) -> UOp {
        UOp::new(Op::Range, DType::INDEX, smallvec![len.into().to_uop()], Arg::Range(RangeArg { id, kind }))
    }

    /// Number and kind of a loop variable.
    pub fn as_range(&self) -> Option<RangeArg> {
        match self.arg() {
            Arg::Range(range) => Some(*range),
            _ => None,
        }
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        /// Elementwise ops of one operand.
        impl UOp { $($(#[$doc])* pub fn $method(&self) -> UOp {
            UOp::new(Op::$op, self.dtype(), smallvec![self.clone()], Arg::None)
        })* }
    };
}

unary_methods! {
    /// Minus this.
    negate Neg;
    /// Logical or bitwise not.
    not Not;
    /// 2 to the power this.
    exp2 Exp2;
    /// Base-2 logarithm.
    log2 Log2;
    /// Sine.
    sin Sin;
    /// Cosine.
    cos Cos;
    /// Square root.
    sqrt Sqrt;
    /// Rounded toward zero.
    trunc Trunc;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        /// Elementwise ops of two operands.
        impl UOp { $($(#[$doc])* pub fn $method(&self, other: impl Operand) -> UOp {
            let other = other.beside(self);
            UOp::binary(Op::$op, self, &other)
        })* }
    };
}

binary_methods! {
    /// Quotient of floats.
    div Div;
    /// Quotient of integers rounded to minus infinity.
    idiv IDiv;
    /// Remainder with the sign of the divisor.
    modulo Mod;
    /// Quotient of integers rounded toward zero.
    cdiv CDiv;
    /// Remainder with the sign of the dividend.
    cmod CMod;
    /// The larger.
    max Max;
    /// The smaller.
    min Min;
    /// Whether less.
    lt Lt;
    /// Whether equal.
    equals Eq;
    /// Whether different.
    differs Ne;
    /// Logical or bitwise and.
    and And;
    /// Logical or bitwise or.
    or Or;
    /// Logical or bitwise exclusive or.
    xor Xor;
    /// Shifted left.
    shl Shl;
    /// Shifted right.
    shr Shr;
}

impl UOp {
    /// The node `op(a, b)`; comparisons give bools.
    pub fn binary(op: Op, a: &UOp, b: &UOp) -> UOp {
        if a.dtype() == DType::INDEX
            && let (Some(x), Some(y)) = (a.as_int(), b.as_int())
        {
            let folded = match op {
                Op::Add => x.checked_add(y),
                Op::Sub => x.checked_sub(y),
                Op::Mul => x.checked_mul(y),
                _ => None,
            };
            if let Some(value) = folded {
                return UOp::index(value);
            }
        }
        let dtype = if op.is_comparison() { DType::BOOL.with_lanes(a.dtype().lanes()) } else { a.dtype() };
        UOp::new(op, dtype, smallvec![a.clone(), b.clone()], Arg::None)
    }

    /// `a` where this holds, else `b`.
    pub fn select(&self, a: impl Operand, b: impl Operand) -> UOp {
        // An integer beside an integer has no dtype to take; callers give at least one node.
        let probe = self.clone();
        let (a, b) = (a.beside(&probe), b.beside(&probe));
        let (a, b) = match (a.dtype() == b.dtype(), a.op(), b.op()) {
            (false, Op::Const, _) => {
                (UOp::constant(a.as_scalar().unwrap_or(Scalar::Bool(false)).cast(b.dtype()), b.dtype()), b)
            }
            (false, _, Op::Const) => {
                let cast = UOp::constant(b.as_scalar().unwrap_or(Scalar::Bool(false)).cast(a.dtype()), a.dtype());
                (a, cast)
            }
            _ => (a, b),
        };
        UOp::new(Op::Where, a.dtype(), smallvec![self.clone(), a, b], Arg::None)
    }

    /// `a` where this holds, which is seldom, else `b`: what only `a` needs may be computed only where some lane chooses it.
    pub fn select_seldom(&self, a: &UOp, b: &UOp) -> UOp {
        UOp::new(Op::Where, a.dtype(), smallvec![self.clone(), a.clone(), b.clone()], Arg::Number(SELDOM))
    }

    /// `self * b + c`, rounded once.
    pub fn muladd(&self, b: &UOp, c: &UOp) -> UOp {
        UOp::new(Op::MulAdd, self.dtype(), smallvec![self.clone(), b.clone(), c.clone()], Arg::None)
    }

    /// The value in another type; itself if it has that type.
    pub fn cast(&self, dtype: DType) -> UOp {
        if self.dtype() == dtype {
            return self.clone();
        }
        UOp::new(Op::Cast, dtype, smallvec![self.clone()], Arg::None)
    }

    /// The bits as another type of the same width; itself if it has that type.
    pub fn bitcast(&self, dtype: DType) -> UOp {
        if self.dtype() == dtype {
            return self.clone();
        }
        UOp::new(Op::Bitcast, dtype, smallvec![self.clone()], Arg::None)
    }
}
