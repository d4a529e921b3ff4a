//! Elementwise arithmetic: one instruction where LLVM has the op's meaning, a few where it differs.
//!
//! LLVM leaves undefined what the IR defines: division by zero gives 0 here, the least integer by -1 wraps, a shift by the width
//! or more gives 0 or the sign. Facts of the operands remove the checks, and add `nsw`/`nuw` where no wrap can be.

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::Facts;
use warpweft_compiler::{DType, Op, UOp};

use super::{Outcome, Writer, bug, spelling};

impl Writer {
    pub(super) fn elementwise(&mut self, node: &UOp, name: &str) -> Outcome {
        match node.src() {
            [a] => self.unary(node, a),
            [a, b] => match node.op() {
                Op::CDiv | Op::CMod if !node.dtype().is_float() => self.division(node, a, b, name),
                Op::Shl | Op::Shr => self.shift(node, a, b, name),
                Op::Max | Op::Min if node.dtype().is_float() => self.float_extreme(node, a, b, name),
                op if op.is_comparison() => self.comparison(op, a, b),
                _ => self.binary(node, a, b),
            },
            [a, b, c] => self.ternary(node, a, b, c, name),
            _ => bug(node, "has the wrong number of operands"),
        }
    }

    fn unary(&self, node: &UOp, a: &UOp) -> Outcome {
        let dtype = node.dtype();
        let (register, text) = (spelling::register(dtype), self.operand(a));
        let call = |function: &str| {
            Outcome::Instruction(format!(
                "call {register} @llvm.{function}.{}({register} {text})",
                spelling::suffix(dtype)
            ))
        };
        match node.op() {
            Op::Neg if dtype.is_float() => Outcome::Instruction(format!("fneg {register} {text}")),
            Op::Neg => Outcome::Instruction(format!("sub {register} {}, {text}", spelling::zero(dtype))),
            Op::Not if dtype.is_bool() => {
                let ones = spelling::constant(Scalar::Bool(true), dtype);
                Outcome::Instruction(format!("xor {register} {text}, {ones}"))
            }
            Op::Not => {
                let ones = spelling::constant(Scalar::Int(-1), dtype);
                Outcome::Instruction(format!("xor {register} {text}, {ones}"))
            }
            Op::Trunc if !dtype.is_float() => Outcome::Same(text.to_string()),
            Op::Trunc => call("trunc"),
            Op::Sqrt => call("sqrt"),
            Op::Exp2 => call("exp2"),
            Op::Log2 => call("log2"),
            Op::Sin => call("sin"),
            Op::Cos => call("cos"),
            _ => bug(node, "takes more than one operand"),
        }
    }

    fn binary(&self, node: &UOp, a: &UOp, b: &UOp) -> Outcome {
        let dtype = node.dtype();
        let (float, bool, unsigned) = (dtype.is_float(), dtype.is_bool(), dtype.is_unsigned());
        let instruction = match node.op() {
            Op::Add if float => "fadd",
            Op::Sub if float => "fsub",
            Op::Mul if float => "fmul",
            Op::Div => "fdiv",
            Op::CMod if float => "frem",
            Op::Add | Op::Max | Op::Or if bool => "or",
            Op::Mul | Op::Min | Op::And if bool => "and",
            Op::Add => return self.integer(node, "add"),
            Op::Sub => return self.integer(node, "sub"),
            Op::Mul => return self.integer(node, "mul"),
            Op::And => "and",
            Op::Or => "or",
            Op::Xor => "xor",
            Op::Max | Op::Min => {
                let sign = if unsigned { "u" } else { "s" };
                let function = format!("{sign}{}.{}", node.op(), spelling::suffix(dtype));
                let register = spelling::register(dtype);
                let (a, b) = (self.typed(a), self.typed(b));
                return Outcome::Instruction(format!("call {register} @llvm.{function}({a}, {b})"));
            }
            _ => bug(node, "does not take two operands"),
        };
        Outcome::Instruction(format!("{instruction} {}, {}", self.typed(a), self.operand(b)))
    }

    /// Addition, subtraction and multiplication of integers.
    fn integer(&self, node: &UOp, instruction: &str) -> Outcome {
        let [a, b] = node.src() else { bug(node, "does not take two operands") };
        let flags = no_wrap_flags(node);
        Outcome::Instruction(format!("{instruction} {flags}{}, {}", self.typed(a), self.operand(b)))
    }

