//! Elements chosen by tensors of integers.
//!
//! In [`index`] and [`index_put`] negative indices count from the end; everywhere else they are out of range, as in PyTorch. There is no way to
//! raise an error from inside a kernel: an index out of range reads 0, as hardware that masks a load does, or names no element to write
//! to. [`outside`] finds it, for who wants to raise an error before.

use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::ops::create::positions;
use crate::ops::elementwise::where_;
use crate::ops::math::known;
use crate::ops::movement::{merge_axes, reorder};
use crate::ops::shapes::{broadcast_only, broadcast_shapes, check_size, concrete, concrete_axis};
use crate::ops::slicing::{Slice, complete, resolve, resolve_index};
use crate::ops::{Built, broadcast_to, fail, resolve_axis};
use crate::view::dims::same;
use crate::{DType, UOp};

/// An integer tensor as an index; anything else is refused.
pub(super) fn check_index(index: &UOp) -> Built<()> {
    if index.dtype().is_integer() {
        return Ok(());
    }
    let advice = if index.dtype().is_bool() { ": for a mask use where or masked_fill" } else { "" };
    fail!("the index is {}, not an integer{advice}", index.dtype());
}

/// The type in which indices among `count` elements are computed.
fn index_dtype(count: i64) -> DType {
    if count <= i32::MAX as i64 { DType::I32 } else { DType::I64 }
}

/// x[.., index[..], ..]: one axis replaced by the axes of the index.
pub fn index_select(x: &UOp, axis: i64, index: &UOp) -> Built {
    check_index(index)?;
    let axis = resolve_axis(axis, x.shape().len())?;
    if index.shape().len() > 1 {
        fail!("the index {} has {} axes, and can have one", index.shape(), index.shape().len());
    }
    take(x, axis, &index.reshape([index.shape().numel()]))
}

/// The rows of a table that the indices name.
pub fn embedding(index: &UOp, table: &UOp) -> Built {
    check_index(index)?;
    if table.shape().len() != 2 {
        fail!("the table {} has {} axes, not 2", table.shape(), table.shape().len());
    }
    take(table, 0, index)
}

fn take(x: &UOp, axis: usize, index: &UOp) -> Built {
    let rank = x.shape().len() - 1 + index.shape().len();
    let result = x.gather(index, axis);
    if rank > crate::ops::shapes::RANK_LIMIT {
        fail!("{rank} axes would result");
    }
    check_size(result.shape())?;
    Ok(result)
}

/// Elements of one axis, chosen for each index of the others: `result[i][j] = x[index[i][j]][j]` along axis 0.
pub fn gather(x: &UOp, index: &UOp, axis: i64) -> Built {
    check_index(index)?;
    let rank = x.shape().len();
    if index.shape().len() != rank {
        fail!("x {} and the index {} differ in their number of axes", x.shape(), index.shape());
    }
    if rank == 0 {
        return Ok(x.reshape([1]).gather(index, 0));
    }
    let axis = resolve_axis(axis, rank)?;
    let may_be_longer = |k: usize| {
        let (wanted, len) = (&index.shape()[k], &x.shape()[k]);
        !same(wanted, len) && wanted.max_value() > len.min_value()
    };
    if let Some(k) = (0..rank).find(|&k| k != axis && may_be_longer(k)) {
        fail!("the index {} is longer than x {} in axis {k}", index.shape(), x.shape());
    }
    let value = along(x, index, axis);
    if !x.dtype().is_float() {
        return Ok(value);
    }
    // Differentiated line by line, not each index against each element.
    Ok(known(Function::GatherAlong, value, &[x, index, &UOp::index(axis as i64)]))
}

/// As [`gather`] of what was checked, without the derivative.
pub(crate) fn along(x: &UOp, index: &UOp, axis: usize) -> UOp {
    let count = x.shape().numel();
    let dtype = index_dtype(count.max_value());
    let inside = match x.shape()[axis].as_const() {
        Some(len) => in_range(index, len),
        None => {
            let (wide, len) = (index.cast(DType::I64), x.shape()[axis].to_uop().cast(DType::I64));
            wide.lt(UOp::int(0, DType::I64)).not().and(&wide.lt(&len))
        }
    };
    let strides = x.shape().row_major_strides();
    let mut offset = UOp::int(0, dtype);
    for (k, stride) in strides.iter().enumerate() {
        let along = if k == axis { index.cast(dtype) } else { positions(index.shape(), k).cast(dtype) };
        let stride = stride.as_const().map_or_else(|| stride.to_uop().cast(dtype), |stride| UOp::int(stride, dtype));
        offset = along * stride + offset;
    }
    let offset = inside.select(offset, UOp::int(-1, dtype));
    x.reshape([count]).gather(&offset, 0)
}

