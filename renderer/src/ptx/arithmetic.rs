//! Elementwise arithmetic, a lane at a time: one instruction where PTX has the op's meaning, a few where it differs.
//!
//! PTX has no arithmetic on bytes: they are extended to 16 bits, and extended again after ops that may leave more (`wrapped`). Shifts by the width or more have a
//! meaning in PTX, and it is that of the IR.

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::{DType, Op, UOp};

use super::registers::{self, Kind, arithmetic, width};
use super::{Writer, bug};

impl Writer<'_> {
    pub(super) fn elementwise(&mut self, node: &UOp) {
        let mut lanes = Vec::new();
        for lane in 0..node.dtype().lanes() {
            let operands: Vec<String> = node.src().iter().map(|operand| self.lane(operand, lane)).collect();
            lanes.push(self.scalar(node, &operands));
        }
        self.set(node, lanes);
    }

    fn scalar(&mut self, node: &UOp, operands: &[String]) -> String {
        let dtype = node.dtype().element();
        match operands {
            [a] => self.unary(node, dtype, a),
            [a, b] => match node.op() {
                Op::CDiv | Op::CMod if dtype.is_float() => self.float_remainder(dtype, a, b),
                Op::CDiv | Op::CMod => self.division(node, a, b),
                Op::Shl | Op::Shr => self.shift(node, a, b),
                op if op.is_comparison() => self.comparison(op, node.src()[0].dtype().element(), a, b),
                op => self.binary(op, dtype, a, b),
            },
            [a, b, c] => match node.op() {
                Op::Where => self.choice(dtype, a, b, c),
                _ => self.multiply_add(dtype, a, b, c),
            },
            _ => bug(node, "has the wrong number of operands"),
        }
    }

    fn unary(&mut self, node: &UOp, dtype: DType, a: &str) -> String {
        let kind = Kind::of(dtype);
        let float = arithmetic(dtype);
        match node.op() {
            Op::Neg if dtype.is_float() => self.compute(kind, &format!("neg.{float}"), &[a]),
            Op::Neg => {
                let negated = self.compute(kind, &format!("neg.s{}", width(dtype)), &[a]);
                self.wrapped(dtype, negated)
            }
            Op::Not => {
                let flipped = self.compute(kind, &format!("not.{}", kind.plain()), &[a]);
                // The sign of a byte stays extended when all bits flip; zeros do not.
                if dtype == DType::U8 { self.wrapped(dtype, flipped) } else { flipped }
            }
            Op::Trunc if !dtype.is_float() => self.kept(kind, a.to_string()),
            Op::Trunc => self.compute(kind, &format!("cvt.rzi.{float}.{float}"), &[a]),
            Op::Sqrt => self.compute(kind, &format!("sqrt.rn.{float}"), &[a]),
            Op::Exp2 if dtype == DType::F32 => self.compute(kind, "ex2.approx.f32", &[a]),
            _ => bug(node, "should have become simpler ops, or takes more than one operand"),
        }
    }

    /// An op on two operands of the type that it gives.
    pub(super) fn binary(&mut self, op: Op, dtype: DType, a: &str, b: &str) -> String {
        let kind = Kind::of(dtype);
        let (plain, typed) = (kind.plain(), arithmetic(dtype));
        let (float, bool) = (dtype.is_float(), dtype.is_bool());
        let instruction = match op {
            Op::Max | Op::Min if float => return self.float_extreme(op, dtype, a, b),
            Op::Add if float => format!("add.rn.{typed}"),
            Op::Sub if float => format!("sub.rn.{typed}"),
            Op::Mul if float => format!("mul.rn.{typed}"),
            Op::Div => format!("div.rn.{typed}"),
            Op::Add | Op::Max | Op::Or if bool => "or.pred".to_string(),
            Op::Mul | Op::Min | Op::And if bool => "and.pred".to_string(),
            Op::And | Op::Or | Op::Xor => format!("{op}.{plain}"),
            Op::Max | Op::Min => format!("{op}.{typed}"),
            Op::Add | Op::Sub => format!("{op}.{typed}"),
            Op::Mul => format!("mul.lo.{typed}"),
            _ => panic!("bug in the compiler: {op} does not combine two operands of {dtype}"),
        };
        let result = self.compute(kind, &instruction, &[a, b]);
        if matches!(op, Op::Add | Op::Sub | Op::Mul) { self.wrapped(dtype, result) } else { result }
    }

    /// A byte extended again after an op on 16 bits; other types are as they are.
    pub(super) fn wrapped(&mut self, dtype: DType, result: String) -> String {
        match dtype {
            DType::I8 => self.compute(Kind::Bits16, "cvt.s16.s8", &[&result]),
            DType::U8 => self.compute(Kind::Bits16, "cvt.u16.u8", &[&result]),
            _ => result,
        }
    }

    /// The larger or smaller of two floats, NaN if either is.
    fn float_extreme(&mut self, op: Op, dtype: DType, a: &str, b: &str) -> String {
        let (kind, typed) = (Kind::of(dtype), arithmetic(dtype));
        if dtype == DType::F32 && self.machine >= 80 {
            self.need((7, 0), 80);
            return self.compute(kind, &format!("{op}.NaN.{typed}"), &[a, b]);
        }
        let number = self.compute(kind, &format!("{op}.{typed}"), &[a, b]);
        let odd = self.compute(Kind::Predicate, &format!("setp.nan.{typed}"), &[a, b]);
        let nan = registers::constant(Scalar::float(f64::NAN), dtype);
        self.compute(kind, &format!("selp.{typed}"), &[&nan, &number, &odd])
    }

    fn comparison(&mut self, op: Op, dtype: DType, a: &str, b: &str) -> String {
        if dtype.is_bool() {
            return self.comparison_of_bools(op, a, b);
        }
        let test = match (op, dtype.is_float()) {
            (Op::Lt, _) => "lt",
            (Op::Eq, _) => "eq",
            (_, true) => "neu",
            (_, false) => "ne",
        };
        self.compute(Kind::Predicate, &format!("setp.{test}.{}", arithmetic(dtype)), &[a, b])
    }

    fn comparison_of_bools(&mut self, op: Op, a: &str, b: &str) -> String {
        let predicate = |writer: &mut Self, name: &str, operands: &[&str]| {
            writer.compute(Kind::Predicate, &format!("{name}.pred"), operands)
        };
        match op {
            Op::Lt => {
                let not = predicate(self, "not", &[a]);
                predicate(self, "and", &[&not, b])
            }
            Op::Eq => {
                let differs = predicate(self, "xor", &[a, b]);
                predicate(self, "not", &[&differs])
            }
            _ => predicate(self, "xor", &[a, b]),
        }
    }

    /// The first where the condition holds, else the second.
    fn choice(&mut self, dtype: DType, condition: &str, a: &str, b: &str) -> String {
        let kind = Kind::of(dtype);
        if kind != Kind::Predicate {
            return self.compute(kind, &format!("selp.{}", kind.plain()), &[a, b, condition]);
        }
        let first = self.compute(kind, "and.pred", &[condition, a]);
        let not = self.compute(kind, "not.pred", &[condition]);
        let second = self.compute(kind, "and.pred", &[&not, b]);
        self.compute(kind, "or.pred", &[&first, &second])
    }

    fn multiply_add(&mut self, dtype: DType, a: &str, b: &str, c: &str) -> String {
        let (kind, typed) = (Kind::of(dtype), arithmetic(dtype));
        if dtype.is_bool() {
            let both = self.compute(kind, "and.pred", &[a, b]);
            return self.compute(kind, "or.pred", &[&both, c]);
        }
        let instruction = if dtype.is_float() { "fma.rn" } else { "mad.lo" };
        let result = self.compute(kind, &format!("{instruction}.{typed}"), &[a, b, c]);
        self.wrapped(dtype, result)
    }

    fn shift(&mut self, node: &UOp, a: &str, b: &str) -> String {
        let dtype = node.dtype().element();
        let kind = Kind::of(dtype);
        let count = self.shift_count(&node.src()[1], b);
        if node.op() == Op::Shr {
            return self.compute(kind, &format!("shr.{}", arithmetic(dtype)), &[a, &count]);
        }
        let shifted = self.compute(kind, &format!("shl.{}", kind.plain()), &[a, &count]);
        self.wrapped(dtype, shifted)
    }

    /// A count of bits as `u32`, which is what shifts take; one that is negative or too large for that is past every width.
    fn shift_count(&mut self, count: &UOp, text: &str) -> String {
        if let Some(value) = count.as_scalar() {
            let bits = value.to_i64();
            return if (0..=64).contains(&bits) { bits.to_string() } else { "64".to_string() };
        }
        match Kind::of(count.dtype()) {
            Kind::Bits16 => self.compute(Kind::Bits32, "cvt.u32.u16", &[text]),
            Kind::Bits64 => {
                let fits = count.min_value() >= 0 && count.max_value() <= u32::MAX as i64;
                let cut = if fits { text.to_string() } else { self.compute(Kind::Bits64, "min.u64", &[text, "64"]) };
                self.compute(Kind::Bits32, "cvt.u32.u64", &[&cut])
            }
            _ => text.to_string(),
        }
    }
}
