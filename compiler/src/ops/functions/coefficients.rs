//! Polynomials behind the elementary functions, and constants cut into parts.
//!
//! Each was fitted by Chebyshev interpolation in 50-digit arithmetic to the function named, on the interval named; the error is
//! the largest deviation from that function there. Lowest power first. Constants in parts sum to the exact value, each part
//! exact in its type, so that a product with the first part can be taken from an operand without loss (Cody and Waite).

#![allow(clippy::excessive_precision, reason = "digits as computed; the last ones say that rounding is the compiler's")]

use crate::DType;

/// One polynomial for single and one for double precision.
pub(super) struct Polynomial {
    single: &'static [f64],
    double: &'static [f64],
}

impl Polynomial {
    /// The coefficients that `dtype` needs, lowest power first.
    pub(super) fn for_dtype(&self, dtype: DType) -> &'static [f64] {
        if dtype == DType::F64 { self.double } else { self.single }
    }
}

/// (atan(z) / z - 1) / z^2 of z^2 in [0, tan(pi/8)^2]; errors 1.6e-8 and 1.2e-18.
pub(super) const ATAN: Polynomial = Polynomial {
    single: &[
        -0.33333331760434556,
        0.19999540314957969,
        -0.14263949753605724,
        0.10743668324830098,
        -0.064517188693589581,
    ],
    double: &[
        -0.33333333333333333,
        0.19999999999999804,
        -0.14285714285659778,
        0.11111111105150588,
        -0.090909087532591129,
        0.076922963680422971,
        -0.066664247602005201,
        0.058789275544738068,
        -0.052304436406869477,
        0.045515447340221617,
        -0.03456931506332609,
        0.016284375050043395,
    ],
};

/// (asin(z) / z - 1) / z^2 of z^2 in [0, 1/4]; errors 7.3e-8 and 1.5e-17.
pub(super) const ASIN: Polynomial = Polynomial {
    single: &[
        0.16666672427703408,
        0.074988529622620839,
        0.045001894088299798,
        0.026550662963657472,
        0.038093962148042254,
    ],
    double: &[
        0.16666666666666668,
        0.074999999999984243,
        0.044642857146373381,
        0.030381944137085214,
        0.022372173002005597,
        0.017352391265909228,
        0.013971235301124539,
        0.011478952690257387,
        0.010324318288744112,
        0.0054508781877205507,
        0.017419357964884855,
        -0.014881409392818063,
        0.028778442612593039,
    ],
};

/// erf(z) / z - 1 of z^2 in [0, 1]; errors 1.3e-9 and 1.4e-19.
pub(super) const ERF_SMALL: Polynomial = Polynomial {
    single: &[
        0.1283791658483509,
        -0.37612626666720331,
        0.11283594715160218,
        -0.026854212010626412,
        0.005189087423433974,
        -0.00080168642871658695,
        7.8758750626854883e-5,
    ],
    double: &[
        0.1283791670955126,
        -0.37612638903183748,
        0.11283791670954879,
        -0.026866170645076793,
        0.0052239776248180145,
        -0.00085483269808337899,
        0.00012055331111642711,
        -1.4925595266831182e-5,
        1.6461000484121368e-6,
        -1.6350312701054695e-7,
        1.4659775274047436e-8,
        -1.1372848856791674e-9,
        5.9571761477489114e-11,
    ],
};

/// erf(z) of z - 2.5 for z in [1, 4], in single precision; error 5e-8, with its terms rounded 1.6 ulp fused and 1.8 not. Beyond, erf is 1.
pub(super) const ERF_LARGE_SINGLE: [f64; 14] = [
    0.99959307900283563,
    0.0021782696874579883,
    -0.0054470603333030615,
    0.0083507241685456085,
    -0.0086128264417240564,
    0.0061127918408094582,
    -0.0028236714728631681,
    0.00055479073842255763,
    0.00029193258878787296,
    -0.00026651731733149036,
    5.9438928584194138e-5,
    1.6309295545092279e-5,
    -8.7130073351039916e-6,
    6.9617296034392843e-7,
];