/// Whether 0 <= index < len.
pub(in crate::ops) fn in_range(index: &UOp, len: i64) -> UOp {
    let bounds = index.dtype().integer_bounds().unwrap_or((0, i64::MAX));
    let mut inside = index.equals(index);
    if bounds.0 < 0 {
        inside = index.lt(index.const_like(0)).not();
    }
    if len <= bounds.1 { inside.and(&index.lt(index.const_like(len))) } else { inside }
}

/// Elements of an index that name nothing.
pub struct Outside {
    /// Whether there is one: a `bool` of shape `[1]`, in one pass over the index.
    pub any: UOp,
    /// The position of the first, counted row-major: an `i64` of shape `[1]`, the largest `i64` if there is none.
    pub position: UOp,
    /// That element: an `i64` of shape `[1]`.
    pub value: UOp,
}

/// The elements that are neither in `lowest..end` nor the ignored one.
pub fn outside(index: &UOp, lowest: i64, end: i64, ignored: Option<i64>) -> Outside {
    let count = index.shape().numel();
    let flat = index.cast(DType::I64).reshape([count.clone()]);
    let number = |value: i64| UOp::int(value, DType::I64);
    let mut is_outside = flat.lt(&number(lowest)).or(&flat.lt(&number(end)).not());
    if let Some(ignored) = ignored {
        is_outside = is_outside.and(&flat.differs(&number(ignored)));
    }
    let numbers = UOp::iota(count).cast(DType::I64);
    let position = is_outside.select(&numbers, number(i64::MAX)).reduce(ReduceOp::Min, &[0]);
    let value = numbers.equals(&position).select(&flat, number(i64::MIN)).reduce(ReduceOp::Max, &[0]);
    Outside { any: is_outside.reduce(ReduceOp::Max, &[0]), position, value }
}

/// Negative indices counted from the end.
fn from_either_end(index: &UOp, len: i64) -> UOp {
    if !index.dtype().is_signed() {
        return index.cast(DType::I64);
    }
    let index = index.cast(DType::I64);
    index.lt(index.const_like(0)).select(&index + index.const_like(len), &index)
}

/// Indexed axes, side by side, as one axis with one index.
struct MergedAxes {
    x: UOp,
    /// The merged axis.
    axis: usize,
    /// Along it, in the common shape of the indices; -1 where one is out of range.
    index: UOp,
    /// The order of the axes of what `x` was, before they were merged.
    order: Vec<usize>,
}

impl MergedAxes {
    fn of(x: &UOp, axes: &[i64], indices: &[UOp]) -> Built<MergedAxes> {
        let rank = x.shape().len();
        if axes.len() != indices.len() || axes.is_empty() {
            fail!("{} indices for {} axes", indices.len(), axes.len());
        }
        let axes = axes.iter().map(|&axis| resolve_axis(axis, rank)).collect::<Built<Vec<usize>>>()?;
        if axes.windows(2).any(|pair| pair[0] >= pair[1]) {
            fail!("the axes {axes:?} are not ascending");
        }
        let lengths = axes.iter().map(|&axis| concrete_axis(x, axis)).collect::<Built<Vec<i64>>>()?;
        indices.iter().try_for_each(check_index)?;
        let shape = broadcast_shapes(&indices.iter().map(UOp::shape).collect::<Vec<_>>())?;
        let neighbours = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let axis = if neighbours { axes[0] } else { 0 };
        let others: Vec<usize> = (0..rank).filter(|k| !axes.contains(k)).collect();
        let order: Vec<usize> = others[..axis].iter().chain(&axes).chain(&others[axis..]).copied().collect();
        let merged = merge_axes(&reorder(x, &order), axis, axis + axes.len());
        let mut inside = UOp::bool(true);
        let mut combined = UOp::int(0, DType::I64);
        for (&length, index) in lengths.iter().zip(indices) {
            let wrapped = broadcast_to(&from_either_end(index, length), &shape)?;
            inside = in_range(&wrapped, length).and(&inside);
            combined = &combined * UOp::int(length, DType::I64) + wrapped;
        }
        let dtype = index_dtype(concrete_axis(&merged, axis)?);
        let index = inside.select(combined, UOp::int(-1, DType::I64)).cast(dtype);
        Ok(MergedAxes { x: merged, axis, index, order })
    }
}

/// x indexed by several tensors at once, which broadcast: x[a, :, b] for axes 0 and 2.
///
/// The axes of the indices stand where the indexed axes stood if these are neighbours, in front otherwise.
pub fn index(x: &UOp, axes: &[i64], indices: &[UOp]) -> Built {
    let merged = MergedAxes::of(x, axes, indices)?;
    take(&merged.x, merged.axis, &merged.index)
}

