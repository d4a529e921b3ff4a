//! Exponentials, logarithms, sines and cosines in terms of arithmetic, so that they vectorise.
//!
//! Each is a graph over any number of lanes: an argument cut to a small range by exact steps, a polynomial there (minimax,
//! its coefficients rounded from the lowest up, each time fitting the rest again), and the pieces put together. Infinities, NaN,
//! zeros and denormals come out as the op's meaning says. Types other than `f32` and `f64` have become those before
//! (`half_floats`).
//!
//! | | largest error for all values of `f32`, fused | not fused | of `f64`, against `libm` |
//! |---|---|---|---|
//! | `exp2` | 1.21 ulp | 1.63 ulp | below 1.5 ulp |
//! | `log2` | 1.66 ulp | 1.72 ulp | below 1.5 ulp |
//! | `sin`, `cos` | 1.54 ulp | below 1.75 ulp at all random numbers so far | below 1.5 ulp |
//!
//! *Fused* says whether the target multiplies and adds in one instruction; sums that must be exact use `muladd` regardless.
//!
//! Sines and cosines are in `sine`. Tested here against `libm` in higher precision, and by machine code over all `f32` values.

use super::{remainder, sine};
use crate::dtype::{DType, Scalar, ScalarType};
use crate::ir::UOp;
use crate::rules;

rules! {
    /// For targets without fused multiply-add.
    pub TRANSCENDENTAL |root| for is_native(root.dtype()) =>
    "exp2":  [x]  x.exp2()  => Math::of(x, false).exp2(x);
    "log2":  [x]  x.log2()  => Math::of(x, false).log2(x);
    "sin":   [x]  x.sin()   => sine::sin(&Math::of(x, false), x);
    "cos":   [x]  x.cos()   => sine::cos(&Math::of(x, false), x);
}

rules! {
    /// For targets with fused multiply-add.
    pub TRANSCENDENTAL_FUSED |root| for is_native(root.dtype()) =>
    "exp2-fused":  [x]  x.exp2()  => Math::of(x, true).exp2(x);
    "log2-fused":  [x]  x.log2()  => Math::of(x, true).log2(x);
    "sin-fused":   [x]  x.sin()   => sine::sin(&Math::with_branches(x), x);
    "cos-fused":   [x]  x.cos()   => sine::cos(&Math::with_branches(x), x);
    "fmod-single": [a, b]  a.cmod(b)  => remainder::fmod(a, b), if a.dtype().scalar() == ScalarType::F32;
}

rules! {
    /// For targets with fused multiply-add that have powers of two in `f32`.
    pub TRANSCENDENTAL_BUT_POWERS |root| for is_native(root.dtype()) =>
    "exp2-double": [x]  x.exp2()  => Math::of(x, true).exp2(x), if x.dtype().scalar() == ScalarType::F64;
    "log2-fused":  [x]  x.log2()  => Math::of(x, true).log2(x);
    "sin-fused":   [x]  x.sin()   => sine::sin(&Math::of(x, true), x);
    "cos-fused":   [x]  x.cos()   => sine::cos(&Math::of(x, true), x);
    "fmod-single": [a, b]  a.cmod(b)  => remainder::fmod(a, b), if a.dtype().scalar() == ScalarType::F32;
}

fn is_native(dtype: DType) -> bool {
    matches!(dtype.scalar(), ScalarType::F32 | ScalarType::F64)
}

/// 2^r for |r| <= 1.
const EXP2_F32: [f64; 8] = [
    1.0,
    0.6931472420692444,
    0.24022668600082397,
    0.05550367012619972,
    0.009616839699447155,
    0.001334145083092153,
    0.00015645792882423848,
    1.4932890735508408e-05,
];

const EXP2_F64: [f64; 14] = [
    1.0,
    std::f64::consts::LN_2,
    0.2402265069591003,
    0.055504108664822825,
    0.009618129107637385,
    0.0013333558146309764,
    0.0001540353038718733,
    1.5252733847564553e-05,
    1.3215488726735172e-06,
    1.0178078709105192e-07,
    7.054609480300558e-09,
    4.4460809150939534e-10,
    2.5908270909523894e-11,
    1.3581579468858518e-12,
];

