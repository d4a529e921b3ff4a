//! Singular values and eigenvalues of the matrices in the last two axes, and what is made of them.
//!
//! Pairs of columns are rotated until all are orthogonal (one-sided Jacobi). Pairs are chosen as in a tournament: a *round* rotates all columns at once,
//! a *sweep* is as many rounds as bring each column beside each other one, and all rounds share their kernels. Columns are kept as rows, beside those of
//! the rotation that has come about. A symmetric matrix is made positive by adding a multiple of one.
//!
//! Few columns are swept so often in a graph, like any other value. Many are swept by a function that is compiled for their shape, until nothing changes: so
//! the value is computed when it is asked for (of the graph nothing is realised, and gradients flow). A traced function cannot look, and sweeps as often as
//! is enough.
//!
//! Always: computed in `f64`. Gradients are those of the whole function (`grad::matrices`). Tested by values and gradients of PyTorch
//! (data/more_ops.json.gz), and at size by tests/it/matrices.rs.

use std::panic::Location;

use warpweft_compiler::ir::{Function, Shape};

use super::factor::{Matrices, built, known, qr};
use crate::DType;
use crate::function::{compile, spec};
use crate::tensor::errors::{CallError, within};
use crate::tensor::{Result, Tensor, trace};

/// Columns that are swept in a graph.
const FEW: i64 = 10;
/// Columns that a traced function sweeps: the rounds of all sweeps are launched one by one.
const TRACED_MAX: i64 = 64;
/// Sweeps after which a matrix is left as it is.
const SWEEPS_MAX: usize = 40;
/// Columns whose cosine is smaller are orthogonal.
const ORTHOGONAL: f64 = 1e-15;

/// Sweeps that are enough for so many columns, without a look, whose lengths are as far apart as a type allows, or equal: random ones take half.
fn sweeps_of(columns: i64) -> usize {
    match columns {
        ..=10 => 13,
        11..=16 => 16,
        17..=32 => 22,
        _ => 32,
    }
}

/// One rotation of row k and row k + half each, for all k, and rows moved on as in a tournament. Vectors are the first `width` elements of rows.
fn round(x: &Tensor, half: i64, width: i64) -> (Tensor, Tensor) {
    let (a, b) = (x.narrow(-2, 0, half), x.narrow(-2, half, half));
    let product =
        |a: &Tensor, b: &Tensor| (a.narrow(-1, 0, width) * b.narrow(-1, 0, width)).sum_keepdim(-1).contiguous();
    let (square_a, square_b, between) = (product(&a, &a), product(&b, &b), product(&a, &b));
    let is_done = between.eq(0.0);
    let safe = is_done.where_(1.0, &between);
    let zeta = (&square_b - &square_a) * 0.5 / &safe;
    let tangent = zeta.lt(0.0).where_(-1.0, zeta.ones_like()) / (zeta.abs() + (zeta.square() + 1.0).sqrt());
    let tangent = is_done.where_(0.0, tangent);
    let cosine = 1.0 / (tangent.square() + 1.0).sqrt();
    let sine = (&cosine * tangent).contiguous();
    let cosine = cosine.contiguous();
    let scale = square_a * square_b;
    let left = is_done.where_(0.0, between.abs() / is_done.where_(1.0, scale.sqrt()));
    let (top, bottom) = ((&cosine * &a - &sine * &b).contiguous(), (sine * a + cosine * b).contiguous());
    // One stays, and all others move on by one position around the two rows.
    let parts = [
        top.narrow(-2, 0, 1),
        bottom.narrow(-2, 0, 1),
        top.narrow(-2, 1, (half - 2).max(0)),
        bottom.narrow(-2, 1, half - 1),
        top.narrow(-2, half - 1, 1),
    ];
    let used: Vec<&Tensor> = if half == 1 { parts[..2].iter().collect() } else { parts.iter().collect() };
    let next = Tensor::cat(&used, -2).contiguous();
    (next, left.max_keepdim([-2, -1]))
}

