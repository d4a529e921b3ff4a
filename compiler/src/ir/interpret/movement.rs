//! Ops that move elements: each is a walk over the source with a stride for every axis of the result, and `pad` a walk over the
//! result. Nothing is composed or deferred here: one op, one copy.

use super::dims::Dims;
use super::{InterpretError, Value, element_count};
use crate::dtype::DType;
use crate::dtype::arithmetic::{Element, WithElement, with_element};
use crate::ir::{Arg, Op};

/// What a movement op makes of a value.
// tidy: table
pub(super) fn movement(op: Op, arg: &Arg, x: &Value, dims: &mut Dims<'_>) -> Result<Value, InterpretError> {
    let fail = |message: String| InterpretError { op, message };
    let from = x.shape();
    let strides = row_major(from);
    match (op, arg) {
        (Op::Reshape, Arg::Shape(shape)) => {
            let to = dims.shape(op, shape)?;
            if element_count(op, &to)? != x.len() {
                return Err(fail(format!("{from:?} has {} elements, {to:?} has not", x.len())));
            }
            Ok(x.with_shape(to))
        }
        (Op::Expand, Arg::Shape(shape)) => {
            let to = dims.shape(op, shape)?;
            element_count(op, &to)?;
            let fits = to.len() == from.len() && from.iter().zip(&to).all(|(a, b)| a == b || *a == 1);
            if !fits {
                return Err(fail(format!("{from:?} does not expand to {to:?}")));
            }
            let steps = strides.iter().zip(from).map(|(stride, dim)| if *dim == 1 { 0 } else { *stride }).collect();
            Ok(walk(x, Walk { shape: to, strides: steps, offset: 0 }))
        }
        (Op::Permute, Arg::Axes(order)) => {
            let shape = order.iter().map(|axis| from[*axis as usize]).collect();
            let steps = order.iter().map(|axis| strides[*axis as usize]).collect();
            Ok(walk(x, Walk { shape, strides: steps, offset: 0 }))
        }
        (Op::Flip, Arg::Axes(axes)) => {
            let mut steps = strides;
            let mut offset = 0;
            for axis in axes.iter().map(|axis| *axis as usize) {
                offset += steps[axis] * from[axis].saturating_sub(1).clamp(0, i64::MAX);
                steps[axis] = -steps[axis];
            }
            Ok(walk(x, Walk { shape: from.to_vec(), strides: steps, offset }))
        }
        (Op::Shrink, Arg::Bounds(bounds)) => {
            let mut shape = Vec::with_capacity(from.len());
            let mut offset = 0;
            for ((start, end), (dim, stride)) in bounds.iter().zip(from.iter().zip(&strides)) {
                let (start, end) = (dims.value(op, start)?, dims.value(op, end)?);
                if !(0 <= start && start <= end && end <= *dim) {
                    return Err(fail(format!("{start}..{end} is not within an axis of length {dim}")));
                }
                offset += start * stride;
                shape.push(end - start);
            }
            Ok(walk(x, Walk { shape, strides, offset }))
        }
        (Op::Pad, Arg::Bounds(bounds)) => {
            let mut shape = Vec::with_capacity(from.len());
            let mut before_each = Vec::with_capacity(from.len());
            for ((before, after), dim) in bounds.iter().zip(from) {
                let (before, after) = (dims.value(op, before)?, dims.value(op, after)?);
                match dim.checked_add(before).and_then(|sum| sum.checked_add(after)) {
                    Some(sum) if before >= 0 && after >= 0 => shape.push(sum),
                    _ => return Err(fail(format!("cannot put {before} before and {after} after {dim} elements"))),
                }
                before_each.push(before);
            }
            element_count(op, &shape)?;
            pad(x, shape, &before_each).ok_or_else(|| fail("has nothing to pad".to_string()))
        }
        (Op::AsStrided, Arg::Strided(arg)) => {
            let shape = dims.shape(op, &arg.shape)?;
            let strides = dims.shape(op, &arg.strides)?;
            let offset = dims.value(op, &arg.offset)?;
            element_count(op, &shape)?;
            let walk_over = Walk { shape, strides, offset };
            match walk_over.reach() {
                Some((low, high)) if low < 0 || high >= x.len() as i128 => {
                    Err(fail(format!("touches elements {low} to {high} of a base of {}", x.len())))
                }
                _ => Ok(walk(x, walk_over)),
            }
        }
        (op, arg) => Err(fail(format!("{op} does not take the argument {arg:?}"))),
    }
}

