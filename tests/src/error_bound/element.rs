//! The error of one element of an elementwise op, from the errors of its operands.
//!
//! An op whose operands are exact is exact: every engine rounds it as the interpreter does, which `one_value` and `elementwise_bits` hold; functions
//! alone may differ by [`FUNCTION_ULPS`]. Where operands are off, so is the result by what the op makes of that, and by a rounding on each side.
//! A result that is not even known so well has the bound infinity: a comparison of values that may be equal, an integer made of such, a
//! quotient by what may be zero, an overflow of one side alone. A NaN or an infinity with a finite bound must be met.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::ScalarType;
use warpweft_compiler::ir::Op;

/// How far an exponential, a logarithm or a sine of an engine may be from the interpreter's: what `legalize::transcendental` promises
/// beside the exact value (1.66), and half a unit of the interpreter's own, rounded up.
const FUNCTION_ULPS: f64 = 2.5;

/// An element as the interpreter has it, and how far from it an engine may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Element {
    pub(super) value: f64,
    pub(super) error: f64,
}

/// How a type of floats rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    /// What one rounding changes at most, relative to the value.
    pub(super) unit: f64,
    /// The least number above zero.
    pub(super) least: f64,
    /// The largest finite number.
    pub(super) most: f64,
    /// Digits behind the point.
    digits: i32,
}

impl Rounding {
    /// Of a type; others than floats do not round, and are held to nothing here.
    pub(super) fn of(dtype: DType) -> Rounding {
        let (digits, least, most) = match dtype.scalar() {
            ScalarType::F16 => (10, -24, 65504.0),
            ScalarType::BF16 => (7, -133, 3.3895313892515355e38),
            ScalarType::F32 => (23, -149, f64::from(f32::MAX)),
            _ => (52, -1074, f64::MAX),
        };
        Rounding { unit: 2f64.powi(-digits - 1), least: 2f64.powi(least.max(-1074)), most, digits }
    }

    /// The unit of the last place at that magnitude.
    fn last_place(self, magnitude: f64) -> f64 {
        let exponent = if magnitude > 0.0 { magnitude.log2().floor() as i32 } else { -2000 };
        2f64.powi((exponent - self.digits).max(-1074)).max(self.least)
    }

    /// The error of a value that is rounded on both sides after it was off by `before`.
    pub(super) fn after(self, value: f64, before: f64) -> f64 {
        let error = before * (1.0 + 2.0 * self.unit) + 2.0 * self.unit * (value.abs() + before) + 2.0 * self.least;
        // One side may have become infinite.
        if value.abs() + error <= self.most { error } else { f64::INFINITY }
    }
}

/// What one rounding changes of the value of an op on exact operands: nothing where the op cannot round, or the value is of integers.
pub(super) fn one_rounding(op: Op, from: DType, to: DType, value: f64) -> f64 {
    let rounds = match op {
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::MulAdd | Op::Sqrt | Op::Const => true,
        Op::Cast => !from.is_float() || from.bytes() > to.bytes(),
        _ => false,
    };
    let is_whole = value.fract() == 0.0 && value.abs() * Rounding::of(to).unit < 0.5;
    let is_exact = !rounds || !to.is_float() || !value.is_finite() || (is_whole && op != Op::Div && op != Op::Sqrt);
    if is_exact { 0.0 } else { Rounding::of(to).unit * value.abs() + Rounding::of(to).least }
}

/// The error of `op`, of operands of type `from` and a result of type `to`, which has this value.
pub(super) fn error_of(op: Op, from: DType, to: DType, operands: &[Element], value: f64) -> f64 {
    let is_exact = operands.iter().all(|operand| operand.error == 0.0);
    if is_exact {
        return if is_function(op) && value.is_finite() {
            FUNCTION_ULPS * Rounding::of(to).last_place(value.abs())
        } else {
            0.0
        };
    }
    let error = match op {
        Op::Where => choice(to, operands, value),
        Op::Lt | Op::Eq | Op::Ne if from.is_float() => comparison(operands),
        Op::Cast => cast(from, to, operands[0], value),
        Op::And | Op::Or if to.is_bool() => logic(op, operands),
        _ if to.is_float() && from.is_float() => arithmetic(op, to, operands, value),
        _ => f64::INFINITY,
    };
    // What is no number is no bound.
    if error >= 0.0 { error } else { f64::INFINITY }
}

/// Whether engines compute it by formulas of their own.
pub(super) fn is_function(op: Op) -> bool {
    matches!(op, Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos)
}

