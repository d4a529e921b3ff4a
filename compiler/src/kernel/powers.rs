//! Powers of e, as a program says them in `f32` (`ops::math::exp`): 2^(hi + lo), where hi is x / ln(2) as rounded and lo what rounding lost.
//!
//! Tested where they are made simpler (`legalize::exponentials`), and with what is known of weights (`optimize::transforms::half_parts`).

use crate::ir::{Op, UOp};

/// Below this end the result is 0: x is clamped there.
const LEAST: f64 = -104.0;
/// The largest number in `f32` below 128: what is 2^128 and more overflows.
const BELOW_OVERFLOW: f64 = 127.99999237060547;

/// x, if a node is e^x as a program says it, x being clamped below.
pub fn exponent_of(root: &UOp) -> Option<UOp> {
    let [power, rest, last] = root.src() else { return None };
    let (hi, x, scale) = (power.src().first()?, root_of_rest(rest)?, std::f64::consts::LOG2_E as f32);
    let is_clamped = |node: &UOp, op: Op, bound: f64| node.op() == op && is_number(&node.src()[1], bound);
    let is_hi = is_clamped(hi, Op::Min, BELOW_OVERFLOW) && is_product(&hi.src()[0], &x, f64::from(scale));
    let is_power = power == last && power.op() == Op::Exp2 && is_clamped(&x, Op::Max, LEAST);
    // What rounding lost of hi, then what the factor lost.
    let [_, _, lost] = rest.src()[0].src() else { return None };
    let is_lost = lost.op() == Op::MulAdd
        && lost.src()[0] == x
        && is_number(&lost.src()[1], f64::from(scale))
        && lost.src()[2].op() == Op::Neg
        && lost.src()[2].src()[0] == *hi;
    (is_power && is_hi && is_lost).then_some(x)
}

/// x of `(x * c + ...) * ln(2)`.
fn root_of_rest(rest: &UOp) -> Option<UOp> {
    let is_it = rest.op() == Op::Mul
        && rest.src()[0].op() == Op::MulAdd
        && is_number(&rest.src()[1], f64::from(std::f64::consts::LN_2 as f32));
    is_it.then(|| rest.src()[0].src()[0].clone())
}

fn is_number(node: &UOp, value: f64) -> bool {
    node.as_scalar().is_some_and(|scalar| scalar.to_f64() == value)
}

fn is_product(node: &UOp, x: &UOp, factor: f64) -> bool {
    node.op() == Op::Mul && node.src()[0] == *x && is_number(&node.src()[1], factor)
}
