//! Arithmetic on `f16` and `bf16`: done in `f32` and rounded after every op, as the interpreter does it.
//!
//! | from | to | how |
//! |---|---|---|
//! | `f16` | `f32`, `f64` | the machine's own cast |
//! | `f32` | `f16` | the machine's own cast |
//! | `bf16` | `f32` | the bits, shifted up |
//! | `f32` | `bf16` | the bits, rounded to the nearest and ties to even, shifted down; NaN stays NaN |
//! | `f32` | `bf16`, and back, in the set for machines that have these casts | the machine's own cast |
//! | `f64` | either | through `f32` *rounded to odd*, so that rounding twice is rounding once |
//! | anything else | either, and back | through `f32` |
//!
//! A sum, difference, product, quotient or square root of `f16` that is rounded to `f32` and then to `f16` is what one rounding gives: `f32` has two bits more than twice those of `f16`
//! (Figueroa, "When is double rounding innocuous?", 1995). So on machines that compute these themselves they stay as they are, with the same values.
//!
//! Always: afterwards no other arithmetic op has an operand or result of these types; what only moves values (`where`, loads, vectors)
//! keeps them. Reductions over them accumulate in `f32`. Tested: conversions for every bit pattern of the half types, and at the
//! boundaries between them; arithmetic against the interpreter's.

use std::sync::LazyLock;

use crate::dtype::{DType, Scalar, ScalarType};
use crate::ir::{Arg, Op, Sources, UOp, is_defined};
use crate::rewrite::rules::Build;
use crate::rewrite::{Pattern, Rule, RuleSet};

/// Half-float arithmetic becomes `f32` arithmetic.
pub static HALF_FLOATS: LazyLock<RuleSet> = LazyLock::new(|| {
    let casts = Rule::new(Op::Cast.name(), &[], Pattern::any(Op::Cast, "x"), |root, _| convert(root));
    rule_set("HALF_FLOATS", casts, |root, _| in_f32(root))
});

/// The same for machines that compute some of `f16` themselves.
pub static HALF_FLOATS_COMPUTED: LazyLock<RuleSet> = LazyLock::new(|| {
    let casts = Rule::new(Op::Cast.name(), &[], Pattern::any(Op::Cast, "x"), |root, _| convert(root));
    rule_set("HALF_FLOATS_COMPUTED", casts, |root, _| if rounds_alike(root) { None } else { in_f32(root) })
});

/// Whether an op is of `f16` alone and gives the same by one rounding as by two.
fn rounds_alike(root: &UOp) -> bool {
    let is_f16 = |node: &UOp| node.dtype().scalar() == ScalarType::F16;
    let rounds_once = matches!(root.op(), Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Sqrt);
    rounds_once && is_f16(root) && root.src().iter().all(is_f16)
}

/// The same for machines that cast between `bf16` and `f32` themselves.
pub static HALF_FLOATS_CAST: LazyLock<RuleSet> = LazyLock::new(|| {
    let casts = Rule::new(Op::Cast.name(), &[], Pattern::any(Op::Cast, "x"), |root, _| {
        match (root.src()[0].dtype().scalar(), root.dtype().scalar()) {
            (ScalarType::BF16, ScalarType::F32) | (ScalarType::F32, ScalarType::BF16) => None,
            _ => convert(root),
        }
    });
    rule_set("HALF_FLOATS_CAST", casts, |root, _| in_f32(root))
});

fn rule_set(name: &'static str, casts: Rule, compute: Build) -> RuleSet {
    let rule = |op: Op| Rule::new(op.name(), &[], Pattern::any(op, "x"), compute);
    let arithmetic = Op::ALL.iter().copied().filter(|op| computes(*op));
    let rules = arithmetic.map(rule).chain([casts]).collect();
    RuleSet::new(name, |root| is_half(root.dtype()) || root.src().iter().any(|x| is_half(x.dtype())), rules)
}

/// Whether an op that half floats have makes new values, rather than moving or reinterpreting them.
fn computes(op: Op) -> bool {
    let moves = matches!(op, Op::Where | Op::Cast | Op::Bitcast);
    is_defined(op, DType::F16) && !moves || matches!(op, Op::ReduceRange | Op::HorizontalReduce)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype.scalar(), ScalarType::F16 | ScalarType::BF16)
}

/// The same type with other elements.
fn like(dtype: DType, element: DType) -> DType {
    element.with_lanes(dtype.lanes())
}

/// The op over operands in `f32`, rounded. A reduction that renews accumulators only moves what was computed before.
fn in_f32(root: &UOp) -> Option<UOp> {
    if let Arg::Step(_) = root.arg() {
        return None;
    }
    let src: Sources = root.src().iter().map(widened).collect();
    let dtype = if is_half(root.dtype()) { like(root.dtype(), DType::F32) } else { root.dtype() };
    Some(UOp::new(root.op(), dtype, src, root.arg().clone()).cast(root.dtype()))
}

