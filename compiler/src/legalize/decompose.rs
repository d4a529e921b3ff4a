//! Ops that a target lacks become ops that it has, in stages; each stage runs to its end before the next begins.
//!
//! 1. *half floats*: arithmetic on `f16` and `bf16` becomes `f32` arithmetic, rounded after each op ([`HALF_FLOATS`]), but for what the machine computes of `f16` itself.
//! 2. *division*: quotients and remainders that round to minus infinity become shifts, masks, or division toward zero with a
//!    correction where signs may differ.
//! 3. *powers of e*: for GPUs polynomials of their own ([`EXPONENTIALS`]). Where the kernel gives nothing but half floats, they are the machine's own powers of two
//!    ([`POWERS_OF_TWO`]), which err by 2^-22: of the last place of a half float that is less than a hundredth.
//! 4. *transcendental*: exponentials, logarithms, sines and cosines become polynomials ([`TRANSCENDENTAL`]).
//!
//! What a program writes as a product and a sum is never made one fused multiply-add: it would round once here and twice where the product
//! is stored or used beside, and one value would have two results. Fused are a `muladd` of the program, steps of polynomials, and the product that
//! a reduction adds to its accumulator, which nobody else sees.
//!
//! Afterwards no `idiv`, `mod`, `log2` or `sin` is left, no `exp2` but those of 3, and no arithmetic on half floats that the target has not. All of it
//! works on scalars and on vectors alike.
//!
//! Tested: division against its definition, exhaustively for 8-bit types; the stages in their files; machine code against the
//! interpreter in the test crate.

use super::exponentials::{EXPONENTIALS, POWERS_OF_TWO};
use super::half_floats::{HALF_FLOATS, HALF_FLOATS_CAST, HALF_FLOATS_COMPUTED};
use super::transcendental::{TRANSCENDENTAL, TRANSCENDENTAL_BUT_POWERS, TRANSCENDENTAL_FUSED};
use crate::dtype::{DType, ScalarType};
use crate::ir::{Op, UOp};
use crate::rewrite::{RuleSet, rewrite};
use crate::rules;
use crate::target::{Language, Target};

/// Rule sets that run together to a fixed point.
pub struct Stage {
    /// What it does, for traces.
    pub name: &'static str,
    /// The rules, tried in order.
    pub rules: Vec<&'static RuleSet>,
}

/// The stages for a target, in order; of a kernel that gives nothing but half floats.
pub fn stages(target: &Target, gives_halves: bool) -> Vec<Stage> {
    let stage = |name, rules: &'static RuleSet| Stage { name, rules: vec![rules] };
    match target.language {
        // The interpreter has every op.
        Language::Text => Vec::new(),
        Language::Llvm | Language::Ptx => {
            let transcendental = if target.has_fma { &TRANSCENDENTAL_FUSED } else { &TRANSCENDENTAL };
            // The first machines of NVIDIA that round to bf16.
            let casts_bf16 = target.compute_capability().is_some_and(|capability| capability >= 80);
            let half_floats = match (casts_bf16, target.has_half_arithmetic) {
                (true, _) => &HALF_FLOATS_CAST,
                (false, true) => &HALF_FLOATS_COMPUTED,
                (false, false) => &HALF_FLOATS,
            };
            let mut stages =
                vec![stage("half floats compute in f32", half_floats), stage("division becomes simple", &DIVISION)];
            // Vectors of CPUs wait for memory; lanes of GPUs for each other's instructions.
            match target.language == Language::Ptx {
                true if gives_halves => {
                    stages.push(stage("powers of e become powers of two", &POWERS_OF_TWO));
                    stages.push(stage("transcendental functions become polynomials", &TRANSCENDENTAL_BUT_POWERS));
                }
                is_ptx => {
                    if is_ptx {
                        stages.push(stage("powers of e become polynomials", &EXPONENTIALS));
                    }
                    stages.push(stage("transcendental functions become polynomials", transcendental));
                }
            }
            stages
        }
    }
}

