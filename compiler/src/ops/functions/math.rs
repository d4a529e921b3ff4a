//! Elementary functions of real numbers, within 2 ulp in `f32`, composed of `exp2`, `log2`, `sin`, `cos`, `sqrt` and arithmetic.
//!
//! Integers and bools are taken as the default float; half floats compute in `f32`. The usual composition loses digits where a
//! small error is magnified: `exp2(x * log2(e))` for large x, `log(1 + x)` and `exp(x) - 1` near 0. So an argument is split into a part that arithmetic holds exactly and a small rest, and a polynomial
//! (`coefficients`) does the rest; `muladd` rounds once, which makes the splitting exact. Infinities and NaN come out as IEEE
//! 754 wants without branches: operands are clamped where a formula would give infinity minus infinity.
//!
//! Tested here against `libm` in double precision, on sweeps and special values.

use super::coefficients::{self as tables, Polynomial};
use crate::ir::{Arg, Function, Op};
use crate::ops::{in_single, number, to_float};
use crate::{DType, UOp};

/// `value`, marked as a known function of `operands`.
pub(in crate::ops) fn known(function: Function, value: UOp, operands: &[&UOp]) -> UOp {
    let dtype = value.dtype();
    let sources: Vec<UOp> = std::iter::once(value).chain(operands.iter().map(|&operand| operand.clone())).collect();
    UOp::new(Op::Function, dtype, sources, Arg::Function(function))
}

/// Defines a function of one float operand: promoted, computed in at least single precision, marked as known.
macro_rules! elementary {
    ($($(#[$doc:meta])* $name:ident $function:ident $compute:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name(x: &UOp) -> UOp {
            let x = to_float(x);
            known(Function::$function, in_single(&x, $compute), &[&x])
        }
    )* };
}

elementary! {
    /// e to the power x.
    exp Exp exp_value;
    /// exp(x) - 1, exact near 0.
    expm1 Expm1 expm1_value;
    /// Natural logarithm.
    log Log log_value;
    /// log(1 + x), exact near 0.
    log1p Log1p log1p_value;
    /// Cosine of an angle in radians.
    cos Cos UOp::cos;
    /// Tangent of an angle in radians.
    tan Tan |x| x.sin().div(x.cos());
    /// Inverse sine; NaN outside of -1 to 1.
    asin Asin asin_value;
    /// Inverse cosine; NaN outside of -1 to 1.
    acos Acos acos_value;
    /// Inverse tangent.
    atan Atan |x| with_sign(&atan_of_ratio(&magnitude(x), &number(1.0, x)), x);
    /// Hyperbolic sine.
    sinh Sinh sinh_value;
    /// Hyperbolic cosine.
    cosh Cosh cosh_value;
    /// Hyperbolic tangent.
    tanh Tanh tanh_value;
    /// Inverse hyperbolic sine.
    asinh Asinh asinh_value;
    /// Inverse hyperbolic cosine; NaN below 1.
    acosh Acosh acosh_value;
    /// Inverse hyperbolic tangent; NaN outside of -1 to 1.
    atanh Atanh atanh_value;
    /// Error function.
    erf Erf erf_value;
}

/// 2 to the power x.
pub fn exp2(x: &UOp) -> UOp {
    in_single(&to_float(x), UOp::exp2)
}

/// Base-2 logarithm.
pub fn log2(x: &UOp) -> UOp {
    in_single(&to_float(x), UOp::log2)
}

/// Base-10 logarithm.
pub fn log10(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| x.log2() * number(std::f64::consts::LOG10_2, x))
}

/// Sine of an angle in radians.
pub fn sin(x: &UOp) -> UOp {
    in_single(&to_float(x), UOp::sin)
}

/// Square root; NaN below 0.
pub fn sqrt(x: &UOp) -> UOp {
    to_float(x).sqrt()
}

/// One over the square root.
pub fn rsqrt(x: &UOp) -> UOp {
    in_single(&to_float(x), |x| number(1.0, x).div(x.sqrt()))
}

