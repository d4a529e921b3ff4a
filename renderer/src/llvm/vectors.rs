//! Vectors made, taken apart and combined.

use std::cmp::Ordering;

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, DotKind, ReduceOp};
use warpweft_compiler::{DType, Op, UOp};

use super::{Outcome, Writer, bug, spelling};

/// Lanes that each of more than two vectors gives at least, on the average, to be shuffled rather than taken one by one.
const LANES_OF_EACH_MIN: usize = 2;

/// Lanes of two vectors: the first one's, then the second one's; `None` where any will do.
fn shuffled(first: &str, second: &str, lanes: impl Iterator<Item = Option<usize>>) -> String {
    let lanes = lanes.map(|lane| lane.map_or("i32 poison".to_string(), |lane| format!("i32 {lane}")));
    let lanes: Vec<String> = lanes.collect();
    format!("shufflevector {first}, {second}, <{} x i32> <{}>", lanes.len(), lanes.join(", "))
}

impl Writer {
    pub(super) fn vector(&mut self, node: &UOp, name: &str) -> Outcome {
        match (node.op(), node.arg()) {
            (Op::Splat, _) => self.splat(&node.src()[0], node.dtype(), name),
            (Op::Ramp, Arg::Number(stride)) => self.ramp(node, *stride, name),
            (Op::Stack, _) => self.stack(node, name),
            (Op::Lane, Arg::Number(lane)) => {
                Outcome::Instruction(format!("extractelement {}, i64 {lane}", self.typed(&node.src()[0])))
            }
            (Op::HorizontalReduce, Arg::Combine(combine)) => self.horizontal_reduce(node, *combine, name),
            (Op::DotProducts, _) => self.dot_products(node, name),
            (Op::MultiplyTiles, _) => self.multiply_tiles(node, name),
            _ => bug(node, "lacks its argument"),
        }
    }

    /// The instruction of the machine: code generators find few of them in plain arithmetic. That of 16 bits is a product and an addition, of which they make one where one is.
    fn dot_products(&mut self, node: &UOp, name: &str) -> Outcome {
        let [left, right, sums] = node.src() else { bug(node, "has the wrong number of operands") };
        let bits = node.dtype().lanes() as u32 * node.dtype().bits();
        let register = spelling::register(node.dtype());
        let (a, b, total) = (self.typed(left), self.typed(right), self.typed(sums));
        let call = |function: &str, given: &str| format!("call {register} @llvm.x86.{function}({given}{a}, {b})");
        match DotKind::of(left.dtype(), right.dtype(), sums.dtype()) {
            Some(DotKind::Bf16) => {
                let vector = format!("<{} x bfloat>", left.dtype().lanes());
                let a = self.step(name, "a", &format!("bitcast {a} to {vector}"));
                let b = self.step(name, "b", &format!("bitcast {b} to {vector}"));
                let function = format!("@llvm.x86.avx512bf16.dpbf16ps.{bits}");
                Outcome::Instruction(format!("call {register} {function}({total}, {vector} {a}, {vector} {b})"))
            }
            Some(DotKind::Bytes) => {
                Outcome::Instruction(call(&format!("avx512.vpdpbusd.{bits}"), &format!("{total}, ")))
            }
            Some(DotKind::I16) => {
                let function = match bits {
                    128 => "sse2.pmadd.wd",
                    256 => "avx2.pmadd.wd",
                    _ => "avx512.pmaddw.d.512",
                };
                let products = self.step(name, "products", &call(function, ""));
                Outcome::Instruction(format!("add {total}, {products}"))
            }
            None => bug(node, "multiplies what no instruction does"),
        }
    }

    fn splat(&mut self, scalar: &UOp, dtype: DType, name: &str) -> Outcome {
        if let Some(value) = scalar.as_scalar() {
            return Outcome::Same(spelling::constant(value, dtype));
        }
        let vector = spelling::register(dtype);
        let scalar = self.typed(scalar);
        let first = self.step(name, "first", &format!("insertelement {vector} poison, {scalar}, i64 0"));
        Outcome::Instruction(format!(
            "shufflevector {vector} {first}, {vector} poison, <{} x i32> zeroinitializer",
            dtype.lanes()
        ))
    }

