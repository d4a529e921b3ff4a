//! Special functions: gamma and its derivatives, inverses of the error function, Bessel's functions, entropies. Here are their names, the simplest of them, and what a formula is wrapped in.
//!
//! All are computed in `f64`, whatever the operand, and rounded once: by power series where these converge fast, asymptotic expansions beyond, and
//! recurrences between. Results for `f32` are within a few units of the last place; for `f64` eleven or twelve digits hold. Names and values at poles are
//! PyTorch's. Gradients are those of the formulas; where a formula does not hold it is given a number that does it no harm, so that none is NaN, but where
//! the operand is: there value and gradient are NaN.
//!
//! Tested by values and gradients of PyTorch (data/more_ops.json.gz).

mod bessel;
mod error_function;
mod gamma;

use std::f64::consts::{PI, SQRT_2};

use bessel::{bessel_i, bessel_j, bessel_k, bessel_y};
use error_function::{erfcx, erfinv, erfinv_beside, log_ndtr};
use gamma::{digamma, zeta};

pub(super) use error_function::erfc;
pub(super) use gamma::lgamma;

use crate::DType;
use crate::tensor::{Operand, Tensor};

/// Each is a term of a sum.
const DIMENSIONS_MAX: u32 = 1024;

macro_rules! special {
    ($($(#[$doc:meta])* $name:ident $function:expr;)*) => {
        /// Special functions of one tensor.
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                in_double(self, $function)
            }
        )* }
    };
}

special! {
    /// log |gamma(x)|.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![5f32], [1]);
    /// assert!((x.lgamma().item::<f32>()? - 24f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    lgamma lgamma;
    /// The derivative of log gamma(x).
    digamma digamma;
    /// x of which [`Tensor::erf`] is this.
    erfinv erfinv;
    /// 1 - erf(x), exact for large x.
    erfc erfc;
    /// exp(x^2) erfc(x).
    erfcx erfcx;
    /// The share of a normal distribution below x.
    ndtr |x| erfc(&(x * -(0.5f64.sqrt()))) * 0.5;
    /// Below which x that share of a normal distribution is.
    ndtri |p| erfinv_beside(&(2.0 * p - 1.0), &(p.lt(0.5).where_(p, 1.0 - p) * 2.0)) * SQRT_2;
    /// The logarithm of [`Tensor::ndtr`], exact where that is near 0.
    log_ndtr log_ndtr;
    /// -x log(x); 0 at 0 and minus infinity below.
    entr entr;
    /// sin(pi x) / (pi x); 1 at 0.
    sinc sinc;
    /// Modified Bessel function of the first kind, of order 0.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 1.0], [2]);
    /// assert_eq!(x.i0().to_vec::<f32>()?, [1.0, 1.2660658]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    i0 |x| bessel_i(x, 0, false);
    /// exp(-|x|) i0(x).
    i0e |x| bessel_i(x, 0, true);
    /// Modified Bessel function of the first kind, of order 1.
    i1 |x| bessel_i(x, 1, false);
    /// exp(-|x|) i1(x).
    i1e |x| bessel_i(x, 1, true);
    /// Bessel function of the first kind, of order 0.
    bessel_j0 |x| bessel_j(x, 0);
    /// Bessel function of the first kind, of order 1.
    bessel_j1 |x| bessel_j(x, 1);
    /// Bessel function of the second kind, of order 0; NaN below 0.
    bessel_y0 |x| bessel_y(x, 0);
    /// Bessel function of the second kind, of order 1; NaN below 0.
    bessel_y1 |x| bessel_y(x, 1);
    /// Modified Bessel function of the second kind, of order 0; NaN below 0.
    bessel_k0 |x| bessel_k(x, 0, false);
    /// Modified Bessel function of the second kind, of order 1; NaN below 0.
    bessel_k1 |x| bessel_k(x, 1, false);
    /// exp(x) bessel_k0(x).
    bessel_k0e |x| bessel_k(x, 0, true);
    /// exp(x) bessel_k1(x).
    bessel_k1e |x| bessel_k(x, 1, true);
}

/// Special functions with parameters.
impl Tensor {
    /// The n-th derivative of [`Tensor::digamma`]. PyTorch calls this operand the second.
    #[track_caller]
    pub fn polygamma(&self, n: u32) -> Tensor {
        if n == 0 {
            return self.digamma();
        }
        // From 171! on it is infinite.
        let factorial = (1..=n.min(171)).fold(1.0, |product, k| product * f64::from(k));
        let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
        in_double(self, |x| {
            let order = x.full_like(f64::from(n) + 1.0);
            let pole = x.le(0.0).logical_and(x.eq(x.floor()));
            pole.where_(sign * f64::INFINITY, zeta(&order, x) * (sign * factorial))
        })
    }