/// log2(1 + f) / f.
const LOG2_F32: [f64; 10] = [
    1.4426950216293335,
    -0.7213475108146667,
    0.4809032678604126,
    -0.3606826066970825,
    0.28833553194999695,
    -0.23980668187141418,
    0.20831398665905,
    -0.19268402457237244,
    0.16649876534938812,
    -0.08477412164211273,
];

/// (ln((1 + s) / (1 - s)) / s - 2) / s^2, in powers of s^2.
const LN_F64: [f64; 7] = [
    0.6666666666666734,
    0.3999999999941662,
    0.28571428742042176,
    0.22222198602630394,
    0.18183563027078417,
    0.15314079136393813,
    0.14795701827855917,
];

/// 1 / ln 2, its upper 21 bits and the rest.
const LOG2_E: (f64, f64) = (1.4426946640014648, 3.768874985636099e-07);

/// Arithmetic in one float type with lanes.
pub(super) struct Math {
    /// The type.
    pub(super) float: DType,
    /// The unsigned integer type of the same width.
    pub(super) bits: DType,
    /// Whether `muladd` is one instruction.
    fused: bool,
    /// Whether the target skips what no lane needs ([`crate::ir::SELDOM`]).
    pub(super) branches: bool,
    /// Bits of the fraction.
    fraction: i64,
    /// What the exponent field holds for 1.0.
    bias: i64,
}

impl Math {
    /// Arithmetic in the type of `x`.
    pub(super) fn of(x: &UOp, fused: bool) -> Math {
        Math::in_type(x.dtype(), fused)
    }

    /// Arithmetic in a type.
    pub(super) fn in_type(float: DType, fused: bool) -> Math {
        let (bits, fraction, bias) = match float.scalar() {
            ScalarType::F64 => (DType::U64, 52, 1023),
            _ => (DType::U32, 23, 127),
        };
        Math { float, bits: bits.with_lanes(float.lanes()), fused, branches: false, fraction, bias }
    }

    /// Fused arithmetic in the type of `x`, on a target that skips what no lane needs.
    pub(super) fn with_branches(x: &UOp) -> Math {
        Math { branches: true, ..Math::of(x, true) }
    }

    /// A constant.
    pub(super) fn number(&self, value: f64) -> UOp {
        UOp::float(value, self.float)
    }

    /// A constant of the integer type.
    pub(super) fn pattern(&self, bits: u64) -> UOp {
        UOp::constant(Scalar::from_u64(bits, self.bits), self.bits)
    }

    /// The bits of a number.
    pub(super) fn bits_of(&self, x: &UOp) -> UOp {
        x.bitcast(self.bits)
    }

    /// The number of these bits.
    pub(super) fn float_of(&self, bits: &UOp) -> UOp {
        bits.bitcast(self.float)
    }

    /// `a * b + c`, in the cheaper way.
    pub(super) fn muladd(&self, a: &UOp, b: &UOp, c: &UOp) -> UOp {
        if self.fused { a.muladd(b, c) } else { a * b + c }
    }

    /// The polynomial of these coefficients, the constant one first.
    pub(super) fn polynomial(&self, x: &UOp, coefficients: &[f64]) -> UOp {
        let (last, rest) = coefficients.split_last().expect("a polynomial has a coefficient");
        let step = |sum: UOp, coefficient: &f64| self.muladd(&sum, x, &self.number(*coefficient));
        rest.iter().rev().fold(self.number(*last), step)
    }

    /// A number so large that adding it rounds to integers, which then stand in its lowest bits.
    pub(super) fn rounder(&self) -> f64 {
        1.5 * (1u64 << self.fraction) as f64
    }

