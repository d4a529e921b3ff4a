//! What a user calls: solutions, inverses, determinants and factors of the matrices in a tensor's last two axes.
//!
//! Always: operands are looked at first, so that an error says what does not fit and where the call stands; half floats are computed as `f32`.
//!
//! How it is computed is said in [`factor`](super). Tested with it.

use std::panic::Location;

use warpweft_compiler::ir::Function;

use super::*;

/// Two of one type and batch: the square matrices and the right-hand sides, each at least 32 bits wide.
struct Equation {
    a: Tensor,
    b: Tensor,
    shape: Matrices,
    columns: i64,
    dtype: DType,
}

impl Equation {
    fn of(op: &'static str, a: &Tensor, b: &Tensor, location: &'static Location<'static>) -> Result<Equation> {
        let (left, right) = (Matrices::of(op, a, location)?, Matrices::of(op, b, location)?);
        let refuse = |message: &str| Err(CallError::new(op, &[&a.uop()?, &b.uop()?], message, location).into());
        if left.rows != right.rows {
            return refuse("both must have as many rows: right-hand sides are columns of a matrix");
        }
        if a.dtype()? != b.dtype()? {
            return refuse("both must be of one type");
        }
        let dtype = a.dtype()?;
        let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
        let joined =
            warpweft_compiler::ops::broadcast_shapes(&[&left.outer.clone().into(), &right.outer.clone().into()]);
        let Ok(outer) = joined else { return refuse("the axes before the last two do not broadcast") };
        let shape = Matrices { outer: outer.to_vec(), ..left };
        let columns = right.columns;
        let a = a.cast(wide).expand(shape.shape(shape.rows, shape.columns));
        let b = b.cast(wide).expand(shape.shape(shape.rows, columns));
        Ok(Equation { a, b, shape, columns, dtype })
    }
}

