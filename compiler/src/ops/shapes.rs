//! Shapes and axes as users give them: broadcasting, promotion, negative axes, and sizes that no machine has.

use super::{Built, fail};
use crate::UOp;
use crate::dtype::promote;
use crate::ir::{Dim, Shape};

/// Axes a tensor may have.
pub(super) const RANK_LIMIT: usize = 64;
/// Elements a tensor may have, so that byte counts and strides of every type fit 63 bits.
pub(super) const ELEMENT_LIMIT: i64 = 1 << 59;

/// The shape that all of these broadcast to: aligned at the last axis, each axis equal or 1.
pub fn broadcast_shapes(shapes: &[&Shape]) -> Built<Shape> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut dims = vec![Dim::Const(1); rank];
    for shape in shapes {
        for (k, dim) in shape.iter().enumerate() {
            let place = &mut dims[rank - shape.len() + k];
            if place.is(1) {
                *place = dim.clone();
            } else if !dim.is(1) && dim != place {
                let list: Vec<String> = shapes.iter().map(|shape| shape.to_string()).collect();
                fail!("the shapes {} do not broadcast: lengths {place} and {dim} meet", list.join(" and "));
            }
        }
    }
    Ok(dims.into())
}

/// The node repeated to a shape that it broadcasts to.
pub fn broadcast_to(x: &UOp, shape: &Shape) -> Built {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    if x.shape().len() > shape.len() {
        fail!("{} does not broadcast to {shape}, which has fewer axes", x.shape());
    }
    let missing = shape.len() - x.shape().len();
    let ones = std::iter::repeat_n(Dim::Const(1), missing);
    let aligned: Shape = ones.chain(x.shape().iter().cloned()).collect();
    if let Some(axis) = (0..shape.len()).find(|&axis| !aligned[axis].is(1) && aligned[axis] != shape[axis]) {
        fail!("{} does not broadcast to {shape}: length {} meets {}", x.shape(), aligned[axis], shape[axis]);
    }
    Ok(x.reshape(aligned).expand(shape.clone()))
}

/// All in their common type and shape; those of rank 0 stay so, since elementwise ops repeat them.
pub fn broadcast<const N: usize>(operands: [&UOp; N]) -> Built<[UOp; N]> {
    let dtype = operands[1..].iter().fold(operands[0].dtype(), |dtype, node| promote(dtype, node.dtype()));
    let cast = operands.map(|node| node.cast(dtype));
    broadcast_only(cast.each_ref())
}

/// All in their common shape, each keeping its type.
pub(super) fn broadcast_only<const N: usize>(operands: [&UOp; N]) -> Built<[UOp; N]> {
    let shape = broadcast_shapes(&operands.map(UOp::shape))?;
    let mut result = operands.map(UOp::clone);
    for node in &mut result {
        if !node.shape().is_empty() {
            *node = broadcast_to(node, &shape)?;
        }
    }
    Ok(result)
}

/// An axis of a tensor of that rank, counted from the end if negative.
pub fn resolve_axis(axis: i64, rank: usize) -> Built<usize> {
    let resolved = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(resolved) {
        Ok(resolved) if resolved < rank => Ok(resolved),
        _ if rank == 0 => fail!("axis {axis} of a tensor without axes"),
        _ => fail!("axis {axis} is out of range: {rank} axes take {} to {}", -(rank as i64), rank - 1),
    }
}

/// Axes in ascending order; all of them when none is named.
pub fn resolve_axes(axes: &[i64], rank: usize) -> Built<Vec<usize>> {
    if axes.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut resolved = Vec::with_capacity(axes.len());
    for &axis in axes {
        // PyTorch lets axes 0 and -1 name the one element of a tensor without axes.
        if rank == 0 && (axis == 0 || axis == -1) {
            continue;
        }
        let axis = resolve_axis(axis, rank)?;
        if resolved.contains(&axis) {
            fail!("axis {axis} is named twice in {axes:?}");
        }
        resolved.push(axis);
    }
    resolved.sort_unstable();
    Ok(resolved)
}

/// The shape, if a tensor can have it: no negative length, and a number of elements that can be counted.
pub fn check_size(shape: &Shape) -> Built<()> {
    if shape.len() > RANK_LIMIT {
        fail!("{} axes; a tensor has at most {RANK_LIMIT}", shape.len());
    }
    let mut total: i64 = 1;
    for dim in shape.iter() {
        if dim.max_value() < 0 {
            fail!("the shape {shape} has a negative length");
        }
        // Strides are products of the other lengths even when one is 0, so zeros count as one here.
        total = match total.checked_mul(dim.max_value().max(1)) {
            Some(total) if total <= ELEMENT_LIMIT => total,
            _ => fail!("the shape {shape} has more elements than memory can hold"),
        };
    }
    Ok(())
}

/// The lengths as numbers, for ops whose graph depends on them.
pub(super) fn concrete(x: &UOp) -> Built<Vec<i64>> {
    match x.shape().as_const() {
        Some(lengths) => Ok(lengths),
        None => fail!("the shape {} has a symbolic length, which this op does not take", x.shape()),
    }
}

/// One length as a number.
pub(super) fn concrete_axis(x: &UOp, axis: usize) -> Built<i64> {
    match x.shape()[axis].as_const() {
        Some(length) => Ok(length),
        None => fail!("axis {axis} of {} has a symbolic length, which this op does not take", x.shape()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn shapes_align_at_the_last_axis() {
        let shape = broadcast_shapes(&[&[3, 1].into(), &[4].into(), &[2, 1, 1].into()]);
        assert_eq!(shape, Ok([2, 3, 4].into()));
        let error = broadcast_shapes(&[&[3].into(), &[4].into()]).unwrap_err();
        assert_eq!(error.message, "the shapes [3] and [4] do not broadcast: lengths 3 and 4 meet");
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(resolve_axes(&[-1, 0], 3), Ok(vec![0, 2]));
        assert_eq!(resolve_axes(&[], 2), Ok(vec![0, 1]));
        assert!(resolve_axes(&[1, -1], 2).is_err());
        assert!(resolve_axis(i64::MIN, 2).is_err());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(check_size(&[1i64 << 40, 1 << 40].into()).is_err());
        assert!(check_size(&[0, 1i64 << 62].into()).is_err());
        assert!(check_size(&[-1i64].into()).is_err());
        assert!(check_size(&[0, 4].into()).is_ok());
    }

    #[test]
    fn scalars_stay_scalars_and_types_meet() {
        let a = UOp::param(0, DType::I32, 3);
        let [a, b] = broadcast([&a, &UOp::float(1.5, DType::F16)]).unwrap();
        assert_eq!((a.dtype(), b.shape().len()), (DType::F16, 0));
    }
}