/// Elements between neighbours along each axis.
pub(super) fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1]);
    }
    strides
}

/// Element (i, j, ...) of the result is element `offset + i * strides[0] + j * strides[1] + ...` of the source.
pub(super) struct Walk {
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) offset: i64,
}

impl Walk {
    /// The least and the largest position that it touches; none if it is empty.
    fn reach(&self) -> Option<(i128, i128)> {
        let mut reach = (self.offset as i128, self.offset as i128);
        for (dim, stride) in self.shape.iter().zip(&self.strides) {
            let span = (*dim as i128 - 1) * *stride as i128;
            if *dim == 0 {
                return None;
            }
            reach = (reach.0 + span.min(0), reach.1 + span.max(0));
        }
        Some(reach)
    }

    /// Calls `run` for each innermost row with the position of its first element: row-major order.
    pub(super) fn for_each_row(&self, mut run: impl FnMut(i64)) {
        if self.shape.contains(&0) {
            return;
        }
        let outer = self.shape.len().saturating_sub(1);
        let mut counters = vec![0i64; outer];
        let mut position = self.offset;
        loop {
            run(position);
            let mut axis = outer;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                counters[axis] += 1;
                position += self.strides[axis];
                if counters[axis] < self.shape[axis] {
                    break;
                }
                position -= self.strides[axis] * counters[axis];
                counters[axis] = 0;
            }
        }
    }

    /// Length and stride of the innermost axis.
    pub(super) fn row(&self) -> (i64, i64) {
        (self.shape.last().copied().unwrap_or(1), self.strides.last().copied().unwrap_or(0))
    }
}

struct CopyOut<'v>(&'v Value, Walk);

impl WithElement for CopyOut<'_> {
    type Output = Value;
    fn with<E: Element>(self) -> Value {
        let CopyOut(x, walk) = self;
        let source = x.slice::<E>();
        let (len, stride) = walk.row();
        let mut elements: Vec<E> = Vec::with_capacity(walk.shape.iter().product::<i64>() as usize);
        walk.for_each_row(|start| match stride {
            1 => elements.extend_from_slice(&source[start as usize..(start + len) as usize]),
            _ => elements.extend((0..len).map(|at| source[(start + at * stride) as usize])),
        });
        Value::of(x.dtype(), walk.shape, elements)
    }
}

fn walk(x: &Value, walk: Walk) -> Value {
    // A value is never of type void.
    with_element(x.dtype(), CopyOut(x, walk)).unwrap_or_else(|| x.clone())
}

struct CopyIn<'v> {
    x: &'v Value,
    shape: Vec<i64>,
    walk: Walk,
}

impl WithElement for CopyIn<'_> {
    type Output = Value;
    fn with<E: Element>(self) -> Value {
        let source = self.x.slice::<E>();
        let mut elements = vec![E::ZERO; self.shape.iter().product::<i64>() as usize];
        let len = self.walk.row().0 as usize;
        let mut taken = 0;
        self.walk.for_each_row(|start| {
            elements[start as usize..start as usize + len].copy_from_slice(&source[taken..taken + len]);
            taken += len;
        });
        Value::of(self.x.dtype(), self.shape, elements)
    }
}

fn pad(x: &Value, shape: Vec<i64>, before: &[i64]) -> Option<Value> {
    let strides = row_major(&shape);
    let offset = before.iter().zip(&strides).map(|(before, stride)| before * stride).sum();
    let walk = Walk { shape: x.shape().to_vec(), strides, offset };
    with_element(x.dtype(), CopyIn { x, shape, walk })
}

/// 0, 1, 2, ... of dtype `Index`.
pub(super) fn iota(len: i64) -> Value {
    Value::of(DType::INDEX, vec![len], (0..len).collect())
}
