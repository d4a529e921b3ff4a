//! Bounds of running totals, and of what is put at positions that an index names.

use warpweft_compiler::ir::interpret::{Nodes, Value};
use warpweft_compiler::ir::{Arg, ReduceOp, UOp};
use warpweft_compiler::{DType, dtype::ScalarType};

use super::element::Rounding;
use super::{Bounded, wide};

/// The type in which an engine keeps a running total.
fn total_of(dtype: DType) -> DType {
    match dtype.scalar() {
        ScalarType::F16 | ScalarType::BF16 => DType::F32,
        _ => DType::F64,
    }
}

/// Of a `scan`: totals are kept in a wider type, if there is one, and rounded once for each element.
pub(super) fn scan(node: &UOp, x: &Bounded, value: &Value, nodes: &mut Nodes<'_>) -> Result<Vec<f64>, String> {
    if let Arg::ScanState(_, axis) = *node.arg() {
        return running_log_sum(node, axis as usize, x, value, nodes);
    }
    let Arg::Scan(op, axis) = *node.arg() else { return Err(format!("{} without an axis", node.op())) };
    let mut of = |node: &UOp, f: &dyn Fn(f64, f64) -> f64| -> Result<Vec<f64>, String> {
        let each: Vec<f64> = x.value.to_f64().iter().enumerate().map(|(at, x_at)| f(x_at.abs(), x.error(at))).collect();
        let values = [wide(x.value.shape(), &each)?];
        nodes.value(node, &values).map(|value| value.to_f64()).map_err(|error| error.to_string())
    };
    if !node.dtype().is_float() || matches!(op, ReduceOp::Max | ReduceOp::Min) {
        return of(&node.src()[0].scan(ReduceOp::Max, axis as usize), &|_, error| error);
    }
    let (rounding, total) = (Rounding::of(node.dtype()), Rounding::of(total_of(node.dtype())));
    let (sizes, with_errors) = (of(node, &|x, _| x)?, of(node, &|x, error| x + error)?);
    let part = x.value.shape()[axis as usize] as f64 * total.unit;
    let each = value.to_f64().into_iter().enumerate().map(|(at, value)| {
        let is_bounded = with_errors[at] * (1.0 + part) < rounding.most.min(total.most);
        if !is_bounded {
            return if value.is_finite() || with_errors[at] > sizes[at] { f64::INFINITY } else { 0.0 };
        }
        let before = (with_errors[at] - sizes[at]).max(0.0);
        before
            + 2.0 * part * with_errors[at]
            + 2.0 * rounding.unit * value.abs()
            + 2.0 * rounding.least.max(total.least)
    });
    Ok(each.collect())
}

/// A sum of powers is off by as much, relatively, as an exponent is, and by a few roundings for each element; its logarithm by that, absolutely.
fn running_log_sum(
    node: &UOp,
    axis: usize,
    x: &Bounded,
    value: &Value,
    nodes: &mut Nodes<'_>,
) -> Result<Vec<f64>, String> {
    let errors: Vec<f64> = (0..x.value.len()).map(|at| x.error(at)).collect();
    let largest = nodes
        .value(&node.src()[0].scan(ReduceOp::Max, axis), &[wide(x.value.shape(), &errors)?])
        .map_err(|error| error.to_string())?
        .to_f64();
    let (rounding, total) = (Rounding::of(node.dtype()), Rounding::of(total_of(node.dtype())));
    let part = 8.0 * (x.value.shape()[axis] as f64 + 1.0) * total.unit;
    let each = largest.iter().zip(value.to_f64()).map(|(error, value)| {
        let own = part * (1.0 + value.abs()) + 2.0 * rounding.unit * value.abs() + rounding.least;
        if value.is_infinite() && *error == 0.0 { 0.0 } else { error + own }
    });
    Ok(each.collect())
}

/// Of a `scatter`: sums and products round once for each element that is put at a position.
pub(super) fn scatter(node: &UOp, operands: &[Bounded], nodes: &mut Nodes<'_>) -> Result<Vec<f64>, String> {
    let Arg::Scatter(op, axis) = *node.arg() else { return Err(format!("{} without an axis", node.op())) };
    let [x, index, source] = operands else { return Err("a scatter has three operands".to_string()) };
    if index.errors.is_some() {
        // Which elements are replaced must be known.
        return Ok(vec![f64::INFINITY; x.value.len()]);
    }
    let mut of = |op: Option<ReduceOp>, f: &dyn Fn(&Bounded, usize, f64) -> f64| -> Result<Vec<f64>, String> {
        let each = |of: &Bounded| -> Result<Value, String> {
            let values = of.value.to_f64();
            wide(of.value.shape(), &values.iter().enumerate().map(|(at, x)| f(of, at, x.abs())).collect::<Vec<_>>())
        };
        let like = node.src()[0].scatter(&node.src()[1], &node.src()[2], op, axis as usize);
        let values = [each(x)?, index.value.clone(), each(source)?];
        nodes.value(&like, &values).map(|value| value.to_f64()).map_err(|error| error.to_string())
    };
    let op = match op {
        Some(op @ (ReduceOp::Add | ReduceOp::Mul)) if node.dtype().is_float() => op,
        Some(_) => return of(Some(ReduceOp::Max), &|of, at, _| of.error(at)),
        None => return of(None, &|of, at, _| of.error(at)),
    };
    let rounding = Rounding::of(node.dtype());
    let counts = of(Some(ReduceOp::Add), &|of, _, _| if std::ptr::eq(of, source) { 1.0 } else { 0.0 })?;
    let (sizes, with_errors) = (of(Some(op), &|_, _, x| x)?, of(Some(op), &|of, at, x| x + of.error(at))?);
    let each = (0..sizes.len()).map(|at| {
        let before = (with_errors[at] - sizes[at]).max(0.0);
        match counts[at] {
            0.0 => before,
            count if with_errors[at] < rounding.most / 2.0 => {
                before + 2.0 * count * (rounding.unit * with_errors[at] + rounding.least)
            }
            _ => f64::INFINITY,
        }
    });
    Ok(each.collect())
}
