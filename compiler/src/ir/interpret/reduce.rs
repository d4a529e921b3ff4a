//! Reductions and gathers. Elements are combined in row-major order, starting from the op's identity, each step rounded to the
//! node's type; sums of floats are rounded once, at their end, so that they stand for the sum that is meant and not for one order of it.

use super::movement::{Walk, row_major};
use super::{InterpretError, Value, element_count};
use crate::dtype::arithmetic::{Element, WithElement, with_element};
use crate::dtype::{DType, Scalar};
use crate::ir::scalar_op::{binary_function, is_defined};
use crate::ir::{Op, ReduceOp};

struct Combine<'v> {
    op: ReduceOp,
    x: &'v Value,
    shape: Vec<i64>,
    walk: Walk,
}

impl WithElement for Combine<'_> {
    type Output = Option<Value>;
    fn with<E: Element>(self) -> Option<Value> {
        let Combine { op, x, shape, walk } = self;
        let function = binary_function::<E>(op.op())?;
        let identity = E::from_scalar(op.identity(x.dtype()));
        let mut elements = vec![identity; shape.iter().product::<i64>() as usize];
        let mut source = x.slice::<E>();
        let (len, stride) = walk.row();
        walk.for_each_row(|start| {
            let (row, rest) = source.split_at(len as usize);
            source = rest;
            if stride == 0 {
                let total = &mut elements[start as usize];
                *total = row.iter().fold(*total, |total, x| function(total, *x));
            } else {
                // The innermost axis is kept, and of what is kept it is innermost: its elements are neighbours.
                for (total, x) in elements[start as usize..].iter_mut().zip(row) {
                    *total = function(*total, *x);
                }
            }
        });
        Some(Value::of(x.dtype(), shape, elements))
    }
}

/// A sum of floats with what its additions lost, which Knuth's two-sum finds.
#[derive(Clone, Copy, Default)]
pub(super) struct ExactSum {
    total: f64,
    lost: f64,
}

impl ExactSum {
    pub(super) fn add(&mut self, x: f64) {
        let total = self.total + x;
        if total.is_finite() {
            let part = total - self.total;
            self.lost += (self.total - (total - part)) + (x - part);
        }
        self.total = total;
    }

    pub(super) fn value(self) -> f64 {
        if self.total.is_finite() { self.total + self.lost } else { self.total }
    }
}

struct Sum<'v> {
    x: &'v Value,
    shape: Vec<i64>,
    walk: Walk,
}

impl WithElement for Sum<'_> {
    type Output = Option<Value>;
    fn with<E: Element>(self) -> Option<Value> {
        let Sum { x, shape, walk } = self;
        let mut sums = vec![ExactSum::default(); shape.iter().product::<i64>() as usize];
        let mut source = x.slice::<E>();
        let (len, stride) = walk.row();
        walk.for_each_row(|start| {
            let (row, rest) = source.split_at(len as usize);
            source = rest;
            for (at, x) in row.iter().enumerate() {
                sums[start as usize + if stride == 0 { 0 } else { at }].add(x.convert::<f64>());
            }
        });
        Some(Value::of(x.dtype(), shape, sums.into_iter().map(|sum| E::from_f64(sum.value())).collect()))
    }
}

/// The axes that do not go away.
pub(super) fn kept_axes(axes: &[u8], rank: usize) -> Vec<usize> {
    (0..rank).filter(|axis| !axes.contains(&(*axis as u8))).collect()
}

/// `x` combined along `axes`, which go away.
pub(super) fn reduce(op: ReduceOp, axes: &[u8], x: &Value) -> Result<Value, InterpretError> {
    if !is_defined(op.op(), x.dtype()) {
        return Err(InterpretError {
            op: Op::Reduce,
            message: format!("{} is not defined on {}", op.name(), x.dtype()),
        });
    }
    let kept = kept_axes(axes, x.shape().len());
    let shape: Vec<i64> = kept.iter().map(|axis| x.shape()[*axis]).collect();
    let mut strides = vec![0i64; x.shape().len()];
    for (axis, stride) in kept.iter().zip(row_major(&shape)) {
        strides[*axis] = stride;
    }
    element_count(Op::Reduce, &shape)?;
    let walk = Walk { shape: x.shape().to_vec(), strides, offset: 0 };
    let result = match op {
        ReduceOp::Add if x.dtype().is_float() => with_element(x.dtype(), Sum { x, shape, walk }).flatten(),
        _ => with_element(x.dtype(), Combine { op, x, shape, walk }).flatten(),
    };
    result.ok_or_else(|| InterpretError { op: Op::Reduce, message: format!("is not defined on {}", x.dtype()) })
}

struct Select<'v> {
    x: &'v Value,
    index: Vec<i64>,
    shape: Vec<i64>,
    outer: usize,
    axis_len: i64,
    inner: usize,
}

impl WithElement for Select<'_> {
    type Output = Value;
    fn with<E: Element>(self) -> Value {
        let source = self.x.slice::<E>();
        let mut elements: Vec<E> = Vec::with_capacity(self.outer * self.index.len() * self.inner);
        for outer in 0..self.outer {
            for &at in &self.index {
                if (0..self.axis_len).contains(&at) {
                    let start = (outer * self.axis_len as usize + at as usize) * self.inner;
                    elements.extend_from_slice(&source[start..start + self.inner]);
                } else {
                    elements.extend(std::iter::repeat_n(E::ZERO, self.inner));
                }
            }
        }
        Value::of(self.x.dtype(), self.shape, elements)
    }
}

/// `x[.., index[..], ..]` along `axis`; 0 where out of range.
pub(super) fn gather(axis: usize, x: &Value, index: &Value) -> Result<Value, InterpretError> {
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let shape: Vec<i64> = before.iter().chain(index.shape()).chain(after).copied().collect();
    element_count(Op::Gather, &shape)?;
    // An unsigned index too large for i64 is no element of anything.
    let number = |value: Scalar| match value {
        Scalar::UInt(value) => i64::try_from(value).unwrap_or(-1),
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_) => value.to_i64(),
    };
    let select = Select {
        x,
        index: index.scalars().into_iter().map(number).collect(),
        shape,
        outer: before.iter().product::<i64>() as usize,
        axis_len: x.shape()[axis],
        inner: after.iter().product::<i64>() as usize,
    };
    let failed = || InterpretError { op: Op::Gather, message: format!("is not defined on {}", DType::VOID) };
    with_element(x.dtype(), select).ok_or_else(failed)
}
