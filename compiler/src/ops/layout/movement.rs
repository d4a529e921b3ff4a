//! Other orders, shapes and repetitions of the same elements.

use crate::UOp;
use crate::ir::{Dim, Shape};
use crate::ops::shapes::{check_size, common_length, concrete_axis, resolve_axes, settled};
use crate::ops::{Built, broadcast_to, fail, resolve_axis};
use crate::view::dims::{at_most, divide_exactly};

/// The elements under another shape; one length may be -1, and is then computed.
pub fn reshape(x: &UOp, lengths: &[Dim]) -> Built {
    let unknown: Vec<usize> = (0..lengths.len()).filter(|&k| lengths[k].is(-1)).collect();
    let mut lengths = lengths.to_vec();
    if let [axis] = unknown[..] {
        lengths[axis] = Dim::Const(1);
        let rest = Shape::from(lengths.clone()).numel();
        lengths[axis] = match (x.shape().numel().as_const(), rest.as_const()) {
            (Some(total), Some(rest)) if rest != 0 && total % rest == 0 => Dim::Const(total / rest),
            (Some(_), Some(0)) => fail!("-1 cannot be computed: the other lengths already make 0 elements"),
            (Some(total), Some(rest)) => fail!("-1 cannot be computed: {total} elements are no multiple of {rest}"),
            _ => match divide_exactly(&x.shape().numel(), &rest) {
                Some(length) => length,
                None => fail!("-1 cannot be computed: {} is not known to be a multiple of {rest}", x.shape().numel()),
            },
        };
    } else if unknown.len() > 1 {
        fail!("only one length may be -1, and {} are", unknown.len());
    }
    let shape = Shape::from(lengths);
    check_size(&shape)?;
    let (have, want) = (x.shape().numel(), shape.numel());
    match common_length(&have, &want)? {
        Some(_) => Ok(x.reshape(shape)),
        None if have.as_const().is_some() && want.as_const().is_some() => {
            fail!("{} has {have} elements and {shape} has {want}", x.shape())
        }
        None => fail!("{} has {have} elements and {shape} has {want}, which are not known to be equal", x.shape()),
    }
}

/// Axes in another order.
pub fn permute(x: &UOp, order: &[i64]) -> Built {
    let rank = x.shape().len();
    let resolved = order.iter().map(|&axis| resolve_axis(axis, rank)).collect::<Built<Vec<usize>>>()?;
    let mut seen = vec![false; rank];
    resolved.iter().for_each(|&axis| seen[axis] = true);
    if resolved.len() != rank || seen.contains(&false) {
        fail!("{order:?} does not name each of the {rank} axes once");
    }
    Ok(reorder(x, &resolved))
}

/// As [`permute`], for an order that is known to be one; itself if it changes nothing.
pub(in crate::ops) fn reorder(x: &UOp, order: &[usize]) -> UOp {
    if order.iter().enumerate().all(|(k, &axis)| k == axis) { x.clone() } else { x.permute(order) }
}

/// Two axes exchanged.
pub fn transpose(x: &UOp, a: i64, b: i64) -> Built {
    let rank = x.shape().len();
    if rank == 0 {
        resolve_axes(&[a], rank)?;
        resolve_axes(&[b], rank)?;
        return Ok(x.clone());
    }
    let (a, b) = (resolve_axis(a, rank)?, resolve_axis(b, rank)?);
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(a, b);
    Ok(reorder(x, &order))
}

/// One axis moved to another position.
pub fn movedim(x: &UOp, from: i64, to: i64) -> Built {
    let rank = x.shape().len();
    let (from, to) = (resolve_axis(from, rank)?, resolve_axis(to, rank)?);
    Ok(move_axis(x, from, to))
}

pub(crate) fn move_axis(x: &UOp, from: usize, to: usize) -> UOp {
    let mut order: Vec<usize> = (0..x.shape().len()).collect();
    let axis = order.remove(from);
    order.insert(to, axis);
    reorder(x, &order)
}

/// Axes of length 1 repeated, new axes put in front; -1 keeps a length.
pub fn expand(x: &UOp, lengths: &[Dim]) -> Built {
    if lengths.len() < x.shape().len() {
        fail!("{} has {} axes, and only {} lengths are given", x.shape(), x.shape().len(), lengths.len());
    }
    let missing = lengths.len() - x.shape().len();
    let mut target = Vec::with_capacity(lengths.len());
    for (k, length) in lengths.iter().enumerate() {
        match (length.is(-1), k.checked_sub(missing)) {
            (true, Some(axis)) => target.push(x.shape()[axis].clone()),
            (true, None) => fail!("-1 keeps a length, and axis {k} is new"),
            (false, _) => target.push(length.clone()),
        }
    }
    let target = Shape::from(target);
    check_size(&target)?;
    broadcast_to(x, &target)
}

/// The given axes in reverse.
pub fn flip(x: &UOp, axes: &[i64]) -> Built {
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let axes = resolve_axes(axes, x.shape().len())?;
    Ok(if axes.is_empty() { x.clone() } else { x.flip(&axes) })
}

