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

    /// Two scalars combined.
    pub(super) fn combined(&mut self, combine: ReduceOp, dtype: DType, a: &str, b: &str) -> String {
        self.binary(combine.op(), dtype, a, b)
    }
}
