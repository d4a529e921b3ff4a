//! Linear algebra that eliminates: factors, solutions, inverses and determinants of the matrices in the last two axes, over batches of any shape.
//!
//! A factorisation of n columns is n *steps*, each a few ops on the whole matrix, which is stored in between. A step knows its column by where its
//! views begin ([`Masks`]), and where a view begins is no part of a kernel: so the steps of all columns share a few kernels. Signs and pivots are
//! LAPACK's, as PyTorch's are.
//!
//! Always: half floats are computed as `f32`. What has no solution (a singular matrix, one that is not positive) gives infinities or NaN, and no error, for values
//! are not looked at. Gradients are those of the whole function (`grad::matrices`), and do not go through steps.
//!
//! Tested by values and gradients of PyTorch (data/more_ops.json.gz), and at size by tests/it/matrices.rs.

mod solutions;

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Function, Op, Shape};

use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::{Length, Result, Tensor};

/// The lengths of matrices.
#[derive(Clone)]
pub(super) struct Matrices {
    /// Of the axes before the last two.
    pub(super) outer: Vec<Dim>,
    pub(super) rows: i64,
    pub(super) columns: i64,
}

impl Matrices {
    /// Of a tensor of floats whose last two lengths are numbers.
    pub(super) fn of(op: &'static str, x: &Tensor, location: &'static Location<'static>) -> Result<Matrices> {
        let dims = x.dims()?;
        let lengths = match dims.len() {
            0 | 1 => None,
            rank => Some((dims[rank - 2].as_const(), dims[rank - 1].as_const())),
        };
        match lengths {
            Some((Some(rows), Some(columns))) if x.dtype()?.is_float() => {
                Ok(Matrices { outer: dims[..dims.len() - 2].to_vec(), rows, columns })
            }
            _ => {
                let message = "there must be two axes at least, the last two of lengths that are numbers, and the elements floats";
                Err(CallError::new(op, &[&x.uop()?], message, location).into())
            }
        }
    }

    /// Of square matrices.
    pub(super) fn square(op: &'static str, x: &Tensor, location: &'static Location<'static>) -> Result<Matrices> {
        let found = Matrices::of(op, x, location)?;
        if found.rows == found.columns {
            return Ok(found);
        }
        let message = "the last two axes must be as long as each other";
        Err(CallError::new(op, &[&x.uop()?], message, location).into())
    }

    /// Others of the same batch.
    pub(super) fn shape(&self, rows: i64, columns: i64) -> Shape {
        self.outer.iter().cloned().chain([rows.into(), columns.into()]).collect()
    }
}

/// A tensor, or one that carries the error.
pub(in crate::tensor) fn built(result: Result<Tensor>) -> Tensor {
    result.unwrap_or_else(Tensor::from_error)
}

/// A value with a derivative in closed form; see [`Function`].
pub(in crate::tensor) fn known(function: Function, value: &Tensor, operands: &[&Tensor]) -> Tensor {
    let all: Vec<&Tensor> = std::iter::once(value).chain(operands.iter().copied()).collect();
    Tensor::joined(function.name(), &all, |nodes| {
        Ok(UOp::new(Op::Function, nodes[0].dtype(), nodes.to_vec(), Arg::Function(function)))
    })
}

/// `compute` in a type of 32 bits at least.
pub(super) fn in_single(x: &Tensor, compute: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match x.dtype()? {
        DType::F16 | DType::BF16 => Ok(compute(&x.cast(DType::F32))?.cast(x.dtype()?)),
        _ => compute(x),
    }
}

/// Which of `len` positions a step is at, and which come after: views of two lines in memory, which differ from step to step in where they begin.
pub(super) struct Masks {
    len: i64,
    at: Tensor,
    after: Tensor,
}

impl Masks {
    pub(super) fn of(len: i64) -> Masks {
        let line = Tensor::iota((2 * len - 1).max(0));
        Masks { len, at: line.eq(len - 1).contiguous(), after: line.gt(len - 1).contiguous() }
    }

    /// Whether a position is the k-th.
    pub(super) fn at(&self, k: i64) -> Tensor {
        self.at.narrow(0, self.len - 1 - k, self.len)
    }

    /// Whether a position is past the k-th.
    pub(super) fn after(&self, k: i64) -> Tensor {
        self.after.narrow(0, self.len - 1 - k, self.len)
    }
}

/// Of rows rather than of columns.
pub(super) fn upright(mask: &Tensor) -> Tensor {
    mask.unsqueeze(-1)
}

pub(super) fn column(x: &Tensor, k: i64) -> Tensor {
    x.narrow(-1, k, 1)
}

fn row(x: &Tensor, k: i64) -> Tensor {
    x.narrow(-2, k, 1)
}

/// What elimination leaves: the matrix, and for each -1 if an odd number of rows were exchanged, else 1.
struct Eliminated {
    matrix: Tensor,
    sign: Tensor,
}