/// All pairs once; and the largest cosine between two that was met.
fn sweep(x: &Tensor, rows: i64, width: i64) -> (Tensor, Tensor) {
    let (mut x, mut largest) = (x.clone(), None::<Tensor>);
    for _ in 1..rows {
        let (next, left) = round(&x, rows / 2, width);
        largest = Some(largest.map_or_else(|| left.clone(), |largest| largest.maximum(&left).contiguous()));
        x = next;
    }
    let largest = largest.unwrap_or_else(|| x.narrow(-1, 0, 1).narrow(-2, 0, 1) * 0.0);
    (x, largest)
}

/// Rows that are orthogonal, as many as columns were: the columns turned, and what turned them.
struct Orthogonal {
    columns: Tensor,
    rotation: Tensor,
}

/// Of matrices in `f64` that are not wide.
fn orthogonal(
    op: &'static str,
    x: &Tensor,
    shape: &Matrices,
    location: &'static Location<'static>,
) -> Result<Orthogonal> {
    let (size, width) = (shape.columns, shape.rows);
    let even = size + size % 2;
    let one = Tensor::eye_of(size, size, DType::F64).expand(shape.shape(size, size));
    let mut rows = Tensor::cat(&[&x.t(), &one], -1);
    if even > size {
        let padding: Vec<(i64, i64)> = shape.outer.iter().map(|_| (0, 0)).chain([(0, 1), (0, 0)]).collect();
        rows = rows.pad(&padding);
    }
    let is_known = Shape::from(shape.outer.clone()).is_concrete();
    if size > FEW && is_known && !trace::is_active() {
        rows = swept_until_done(&rows, even, width)?;
    } else if size > TRACED_MAX {
        let message = format!(
            "a traced function, or one batch of any length, has at most {TRACED_MAX} columns, and these are {size}: \
             compute this outside, where sweeps go on until nothing changes, and give the function what it needs of it"
        );
        return Err(CallError::new(op, &[&x.uop()?], message, location).into());
    } else if size > 1 {
        rows = (0..sweeps_of(size)).fold(rows.contiguous(), |rows, _| sweep(&rows, even, width).0);
    }
    // A sweep brings rows back to their positions, so the one of zeros that made their number even is the last.
    let rows = rows.narrow(-2, 0, size);
    Ok(Orthogonal { columns: rows.narrow(-1, 0, width), rotation: rows.narrow(-1, width, size) })
}

fn swept_until_done(rows: &Tensor, count: i64, width: i64) -> Result<Tensor> {
    let function = compile([spec(DType::F64, rows.dims()?).on(&rows.device()?)], |[x]| {
        let (x, left) = sweep(&x, count, width);
        [x, left.max(())]
    })?;
    // A tensor of its own: what it is made of is not realised by this.
    let mut rows = Tensor::from_uop(rows.uop()?);
    for _ in 0..SWEEPS_MAX {
        let [next, left] = function.call([&rows])?;
        rows = next;
        // What is not a number will not become one.
        let left = left.item::<f64>()?;
        if left.is_nan() || left < ORTHOGONAL {
            break;
        }
    }
    Ok(rows)
}

/// Rows in the order of numbers.
fn ordered(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    Ok(x.gather(&order.unsqueeze(-1).expand(x.dims()?), -2))
}

/// Left vectors as columns, values and right vectors as columns, as plain values of matrices in `f64` that are not wide; the largest first.
fn plain_svd(
    op: &'static str,
    x: &Tensor,
    shape: &Matrices,
    location: &'static Location<'static>,
) -> Result<[Tensor; 3]> {
    let Orthogonal { columns, rotation } = orthogonal(op, &x.detach(), shape, location)?;
    let lengths = columns.square().sum(-1).sqrt().contiguous();
    let order = lengths.argsort(-1, true).contiguous();
    let values = lengths.gather(&order, -1).contiguous();
    let right = ordered(&rotation, &order)?.t();
    let products = ordered(&columns, &order)?.t().contiguous();
    // Where a length is zero there is no direction: factors have one that is orthogonal to the others.
    let (q, r) = qr(&products, shape)?;
    let signs = r.diagonal(0, -2, -1).lt(0.0).where_(-1.0, values.ones_like());
    Ok([(q * signs.unsqueeze(-2)).contiguous(), values, right.contiguous()])
}

