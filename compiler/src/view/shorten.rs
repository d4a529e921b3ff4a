//! Long chains of movement ops written anew with few.
//!
//! A program may move elements about thousands of times, as with `x.transpose(0, 1)` in a loop. Each pass that walks such a chain, or
//! asks an index what it becomes below each step, would pay for all of it. A [`ShapeTracker`] knows what the chain does as a whole; here it
//! becomes movement ops again, at most eight for each of its views:
//!
//! ```text
//! a view that is    . . 4 2 0 .    of 0 1 2 3 4 5:    shrink to 0..5, as_strided by -2 from 4, pad (2, 1)
//! ```
//!
//! A view that walks axes of what is below it becomes shrink, flip, permute, reshape and expand, which kernels and fusion see through
//! best; any other becomes one `AsStrided`.
//! Always: the same elements at the same positions. Linear in the number of views.
//! Not here: whether a chain is long enough for that (`schedule/realize`).
//! Tests: below, against the elements that the interpreter sees, and `properties` of the tracker.

use smallvec::SmallVec;

use super::tracker::ShapeTracker;
use super::view::View;
use crate::ir::{Arg, Dim, Op, Shape, StridedArg, UOp};

/// What a tracker over a node's elements shows, as few movement ops on that node; `None` where lengths are symbolic.
pub fn movement_of(base: &UOp, tracker: &ShapeTracker) -> Option<UOp> {
    base.shape().as_const()?;
    tracker.views().iter().try_fold(base.clone(), |below, view| one_view(&below, view))
}

fn one_view(below: &UOp, view: &View) -> Option<UOp> {
    let shape = view.shape().as_const()?;
    if view.is_void() {
        let ones = vec![1i64; shape.len()];
        return Some(UOp::int(0, below.dtype()).reshape(ones).expand(shape));
    }
    // What lies at the start of more elements is in order too, but no reshape of them.
    if view.is_contiguous() && below.shape().numel() == view.shape().numel() {
        return Some(if below.shape() == view.shape() { below.clone() } else { below.reshape(shape) });
    }
    // The positions that stand for elements, and what is void around them.
    let strides = view.strides().as_const()?;
    let mut offset = view.offset().as_const()?;
    let mut lens = Vec::with_capacity(shape.len());
    let mut padding = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let (start, end) = view.bounds(axis);
        let (start, end) = (start.as_const()?, end.as_const()?);
        offset = offset.checked_add(start.checked_mul(strides[axis])?)?;
        lens.push(end - start);
        padding.push((Dim::Const(start), Dim::Const(shape[axis] - end)));
    }
    let boxed = along_axes(below, &lens, &strides, offset).or_else(|| {
        let cut = below.reshape(shape_walked(below.shape().numel().as_const()?, &lens, &strides)?);
        along_axes(&cut, &lens, &strides, offset)
    });
    let boxed = boxed.unwrap_or_else(|| {
        let (shape, strides) = (Shape::from(lens), Shape::from(strides));
        let strided = StridedArg { shape, strides, offset: Dim::Const(offset) };
        UOp::new(Op::AsStrided, below.dtype(), [below.clone()].to_vec(), Arg::Strided(strided.into()))
    });
    let is_padded = padding.iter().any(|(before, after)| !before.is(0) || !after.is(0));
    Some(if is_padded { boxed.pad(&padding) } else { boxed })
}

/// The shape of so many elements whose axes have these strides; `None` if there is none.
fn shape_walked(numel: i64, lens: &[i64], strides: &[i64]) -> Option<Vec<i64>> {
    let real = lens.iter().zip(strides).filter(|(len, stride)| **len > 1 && **stride != 0);
    let mut steps: Vec<i64> = real.map(|(_, stride)| stride.abs()).collect();
    steps.sort_unstable_by(|a, b| b.cmp(a));
    let mut above = numel;
    let mut shape = Vec::new();
    for step in steps.into_iter().chain([1]) {
        if above % step != 0 {
            return None;
        }
        if above != step || above == numel {
            shape.push(above / step);
        }
        above = step;
    }
    Some(shape)
}

/// An axis of what is below that a view walks.
#[derive(Clone, Copy)]
struct Walked {
    axis: usize,
    len: i64,
    backward: bool,
}

