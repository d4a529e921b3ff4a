//! Casts and bitcasts, a lane at a time.
//!
//! A float becomes an integer by way of 64 bits, as the IR says it: truncated, the nearest of what is out of range, 0 of NaN, and then wrapped to the width that is
//! wanted. PTX gives the least `i64` for NaN. What half floats lack (integers, `f64` to half) has become casts by way of `f32` before.

use warpweft_compiler::dtype::{Scalar, ScalarType};
use warpweft_compiler::{DType, Op, UOp};

use super::registers::{self, Kind, arithmetic, zero};
use super::{Writer, bug};

impl Writer<'_> {
    pub(super) fn conversion(&mut self, node: &UOp) {
        let source = &node.src()[0];
        let (from, to) = (source.dtype().element(), node.dtype().element());
        let mut lanes = Vec::new();
        for lane in 0..node.dtype().lanes() {
            let value = self.lane(source, lane);
            let value = if from == to { value } else { self.in_register(Kind::of(from), value) };
            lanes.push(match node.op() {
                Op::Bitcast => self.bitcast(value, from, to),
                _ => self.cast(node, value, from, to),
            });
        }
        self.set(node, lanes);
    }

    fn cast(&mut self, node: &UOp, value: String, from: DType, to: DType) -> String {
        let kind = Kind::of(to);
        match (class(from), class(to)) {
            _ if from == to => self.kept(kind, value),
            (Class::Bool, _) => {
                let one = registers::constant(Scalar::one(to), to);
                self.compute(kind, &format!("selp.{}", kind.plain()), &[&one, zero(kind), &value])
            }
            (Class::Integer, Class::Bool) => {
                self.compute(kind, &format!("setp.ne.{}", arithmetic(from)), &[&value, "0"])
            }
            (Class::Float, Class::Bool) => {
                self.compute(kind, &format!("setp.neu.{}", arithmetic(from)), &[&value, zero(Kind::of(from))])
            }
            (Class::Integer, Class::Integer) => self.integer_cast(&value, from, to),
            (Class::Integer, Class::Float) => {
                self.compute(kind, &format!("cvt.rn.{}.{}", arithmetic(to), arithmetic(from)), &[&value])
            }
            (Class::Float, Class::Integer) => self.float_to_integer(&value, from, to),
            (Class::Float, Class::Float) if to == DType::F32 => self.compute(kind, "cvt.rn.f32.f64", &[&value]),
            (Class::Float, Class::Float) => self.compute(kind, "cvt.f64.f32", &[&value]),
            (Class::Half, Class::Float) if from == DType::F16 => {
                self.compute(kind, &format!("cvt.{}.f16", arithmetic(to)), &[&value])
            }
            (Class::Half, Class::Float) if to == DType::F32 => {
                let low = self.compute(Kind::Bits16, "mov.b16", &["0"]);
                self.compute(kind, "mov.b32", &[&format!("{{{low}, {value}}}")])
            }
            (Class::Float, Class::Half) if from == DType::F32 => {
                if to == DType::BF16 {
                    self.need((7, 0), 80);
                }
                self.compute(kind, &format!("cvt.rn.{to}.f32"), &[&value])
            }
            (Class::Half, _) | (_, Class::Half) => bug(node, "of a half float should have become casts by way of f32"),
        }
    }

    /// An integer in another integer type: wrapped, or extended.
    pub(super) fn integer_cast(&mut self, value: &str, from: DType, to: DType) -> String {
        let (narrow, wide) = (Kind::of(from), Kind::of(to));
        let converted = match narrow == wide {
            true => self.kept(wide, value.to_string()),
            // Fewer bits have no sign to speak of; of more bits, that of the source.
            false if to.bits() < from.bits() => {
                let bits = |dtype: DType| format!("u{}", registers::width(dtype));
                self.compute(wide, &format!("cvt.{}.{}", bits(to), bits(from)), &[value])
            }
            false => {
                let sign = if from.is_unsigned() { "u" } else { "s" };
                let instruction = format!("cvt.{sign}{}.{}", registers::width(to), arithmetic(from));
                self.compute(wide, &instruction, &[value])
            }
        };
        // A byte keeps its form in 16 bits, and the same byte is another one with a sign.
        let was_byte = from.bits() == 8 && (from == to || to.bits() > 8);
        if was_byte { converted } else { self.wrapped(to, converted) }
    }

    fn float_to_integer(&mut self, value: &str, from: DType, to: DType) -> String {
        let float = arithmetic(from);
        let signed = self.compute(Kind::Bits64, &format!("cvt.rzi.s64.{float}"), &[value]);
        let odd = self.compute(Kind::Predicate, &format!("setp.nan.{float}"), &[value, value]);
        let signed = self.compute(Kind::Bits64, "selp.b64", &["0", &signed, &odd]);
        if to.scalar() != ScalarType::U64 {
            return self.integer_cast(&signed, DType::I64, to);
        }
        let unsigned = self.compute(Kind::Bits64, &format!("cvt.rzi.u64.{float}"), &[value]);
        let positive = self.compute(Kind::Predicate, &format!("setp.ge.{float}"), &[value, zero(Kind::of(from))]);
        self.compute(Kind::Bits64, "selp.b64", &[&unsigned, &signed, &positive])
    }

    fn bitcast(&mut self, value: String, from: DType, to: DType) -> String {
        let kind = Kind::of(to);
        match (from.is_bool(), to.is_bool()) {
            (true, true) => self.kept(kind, value),
            (true, false) => self.compute(kind, "selp.b16", &["1", "0", &value]),
            (false, true) => self.compute(kind, &format!("setp.ne.{}", arithmetic(from)), &[&value, "0"]),
            (false, false) if Kind::of(from) != kind => self.compute(kind, &format!("mov.b{}", to.bits()), &[&value]),
            _ if from.is_integer() && to.is_integer() => self.integer_cast(&value, from, to),
            _ => self.kept(kind, value),
        }
    }
}

enum Class {
    Bool,
    Integer,
    Float,
    /// `f16` and `bf16`, which are converted and moved, and never computed with.
    Half,
}

fn class(dtype: DType) -> Class {
    match dtype.scalar() {
        ScalarType::Bool => Class::Bool,
        ScalarType::F16 | ScalarType::BF16 => Class::Half,
        ScalarType::F32 | ScalarType::F64 => Class::Float,
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