fn widened(node: &UOp) -> UOp {
    match node.as_scalar() {
        _ if !is_half(node.dtype()) => node.clone(),
        Some(value) => UOp::constant(value, like(node.dtype(), DType::F32)),
        None => node.cast(like(node.dtype(), DType::F32)),
    }
}

/// A cast from or to a half type in terms of simpler ones; `None` if the machine has it.
fn convert(root: &UOp) -> Option<UOp> {
    let source = &root.src()[0];
    let (from, to) = (source.dtype(), root.dtype());
    let single = like(to, DType::F32);
    match (from.scalar(), to.scalar()) {
        (ScalarType::F16, ScalarType::F32 | ScalarType::F64) | (ScalarType::F32, ScalarType::F16) => None,
        (ScalarType::BF16, ScalarType::F32) => Some(from_bf16(source)),
        (ScalarType::F32, ScalarType::BF16) => Some(to_bf16(source)),
        (ScalarType::F64, _) => Some(rounded_to_odd(source).cast(to)),
        _ => Some(source.cast(single).cast(to)),
    }
}

fn from_bf16(x: &UOp) -> UOp {
    let dtype = x.dtype();
    let bits = x.bitcast(like(dtype, DType::U16)).cast(like(dtype, DType::U32));
    bits.shl(16).bitcast(like(dtype, DType::F32))
}

fn to_bf16(x: &UOp) -> UOp {
    let bits = x.bitcast(like(x.dtype(), DType::U32));
    let high = bits.shr(16);
    // Half of the last place kept, less one if that place is even: only ties look at it.
    let rounded = (&bits + (high.and(1) + 0x7fff)).shr(16);
    // Rounding could carry a NaN over to zero; the quiet bit keeps what is left of it a NaN.
    let kept = x.differs(x).select(high.or(0x40), rounded);
    kept.cast(like(x.dtype(), DType::U16)).bitcast(like(x.dtype(), DType::BF16))
}