/// Matrices are in the last two axes, the axes before are a batch; `f32` and `f64`, and half floats through `f32`.
impl Tensor {
    /// x of `self x = b`, by elimination with the largest pivots; right-hand sides are columns of b, or b is one: a vector, or as many as there are
    /// matrices. A singular matrix gives infinities or NaN.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![2f32, 1.0, 1.0, 3.0], [2, 2]);
    /// let b = Tensor::from_vec(vec![3f32, 5.0], [2, 1]);
    /// let x = a.solve(&b);
    /// assert!(x.isclose(Tensor::from_vec(vec![0.8f32, 1.4], [2, 1]), 1e-5, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            Matrices::square("solve", self, location)?;
            let (left, right) = (self.dims()?, b.dims()?);
            if right.len() == 1 || right[..] == left[..left.len() - 1] {
                return Ok(self.solve(&b.unsqueeze(-1)).squeeze(-1));
            }
            let Equation { a, b, shape, columns, dtype } = Equation::of("solve", self, b, location)?;
            let value = solved(&a.detach(), &b.detach(), &shape, columns)?;
            Ok(known(Function::Alike, &value, &[&inverse(&a, &shape)?.matmul(&b)]).cast(dtype))
        })())
    }

    /// As [`Tensor::solve`] for a triangle: the `upper` one or the lower one of this is read, and ones on the diagonal are taken for granted if `unit`.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![2f32, 9.0, 1.0, 4.0], [2, 2]);
    /// let b = Tensor::from_vec(vec![4f32, 10.0], [2, 1]);
    /// assert_eq!(a.solve_triangular(&b, false, false).to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool, unit: bool) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            Matrices::square("solve_triangular", self, location)?;
            let Equation { a, b, shape, dtype, .. } = Equation::of("solve_triangular", self, b, location)?;
            let triangle = match (upper, unit) {
                (true, false) => a.triu(0),
                (false, false) => a.tril(0),
                (true, true) => a.triu(1) + identity(&shape, a.dtype()?),
                (false, true) => a.tril(-1) + identity(&shape, a.dtype()?),
            };
            let value = solved_triangle(&triangle.detach(), &b.detach(), shape.rows, upper, unit);
            let product = inverse_triangle(&triangle, &shape, upper, unit)?.matmul(&b);
            Ok(known(Function::Alike, &value, &[&product]).cast(dtype))
        })())
    }

    /// The inverse of square matrices; of a singular one infinities or NaN.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![4f32, 0.0, 0.0, 0.5], [2, 2]);
    /// assert_eq!(a.inverse().to_vec::<f32>()?, [0.25, 0.0, 0.0, 2.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn inverse(&self) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let shape = Matrices::square("inverse", self, location)?;
            in_single(self, |x| inverse(x, &shape))
        })())
    }

    /// The lower factor L of symmetric positive matrices `L L^T`, of which the lower triangle is read; of others NaN.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![4f32, 2.0, 2.0, 10.0], [2, 2]);
    /// assert_eq!(a.cholesky().to_vec::<f32>()?, [2.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let shape = Matrices::square("cholesky", self, location)?;
            in_single(self, |x| cholesky(x, &shape))
        })())
    }

    /// The determinants, by elimination with the largest pivots. Of more than three rows the gradient needs an inverse.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2]);
    /// assert_eq!(a.det().item::<f32>()?, -2.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let shape = Matrices::square("det", self, location)?;
            in_single(self, |x| determinant(x, &shape))
        })())
    }

    /// The determinants as signs (-1, 0 or 1) and logarithms of their sizes, which do not overflow.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let (sign, logarithm) = a.slogdet()?;
    /// assert_eq!(sign.item::<f32>()?, -1.0);
    /// assert!((logarithm.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the last two axes are not as long as each other, or the elements are no floats.
    #[track_caller]
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        let location = Location::caller();
        let _call = within(location);
        let shape = Matrices::square("slogdet", self, location)?;
        let dtype = self.dtype()?;
        let x = self.cast(if dtype == DType::F64 { dtype } else { DType::F32 });
        let Eliminated { matrix, sign } = eliminated(&x.detach(), &shape, shape.rows, false)?;
        let pivots = diagonal(&matrix);
        let sign = pivots.sign().prod(-1) * sign.squeeze([-2, -1]);
        let value = pivots.abs().log().sum(-1);
        let logarithm = known(Function::LogDeterminant, &value, &[&x, &inverse(&x, &shape)?]);
        Ok((sign.cast(dtype), logarithm.cast(dtype)))
    }

    /// Q of orthonormal columns, as many as the smaller length, and an upper triangle R with `Q R` equal to this. Signs are LAPACK's.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![3f32, 1.0, 4.0, 2.0], [2, 2]);
    /// let (q, r) = a.qr()?;
    /// assert!(q.matmul(&r).isclose(&a, 1e-5, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are fewer than two axes, or the elements are no floats.
    #[track_caller]
    pub fn qr(&self) -> Result<(Tensor, Tensor)> {
        let shape = Matrices::of("qr", self, Location::caller())?;
        let dtype = self.dtype()?;
        let (q, r) = qr(&self.cast(if dtype == DType::F64 { dtype } else { DType::F32 }), &shape)?;
        Ok((q.cast(dtype), r.cast(dtype)))
    }

    /// x with the least sum of squares of `self x - b`, for matrices of full rank: of several such x the smallest. Right-hand sides are columns of b.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![1f32, 0.0, 1.0, 1.0, 1.0, 2.0], [3, 2]);
    /// let b = Tensor::from_vec(vec![1f32, 3.0, 5.0], [3, 1]);
    /// let x = a.lstsq(&b);
    /// assert!(x.isclose(Tensor::from_vec(vec![1f32, 2.0], [2, 1]), 1e-4, 1e-5, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let Equation { a, b, shape, dtype, .. } = Equation::of("lstsq", self, b, location)?;
            if shape.rows >= shape.columns {
                let (q, r) = qr(&a, &shape)?;
                return Ok(r.solve_triangular(&q.t().matmul(&b), true, false).cast(dtype));
            }
            let turned = Matrices { rows: shape.columns, columns: shape.rows, ..shape };
            let (q, r) = qr(&a.t(), &turned)?;
            Ok(q.matmul(&r.t().solve_triangular(&b, false, false)).cast(dtype))
        })())
    }

    /// Square matrices multiplied with themselves so many times; a negative power is one of the inverse.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let a = Tensor::from_vec(vec![1f32, 1.0, 0.0, 1.0], [2, 2]);
    /// assert_eq!(a.matrix_power(5).to_vec::<f32>()?, [1.0, 5.0, 0.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, power: impl Length) -> Tensor {
        let power = power.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let shape = Matrices::square("matrix_power", self, location)?;
            let mut square = if power < 0 { self.inverse() } else { self.clone() };
            let mut left = power.unsigned_abs();
            let mut product = None::<Tensor>;
            while left > 0 {
                if left % 2 == 1 {
                    product = Some(product.map_or_else(|| square.clone(), |product| product.matmul(&square)));
                }
                left /= 2;
                if left > 0 {
                    square = square.matmul(&square).contiguous();
                }
            }
            Ok(product.unwrap_or(identity(&shape, self.dtype()?)))
        })())
    }
}