    fn comparison(&self, op: Op, a: &UOp, b: &UOp) -> Outcome {
        let dtype = a.dtype();
        let test = match (op, dtype.is_float()) {
            (Op::Lt, true) => "fcmp olt",
            (Op::Eq, true) => "fcmp oeq",
            (_, true) => "fcmp une",
            (Op::Lt, false) if dtype.is_signed() => "icmp slt",
            (Op::Lt, false) => "icmp ult",
            (Op::Eq, false) => "icmp eq",
            (_, false) => "icmp ne",
        };
        Outcome::Instruction(format!("{test} {}, {}", self.typed(a), self.operand(b)))
    }

    fn ternary(&mut self, node: &UOp, a: &UOp, b: &UOp, c: &UOp, name: &str) -> Outcome {
        let (register, suffix) = (spelling::register(node.dtype()), spelling::suffix(node.dtype()));
        let (first, second, third) = (self.typed(a), self.typed(b), self.typed(c));
        match (node.op(), node.dtype().is_float()) {
            (Op::Where, _) => Outcome::Instruction(format!("select {first}, {second}, {third}")),
            (Op::MulAdd, true) => {
                // On a target without the instruction it is a call for each lane; sums that need not be exact are not made of it.
                Outcome::Instruction(format!("call {register} @llvm.fma.{suffix}({first}, {second}, {third})"))
            }
            (Op::MulAdd, false) => {
                let (times, plus) = if node.dtype().is_bool() { ("and", "or") } else { ("mul", "add") };
                let product = self.step(name, "product", &format!("{times} {first}, {}", self.operand(b)));
                Outcome::Instruction(format!("{plus} {register} {product}, {}", self.operand(c)))
            }
            _ => bug(node, "does not take three operands"),
        }
    }

    /// The larger or smaller of two floats: NaN if either is, and -0.0 counts as less than 0.0, so that operands may change sides.
    ///
    /// The machine's instruction gives its second operand where one is NaN or both are zeros. So it is asked both ways: numbers that
    /// are equal have the same bits, but for zeros, and a NaN has all bits set.
    fn float_extreme(&mut self, node: &UOp, a: &UOp, b: &UOp, name: &str) -> Outcome {
        let (dtype, is_max) = (node.dtype(), node.op() == Op::Max);
        let (register, flags) = (spelling::register(dtype), spelling::register(DType::BOOL.with_lanes(dtype.lanes())));
        let number = |operand: &UOp| operand.as_scalar().map(|value| value.to_f64()).filter(|number| !number.is_nan());
        let (first, second) = if number(b).is_some() { (b, a) } else { (a, b) };
        let number = number(first);
        let (first, second) = (self.operand(first).to_string(), self.operand(second).to_string());
        let (test, word) = if is_max { ("ogt", "more") } else { ("olt", "less") };
        let test_first = self.step(name, word, &format!("fcmp {test} {register} {first}, {second}"));
        let choice = format!("select {flags} {test_first}, {register} {first}, {register} {second}");
        match number {
            // A zero that is chosen beside 0.0, of either sign, becomes 0.0.
            Some(number) if number == 0.0 && number.is_sign_positive() && is_max => {
                let chosen = self.step(name, "chosen", &choice);
                return Outcome::Instruction(format!("fadd {register} {chosen}, {}", spelling::zero(dtype)));
            }
            Some(number) if number != 0.0 || number.is_sign_negative() == is_max => {
                return Outcome::Instruction(choice);
            }
            _ => {}
        }
        let bits = spelling::register(spelling::bits_of(dtype));
        let chosen = self.step(name, "chosen", &choice);
        let test_second = self.step(name, "second", &format!("fcmp {test} {register} {second}, {first}"));
        let other = format!("select {flags} {test_second}, {register} {second}, {register} {first}");
        let other = self.step(name, "other", &other);
        let chosen = self.step(name, "chosen_bits", &format!("bitcast {register} {chosen} to {bits}"));
        let other = self.step(name, "other_bits", &format!("bitcast {register} {other} to {bits}"));
        let joined = if is_max { "and" } else { "or" };
        let both = self.step(name, "both", &format!("{joined} {bits} {chosen}, {other}"));
        let odd = self.step(name, "odd", &format!("fcmp uno {register} {first}, {second}"));
        let odd = self.step(name, "odd_bits", &format!("sext {flags} {odd} to {bits}"));
        let found = self.step(name, "found", &format!("or {bits} {both}, {odd}"));
        Outcome::Instruction(format!("bitcast {bits} {found} to {register}"))
    }