/// The kernel in ops that the target has.
pub fn decompose(root: &UOp, target: &Target) -> UOp {
    let is_half = |dtype: DType| matches!(dtype.scalar(), ScalarType::F16 | ScalarType::BF16);
    let gives_halves = root.op() == Op::Sink
        && root.src().iter().all(|store| store.op() == Op::Store && is_half(store.src()[1].dtype()));
    stages(target, gives_halves).iter().fold(root.clone(), |node, stage| match rewrite(&node, &stage.rules) {
        Ok(node) => node,
        Err(limit) => panic!("bug in the compiler: {}: {limit}", stage.name),
    })
}

rules! {
    /// Division: the fewest and cheapest ops that the facts of the operands allow.
    pub DIVISION |root| for root.dtype().is_integer() =>
    "idiv-by-power":  [a, c]  a.idiv(c)    => a.shr(&c.const_like(exponent(c)?));
    "mod-by-power":   [a, c]  a.modulo(c)  => a.and(&low_bits(c)?);
    "cdiv-by-power":  [a, c]  a.cdiv(c)    => a.shr(&c.const_like(exponent(c)?)), if never_negative(a);
    "cmod-by-power":  [a, c]  a.cmod(c)    => a.and(&low_bits(c)?), if never_negative(a);
    "idiv-no-signs":  [a, b]  a.idiv(b)    => a.cdiv(b), if never_negative(a) && never_negative(b);
    "mod-no-signs":   [a, b]  a.modulo(b)  => a.cmod(b), if never_negative(a) && never_negative(b);
    "idiv-by-any":    [a, b]  a.idiv(b)    => corrected_quotient(a, b);
    "mod-by-any":     [a, b]  a.modulo(b)  => corrected_remainder(a, b);
}

fn never_negative(node: &UOp) -> bool {
    node.dtype().is_unsigned() || node.min_value() >= 0
}

/// k of a constant 2^k.
fn exponent(constant: &UOp) -> Option<i64> {
    constant.as_int().filter(|value| *value > 0 && value.count_ones() == 1).map(|value| value.trailing_zeros() as i64)
}

/// The constant 2^k - 1 of a constant 2^k.
fn low_bits(constant: &UOp) -> Option<UOp> {
    exponent(constant).map(|exponent| constant.const_like((1 << exponent) - 1))
}

/// Whether rounding toward zero went up: the remainder is there and its sign is not that of the divisor.
fn rounded_up(remainder: &UOp, divisor: &UOp) -> UOp {
    if divisor.min_value() > 0 {
        return remainder.lt(0);
    }
    let negative = remainder.lt(0).differs(&divisor.lt(0));
    remainder.differs(0).and(&negative)
}

fn corrected_quotient(a: &UOp, b: &UOp) -> UOp {
    let quotient = a.cdiv(b);
    // One multiplication is cheaper than a second division; but by 0 the remainder is 0, not a.
    let remainder = if b.facts().contains(0) { a.cmod(b) } else { a - &quotient * b };
    rounded_up(&remainder, b).select(&quotient - 1, &quotient)
}