/// A strided box as shrink, flip, permute, reshape and expand, if each of its axes walks an axis of what is below, or none.
fn along_axes(below: &UOp, lens: &[i64], strides: &[i64], offset: i64) -> Option<UOp> {
    let from = below.shape().as_const()?;
    let steps = below.shape().row_major_strides();
    let steps: Vec<i64> = steps.iter().map(Dim::as_const).collect::<Option<_>>()?;
    if offset < 0 || from.contains(&0) {
        return None;
    }
    let mut walked: SmallVec<[Walked; 6]> = SmallVec::new();
    for (&len, &stride) in lens.iter().zip(strides).filter(|(len, stride)| **len > 1 && **stride != 0) {
        let is_free = |axis: usize| walked.iter().all(|other| other.axis != axis);
        let axis = (0..from.len()).find(|&axis| steps[axis] == stride.abs() && from[axis] >= len && is_free(axis))?;
        walked.push(Walked { axis, len, backward: stride < 0 });
    }
    // The first element, as a position below. No walk may leave its axis from there.
    let mut bounds: Vec<(i64, i64)> =
        (0..from.len()).map(|axis| offset / steps[axis] % from[axis]).map(|at| (at, at + 1)).collect();
    for walk in &walked {
        let at = bounds[walk.axis].0;
        bounds[walk.axis] = if walk.backward { (at + 1 - walk.len, at + 1) } else { (at, at + walk.len) };
    }
    if bounds.iter().zip(&from).any(|((start, end), len)| *start < 0 || end > len) {
        return None;
    }
    let mut node = below.clone();
    if bounds.iter().zip(&from).any(|(bounds, len)| *bounds != (0, *len)) {
        node = node.shrink(&bounds.iter().map(|&(start, end)| (start.into(), end.into())).collect::<Vec<(Dim, Dim)>>());
    }
    let backward: Vec<usize> = walked.iter().filter(|walk| walk.backward).map(|walk| walk.axis).collect();
    if !backward.is_empty() {
        node = node.flip(&backward);
    }
    let is_walked = |axis: &usize| walked.iter().any(|walk| walk.axis == *axis);
    let left = (0..from.len()).filter(|axis| !is_walked(axis));
    // Axes of one element stand where they stood, so that often nothing has to be moved.
    let mut in_order = walked.iter().map(|walk| walk.axis);
    let order: Vec<usize> = match walked.is_sorted_by_key(|walk| walk.axis) {
        true => (0..from.len()).collect(),
        false => in_order.by_ref().chain(left).collect(),
    };
    if order.iter().enumerate().any(|(position, axis)| position != *axis) {
        node = node.permute(&order);
    }
    let ones: Vec<i64> = lens.iter().zip(strides).map(|(len, stride)| if *stride == 0 { 1 } else { *len }).collect();
    if node.shape().as_const().as_deref() != Some(&ones[..]) {
        node = node.reshape(ones.clone());
    }
    Some(if ones == lens { node } else { node.expand(lens.to_vec()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::view::track_movement;

    fn bounds(bounds: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
        bounds.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
    }

    fn short(node: &UOp) -> (UOp, Vec<Op>) {
        let (base, tracker) = track_movement(node);
        let short = movement_of(&base, &tracker).expect("known lengths");
        let (_, again) = track_movement(&short);
        assert_eq!(again.shape(), tracker.shape());
        (short.clone(), crate::view::collect_movement_chain(&short).1.iter().map(UOp::op).collect())
    }

    #[test]
    fn chains_become_what_they_come_to() {
        // Not a parameter under a reshape, which would be part of the chain.
        let base = (UOp::param(0, DType::F32, 24).reshape([4, 6]) + 1).contiguous();
        let turned = (0..40).fold(base.clone(), |node, _| node.permute(&[1, 0]));
        assert_eq!(short(&turned), (base.clone(), vec![]));
        assert_eq!(short(&turned.permute(&[1, 0])), (base.permute(&[1, 0]), vec![Op::Permute]));
        assert_eq!(short(&base.flip(&[0]).flip(&[1]).flip(&[0])), (base.flip(&[1]), vec![Op::Flip]));
        let padded = base.pad(&bounds(&[(1, 1), (0, 2)])).shrink(&bounds(&[(1, 5), (0, 6)]));
        assert_eq!(short(&padded), (base.clone(), vec![]));
        let part = base.shrink(&bounds(&[(1, 3), (2, 6)])).permute(&[1, 0]).flip(&[0]).pad(&bounds(&[(0, 0), (3, 0)]));
        assert_eq!(short(&part).1, [Op::Shrink, Op::Flip, Op::Permute, Op::Pad]);
        let repeated = base.reshape([4, 6, 1]).permute(&[2, 1, 0]).expand([5, 6, 4]);
        assert_eq!(short(&repeated).1, [Op::Permute, Op::Reshape, Op::Expand]);
        assert_eq!(short(&base.reshape([24]).shrink(&bounds(&[(0, 12)]))).1, [Op::Reshape, Op::Shrink]);
    }

    #[test]
    fn what_walks_no_axis_is_strided() {
        let base = (UOp::param(0, DType::F32, 24).reshape([4, 6]) + 1).contiguous();
        let diagonal =
            base.reshape([24]).shrink(&bounds(&[(0, 21)])).reshape([3, 7]).shrink(&bounds(&[(0, 3), (0, 1)]));
        assert_eq!(short(&diagonal.reshape([3])).1, [Op::AsStrided]);
        let across = base.permute(&[1, 0]).reshape([4, 6]).permute(&[1, 0]);
        assert_eq!(short(&across).1, [Op::Permute, Op::Reshape, Op::Permute]);
    }
}
