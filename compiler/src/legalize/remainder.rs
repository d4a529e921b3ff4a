//! The remainder of two `f32` numbers with the sign of the first, in `f64`, so that it vectorises.
//!
//! The quotient of two `f32` numbers has up to 277 bits before its point. They are taken away from the top, 47 at a time: a rounded quotient of that many bits is off by
//! one at most, since an `f64` has 53, and the rest after it is a multiple of a part of the divisor, no more than twice that, so that a fused multiply-add has it exactly.
//! The last rest is brought between zero and the divisor.
//!
//! Always: the exact remainder, of denormals, too; NaN for an infinite first number or a divisor zero, and the first number for an infinite divisor. There is no branch.
//! Tested below against the interpreter's op, and by machine code in the test crate.

use super::transcendental::Math;
use crate::dtype::DType;
use crate::ir::UOp;

/// Bits of the quotient that one step takes away, and how many steps come before the last.
const BITS_OF_STEP: i32 = 47;
const STEPS_BEFORE: i32 = 5;
/// What stands for an infinite divisor: more than any finite `f32`.
const BEYOND_SINGLE: f64 = 1.607e60;

/// a - b * trunc(a / b), of `f32`.
pub(super) fn fmod(a: &UOp, b: &UOp) -> UOp {
    let single = Math::of(a, true);
    let double = Math::in_type(DType::F64.with_lanes(single.float.lanes()), true);
    let sign = single.pattern(1 << 31);
    let size = |x: &UOp| single.float_of(&single.bits_of(x).and(&single.pattern((1 << 31) - 1))).cast(double.float);
    let divisor = size(b);
    // NaN is different from infinity, and stays.
    let divisor = divisor.differs(&double.number(f64::INFINITY)).select(&divisor, double.number(BEYOND_SINGLE));
    let inverse = double.number(1.0).div(&divisor);
    let mut rest = size(a);
    for step in (0..=STEPS_BEFORE).rev() {
        let unit = f64::from(BITS_OF_STEP * step).exp2();
        let quotient = (&rest * (&inverse * double.number(1.0 / unit))).trunc();
        rest = (-&quotient).muladd(&(&divisor * double.number(unit)), &rest);
    }
    let rest = rest.lt(&double.number(0.0)).select(&rest + &divisor, &rest);
    let rest = rest.lt(&divisor).select(&rest, &rest - &divisor);
    single.float_of(&(single.bits_of(&rest.cast(single.float)) ^ (single.bits_of(a) & sign)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;
    use crate::ir::{Evaluator, Op};
    use crate::legalize::transcendental::{TRANSCENDENTAL_FUSED, argument};
    use crate::rewrite::rewrite;

    #[test]
    fn remainders_are_exact() {
        let sizes = (-149..128).step_by(3).map(|exponent| f64::from(exponent).exp2() * 1.372_193);
        let near = (1..40).map(|number| f64::from(number) * 0.7);
        let special = [
            0.0,
            f64::INFINITY,
            f64::NAN,
            f64::from(f32::MAX),
            f64::from(f32::MIN_POSITIVE),
            1e-45,
            3.0,
            2.1,
            16_777_216.0,
        ];
        let values: Vec<f32> =
            special.into_iter().chain(sizes).chain(near).flat_map(|value| [value as f32, -value as f32]).collect();
        let x = argument(DType::F32);
        for &divisor in &values {
            let simple =
                rewrite(&x.cmod(&UOp::float(f64::from(divisor), DType::F32)), &[&TRANSCENDENTAL_FUSED]).unwrap();
            assert!(!simple.contains(Op::CMod));
            let mut evaluator = Evaluator::new(&[simple]);
            for &value in &values {
                let got =
                    evaluator.evaluate(&[Scalar::from_f64(f64::from(value), DType::F32)]).unwrap()[0].to_f64() as f32;
                let exact = value % divisor;
                let is_same = got.to_bits() == exact.to_bits() || got.is_nan() && exact.is_nan();
                assert!(is_same, "{value:e} % {divisor:e}: {got:e}, not {exact:e}");
            }
        }
    }
}