/// The first `size` columns eliminated, each by the largest element that is left in it: below, or (`everywhere`) above it too.
fn eliminated(x: &Tensor, shape: &Matrices, size: i64, everywhere: bool) -> Result<Eliminated> {
    let masks = Masks::of(size);
    let row_numbers = Tensor::iota(size).unsqueeze(-1);
    let numbers = Tensor::iota(size).contiguous();
    let mut x = x.contiguous();
    let mut sign = Tensor::ones_of(shape.shape(1, 1), x.dtype()?);
    for k in 0..size {
        let (at, after) = (upright(&masks.at(k)), upright(&masks.after(k)));
        // Parts are taken of memory, before anything is computed: where they begin is then no part of a kernel.
        let (along, first) = (column(&x, k), row(&x, k));
        let pivot_row = at.logical_or(&after).where_(along.abs(), -1.0).argmax(Some(-2), true).contiguous();
        let chosen = x.gather(&pivot_row.expand(shape.shape(1, shape.columns)), -2);
        let pivot = along.gather(&pivot_row, -2);
        // The row of the pivot and the k-th are swapped.
        let is_chosen = row_numbers.eq(&pivot_row);
        let moved = is_chosen.where_(&first, &x);
        let moved_along = is_chosen.where_(column(&first, k), along);
        let safe = pivot.eq(0.0).where_(1.0, &pivot);
        let others = if everywhere { at.logical_not() } else { after };
        let factor = others.where_(moved_along / if everywhere { &pivot } else { &safe }, 0.0);
        let rest = moved - factor * &chosen;
        let is_moved = pivot_row.ne(numbers.narrow(0, k, 1));
        sign = (is_moved.where_(-1.0, sign.ones_like()) * sign).contiguous();
        x = at.where_(chosen, rest).contiguous();
    }
    Ok(Eliminated { matrix: x, sign })
}

fn diagonal(x: &Tensor) -> Tensor {
    x.diagonal(0, -2, -1)
}

/// x of a x = b, as a plain value: both eliminated together.
fn solved(a: &Tensor, b: &Tensor, shape: &Matrices, columns: i64) -> Result<Tensor> {
    let size = shape.rows;
    let both = Tensor::cat(&[a, b], -1);
    let wide = Matrices { columns: size + columns, ..shape.clone() };
    let found = eliminated(&both, &wide, size, true)?.matrix;
    Ok(found.narrow(-1, size, columns) / diagonal(&found.narrow(-1, 0, size)).unsqueeze(-1))
}

/// x of a x = b with a triangular a, as a plain value. What is known is taken from the rows that are left, all at once.
fn solved_triangle(a: &Tensor, b: &Tensor, size: i64, upper: bool, unit: bool) -> Tensor {
    let masks = Masks::of(size);
    let a = a.contiguous();
    let mut b = b.contiguous();
    let step = |b: &Tensor, k: i64| {
        let (at, after) = (upright(&masks.at(k)), upright(&masks.after(k)));
        let known = if unit { row(b, k) } else { row(b, k) / column(&row(&a, k), k) };
        let left = if upper { at.logical_or(&after).logical_not() } else { after };
        let rest = b - left.where_(column(&a, k), 0.0) * &known;
        at.where_(known, rest).contiguous()
    };
    for number in 0..size {
        b = step(&b, if upper { size - 1 - number } else { number });
    }
    b
}

fn identity(shape: &Matrices, dtype: DType) -> Tensor {
    Tensor::eye_of(shape.rows, shape.rows, dtype).expand(shape.shape(shape.rows, shape.rows))
}

/// The inverse of a triangle whose derivative is known: that of `triangle`, a tensor with zeros on the other side.
pub(super) fn inverse_triangle(triangle: &Tensor, shape: &Matrices, upper: bool, unit: bool) -> Result<Tensor> {
    let one = identity(shape, triangle.dtype()?);
    Ok(known(Function::Inverse, &solved_triangle(&triangle.detach(), &one, shape.rows, upper, unit), &[triangle]))
}

fn inverse(x: &Tensor, shape: &Matrices) -> Result<Tensor> {
    let one = identity(shape, x.dtype()?);
    Ok(known(Function::Inverse, &solved(&x.detach(), &one, shape, shape.rows)?, &[x]))
}

/// The lower factor, as a plain value; a triangle is read.
fn lower_factor(x: &Tensor, size: i64) -> Tensor {
    let masks = Masks::of(size);
    let mut x = x.contiguous();
    for k in 0..size {
        let (at, after) = (masks.at(k), upright(&masks.after(k)));
        let pivot = column(&row(&x, k), k);
        let below = after.where_(column(&x, k), 0.0);
        let rest = &x - &below * below.t() / &pivot;
        x = at.where_(column(&x, k) / pivot.sqrt(), rest).contiguous();
    }
    x.tril(0)
}

