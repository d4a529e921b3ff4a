//! Shapes and axes as users give them: broadcasting, promotion, negative axes, and sizes that no machine has.

use super::{Built, fail};
use crate::DType;
use crate::UOp;
use crate::dtype::{Scalar, join};
use crate::ir::{Dim, Shape};
use crate::view::dims::{at_most, same, simplified};

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
            let length = &mut dims[rank - shape.len() + k];
            if length.is(1) {
                *length = dim.clone();
            } else if !dim.is(1) {
                let Some(common) = common_length(length, dim)? else {
                    let list: Vec<String> = shapes.iter().map(|shape| shape.to_string()).collect();
                    fail!("the shapes {} do not broadcast: lengths {length} and {dim} meet", list.join(" and "));
                };
                *length = common;
            }
        }
    }
    Ok(dims.into())
}

/// The length that two are, if they are known to be equal; rather the one whose variables have values.
///
/// # Errors
/// If they bind one variable to two values.
pub(super) fn common_length(a: &Dim, b: &Dim) -> Built<Option<Dim>> {
    if a == b {
        return Ok(Some(a.clone()));
    }
    if a.as_const().is_some() && b.as_const().is_some() {
        return Ok(None);
    }
    let others = b.bindings();
    for binding in a.bindings() {
        if let Some(other) = others.iter().find(|other| other.src()[0] == binding.src()[0] && **other != binding) {
            let [name, value, other] = [&binding.src()[0], &binding.src()[1], &other.src()[1]].map(UOp::infix);
            fail!("{name} is bound to {value} and to {other} in one program; bind it once");
        }
    }
    let rather = if a.unbound().is_empty() { a } else { b };
    Ok(same(a, b).then(|| rather.clone()))
}

/// The node under a shape that is known to be equal, but may be written otherwise or have values for its variables.
pub(super) fn as_shape(x: &UOp, shape: &Shape) -> UOp {
    if x.shape() == shape { x.clone() } else { x.reshape(shape.clone()) }
}

/// The node with each symbolic length in its simplest form, so that what is equal mostly looks equal.
pub(super) fn settled(x: UOp) -> UOp {
    if x.shape().is_concrete() {
        return x;
    }
    let shape: Shape = x.shape().iter().cloned().map(simplified).collect();
    as_shape(&x, &shape)
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
    let mut from = aligned.to_vec();
    for (axis, dim) in from.iter_mut().enumerate().filter(|(_, dim)| !dim.is(1)) {
        if common_length(dim, &shape[axis])?.is_none() {
            fail!("{} does not broadcast to {shape}: length {dim} meets {}", x.shape(), shape[axis]);
        }
        *dim = shape[axis].clone();
    }
    Ok(x.reshape(from).expand(shape.clone()))
}

/// All in their common type and shape; those of rank 0 stay so, since elementwise ops repeat them.
pub fn broadcast<const N: usize>(operands: [&UOp; N]) -> Built<[UOp; N]> {
    let dtype = common_dtype(operands)?;
    let cast = operands.map(|node| node.cast(dtype));
    broadcast_only(cast.each_ref())
}

/// The type in which operands meet.
///
/// # Errors
/// Of `u64` and a signed integer: nothing but a float holds both, and it would lose digits without a word.
pub(super) fn common_dtype<'n>(operands: impl IntoIterator<Item = &'n UOp, IntoIter: Clone>) -> Built<DType> {
    match join(operands.into_iter().map(UOp::dtype)) {
        Ok(dtype) => Ok(dtype),
        Err((a, b)) => fail!("no integer type holds all of {a} and of {b}: cast one of them first"),
    }
}

/// Whether a number can be stored in a type without becoming another: any in floats and bools, and in integers those of their range, the
/// fraction of a float cut off. A negative integer may stand for the bits of an unsigned one, as -1 for all ones.
///
/// # Errors
/// If it cannot.
pub fn check_fits(value: Scalar, dtype: DType) -> Built<()> {
    let Some((lowest, highest)) = dtype.integer_bounds().filter(|_| dtype.is_integer()) else { return Ok(()) };
    let lowest_bits = if lowest == 0 { -highest } else { lowest };
    let fits = match value {
        Scalar::Bool(_) => true,
        Scalar::Int(value) => (lowest_bits..=highest).contains(&value),
        Scalar::UInt(value) => dtype == DType::U64 || value <= highest as u64,
        Scalar::Float(_) => {
            // Exact for the small types; the largest 64-bit integers are no floats, so the bound itself is out.
            let (value, wide) = (value.to_f64(), highest == i64::MAX);
            value >= lowest as f64 && if wide { value < highest as f64 } else { value <= highest as f64 }
        }
    };
    if fits {
        return Ok(());
    }
    fail!(
        "{} is outside of what {dtype} holds, {lowest} to {highest}: cast the tensor to a larger type first",
        shown(value)
    );
}

/// A number as messages write it.
pub(super) fn shown(value: Scalar) -> String {
    match value {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Float(bits) => f64::from_bits(bits).to_string(),
    }
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
        if !at_most(&Dim::Const(0), dim) {
            fail!("the length {dim} may be negative: its variables allow {} to {}", dim.min_value(), dim.max_value());
        }
        // Strides are products of the other lengths even when one is 0, so zeros count as one here.
        total = match total.checked_mul(dim.max_value().max(1)) {
            Some(total) if total <= ELEMENT_LIMIT => total,
            _ => fail!("the shape {shape} has more elements than memory can hold"),
        };
    }
    Ok(())
}

/// A tensor's elements must be of a type that memory holds: no indices, vectors or nothing at all.
pub fn check_element(dtype: DType) -> Built<()> {
    if DType::ALL.contains(&dtype) {
        return Ok(());
    }
    let names: Vec<String> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    fail!("{dtype} is no type that elements in memory can have; those are {}", names.join(", "))
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
    fn symbolic_lengths_meet_if_they_are_equal_for_every_value() {
        let variable = UOp::variable("n", 1, 8);
        let (n, three, four) = (Dim::from(&variable), Dim::from(variable.bind(3)), Dim::from(variable.bind(4)));
        let shape = broadcast_shapes(&[&(&n, 2).into(), &(&three, 1).into()]);
        assert_eq!(shape, Ok((&three, 2).into()));
        let error = broadcast_shapes(&[&(&four,).into(), &(&three,).into()]).unwrap_err();
        assert_eq!(error.message, "n is bound to 4 and to 3 in one program; bind it once");
        let error = broadcast_shapes(&[&(&three,).into(), &[3].into()]).unwrap_err();
        assert_eq!(error.message, "the shapes [n] and [3] do not broadcast: lengths n and 3 meet");
        assert!(check_size(&(&n - 2,).into()).unwrap_err().message.contains("n - 2"));
        assert!(check_size(&(&n - 1,).into()).is_ok());
    }

    #[test]
    fn scalars_stay_scalars_and_types_meet() {
        let a = UOp::param(0, DType::I32, 3);
        let [a, b] = broadcast([&a, &UOp::float(1.5, DType::F16)]).unwrap();
        assert_eq!((a.dtype(), b.shape().len()), (DType::F16, 0));
    }
}