fn choice(to: DType, operands: &[Element], value: f64) -> f64 {
    let [condition, a, b] = [operands[0], operands[1], operands[2]];
    let of = |side: Element| {
        if side.value.to_bits() == value.to_bits() { side.error } else { (side.value - value).abs() + side.error }
    };
    match condition.error {
        0.0 if condition.value != 0.0 => a.error,
        0.0 => b.error,
        _ if to.is_float() => {
            let (a, b) = (of(a), of(b));
            // A side that is no number is infinitely far from one that is.
            if a.is_nan() || b.is_nan() { f64::INFINITY } else { a.max(b) }
        }
        _ if a.value == b.value && a.error == 0.0 && b.error == 0.0 => 0.0,
        _ => f64::INFINITY,
    }
}

fn comparison(operands: &[Element]) -> f64 {
    let [a, b] = [operands[0], operands[1]];
    let error = a.error + b.error;
    // NaN is farther from everything than any error, if it is one for sure.
    let may_meet = (a.value - b.value).abs() <= error;
    if may_meet || error.is_infinite() { f64::INFINITY } else { 0.0 }
}

fn logic(op: Op, operands: &[Element]) -> f64 {
    let decides = |operand: &Element| operand.error == 0.0 && (operand.value != 0.0) == (op == Op::Or);
    if operands.iter().any(decides) { 0.0 } else { f64::INFINITY }
}

fn cast(from: DType, to: DType, x: Element, value: f64) -> f64 {
    match (from.is_float(), to.is_float()) {
        (true, true) if to.bytes() > from.bytes() => x.error,
        (true, true) => known_beyond_numbers(&[x], value).unwrap_or_else(|| Rounding::of(to).after(value, x.error)),
        (true, false) if to.is_bool() => comparison(&[x, Element { value: 0.0, error: 0.0 }]),
        (true, false) if (x.value - x.error).trunc() == (x.value + x.error).trunc() => 0.0,
        (false, true) if from.is_bool() => 1.0,
        _ => f64::INFINITY,
    }
}

/// Where the value is no finite number: 0 if an operand that is none for sure makes it so, whatever the others are.
fn known_beyond_numbers(operands: &[Element], value: f64) -> Option<f64> {
    if value.is_finite() {
        return None;
    }
    let is_known = |operand: &Element| operand.error.is_finite() && !operand.value.is_finite();
    let by_nan = value.is_nan() && operands.iter().any(|operand| is_known(operand) && operand.value.is_nan());
    let by_infinity = value.is_infinite() && operands.iter().all(|operand| operand.error.is_finite());
    let is_met = by_nan || (by_infinity && operands.iter().any(is_known));
    Some(if is_met { 0.0 } else { f64::INFINITY })
}

/// Ops of floats whose operands are off.
fn arithmetic(op: Op, to: DType, operands: &[Element], value: f64) -> f64 {
    let rounding = Rounding::of(to);
    let first = operands[0];
    let (x, e) = (first.value, first.error);
    let second = operands.get(1).copied().unwrap_or(first);
    let product = |a: Element, b: Element| a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error;
    let known = known_beyond_numbers(operands, value);
    let before = match op {
        Op::Neg => return e,
        Op::Max | Op::Min => return larger(op, first, second),
        Op::Trunc => return if (x - e).trunc() == (x + e).trunc() { 0.0 } else { e + 1.0 },
        // The sign of a zero may differ, and with it that of an infinity.
        Op::Div if second.value.abs() <= second.error => f64::INFINITY,
        Op::Mul | Op::Div | Op::MulAdd if value.is_infinite() => f64::INFINITY,
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::MulAdd if known.is_some() => return known.unwrap_or(f64::INFINITY),
        Op::Add | Op::Sub => e + second.error,
        Op::Mul => product(first, second),
        Op::Div => (e + value.abs() * second.error) / (second.value.abs() - second.error),
        Op::MulAdd => product(first, second) + operands[2].error,
        Op::Sqrt if x >= e => x.sqrt() - (x - e).sqrt(),
        Op::Exp2 if x.is_finite() => (x + e).exp2() - x.exp2(),
        Op::Log2 if x > e => x.log2() - (x - e).log2(),
        Op::Sin | Op::Cos if x.is_finite() => e.min(2.0),
        _ => f64::INFINITY,
    };
    let of_function = if is_function(op) { FUNCTION_ULPS * rounding.last_place(value.abs() + before) } else { 0.0 };
    rounding.after(value, before) + of_function
}

