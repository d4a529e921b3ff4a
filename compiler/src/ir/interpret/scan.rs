//! Scans, scatters and fetches, element by element in row-major order: the slow and obvious meaning of both.

use super::reduce::ExactSum;
use super::{InterpretError, Value};
use crate::dtype::Scalar;
use crate::dtype::arithmetic::{Element, WithElement, with_element};
use crate::ir::scalar_op::binary_function;
use crate::ir::{Combiner, Op, ReduceOp};

struct Scan<'v> {
    op: ReduceOp,
    axis: usize,
    x: &'v Value,
}

impl WithElement for Scan<'_> {
    type Output = Option<Value>;
    fn with<E: Element>(self) -> Option<Value> {
        let Scan { op, axis, x } = self;
        let function = binary_function::<E>(op.op())?;
        let source = x.slice::<E>();
        let len = x.shape()[axis] as usize;
        let inner: usize = x.shape()[axis + 1..].iter().product::<i64>() as usize;
        let mut elements = source.to_vec();
        for line in 0..source.len().checked_div(len).unwrap_or(0) {
            let start = line / inner * len * inner + line % inner;
            let (mut total, mut sum, mut product) = (source[start], ExactSum::default(), 1.0f64);
            for at in (0..len).map(|step| start + step * inner) {
                let element = source[at];
                elements[at] = match op {
                    // Rounded once for each element, as the sum or product that is meant.
                    ReduceOp::Add if x.dtype().is_float() => {
                        sum.add(element.convert::<f64>());
                        E::from_f64(sum.value())
                    }
                    ReduceOp::Mul if x.dtype().is_float() => {
                        product *= element.convert::<f64>();
                        E::from_f64(product)
                    }
                    _ if at == start => element,
                    _ => function(total, element),
                };
                total = elements[at];
            }
        }
        Some(Value::of(x.dtype(), x.shape().to_vec(), elements))
    }
}

/// Each element of `x` combined with those before it along `axis`.
pub(super) fn scan(op: ReduceOp, axis: usize, x: &Value) -> Result<Value, InterpretError> {
    let failed = || InterpretError { op: Op::Scan, message: format!("{} is not defined on {}", op.name(), x.dtype()) };
    with_element(x.dtype(), Scan { op, axis, x }).flatten().ok_or_else(failed)
}

/// What the states of each element of `x` and of those before it along `axis` come to: the logarithm of a sum of powers of e, taken in `f64`.
pub(super) fn scan_states(combiner: Combiner, axis: usize, x: &Value) -> Result<Value, InterpretError> {
    let failed =
        || InterpretError { op: Op::Scan, message: format!("{} is not defined on {}", combiner.name(), x.dtype()) };
    if combiner != Combiner::LogSumExp || !x.dtype().is_float() {
        return Err(failed());
    }
    let len = x.shape()[axis] as usize;
    let inner: usize = x.shape()[axis + 1..].iter().product::<i64>() as usize;
    let mut elements = x.to_f64();
    for line in 0..elements.len().checked_div(len).unwrap_or(0) {
        let start = line / inner * len * inner + line % inner;
        let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
        for at in (0..len).map(|step| start + step * inner) {
            let power = |exponent: f64, base: f64| if exponent == base { 1.0 } else { libm::exp(exponent - base) };
            let next = if elements[at].is_nan() || elements[at] > largest { elements[at] } else { largest };
            sum = sum * power(largest, next) + power(elements[at], next);
            largest = next;
            elements[at] = largest + libm::log(sum);
        }
    }
    Value::from_f64(x.dtype(), x.shape().to_vec(), &elements).ok_or_else(failed)
}

struct Scatter<'v> {
    op: Option<ReduceOp>,
    axis: usize,
    x: &'v Value,
    index: &'v Value,
    source: &'v Value,
    /// Whether what is asked for is what each element of the source finds, and not what is left in the end.
    finds: bool,
}

impl WithElement for Scatter<'_> {
    type Output = Option<Value>;
    fn with<E: Element>(self) -> Option<Value> {
        let Scatter { op, axis, x, index, source, finds } = self;
        let function = match op {
            Some(op) => Some(binary_function::<E>(op.op())?),
            None => None,
        };
        let mut elements = x.slice::<E>().to_vec();
        let values = source.slice::<E>();
        let mut found = vec![E::ZERO; if finds { values.len() } else { 0 }];
        let strides = super::movement::row_major(x.shape());
        let mut coordinates: Vec<i64> = vec![0; source.shape().len()];
        for (position, value) in values.iter().enumerate() {
            let named = match index.get(position) {
                // An unsigned index too large for i64 is no element of anything.
                Scalar::UInt(number) => i64::try_from(number).unwrap_or(-1),
                number => number.to_i64(),
            };
            if (0..x.shape()[axis]).contains(&named) {
                let at = |k: usize| if k == axis { named } else { coordinates[k] };
                let element = &mut elements[(0..coordinates.len()).map(|k| at(k) * strides[k]).sum::<i64>() as usize];
                if finds {
                    found[position] = *element;
                }
                *element = function.map_or(*value, |function| function(*element, *value));
            }
            for k in (0..coordinates.len()).rev() {
                coordinates[k] += 1;
                if coordinates[k] < source.shape()[k] {
                    break;
                }
                coordinates[k] = 0;
            }
        }
        match finds {
            true => Some(Value::of(x.dtype(), source.shape().to_vec(), found)),
            false => Some(Value::of(x.dtype(), x.shape().to_vec(), elements)),
        }
    }
}

/// What each element of `source` finds at its position along `axis`, before it is put there or combined into it.
pub(super) fn fetch(
    op: Option<ReduceOp>,
    axis: usize,
    x: &Value,
    index: &Value,
    source: &Value,
) -> Result<Value, InterpretError> {
    scattered(Op::Fetch, Scatter { op, axis, x, index, source, finds: true })
}

/// Each element of `source` at the position along `axis` that `index` names.
pub(super) fn place(axis: usize, index: &Value, source: &Value) -> Result<Value, InterpretError> {
    scattered(Op::Place, Scatter { op: None, axis, x: source, index, source, finds: false })
}

/// `x` with each element of `source` put at, or combined into, the position along `axis` that `index` names.
pub(super) fn scatter(
    op: Option<ReduceOp>,
    axis: usize,
    x: &Value,
    index: &Value,
    source: &Value,
) -> Result<Value, InterpretError> {
    scattered(Op::Scatter, Scatter { op, axis, x, index, source, finds: false })
}

fn scattered(asked: Op, scatter: Scatter<'_>) -> Result<Value, InterpretError> {
    let Scatter { axis, x, index, source, .. } = scatter;
    let failed = |message: String| InterpretError { op: asked, message };
    if index.shape() != source.shape() || x.dtype() != source.dtype() || x.shape().len() != index.shape().len() {
        return Err(failed(format!("{:?} is put at {:?} in {:?}", source.shape(), index.shape(), x.shape())));
    }
    if (0..x.shape().len()).any(|k| k != axis && index.shape()[k] > x.shape()[k]) {
        return Err(failed(format!("the index {:?} is longer than {:?}", index.shape(), x.shape())));
    }
    with_element(x.dtype(), scatter).flatten().ok_or_else(|| failed(format!("is not defined on {}", x.dtype())))
}
