//! The error function's complement, its inverse, and the share of a normal distribution below a number.
//!
//! The complement is a continued fraction where 1 - erf(x) would be near 0. The inverse is a rational function, which has its derivatives from Taylor's series. Tested as all special
//! functions are ([`super`]).

use std::f64::consts::{LN_2, PI};

use warpweft_compiler::ir::Function;

use super::inside;
use crate::tensor::Tensor;
use crate::tensor::factor::known;

/// Quantiles of the normal distribution: by 0.425^2 - (p - 1/2)^2 in the middle, further out by the root of -ln p less 1.6, and beyond 5 by what it is more.
const NORMAL_MIDDLE: [[f64; 8]; 2] = [
    [
        2509.0809287301227,
        33430.57558358813,
        67265.7709270087,
        45921.95393154987,
        13731.69376550946,
        1971.5909503065514,
        133.14166789178438,
        3.3871328727963665,
    ],
    [
        5226.495278852546,
        28729.085735721943,
        39307.89580009271,
        21213.794301586597,
        5394.196021424751,
        687.1870074920579,
        42.31333070160091,
        1.0,
    ],
];
const NORMAL_TAIL: [[f64; 8]; 2] = [
    [
        7.745450142783414e-4,
        0.022723844989269184,
        0.2417807251774506,
        1.2704582524523684,
        3.6478483247632045,
        5.769497221460691,
        4.630337846156546,
        1.4234371107496835,
    ],
    [
        1.0507500716444169e-9,
        5.475938084995345e-4,
        0.015198666563616457,
        0.14810397642748008,
        0.6897673349851,
        1.6763848301838038,
        2.053191626637759,
        1.0,
    ],
];
const NORMAL_FAR: [[f64; 8]; 2] = [
    [
        2.0103343992922881e-7,
        2.7115555687434876e-5,
        0.0012426609473880784,
        0.026532189526576124,
        0.29656057182850487,
        1.7848265399172913,
        5.463784911164114,
        6.657904643501103,
    ],
    [
        2.0442631033899397e-15,
        1.421511758316446e-7,
        1.8463183175100548e-5,
        7.868691311456133e-4,
        0.014875361290850615,
        0.1369298809227358,
        0.599832206555888,
        1.0,
    ],
];

pub(super) fn erfinv(x: &Tensor) -> Tensor {
    erfinv_beside(x, &(1.0 - x.abs()))
}

/// Of x, and of what its size is short of 1, which may be less than x can say: rational functions (Wichura, "The percentage points of the normal distribution", 1988), which
/// need no derivative, and Taylor's series around what x is, of which the first term alone is not zero: it has the first derivatives.
pub(super) fn erfinv_beside(x: &Tensor, rest: &Tensor) -> Tensor {
    let is_inside = rest.gt(0.0);
    let (inner, rest_inside) = (inside(x, &is_inside, 0.0), inside(rest, &is_inside, 1.0));
    let (fixed, fixed_rest) = (inner.detach(), rest_inside.detach());
    let half = &fixed * 0.5;
    let middle = &half * ratio(&(0.180625 - half.square()), &NORMAL_MIDDLE);
    let far = (-(&fixed_rest * 0.5).log()).sqrt();
    let is_far = far.gt(5.0);
    let tail = is_far.where_(ratio(&(&far - 5.0), &NORMAL_FAR), ratio(&(&far - 1.6), &NORMAL_TAIL)).copysign(&fixed);
    let value = fixed.abs().le(0.85).where_(middle, tail) * 0.5f64.sqrt();
    let y = value.detach();
    // The first derivative, times what is zero and has derivatives.
    let step = (&inner - &fixed) * (0.5 * PI.sqrt()) * y.square().exp();
    let powers = |coefficients: &Vec<f64>| {
        coefficients.iter().rev().fold(y.full_like(0.0), |sum, coefficient| sum * &y + *coefficient)
    };
    let series = erfinv_series();
    let terms = series.iter().rev().fold(y.full_like(0.0), |sum, coefficients| sum * &step + powers(coefficients));
    // The value itself needs no series.
    let y = known(Function::Alike, &value, &[&(&y + step * terms)]);
    let is_end = rest.eq(0.0);
    // At the ends the value is infinite, and so is the derivative.
    is_end.where_(inside(x, &is_end, 1.0) * f64::INFINITY, rest.lt(0.0).where_(f64::NAN, y))
}

/// Derivatives of erfinv that can be taken.
const ERFINV_DERIVATIVES: usize = 8;

/// The derivatives of y = erfinv(x), each divided by its factorial and by a power of the first one, as polynomials in y, lowest powers first. The first is 1; as y' is a multiple of
/// exp(y^2), y'' is 2 y y'^2, and what follows p y'^k is (p' + 2 k y p) y'^(k + 1).
fn erfinv_series() -> Vec<Vec<f64>> {
    let mut derivative = vec![1.0];
    let mut factorial = 1.0;
    let mut series = Vec::new();
    for order in 1..=ERFINV_DERIVATIVES {
        factorial *= order as f64;
        series.push(derivative.iter().map(|coefficient| coefficient / factorial).collect());
        let mut next = vec![0.0; derivative.len() + 1];
        for (power, coefficient) in derivative.iter().enumerate() {
            if power > 0 {
                next[power - 1] += power as f64 * coefficient;
            }
            next[power + 1] += 2.0 * order as f64 * coefficient;
        }
        derivative = next;
    }
    series
}

/// A polynomial divided by another, coefficients of the highest powers first.
fn ratio(x: &Tensor, [above, below]: &[[f64; 8]; 2]) -> Tensor {
    let value = |coefficients: &[f64; 8]| {
        coefficients[1..].iter().fold(x.full_like(coefficients[0]), |sum, coefficient| sum * x + *coefficient)
    };
    value(above) / value(below)
}

/// exp(x^2) erfc(x) of x from 2 on, by its continued fraction.
fn erfcx_of_large(x: &Tensor) -> Tensor {
    let fraction = (1..=60).rev().fold(x.clone(), |fraction, k| x + (f64::from(k) / 2.0) / fraction);
    1.0 / (fraction * PI.sqrt())
}

pub(super) fn erfcx(x: &Tensor) -> Tensor {
    let near = x.lt(2.0);
    let (small, large) = (inside(x, &near, 0.0), inside(x, &x.ge(2.0), 2.0));
    near.where_(small.square().exp() * (1.0 - small.erf()), erfcx_of_large(&large))
}

pub(in crate::tensor::math) fn erfc(x: &Tensor) -> Tensor {
    let near = x.lt(2.0);
    let (small, large) = (inside(x, &near, 0.0), inside(x, &x.ge(2.0), 2.0).minimum(1e100));
    let beyond = (-large.square()).exp() * erfcx_of_large(&large);
    near.where_(1.0 - small.erf(), beyond)
}

pub(super) fn log_ndtr(x: &Tensor) -> Tensor {
    let low = x.lt(-1.0);
    let (small, large) = (inside(x, &low, -1.0) * 0.5f64.sqrt(), inside(x, &low.logical_not(), 0.0));
    let below = (erfcx(&-&small)).log() - LN_2 - small.square();
    low.where_(below, (-(erfc(&(large * 0.5f64.sqrt())) * 0.5)).log1p())
}
