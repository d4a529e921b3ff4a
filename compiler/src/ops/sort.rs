//! Sorting by counting: an element's place is how many come before it, among equals those that stand before it.
//!
//! All pairs are compared, so the work grows with the square of the axis. NaN is larger than any number, as in PyTorch; sorts are
//! stable in both directions. Indices are `i32`.

use super::create::positions;
use super::elementwise::order_key;
use super::extreme::stored_once;
use super::indexing::gather;
use super::movement::{insert_axis, move_axis, shrink_axis};
use super::reduce::along;
use super::shapes::concrete_axis;
use super::{Built, fail, resolve_axis};
use crate::ir::{ReduceOp, Shape};
use crate::{DType, UOp};

/// Sorted values along an axis, and where each came from.
pub fn sort(x: &UOp, axis: i64, descending: bool) -> Built<(UOp, UOp)> {
    let order = argsort(x, axis, descending)?;
    if x.shape().is_empty() {
        return Ok((x.clone(), order));
    }
    Ok((gather(x, &order, axis)?, order))
}

/// Where each element of the sorted axis comes from.
pub fn argsort(x: &UOp, axis: i64, descending: bool) -> Built {
    if x.shape().is_empty() {
        super::resolve_axes(&[axis], 0)?;
        return Ok(UOp::int(0, DType::I32));
    }
    let axis = resolve_axis(axis, x.shape().len())?;
    let last = x.shape().len() - 1;
    let len = concrete_axis(x, axis)?;
    if len > i32::MAX as i64 {
        fail!("axis {axis} of length {len} is too long: indices are i32");
    }
    // Elements are compared in pairs, so all must see the same.
    let key = stored_once(&if x.dtype().is_float() { order_key(&x.detach()) } else { x.clone() });
    let key = move_axis(&key, axis, last);
    let mut square = key.shape().to_vec();
    square.push(len.into());
    let square = Shape::from(square);
    let this = insert_axis(&key, last + 1).expand(square.clone());
    let other = insert_axis(&key, last).expand(square.clone());
    let before = if descending { this.lt(&other) } else { other.lt(&this) };
    let (row, column) = (positions(&square, last), positions(&square, last + 1));
    let counted = before.or(&other.equals(&this).and(&column.lt(&row)));
    let place = along(&counted.cast(DType::I32), ReduceOp::Add, &[last + 1], false);
    // The order is the inverse of the places: the one element whose place is k.
    let here = insert_axis(&place, last).expand(square.clone());
    let found = here.equals(row.cast(DType::I32)).select(column.cast(DType::I32), UOp::int(0, DType::I32));
    Ok(move_axis(&along(&found, ReduceOp::Add, &[last + 1], false), last, axis))
}

/// The `k` largest or smallest along an axis, best first, and where they stand.
pub fn topk(x: &UOp, k: i64, axis: i64, largest: bool) -> Built<(UOp, UOp)> {
    if x.shape().is_empty() {
        super::resolve_axes(&[axis], 0)?;
        if k != 1 {
            fail!("{k} of 1 element");
        }
        return Ok((x.clone(), UOp::int(0, DType::I32)));
    }
    let resolved = resolve_axis(axis, x.shape().len())?;
    let len = concrete_axis(x, resolved)?;
    if k < 0 || k > len {
        fail!("{k} of the {len} elements of axis {resolved}");
    }
    let order = shrink_axis(&argsort(x, axis, largest)?, resolved, 0, k);
    Ok((gather(x, &order, axis)?, order))
}
