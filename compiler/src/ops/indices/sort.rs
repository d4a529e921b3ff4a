//! Sorting, and the first of what is sorted: lines become rows of unsigned keys of the same order, which `radix` sorts and of which `selection` finds
//! the first.
//!
//! NaN is larger than any number, as in PyTorch, and 0 and -0 are equal; sorts are stable in both directions. Indices are `i32`.

use super::indexing::gather;
use super::radix::{self, Keys};
use super::selection;
use crate::dtype::Scalar;
use crate::ir::{Dim, Shape};
use crate::ops::bits::order_key;
use crate::ops::extreme::stored_once;
use crate::ops::movement::move_axis;
use crate::ops::{Built, fail, resolve_axis};
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
        crate::ops::resolve_axes(&[axis], 0)?;
        return Ok(UOp::int(0, DType::I32));
    }
    let lines = Lines::of(x, resolve_axis(axis, x.shape().len())?, descending)?;
    Ok(lines.along_axis(&radix::order(&lines.keys)?))
}

/// The `k` largest or smallest along an axis, best first, and where they stand.
pub fn topk(x: &UOp, k: i64, axis: i64, largest: bool) -> Built<(UOp, UOp)> {
    if x.shape().is_empty() {
        crate::ops::resolve_axes(&[axis], 0)?;
        if k != 1 {
            fail!("{k} of 1 element");
        }
        return Ok((x.clone(), UOp::int(0, DType::I32)));
    }
    let resolved = resolve_axis(axis, x.shape().len())?;
    let len = &x.shape()[resolved];
    if k < 0 || k > len.min_value() {
        fail!("{k} of the {len} elements of axis {resolved}");
    }
    let lines = Lines::of(x, resolved, largest)?;
    let order = lines.along_axis(&selection::first(&lines.keys, k)?);
    Ok((gather(x, &order, axis)?, order))
}

/// The lines along an axis as rows of keys.
struct Lines {
    keys: Keys,
    axis: usize,
    /// The lengths of the other axes.
    others: Vec<Dim>,
}

impl Lines {
    fn of(x: &UOp, axis: usize, descending: bool) -> Built<Lines> {
        let len = x.shape()[axis].clone();
        if len.max_value() > i32::MAX as i64 {
            fail!("axis {axis} of length {len} is too long: indices are i32");
        }
        // Several kernels read the elements, and all must see the same.
        let last = x.shape().len() - 1;
        let moved = move_axis(&stored_once(&x.detach()), axis, last);
        let others = moved.shape()[..last].to_vec();
        let rows = others.iter().fold(Dim::Const(1), |rows, dim| &rows * dim);
        Ok(Lines { keys: keys(&moved.reshape([rows, len]), descending), axis, others })
    }

    /// Rows of numbers as lines along the axis.
    fn along_axis(&self, numbers: &UOp) -> UOp {
        let count = numbers.shape()[1].clone();
        let shape: Shape = self.others.iter().cloned().chain([count]).collect();
        move_axis(&numbers.reshape(shape), self.others.len(), self.axis)
    }
}

/// Unsigned integers in the order of the elements, with how many of their bits count.
fn keys(x: &UOp, descending: bool) -> Keys {
    let dtype = x.dtype();
    if dtype.is_bool() {
        let keys = if descending { x.not() } else { x.clone() };
        return Keys { keys: keys.cast(DType::U8), bits: 1 };
    }
    let x = if dtype.is_float() { order_key(x) } else { x.clone() };
    let bits = 8 * x.dtype().bytes() as u32;
    let unsigned = [DType::U8, DType::U16, DType::U32, DType::U64][bits.trailing_zeros() as usize - 3];
    // Of numbers with a sign the least becomes 0.
    let x = if x.dtype().is_signed() {
        x.bitcast(unsigned).xor(UOp::constant(Scalar::UInt(1 << (bits - 1)).cast(unsigned), unsigned))
    } else {
        x
    };
    Keys { keys: if descending { x.not() } else { x }, bits }
}
