//! Several tensors as one, and one as several.

use super::movement::{insert_axis, pad_axis, shrink_axis};
use crate::UOp;
use crate::dtype::DType;
use crate::ir::{Arg, Dim, Op, Shape};
use crate::ops::create::positions;
use crate::ops::shapes::{as_shape, check_size, common_dtype, common_length, concrete_axis};
use crate::ops::{Built, broadcast_shapes, broadcast_to, fail, resolve_axis};
use crate::view::dims::simplified;

/// More parts than these are put into memory one by one, each by a kernel of its own.
const CHOSEN_PARTS_MAX: usize = 16;

/// One after the other along an axis; types are promoted.
///
/// Each is padded with zeros to the whole length, and the position along the axis chooses among them: so a kernel that uses the outcome computes
/// the parts. Of many parts each takes the place of zeros in memory: choosing among them would take each element as many steps as there are
/// parts, and as many kernels as name that many buffers; parts of equal shape are put there by one kernel.
pub fn cat(tensors: &[UOp], axis: i64) -> Built {
    let [first, ..] = tensors else { fail!("needs one tensor at least") };
    let rank = first.shape().len();
    if rank == 0 {
        fail!("tensors without axes cannot be joined along one: use stack");
    }
    let axis = resolve_axis(axis, rank)?;
    let dtype = common_dtype(tensors)?;
    let mut total = Dim::Const(0);
    let mut shape = first.shape().to_vec();
    for x in tensors {
        if x.shape().len() != rank {
            fail!("{} and {} differ in their number of axes", first.shape(), x.shape());
        }
        for k in (0..rank).filter(|&k| k != axis) {
            match common_length(&shape[k], &x.shape()[k])? {
                Some(common) => shape[k] = common,
                None => fail!("{} and {} differ in an axis other than {axis}", first.shape(), x.shape()),
            }
        }
        total = simplified(&total + &x.shape()[axis]);
    }
    shape[axis] = total.clone();
    let shape = Shape::from(shape);
    check_size(&shape)?;
    let parts: Vec<&UOp> = tensors.iter().filter(|x| !x.shape()[axis].is(0)).collect();
    if parts.len() > CHOSEN_PARTS_MAX && shape.is_concrete() && parts.iter().all(|x| x.shape().is_concrete()) {
        return Ok(put_in_place(&parts, axis, dtype, &shape));
    }
    let mut parts = parts.into_iter().rev();
    let Some(last) = parts.next() else { return Ok(first.cast(dtype)) };
    let mut start = simplified(&total - &last.shape()[axis]);
    let mut result = as_shape(&pad_axis(&last.cast(dtype), axis, &start, 0), &shape);
    let position = positions(&shape, axis);
    for x in parts {
        let before = simplified(&start - &x.shape()[axis]);
        let padded = as_shape(&pad_axis(&x.cast(dtype), axis, &before, &total - &start), &shape);
        result = position.lt(start.to_uop()).select(padded, result);
        start = before;
    }
    Ok(result)
}

/// The parts, each written into its part of memory that was zero.
fn put_in_place(parts: &[&UOp], axis: usize, dtype: DType, shape: &Shape) -> UOp {
    let ones: Vec<i64> = vec![1; shape.len()];
    let zeros = UOp::int(0, dtype).reshape(ones).expand(shape.clone()).contiguous();
    let mut start = Dim::Const(0);
    parts.iter().fold(zeros, |memory, part| {
        let end = &start + &part.shape()[axis];
        let bounds = shape.iter().enumerate().map(|(k, len)| match k == axis {
            true => (start.clone(), end.clone()),
            false => (Dim::Const(0), len.clone()),
        });
        let view = (Op::Shrink, Arg::Bounds(bounds.collect()));
        let value = as_shape(&part.cast(dtype), &memory.through(std::slice::from_ref(&view)).shape().clone());
        start = end;
        memory.write(&[view], &value)
    })
}

/// Along a new axis.
pub fn stack(tensors: &[UOp], axis: i64) -> Built {
    let [first, ..] = tensors else { fail!("needs one tensor at least") };
    if let Some(x) = tensors.iter().find(|x| x.shape() != first.shape()) {
        fail!("{} and {} differ; only equal shapes can be stacked", first.shape(), x.shape());
    }
    let axis = resolve_axis(axis, first.shape().len() + 1)?;
    let apart: Vec<UOp> = tensors.iter().map(|x| insert_axis(x, axis)).collect();
    cat(&apart, axis as i64)
}

/// Each part is a graph of its own, so there may not be more than a host can hold, whatever the lengths.
pub fn check_count(parts: i64) -> Built<()> {
    const PARTS_MAX: i64 = 1 << 20;
    if parts > PARTS_MAX {
        fail!("{parts} tensors; one call gives at most {PARTS_MAX}");
    }
    Ok(())
}

/// Parts of the given lengths along an axis.
pub fn split(x: &UOp, sizes: &[i64], axis: i64) -> Built<Vec<UOp>> {
    let axis = resolve_axis(axis, x.shape().len())?;
    let len = concrete_axis(x, axis)?;
    let total = sizes.iter().fold(0i64, |total, &size| total.saturating_add(size));
    if total != len || sizes.iter().any(|&size| size < 0) {
        fail!("the lengths {sizes:?} do not sum to {len}, the length of axis {axis}");
    }
    let mut start = 0;
    let part = |&size: &i64| {
        start += size;
        shrink_axis(x, axis, start - size, start)
    };
    Ok(sizes.iter().map(part).collect())
}

/// Parts of one length along an axis, the last perhaps shorter.
pub fn split_evenly(x: &UOp, size: i64, axis: i64) -> Built<Vec<UOp>> {
    let resolved = resolve_axis(axis, x.shape().len())?;
    let len = concrete_axis(x, resolved)?;
    if size < 1 {
        fail!("parts of {size} elements: they must have one at least");
    }
    check_count(len / size)?;
    let mut sizes: Vec<i64> = vec![size; (len / size) as usize];
    if len % size > 0 || len == 0 {
        sizes.push(len % size);
    }
    split(x, &sizes, axis)
}

/// At most `count` parts of equal length along an axis, the last perhaps shorter.
pub fn chunk(x: &UOp, count: i64, axis: i64) -> Built<Vec<UOp>> {
    let resolved = resolve_axis(axis, x.shape().len())?;
    let len = concrete_axis(x, resolved)?;
    if count < 1 {
        fail!("{count} parts: there must be one at least");
    }
    // Rounded up without overflow.
    split_evenly(x, ((len - 1).div_euclid(count) + 1).max(1), axis)
}

/// Each vector repeated over the grid of all: along axis k the k-th varies (`ij`), or with the first two axes exchanged (`xy`).
pub fn meshgrid(vectors: &[UOp], xy: bool) -> Built<Vec<UOp>> {
    if let Some(x) = vectors.iter().find(|x| x.shape().len() > 1) {
        fail!("takes tensors of one axis, not {}", x.shape());
    }
    let count = vectors.len();
    let axis = |k: usize| if xy && count >= 2 && k < 2 { 1 - k } else { k };
    let mut aligned = Vec::with_capacity(count);
    for (k, x) in vectors.iter().enumerate() {
        let mut lengths = vec![Dim::Const(1); count];
        lengths[axis(k)] = x.shape().numel();
        aligned.push(x.reshape(lengths));
    }
    let shape = broadcast_shapes(&aligned.iter().map(UOp::shape).collect::<Vec<_>>())?;
    check_size(&shape)?;
    aligned.iter().map(|x| broadcast_to(x, &shape)).collect()
}
