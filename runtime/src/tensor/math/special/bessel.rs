//! Bessel's functions of order 0 and 1, of both kinds, modified and not.
//!
//! Power series up to a limit, and Hankel's asymptotic expansions beyond. Tested as all special functions are ([`super`]).

use std::f64::consts::PI;

use super::{inside, polynomial};
use crate::tensor::Tensor;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;
/// Terms of power series, of operands up to [`NEAR`]: the next one is less than 1e-18 there.
const SERIES: i64 = 32;
const NEAR: f64 = 12.0;
/// As [`NEAR`] for the functions of which large terms cancel.
const NEAR_K: f64 = 8.0;

/// From here on the modified functions are larger than any number.
const BEYOND: f64 = 714.0;

/// The sum of weight(k) (sign x^2 / 4)^k / (k! (k + order)!), times (x / 2)^order.
fn series(x: &Tensor, order: i64, sign: f64, weight: impl Fn(i64) -> f64) -> Tensor {
    let mut factor = 1.0;
    let mut coefficient = |k: i64| {
        if k > 0 {
            factor /= (k * (k + order)) as f64;
        }
        factor * weight(k)
    };
    let coefficients: Vec<f64> = (0..SERIES).map(&mut coefficient).collect();
    let total = polynomial(&(x.square() * (0.25 * sign)), &coefficients);
    if order == 1 { total * (x * 0.5) } else { total }
}

/// Even and odd terms of the asymptotic expansion of an order.
fn hankel(x: &Tensor, order: i64, sign: f64, terms: i64) -> (Tensor, Tensor) {
    let (mut even, mut odd, mut coefficient) = (vec![1.0], Vec::new(), 1.0);
    for k in 1..terms {
        coefficient *= (4 * order * order - (2 * k - 1) * (2 * k - 1)) as f64 / (8 * k) as f64;
        let signed = if k / 2 % 2 == 1 { sign * coefficient } else { coefficient };
        if k % 2 == 1 { odd.push(signed) } else { even.push(signed) }
    }
    let inverse = 1.0 / x;
    let square = inverse.square();
    (polynomial(&square, &even), polynomial(&square, &odd) * inverse)
}

fn harmonic(k: i64) -> f64 {
    (1..=k).map(|j| 1.0 / j as f64).sum()
}

/// x where its size is below a limit, and its size elsewhere; each the limit, or 0, where the other holds.
fn near_and_far(x: &Tensor, limit: f64) -> (Tensor, Tensor, Tensor) {
    let size = x.abs();
    let is_near = size.lt(limit);
    let (near, far) = (inside(x, &is_near, 0.0), inside(&size, &size.ge(limit), limit));
    (is_near, near, far)
}

pub(super) fn bessel_i(x: &Tensor, order: i64, scaled: bool) -> Tensor {
    let (is_near, near, far) = near_and_far(x, NEAR);
    let (even, odd) = hankel(&far, order, 1.0, 20);
    let large = (even - odd) / (&far * (2.0 * PI)).sqrt();
    let large = if order == 1 { large * x.sign() } else { large };
    let small = series(&near, order, 1.0, |_| 1.0) * (-near.abs()).exp();
    let found = is_near.where_(small, large);
    if scaled {
        return found;
    }
    // In two halves, of which none is infinite where the product is not; beyond, no formula has to say what infinity less infinity is. Of infinity PyTorch
    // has none, and so have these.
    let is_beyond = x.abs().gt(BEYOND).logical_and(x.isfinite());
    let half = (inside(x, &is_beyond.logical_not(), 0.0).abs() * 0.5).exp();
    let large = inside(x, &is_beyond, 1.0);
    let endless = if order == 1 { large } else { large.abs() } * f64::INFINITY;
    is_beyond.where_(endless, found * &half * &half)
}

pub(super) fn bessel_j(x: &Tensor, order: i64) -> Tensor {
    let (is_near, near, far) = near_and_far(x, NEAR);
    let (even, odd) = hankel(&far, order, -1.0, 20);
    let phase = &far - (order as f64 * 0.5 + 0.25) * PI;
    let large = (phase.cos() * even - phase.sin() * odd) * (2.0 / PI / far).sqrt();
    let large = if order == 1 { large * x.sign() } else { large };
    is_near.where_(series(&near, order, -1.0, |_| 1.0), large)
}

fn positive_near_and_far(x: &Tensor, limit: f64) -> (Tensor, Tensor, Tensor) {
    let is_near = x.lt(limit);
    (is_near.clone(), inside(x, &is_near.logical_and(x.gt(0.0)), 1.0), inside(x, &x.ge(limit), limit))
}

pub(super) fn bessel_y(x: &Tensor, order: i64) -> Tensor {
    let (is_near, near, far) = positive_near_and_far(x, NEAR);
    let (even, odd) = hankel(&far, order, -1.0, 20);
    let phase = &far - (order as f64 * 0.5 + 0.25) * PI;
    let large = (phase.sin() * even + phase.cos() * odd) * (2.0 / PI / far).sqrt();
    let logarithm = (&near * 0.5).log();
    let plain = series(&near, order, -1.0, |_| 1.0);
    let small = if order == 1 {
        // Digamma at k + 1 and k + 2.
        let other = series(&near, 1, -1.0, |k| harmonic(k) + harmonic(k + 1) - 2.0 * EULER);
        (2.0 * logarithm * plain - 2.0 / &near - other) / PI
    } else {
        ((logarithm + EULER) * plain - series(&near, 0, -1.0, harmonic)) * (2.0 / PI)
    };
    let found = is_near.where_(small, large);
    x.eq(0.0).where_(f64::NEG_INFINITY, x.lt(0.0).where_(f64::NAN, found))
}

pub(super) fn bessel_k(x: &Tensor, order: i64, scaled: bool) -> Tensor {
    let (is_near, near, far) = positive_near_and_far(x, NEAR_K);
    let (even, odd) = hankel(&far, order, 1.0, 16);
    let large = (even + odd) * (PI / 2.0 / &far).sqrt();
    let large = if scaled { large } else { large * (-far).exp() };
    let logarithm = (&near * 0.5).log();
    let plain = series(&near, order, 1.0, |_| 1.0);
    let small = if order == 1 {
        let other = series(&near, 1, 1.0, |k| harmonic(k) + harmonic(k + 1) - 2.0 * EULER);
        logarithm * plain + 1.0 / &near - other * 0.5
    } else {
        series(&near, 0, 1.0, harmonic) - (logarithm + EULER) * plain
    };
    let small = if scaled { small * near.exp() } else { small };
    let found = is_near.where_(small, large);
    x.eq(0.0).where_(f64::INFINITY, x.lt(0.0).where_(f64::NAN, found))
}
