//! Fourier transforms of any length along an axis, of numbers that are pairs of tensors: real and imaginary parts.
//!
//! `passes` transforms complex numbers, `halves` real ones by half as many complex ones, `chirp` lengths that have long prime factors or are variables.
//! All of them take numbers along the last axis but one; axes behind the one that is transformed are the last.
//!
//! Always: computed in the type of the numbers, as PyTorch does; of integers and of half floats in `f32`. Tested by the cases of the ONNX package and by values
//! of PyTorch and numpy (data/more_ops.json.gz, tests/it/samples.rs).

mod chirp;
mod complex;
mod halves;
mod passes;

use std::panic::Location;

use warpweft_compiler::ir::{Dim, Shape};

use self::complex::Complex;
use super::order::any_line_of;
use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Length, Result, Tensor};

/// Transforms multiply by numbers for each element of an axis, which are computed by the caller.
const LENGTH_MAX: i64 = 1 << 30;
/// Of a variable: each of its values takes the memory and time of the largest.
const VARIABLE_MAX: i64 = 1 << 24;

fn check_length(op: &'static str, x: &Tensor, length: &Dim, location: &'static Location<'static>) -> Result<()> {
    let most = if length.as_const().is_some() { LENGTH_MAX } else { VARIABLE_MAX };
    if length.max_value() <= most {
        return Ok(());
    }
    let message = match length.as_const() {
        Some(length) => format!("{length} elements along an axis: there may be {most} at the most"),
        None => format!(
            "{length} elements along an axis, up to {}: a variable may be {most} at the most; give it a smaller bound, or bind it to a number",
            length.max_value()
        ),
    };
    Err(CallError::new(op, &[&x.uop()?], message, location).into())
}

fn along(
    op: &'static str,
    x: &Tensor,
    imaginary: Option<&Tensor>,
    axis: i64,
    inverse: bool,
    location: &'static Location<'static>,
) -> Result<(Tensor, Tensor)> {
    let (axis, n) = any_line_of(op, x, axis, location)?;
    check_length(op, x, &n, location)?;
    if let Some(im) = imaginary
        && im.dims()? != x.dims()?
    {
        let message = "real and imaginary parts must be of one shape";
        return Err(CallError::new(op, &[&x.uop()?, &im.uop()?], message, location).into());
    }
    let lines = Lines::of(x, axis as usize)?;
    let re = lines.cut(x)?;
    let sign = if inverse { 1.0 } else { -1.0 };
    let found = match (n.as_const(), imaginary) {
        (Some(n), None) if !inverse => halves::whole_of_half(&halves::half_of_real(&re, n)?, n),
        (Some(n), _) => passes::transformed(&complex(&lines, re, imaginary)?, n, sign)?,
        (None, _) => {
            let x = complex(&lines, re, imaginary)?.each(Tensor::t);
            chirp::chirped_by_variable(&x, &n, sign)?.each(Tensor::t)
        }
    };
    let found = if inverse { found.each(|part| divided(part, &n)) } else { found };
    Ok((lines.back(&found.re)?, lines.back(&found.im)?))
}

fn complex(lines: &Lines, re: Tensor, imaginary: Option<&Tensor>) -> Result<Complex> {
    let im = imaginary.map_or_else(|| Ok(re.zeros_like()), |im| lines.cut(im))?;
    Ok(Complex { re, im })
}

/// By a number of elements.
fn divided(x: &Tensor, n: &Dim) -> Tensor {
    match n.as_const() {
        Some(n) => x / n as f64,
        None => x / Tensor::from_dim(n.clone()).cast(DType::F64),
    }
}

/// Where an axis lies: before it others, and behind it some that make one.
struct Lines {
    dims: Vec<Dim>,
    axis: usize,
    /// What the result has.
    dtype: DType,
}

impl Lines {
    fn of(x: &Tensor, axis: usize) -> Result<Lines> {
        let dtype = Some(x.dtype()?).filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        Ok(Lines { dims: x.dims()?.to_vec(), axis, dtype })
    }

    /// Whether the axes behind are one as they lie: lengths that are variables make none.
    fn is_flat(&self) -> bool {
        self.dims[self.axis + 1..].iter().all(|dim| dim.as_const().is_some())
    }

    /// As `[.., n, inner]`, in the type that is computed in.
    fn cut(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.cast(if self.dtype == DType::F64 { DType::F64 } else { DType::F32 });
        if !self.is_flat() {
            return Ok(x.movedim(self.axis as i64, -1).unsqueeze(-1));
        }
        let inner: i64 = self.dims[self.axis + 1..].iter().filter_map(Dim::as_const).product();
        let cut: Shape = self.dims[..=self.axis].iter().cloned().chain([Dim::Const(inner)]).collect();
        Ok(x.reshape(cut))
    }

    /// What came of what was cut, with the axes that there were: the one that was transformed may have another length.
    fn back(&self, found: &Tensor) -> Result<Tensor> {
        let found = found.cast(self.dtype);
        if !self.is_flat() {
            return Ok(found.squeeze([-1]).movedim(-1, self.axis as i64));
        }
        let length = found.dims()?[self.axis].clone();
        let (before, behind) = (&self.dims[..self.axis], &self.dims[self.axis + 1..]);
        let whole: Shape = before.iter().cloned().chain([length]).chain(behind.iter().cloned()).collect();
        Ok(found.reshape(whole))
    }
}