    fn ramp(&mut self, node: &UOp, stride: i64, name: &str) -> Outcome {
        let (base, dtype) = (&node.src()[0], node.dtype());
        let steps = (0..dtype.lanes() as i64).map(|lane| Scalar::from_i64(lane.wrapping_mul(stride), dtype.element()));
        let steps = spelling::vector(steps, dtype);
        if base.is_const(0) {
            return Outcome::Same(steps);
        }
        let vector = spelling::register(dtype);
        let base = match self.splat(base, dtype, &format!("{name}.base")) {
            Outcome::Same(text) => text,
            Outcome::Instruction(instruction) => self.step(name, "base", &instruction),
        };
        Outcome::Instruction(format!("add {vector} {base}, {steps}"))
    }

    fn stack(&mut self, node: &UOp, name: &str) -> Outcome {
        let dtype = node.dtype();
        let constants: Option<Vec<Scalar>> = node.src().iter().map(UOp::as_scalar).collect();
        if let Some(constants) = constants {
            return Outcome::Same(spelling::vector(constants, dtype));
        }
        if let Some(shuffle) = self.shuffle(node, name) {
            return Outcome::Instruction(shuffle);
        }
        let vector = spelling::register(dtype);
        let mut so_far = "poison".to_string();
        for (lane, scalar) in node.src().iter().enumerate() {
            let instruction = format!("insertelement {vector} {so_far}, {}, i64 {lane}", self.typed(scalar));
            if lane + 1 == node.src().len() {
                return Outcome::Instruction(instruction);
            }
            so_far = self.step(name, &format!("to{lane}"), &instruction);
        }
        bug(node, "has no lanes")
    }

    /// A stack of lanes of a few vectors of one type: one instruction for two of them, and one more for each further one.
    fn shuffle(&mut self, node: &UOp, name: &str) -> Option<String> {
        let mut vectors: Vec<&UOp> = Vec::new();
        let mut lanes: Vec<(usize, usize)> = Vec::new();
        for scalar in node.src() {
            let (Op::Lane, Arg::Number(lane)) = (scalar.op(), scalar.arg()) else { return None };
            let vector = &scalar.src()[0];
            let position = vectors.iter().position(|known| *known == vector).unwrap_or_else(|| {
                vectors.push(vector);
                vectors.len() - 1
            });
            lanes.push((position, *lane as usize));
        }
        let (first, count) = (vectors[0], node.src().len());
        let is_other = |vector: &&UOp| vector.dtype() != first.dtype();
        if vectors.iter().any(is_other) || vectors.len() > 2 && vectors.len() * LANES_OF_EACH_MIN > count {
            return None;
        }
        let width = first.dtype().lanes();
        let second = match vectors.get(1) {
            Some(second) => self.typed(second),
            None => format!("{} poison", spelling::register(first.dtype())),
        };
        let of_two = |(position, lane): &(usize, usize)| (*position < 2).then_some(lane + position * width);
        let mut instruction = shuffled(&self.typed(first), &second, lanes.iter().map(of_two));
        for (number, vector) in vectors.iter().enumerate().skip(2) {
            let so_far = self.step(name, &format!("of{number}"), &instruction);
            let register = spelling::register(node.dtype());
            let wide = match width == count {
                true => self.typed(vector),
                false => {
                    let poison = format!("{} poison", spelling::register(first.dtype()));
                    let all = (0..count).map(|lane| (lane < width).then_some(lane));
                    let wide = shuffled(&self.typed(vector), &poison, all);
                    format!("{register} {}", self.step(name, &format!("wide{number}"), &wide))
                }
            };
            let mask = lanes.iter().enumerate().map(|(mask_lane, (position, lane))| match position.cmp(&number) {
                Ordering::Less => Some(mask_lane),
                Ordering::Equal => Some(count + lane),
                Ordering::Greater => None,
            });
            instruction = shuffled(&format!("{register} {so_far}"), &wide, mask);
        }
        Some(instruction)
    }