fn cholesky(x: &Tensor, shape: &Matrices) -> Result<Tensor> {
    let factor = lower_factor(&x.detach(), shape.rows);
    let inverse = solved_triangle(&factor, &identity(shape, x.dtype()?), shape.rows, false, false);
    Ok(known(Function::Cholesky, &factor, &[x, &inverse]))
}

/// The determinant of three rows at the most is a sum of products; of more, what elimination leaves on the diagonal.
fn determinant(x: &Tensor, shape: &Matrices) -> Result<Tensor> {
    let at = |i: i64, j: i64| column(&row(x, i), j).squeeze([-2, -1]);
    let minor = |[a, b]: [i64; 2], [c, d]: [i64; 2]| at(a, c) * at(b, d) - at(a, d) * at(b, c);
    Ok(match shape.rows {
        0 => Tensor::ones_of(Shape::from(shape.outer.clone()), x.dtype()?),
        1 => at(0, 0),
        2 => minor([0, 1], [0, 1]),
        3 => {
            let rows = [1, 2];
            at(0, 0) * minor(rows, [1, 2]) - at(0, 1) * minor(rows, [0, 2]) + at(0, 2) * minor(rows, [0, 1])
        }
        size => {
            let Eliminated { matrix, sign } = eliminated(&x.detach(), shape, size, false)?;
            let value = diagonal(&matrix).prod(-1) * sign.squeeze([-2, -1]);
            known(Function::Determinant, &value, &[x, &inverse(x, shape)?])
        }
    })
}

/// What reflections leave of a matrix above its diagonal, and the reflections: each a column and its factor.
struct Reflected {
    upper: Tensor,
    reflections: Vec<(Tensor, Tensor)>,
}

fn reflected(x: &Tensor, shape: &Matrices, steps: i64) -> Reflected {
    let (rows, columns) = (Masks::of(shape.rows), Masks::of(shape.columns));
    let mut x = x.contiguous();
    let mut reflections = Vec::new();
    for k in 0..steps {
        let (at, after) = (upright(&rows.at(k)), upright(&rows.after(k)));
        let first = column(&row(&x, k), k);
        let below = after.where_(column(&x, k), 0.0);
        let rest = below.square().sum_keepdim(-2).contiguous();
        let is_done = rest.eq(0.0);
        let length = (first.square() + rest).sqrt();
        let end = first.lt(0.0).where_(&length, -&length);
        let factor = is_done.where_(0.0, (&end - &first) / is_done.where_(1.0, &end)).contiguous();
        let vector = at.where_(1.0, below / is_done.where_(1.0, first - end)).contiguous();
        let open = columns.at(k).logical_or(columns.after(k));
        let along = open.where_((&vector * &x).sum_keepdim(-2), 0.0).contiguous();
        x = (&x - &factor * &vector * along).contiguous();
        reflections.push((vector, factor));
    }
    Reflected { upper: x.narrow(-2, 0, steps).triu(0), reflections }
}

/// The first columns of the product of reflections.
fn product_of(reflections: &[(Tensor, Tensor)], shape: &Matrices, dtype: DType) -> Tensor {
    let columns = reflections.len() as i64;
    let one = Tensor::eye_of(shape.rows, columns, dtype).expand(shape.shape(shape.rows, columns));
    reflections.iter().rev().fold(one.contiguous(), |product, (vector, factor)| {
        let along = (vector * &product).sum_keepdim(-2).contiguous();
        (&product - factor * vector * along).contiguous()
    })
}

/// Q and R of matrices that are not wide. R is a factor of `x^T x`, and Q is x times the inverse of R: so their derivatives are those.
fn tall_qr(x: &Tensor, shape: &Matrices) -> Result<(Tensor, Tensor)> {
    let Reflected { upper, reflections } = reflected(&x.detach(), shape, shape.columns);
    let q = product_of(&reflections, shape, x.dtype()?);
    let small = Matrices { rows: shape.columns, ..shape.clone() };
    let lower_inverse = solved_triangle(&upper.t(), &identity(&small, x.dtype()?), small.rows, false, false);
    let lower = known(Function::Cholesky, &upper.t(), &[&x.t().matmul(x), &lower_inverse]);
    let inverse = known(Function::Inverse, &lower_inverse, &[&lower]);
    let q = known(Function::Alike, &q, &[&x.matmul(&inverse.t())]);
    Ok((q, lower.t()))
}

pub(super) fn qr(x: &Tensor, shape: &Matrices) -> Result<(Tensor, Tensor)> {
    if shape.columns <= shape.rows {
        return tall_qr(x, shape);
    }
    // What stands to the right is turned as the square part is.
    let (rows, rest) = (shape.rows, shape.columns - shape.rows);
    let (q, r) = tall_qr(&x.narrow(-1, 0, rows), &Matrices { columns: rows, ..shape.clone() })?;
    let right = q.t().matmul(&x.narrow(-1, rows, rest));
    let r = Tensor::cat(&[&r, &right], -1);
    Ok((q, r))
}
