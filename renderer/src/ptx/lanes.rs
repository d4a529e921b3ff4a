//! Vectors made, taken apart and combined: they are lists of registers, so most of it writes nothing.

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, ReduceOp};
use warpweft_compiler::{DType, Op, UOp};

use super::registers::{self, Kind, arithmetic};
use super::{Writer, bug};

impl Writer<'_> {
    pub(super) fn vector(&mut self, node: &UOp) {
        let kind = Kind::of(node.dtype());
        let lanes = match (node.op(), node.arg()) {
            (Op::Splat, _) => {
                let value = self.lane(&node.src()[0], 0);
                vec![self.kept(kind, value); node.dtype().lanes()]
            }
            (Op::Ramp, Arg::Number(stride)) => self.ramp(node, *stride),
            (Op::Stack, _) => {
                let values: Vec<String> = node.src().iter().map(|scalar| self.lane(scalar, 0)).collect();
                values.into_iter().map(|value| self.kept(kind, value)).collect()
            }
            (Op::Lane, Arg::Number(lane)) => {
                let value = self.lane(&node.src()[0], *lane as usize);
                vec![self.kept(kind, value)]
            }
            (Op::HorizontalReduce, Arg::Combine(combine)) => vec![self.horizontal_reduce(node, *combine)],
            _ => bug(node, "lacks its argument"),
        };
        self.set(node, lanes);
    }

    fn ramp(&mut self, node: &UOp, stride: i64) -> Vec<String> {
        let (base, dtype) = (&node.src()[0], node.dtype().element());
        let (start, kind) = (self.lane(base, 0), Kind::of(dtype));
        let start = self.kept(kind, start);
        let mut lanes = Vec::new();
        for lane in 0..node.dtype().lanes() as i64 {
            let step = registers::constant(Scalar::from_i64(lane.wrapping_mul(stride), dtype), dtype);
            lanes.push(match lane {
                0 => start.clone(),
                _ if base.is_const(0) => step,
                _ => {
                    let sum = self.compute(kind, &format!("add.{}", arithmetic(dtype)), &[&start, &step]);
                    self.wrapped(dtype, sum)
                }
            });
        }
        lanes
    }

    /// The lanes combined by halves: their order is open.
    fn horizontal_reduce(&mut self, node: &UOp, combine: ReduceOp) -> String {
        let dtype = node.dtype();
        let mut lanes = self.lanes(&node.src()[0]).to_vec();
        while lanes.len() > 1 {
            let upper = lanes.split_off(lanes.len().div_ceil(2));
            for (lane, other) in upper.iter().enumerate() {
                lanes[lane] = self.combined(combine, dtype, &lanes[lane].clone(), other);
            }
        }
        let result = lanes.swap_remove(0);
        self.kept(Kind::of(dtype), result)
    }

    /// `ldmatrix`: each register gets a pair of elements. The pairs stay as they are, for nothing but products of matrices takes them.
    pub(super) fn load_matrices(&mut self, node: &UOp) {
        self.need((6, 5), 75);
        let address = self.address_of(&node.src()[0]);
        let turned = if *node.arg() == Arg::Number(1) { ".trans" } else { "" };
        let count = node.dtype().lanes() / 2;
        let registers: Vec<String> = (0..count).map(|_| self.register(Kind::Bits32)).collect();
        let list = registers.join(", ");
        self.line(&format!("ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 {{{list}}}, {address};"));
        let mut halves = Vec::new();
        for pair in &registers {
            let (low, high) = (self.register(Kind::Bits16), self.register(Kind::Bits16));
            self.line(&format!("mov.b32 {{{low}, {high}}}, {pair};"));
            halves.extend([low, high]);
        }
        self.set(node, halves);
        self.pairs.insert(node.clone(), registers);
    }

    /// `mma.sync`: registers of factors hold pairs of half floats, the first one in the lower half.
    pub(super) fn multiply_matrices(&mut self, node: &UOp) {
        self.need((7, 0), 80);
        let kind = if node.src()[0].dtype().element() == DType::BF16 { "bf16" } else { "f16" };
        let [left, right] = [0, 1].map(|factor| {
            if let Some(pairs) = self.pairs.get(&node.src()[factor]) {
                return pairs.join(", ");
            }
            let halves = self.lanes(&node.src()[factor]).to_vec();
            let halves: Vec<String> = halves.into_iter().map(|half| self.in_register(Kind::Bits16, half)).collect();
            let pair = |pair: &[String]| self.compute(Kind::Bits32, "mov.b32", &[&format!("{{{}}}", pair.join(", "))]);
            halves.chunks(2).map(pair).collect::<Vec<String>>().join(", ")
        });
        let sums = self.lanes(&node.src()[2]).to_vec();
        let sums: Vec<String> = sums.into_iter().map(|sum| self.in_register(Kind::Float32, sum)).collect();
        let results: Vec<String> = sums.iter().map(|_| self.register(Kind::Float32)).collect();
        self.line(&format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{}}}, {{{left}}}, {{{right}}}, {{{}}};",
            results.join(", "),
            sums.join(", ")
        ));
        self.set(node, results);
    }

    /// Two scalars combined.
    pub(super) fn combined(&mut self, combine: ReduceOp, dtype: DType, a: &str, b: &str) -> String {
        self.binary(combine.op(), dtype, a, b)
    }
}