    fn horizontal_reduce(&mut self, node: &UOp, combine: ReduceOp, name: &str) -> Outcome {
        let vector = &node.src()[0];
        let (operand, result) = (self.typed(vector), spelling::register(node.dtype()));
        let suffix = spelling::suffix(vector.dtype());
        let call = |flags: &str, reduction: &str, before: &str| {
            format!("call {flags}{result} @llvm.vector.reduce.{reduction}.{suffix}({before}{operand})")
        };
        let dtype = node.dtype();
        if dtype.is_float() {
            let text = match combine {
                // -0.0 is the number that changes nothing when added.
                ReduceOp::Add => call("reassoc ", "fadd", &format!("{result} -0.0, ")),
                ReduceOp::Mul => call("reassoc ", "fmul", &format!("{result} 1.0, ")),
                ReduceOp::Max | ReduceOp::Min => {
                    let least = if combine == ReduceOp::Max { "fmax" } else { "fmin" };
                    let is_max = combine == ReduceOp::Max;
                    return self.horizontal_extreme(vector, is_max, name, &call("nnan nsz ", least, ""));
                }
            };
            return Outcome::Instruction(text);
        }
        let reduction = match (combine, dtype.is_bool(), dtype.is_unsigned()) {
            (ReduceOp::Add | ReduceOp::Max, true, _) => "or",
            (ReduceOp::Mul | ReduceOp::Min, true, _) => "and",
            (ReduceOp::Add, false, _) => "add",
            (ReduceOp::Mul, false, _) => "mul",
            (ReduceOp::Max, false, true) => "umax",
            (ReduceOp::Max, false, false) => "smax",
            (ReduceOp::Min, false, true) => "umin",
            (ReduceOp::Min, false, false) => "smin",
        };
        Outcome::Instruction(call("", reduction, ""))
    }

    /// The extreme of a vector's lanes: found as if there were no NaN and one zero, and replaced if there is a NaN, or if it is a zero. LLVM's
    /// own reductions that propagate NaN look for it, and for the sign of zeros, at each step.
    fn horizontal_extreme(&mut self, vector: &UOp, is_max: bool, name: &str, extreme: &str) -> Outcome {
        let (operand, text) = (self.typed(vector), self.operand(vector).to_string());
        let (lanes, element) = (vector.dtype().lanes(), vector.dtype().element());
        let register = spelling::register(element);
        let number = |value: f64| spelling::constant(Scalar::float(value), element);
        let any = |flags: &str| format!("call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {flags})");
        let odd = self.step(name, "odd", &format!("fcmp uno {operand}, {text}"));
        let any_odd = self.step(name, "any_odd", &any(&odd));
        let extreme = self.step(name, "extreme", extreme);
        // Among the largest, 0.0 counts more; among the smallest, -0.0.
        let (stronger, weaker) = if is_max { (0.0, -0.0) } else { (-0.0, 0.0) };
        let whole = spelling::bits_of(vector.dtype());
        let least = spelling::constant(
            Scalar::from_i64(if is_max { 0 } else { i64::MIN >> (64 - 8 * element.bytes()) }, whole.element()),
            whole,
        );
        let bits = self.step(name, "bits", &format!("bitcast {operand} to {}", spelling::register(whole)));
        let zeros = self.step(name, "zeros", &format!("icmp eq {} {bits}, {least}", spelling::register(whole)));
        let any_zero = self.step(name, "any_zero", &any(&zeros));
        let (stronger, weaker) = (number(stronger), number(weaker));
        let zero =
            self.step(name, "zero", &format!("select i1 {any_zero}, {register} {stronger}, {register} {weaker}"));
        let is_zero = self.step(name, "is_zero", &format!("fcmp oeq {register} {extreme}, {}", number(0.0)));
        let signed =
            self.step(name, "signed", &format!("select i1 {is_zero}, {register} {zero}, {register} {extreme}"));
        Outcome::Instruction(format!("select i1 {any_odd}, {register} {}, {register} {signed}", number(f64::NAN)))
    }
}
