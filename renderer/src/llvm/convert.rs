//! Casts and bitcasts.
//!
//! A float out of range of an integer type has no value in LLVM, and LLVM's own saturating casts take vectors apart. So the operand is
//! made 0 where it is out of range, which costs a comparison and a masked move, and the result is chosen afterwards:
//!
//! | to | in range | out of range | NaN |
//! |---|---|---|---|
//! | `i64`, `u64` | truncated | the nearest value of the type; a negative number to `u64` goes through `i64` | 0 |
//! | `u32` | truncated | negative numbers wrap, others give 0 | 0 |
//! | `i32` and narrower | truncated to `i32`, then wrapped | 0 | 0 |

use warpweft_compiler::dtype::{Scalar, ScalarType};
use warpweft_compiler::{DType, Op, UOp};

use super::{Outcome, Writer, bug, spelling};

impl Writer {
    pub(super) fn conversion(&mut self, node: &UOp, name: &str) -> Outcome {
        let source = &node.src()[0];
        let (from, to) = (source.dtype(), node.dtype());
        if node.op() == Op::Bitcast {
            return self.bitcast(source, to);
        }
        let (operand, text) = (self.typed(source), self.operand(source).to_string());
        let (register, zero) = (spelling::register(to), spelling::zero(from));
        let plain = |instruction: &str| Outcome::Instruction(format!("{instruction} {operand} to {register}"));
        match (class(from), class(to)) {
            (Class::Bool, Class::Bool) => Outcome::Same(text),
            (Class::Bool, Class::Integer) => plain("zext"),
            (Class::Bool, Class::Float) => plain("uitofp"),
            (Class::Integer, Class::Bool) => Outcome::Instruction(format!("icmp ne {operand}, {zero}")),
            (Class::Float, Class::Bool) => Outcome::Instruction(format!("fcmp une {operand}, {zero}")),
            (Class::Integer, Class::Integer) => match (from.bytes(), to.bytes()) {
                (a, b) if a == b => Outcome::Same(text),
                (a, b) if a > b => plain("trunc"),
                _ => plain(if from.is_unsigned() { "zext" } else { "sext" }),
            },
            (Class::Integer, Class::Float) => plain(if from.is_unsigned() { "uitofp" } else { "sitofp" }),
            (Class::Float, Class::Float) => match (from.bytes(), to.bytes()) {
                (a, b) if a == b => Outcome::Same(text),
                (a, b) if a > b => plain("fptrunc"),
                _ => plain("fpext"),
            },
            (Class::Float, Class::Integer) => self.float_to_integer(text, from, to, name),
            (Class::Brain, _) | (_, Class::Brain) => bug(node, "of bf16 should have become integer arithmetic"),
        }
    }

    fn bitcast(&mut self, source: &UOp, to: DType) -> Outcome {
        let (operand, register) = (self.typed(source), spelling::register(to));
        let zero = spelling::zero(source.dtype());
        match (source.dtype().is_bool(), to.is_bool()) {
            (true, false) => Outcome::Instruction(format!("zext {operand} to {register}")),
            (false, true) => Outcome::Instruction(format!("icmp ne {operand}, {zero}")),
            _ if spelling::register(source.dtype()) == register => Outcome::Same(self.operand(source).to_string()),
            _ => Outcome::Instruction(format!("bitcast {operand} to {register}")),
        }
    }

    fn float_to_integer(&mut self, text: String, from: DType, to: DType, name: &str) -> Outcome {
        let value = match from.scalar() {
            // The ends of integer types are no numbers of f16.
            ScalarType::F16 => {
                let wide = DType::F32.with_lanes(from.lanes());
                let cast = format!("fpext {} {text} to {}", spelling::register(from), spelling::register(wide));
                Value { text: self.step(name, "f32", &cast), dtype: wide }
            }
            _ => Value { text, dtype: from },
        };
        match to.scalar() {
            ScalarType::U64 => {
                let signed = self.saturated(&value, DType::I64, name, "signed");
                let unsigned = self.saturated(&value, DType::U64, name, "unsigned");
                self.by_sign(&value, to, &unsigned, &signed, name)
            }
            ScalarType::I64 | ScalarType::Index => Outcome::Same(self.saturated(&value, DType::I64, name, "i64")),
            ScalarType::U32 => {
                let signed = self.truncated(&value, DType::I32, name, "signed");
                let unsigned = self.truncated(&value, DType::U32, name, "unsigned");
                self.by_sign(&value, to, &unsigned, &signed, name)
            }
            ScalarType::I32 => Outcome::Same(self.truncated(&value, DType::I32, name, "i32")),
            ScalarType::Void
            | ScalarType::Bool
            | ScalarType::I8
            | ScalarType::U8
            | ScalarType::I16
            | ScalarType::U16
            | ScalarType::F16
            | ScalarType::BF16
            | ScalarType::F32
            | ScalarType::F64 => {
                let wide = self.truncated(&value, DType::I32, name, "i32");
                let integer = spelling::register(DType::I32.with_lanes(from.lanes()));
                Outcome::Instruction(format!("trunc {integer} {wide} to {}", spelling::register(to)))
            }
        }
    }