/// As [`plain_svd`], with derivatives: right vectors are the eigenvectors of `x^T x`, left ones x times those by the values.
fn tall_svd(
    op: &'static str,
    x: &Tensor,
    shape: &Matrices,
    location: &'static Location<'static>,
) -> Result<[Tensor; 3]> {
    let [left, values, right] = plain_svd(op, x, shape, location)?;
    let (product, squares) = (x.t().matmul(x), values.square());
    let right = known(Function::Eigenvectors, &right, &[&product, &squares]);
    let turned = x.matmul(&right);
    let roots = known(Function::Eigenvalues, &squares, &[&product, &right]).sqrt();
    let from_roots = known(Function::Alike, &left, &[&(&turned / roots.unsqueeze(-2))]);
    let values = known(Function::SingularValues, &values, &[x, &from_roots, &right]);
    let left = known(Function::Alike, &left, &[&(turned / values.unsqueeze(-2))]);
    Ok([left, values, right])
}

fn svd(op: &'static str, x: &Tensor, location: &'static Location<'static>) -> Result<[Tensor; 3]> {
    let shape = Matrices::of(op, x, location)?;
    let wide = x.cast(DType::F64);
    if shape.rows.min(shape.columns) == 0 {
        let empty = |rows| Tensor::zeros_of(shape.shape(rows, 0), DType::F64);
        let values: Shape = shape.outer.iter().cloned().chain([0.into()]).collect();
        return Ok([empty(shape.rows), Tensor::zeros_of(values, DType::F64), empty(shape.columns)]);
    }
    if shape.rows >= shape.columns {
        return tall_svd(op, &wide, &shape, location);
    }
    let turned = Matrices { rows: shape.columns, columns: shape.rows, ..shape };
    let [left, values, right] = tall_svd(op, &wide.t(), &turned, location)?;
    Ok([right, values, left])
}

