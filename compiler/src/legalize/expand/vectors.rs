//! Vectors made of values: the same value in all lanes, a ramp, one lane.
//!
//! Tested with the whole ([`super`]).

use smallvec::smallvec;

use crate::dtype::Scalar;
use crate::ir::{Arg, Op, UOp};

/// base, base + step, ... as a vector.
pub(super) fn ramp(base: &UOp, step: i64, count: usize) -> UOp {
    if step == 0 {
        return splat(base, count);
    }
    UOp::new(Op::Ramp, base.dtype().with_lanes(count), smallvec![base.clone()], Arg::Number(step))
}

/// One lane.
pub(super) fn lane_of_vector(vector: &UOp, number: usize) -> UOp {
    match vector.op() {
        Op::Splat => vector.src()[0].clone(),
        _ => UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number as i64)),
    }
}

/// The value in every lane; itself if it is a vector already.
pub(super) fn splat(value: &UOp, count: usize) -> UOp {
    if value.dtype().lanes() == count && count > 1 {
        return value.clone();
    }
    if let Arg::Scalar(scalar) = value.arg() {
        return constant_vector(*scalar, value, count);
    }
    UOp::new(Op::Splat, value.dtype().with_lanes(count), smallvec![value.clone()], Arg::None)
}

fn constant_vector(scalar: Scalar, like: &UOp, count: usize) -> UOp {
    UOp::constant(scalar, like.dtype().with_lanes(count))
}
