//! Padding by a constant, by reflection, by repetition of the edge, or around the circle.

use super::movement::shrink_axis;
use crate::dtype::Scalar;
use crate::ir::{Dim, Shape};
use crate::ops::create::full_like;
use crate::ops::shapes::{check_fits, check_size, concrete_axis, settled};
use crate::ops::{Built, fail, join};
use crate::view::dims::at_most;
use crate::{DType, UOp};

/// What stands beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// One value.
    Constant(Scalar),
    /// The elements in reverse, without the edge: `c b | a b c | b a`.
    Reflect,
    /// The edge: `a a | a b c | c c`.
    Replicate,
    /// The other end: `b c | a b c | a b`.
    Circular,
}

/// Padded by `(before, after)` of each axis; negative amounts cut off.
pub fn pad(x: &UOp, padding: &[(i64, i64)], mode: PadMode) -> Built {
    if padding.len() != x.shape().len() {
        fail!("{} pairs for {} axes", padding.len(), x.shape().len());
    }
    let mut result = x.clone();
    // An axis of which nothing is cut off may have any length.
    for (axis, &(before, after)) in padding.iter().enumerate().filter(|(_, pair)| pair.0 < 0 || pair.1 < 0) {
        let len = concrete_axis(x, axis)?;
        let (cut_before, cut_after) = (before.saturating_neg().max(0), after.saturating_neg().max(0));
        if cut_before.saturating_add(cut_after) > len {
            fail!("{before} and {after} cut more than the {len} elements of axis {axis}");
        }
        result = shrink_axis(&result, axis, cut_before, len - cut_after);
    }
    let padding: Vec<(i64, i64)> = padding.iter().map(|&(before, after)| (before.max(0), after.max(0))).collect();
    let padded: Shape = result.shape().iter().zip(&padding).map(|(len, (b, a))| &(len + *b) + *a).collect();
    check_size(&padded)?;
    if padding.iter().all(|&pair| pair == (0, 0)) {
        return Ok(result);
    }
    match mode {
        PadMode::Constant(value) => {
            check_fits(value, x.dtype())?;
            Ok(pad_with(&result, &padding, value))
        }
        PadMode::Reflect | PadMode::Replicate | PadMode::Circular => {
            for (axis, &(before, after)) in padding.iter().enumerate() {
                result = pad_from_itself(&result, axis, before, after, mode)?;
            }
            Ok(result)
        }
    }
}

/// As [`pad`], by amounts that may be symbolic, in which case they must not be negative, and the mode that of a constant.
pub fn pad_by_dims(x: &UOp, padding: &[(Dim, Dim)], mode: PadMode) -> Built {
    let numbers = padding.iter().map(|(before, after)| Some((before.as_const()?, after.as_const()?)));
    if let Some(numbers) = numbers.collect::<Option<Vec<_>>>() {
        return pad(x, &numbers, mode);
    }
    let PadMode::Constant(value) = mode else { fail!("symbolic amounts can be padded by a constant alone") };
    if padding.len() != x.shape().len() {
        fail!("{} pairs for {} axes", padding.len(), x.shape().len());
    }
    if let Some(amount) = padding.iter().flat_map(|(b, a)| [b, a]).find(|amount| !at_most(&Dim::Const(0), amount)) {
        fail!("{amount} is not known to be 0 or more: its least value is {}", amount.min_value());
    }
    check_fits(value, x.dtype())?;
    let padded = pad_with(x, padding, value);
    check_size(padded.shape())?;
    Ok(padded)
}

/// Padded by a value; zero comes for free.
pub(crate) fn pad_with<D: Into<Dim> + Clone>(x: &UOp, padding: &[(D, D)], value: Scalar) -> UOp {
    let bounds: Vec<(Dim, Dim)> =
        padding.iter().map(|(before, after)| (before.clone().into(), after.clone().into())).collect();
    let padded = settled(x.pad(&bounds));
    let value = value.cast(x.dtype());
    if value == Scalar::zero(x.dtype()) {
        return padded;
    }
    let inside = settled(full_like(&x.cast(DType::BOOL), 1).pad(&bounds));
    inside.select(padded, UOp::constant(value, x.dtype()))
}

fn pad_from_itself(x: &UOp, axis: usize, before: i64, after: i64, mode: PadMode) -> Built {
    if before == 0 && after == 0 {
        return Ok(x.clone());
    }
    let len = x.shape()[axis].clone();
    let most = match mode {
        PadMode::Reflect => len.min_value() - 1,
        PadMode::Circular => len.min_value(),
        PadMode::Replicate if len.min_value() > 0 => i64::MAX,
        PadMode::Replicate | PadMode::Constant(_) => 0,
    };
    if before.max(after) > most {
        fail!("axis {axis} of length {len} can be padded so by at most {most}, not by {}", before.max(after));
    }
    let (head, tail) = match mode {
        PadMode::Circular => (shrink_axis(x, axis, &len - before, len.clone()), shrink_axis(x, axis, 0, after)),
        PadMode::Reflect => (
            shrink_axis(x, axis, 1, 1 + before).flip(&[axis]),
            shrink_axis(x, axis, &len - (after + 1), &len - 1).flip(&[axis]),
        ),
        PadMode::Replicate | PadMode::Constant(_) => {
            let edge = |at: Dim, times: i64| {
                let next = &at + 1;
                let edge = shrink_axis(x, axis, at, next);
                let mut lengths = edge.shape().to_vec();
                lengths[axis] = times.into();
                edge.expand(lengths)
            };
            (edge(Dim::Const(0), before), edge(&len - 1, after))
        }
    };
    join::cat(&[head, x.clone(), tail], axis as i64)
}