/// The error of a maximum or minimum: of the operand that it is for sure, or of both.
fn larger(op: Op, a: Element, b: Element) -> f64 {
    let sign = if op == Op::Max { 1.0 } else { -1.0 };
    let (x, y) = (sign * a.value, sign * b.value);
    match () {
        () if x - a.error > y + b.error => a.error,
        () if y - b.error > x + a.error => b.error,
        () => a.error.max(b.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: DType = DType::F32;

    fn off(value: f64, error: f64) -> Element {
        Element { value, error }
    }

    #[test]
    fn exact_operands_give_exact_results_but_for_functions() {
        assert_eq!(error_of(Op::Div, F32, F32, &[off(1.0, 0.0), off(3.0, 0.0)], 1.0 / 3.0), 0.0);
        assert_eq!(error_of(Op::Exp2, F32, F32, &[off(0.5, 0.0)], 1.5), 2.5 * 2f64.powi(-23));
        assert_eq!(error_of(Op::Exp2, F32, F32, &[off(500.0, 0.0)], f64::INFINITY), 0.0);
    }

    #[test]
    fn errors_go_through_arithmetic() {
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-2, "{found} is not {wanted}");
        near(error_of(Op::Sub, F32, F32, &[off(2.0, 1e-3), off(1.0, 2e-3)], 1.0), 3e-3);
        near(error_of(Op::Mul, F32, F32, &[off(2.0, 1e-3), off(5.0, 2e-3)], 10.0), 9e-3 + 2e-6);
        near(error_of(Op::Div, F32, F32, &[off(1.0, 0.0), off(2.0, 1e-4)], 0.5), 2.5e-5);
        near(error_of(Op::Sqrt, F32, F32, &[off(4.0, 1e-3)], 2.0), 2.5e-4);
        near(error_of(Op::Exp2, F32, F32, &[off(3.0, 1e-3)], 8.0), 8e-3 * std::f64::consts::LN_2);
        near(error_of(Op::Log2, F32, F32, &[off(2.0, 1e-3)], 1.0), 5e-4 / std::f64::consts::LN_2);
        assert_eq!(error_of(Op::Max, F32, F32, &[off(2.0, 1e-3), off(1.0, 1e-2)], 2.0), 1e-3);
        assert_eq!(error_of(Op::Max, F32, F32, &[off(2.0, 1e-3), off(1.999, 1e-2)], 2.0), 1e-2);
    }

    #[test]
    fn what_is_not_decided_has_no_bound() {
        let f64_max = f64::INFINITY;
        let nan = f64::NAN;
        assert_eq!(error_of(Op::Lt, F32, DType::BOOL, &[off(1.0, 1e-3), off(1.002, 0.0)], 1.0), 0.0);
        assert_eq!(error_of(Op::Lt, F32, DType::BOOL, &[off(1.0, 1e-3), off(1.0005, 0.0)], 1.0), f64_max);
        assert_eq!(error_of(Op::Lt, F32, DType::BOOL, &[off(1.0, 1e-3), off(nan, 0.0)], 0.0), 0.0);
        let undecided = off(1.0, f64::INFINITY);
        assert_eq!(error_of(Op::Where, F32, F32, &[undecided, off(1.0, 0.0), off(3.0, 0.5)], 1.0), 2.5);
        assert_eq!(error_of(Op::Where, F32, F32, &[off(0.0, 0.0), off(1.0, 9.0), off(3.0, 0.5)], 3.0), 0.5);
        assert_eq!(error_of(Op::Where, F32, F32, &[undecided, off(1.0, 0.0), off(nan, 0.0)], 1.0), f64_max);
        assert_eq!(error_of(Op::And, DType::BOOL, DType::BOOL, &[undecided, off(0.0, 0.0)], 0.0), 0.0);
        assert_eq!(error_of(Op::And, DType::BOOL, DType::BOOL, &[undecided, off(1.0, 0.0)], 1.0), f64_max);
        assert_eq!(error_of(Op::Cast, F32, DType::I32, &[off(2.5, 0.1)], 2.0), 0.0);
        assert_eq!(error_of(Op::Cast, F32, DType::I32, &[off(2.99, 0.1)], 2.0), f64_max);
        assert_eq!(error_of(Op::Sqrt, F32, F32, &[off(1e-9, 1e-8)], 3e-5), f64_max);
        assert_eq!(error_of(Op::Div, F32, F32, &[off(1.0, 0.0), off(1e-9, 1e-8)], 1e9), f64_max);
        assert_eq!(error_of(Op::Mul, F32, F32, &[off(1e38, 1e36), off(3.4, 0.0)], 3.4e38), f64_max);
        assert_eq!(error_of(Op::Add, F32, F32, &[off(nan, 0.0), off(1.0, 0.5)], nan), 0.0);
        assert_eq!(error_of(Op::Add, F32, F32, &[off(f64_max, 0.0), off(1.0, 0.5)], f64_max), 0.0);
    }
}