/// Angle of the point (x, y), from -pi to pi; both of one float type.
pub(super) fn atan2_same(y: &UOp, x: &UOp) -> UOp {
    let compute = |y: &UOp, x: &UOp| {
        let (height, width) = (magnitude(y), magnitude(x));
        // Two infinities stand for the direction (1, 1); two zeros for (0, 1).
        let (infinite, one, zero) = (number(f64::INFINITY, x), number(1.0, x), number(0.0, x));
        let both = height.equals(&infinite).and(&width.equals(&infinite));
        let none = height.equals(&zero).and(&width.equals(&zero));
        let (height, width) = (both.select(&one, &height), both.or(&none).select(&one, &width));
        // Sums of the two must not overflow, nor must parts of them be denormal.
        let [least, most, grow] = if x.dtype() == DType::F64 { [1e-290, 1e300, 64.0] } else { [1e-30, 1e37, 32.0] };
        let longest = height.max(&width);
        let small = longest.lt(&number(least, x)).select(number(f64::exp2(grow), x), &one);
        let scale = number(most, x).lt(&longest).select(number(0.0625, x), small);
        let angle = atan_of_ratio(&(height * &scale), &(width * &scale));
        let turned = number(std::f64::consts::PI, x) - &angle;
        with_sign(&is_negative(x).select(turned, angle), y)
    };
    let value = match y.dtype() {
        DType::F16 | DType::BF16 => compute(&y.cast(DType::F32), &x.cast(DType::F32)).cast(y.dtype()),
        _ => compute(y, x),
    };
    known(Function::Atan2, value, &[y, x])
}

/// Coefficients from which on a polynomial is two chains: of fewer, the square costs what a shorter chain saves. With 14 of them, erf's, a gelu of 2^20 floats took 0.39 ms
/// in one chain and 0.31 in two, on a CPU with AVX-512.
const TWO_CHAINS_MIN: usize = 8;

/// The value of a polynomial, each step rounded once. A step waits four cycles for the one before, so a long polynomial is that of its even coefficients in x^2 and x
/// times that of its odd ones.
fn polynomial(coefficients: &[f64], x: &UOp) -> UOp {
    if coefficients.len() < TWO_CHAINS_MIN {
        return horner(coefficients, x);
    }
    let every_second = |first: usize| coefficients[first..].iter().step_by(2).copied().collect::<Vec<f64>>();
    let square = x * x;
    horner(&every_second(1), &square).muladd(x, &horner(&every_second(0), &square))
}

/// The value of a polynomial by Horner's rule.
fn horner(coefficients: &[f64], x: &UOp) -> UOp {
    let (last, rest) = match coefficients.split_last() {
        Some(parts) => parts,
        None => return number(0.0, x),
    };
    rest.iter().rev().fold(number(*last, x), |total, coefficient| total.muladd(x, &number(*coefficient, x)))
}

fn table(polynomial_table: &Polynomial, x: &UOp) -> UOp {
    polynomial(polynomial_table.for_dtype(x.dtype()), x)
}

/// The unsigned integer type as wide as a float.
pub(super) fn bits_dtype(dtype: DType) -> DType {
    match dtype.bytes() {
        2 => DType::I16,
        8 => DType::I64,
        _ => DType::I32,
    }
}

/// A float without its sign.
pub(super) fn magnitude(x: &UOp) -> UOp {
    let bits = bits_dtype(x.dtype());
    let highest = bits.integer_bounds().map_or(i64::MAX, |bounds| bounds.1);
    x.bitcast(bits).and(&UOp::int(highest, bits)).bitcast(x.dtype())
}

/// Whether the sign bit of a float is set: -0.0 and negative NaN count.
pub(super) fn is_negative(x: &UOp) -> UOp {
    let bits = bits_dtype(x.dtype());
    x.bitcast(bits).lt(&UOp::int(0, bits))
}

/// A non-negative `value` with the sign bit of `sign`.
pub(super) fn with_sign(value: &UOp, sign: &UOp) -> UOp {
    let bits = bits_dtype(value.dtype());
    let lowest = bits.integer_bounds().map_or(i64::MIN, |bounds| bounds.0);
    let sign = sign.bitcast(bits).and(&UOp::int(lowest, bits));
    value.bitcast(bits).or(&sign).bitcast(value.dtype())
}

/// exp2 of `hi + lo`, where hi is x / ln(2) as rounded and lo what rounding lost: e * 2^lo = e + e * lo * ln(2).
///
/// `x` is clamped below, where the result is 0, and hi above, just under the point where exp2 overflows; past it lo grows, and the sum
/// overflows by itself. So no infinity meets its negative.
fn exp_value(x: &UOp) -> UOp {
    let (lowest, highest) =
        if x.dtype() == DType::F64 { (-746.0, 1023.9999999999999) } else { (-104.0, 127.99999237060547) };
    let [log2e, log2e_rest] = tables::log2e_parts(x.dtype());
    let x = x.max(number(lowest, x));
    let hi = (&x * number(log2e, &x)).min(number(highest, &x));
    let lo = x.muladd(&number(log2e, &x), &hi.negate());
    let lo = x.muladd(&number(log2e_rest, &x), &lo);
    let power = hi.exp2();
    power.muladd(&(lo * number(std::f64::consts::LN_2, &x)), &power)
}

fn log_value(x: &UOp) -> UOp {
    x.log2() * number(std::f64::consts::LN_2, x)
}