    /// 2^x = 2^r 2^h 2^h, h an integer and |r| <= 1.
    ///
    /// 2^(2h) may be no number of the type though the result is one; 2^h always is. The last product alone rounds, to a denormal,
    /// or overflows.
    fn exp2(&self, x: &UOp) -> UOp {
        let (bias, fraction) = (self.bias, self.fraction);
        // Beyond these ends the result is 0 or infinity; NaN passes.
        let ends = (-(bias + fraction) as f64, bias as f64 + 1.0);
        let x = x.max(&self.number(ends.0)).min(&self.number(ends.1));
        let rounder = self.number(self.rounder() + bias as f64);
        let rounded = self.muladd(&x, &self.number(0.5), &rounder);
        let h = &rounded - &rounder;
        let r = self.muladd(&h, &self.number(-2.0), &x);
        let power = self.polynomial(&r, if fraction == 23 { &EXP2_F32 } else { &EXP2_F64 });
        // The integer, with the bias, moves into the exponent field; the rounder's own bits leave at the top.
        let scale = self.float_of(&self.bits_of(&rounded).shl(fraction));
        power * &scale * scale
    }

    /// log2 x = e + log2 m, with m between the square roots of 1/2 and 2.
    fn log2(&self, x: &UOp) -> UOp {
        let fraction = self.fraction;
        // Denormals are made normal first.
        let least_normal = self.number(((1 - self.bias) as f64).exp2());
        let is_tiny = x.lt(&least_normal);
        let lift = (fraction + 2) as f64;
        let normal = is_tiny.select(x * &self.number(lift.exp2()), x);
        let signed = match fraction {
            23 => DType::I32,
            _ => DType::I64,
        };
        let signed = signed.with_lanes(self.float.lanes());
        let root_half = UOp::constant(Scalar::from_u64(self.root_half_bits(), signed), signed);
        let bits = normal.bitcast(signed);
        let exponent = (&bits - &root_half).shr(fraction);
        let mantissa = (&bits - exponent.shl(fraction)).bitcast(self.float);
        let exponent = exponent.cast(self.float);
        let exponent = is_tiny.select(&exponent - &self.number(lift), &exponent);
        let f = mantissa - &self.number(1.0);
        let result = match fraction {
            23 => self.muladd(&f, &self.polynomial(&f, &LOG2_F32), &exponent),
            _ => self.log2_in_two_parts(&f, &exponent),
        };
        let infinity = self.number(f64::INFINITY);
        let finite = x.lt(&infinity).select(result, x);
        let zero = self.number(0.0);
        let not_positive = x.equals(&zero).select(self.number(f64::NEG_INFINITY), self.number(f64::NAN));
        zero.lt(x).select(finite, not_positive)
    }

    fn root_half_bits(&self) -> u64 {
        match self.fraction {
            23 => std::f32::consts::FRAC_1_SQRT_2.to_bits() as u64,
            _ => std::f64::consts::FRAC_1_SQRT_2.to_bits(),
        }
    }

    /// e + log2(1 + f) in `f64`, where one rounding of the logarithm before it is scaled would be too much.
    ///
    /// With s = f / (2 + f), ln(1 + f) = 2 s + s R(s^2) = f - (f^2/2 - s (f^2/2 + R)). Its upper bits times the upper bits of
    /// 1 / ln 2 is an exact product; all that remains is small, and is added last.
    fn log2_in_two_parts(&self, f: &UOp, exponent: &UOp) -> UOp {
        let half_square = f * f * &self.number(0.5);
        let s = f.div(&(f + &self.number(2.0)));
        let z = &s * &s;
        let rest = &z * self.polynomial(&z, &LN_F64);
        let correction = &s * (&half_square + rest);
        let upper = f - &half_square;
        let upper = self.float_of(&self.bits_of(&upper).and(&self.pattern(!0 << 32)));
        let lower = (f - &upper) - &half_square + correction;
        let product = &upper * &self.number(LOG2_E.0);
        let small = (&lower + &upper) * &self.number(LOG2_E.1) + &lower * &self.number(LOG2_E.0);
        let sum = exponent + &product;
        // What the sum rounded off: the exponent is 0 or not the smaller of the two.
        let rounded_off = (exponent - &sum) + &product;
        sum + (small + rounded_off)
    }
}