fn pair(found: Result<(Tensor, Tensor)>) -> (Tensor, Tensor) {
    found.unwrap_or_else(|error| (Tensor::from_error(error.clone()), Tensor::from_error(error)))
}

/// Complex numbers are pairs of tensors of one shape, the real and the imaginary parts. Integers become `f32`.
impl Tensor {
    /// The discrete Fourier transform along an axis: the real and imaginary parts. The inverse one is divided by the number of elements.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f64, 2.0, 3.0, 4.0], [4]);
    /// let (re, im) = Tensor::dft(&x, None, 0, false);
    /// assert!(re.isclose(Tensor::from_vec(vec![10.0, -2.0, -2.0, -2.0], [4]), 1e-6, 1e-6, false).all(()).item::<bool>()?);
    /// assert!(im.isclose(Tensor::from_vec(vec![0.0, 2.0, 0.0, -2.0], [4]), 1e-6, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn dft(real: &Tensor, imaginary: Option<&Tensor>, axis: impl Length, inverse: bool) -> (Tensor, Tensor) {
        let axis = axis.length();
        pair(along("dft", real, imaginary, axis, inverse, Location::caller()))
    }

    /// The Fourier transform of real numbers, or of complex ones with these imaginary parts, along an axis.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 0.0, 0.0], [3]);
    /// let (re, im) = x.fft(None, 0);
    /// assert_eq!((re.to_vec::<f32>()?, im.to_vec::<f32>()?), (vec![1.0; 3], vec![0.0; 3]));
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, imaginary: Option<&Tensor>, axis: impl Length) -> (Tensor, Tensor) {
        let axis = axis.length();
        pair(along("fft", self, imaginary, axis, false, Location::caller()))
    }

    /// What [`Tensor::fft`] was made of.
    #[track_caller]
    pub fn ifft(&self, imaginary: Option<&Tensor>, axis: impl Length) -> (Tensor, Tensor) {
        let axis = axis.length();
        pair(along("ifft", self, imaginary, axis, true, Location::caller()))
    }

    /// The first half of the transform of n real numbers, n / 2 + 1 of them: the others are their mirror images.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [4]);
    /// let (re, im) = x.rfft(0);
    /// assert_eq!(re.shape()?, [3]);
    /// assert!(Tensor::irfft(&re, &im, 0, 4).isclose(&x, 1e-6, 1e-6, false).all(()).item::<bool>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn rfft(&self, axis: impl Length) -> (Tensor, Tensor) {
        let axis = axis.length();
        let location = Location::caller();
        let _call = within(location);
        pair((|| {
            let (axis, n) = any_line_of("rfft", self, axis, location)?;
            check_length("rfft", self, &n, location)?;
            if let Some(n) = n.as_const() {
                let lines = Lines::of(self, axis as usize)?;
                let half = halves::half_of_real(&lines.cut(self)?, n)?;
                return Ok((lines.back(&half.re)?, lines.back(&half.im)?));
            }
            let (re, im) = along("rfft", self, None, axis, false, location)?;
            let half = n / 2 + 1;
            Ok((re.narrow(axis, 0, half.clone()), im.narrow(axis, 0, half)))
        })())
    }

    /// The `length` real numbers that [`Tensor::rfft`] makes this of; of an even or an odd length the half is the same. The length may be a variable.
    #[track_caller]
    pub fn irfft(real: &Tensor, imaginary: &Tensor, axis: impl Length, length: impl Into<Dim>) -> Tensor {
        let axis = axis.length();
        let length = length.into();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (axis, half) = any_line_of("irfft", real, axis, location)?;
            let wanted = length.as_const().map_or_else(|| length.clone() / 2 + 1, |length| Dim::Const(length / 2 + 1));
            if length.min_value() < 1 || half != wanted {
                let message = format!("{length} numbers have a half of {wanted}, and axis {axis} has {half}");
                return Err(CallError::new("irfft", &[&real.uop()?], message, location).into());
            }
            check_length("irfft", real, &length, location)?;
            if real.dims()? != imaginary.dims()? {
                let message = "real and imaginary parts must be of one shape";
                return Err(CallError::new("irfft", &[&real.uop()?, &imaginary.uop()?], message, location).into());
            }
            if let (Some(n), Some(_)) = (length.as_const(), half.as_const()) {
                let lines = Lines::of(real, axis as usize)?;
                let half = Complex { re: lines.cut(real)?, im: lines.cut(imaginary)? };
                return lines.back(&divided(&halves::real_of_half(&half, n)?, &length));
            }
            let (re, im) = mirrored_by_variable(real, imaginary, axis, &length)?;
            Ok(along("irfft", &re, Some(&im), axis, true, location)?.0)
        })())
    }
}

/// All of a spectrum of real numbers, from its half, along an axis that is to be as long as a variable.
fn mirrored_by_variable(real: &Tensor, imaginary: &Tensor, axis: i64, length: &Dim) -> Result<(Tensor, Tensor)> {
    let positions = Tensor::iota(length.clone());
    let other = Tensor::from_dim(length.clone()).cast(DType::I32) - &positions;
    let is_other = positions.gt(&other);
    let from = positions.minimum(&other);
    let mut line = vec![Dim::Const(1); real.rank()?];
    line[axis as usize] = length.clone();
    let sign = is_other.where_(-1, positions.ones_like()).reshape(Shape::from(line)).cast(imaginary.dtype()?);
    Ok((real.index_select(axis, &from), imaginary.index_select(axis, &from) * sign))
}