/// A new axis of length 1 before the given one.
pub fn unsqueeze(x: &UOp, axis: i64) -> Built {
    let axis = resolve_axis(axis, x.shape().len() + 1)?;
    Ok(insert_axis(x, axis))
}

pub(crate) fn insert_axis(x: &UOp, axis: usize) -> UOp {
    let mut lengths = x.shape().to_vec();
    lengths.insert(axis, Dim::Const(1));
    x.reshape(lengths)
}

/// Without the given axes that have length 1; without all such when none is given.
pub fn squeeze(x: &UOp, axes: &[i64]) -> Built {
    let named = resolve_axes(axes, x.shape().len())?;
    let kept = |k: &usize| !(named.contains(k) && x.shape()[*k].is(1));
    let shape: Shape = (0..x.shape().len()).filter(kept).map(|k| x.shape()[k].clone()).collect();
    Ok(x.reshape(shape))
}

/// Axes from `start` to `end`, both included, as one.
pub fn flatten(x: &UOp, start: i64, end: i64) -> Built {
    if x.shape().is_empty() {
        resolve_axes(&[start], 0)?;
        resolve_axes(&[end], 0)?;
        return Ok(x.reshape([1]));
    }
    let (start, end) = (resolve_axis(start, x.shape().len())?, resolve_axis(end, x.shape().len())?);
    if start > end {
        fail!("the first axis {start} comes after the last, {end}");
    }
    Ok(merge_axes(x, start, end + 1))
}

/// Axes `start..end` as one; a new axis of length 1 when there are none.
pub(in crate::ops) fn merge_axes(x: &UOp, start: usize, end: usize) -> UOp {
    let shape = x.shape();
    let merged = shape[start..end].iter().fold(Dim::Const(1), |total, dim| &total * dim);
    let lengths: Shape =
        shape[..start].iter().cloned().chain(std::iter::once(merged)).chain(shape[end..].iter().cloned()).collect();
    x.reshape(lengths)
}

/// One axis cut into several; one length may be -1.
pub fn unflatten(x: &UOp, axis: i64, sizes: &[i64]) -> Built {
    let axis = resolve_axis(axis, x.shape().len())?;
    let length = concrete_axis(x, axis)?;
    let known = sizes.iter().filter(|&&size| size != -1).fold(1i64, |total, &size| total.saturating_mul(size));
    let unknown = sizes.iter().filter(|&&size| size == -1).count();
    let fits = match unknown {
        0 => known == length,
        1 => known > 0 && length % known == 0,
        _ => fail!("only one length may be -1, and {unknown} are"),
    };
    if !fits || sizes.iter().any(|&size| size < -1) || sizes.is_empty() {
        fail!("{sizes:?} do not multiply to {length}, the length of axis {axis}");
    }
    let sizes = sizes.iter().map(|&size| Dim::Const(if size == -1 { length / known } else { size }));
    let shape = x.shape();
    Ok(x.reshape(
        shape[..axis].iter().cloned().chain(sizes).chain(shape[axis + 1..].iter().cloned()).collect::<Shape>(),
    ))
}

/// The whole repeated along each axis; more counts than axes put new axes in front.
pub fn repeat(x: &UOp, counts: &[i64]) -> Built {
    if counts.len() < x.shape().len() {
        fail!("{} has {} axes, and only {} counts are given", x.shape(), x.shape().len(), counts.len());
    }
    if let Some(count) = counts.iter().find(|&&count| count < 0) {
        fail!("cannot repeat {count} times");
    }
    let missing = counts.len() - x.shape().len();
    let lengths: Vec<Dim> = std::iter::repeat_n(Dim::Const(1), missing).chain(x.shape().iter().cloned()).collect();
    let total: Shape = lengths.iter().zip(counts).map(|(length, &count)| length * &Dim::Const(count)).collect();
    check_size(&total)?;
    let single: Shape = lengths.iter().flat_map(|length| [Dim::Const(1), length.clone()]).collect();
    let many: Shape =
        lengths.iter().zip(counts).flat_map(|(length, &count)| [Dim::Const(count), length.clone()]).collect();
    Ok(settled(x.reshape(single).expand(many).reshape(total)))
}

/// Each element repeated in place along an axis; flattened first when no axis is given.
pub fn repeat_interleave(x: &UOp, count: i64, axis: Option<i64>) -> Built {
    if count < 0 {
        fail!("cannot repeat {count} times");
    }
    let (x, axis) = match axis {
        Some(axis) => (x.clone(), resolve_axis(axis, x.shape().len())?),
        None => (x.reshape([x.shape().numel()]), 0),
    };
    let total = &x.shape()[axis] * &Dim::Const(count);
    let shape: Shape =
        (0..x.shape().len()).map(|k| if k == axis { total.clone() } else { x.shape()[k].clone() }).collect();
    check_size(&shape)?;
    let apart = insert_axis(&x, axis + 1);
    let mut many = apart.shape().to_vec();
    many[axis + 1] = Dim::Const(count);
    Ok(apart.expand(many).reshape(shape))
}