    /// The sum of (q + k)^-x over k from 0, Hurwitz' zeta function; infinity at 1 and NaN below.
    #[track_caller]
    pub fn zeta(&self, q: impl Operand) -> Tensor {
        let q = q.beside(self).cast(DType::F64);
        in_double(self, |s| {
            let inside = s.gt(1.0);
            let found = zeta(&inside.where_(s, 2.0), &q);
            let pole = q.le(0.0).logical_and(q.eq(q.floor()));
            let none = q.lt(0.0).logical_and(s.ne(s.floor()));
            let found = pole.where_(f64::INFINITY, none.where_(f64::NAN, found));
            s.eq(1.0).where_(f64::INFINITY, inside.where_(found, f64::NAN))
        })
    }

    /// x log(y), 0 where x is 0 and y no NaN.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 2.0], [2]);
    /// let y = Tensor::from_vec(vec![0f32, 1.0], [2]);
    /// assert_eq!(x.xlogy(&y).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy(&self, y: impl Operand) -> Tensor {
        let y = y.beside(self);
        let safe = self.eq(0.0).logical_and(y.le(0.0).logical_or(y.isinf()));
        self * safe.where_(1.0, y).log()
    }

    /// x log(1 + y), 0 where x is 0 and y no NaN.
    #[track_caller]
    pub fn xlog1py(&self, y: impl Operand) -> Tensor {
        let y = y.beside(self);
        let safe = self.eq(0.0).logical_and(y.le(-1.0).logical_or(y.isinf()));
        self * safe.where_(0.0, y).log1p()
    }

    /// log(x / (1 - x)), of x brought to within `eps` of 0 and 1 if that is given.
    #[track_caller]
    pub fn logit(&self, eps: Option<f64>) -> Tensor {
        let x = match eps {
            Some(eps) => {
                let is_inside = self.ge(eps).logical_and(self.le(1.0 - eps));
                is_inside.where_(self, self.detach().clamp(Some(eps.into()), Some((1.0 - eps).into())))
            }
            None => self.clone(),
        };
        // A quotient's logarithm would have no derivative at 0 and 1, where this one has an infinite one.
        x.log() - (1.0 - &x).log()
    }

    /// The logarithm of the gamma function of `dimensions` dimensions: a sum of [`Tensor::lgamma`].
    #[track_caller]
    pub fn multigammaln(&self, dimensions: u32) -> Tensor {
        if dimensions > DIMENSIONS_MAX {
            let message = format!("{dimensions} dimensions: there may be {DIMENSIONS_MAX} at the most");
            return Tensor::from_error(self.refused_call("multigammaln", message));
        }
        let p = f64::from(dimensions);
        let constant = p * (p - 1.0) / 4.0 * PI.ln();
        in_double(self, |x| {
            (0..dimensions).fold(x.full_like(constant), |sum, k| sum + lgamma(&(x - f64::from(k) / 2.0)))
        })
    }
}

/// A function of `f64`, rounded to the operand's type once; of integers `f32`. NaN gives NaN, and has it for its gradient.
#[track_caller]
fn in_double(x: &Tensor, function: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    match x.dtype() {
        Ok(dtype) if dtype.is_float() => {
            let wide = x.cast(DType::F64);
            let is_none = wide.isnan();
            let found = function(&is_none.where_(0.5, &wide));
            // A square, of which the derivative is NaN there too.
            is_none.where_(inside(&wide, &is_none, 0.0).square(), found).cast(dtype)
        }
        Ok(_) => function(&x.cast(DType::F64)).cast(DType::F32),
        Err(error) => Tensor::from_error(error),
    }
}

/// A polynomial of x; the constant coefficient first.
fn polynomial(x: &Tensor, coefficients: &[f64]) -> Tensor {
    let (last, rest) = coefficients.split_last().unwrap_or((&0.0, &[]));
    rest.iter().rev().fold(x.full_like(*last), |sum, coefficient| sum * x + *coefficient)
}

/// x where a formula holds, and elsewhere a number that does it no harm.
fn inside(x: &Tensor, condition: &Tensor, other: f64) -> Tensor {
    condition.where_(x, other)
}

fn is_whole(x: &Tensor) -> Tensor {
    x.eq(x.round())
}

fn entr(x: &Tensor) -> Tensor {
    let positive = x.gt(0.0);
    let safe = inside(x, &positive, 1.0);
    positive.where_(-(&safe * safe.log()), x.eq(0.0).where_(0.0, x.full_like(f64::NEG_INFINITY)))
}

fn sinc(x: &Tensor) -> Tensor {
    let zero = x.eq(0.0);
    let turn = zero.where_(1.0, x) * PI;
    zero.where_(1.0, turn.sin() / turn)
}
