//! Sines and cosines. The whole difficulty is the angle: x modulo pi/2, to full precision however large x is.
//!
//! Both types measure the angle in *quadrants*, x * 2/pi modulo 4. A product by 2/pi needs more bits of 2/pi than a float has, and
//! for large x others: bits of 2/pi whose product with x is a multiple of 4 do not count, so a window of the bits moves with
//! the exponent of x. Products are kept exact as pairs, p = a * b rounded and e = a * b - p by a fused multiply-add.
//!
//! - `f32`: in `f64`, from five windows of two `f64` each.
//! - `f64`: five words of 48 bits out of 25, chosen by the bits of the window's number as a barrel shifter does; the products are
//!   summed with their rounding errors, three times as precise as `f64` (Ogita, Rump and Oishi, "Accurate sum and dot product",
//!   2005).
//!
//! Nearly all angles that programs ask for are small. Below [`NEAR`] the angle of `f32` comes from three multiply-adds in `f32` (Cody and Waite), and the windows
//! are left out where no lane needs them, if the target branches cheaply.
//!
//! Then sine or cosine of the angle within a quadrant by polynomial, and the sign.

use super::transcendental::Math;
use crate::dtype::{DType, ScalarType};
use crate::ir::UOp;

/// 2/pi, 48 bits in each word.
const TWO_OVER_PI: [u64; 25] = [
    0xa2f9836e4e44,
    0x1529fc2757d1,
    0xf534ddc0db62,
    0x95993c439041,
    0xfe5163abdebb,
    0xc561b7246e3a,
    0x424dd2e00649,
    0x2eea09d1921c,
    0xfe1deb1cb129,
    0xa73ee88235f5,
    0x2ebb4484e99c,
    0x7026b45f7e41,
    0x3991d6398353,
    0x39f49c845f8b,
    0xbdf9283b1ff8,
    0x97ffde05980f,
    0xef2f118b5a0a,
    0x6d1f6d367ecf,
    0x27cb09b74f46,
    0x3f669e5fea2d,
    0x7527bac7ebe5,
    0xf17b3d0739f7,
    0x8a5292ea6bfb,
    0x5fb11f8d5d08,
    0x56033046fc7b,
];

/// For x from 2^(first) on: 2/pi without what makes multiples of 4, upper and lower part.
const WINDOWS_F32: [(i32, f64, f64); 5] = [
    (0, std::f64::consts::FRAC_2_PI, -3.935735335036497e-17),
    (48, 2.0449648759307553e-07, 6.074026489649846e-24),
    (72, 2.93709554037182e-16, 1.018166438749971e-32),
    (96, 3.254380609134673e-23, 2.5184173833409495e-39),
    (120, 2.471138875912043e-29, 9.806594596464336e-46),
];

/// Up to here three parts of pi/2 are enough: no number below is nearer to a multiple of pi/2 than 2^-28, and what the parts leave over is 2^-33 of that.
const NEAR: f64 = 65536.0;
/// pi/2 as a sum of `f32`.
const QUADRANT_F32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];

/// pi/2, rounded, and the rest.
const QUADRANT: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);

/// (sin r / r - 1) / r^2 and (cos r - 1 + r^2 / 2) / r^4, in powers of r^2.
const SIN_F32: [f64; 3] = [-0.16666655242443085, 0.008332191966474056, -0.00019518790941219777];
const COS_F32: [f64; 3] = [0.04166664555668831, -0.0013887305976822972, 2.4431577912764624e-05];
const SIN_F64: [f64; 6] = [
    -0.16666666666666632,
    0.008333333333322491,
    -0.00019841269829859592,
    2.7557313707656142e-06,
    -2.5050760342082054e-08,
    1.5896914793416562e-10,
];
const COS_F64: [f64; 6] = [
    0.0416666666666666,
    -0.0013888888888874478,
    2.480158728967558e-05,
    -2.755731440239291e-07,
    2.087572947928711e-09,
    -1.1359944773732471e-11,
];

/// The sine of an angle in radians.
pub(super) fn sin(math: &Math, x: &UOp) -> UOp {
    let bits = math.bits_of(x);
    // sin(-x) = -sin x, for -0.0 too.
    let (value, turned) = of_size(math, &bits, 0);
    math.float_of(&(math.bits_of(&value) ^ ((bits ^ turned) & sign_bit(math))))
}

