//! Powers of e as one polynomial, on machines that begin an instruction for each op: there they are bound by their instructions.
//!
//! A program says e^x as 2^(hi + lo), where hi is x / ln(2) as rounded and lo what rounding lost (`ops::math::exp`). By itself that is 22 ops once `exp2` is a polynomial,
//! of which seven take x apart and put the small part back, and two clamp what is clamped already. Taken apart in terms of ln(2) it is 16:
//!
//! ```text
//! h = x / (2 ln 2), rounded    r = x - 2 h ln(2), in two steps    e^x = p(r) 2^h 2^h
//! ```
//!
//! The error is at most 1.75 units in the last place. Other machines keep what they have: their vectors wait for memory first.
//!
//! Always: NaN stays NaN, and what is beyond either end is 0 or infinity. Tested here, against `libm` in higher precision.

use std::sync::LazyLock;

use super::transcendental::Math;
use crate::dtype::ScalarType;
use crate::ir::{Op, UOp};
use crate::kernel::powers::exponent_of;
use crate::rewrite::{Pattern, Rule, RuleSet};

/// Powers of e in `f32`.
pub static EXPONENTIALS: LazyLock<RuleSet> = LazyLock::new(|| {
    let rule = Rule::new("power-of-e", &[], Pattern::any(Op::MulAdd, "x"), |root, _| {
        exponent_of(root).map(|x| power_of_e(&x))
    });
    RuleSet::new("EXPONENTIALS", |root| root.dtype().scalar() == ScalarType::F32, vec![rule])
});

/// Powers of e in `f32` as the machine's own powers of two, of x / ln(2) as rounded: the error is 2^-22 and 2^-24 of x, which is 2^-17 at the ends.
pub static POWERS_OF_TWO: LazyLock<RuleSet> = LazyLock::new(|| {
    let rule = Rule::new("power-of-two", &[], Pattern::any(Op::MulAdd, "x"), |root, _| {
        let x = exponent_of(root)?;
        // What is clamped below, for the sake of what is added, is 0 by itself.
        Some((&x.src()[0] * Math::of(&x, true).number(std::f64::consts::LOG2_E)).exp2())
    });
    RuleSet::new("POWERS_OF_TWO", |root| root.dtype().scalar() == ScalarType::F32, vec![rule])
});

/// e^r for |r| <= ln(2): fitted for the least relative error, 2^-26, each coefficient rounded to `f32` before the next ones are fitted again.
const POLYNOMIAL: [f64; 8] = [
    1.0,
    1.0,
    0.5000003576278687,
    0.166666179895401,
    0.041661228984594345,
    0.008335934951901436,
    0.0014104777947068214,
    0.00019629749294836074,
];

/// 2 ln(2) in two parts, the first as rounded to `f32`.
const TWICE_LN_2: [f64; 2] = [1.3862943649291992, -3.809308424251867e-9];

/// Beyond this end the result is infinity.
const END: f64 = 89.0;

/// e^x of an x that is clamped below.
fn power_of_e(x: &UOp) -> UOp {
    let math = Math::of(x, true);
    let x = x.min(&math.number(END));
    let rounder = math.number(math.rounder() + 127.0);
    let rounded = x.muladd(&math.number(0.5 * std::f64::consts::LOG2_E), &rounder);
    let h = &rounded - &rounder;
    let r = h.muladd(&math.number(-TWICE_LN_2[0]), &x);
    let r = h.muladd(&math.number(-TWICE_LN_2[1]), &r);
    // The integer, with the bias, moves into the exponent field; the rounder's own bits leave at the top.
    let scale = math.float_of(&math.bits_of(&rounded).shl(23));
    math.polynomial(&r, &POLYNOMIAL) * &scale * scale
}

#[cfg(test)]
mod tests {
    use super::super::transcendental::{TRANSCENDENTAL_FUSED, argument};
    use super::*;
    use crate::dtype::{DType, Scalar, error_in_last_places};
    use crate::ir::{Evaluator, postorder};
    use crate::ops::math;
    use crate::rewrite::rewrite;

    #[test]
    fn powers_of_two_are_accurate_enough_for_half_floats() {
        let x = argument(DType::F32);
        let short = rewrite(&math::exp(&x).src()[0].clone(), &[&POWERS_OF_TWO]).unwrap();
        let nodes = postorder(std::slice::from_ref(&short));
        assert_eq!(nodes.iter().filter(|node| node.op().is_elementwise()).count(), 2, "{}", short.infix());
        let mut evaluator = Evaluator::new(&[short]);
        for value in
            [0.0, 1.0, -1.0, 88.7, -87.3, 11.0, -17.0].into_iter().chain((0..2000).map(|k| f64::from(k) * 0.087 - 87.0))
        {
            let got = evaluator.evaluate(&[Scalar::from_f64(value, DType::F32)]).unwrap()[0].to_f64();
            let exact = libm::exp(Scalar::from_f64(value, DType::F32).to_f64());
            assert!((got / exact - 1.0).abs() < 2f64.powi(-17), "{value}: {got}, not {exact}");
        }
        for (value, want) in
            [(f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, 0.0), (200.0, f64::INFINITY), (-200.0, 0.0)]
        {
            let got = evaluator.evaluate(&[Scalar::from_f64(value, DType::F32)]).unwrap()[0].to_f64();
            assert_eq!(got, want, "{value}");
        }
    }

    #[test]
    fn powers_of_e_are_accurate_and_shorter() {
        let x = argument(DType::F32);
        let root = math::exp(&x).src()[0].clone();
        let short = rewrite(&root, &[&EXPONENTIALS]).unwrap();
        let long = rewrite(&root, &[&TRANSCENDENTAL_FUSED]).unwrap();
        let ops = |root: &UOp| postorder(std::slice::from_ref(root)).iter().filter(|n| n.op().is_elementwise()).count();
        assert!(ops(&short) + 5 < ops(&long), "{} {}", short.infix(), long.infix());
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-45, 88.7228, 88.7229, 89.0, 1e30];
        let low = [-87.3365, -87.4, -100.0, -103.0, -103.97, -103.98, -104.0, -1e30];
        let range = (0..200_000).map(|k| -105.0 + 195.0 * f64::from(k) / 200_000.0);
        let small = (1..60).flat_map(|k| [(-f64::from(k)).exp2(), -(-f64::from(k)).exp2()]);
        let mut evaluator = Evaluator::new(&[short]);
        for value in special.into_iter().chain(low).chain(range).chain(small) {
            let x = Scalar::from_f64(value, DType::F32);
            let got = evaluator.evaluate(&[x]).unwrap()[0].to_f64();
            let exact = libm::exp(x.to_f64());
            let error = error_in_last_places(got, exact, DType::F32);
            assert!(error <= 1.75, "{value:e}: {got:e}, not {exact:e}: {error} ulp");
        }
    }
}
