//! Tensors made of nothing but their shape: constants, ranges, identity, triangles.

use super::math::known;
use super::shapes::{check_fits, check_size};
use super::{Built, fail};
use crate::dtype::Scalar;
use crate::ir::{Arg, Dim, Function, Shape};
use crate::{DType, UOp};

/// One value everywhere; it must fit the type.
pub fn full(shape: &Shape, value: Scalar, dtype: DType) -> Built {
    check_size(shape)?;
    check_fits(value, dtype)?;
    let constant = UOp::constant(value.cast(dtype), dtype);
    if shape.is_empty() {
        return Ok(constant);
    }
    Ok(constant.reshape(vec![1i64; shape.len()]).expand(shape.clone()))
}

/// A value that gradients tell from all that are alike, by a number of its own: then it can be what is differentiated by.
pub fn own(value: &UOp, number: i64) -> UOp {
    known(Function::Own, value.clone(), &[&UOp::index(number)])
}

/// The value of what is told from others alike; of anything else itself.
pub fn without_own(node: &UOp) -> &UOp {
    if *node.arg() == Arg::Function(Function::Own) { &node.src()[0] } else { node }
}

/// An integer everywhere in the shape and type of x.
pub(super) fn full_like(x: &UOp, value: i64) -> UOp {
    let constant = x.const_like(value);
    if x.shape().is_empty() {
        constant
    } else {
        constant.reshape(vec![1i64; x.shape().len()]).expand(x.shape().clone())
    }
}

/// 0, 1, ... along one axis of a shape, repeated along the others; of dtype `Index`.
pub(crate) fn positions(shape: &Shape, axis: usize) -> UOp {
    let line: Shape = (0..shape.len()).map(|k| if k == axis { shape[k].clone() } else { Dim::Const(1) }).collect();
    UOp::iota(shape[axis].clone()).reshape(line).expand(shape.clone())
}

/// 0, 1, 2, ... of `i32`, as many as a length says.
pub fn iota(len: &Dim) -> Built {
    check_size(&Shape::from([len.clone()]))?;
    Ok(UOp::iota(len.clone()).cast(DType::I32))
}

/// How many integers a range has; none if it is one of floats or its step is 0.
fn whole_count(start: Scalar, stop: Scalar, step: Scalar) -> Option<i64> {
    let is_float = [start, stop, step].iter().any(|value| matches!(value, Scalar::Float(_)));
    let (from, to, by) = (start.to_i64() as i128, stop.to_i64() as i128, step.to_i64() as i128);
    if is_float || by == 0 {
        return None;
    }
    let count = if by > 0 { (to - from + by - 1).div_euclid(by) } else { (from - to - by - 1).div_euclid(-by) };
    Some(i64::try_from(count.max(0)).unwrap_or(i64::MAX))
}

/// The last integer of a range, or its start if it has none; nothing if it is one of floats or its step is 0.
pub fn arange_last(start: Scalar, stop: Scalar, step: Scalar) -> Option<i64> {
    let count = whole_count(start, stop, step)? as i128;
    let last = start.to_i64() as i128 + (count - 1).max(0) * step.to_i64() as i128;
    // It lies between start and stop.
    Some(last as i64)
}

/// start, start + step, ... up to but without stop.
pub fn arange(start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Built {
    let (from, to, by) = (start.to_f64(), stop.to_f64(), step.to_f64());
    if by == 0.0 || !by.is_finite() || !from.is_finite() || !to.is_finite() {
        fail!("from {from} to {to} by {by} is no range: the step must not be 0, and all must be finite");
    }
    let whole = whole_count(start, stop, step);
    let len = whole.unwrap_or_else(|| ((to - from) / by).ceil().max(0.0) as i64);
    check_size(&[len].into())?;
    let index = UOp::iota(len);
    if dtype.is_float() {
        // PyTorch takes steps in double precision and rounds once at the end.
        let wide = index.cast(DType::F64) * UOp::float(by, DType::F64) + UOp::float(from, DType::F64);
        return Ok(wide.cast(dtype));
    }
    if dtype.is_bool() {
        fail!("bools have no ranges: choose an integer or float type");
    }
    if whole.is_some() {
        let constant = |value: Scalar| UOp::constant(value.cast(dtype), dtype);
        return Ok(index.cast(dtype) * constant(step) + constant(start));
    }
    let wide = index.cast(DType::F64) * UOp::float(by, DType::F64) + UOp::float(from, DType::F64);
    Ok(wide.cast(dtype))
}

/// `steps` numbers from start to stop, both included.
pub fn linspace(start: f64, stop: f64, steps: i64, dtype: DType) -> Built {
    if steps < 0 {
        fail!("{steps} steps: there cannot be fewer than 0");
    }
    if dtype.is_bool() {
        fail!("bools have no ranges: choose an integer or float type");
    }
    check_size(&[steps].into())?;
    let at = |value: f64| UOp::float(value, DType::F64);
    if steps < 2 {
        return full(&[steps].into(), Scalar::from_f64(start, DType::F64), dtype);
    }
    let step = (stop - start) / (steps - 1) as f64;
    let index = UOp::iota(steps).cast(DType::F64);
    // The second half counts from the end, so that the last number is exactly stop.
    let up = &index * at(step) + at(start);
    let down = at(stop) - (at((steps - 1) as f64) - &index) * at(step);
    Ok(index.lt(at((steps / 2) as f64)).select(up, down).cast(dtype))
}

/// Ones on the diagonal, zeros elsewhere.
pub fn eye(rows: i64, columns: i64, dtype: DType) -> Built {
    let shape = Shape::from([rows, columns]);
    check_size(&shape)?;
    Ok(positions(&shape, 0).equals(positions(&shape, 1)).cast(dtype))
}

/// x where column - row is at most (`upper` false) or at least (true) `diagonal`, else 0.
pub fn triangle(x: &UOp, diagonal: i64, upper: bool) -> Built {
    let shape = x.shape();
    if shape.len() < 2 {
        fail!("a triangle needs two axes, and {shape} has {}", shape.len());
    }
    let (row, column) = (positions(shape, shape.len() - 2), positions(shape, shape.len() - 1));
    let limit = row + UOp::index(diagonal);
    let kept = if upper { column.lt(&limit).not() } else { limit.lt(&column).not() };
    Ok(kept.select(x, x.const_like(0)))
}