/// The cosine of an angle in radians: the sine of one that is a quadrant further. cos(-x) = cos x.
pub(super) fn cos(math: &Math, x: &UOp) -> UOp {
    let (value, turned) = of_size(math, &math.bits_of(x), 1);
    math.float_of(&(math.bits_of(&value) ^ (turned & sign_bit(math))))
}

fn sign_bit(math: &Math) -> UOp {
    math.pattern(1 << (math.float.bits() - 1))
}

/// The sine of the size of a number (of which these are the bits), so many quadrants further: its value but for the sign, and bits of which the highest
/// one says whether it is turned.
fn of_size(math: &Math, bits: &UOp, further: i64) -> (UOp, UOp) {
    let size = math.float_of(&bits.and(&math.pattern(!0 >> (65 - math.float.bits()))));
    let (quadrant, sine, cosine) = match math.float.scalar() {
        ScalarType::F64 => in_f64(math, &size),
        _ => in_f32(math, &size),
    };
    let quadrant = quadrant + further;
    let value = quadrant.and(1).differs(0).select(cosine, sine);
    // The window of an infinity is one of a number: infinities and NaN are looked for.
    let is_finite = size.lt(&math.number(f64::INFINITY));
    let value = is_finite.select(value, math.number(f64::NAN));
    (value, quadrant.and(2).shl(math.float.bits() as i64 - 2))
}

/// The number of the quadrant (in the low bits), and sine and cosine of the angle from its middle.
type Parts = (UOp, UOp, UOp);

fn in_f32(math: &Math, size: &UOp) -> Parts {
    let (quadrant, r) = match math.branches {
        true => near_or_far(math, size),
        false => angle_far(math, size),
    };
    let z = &r * &r;
    let sine = math.muladd(&(&r * &z), &math.polynomial(&z, &SIN_F32), &r);
    let cosine = math.polynomial(&z, &COS_F32);
    let cosine = math.muladd(&z, &math.muladd(&z, &cosine, &math.number(-0.5)), &math.number(1.0));
    (quadrant, sine, cosine)
}

/// The number of the quadrant and the angle from its middle: of small numbers the short way.
fn near_or_far(math: &Math, size: &UOp) -> (UOp, UOp) {
    let rounder = math.number(math.rounder());
    let rounded = size.muladd(&math.number(std::f64::consts::FRAC_2_PI), &rounder);
    let turns = -(&rounded - rounder);
    let r = QUADRANT_F32.iter().fold(size.clone(), |rest, part| turns.muladd(&math.number(*part), &rest));
    // NaN and infinities are far, too.
    let is_far = !size.lt(&math.number(NEAR));
    let (quadrant_far, r_far) = angle_far(math, size);
    (is_far.select_seldom(&quadrant_far, &math.bits_of(&rounded)), is_far.select_seldom(&r_far, &r))
}

/// The number of the quadrant and the angle from its middle, of any size.
fn angle_far(math: &Math, size: &UOp) -> (UOp, UOp) {
    let double = Math::in_type(DType::F64.with_lanes(math.float.lanes()), true);
    let x = size.cast(double.float);
    let [(_, upper, lower), windows @ ..] = WINDOWS_F32;
    let mut factor = (double.number(upper), double.number(lower));
    for (first, upper, lower) in windows {
        let is_here = x.lt(&double.number((first as f64).exp2()));
        factor = (is_here.select(&factor.0, double.number(upper)), is_here.select(&factor.1, double.number(lower)));
    }
    let product = Pair::product(&x, &factor.0);
    let upper = modulo_four(&double, &product.value);
    let lower = x.muladd(&factor.1, &product.error);
    let sum = &upper + &lower;
    let rounded_off = &lower - (&sum - &upper);
    let rounder = double.number(double.rounder());
    let rounded = &sum + &rounder;
    let rest = (sum - (&rounded - rounder)) + rounded_off;
    let r = (rest * double.number(QUADRANT.0)).cast(math.float);
    (double.bits_of(&rounded).cast(math.bits), r)
}