fn corrected_remainder(a: &UOp, b: &UOp) -> UOp {
    let remainder = a.cmod(b);
    rounded_up(&remainder, b).select(&remainder + b, &remainder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Scalar};
    use crate::ir::{Arg, Evaluator, Op, postorder};

    fn count(root: &UOp, op: Op) -> usize {
        postorder(std::slice::from_ref(root)).iter().filter(|node| node.op() == op).count()
    }

    /// A scalar that nothing is known of.
    fn unknown(number: u32, dtype: DType) -> UOp {
        let index = UOp::new(Op::Index, dtype, [UOp::param(number, dtype, 1), UOp::index(0)].to_vec(), Arg::None);
        UOp::new(Op::Load, dtype, [index].to_vec(), Arg::None)
    }

    fn divided(root: &UOp) -> UOp {
        let result = rewrite(root, &[&DIVISION]).unwrap();
        assert_eq!(count(&result, Op::IDiv) + count(&result, Op::Mod), 0, "{}", result.infix());
        result
    }

    #[test]
    fn every_quotient_and_remainder_of_bytes() {
        for dtype in [DType::I8, DType::U8] {
            let (a, b) = (unknown(0, dtype), unknown(1, dtype));
            for exact in [a.idiv(&b), a.modulo(&b)] {
                let mut both = Evaluator::new(&[divided(&exact), exact.clone()]);
                assert_eq!(both.leaves(), [a.clone(), b.clone()]);
                for bits in 0..1 << 16 {
                    let x = Scalar::from_bits(bits & 0xff, dtype);
                    let y = Scalar::from_bits(bits >> 8, dtype);
                    let values = both.evaluate(&[x, y]).unwrap();
                    assert_eq!(values[0], values[1], "{dtype} {} {x:?} {y:?}", exact.op());
                }
            }
        }
    }

    #[test]
    fn division_by_constants_of_what_has_bounds() {
        for (low, high) in [(-40, 40), (0, 40), (-40, -1)] {
            let x = UOp::variable("x", low, high);
            for divisor in -17..=17 {
                for exact in [x.idiv(divisor), x.modulo(divisor), x.cdiv(divisor), x.cmod(divisor)] {
                    let mut both = Evaluator::new(&[divided(&exact), exact.clone()]);
                    for value in low..=high {
                        let values = both.evaluate(&[Scalar::Int(value)]).unwrap();
                        assert_eq!(values[0], values[1], "{} at {value}", exact.infix());
                    }
                }
            }
        }
    }

    #[test]
    fn facts_make_division_cheap() {
        let (x, y) = (UOp::variable("x", 0, 99), UOp::variable("y", -9, 9));
        assert_eq!(divided(&x.idiv(8)).infix(), "(x >> 3)");
        assert_eq!(divided(&y.modulo(8)).infix(), "(y & 7)");
        assert_eq!(divided(&x.modulo(10)), x.cmod(10));
        assert_eq!(count(&divided(&y.idiv(10)), Op::Where), 1);
    }

    #[test]
    fn products_and_sums_of_a_program_round_twice() {
        let float = |number| unknown(number, DType::F32);
        let (a, b, c) = (float(0), float(1), float(2));
        for root in [&c + &a * &b, &a * &b - &c, &c - &a * &b, a.muladd(&b, &c)] {
            assert_eq!(decompose(&root, &Target::test_avx512()), root);
        }
    }

    #[test]
    fn powers_of_two_of_a_gpu_are_for_half_floats_alone() {
        let of = |dtype: DType| {
            let value = crate::ops::math::exp(&unknown(1, DType::F32)).src()[0].cast(dtype);
            let index = UOp::new(Op::Index, dtype, vec![UOp::param(0, dtype, 1), UOp::index(0)], Arg::None);
            let store = UOp::new(Op::Store, DType::VOID, vec![index, value], Arg::None);
            let kernel = decompose(&UOp::sink([store]), &Target::gpu_model());
            (count(&kernel, Op::Exp2), count(&kernel, Op::MulAdd))
        };
        assert_eq!([DType::F16, DType::BF16].map(of), [(1, 0); 2]);
        let (powers, steps) = of(DType::F32);
        assert!(powers == 0 && steps > 5, "{steps}");
    }

    #[test]
    fn nothing_that_a_machine_lacks_is_left() {
        let lanes = DType::F16.with_lanes(8);
        let x = unknown(0, lanes);
        let y = unknown(1, DType::BF16.with_lanes(8)).cast(lanes);
        let root = (x.exp2() * y.log2() + x.sin() * x.cos()).max(&y);
        let simple = decompose(&root, &Target::test_avx512());
        let lacking = [Op::Exp2, Op::Log2, Op::Sin, Op::Cos];
        for node in postorder(&[simple]) {
            assert!(!lacking.contains(&node.op()), "{node:?}");
            let arithmetic = node.op().is_elementwise() && !matches!(node.op(), Op::Cast | Op::Bitcast | Op::Where);
            assert!(!(arithmetic && node.dtype().bytes() == 2 && node.dtype().is_float()), "{node:?}");
        }
        assert_eq!(decompose(&root, &Target::interpreter()), root);
    }
}