/// A float leaf for tests of graphs of one argument.
#[cfg(test)]
pub(super) fn argument(dtype: DType) -> UOp {
    use crate::ir::{Arg, Op};
    let index = UOp::new(Op::Index, dtype, [UOp::param(0, dtype, 1), UOp::index(0)].to_vec(), Arg::None);
    UOp::new(Op::Load, dtype, [index].to_vec(), Arg::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::error_in_last_places;
    use crate::ir::{Evaluator, Op};
    use crate::rewrite::rewrite;

    /// The errors of both rule sets, at most `ulps` units in the last place of the result of `exact`, for all of these values.
    #[track_caller]
    fn check(root: &UOp, exact: fn(f64) -> f64, ulps: f64, values: impl Iterator<Item = f64> + Clone) {
        for rules in [&TRANSCENDENTAL, &TRANSCENDENTAL_FUSED] {
            let simple = rewrite(root, &[rules]).unwrap();
            let dtype = root.dtype();
            let mut evaluator = Evaluator::new(&[simple]);
            let (mut worst, mut worst_at) = (0.0, 0.0);
            for value in values.clone() {
                let x = Scalar::from_f64(value, dtype);
                let got = evaluator.evaluate(&[x]).unwrap()[0].to_f64();
                let exact = exact(x.to_f64());
                let error = error_in_last_places(got, exact, dtype);
                if error > worst {
                    (worst, worst_at) = (error, x.to_f64());
                }
            }
            assert!(worst <= ulps, "{} of {dtype}: {worst} ulp at {worst_at:e}", root.op());
        }
    }

    /// Numbers of all sizes of both signs, and some from a range.
    fn values(low: f64, high: f64, count: usize) -> impl Iterator<Item = f64> + Clone {
        let special = [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324, 1e-45, 1e-40, f64::MAX, 1.0, 0.5];
        let sizes =
            (-1074..1024).map(|exponent| 1.37 * (exponent as f64 / 2.0).exp2() * (exponent as f64 / 2.0).exp2());
        let range = (0..count).map(move |step| low + (high - low) * (step as f64 + 0.37) / count as f64);
        let signed = special.into_iter().chain(sizes).flat_map(|value| [value, -value]);
        signed.chain(range)
    }

    #[test]
    fn exp2_is_accurate() {
        let edges = [127.99999, 128.0, 127.5, -125.5, -126.0, -149.0, -149.99, -150.0, 1023.9999, -1022.0, -1074.5];
        let f32s = values(-152.0, 130.0, 20_000).chain(edges);
        check(&argument(DType::F32).exp2(), libm::exp2, 1.5, f32s);
        check(&argument(DType::F64).exp2(), libm::exp2, 1.5, values(-1080.0, 1025.0, 10_000).chain(edges));
    }

    #[test]
    fn log2_is_accurate() {
        let near_one = values(0.5, 2.0, 20_000).chain((1..40).map(|k| 1.0 + (-k as f64).exp2()));
        check(&argument(DType::F32).log2(), libm::log2, 1.75, near_one.clone());
        check(&argument(DType::F64).log2(), libm::log2, 1.5, near_one);
    }

    #[test]
    fn sin_and_cos_are_accurate() {
        let multiples = (1..500).map(|k| k as f64 * std::f64::consts::FRAC_PI_2);
        let hard = [6381956970095103.0 * 797f64.exp2(), 16367173.0 * 72f64.exp2(), 1e22, 1.5e300];
        let values = values(-20.0, 20.0, 3_000).chain(multiples).chain(hard);
        check(&argument(DType::F32).sin(), libm::sin, 1.5, values.clone());
        check(&argument(DType::F64).sin(), libm::sin, 1.5, values.clone());
        check(&argument(DType::F32).cos(), libm::cos, 1.5, values.clone());
        check(&argument(DType::F64).cos(), libm::cos, 1.5, values);
    }

    #[test]
    fn vectors_and_scalars_have_one_graph() {
        let lanes = DType::F32.with_lanes(16);
        for root in [argument(lanes).exp2(), argument(lanes).log2(), argument(lanes).sin(), argument(lanes).cos()] {
            let simple = rewrite(&root, &[&TRANSCENDENTAL_FUSED]).unwrap();
            assert_eq!(simple.dtype(), lanes);
            assert!(
                crate::ir::postorder(&[simple])
                    .iter()
                    .all(|node| !matches!(node.op(), Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos))
            );
        }
    }
}