/// Matrices are in the last two axes, the axes before are a batch.
impl Tensor {
    /// U, s and V of `U diag(s) V^T`, as many columns as the smaller length; values are the largest first, and the signs of vectors are nobody's.
    ///
    /// Of more than ten columns the value is computed by this call.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 2.0, 3.0, 0.0, 0.0, 0.0], [3, 2]);
    /// let (u, s, v) = x.svd()?;
    /// assert_eq!(s.to_vec::<f32>()?, [3.0, 2.0]);
    /// let again = (u * s.unsqueeze(-2)).matmul(&v.t());
    /// assert!(again.isclose(&x, 1e-6, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are fewer than two axes, or other elements than floats; in a traced function, if there are more than 64 columns.
    #[track_caller]
    pub fn svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let dtype = self.dtype()?;
        let [left, values, right] = svd("svd", self, Location::caller())?;
        Ok((left.cast(dtype), values.cast(dtype), right.cast(dtype)))
    }

    /// Eigenvalues of symmetric matrices, the least first, and eigenvectors as columns. The lower triangle is read. Signs of vectors are nobody's.
    ///
    /// Of more than ten columns the value is computed by this call.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![2f32, 1.0, 1.0, 2.0], [2, 2]);
    /// let (values, _) = x.eigh()?;
    /// assert!(values.isclose(Tensor::from_vec(vec![1f32, 3.0], [2]), 1e-6, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the last two axes are not as long as each other, or hold others than floats; in a traced function, if there are more than 64 columns.
    #[track_caller]
    pub fn eigh(&self) -> Result<(Tensor, Tensor)> {
        let location = Location::caller();
        let _call = within(location);
        let shape = Matrices::square("eigh", self, location)?;
        let dtype = self.dtype()?;
        if shape.rows == 0 {
            return Ok((self.sum(-1), self.clone()));
        }
        let wide = self.cast(DType::F64);
        let lower = wide.detach().tril(0);
        let symmetric = &lower + lower.tril(-1).t();
        let shift = symmetric.square().sum_keepdim([-2, -1]).sqrt().contiguous();
        let positive = symmetric + &shift * Tensor::eye_of(shape.rows, shape.rows, DType::F64);
        let Orthogonal { columns, rotation } = orthogonal("eigh", &positive, &shape, location)?;
        let lengths = columns.square().sum(-1).sqrt().contiguous();
        let order = lengths.argsort(-1, false).contiguous();
        let values = lengths.gather(&order, -1) - shift.squeeze(-1);
        let vectors = ordered(&rotation, &order)?.t().contiguous();
        let vectors = known(Function::Eigenvectors, &vectors, &[&wide, &values]);
        let values = known(Function::Eigenvalues, &values, &[&wide, &vectors]);
        Ok((values.cast(dtype), vectors.cast(dtype)))
    }

    /// The inverse as far as there is one (Moore and Penrose's): singular values below `tolerance` times the largest count as zero; without one, below
    /// the type's precision times the larger length.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![2f32, 0.0, 0.0, 0.0], [2, 2]);
    /// assert_eq!(x.pinv(None).to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn pinv(&self, tolerance: Option<f64>) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let shape = Matrices::of("pinv", self, location)?;
            let dtype = self.dtype()?;
            let precision = if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
            let relative = tolerance.unwrap_or(precision * shape.rows.max(shape.columns) as f64);
            let wide = self.cast(DType::F64);
            if shape.rows.min(shape.columns) == 0 {
                return Ok(self.t());
            }
            let [left, values, right] = svd("pinv", &wide.detach(), location)?;
            let counts = values.gt(values.max_keepdim(-1) * relative);
            let inverse = counts.where_(1.0 / counts.where_(&values, 1.0), 0.0);
            let value = (right * inverse.unsqueeze(-2)).matmul(&left.t());
            Ok(known(Function::PseudoInverse, &value, &[&wide]).cast(dtype))
        })())
    }

    /// A norm of matrices in the last two axes.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::MatrixNorm;
    /// let x = Tensor::from_vec(vec![3f32, 0.0, 0.0, -4.0], [2, 2]);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Frobenius).item::<f32>()?, 5.0);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Nuclear).item::<f32>()?, 7.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        let values = || svd("matrix_norm", self, location).and_then(|[_, values, _]| Ok(values.cast(self.dtype()?)));
        built((|| {
            let shape = Matrices::of("matrix_norm", self, location)?;
            if shape.rows.min(shape.columns) == 0 && norm != MatrixNorm::Smallest {
                return Ok(self.sum([-2, -1]));
            }
            Ok(match norm {
                MatrixNorm::Frobenius => self.norm(2.0, [-2, -1], false),
                MatrixNorm::Nuclear => values()?.sum(-1),
                MatrixNorm::Largest => values()?.max(-1),
                MatrixNorm::Smallest => values()?.min(-1),
                MatrixNorm::Columns => self.abs().sum(-2).max(-1),
                MatrixNorm::Rows => self.abs().sum(-1).max(-1),
            })
        })())
    }
}

/// What a norm of a matrix is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatrixNorm {
    /// The root of the sum of squares.
    Frobenius,
    /// The sum of singular values.
    Nuclear,
    /// The largest singular value: the 2-norm.
    Largest,
    /// The smallest singular value.
    Smallest,
    /// The largest sum of sizes along a column: the 1-norm.
    Columns,
    /// The largest sum of sizes along a row: the norm of infinity.
    Rows,
}
