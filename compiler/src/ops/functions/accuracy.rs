//! How far the elementary functions are from the exact ones, measured in units of the last place with the interpreter.

use crate::dtype::error_in_last_places;
use crate::ir::interpret::{Value, interpret};
use crate::ops::{activation, elementwise, math, power};
use crate::{DType, UOp};

/// The values of a graph over one or two parameters.
fn evaluate(dtype: DType, inputs: &[&[f64]], build: impl FnOnce(&[UOp]) -> UOp) -> Vec<f64> {
    let params: Vec<UOp> = (0..inputs.len()).map(|k| UOp::param(k as u32, dtype, inputs[k].len() as u64)).collect();
    let leaves = |leaf: &UOp| {
        let slot = params.iter().position(|param| param == leaf)?;
        Value::from_f64(dtype, vec![inputs[slot].len() as i64], inputs[slot])
    };
    interpret(&[build(&params)], &leaves).unwrap()[0].to_f64()
}

/// Numbers over many magnitudes, both signs, and special ones.
fn sweep(lowest: f64, highest: f64) -> Vec<f64> {
    let mut numbers = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, -0.5];
    let mut state = 1u64;
    for k in 0..4000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        // Half of them evenly over the interval, half by magnitude.
        let number =
            if k % 4 < 2 { lowest + unit * (highest - lowest) } else { sign * libm::exp2(unit * 150.0 - 50.0) };
        numbers.push(number as f32 as f64);
    }
    numbers.retain(|&number| number.is_nan() || number.is_infinite() || (lowest..=highest).contains(&number));
    numbers
}

#[track_caller]
fn check(name: &str, range: (f64, f64), limit: f64, build: fn(&UOp) -> UOp, exact: fn(f64) -> f64) {
    let numbers = sweep(range.0, range.1);
    let got = evaluate(DType::F32, &[&numbers], |x| build(&x[0]));
    for (x, got) in numbers.iter().zip(&got) {
        let want = exact(*x);
        let error = error_in_last_places(*got, want, DType::F32);
        assert!(error <= limit, "{name}({x:e}) = {got:e}, and {want:e} is {error} ulp away");
    }
    // f64: libm itself is within an ulp; composed formulas within a few.
    let got = evaluate(DType::F64, &[&numbers], |x| build(&x[0]));
    for (x, got) in numbers.iter().zip(&got) {
        let want = exact(*x);
        let close = (got - want).abs() <= 4e-15 * want.abs() + 1e-300;
        assert!(
            close || error_in_last_places(*got, want, DType::F64) <= limit,
            "{name}({x:e}) = {got:e} in f64, not {want:e}"
        );
    }
}

#[test]
fn exponentials_and_logarithms() {
    check("exp", (-110.0, 95.0), 2.0, math::exp, libm::exp);
    check("expm1", (-110.0, 95.0), 2.0, math::expm1, libm::expm1);
    check("log", (0.0, 1e30), 2.0, math::log, libm::log);
    check("log10", (0.0, 1e30), 2.0, math::log10, libm::log10);
    check("log1p", (-1.0, 1e30), 2.0, math::log1p, libm::log1p);
    check("sigmoid", (-80.0, 80.0), 3.0, activation::sigmoid, |x| 1.0 / (1.0 + libm::exp(-x)));
    check("softplus", (-80.0, 80.0), 2.0, activation::softplus, |x| x.max(0.0) + libm::log1p(libm::exp(-x.abs())));
}

#[test]
fn circular_functions() {
    check("cos", (-1e30, 1e30), 2.0, math::cos, libm::cos);
    check("cos", (-1e5, 1e5), 2.0, math::cos, libm::cos);
    check("tan", (-1e30, 1e30), 4.0, math::tan, libm::tan);
    check("tan", (-1e5, 1e5), 4.0, math::tan, libm::tan);
    check("asin", (-1.0, 1.0), 2.5, math::asin, libm::asin);
    check("acos", (-1.0, 1.0), 2.0, math::acos, libm::acos);
    check("atan", (-1e6, 1e6), 2.0, math::atan, libm::atan);
    // Close to odd multiples of pi/2.
    let far = [f64::exp2(63.0), f64::exp2(31.0), 3.4e38f32 as f64, 16367173.0 * f64::exp2(72.0)];
    let (cosines, tangents) =
        (evaluate(DType::F32, &[&far], |x| math::cos(&x[0])), evaluate(DType::F32, &[&far], |x| math::tan(&x[0])));
    for (k, x) in far.into_iter().enumerate() {
        assert!(error_in_last_places(cosines[k], libm::cos(x), DType::F32) <= 2.0, "cos({x:e}) = {}", cosines[k]);
        assert!(error_in_last_places(tangents[k], libm::tan(x), DType::F32) <= 4.0, "tan({x:e}) = {}", tangents[k]);
    }
}

