//! Exponentials, logarithms and sines as machines compute them, held to their last places at random numbers and at special ones.
//!
//! What is computed for a target (half floats, then polynomials) is evaluated and compared with `f64` functions of the host's library, which
//! for the narrower types is exact but for a last place of `f64`. A result is wrong by the distance to the exact one, in units of the last place
//! of its type there; NaN, infinities and the sign of zero have to be the same.

use std::sync::LazyLock;

use warpweft_compiler::DType;
use warpweft_compiler::dtype::{Scalar, error_in_last_places};
use warpweft_compiler::ir::{Arg, Evaluator, Op, UOp};
use warpweft_compiler::legalize::decompose::decompose;
use warpweft_compiler::target::Target;

use crate::choices::Choices;

/// An op, what it means, and the units in the last place that it may be off by in `f32` and `f64`: the larger one of the bounds that
/// `legalize/transcendental.rs` states, with fused multiply-add and without.
struct Function {
    op: Op,
    exact: fn(f64) -> f64,
    ulps: f64,
}

const FUNCTIONS: [Function; 4] = [
    Function { op: Op::Exp2, exact: f64::exp2, ulps: 1.75 },
    Function { op: Op::Log2, exact: f64::log2, ulps: 1.75 },
    Function { op: Op::Sin, exact: f64::sin, ulps: 1.75 },
    Function { op: Op::Cos, exact: f64::cos, ulps: 1.75 },
];

const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Each function of each type, as a machine with and one without fused multiply-add computes it.
static LOWERED: LazyLock<Vec<[UOp; 2]>> = LazyLock::new(|| {
    let cases = FUNCTIONS.iter().flat_map(|function| TYPES.map(|dtype| (function.op, dtype)));
    cases
        .map(|(op, dtype)| {
            let index = UOp::new(Op::Index, dtype, vec![UOp::param(0, dtype, 1), UOp::index(0)], Arg::None);
            let root = UOp::new(op, dtype, vec![UOp::new(Op::Load, dtype, vec![index], Arg::None)], Arg::None);
            [Target::test_sse2(), Target::test_avx512()].map(|target| decompose(&root, &target))
        })
        .collect()
});

/// A function at some numbers, chosen by the bytes, is off by no more than it may be.
///
/// # Errors
/// With the function, the number, and both results.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let number = choices.between(0, LOWERED.len() as i64 - 1) as usize;
    let (function, dtype) = (&FUNCTIONS[number / TYPES.len()], TYPES[number % TYPES.len()]);
    let mut both = Evaluator::new(&LOWERED[number]);
    for _ in 0..8 {
        let x = argument(&mut choices, dtype);
        let Some(results) = both.evaluate(&[x]) else {
            return Err(format!("{} of {dtype} is not lowered", function.op));
        };
        let exact = (function.exact)(x.to_f64());
        for (result, way) in results.iter().zip(["without", "with"]) {
            let error = error_in_last_places(result.to_f64(), exact, dtype);
            // Half floats are rounded from `f32`, whose own error moves few of them across a tie.
            if error > function.ulps {
                return Err(format!(
                    "{}({:e}) of {dtype} {way} fused multiply-add is {:e}, {error} units in the last place from {exact:e}",
                    function.op,
                    x.to_f64(),
                    result.to_f64()
                ));
            }
        }
    }
    Ok(())
}

/// Any bits, a number of a size that the functions are used at, or a special one.
fn argument(choices: &mut Choices<'_>, dtype: DType) -> Scalar {
    let bits = (0..8).fold(0u64, |bits, _| bits << 8 | choices.byte() as u64);
    let tiny = Scalar::from_bits(1 + bits % 3, dtype).to_f64();
    let special =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, tiny, -tiny, 2.0, 1e30, f64::MAX];
    match choices.between(0, 3) {
        0 => Scalar::from_f64(special[(bits % special.len() as u64) as usize], dtype),
        1 => Scalar::from_f64((bits as i64 as f64) / 2f64.powi(63) * 200.0, dtype),
        2 => Scalar::from_f64(1.0 + (bits as i64 as f64) / 2f64.powi(64), dtype),
        _ => Scalar::from_bits(bits >> (64 - 8 * dtype.bytes() as u64).min(63), dtype),
    }
}