/// x = k ln(2) + r, for x no less than -80; gives 2^(k-1), halved so that it stays finite as long as the result does, and exp(r) - 1.
///
/// Adding a large number rounds to integers, which then stand in its lowest bits: with the bias of exponents they are shifted to where these are.
fn exp_parts(x: &UOp) -> (UOp, UOp) {
    let dtype = x.dtype();
    let [ln2, ln2_rest] = tables::ln2_parts(dtype);
    let (bits, fraction, bias, largest) = match dtype {
        DType::F64 => (DType::I64, 52i64, 1023.0, 1024.0),
        _ => (DType::I32, 23, 127.0, 128.0),
    };
    let rounder = 1.5 * (1i64 << fraction) as f64 + bias - 1.0;
    let rounded = x.muladd(&number(std::f64::consts::LOG2_E, x), &number(rounder, x));
    let rounded = rounded.min(number(rounder + largest, x));
    let k = &rounded - number(rounder, x);
    let r = k.muladd(&number(-ln2, x), x);
    let r = k.muladd(&number(-ln2_rest, x), &r);
    let series = polynomial(&tables::expm1_series(dtype), &r);
    let rest = (&r * &r).muladd(&series, &r);
    (rounded.bitcast(bits).shl(fraction).bitcast(dtype), rest)
}

/// (exp(x) - 1) / 2.
fn half_expm1(x: &UOp) -> UOp {
    let (scale, rest) = exp_parts(x);
    scale.muladd(&rest, &(&scale - number(0.5, x)))
}

fn expm1_value(x: &UOp) -> UOp {
    let (lowest, highest) = if x.dtype() == DType::F64 { (-80.0, 710.0) } else { (-40.0, 89.0) };
    let half = half_expm1(&x.max(number(lowest, x)).min(number(highest, x)));
    &half + &half
}

/// log(u) + c / u, where u = 1 + x as rounded and c is what rounding lost.
fn log1p_value(x: &UOp) -> UOp {
    let (one, zero) = (number(1.0, x), number(0.0, x));
    let u = x + &one;
    let lost = x - (&u - &one);
    let finite = zero.lt(&u).and(&u.lt(&number(f64::INFINITY, x)));
    log_value(&u) + finite.select(lost.div(&u), zero)
}

/// atan(y / x) of y, x >= 0 and not both 0: the ratio brought under tan(pi/8) by one division.
fn atan_of_ratio(y: &UOp, x: &UOp) -> UOp {
    // tan(pi/8).
    let flat = y.lt(x * number(0.414_213_562_373_095_05, x));
    let steep = x.lt(y * number(0.414_213_562_373_095_05, x));
    let above = steep.select(x.negate(), flat.select(y, y - x));
    let below = steep.select(y, flat.select(x, y + x));
    let base = steep.select(
        number(std::f64::consts::FRAC_PI_2, x),
        flat.select(number(0.0, x), number(std::f64::consts::FRAC_PI_4, x)),
    );
    // What the type cannot hold of pi/2; halved with it for pi/4.
    let pi_rest = tables::pi_rest(x.dtype());
    let base_rest = steep.select(number(pi_rest / 2.0, x), flat.select(number(0.0, x), number(pi_rest / 4.0, x)));
    let z = above.div(below);
    let square = &z * &z;
    let small = (&z * &square).muladd(&table(&tables::ATAN, &square), &base_rest);
    base + (z + small)
}

/// What asin and acos are made of: |x| brought to 1/2 at the most.
struct ReducedArc {
    /// Whether |x| is past 1/2.
    large: UOp,
    /// asin(|x|); past 1/2, asin(sqrt((1 - |x|) / 2)), which is half of acos(|x|).
    small: UOp,
}

impl ReducedArc {
    fn of(x: &UOp) -> ReducedArc {
        let a = magnitude(x);
        let half = number(0.5, x);
        let large = half.lt(&a);
        let square = large.select((number(1.0, x) - &a) * &half, &a * &a);
        let z = large.select(square.sqrt(), &a);
        let small = (&z * &square).muladd(&table(&tables::ASIN, &square), &z);
        ReducedArc { large, small }
    }
}

/// Past 1/2, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
fn asin_value(x: &UOp) -> UOp {
    let ReducedArc { large, small } = ReducedArc::of(x);
    let pi_rest = tables::pi_rest(x.dtype());
    let turned = number(std::f64::consts::FRAC_PI_2, x) - ((&small + &small) - number(pi_rest / 2.0, x));
    with_sign(&large.select(turned, small), x)
}

