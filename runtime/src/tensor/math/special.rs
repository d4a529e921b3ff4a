//! Special functions: gamma and its derivatives, inverses of the error function, Bessel's functions, entropies.
//!
//! All are computed in `f64`, whatever the operand, and rounded once: by power series where these converge fast, asymptotic expansions beyond, and
//! recurrences between. Results for `f32` are within a few units of the last place; for `f64` eleven or twelve digits hold. Names and values at poles are
//! PyTorch's. Gradients are those of the formulas; where a formula does not hold it is given a number that does it no harm, so that none is NaN, but where
//! the operand is: there value and gradient are NaN.
//!
//! Tested by values and gradients of PyTorch (data/more_ops.json.gz).

use std::f64::consts::{LN_2, PI, SQRT_2};

use crate::DType;
use crate::tensor::{Operand, Tensor};

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;
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
/// Terms of power series, of operands up to [`NEAR`].
const SERIES: i64 = 40;
const NEAR: f64 = 12.0;
/// As [`NEAR`] for the functions of which large terms cancel.
const NEAR_K: f64 = 8.0;

/// From here on the modified functions are larger than any number.
const BEYOND: f64 = 714.0;

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

/// x where a formula holds, and elsewhere a number that does it no harm.
fn inside(x: &Tensor, condition: &Tensor, other: f64) -> Tensor {
    condition.where_(x, other)
}

fn is_whole(x: &Tensor) -> Tensor {
    x.eq(x.round())
}

/// Infinity with the sign of x.
fn infinity(x: &Tensor) -> Tensor {
    x.full_like(f64::INFINITY).copysign(x)
}

/// Reflected below 1/2.
///
/// The sum of Lanczos' approximation is a quotient of two polynomials, so that it takes one division; both the logarithm of it and that of the sine are one.
pub(super) fn lgamma(x: &Tensor) -> Tensor {
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

/// The constant coefficient first.
fn polynomial(x: &Tensor, coefficients: &[f64]) -> Tensor {
    let (last, rest) = coefficients.split_last().unwrap_or((&0.0, &[]));
    rest.iter().rev().fold(x.full_like(*last), |sum, coefficient| sum * x + *coefficient)
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
fn digamma(x: &Tensor) -> Tensor {
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
fn zeta(s: &Tensor, q: &Tensor) -> Tensor {
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

fn erfinv(x: &Tensor) -> Tensor {
    erfinv_beside(x, &(1.0 - x.abs()))
}

/// Of x, and of what its size is short of 1, which may be less than x can say: rational functions (Wichura, "The percentage points of the normal distribution", 1988), which
/// need no derivative, and Taylor's series around what x is, of which the first term alone is not zero: it has the first derivatives.
fn erfinv_beside(x: &Tensor, rest: &Tensor) -> Tensor {
    let is_inside = rest.gt(0.0);
    let (inner, rest_inside) = (inside(x, &is_inside, 0.0), inside(rest, &is_inside, 1.0));
    let (fixed, fixed_rest) = (inner.detach(), rest_inside.detach());
    let half = &fixed * 0.5;
    let middle = &half * ratio(&(0.180625 - half.square()), &NORMAL_MIDDLE);
    let far = (-(&fixed_rest * 0.5).log()).sqrt();
    let is_far = far.gt(5.0);
    let tail = is_far.where_(ratio(&(&far - 5.0), &NORMAL_FAR), ratio(&(&far - 1.6), &NORMAL_TAIL)).copysign(&fixed);
    let y = (fixed.abs().le(0.85).where_(middle, tail) * 0.5f64.sqrt()).detach();
    // The first derivative, times what is zero and has derivatives.
    let step = (&inner - &fixed) * (0.5 * PI.sqrt()) * y.square().exp();
    let powers = |coefficients: &Vec<f64>| {
        coefficients.iter().rev().fold(y.full_like(0.0), |sum, coefficient| sum * &y + *coefficient)
    };
    let series = erfinv_series();
    let terms = series.iter().rev().fold(y.full_like(0.0), |sum, coefficients| sum * &step + powers(coefficients));
    let y = &y + step * terms;
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

fn erfcx(x: &Tensor) -> Tensor {
    let near = x.lt(2.0);
    let (small, large) = (inside(x, &near, 0.0), inside(x, &x.ge(2.0), 2.0));
    near.where_(small.square().exp() * (1.0 - small.erf()), erfcx_of_large(&large))
}

pub(super) fn erfc(x: &Tensor) -> Tensor {
    let near = x.lt(2.0);
    let (small, large) = (inside(x, &near, 0.0), inside(x, &x.ge(2.0), 2.0).minimum(1e100));
    let beyond = (-large.square()).exp() * erfcx_of_large(&large);
    near.where_(1.0 - small.erf(), beyond)
}

fn log_ndtr(x: &Tensor) -> Tensor {
    let low = x.lt(-1.0);
    let (small, large) = (inside(x, &low, -1.0) * 0.5f64.sqrt(), inside(x, &low.logical_not(), 0.0));
    let below = (erfcx(&-&small)).log() - LN_2 - small.square();
    low.where_(below, (-(erfc(&(large * 0.5f64.sqrt())) * 0.5)).log1p())
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

/// The sum of weight(k) (sign x^2 / 4)^k / (k! (k + order)!), times (x / 2)^order.
fn series(x: &Tensor, order: i64, sign: f64, weight: impl Fn(i64) -> f64) -> Tensor {
    let square = x.square() * (0.25 * sign);
    let mut term = x.ones_like();
    let mut total = &term * weight(0);
    for k in 1..SERIES {
        term = term * &square / (k * (k + order)) as f64;
        total = total + &term * weight(k);
    }
    if order == 1 { total * (x * 0.5) } else { total }
}

/// Even and odd terms of the asymptotic expansion of an order.
fn hankel(x: &Tensor, order: i64, sign: f64, terms: i64) -> (Tensor, Tensor) {
    let inverse = 1.0 / x;
    let (mut even, mut odd, mut term) = (x.ones_like(), x.zeros_like(), x.ones_like());
    for k in 1..terms {
        let factor = (4 * order * order - (2 * k - 1) * (2 * k - 1)) as f64 / (8 * k) as f64;
        term = term * factor * &inverse;
        let part = &term * if k / 2 % 2 == 1 { sign } else { 1.0 };
        if k % 2 == 1 {
            odd = odd + part;
        } else {
            even = even + part;
        }
    }
    (even, odd)
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

fn bessel_i(x: &Tensor, order: i64, scaled: bool) -> Tensor {
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

fn bessel_j(x: &Tensor, order: i64) -> Tensor {
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

fn bessel_y(x: &Tensor, order: i64) -> Tensor {
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

fn bessel_k(x: &Tensor, order: i64, scaled: bool) -> Tensor {
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
