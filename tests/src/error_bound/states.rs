//! Bounds of reductions of several values: what a combiner's state may be off by.

use warpweft_compiler::ir::interpret::{Nodes, Value};
use warpweft_compiler::ir::{Combiner, Component, ReduceOp, UOp};

use super::element::Rounding;
use super::{Bounded, combined, roundings, wide};

/// Roundings of one step of a combiner, and what rounding once more on each side adds.
const STEP: f64 = 12.0;

/// Of one component of what is reduced along the axes. A sum of numbers of both signs may be small where what moves it is not.
pub(super) fn reduce(
    node: &UOp,
    component: Component,
    axes: &[usize],
    operands: &[Bounded],
    value: &Value,
    nodes: &mut Nodes<'_>,
) -> Result<Vec<f64>, String> {
    let mut over = |op: ReduceOp, f: &dyn Fn(usize) -> f64| -> Result<Vec<f64>, String> {
        let shape = operands[0].value.shape();
        let each: Vec<f64> = (0..operands[0].value.len()).map(f).collect();
        // Any operand of floats will do: only its shape counts.
        let like = UOp::new(node.op(), node.src()[0].dtype(), vec![node.src()[0].clone()], {
            let axes = axes.iter().map(|axis| *axis as u8).collect();
            warpweft_compiler::ir::Arg::Reduce(op, axes)
        });
        combined(&like, &wide(shape, &each)?, nodes)
    };
    let (dtype, found) = (node.dtype(), value.to_f64());
    let numbers: Vec<Vec<f64>> = operands.iter().map(|operand| operand.value.to_f64()).collect();
    let error = |k: usize, at: usize| operands[k].error(at);
    let terms = if value.is_empty() { 0.0 } else { (operands[0].value.len() / value.len()) as f64 };
    let unit = STEP * roundings(terms, dtype, false).max(1.0) * Rounding::of(dtype).unit;
    let least = Rounding::of(dtype).least;
    let bounds: Vec<f64> = match (component.combiner, component.number) {
        (Combiner::ArgMaxFirst | Combiner::ArgMaxLast | Combiner::ArgMinFirst | Combiner::ArgMinLast, number) => {
            let off = over(ReduceOp::Max, &|at| error(0, at).max(error(1, at)))?;
            // Which of two is the extreme must be known, or neither its index nor, between infinities, its value is.
            off.into_iter().map(|off| if number == 0 || off == 0.0 { off } else { f64::INFINITY }).collect()
        }
        (Combiner::LogSumExp | Combiner::SoftmaxSum, 0) => over(ReduceOp::Max, &|at| error(0, at))?,
        (Combiner::LogSumExp | Combiner::SoftmaxSum, component) => {
            let off = over(ReduceOp::Max, &|at| error(0, at))?;
            let of_sum = component as usize;
            let sizes = over(ReduceOp::Add, &|at| numbers[of_sum][at].abs() * 2.0 * unit + error(of_sum, at))?;
            let whole = match component {
                1 => found.iter().map(|sum| sum.abs()).collect(),
                _ => over(ReduceOp::Add, &|at| numbers[of_sum][at].abs())?,
            };
            let each = whole.iter().zip(off).zip(sizes);
            each.map(|((whole, off), sizes)| whole * ((2.0 * off).exp_m1() + unit) + sizes + least).collect()
        }
        (Combiner::Moments, 2) => {
            let before = over(ReduceOp::Add, &|at| error(2, at))?;
            found.iter().zip(before).map(|(count, before)| before + unit * count.abs()).collect()
        }
        (Combiner::Moments, number) => {
            let mean = over(ReduceOp::Max, &|at| numbers[0][at].abs())?;
            let off: Vec<f64> = over(ReduceOp::Max, &|at| error(0, at))?;
            let off: Vec<f64> = off.iter().zip(&mean).map(|(off, mean)| off + unit * mean + least).collect();
            if number == 0 {
                off
            } else {
                let (count, before) =
                    (over(ReduceOp::Add, &|at| numbers[2][at].abs())?, over(ReduceOp::Add, &|at| error(1, at))?);
                let each = found.iter().zip(off).zip(count.iter().zip(before).zip(&mean));
                each.map(|((squares, off), ((count, before), mean))| {
                    // A distance is as large as the root of the squares, or twice the largest mean.
                    let distance = squares.abs().sqrt().min(2.0 * mean);
                    before + unit * squares.abs() + count * (2.0 * distance * off + off * off) + least
                })
                .collect()
            }
        }
    };
    // An infinity or a NaN of exact operands must be met.
    let is_exact = operands.iter().all(|operand| operand.errors.is_none());
    let known = |(bound, value): (f64, &f64)| if is_exact && !value.is_finite() { 0.0 } else { bound };
    Ok(bounds.into_iter().zip(&found).map(known).collect())
}