/// Rotated along axes; flattened for the time being when no axis is given.
pub fn roll(x: &UOp, shifts: &[i64], axes: &[i64]) -> Built {
    if axes.is_empty() {
        let [shift] = shifts else { fail!("{} shifts without axes: give one, or an axis for each", shifts.len()) };
        let flat = x.reshape([x.shape().numel()]);
        return Ok(roll_axis(&flat, *shift, 0)?.reshape(x.shape().clone()));
    }
    if shifts.len() != axes.len() {
        fail!("{} shifts for {} axes", shifts.len(), axes.len());
    }
    let mut result = x.clone();
    for (&shift, &axis) in shifts.iter().zip(axes) {
        let axis = resolve_axis(axis, x.shape().len())?;
        result = roll_axis(&result, shift, axis)?;
    }
    Ok(result)
}

/// Twice in a row, seen from the right position on.
fn roll_axis(x: &UOp, shift: i64, axis: usize) -> Built {
    if x.shape()[axis].as_const().is_none() {
        return roll_any(x, shift, axis);
    }
    let length = concrete_axis(x, axis)?;
    if length == 0 || shift.rem_euclid(length) == 0 {
        return Ok(x.clone());
    }
    let start = length - shift.rem_euclid(length);
    let counts: Vec<i64> = (0..x.shape().len()).map(|k| if k == axis { 2 } else { 1 }).collect();
    let twice = repeat(x, &counts)?;
    Ok(shrink_axis(&twice, axis, start, start + length))
}

/// An axis whose length is a variable: its two parts in the other order.
fn roll_any(x: &UOp, shift: i64, axis: usize) -> Built {
    let length = &x.shape()[axis];
    let start = match at_most(&Dim::Const(shift.saturating_abs()), length) {
        true if shift < 0 => Dim::Const(-shift),
        true => length - shift,
        // Around it more than once, for some lengths.
        false if length.min_value() > 0 => Dim::Const(shift.saturating_neg()).floor_mod(length),
        false => fail!("axis {axis} of length {length} is not known to have elements"),
    };
    let (front, back) = (shrink_axis(x, axis, start.clone(), length.clone()), shrink_axis(x, axis, 0, start));
    super::join::cat(&[front, back], axis as i64)
}

/// The part from start to end of one axis, which is known to be inside of it; the whole of the others.
pub(crate) fn shrink_axis(x: &UOp, axis: usize, start: impl Into<Dim>, end: impl Into<Dim>) -> UOp {
    let (start, end) = (start.into(), end.into());
    if start.is(0) && x.shape()[axis] == end {
        return x.clone();
    }
    let bounds: Vec<(Dim, Dim)> = (0..x.shape().len())
        .map(|k| if k == axis { (start.clone(), end.clone()) } else { (Dim::Const(0), x.shape()[k].clone()) })
        .collect();
    settled(x.shrink(&bounds))
}

/// Zeros before and after one axis.
pub(crate) fn pad_axis(x: &UOp, axis: usize, before: impl Into<Dim>, after: impl Into<Dim>) -> UOp {
    let (before, after) = (before.into(), after.into());
    if before.is(0) && after.is(0) {
        return x.clone();
    }
    let bounds: Vec<(Dim, Dim)> = (0..x.shape().len())
        .map(|k| if k == axis { (before.clone(), after.clone()) } else { (Dim::Const(0), Dim::Const(0)) })
        .collect();
    settled(x.pad(&bounds))
}

/// The part from start to end of each axis.
pub fn shrink(x: &UOp, bounds: &[(Dim, Dim)]) -> Built {
    if bounds.len() != x.shape().len() {
        fail!("{} bounds for {} axes", bounds.len(), x.shape().len());
    }
    for (axis, (start, end)) in bounds.iter().enumerate() {
        check_within(start, end, &x.shape()[axis], axis)?;
    }
    Ok(settled(x.shrink(bounds)))
}

/// `len` elements of an axis from `start` on.
pub fn narrow(x: &UOp, axis: i64, start: &Dim, len: &Dim) -> Built {
    let axis = resolve_axis(axis, x.shape().len())?;
    let from_end =
        start.as_const().filter(|&start| start < 0).and_then(|start| Some(start + x.shape()[axis].as_const()?));
    let start = &from_end.map_or_else(|| start.clone(), Dim::Const);
    let end = start + len;
    check_within(start, &end, &x.shape()[axis], axis)?;
    Ok(shrink_axis(x, axis, start, end))
}

/// That a part of an axis lies inside of it, whatever the variables are.
pub(in crate::ops) fn check_within(start: &Dim, end: &Dim, len: &Dim, axis: usize) -> Built<()> {
    if at_most(&Dim::Const(0), start) && at_most(start, end) && at_most(end, len) {
        return Ok(());
    }
    if [start, end, len].iter().all(|dim| dim.as_const().is_some()) {
        fail!("{start}..{end} is not within axis {axis} of length {len}");
    }
    let most = |dim: &Dim| format!("{} to {}", dim.min_value(), dim.max_value());
    fail!(
        "{start}..{end} is not known to be within axis {axis} of length {len}: the start is {}, the end {}, the length {}",
        most(start),
        most(end),
        most(len)
    )
}