/// acos(x) is 2 asin(sqrt((1 - x) / 2)) from 1/2 up, pi minus that of -x from -1/2 down, and pi/2 - asin(x) between.
fn acos_value(x: &UOp) -> UOp {
    let ReducedArc { large, small } = ReducedArc::of(x);
    let negative = x.lt(&number(0.0, x));
    let pi_rest = tables::pi_rest(x.dtype());
    let twice = &small + &small;
    let far = negative.select(number(std::f64::consts::PI, x) - (&twice - number(pi_rest, x)), &twice);
    let signed = negative.select(small.negate(), small) - number(pi_rest / 2.0, x);
    large.select(far, number(std::f64::consts::FRAC_PI_2, x) - signed)
}

/// With m = (exp(|x|) - 1) / 2: m + m / (2 m + 1).
fn sinh_value(x: &UOp) -> UOp {
    let half = half_expm1(&below_overflow(&magnitude(x)));
    let one = number(1.0, x);
    let inverse = one.div((&half + &half) + &one);
    // The quotient keeps the digits of small x; written as 1/2 - inverse / 2 it survives an infinite m.
    let small = half.muladd(&inverse, &half);
    let large = &half + number(0.5, x) * (&one - inverse);
    with_sign(&half.lt(&one).select(small, large), x)
}

fn cosh_value(x: &UOp) -> UOp {
    let (scale, rest) = exp_parts(&below_overflow(&magnitude(x)));
    let half = scale.muladd(&rest, &scale);
    &half + number(0.25, x).div(&half)
}

/// Clamped just past where sinh and cosh overflow.
fn below_overflow(x: &UOp) -> UOp {
    x.min(number(if x.dtype() == DType::F64 { 711.0 } else { 90.0 }, x))
}

/// With m = (exp(2 |x|) - 1) / 2: m / (m + 1), which keeps the digits of small x, or 1 - 1 / (m + 1), where the quotient's error counts little.
fn tanh_value(x: &UOp) -> UOp {
    let (limit, one) = (number(if x.dtype() == DType::F64 { 20.0 } else { 10.0 }, x), number(1.0, x));
    let size = magnitude(x).min(&limit);
    let half = half_expm1(&(&size + &size));
    let small = half.lt(&one);
    let quotient = small.select(&half, &one).div(&half + &one);
    with_sign(&small.select(&quotient, &one - &quotient), x)
}

/// log1p(a + a^2 / (1 + sqrt(1 + a^2))); where squaring would overflow, log(a) + log(2), a being 1 + (a - 1).
fn asinh_value(x: &UOp) -> UOp {
    let (a, one) = (magnitude(x), number(1.0, x));
    let large = number(1e9, x).lt(&a);
    let square = &a * &a;
    let grown = &a + square.div((&square + &one).sqrt() + &one);
    let value = log1p_value(&large.select(&a - &one, grown));
    with_sign(&large.select(&value + number(std::f64::consts::LN_2, x), &value), x)
}

/// log1p(t + sqrt(2 t + t^2)) with t = x - 1; where squaring would overflow, log(x) + log(2), as 1 + t.
fn acosh_value(x: &UOp) -> UOp {
    let one = number(1.0, x);
    let large = number(1e9, x).lt(x);
    let t = x - &one;
    let grown = &t + (&t * (&t + number(2.0, x))).sqrt();
    let value = log1p_value(&large.select(&t, grown));
    let value = large.select(&value + number(std::f64::consts::LN_2, x), &value);
    x.lt(&one).select(number(f64::NAN, x), value)
}

/// log1p(2 a / (1 - a)) / 2, the argument kept exact for small a.
fn atanh_value(x: &UOp) -> UOp {
    let (a, one, half) = (magnitude(x), number(1.0, x), number(0.5, x));
    let twice = &a + &a;
    let rest = &one - &a;
    let small = &twice + (&twice * &a).div(&rest);
    let grown = a.lt(&half).select(small, twice.div(&rest));
    with_sign(&(log1p_value(&grown) * half), x)
}

/// x + x P(x^2) up to 1. Beyond, a polynomial in single precision, and 1 - exp(-Q(x)) in double.
fn erf_value(x: &UOp) -> UOp {
    let (center, saturated) = tables::erf_center(x.dtype());
    let (one, whole) = (number(1.0, x), magnitude(x));
    let a = whole.min(number(saturated, x));
    let small = a.muladd(&table(&tables::ERF_SMALL, &(&a * &a)), &a);
    let centered = &a - number(center, x);
    let large = match x.dtype() {
        DType::F64 => {
            let exponent = polynomial(&tables::ERF_LARGE_DOUBLE, &centered);
            &one - (exponent * number(-std::f64::consts::LOG2_E, x)).exp2()
        }
        // It may pass 1 by its rounding, or not reach it.
        _ => {
            let sum = polynomial(&tables::ERF_LARGE_SINGLE, &centered).min(one.clone());
            number(saturated, x).lt(&whole).select(one.clone(), sum)
        }
    };
    with_sign(&a.lt(&one).select(small, large), x)
}