/// -log(1 - erf(z)) of z - 3.5 for z in [1, 6], in double precision; error 1.3e-14 (the value is scaled by at most 0.16 when erf is made
/// of it).
pub(super) const ERF_LARGE_DOUBLE: [f64; 22] = [
    14.112437402148166,
    7.2660995883651922,
    0.96675305474254174,
    0.0052256582218876787,
    -0.00087368732562952885,
    0.00014729777523500169,
    -2.4386368600437459e-5,
    3.8895563165810567e-6,
    -5.8562061083873203e-7,
    8.0694107530526036e-8,
    -9.5270382872427571e-9,
    7.7409121114205142e-10,
    2.2683930974665989e-11,
    -3.0277375641754477e-11,
    9.7966113464981567e-12,
    -2.167437493133479e-12,
    2.8062829914864834e-13,
    -4.5506483421311904e-14,
    2.1380921195143654e-14,
    -3.1187180684590378e-15,
    -6.7443078213091565e-16,
    1.5445033659206049e-16,
];

/// Where the polynomials of a large argument are centred, and from where on erf is 1.
pub(super) fn erf_center(dtype: DType) -> (f64, f64) {
    if dtype == DType::F64 { (3.5, 6.0) } else { (2.5, 4.0) }
}

/// 1/2!, 1/3!, ...: the series of (exp(r) - 1 - r) / r^2, long enough for |r| up to 0.7: what is left out is 2^-26 of it, or 2^-60.
pub(super) fn expm1_series(dtype: DType) -> Vec<f64> {
    let terms = if dtype == DType::F64 { 17 } else { 8 };
    let mut factorial = 1.0;
    (2..2 + terms)
        .map(|k| {
            factorial *= k as f64;
            1.0 / factorial
        })
        .collect()
}

/// What a type cannot hold of pi.
pub(super) fn pi_rest(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1.2246467991473532e-16 } else { -8.742277657347586e-08 }
}

/// log(2) in two parts.
pub(super) fn ln2_parts(dtype: DType) -> [f64; 2] {
    if dtype == DType::F64 { LN2_DOUBLE } else { LN2_SINGLE }
}

/// 1 / log(2) in two parts.
pub(super) fn log2e_parts(dtype: DType) -> [f64; 2] {
    if dtype == DType::F64 { LOG2E_DOUBLE } else { LOG2E_SINGLE }
}

const LN2_SINGLE: [f64; 2] = [0.6931471824645996, -1.9046542121259336e-09];
const LN2_DOUBLE: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];
const LOG2E_SINGLE: [f64; 2] = [1.4426950216293335, 1.925963033500011e-08];
const LOG2E_DOUBLE: [f64; 2] = [std::f64::consts::LOG2_E, 2.0355273740931033e-17];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_parts_are_exact_in_their_type() {
        for part in LN2_SINGLE.iter().chain(&LOG2E_SINGLE) {
            assert_eq!(*part as f32 as f64, *part);
        }
        // What is left is rounded to the type itself.
        let rest = pi_rest(DType::F32);
        assert_eq!(rest as f32 as f64, rest);
        assert!((std::f32::consts::PI as f64 + rest - std::f64::consts::PI).abs() < 4e-15);
    }

    #[test]
    fn polynomials_meet_their_functions() {
        let value = |polynomial: &Polynomial, dtype, x: f64| {
            polynomial.for_dtype(dtype).iter().rev().fold(0.0, |total, coefficient| total * x + coefficient)
        };
        for k in 1..=16 {
            let z = 0.414 * k as f64 / 16.0;
            let double = z + z * z * z * value(&ATAN, DType::F64, z * z);
            assert!((double - libm::atan(z)).abs() < 1e-16, "atan {z}");
            let z = k as f64 / 32.0;
            let double = z + z * z * z * value(&ASIN, DType::F64, z * z);
            assert!((double - libm::asin(z)).abs() < 2e-16, "asin {z}");
            let z = k as f64 / 16.0;
            assert!((z + z * value(&ERF_SMALL, DType::F64, z * z) - libm::erf(z)).abs() < 3e-16, "erf {z}");
            let z = 1.0 + 5.0 * k as f64 / 16.0;
            let sum =
                |coefficients: &[f64], z: f64| coefficients.iter().rev().fold(0.0, |total, next| total * z + next);
            let large = 1.0 - libm::exp(-sum(&ERF_LARGE_DOUBLE, z - erf_center(DType::F64).0));
            assert!((large - libm::erf(z)).abs() < 1e-14, "erf {z}");
            let z = 1.0 + 3.0 * k as f64 / 16.0;
            let large = sum(&ERF_LARGE_SINGLE, z - erf_center(DType::F32).0);
            assert!((large - libm::erf(z)).abs() < 5.1e-8, "erf {z}");
        }
    }
}