#[test]
fn hyperbolic_functions_and_erf() {
    check("sinh", (-89.4, 89.4), 2.0, math::sinh, libm::sinh);
    check("cosh", (-89.4, 89.4), 2.0, math::cosh, libm::cosh);
    check("tanh", (-100.0, 100.0), 2.0, math::tanh, libm::tanh);
    check("asinh", (-1e30, 1e30), 3.0, math::asinh, libm::asinh);
    check("acosh", (-10.0, 1e30), 3.0, math::acosh, libm::acosh);
    check("atanh", (-1.0, 1.0), 3.0, math::atanh, libm::atanh);
    check("erf", (-10.0, 10.0), 2.0, math::erf, libm::erf);
}

#[test]
fn powers_of_all_pairs_of_special_numbers() {
    let infinite = f64::INFINITY;
    let special =
        [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.0, infinite, -infinite, f64::NAN, 3.0, -3.0, 1.5, -2.5, 1e30, 1e-30];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in special {
        for y in special {
            a.push(x as f32 as f64);
            b.push(y as f32 as f64);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        let got = evaluate(dtype, &[&a, &b], |x| power::pow(&x[0], &x[1]).unwrap());
        for k in 0..a.len() {
            let want = libm::pow(a[k], b[k]);
            // A power of f64 may overflow f32.
            let limit = if dtype == DType::F32 {
                error_in_last_places(got[k], want, dtype) <= 2.0
            } else {
                (got[k] - want).abs() <= 1e-12 * want.abs()
            };
            assert!(
                limit || error_in_last_places(got[k], want, dtype) == 0.0,
                "{} ^ {} = {} in {dtype}, not {want}",
                a[k],
                b[k],
                got[k]
            );
            assert_eq!(
                got[k].is_sign_negative() || want.is_nan(),
                want.is_sign_negative() || want.is_nan(),
                "{} ^ {}",
                a[k],
                b[k]
            );
        }
    }
}

#[test]
fn powers_stay_exact_where_they_are_large() {
    let bases: Vec<f64> = (1..400).map(|k| k as f32 as f64 * 0.37f32 as f64).map(|x| x as f32 as f64).collect();
    let exponents: Vec<f64> = (1..400).map(|k| ((k % 37) as f32 - 18.3) as f64).collect();
    let got = evaluate(DType::F32, &[&bases, &exponents], |x| power::pow(&x[0], &x[1]).unwrap());
    for k in 0..bases.len() {
        let want = libm::pow(bases[k], exponents[k]);
        assert!(error_in_last_places(got[k], want, DType::F32) <= 2.0, "{} ^ {}", bases[k], exponents[k]);
    }
}

#[test]
fn angles_of_all_pairs_of_special_numbers() {
    let large = [f64::INFINITY, -f64::INFINITY, -1e30, 3e38, 3.0];
    let small = [1e-30, 1e-45, -1e-40, 1.1e-38, -3e-36, -0.25, 0.0, -0.0];
    let special: Vec<f64> = large.into_iter().chain(small).chain([1.0, -1.0, f64::NAN]).collect();
    let (mut y, mut x) = (Vec::new(), Vec::new());
    for &a in &special {
        for &b in &special {
            y.push(a as f32 as f64);
            x.push(b as f32 as f64);
        }
    }
    let got = evaluate(DType::F32, &[&y, &x], |v| elementwise::atan2(&v[0], &v[1]).unwrap());
    for k in 0..y.len() {
        let want = libm::atan2(y[k], x[k]);
        // Of numbers that are denormal in f32, the quotient may be, too.
        let tiny = want.abs() < 1.2e-38 && (got[k] - want).abs() < 3e-45;
        assert!(
            tiny || error_in_last_places(got[k], want, DType::F32) <= 2.0,
            "atan2({}, {}) = {}, not {want}",
            y[k],
            x[k],
            got[k]
        );
    }
}

#[test]
fn rounding_is_to_the_nearest_even() {
    let numbers: Vec<f64> =
        (-20..=20).map(|k| k as f64 / 4.0).chain([0.49999997f32 as f64, 8388609.0, -8388609.0]).collect();
    let got = evaluate(DType::F32, &[&numbers], |x| elementwise::round(&x[0]));
    for (x, got) in numbers.iter().zip(got) {
        assert_eq!(got, libm::rint(*x), "round({x})");
    }
}
