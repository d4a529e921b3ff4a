//! Products of matrices and vectors: elementwise products summed over the shared axis, which the scheduler sees as such.
//!
//! Half floats are multiplied and summed in `f32` (their products are exact there) and rounded once; integers keep their type.

use super::movement::{insert_axis, reorder};
use super::shapes::{check_size, common_dtype};
use super::{Built, broadcast, broadcast_shapes, broadcast_to, fail};
use crate::UOp;
use crate::ir::{ReduceOp, Shape};

/// Matrix product over the last two axes, the others broadcast; a vector counts as a row on the left, as a column on the right.
pub fn matmul(a: &UOp, b: &UOp) -> Built {
    let dtype = common_dtype([a, b])?;
    let (rank_a, rank_b) = (a.shape().len(), b.shape().len());
    if rank_a == 0 || rank_b == 0 {
        fail!(
            "needs an axis to sum over, and {} has none: use mul",
            if rank_a == 0 { "the left" } else { "the right" }
        );
    }
    let (a, b) = (&a.cast(dtype), &b.cast(dtype));
    let left = if rank_a == 1 { insert_axis(a, 0) } else { a.clone() };
    let right = if rank_b == 1 { insert_axis(b, 1) } else { b.clone() };
    let (inner_a, inner_b) = (&left.shape()[left.shape().len() - 1], &right.shape()[right.shape().len() - 2]);
    if inner_a != inner_b {
        fail!("the lengths to sum over differ: {inner_a} on the left, {inner_b} on the right");
    }
    let product = multiply(&left, &right)?;
    let rank = product.shape().len();
    let mut lengths = product.shape().to_vec();
    if rank_b == 1 {
        lengths.remove(rank - 1);
    }
    if rank_a == 1 {
        lengths.remove(rank - 2);
    }
    Ok(product.reshape(lengths))
}

/// Both with two axes at least, of one type.
fn multiply(a: &UOp, b: &UOp) -> Built {
    let (rank_a, rank_b) = (a.shape().len(), b.shape().len());
    let (rows, inner, columns) = (&a.shape()[rank_a - 2], &a.shape()[rank_a - 1], &b.shape()[rank_b - 1]);
    let batch_a = Shape::from(a.shape()[..rank_a - 2].to_vec());
    let batch_b = Shape::from(b.shape()[..rank_b - 2].to_vec());
    let batch = broadcast_shapes(&[&batch_a, &batch_b])?;
    let all: Shape = batch.iter().chain([rows, columns, inner]).cloned().collect();
    check_size(&batch.iter().chain([rows, columns]).cloned().collect())?;
    let swapped: Vec<usize> = (0..rank_b - 2).chain([rank_b - 1, rank_b - 2]).collect();
    let left = broadcast_to(&insert_axis(a, rank_a - 1), &all)?;
    let right = broadcast_to(&insert_axis(&reorder(b, &swapped), rank_b - 2), &all)?;
    Ok(sum_of_products(&left, &right, &[all.len() - 1]))
}

/// Products of equal shapes summed along axes, half floats in `f32`.
pub(super) fn sum_of_products(a: &UOp, b: &UOp, axes: &[usize]) -> UOp {
    let dtype = a.dtype();
    let wide = if dtype.is_float() { crate::dtype::lattice::accumulate(dtype) } else { dtype };
    (a.cast(wide) * b.cast(wide)).reduce(ReduceOp::Add, axes).cast(dtype)
}

/// Product of two vectors.
pub fn dot(a: &UOp, b: &UOp) -> Built {
    if a.shape().len() != 1 || b.shape().len() != 1 {
        fail!("takes two tensors of one axis: use matmul for others");
    }
    matmul(a, b)
}

/// Each element of one vector times each of the other.
pub fn outer(a: &UOp, b: &UOp) -> Built {
    if a.shape().len() != 1 || b.shape().len() != 1 {
        fail!("takes two tensors of one axis");
    }
    let shape = Shape::from([a.shape()[0].clone(), b.shape()[0].clone()]);
    check_size(&shape)?;
    let [a, b] = broadcast([&insert_axis(a, 1), &insert_axis(b, 0)])?;
    Ok(a * b)
}

/// x times the transpose of the weight, plus the bias.
pub fn linear(x: &UOp, weight: &UOp, bias: Option<&UOp>) -> Built {
    let rank = weight.shape().len();
    if rank == 0 || rank > 2 {
        fail!("the weight {} must have axes [out, in] or [in]", weight.shape());
    }
    let order: Vec<usize> = (0..rank).rev().collect();
    let product = matmul(x, &reorder(weight, &order))?;
    match bias {
        Some(bias) => super::elementwise::add(&product, bias),
        None => Ok(product),
    }
}
