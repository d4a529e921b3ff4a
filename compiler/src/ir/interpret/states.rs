//! Reductions of states, by definitions of their own: what all elements together come to, and not how two states are combined. So an
//! expression of the table that is wrong differs from what stands here.
//!
//! Sums are taken in `f64`, of which each operand is a number, and rounded once at the end.

use super::movement::row_major;
use super::reduce::kept_axes;
use super::{InterpretError, Value, element_count};
use crate::dtype::Scalar;
use crate::ir::{Combiner, Component, Op};

/// One component of `src`, states of one shape, combined along `axes`, which go away.
pub(super) fn reduce(component: Component, axes: &[u8], src: &[Value]) -> Result<Value, InterpretError> {
    let Component { combiner, number } = component;
    let (kept, from) = (kept_axes(axes, src[0].shape().len()), src[0].shape());
    let shape: Vec<i64> = kept.iter().map(|axis| from[*axis]).collect();
    let results = element_count(Op::Reduce, &shape)?;
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); results];
    let (source, target) = (row_major(from), row_major(&shape));
    for element in 0..src[0].len() {
        let terms = kept.iter().zip(&target).map(|(&axis, step)| element as i64 / source[axis] % from[axis] * step);
        members[terms.sum::<i64>() as usize].push(element);
    }
    let given = &src[number as usize];
    let values: Vec<Scalar> = members
        .iter()
        .map(|elements| match elements.is_empty() {
            true => combiner.identity(number as usize, given.dtype()),
            false => outcome(combiner, number as usize, src, elements),
        })
        .collect();
    let failed = || InterpretError { op: Op::Reduce, message: format!("gives no {}", given.dtype()) };
    Value::from_scalars(given.dtype(), shape, &values).ok_or_else(failed)
}

fn outcome(combiner: Combiner, number: usize, src: &[Value], elements: &[usize]) -> Scalar {
    let at = |number: usize, element: usize| src[number].get(element).to_f64();
    let rounded = |value: f64| Scalar::from_f64(value, src[number].dtype());
    match combiner {
        Combiner::ArgMaxFirst | Combiner::ArgMaxLast | Combiner::ArgMinFirst | Combiner::ArgMinLast => {
            let best = elements.iter().copied().reduce(
                |best, next| {
                    if is_ahead(combiner, src, next, best) { next } else { best }
                },
            );
            src[number].get(best.unwrap_or_default())
        }
        Combiner::Moments => {
            let weights =
                || elements.iter().map(|&element| (at(2, element), element)).filter(|(count, _)| *count != 0.0);
            let count: f64 = weights().map(|(count, _)| count).sum();
            let mean = weights().map(|(share, element)| at(0, element) * (share / count)).sum::<f64>();
            let squares = weights().map(|(share, element)| at(1, element) + share * (at(0, element) - mean).powi(2));
            rounded([if count == 0.0 { 0.0 } else { mean }, squares.sum(), count][number])
        }
        Combiner::LogSumExp | Combiner::SoftmaxSum => {
            let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
            let largest = elements.iter().map(|&element| at(0, element)).fold(f64::NEG_INFINITY, larger);
            let power = |exponent: f64| if exponent == largest { 1.0 } else { libm::exp(exponent - largest) };
            let sum = || elements.iter().map(|&element| at(number, element) * power(at(0, element))).sum();
            rounded(if number == 0 { largest } else { sum() })
        }
    }
}

/// Whether one element counts rather than another.
fn is_ahead(combiner: Combiner, src: &[Value], one: usize, other: usize) -> bool {
    let (a, b) = (src[0].get(one), src[0].get(other));
    let is_nan = |x: Scalar| x.to_f64().is_nan();
    if is_nan(a) != is_nan(b) {
        return is_nan(a);
    }
    let order = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::Float(_), _) => a.to_f64().partial_cmp(&b.to_f64()),
        (Scalar::UInt(a), Scalar::UInt(b)) => Some(a.cmp(&b)),
        _ => Some(a.to_i64().cmp(&b.to_i64())),
    };
    let is_first = matches!(combiner, Combiner::ArgMaxFirst | Combiner::ArgMinFirst);
    let is_max = matches!(combiner, Combiner::ArgMaxFirst | Combiner::ArgMaxLast);
    let by_index =
        order(src[1].get(one), src[1].get(other)).is_some_and(|order| order.is_lt() == is_first && !order.is_eq());
    match order(a, b) {
        Some(order) if !order.is_eq() => order.is_gt() == is_max,
        _ => by_index,
    }
}