    /// Quotient and remainder rounded toward zero: the divisor is made 1 where LLVM would have no answer.
    fn division(&mut self, node: &UOp, a: &UOp, b: &UOp, name: &str) -> Outcome {
        let dtype = node.dtype();
        let register = spelling::register(dtype);
        let flags = spelling::register(DType::BOOL.with_lanes(dtype.lanes()));
        let (zero, one) = (spelling::zero(dtype), spelling::constant(Scalar::one(dtype.element()), dtype));
        // Numbers that are not negative divide faster without a sign.
        let unsigned = dtype.is_unsigned() || (a.min_value() >= 0 && b.min_value() >= 0);
        let sign = if unsigned { "u" } else { "s" };
        let is_quotient = node.op() == Op::CDiv;
        let instruction = if is_quotient { "div" } else { "rem" };
        let (dividend, divisor) = (self.operand(a).to_string(), self.operand(b).to_string());
        let facts = b.facts();
        let may_be_zero = facts.contains(0);
        let may_overflow = !unsigned && facts.contains(-1);
        if !may_be_zero && !may_overflow {
            return Outcome::Instruction(format!("{sign}{instruction} {register} {dividend}, {divisor}"));
        }
        let test = |writer: &mut Self, word: &str, value: &str| {
            writer.step(name, word, &format!("icmp eq {register} {divisor}, {value}"))
        };
        let by_zero = may_be_zero.then(|| test(self, "by_zero", &zero));
        let minus_one = spelling::constant(Scalar::Int(-1), dtype);
        let by_minus_one = may_overflow.then(|| test(self, "by_minus_one", &minus_one));
        let special = match (&by_zero, &by_minus_one) {
            (Some(a), Some(b)) => self.step(name, "special", &format!("or {flags} {a}, {b}")),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => bug(node, "has no special divisor"),
        };
        let safe = format!("select {flags} {special}, {register} {one}, {register} {divisor}");
        let safe = self.step(name, "safe", &safe);
        let plain = format!("{sign}{instruction} {register} {dividend}, {safe}");
        if !is_quotient {
            // Every number is a multiple of 1: the remainder is 0 already.
            return Outcome::Instruction(plain);
        }
        let mut result = self.step(name, "plain", &plain);
        if let Some(by_minus_one) = by_minus_one {
            let minus = self.step(name, "minus", &format!("sub {register} {zero}, {dividend}"));
            let choice = format!("select {flags} {by_minus_one}, {register} {minus}, {register} {result}");
            if by_zero.is_none() {
                return Outcome::Instruction(choice);
            }
            result = self.step(name, "signed", &choice);
        }
        match by_zero {
            Some(by_zero) => {
                Outcome::Instruction(format!("select {flags} {by_zero}, {register} {zero}, {register} {result}"))
            }
            None => Outcome::Same(result),
        }
    }

    /// Shifts; LLVM's have no value from the width on.
    fn shift(&mut self, node: &UOp, a: &UOp, b: &UOp, name: &str) -> Outcome {
        let dtype = node.dtype();
        let register = spelling::register(dtype);
        let (value, count) = (self.operand(a).to_string(), self.operand(b).to_string());
        let instruction = match (node.op(), dtype.is_signed()) {
            (Op::Shl, _) => "shl",
            (_, true) => "ashr",
            (_, false) => "lshr",
        };
        let width = dtype.bits() as i64;
        if b.min_value() >= 0 && b.max_value() < width {
            return Outcome::Instruction(format!("{instruction} {register} {value}, {count}"));
        }
        if instruction == "ashr" {
            let last = spelling::constant(Scalar::Int(width - 1), dtype);
            let suffix = spelling::suffix(dtype);
            let call = format!("call {register} @llvm.umin.{suffix}({register} {count}, {register} {last})");
            let count = self.step(name, "count", &call);
            return Outcome::Instruction(format!("ashr {register} {value}, {count}"));
        }
        let flags = spelling::register(DType::BOOL.with_lanes(dtype.lanes()));
        let bound = spelling::constant(Scalar::from_i64(width, dtype), dtype);
        let fits = self.step(name, "fits", &format!("icmp ult {register} {count}, {bound}"));
        let shifted = self.step(name, "shifted", &format!("{instruction} {register} {value}, {count}"));
        let zero = spelling::zero(dtype);
        Outcome::Instruction(format!("select {flags} {fits}, {register} {shifted}, {register} {zero}"))
    }
}

/// `nsw` where the facts say that a signed result did not wrap (had it been able to, they would say nothing), and `nuw` where
/// besides nothing is negative.
fn no_wrap_flags(node: &UOp) -> &'static str {
    let (facts, any) = (node.facts(), Facts::of_dtype(node.dtype().element()));
    if !node.dtype().is_signed() || facts.min <= any.min || facts.max >= any.max {
        return "";
    }
    let none_negative = node.src().iter().all(|operand| operand.min_value() >= 0);
    if none_negative && node.op() != Op::Sub { "nuw nsw " } else { "nsw " }
}
