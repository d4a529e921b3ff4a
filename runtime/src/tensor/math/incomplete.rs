//! The incomplete gamma functions.
//!
//! Computed in `f64`, whatever the operands, and rounded once. Of a up to [`SMALL`], and of x far from a: a power series below a + 1 and a continued fraction above. Elsewhere Temme's
//! uniform expansion (DLMF 8.12): what it adds to the error function is a series in 1/a of functions of eta, where eta^2 / 2 = x/a - 1 - log(x/a); its coefficients are worked out here.
//! Values agree with PyTorch's to eleven digits, where neither function is next to 0; names and values at ends are PyTorch's.
//!
//! Tested by `tests/it/incomplete.rs`.

use std::f64::consts::PI;

use super::special::{erfc, lgamma};
use crate::DType;
use crate::tensor::{Operand, Tensor};

/// Up to this a series and fraction need no more than [`TERMS`], for any x.
const SMALL: f64 = 10.0;
/// Of the power series and of the continued fraction.
const TERMS: u32 = 60;
/// The expansion holds where |eta| is below 1; so many powers of 1/a and of eta.
const POWERS_A: usize = 8;
const POWERS_ETA: usize = 16;
/// Below this size of x/a - 1 eta is its power series.
const ROOT_IS_NEAR: f64 = 1e-3;

/// The incomplete gamma functions, of this as a.
impl Tensor {
    /// The share of the integral of t^(a - 1) exp(-t) that lies below x.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![1f32], [1]);
    /// assert!((a.igamma(2.0).item::<f32>()? - (1.0 - (-2f32).exp())).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn igamma(&self, x: impl Operand) -> Tensor {
        of_both(self, &x.beside(self), |(lower, _)| lower, 0.0)
    }

    /// The share that lies above x.
    #[track_caller]
    pub fn igammac(&self, x: impl Operand) -> Tensor {
        of_both(self, &x.beside(self), |(_, upper)| upper, 1.0)
    }
}

/// One of the two functions, and what it is where x is 0.
#[track_caller]
fn of_both(a: &Tensor, x: &Tensor, one: impl FnOnce((Tensor, Tensor)) -> Tensor, at_zero: f64) -> Tensor {
    let dtype = match (a + x).dtype() {
        Ok(dtype) if dtype.is_float() => dtype,
        Ok(_) => DType::F32,
        Err(error) => return Tensor::from_error(error),
    };
    let (a, x) = (a.cast(DType::F64), x.cast(DType::F64));
    let is_inside = a.gt(0.0).logical_and(x.gt(0.0)).logical_and(a.isfinite()).logical_and(x.isfinite());
    let found = one(shares(&is_inside.where_(&a, 1.0), &is_inside.where_(&x, 1.0)));
    // At the ends all lies on one side; at two ends at once, and outside, there is none.
    let all_below = a
        .eq(0.0)
        .logical_and(x.gt(0.0))
        .logical_or(x.eq(f64::INFINITY).logical_and(a.ge(0.0)).logical_and(a.isfinite()));
    let all_above = a
        .gt(0.0)
        .logical_and(x.eq(0.0))
        .logical_or(a.eq(f64::INFINITY).logical_and(x.ge(0.0)).logical_and(x.isfinite()));
    let end = all_above.where_(at_zero, all_below.where_(1.0 - at_zero, f64::NAN));
    is_inside.where_(found, end).cast(dtype)
}

/// Both shares, of positive numbers.
fn shares(a: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    let is_large = a.gt(SMALL);
    let large = is_large.where_(a, SMALL);
    let apart = &(is_large.where_(x, SMALL) - &large) / &large;
    let half_square = &apart - apart.log1p();
    let is_near = is_large.logical_and(half_square.lt(0.5));
    let (lower, upper) = expanded(&large, &is_near.where_(&apart, 0.0), &is_near.where_(&half_square, 0.0));
    // x^a exp(-x) / gamma(a + 1).
    let log = -(&large * &half_square)
        - ((&large * (2.0 * PI)).log()) * 0.5
        - power_series(&stirling(), &(1.0 / &large)).log();
    let small = is_large.where_(1.0, a);
    let other = is_large.where_(1.0, x);
    let factor = is_large.where_(log, &small * other.log() - &other - lgamma(&(&small + 1.0))).exp();
    let is_below = x.lt(a + 1.0);
    let below = &factor * series(a, &is_below.where_(x, 0.5));
    let above = &factor * a / fraction(a, &is_below.where_(a + 1.0, x));
    let plain = |one: &Tensor, rest: &Tensor, is_one: &Tensor| is_one.where_(one, 1.0 - rest);
    (
        is_near.where_(lower, plain(&below, &above, &is_below)),
        is_near.where_(upper, plain(&above, &below, &is_below.logical_not())),
    )
}

