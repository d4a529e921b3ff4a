//! The gamma function's logarithm and its derivatives, and Hurwitz' zeta function.
//!
//! Lanczos' approximation, an asymptotic series behind a recurrence, and Euler's and Maclaurin's sum; below 1/2 each is reflected. Tested as all special functions are ([`super`]).

use std::f64::consts::PI;

use super::{inside, is_whole, polynomial};
use crate::tensor::Tensor;

/// Of Lanczos' approximation of the gamma function, with g = 7.
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];
/// From here on Lanczos' sum is its first term, to the last place of a float of 64 bits times what it is added to.
const LANCZOS_FAR: f64 = 1e20;
/// Of the sine's series, for angles up to pi / 2: the next one is less than 1e-18 of it.
const SINE_TERMS: usize = 12;
/// B(2k) / (2k)! for k from 1.
const BERNOULLI: [f64; 7] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
];

/// Infinity with the sign of x.
fn infinity(x: &Tensor) -> Tensor {
    x.full_like(f64::INFINITY).copysign(x)
}

/// Reflected below 1/2.
///
/// The sum of Lanczos' approximation is a quotient of two polynomials, so that it takes one division; both the logarithm of it and that of the sine are one.
pub(in crate::tensor::math) fn lgamma(x: &Tensor) -> Tensor {
    let below = x.lt(0.5);
    let y = inside(&below.where_(1.0 - x, x), &x.isfinite(), 1.0) - 1.0;
    let [above, under] = lanczos_quotient();
    // From there on the sum is its first term, and the powers would overflow.
    let near = y.minimum(LANCZOS_FAR);
    let (above, under) = (polynomial(&near, &above), polynomial(&near, &under));
    let t = &y + 7.5;
    let power = (&y + 0.5) * t.log() - &t + 0.5 * (2.0 * PI).ln();
    let pole = x.le(0.0).logical_and(is_whole(x));
    let part = inside(x, &below.logical_and(x.isfinite()).logical_and(pole.logical_not()), 0.25);
    let sine = sine_of_half_turns(&(&part - part.round()).abs());
    let factor = (below.where_(&under * PI, &above) / below.where_(&sine * &above, &under)).log();
    let found = below.where_(&factor - &power, &factor + &power);
    pole.logical_or(x.isinf()).where_(f64::INFINITY, found)
}

/// sin(pi x) up to 1/2, by its series: nothing needs to be taken off such an angle.
fn sine_of_half_turns(x: &Tensor) -> Tensor {
    let angle = x * PI;
    let next = |term: &mut f64, k: usize| {
        let this = *term;
        *term /= -((2 * k + 2) as f64 * (2 * k + 3) as f64);
        Some(this)
    };
    let coefficients: Vec<f64> = (0..SINE_TERMS).scan(1.0, next).collect();
    &angle * polynomial(&angle.square(), &coefficients)
}

/// The polynomials above and below the line, the constant coefficients first, whose quotient Lanczos' sum is.
fn lanczos_quotient() -> [Vec<f64>; 2] {
    let times = |polynomial: &[f64], root: f64| {
        let mut product = vec![0.0; polynomial.len() + 1];
        for (power, coefficient) in polynomial.iter().enumerate() {
            product[power] += coefficient * root;
            product[power + 1] += coefficient;
        }
        product
    };
    let poles = 1..LANCZOS.len();
    let product = |left_out: usize| {
        poles.clone().filter(|pole| *pole != left_out).fold(vec![1.0], |sum, pole| times(&sum, pole as f64))
    };
    let below = product(0);
    let mut above: Vec<f64> = below.iter().map(|coefficient| coefficient * LANCZOS[0]).collect();
    for pole in poles.clone() {
        product(pole).iter().zip(&mut above).for_each(|(coefficient, sum)| *sum += coefficient * LANCZOS[pole]);
    }
    [above, below]
}

/// Reflected below 1/2, and brought up to where the asymptotic series holds.
pub(super) fn digamma(x: &Tensor) -> Tensor {
    let below = x.lt(0.5);
    let mut y = inside(&below.where_(1.0 - x, x), &x.isfinite(), 1.0);
    let mut total = y.zeros_like();
    for _ in 0..8 {
        total = total - 1.0 / &y;
        y = y + 1.0;
    }
    let inverse = 1.0 / y.square();
    let terms = [691.0 / 32760.0, 1.0 / 132.0, 1.0 / 240.0, 1.0 / 252.0, 1.0 / 120.0, 1.0 / 12.0];
    let series = terms[1..].iter().fold(y.full_like(terms[0]), |sum, term| *term - &inverse * sum);
    let found = total + y.log() - 0.5 / &y - inverse * series;
    let whole = is_whole(x);
    let part = inside(x, &below.logical_and(whole.logical_not()).logical_and(x.isfinite()), 0.25);
    let turn = ((&part - part.round()) * PI).tan();
    let found = below.where_(&found - PI / turn, &found);
    let found = x.lt(0.0).logical_and(whole).where_(f64::NAN, found);
    let found = x.eq(0.0).where_(-infinity(x), found);
    let end = x.gt(0.0).where_(f64::INFINITY, x.full_like(f64::NAN));
    x.isinf().where_(end, found)
}

/// By Euler and Maclaurin.
pub(super) fn zeta(s: &Tensor, q: &Tensor) -> Tensor {
    let is_endless = q.eq(f64::INFINITY);
    let q = &inside(q, &is_endless.logical_not(), 1.0);
    let minus = -s;
    let mut total = (0..12i64).fold(s.zeros_like(), |total, k| total + (q + k).pow(&minus));
    let a = q + 12.0;
    let power = a.pow(&minus);
    total = total + &power * &a / (s - 1.0) + &power * 0.5;
    let mut factor = s.clone();
    let mut last = &power / &a;
    for (k, bernoulli) in BERNOULLI.iter().enumerate() {
        total = total + &factor * &last * *bernoulli;
        let k = 2.0 * k as f64;
        factor = factor * (s + (k + 1.0)) * (s + (k + 2.0));
        last = last / a.square();
    }
    is_endless.where_(0.0, total)
}