fn in_f64(math: &Math, size: &UOp) -> Parts {
    let terms = quadrants(math, size);
    let (sum, rounded_off) = accurate_sum(terms);
    let rounder = math.number(math.rounder());
    let rounded = &sum + &rounder;
    let rest = sum - (&rounded - rounder);
    // The angle in two parts, r + tail.
    let scaled = Pair::product(&rest, &math.number(QUADRANT.0));
    let small = rounded_off * math.number(QUADRANT.0) + (&rest * math.number(QUADRANT.1) + scaled.error);
    let r = &scaled.value + &small;
    let tail = small - (&r - &scaled.value);

    let z = &r * &r;
    let half = math.number(0.5);
    let cube = &r * &z;
    // sin(r + t) = sin r + t cos r, cos(r + t) = cos r - t sin r, up to what no one sees.
    let correction = math.muladd(&cube, &math.polynomial(&z, &SIN_F64), &(&tail - &tail * &(&z * &half)));
    // Of the smallest angles the products above are inexact; they are their own sines.
    let is_tiny = size.lt(&math.number((-27f64).exp2()));
    let sine = is_tiny.select(size, &r + correction);
    let half_square = &z * &half;
    let upper = math.number(1.0) - &half_square;
    let lower = (math.number(1.0) - &upper) - half_square;
    let lower = math.muladd(&(&z * &z), &math.polynomial(&z, &COS_F64), &(lower - &r * &tail));
    (math.bits_of(&rounded), sine, upper + lower)
}

/// x * 2/pi modulo 4 as a sum, largest terms first.
fn quadrants(math: &Math, x: &UOp) -> Vec<UOp> {
    // Words before the window make multiples of 4 when x has two zeros below its last bit, counted in units of the window.
    let exponent = math.bits_of(x).shr(52);
    let past_first = exponent.max(1023 + 54) - 1023 - 54;
    let window = (past_first * 1366).shr(16); // a division by 48, right for all exponents
    let scaled = math.float_of(&(math.bits_of(x) - (&window * 48).shl(52)));
    let mut terms = Vec::new();
    for (index, word) in window_of_words(math, &window).iter().enumerate() {
        let unit = math.number((-48.0 * (index + 1) as f64).exp2());
        let product = Pair::product(&(&scaled * unit), word);
        match index {
            0 | 1 => terms.extend([modulo_four(math, &product.value), modulo_four(math, &product.error)]),
            2 => terms.extend([modulo_four(math, &product.value), product.error]),
            3 => terms.extend([product.value, product.error]),
            _ => terms.push(product.value),
        }
    }
    terms
}

/// Five words of 2/pi from the window's number on.
fn window_of_words(math: &Math, window: &UOp) -> Vec<UOp> {
    const WINDOWS: usize = 21;
    let mut words: Vec<UOp> = TWO_OVER_PI.iter().map(|&word| math.number(word as f64)).collect();
    // Window numbers that are left after the larger steps.
    let mut numbers = WINDOWS;
    for step in [16, 8, 4, 2, 1] {
        let is_stepped = window.and(step as i64).differs(0);
        let kept = numbers.min(step) + 4;
        words = (0..kept)
            .map(|index| match words.get(index + step) {
                Some(stepped) => is_stepped.select(stepped, &words[index]),
                None => words[index].clone(),
            })
            .collect();
        numbers = numbers.min(step);
    }
    words
}

/// The rest after whole turns are taken away, exactly.
fn modulo_four(math: &Math, x: &UOp) -> UOp {
    let turns = (x * math.number(0.25)).trunc();
    x - turns * math.number(4.0)
}

/// A result and what its rounding left.
struct Pair {
    value: UOp,
    error: UOp,
}

impl Pair {
    fn product(a: &UOp, b: &UOp) -> Pair {
        let value = a * b;
        let error = a.muladd(b, &-&value);
        Pair { value, error }
    }

    fn sum(a: &UOp, b: &UOp) -> Pair {
        let value = a + b;
        let of_b = &value - a;
        let error = (a - (&value - &of_b)) + (b - of_b);
        Pair { value, error }
    }
}

/// The sum of the terms, and what is left when it is rounded.
fn accurate_sum(mut terms: Vec<UOp>) -> (UOp, UOp) {
    for _ in 0..2 {
        for index in 1..terms.len() {
            let sum = Pair::sum(&terms[index - 1], &terms[index]);
            terms[index - 1] = sum.error;
            terms[index] = sum.value;
        }
    }
    let sum = terms.pop().expect("there are terms");
    let rest = terms.into_iter().reduce(|rest, term| rest + term).expect("there are terms");
    let total = &sum + &rest;
    let left = rest - (&total - sum);
    (total, left)
}
