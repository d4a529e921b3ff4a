//! Activation functions of neural networks, by PyTorch's names and formulas.

use super::elementwise::{abs, at_most, maximum, minimum};
use super::math::{erf, exp, expm1, known, log1p, magnitude, tanh};
use crate::UOp;
use crate::ir::Function;
use crate::ops::{in_single, number, to_float};

/// The larger of x and 0.
pub fn relu(x: &UOp) -> UOp {
    let zero = x.const_like(0);
    let value = x.max(&zero);
    if x.dtype().is_float() { known(Function::Relu, value, &[x]) } else { value }
}

/// x between 0 and 6; no gradient at either end.
pub fn relu6(x: &UOp) -> UOp {
    hardtanh(x, 0.0, 6.0)
}

/// x between two bounds; no gradient at either end.
pub fn hardtanh(x: &UOp, lowest: f64, highest: f64) -> UOp {
    let x = to_float(x);
    let (lowest, highest) = (number(lowest, &x), number(highest, &x));
    at_most(&x, &lowest).select(&lowest, at_most(&highest, &x).select(&highest, &x))
}

/// 1 / (1 + exp(-x)).
pub fn sigmoid(x: &UOp) -> UOp {
    let x = to_float(x);
    let value = in_single(&x, |x| {
        let one = number(1.0, x);
        one.div(&one + exp(&x.negate()))
    });
    known(Function::Sigmoid, value, &[&x])
}

/// x sigmoid(x).
pub fn silu(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| x * sigmoid(x))
}

/// x sigmoid(1.702 x).
pub fn quick_gelu(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| x * sigmoid(&(x * number(1.702, x))))
}

/// log(1 + exp(x)).
pub fn softplus(x: &UOp) -> UOp {
    let x = to_float(x);
    let value = in_single(&x, |x| x.max(number(0.0, x)) + log1p(&exp(&magnitude(x).negate())));
    known(Function::Softplus, value, &[&x])
}

/// log(1 + exp(beta x)) / beta.
pub fn softplus_with(x: &UOp, beta: f64) -> UOp {
    if beta == 1.0 {
        return softplus(x);
    }
    in_single(&to_float(x), |x| softplus(&(x * number(beta, x))).div(number(beta, x)))
}

/// log(sigmoid(x)).
pub fn logsigmoid(x: &UOp) -> UOp {
    softplus(&to_float(x).negate()).negate()
}

/// x tanh(softplus(x)).
pub fn mish(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| x * tanh(&softplus(x)))
}

/// x / (1 + |x|).
pub fn softsign(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| x.div(number(1.0, x) + abs(x)))
}

/// (x + 3) / 6 between 0 and 1.
pub fn hardsigmoid(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| relu6(&(x + number(3.0, x))).div(number(6.0, x)))
}

/// x hardsigmoid(x).
pub fn hardswish(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| (x * relu6(&(x + number(3.0, x)))).div(number(6.0, x)))
}

/// x where positive, else slope x.
pub fn leaky_relu(x: &UOp, slope: f64) -> UOp {
    let x = to_float(x);
    number(0.0, &x).lt(&x).select(&x, &x * number(slope, &x))
}

/// The exponential below zero that meets x at 0: expm1 of what is negative, so that no branch overflows.
fn negative_expm1(x: &UOp) -> UOp {
    let zero = number(0.0, x);
    expm1(&zero.lt(x).select(&zero, x))
}

/// x where positive, else alpha (exp(x) - 1).
pub fn elu(x: &UOp, alpha: f64) -> UOp {
    in_single(&to_float(x), |x| number(0.0, x).lt(x).select(x, negative_expm1(x) * number(alpha, x)))
}

/// x where positive, else alpha (exp(x / alpha) - 1).
pub fn celu(x: &UOp, alpha: f64) -> UOp {
    in_single(&to_float(x), |x| {
        let below = negative_expm1(&x.div(number(alpha, x))) * number(alpha, x);
        number(0.0, x).lt(x).select(x, below)
    })
}

/// Scaled `elu`, which keeps mean 0 and variance 1.
pub fn selu(x: &UOp) -> UOp {
    let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
    in_single(&to_float(x), |x| elu(x, alpha) * number(scale, x))
}

/// x P(X <= x) for a standard normal X, exactly by the error function or approximately by tanh.
pub fn gelu(x: &UOp, by_tanh: bool) -> UOp {
    in_single(&to_float(x), |x| {
        let (half, one) = (number(0.5, x), number(1.0, x));
        let inner = if by_tanh {
            let slope = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            tanh(&(x * (x * x).muladd(&number(slope * 0.044715, x), &number(slope, x))))
        } else {
            erf(&(x * number(std::f64::consts::FRAC_1_SQRT_2, x)))
        };
        x * half * (one + inner)
    })
}

/// log(exp(a) + exp(b)).
pub fn logaddexp(a: &UOp, b: &UOp) -> crate::ops::Built {
    // First the common type, or an integer would pass through a float that is too narrow for it.
    let [a, b] = &crate::ops::broadcast([a, b])?;
    let (a, b) = (&to_float(a), &to_float(b));
    let (high, low) = (maximum(a, b)?, minimum(a, b)?);
    // Equal infinities have no difference.
    let distance = high.equals(&low).select(number(0.0, &high), &low - &high);
    Ok(high + in_single(&distance, |x| log1p(&exp(x))))
}
