//! Diagonals of matrices, and matrices of diagonals.
//!
//! Tested by values of PyTorch, and `conformance views`.

use super::movement::{merge_axes, pad_axis, reorder, shrink_axis};
use crate::UOp;
use crate::ir::{Dim, Shape};
use crate::ops::create::positions;
use crate::ops::shapes::{ELEMENT_LIMIT, check_size, concrete_axis};
use crate::ops::{Built, fail, resolve_axis};
use crate::view::dims::at_most;

/// A diagonal of two axes, as a new last axis.
pub fn diagonal(x: &UOp, offset: i64, a: i64, b: i64) -> Built {
    let rank = x.shape().len();
    let (a, b) = (resolve_axis(a, rank)?, resolve_axis(b, rank)?);
    if a == b {
        fail!("a diagonal needs two axes, and both are axis {a}");
    }
    let (row, column) = if offset < 0 { (offset.saturating_neg(), 0) } else { (0, offset) };
    if x.shape()[a].as_const().is_none() || x.shape()[b].as_const().is_none() {
        return diagonal_any(x, (a, row), (b, column));
    }
    let (rows, columns) = (concrete_axis(x, a)?, concrete_axis(x, b)?);
    let len = rows.saturating_sub(row).min(columns.saturating_sub(column)).max(0);
    let (row, column) = if len == 0 { (0, 0) } else { (row, column) };
    let square = shrink_axis(&shrink_axis(x, a, row, row + len), b, column, column + len);
    Ok(whole_diagonal(&square, a, b, Dim::Const(len)))
}

/// A diagonal of axes of which one has a variable length, from this row and column on, where it is known which one ends it.
fn diagonal_any(x: &UOp, (a, row): (usize, i64), (b, column): (usize, i64)) -> Built {
    let (rows, columns) = (&x.shape()[a], &x.shape()[b]);
    if !at_most(&Dim::Const(row), rows) || !at_most(&Dim::Const(column), columns) {
        fail!("axes of length {rows} and {columns} are not known to reach the diagonal");
    }
    let (below, beside) = (rows - row, columns - column);
    let len = match (at_most(&below, &beside), at_most(&beside, &below)) {
        (true, _) => below,
        (_, true) => beside,
        _ => fail!("which of the lengths {below} and {beside} ends the diagonal is not known"),
    };
    let square = shrink_axis(&shrink_axis(x, a, row, &len + row), b, column, &len + column);
    Ok(whole_diagonal(&square, a, b, len))
}

/// The diagonal of two axes of one length, from corner to corner.
fn whole_diagonal(square: &UOp, a: usize, b: usize, len: Dim) -> UOp {
    let rank = square.shape().len();
    let order: Vec<usize> = (0..rank).filter(|&k| k != a && k != b).chain([a, b]).collect();
    // Rows of len + 1 elements put the diagonal into column 0.
    let flat = merge_axes(&reorder(square, &order), rank - 2, rank);
    let padded = pad_axis(&flat, rank - 2, 0, len.clone());
    let mut lengths = padded.shape()[..rank - 2].to_vec();
    lengths.extend([len.clone(), &len + 1]);
    let column = shrink_axis(&padded.reshape(lengths), rank - 1, 0, 1);
    column.reshape(column.shape()[..rank - 1].to_vec())
}

/// A matrix with x on a diagonal, or the diagonal of a matrix.
pub fn diag(x: &UOp, offset: i64) -> Built {
    match x.shape().len() {
        1 => {
            let len = x.shape()[0].clone();
            if offset.saturating_abs() > ELEMENT_LIMIT {
                fail!("a diagonal so far out as {offset} needs a matrix with more elements than memory can hold");
            }
            let size = &len + offset.abs();
            let shape = Shape::from([size.clone(), size.clone()]);
            check_size(&shape)?;
            let (row, column) = if offset < 0 { (-offset, 0) } else { (0, offset) };
            let along = pad_axis(x, 0, row, offset.abs() - row);
            let on = (positions(&shape, 0) + UOp::index(column - row)).equals(positions(&shape, 1));
            Ok(on.select(along.reshape([size, Dim::Const(1)]).expand(shape), x.const_like(0)))
        }
        2 => diagonal(x, offset, 0, 1),
        rank => fail!("takes one or two axes, and {} has {rank}", x.shape()),
    }
}