    /// The value truncated to an integer type; 0 where it is out of range.
    fn truncated(&mut self, value: &Value, to: DType, name: &str, word: &str) -> String {
        let name = format!("{name}.{word}");
        let to = to.with_lanes(value.dtype.lanes());
        let Value { text, dtype } = value;
        let register = spelling::register(*dtype);
        let (low, high) = range(to);
        // One less than the least value is a number of its own only in f64.
        let (test, low) = match *dtype == DType::F64.with_lanes(dtype.lanes()) && to.bits() == 32 || to.is_unsigned() {
            true => ("ogt", if to.is_unsigned() { low } else { low - 1.0 }),
            false => ("oge", low),
        };
        let above = self.step(&name, "above", &format!("fcmp {test} {register} {text}, {}", value.constant(low)));
        let below = self.step(&name, "below", &format!("fcmp olt {register} {text}, {}", value.constant(high)));
        let flags = spelling::register(DType::BOOL.with_lanes(dtype.lanes()));
        let fits = self.step(&name, "fits", &format!("and {flags} {above}, {below}"));
        let zero = spelling::zero(*dtype);
        let safe = format!("select {flags} {fits}, {register} {text}, {register} {zero}");
        let safe = self.step(&name, "safe", &safe);
        let instruction = if to.is_unsigned() { "fptoui" } else { "fptosi" };
        let integer = spelling::register(to);
        self.step(&name, "whole", &format!("{instruction} {register} {safe} to {integer}"))
    }

    /// The value truncated to a 64-bit integer; the nearest one where it is out of range.
    fn saturated(&mut self, value: &Value, to: DType, name: &str, word: &str) -> String {
        let whole = self.truncated(value, to, name, word);
        let name = format!("{name}.{word}");
        let to = to.with_lanes(value.dtype.lanes());
        let (register, integer) = (spelling::register(value.dtype), spelling::register(to));
        let flags = spelling::register(DType::BOOL.with_lanes(to.lanes()));
        let (low, high) = range(to);
        let text = &value.text;
        let large = self.step(&name, "large", &format!("fcmp oge {register} {text}, {}", value.constant(high)));
        let most = spelling::constant(Scalar::highest(to.element()), to);
        let choice = format!("select {flags} {large}, {integer} {most}, {integer} {whole}");
        let capped = self.step(&name, "capped", &choice);
        if to.is_unsigned() {
            return capped;
        }
        let small = self.step(&name, "small", &format!("fcmp ole {register} {text}, {}", value.constant(low)));
        let least = spelling::constant(Scalar::lowest(to.element()), to);
        self.step(&name, "bounded", &format!("select {flags} {small}, {integer} {least}, {integer} {capped}"))
    }

    fn by_sign(&mut self, value: &Value, to: DType, positive: &str, negative: &str, name: &str) -> Outcome {
        let register = spelling::register(value.dtype);
        let zero = spelling::zero(value.dtype);
        let test = self.step(name, "positive", &format!("fcmp oge {register} {}, {zero}", value.text));
        let (flags, integer) = (spelling::register(DType::BOOL.with_lanes(to.lanes())), spelling::register(to));
        Outcome::Instruction(format!("select {flags} {test}, {integer} {positive}, {integer} {negative}"))
    }
}

/// A float in a register.
struct Value {
    text: String,
    dtype: DType,
}

impl Value {
    /// A constant of its type.
    fn constant(&self, value: f64) -> String {
        spelling::constant(Scalar::from_f64(value, self.dtype), self.dtype)
    }
}

/// The ends of an integer type: the first is its least value, or -1 for unsigned ones; the second is one past its largest.
fn range(integer: DType) -> (f64, f64) {
    let bits = integer.bits() as i32;
    match integer.is_unsigned() {
        true => (-1.0, 2f64.powi(bits)),
        false => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
    }
}

enum Class {
    Bool,
    Integer,
    Float,
    /// `bf16`, which is no float to LLVM here.
    Brain,
}

fn class(dtype: DType) -> Class {
    match dtype.scalar() {
        ScalarType::Bool => Class::Bool,
        ScalarType::F16 | ScalarType::F32 | ScalarType::F64 => Class::Float,
        ScalarType::BF16 => Class::Brain,
        ScalarType::Void
        | ScalarType::Index
        | ScalarType::I8
        | ScalarType::I16
        | ScalarType::I32
        | ScalarType::I64
        | ScalarType::U8
        | ScalarType::U16
        | ScalarType::U32
        | ScalarType::U64 => Class::Integer,
    }
}
