//! Products of matrices and vectors, distances between vectors, and sums over what lies below points.

use std::panic::Location;

use warpweft_compiler::ir::Dim;
use warpweft_compiler::ops::{einsum, matmul as ops, resolve_axis};

use super::factor::built;
use crate::tensor::errors::{CallError, within};
use crate::tensor::{Dims, Length, Result, Tensor};

impl Tensor {
    /// Matrix product over the last two axes, the others broadcast.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::compute("matmul", [self, other], |[a, b]| ops::matmul(a, b))
    }

    /// Product of two vectors.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        Tensor::compute("dot", [self, other], |[a, b]| ops::dot(a, b))
    }

    /// Each element of this vector times each of the other.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        Tensor::compute("outer", [self, other], |[a, b]| ops::outer(a, b))
    }

    /// This times the transpose of the weight, plus the bias.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        match bias {
            Some(bias) => {
                Tensor::compute("linear", [self, weight, bias], |[x, weight, bias]| ops::linear(x, weight, Some(bias)))
            }
            None => Tensor::compute("linear", [self, weight], |[x, weight]| ops::linear(x, weight, None)),
        }
    }

    /// Sum of products in Einstein's notation.
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Tensor {
        Tensor::joined("einsum", operands, |nodes| einsum::einsum(equation, nodes))
    }

    /// The vector product of vectors of three elements along an axis; other axes broadcast.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 0.0, 0.0], [3]);
    /// let y = Tensor::from_vec(vec![0f32, 1.0, 0.0], [3]);
    /// assert_eq!(x.cross(&y, 0).to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: impl Length) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let is_three = |x: &Tensor| -> Result<bool> {
                let dims = x.dims()?;
                let from_end = if axis < 0 { axis } else { axis - dims.len() as i64 };
                let from_start = usize::try_from(from_end + dims.len() as i64).ok();
                Ok(from_start.is_some_and(|from_start| dims.get(from_start).is_some_and(|dim| dim.is(3))))
            };
            if !is_three(self)? || !is_three(other)? {
                let message = format!("axis {axis} must have three elements in both");
                let operands = [self.uop()?, other.uop()?];
                return Err(CallError::new("cross", &operands.each_ref(), message, location).into());
            }
            let at = |x: &Tensor, k: i64| x.narrow(axis, k % 3, 1);
            let part = |k: i64| at(self, k + 1) * at(other, k + 2) - at(self, k + 2) * at(other, k + 1);
            Ok(Tensor::cat(&[&part(0), &part(1), &part(2)], axis))
        })())
    }

    /// Each element of this times all of the other, as one tensor: the product of Kronecker. The one with fewer axes gets further ones in front.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
    /// let y = Tensor::from_vec(vec![1f32, 10.0], [2]);
    /// assert_eq!(x.kron(&y).to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        built((|| {
            let (a, b) = (self.dims()?, other.dims()?);
            let rank = a.len().max(b.len());
            let longer = |dims: &Dims| -> Vec<Dim> {
                std::iter::repeat_n(Dim::Const(1), rank - dims.len()).chain(dims.iter().cloned()).collect()
            };
            let (a, b) = (longer(&a), longer(&b));
            let beside = |dims: &[Dim], first: bool| -> Dims {
                let pair = |dim: &Dim| if first { [dim.clone(), Dim::Const(1)] } else { [Dim::Const(1), dim.clone()] };
                dims.iter().flat_map(pair).collect()
            };
            let products = self.reshape(beside(&a, true)) * other.reshape(beside(&b, false));
            let joined: Dims = a.iter().zip(&b).map(|(a, b)| a * b).collect();
            Ok(products.reshape(joined))
        })())
    }

    /// The distances by the p-norm between each of the vectors in the last two axes and each of the other's: [.., n, d] and [.., m, d] give [.., n, m].
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 0.0], [1, 2]);
    /// let y = Tensor::from_vec(vec![3f32, 4.0, 0.0, 1.0], [2, 2]);
    /// assert_eq!(x.cdist(&y, 2.0).to_vec::<f32>()?, [5.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, order: f64) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (a, b) = (self.dims()?, other.dims()?);
            if a.len() < 2 || b.len() < 2 || a.last() != b.last() {
                let message = "both must have two axes at least, and the last one of one length";
                let operands = [self.uop()?, other.uop()?];
                return Err(CallError::new("cdist", &operands.each_ref(), message, location).into());
            }
            if order.is_nan() || order < 0.0 {
                let (message, operands) = (format!("order {order}: it must be 0 or more"), [self.uop()?, other.uop()?]);
                return Err(CallError::new("cdist", &operands.each_ref(), message, location).into());
            }
            let differences = self.unsqueeze(-2) - other.unsqueeze(-3);
            // Vectors without elements are at one point.
            Ok(if a.last().is_some_and(|length| length.is(0)) {
                differences.sum(-1)
            } else {
                differences.norm(order, -1, false)
            })
        })())
    }

    /// The integral along an axis of the straight lines through these points, which are so far apart.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let y = Tensor::from_vec(vec![0f32, 2.0, 4.0], [3]);
    /// assert_eq!(y.trapezoid(0.5, 0).item::<f32>()?, 2.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn trapezoid(&self, step: f64, axis: impl Length) -> Tensor {
        let axis = axis.length();
        let sums = self.neighbours("trapezoid", axis);
        sums.sum(axis) * (step / 2.0)
    }

    /// As [`Tensor::trapezoid`], of points at these positions, which are a line or have the shape of this.
    #[track_caller]
    pub fn trapezoid_at(&self, positions: &Tensor, axis: impl Length) -> Tensor {
        let axis = axis.length();
        let sums = self.neighbours("trapezoid", axis);
        let along = built((|| {
            let rank = self.rank()? as i64;
            if positions.rank()? != 1 || rank == 1 {
                return Ok(positions.clone());
            }
            let from_start = if axis < 0 { axis + rank } else { axis };
            let shape: Vec<i64> = (0..rank).map(|k| if k == from_start { -1 } else { 1 }).collect();
            Ok(positions.reshape(shape))
        })());
        (sums * along.diff(axis)).sum(axis) * 0.5
    }

    /// Sums of neighbours along an axis.
    #[track_caller]
    fn neighbours(&self, op: &'static str, axis: i64) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let dims = self.dims()?;
            let refuse = |message: String| Err(CallError::new(op, &[&self.uop()?], message, location).into());
            let axis = match resolve_axis(axis, dims.len()) {
                Ok(axis) => axis,
                Err(error) => return refuse(error.message),
            };
            let x = if self.dtype()?.is_float() { self.clone() } else { self.cast(crate::DType::F32) };
            let along = axis as i64;
            match dims[axis].as_const() {
                // Below no points there is nothing, as below one.
                Some(0) => Ok(x),
                Some(length) => Ok(x.narrow(along, 1, length - 1) + x.narrow(along, 0, length - 1)),
                None => Ok(x.narrow(along, 1, &dims[axis] - 1) + x.narrow(along, 0, &dims[axis] - 1)),
            }
        })())
    }
}