/// x with the elements that [`index`] would give replaced by `value`, which broadcasts to them. Of several values for one element the
/// last counts.
pub fn index_put(x: &UOp, axes: &[i64], indices: &[UOp], value: &UOp) -> Built {
    let chosen = index(x, axes, indices)?;
    let value = broadcast_to(&value.cast(x.dtype()), chosen.shape())?;
    let merged = MergedAxes::of(x, axes, indices)?;
    let rank = merged.index.shape().len();
    let (count, axis) = (merged.index.shape().numel(), merged.axis);
    let value = merge_axes(&value, axis, axis + rank);
    // One index for each element of the value.
    let mut lengths: Vec<Dim> = vec![Dim::Const(1); value.shape().len()];
    lengths[axis] = count;
    let index = merged.index.cast(DType::I64).reshape(lengths).expand(value.shape().clone());
    let put = super::scatter::scatter(&merged.x, axis as i64, &index, &value)?;
    let shape: Vec<Dim> = merged.order.iter().map(|&axis| x.shape()[axis].clone()).collect();
    let mut inverse = vec![0; merged.order.len()];
    merged.order.iter().enumerate().for_each(|(at, &axis)| inverse[axis] = at);
    Ok(reorder(&put.reshape(shape), &inverse))
}

/// x with part of it replaced: `value` broadcasts to what [`crate::ops::slicing::slice`] would give.
pub fn set_slice(x: &UOp, slices: &[Slice], value: &UOp) -> Built {
    let rank = x.shape().len();
    let lengths = concrete(x)?;
    let slices = complete(slices, rank)?;
    let target = crate::ops::slicing::slice(x, &slices)?;
    let mut value = broadcast_to(&value.cast(x.dtype()), target.shape())?;
    // Back to one axis for each of x, then each axis spread and padded to its position.
    let mut per_axis = Vec::with_capacity(rank);
    for slice in slices.iter().filter(|slice| !matches!(slice, Slice::New | Slice::Rest)) {
        let len = lengths[per_axis.len()];
        per_axis.push(match *slice {
            Slice::At(index) => {
                let start = resolve_index(index, len, per_axis.len())?;
                crate::ops::slicing::Steps { start, step: 1, count: 1 }
            }
            Slice::Range { start, stop, step } => resolve(start, stop, step, len)?,
            Slice::New | Slice::Rest => continue,
        });
    }
    value = value.reshape(per_axis.iter().map(|steps| steps.count).collect::<Shape>());
    let mut inside = UOp::bool(true);
    for (axis, steps) in per_axis.iter().enumerate() {
        if steps.count == 0 {
            return Ok(x.clone());
        }
        let reach = (steps.count - 1) * steps.step.saturating_abs();
        let first = if steps.step > 0 { steps.start } else { steps.start - reach };
        if steps.step < 0 && steps.count > 1 {
            value = value.flip(&[axis]);
        }
        value = crate::ops::slicing::spread(&value, axis, steps.step.saturating_abs());
        value = crate::ops::movement::pad_axis(&value, axis, first, lengths[axis] - first - reach - 1);
        if steps.count == lengths[axis] {
            continue;
        }
        let offset = positions(x.shape(), axis) - UOp::index(first);
        let here = offset.lt(UOp::index(0)).not().and(&offset.lt(UOp::index(reach + 1)));
        let on_step = offset.modulo(steps.step.saturating_abs()).equals(UOp::index(0));
        inside = inside.and(&here).and(&on_step);
    }
    where_(&inside, &value, x)
}

/// 1 at the position that each index names along a new last axis, 0 elsewhere; `i32`.
pub fn one_hot(index: &UOp, classes: i64) -> Built {
    check_index(index)?;
    if classes < 0 {
        fail!("{classes} classes: there cannot be fewer than 0");
    }
    Ok(is_class(index, classes, index.shape().len())?.cast(DType::I32))
}

/// Whether the position along a new axis is the one that the index names.
pub(in crate::ops) fn is_class(index: &UOp, classes: i64, axis: usize) -> Built {
    let mut lengths = index.shape().to_vec();
    lengths.insert(axis, Dim::Const(1));
    let apart = index.cast(DType::I64).reshape(lengths.clone());
    lengths[axis] = classes.into();
    let shape = Shape::from(lengths);
    check_size(&shape)?;
    let [apart, position] = broadcast_only([&apart, &positions(&shape, axis).cast(DType::I64)])?;
    Ok(apart.equals(position))
}