/// An `f64` as `f32`, its last bit set if it is not exact: then rounding further down rounds as if from the `f64` itself (Boldo and
/// Melquiond, "When double rounding is odd", 2005).
fn rounded_to_odd(x: &UOp) -> UOp {
    let (double, single) = (x.dtype(), like(x.dtype(), DType::F32));
    let nearest = x.cast(single);
    let back = nearest.cast(double);
    let integer = like(double, DType::U32);
    let bits = nearest.bitcast(integer);
    let size = |x: &UOp| {
        let integer = like(double, DType::U64);
        let mask = UOp::constant(Scalar::UInt(u64::MAX >> 1), integer);
        x.bitcast(integer).and(&mask)
    };
    // Bits of floats of one sign are ordered as the floats are.
    let went_up = size(x).lt(&size(&back));
    let toward_zero = went_up.select(&bits - 1, &bits);
    let inexact = back.differs(x).and(&bits.and(0x7fff_ffff).lt(0x7f80_0000));
    inexact.select(toward_zero.or(1), &bits).bitcast(single)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Evaluator, postorder};
    use crate::rewrite::rewrite;

    /// A scalar leaf.
    fn leaf(number: u32, dtype: DType) -> UOp {
        let index = UOp::new(Op::Index, dtype, [UOp::param(number, dtype, 1), UOp::index(0)].to_vec(), Arg::None);
        UOp::new(Op::Load, dtype, [index].to_vec(), Arg::None)
    }

    fn rewritten(root: &UOp) -> UOp {
        rewrite(root, &[&HALF_FLOATS]).unwrap()
    }

    #[track_caller]
    fn check(exact: &UOp, values: impl IntoIterator<Item = Scalar>) {
        let simple = rewritten(exact);
        assert_ne!(simple, *exact);
        let mut both = Evaluator::new(&[simple, exact.clone()]);
        for value in values {
            let results = both.evaluate(&[value]).unwrap();
            assert_eq!(results[0], results[1], "{value:?} from {}", exact.infix());
        }
    }

    fn every_half(dtype: DType) -> impl Iterator<Item = Scalar> {
        (0..=u16::MAX as u64).map(move |bits| Scalar::from_bits(bits, dtype))
    }

    #[test]
    fn every_half_float_converts() {
        for half in [DType::F16, DType::BF16] {
            for other in [DType::F32, DType::F64, DType::I32, DType::U8, DType::BOOL, DType::F16, DType::BF16] {
                let cast = leaf(0, half).cast(other);
                if rewritten(&cast) != cast {
                    check(&cast, every_half(half));
                }
            }
        }
    }

    #[test]
    fn floats_round_once_to_half_floats() {
        for half in [DType::F16, DType::BF16] {
            // Each neighbourhood of a tie between two half floats, in both wider types.
            let ties = every_half(half).filter(|value| value.to_f64().is_finite()).step_by(11).flat_map(|value| {
                let low = value.to_f64();
                let high = Scalar::from_bits(value.to_bits(half) + 1, half).to_f64();
                let tie = if high.is_finite() { low / 2.0 + high / 2.0 } else { low };
                [tie, tie.next_up(), tie.next_down(), tie * (1.0 + 1e-7), tie * (1.0 - 1e-7), low]
            });
            let extremes = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e-300, 65520.0, 3.4e38];
            let values: Vec<f64> = ties.chain(extremes).collect();
            check(&leaf(0, DType::F64).cast(half), values.iter().map(|&value| Scalar::float(value)));
            if half == DType::BF16 {
                let singles = values.iter().map(|&value| Scalar::from_f64(value, DType::F32));
                check(&leaf(0, DType::F32).cast(half), singles);
            }
        }
    }

    #[test]
    fn integers_and_bools_become_half_floats() {
        for half in [DType::F16, DType::BF16] {
            let integers = [0, 1, -1, 255, 257, 2049, -65504, 65520, i64::MAX, i64::MIN, (1 << 40) + 1];
            check(&leaf(0, DType::I64).cast(half), integers.into_iter().map(Scalar::Int));
            check(&leaf(0, DType::BOOL).cast(half), [false, true].into_iter().map(Scalar::Bool));
        }
    }

    #[test]
    fn every_op_is_rounded() {
        for half in [DType::F16, DType::BF16] {
            let (a, b) = (leaf(0, half), leaf(1, half));
            let sum = &a + &b * 3;
            let roots = [sum.clone(), a.div(&b), a.sqrt(), a.max(&b), -&a, sum.muladd(&a, &b), a.lt(&b), a.trunc()];
            for exact in roots {
                let mut both = Evaluator::new(&[rewritten(&exact), exact.clone()]);
                for x in every_half(half).step_by(1021) {
                    for y in every_half(half).step_by(2039) {
                        let results = both.evaluate(&[x, y]).unwrap();
                        assert_eq!(results[0], results[1], "{} at {x:?} {y:?}", exact.infix());
                    }
                }
            }
        }
    }

    #[test]
    fn casts_that_a_machine_has_stay() {
        let (single, half) = (leaf(0, DType::F32), leaf(1, DType::BF16));
        for cast in [single.cast(DType::BF16), half.cast(DType::F32)] {
            assert_eq!(rewrite(&cast, &[&HALF_FLOATS_CAST]).unwrap(), cast);
        }
        let product = &half * &half;
        let expected = (half.cast(DType::F32) * half.cast(DType::F32)).cast(DType::BF16);
        assert_eq!(rewrite(&product, &[&HALF_FLOATS_CAST]).unwrap(), expected);
    }

    #[test]
    fn what_a_machine_computes_of_f16_stays_and_is_rounded_once_either_way() {
        let (a, b) = (leaf(0, DType::F16), leaf(1, DType::F16));
        let computed = |root: &UOp| rewrite(root, &[&HALF_FLOATS_COMPUTED]).unwrap();
        type Exact = fn(f64, f64) -> f64;
        let ops: [(UOp, Exact); 5] = [
            (&a + &b, |x, y| x + y),
            (&a - &b, |x, y| x - y),
            (&a * &b, |x, y| x * y),
            (a.div(&b), |x, y| x / y),
            (a.sqrt(), |x, _| x.sqrt()),
        ];
        for (op, exact) in ops {
            assert_eq!(computed(&op), op);
            // `f64` has the sums and products, and more bits than twice those of the others: rounded to `f16` it is what one rounding gives.
            let mut in_f32 = Evaluator::new(&[rewritten(&op)]);
            for x in every_half(DType::F16).step_by(61) {
                for y in every_half(DType::F16).step_by(509) {
                    let once = Scalar::from_f64(exact(x.to_f64(), y.to_f64()), DType::F16);
                    let found = in_f32.evaluate(&[x, y]).unwrap()[0];
                    let same = found == once || found.to_f64().is_nan() && once.to_f64().is_nan();
                    assert!(same, "{} at {x:?} {y:?}: {found:?}, not {once:?}", op.infix());
                }
            }
        }
        let brain = leaf(2, DType::BF16);
        for other in [a.max(&b), a.muladd(&b, &a), -&a, a.lt(&b), &brain + &brain] {
            assert_eq!(computed(&other), rewritten(&other));
        }
    }

    #[test]
    fn what_only_moves_stays() {
        let (a, b) = (leaf(0, DType::BF16), leaf(1, DType::BF16));
        let choice = leaf(2, DType::BOOL).select(&a, &b);
        assert_eq!(rewritten(&choice), choice);
        let vector = leaf(3, DType::F16.with_lanes(4));
        let across =
            UOp::new(Op::HorizontalReduce, DType::F16, [vector].to_vec(), Arg::Combine(crate::ir::ReduceOp::Add));
        let result = rewritten(&across);
        assert!(
            postorder(&[result]).iter().any(|node| node.op() == Op::HorizontalReduce && node.dtype() == DType::F32)
        );
    }
}