/// 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..., from its last term on.
fn series(a: &Tensor, x: &Tensor) -> Tensor {
    (1..=TERMS).rev().map(f64::from).fold(x.full_like(1.0), |sum, k| 1.0 + x / (a + k) * sum)
}

/// x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)), from its last term on.
fn fraction(a: &Tensor, x: &Tensor) -> Tensor {
    let start = x - a;
    let last = f64::from(2 * TERMS + 1);
    (1..=TERMS).rev().map(f64::from).fold(&start + last, |rest, k| &start + (2.0 * k - 1.0) - (k - a) * k / rest)
}

/// Temme's expansion, of a, of x/a - 1, and of eta^2 / 2.
fn expanded(a: &Tensor, apart: &Tensor, half_square: &Tensor) -> (Tensor, Tensor) {
    let is_root = apart.abs().ge(ROOT_IS_NEAR);
    let near = is_root.where_(0.0, apart);
    let root = (is_root.where_(half_square, 0.5) * 2.0).sqrt().copysign(apart);
    let eta = is_root.where_(root, &near * (1.0 - &near * (1.0 / 3.0 - &near * (7.0 / 36.0 - &near * (73.0 / 540.0)))));
    let inverse = 1.0 / a;
    let coefficients = expansion();
    let sum =
        coefficients.iter().rev().fold(a.full_like(0.0), |sum, powers| sum * &inverse + power_series(powers, &eta));
    let rest = (-(a * half_square)).exp() / (a * (2.0 * PI)).sqrt() * sum;
    let scaled = &eta * (a * 0.5).sqrt();
    (erfc(&-&scaled) * 0.5 - &rest, erfc(&scaled) * 0.5 + &rest)
}

/// A polynomial, coefficients of the lowest powers first.
fn power_series(coefficients: &[f64], x: &Tensor) -> Tensor {
    coefficients.iter().rev().fold(x.full_like(0.0), |sum, coefficient| sum * x + *coefficient)
}

/// x/a - 1 as a power series in eta, from the coefficient of eta^0 on: it times its derivative is eta (1 + itself).
fn inverse_of_eta(len: usize) -> Vec<f64> {
    let mut found = vec![0.0, 1.0];
    for power in 3..=len {
        let products: f64 = (2..power - 1).map(|k| found[k] * found[power - k]).sum();
        found.push(found[power - 2] / power as f64 - 0.5 * products);
    }
    found
}

/// gamma(a) / (sqrt(2 pi / a) (a / e)^a) in powers of 1/a.
fn stirling() -> Vec<f64> {
    let inverse = inverse_of_eta(2 * POWERS_A + 1);
    let mut factorial = 1.0;
    (0..POWERS_A)
        .map(|k| {
            factorial *= (2 * k + 1) as f64;
            factorial * inverse[2 * k + 1]
        })
        .collect()
}

/// For each power of 1/a the powers of eta (DLMF 8.12.12).
fn expansion() -> Vec<Vec<f64>> {
    let len = POWERS_ETA + 2 * POWERS_A;
    let inverse = inverse_of_eta(len + 3);
    let first: Vec<f64> = (0..len).map(|n| if n == 0 { -1.0 / 3.0 } else { (n + 2) as f64 * inverse[n + 2] }).collect();
    let mut found = vec![first];
    for (k, factor) in stirling().iter().enumerate().skip(1) {
        let factor = if k % 2 == 0 { *factor } else { -*factor };
        let last = &found[k - 1];
        let next = (0..len - 2 * k).map(|n| factor * found[0][n] + (n + 2) as f64 * last[n + 2]).collect();
        found.push(next);
    }
    found.iter().map(|powers| powers[..POWERS_ETA].to_vec()).collect()
}
