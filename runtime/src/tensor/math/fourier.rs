//! Fourier transforms of any length along an axis, of numbers that are pairs of tensors: real and imaginary parts.
//!
//! A length is cut into factors. A factor of at most [`DIRECT`] is a product with the matrix of its waves; between two factors stand *twiddles*, the angles
//! that the one leaves to the other. A prime that is longer becomes a convolution with a chirp (Bluestein), by transforms of a power of two. So
//! time grows as n log n for every n. Angles are fractions of a turn, whole turns taken off as integers, so that long transforms lose no digits.
//!
//! Always: computed in `f64` and rounded once, for what cancels must leave nothing. Tested by the cases of the ONNX package and by values of PyTorch and numpy
//! (data/more_ops.json.gz, tests/it/samples.rs).

use std::f64::consts::FRAC_PI_2;
use std::panic::Location;

use warpweft_compiler::ir::{Dim, Shape};

use super::order::any_line_of;
use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Length, Result, Tensor};

/// A factor of a length that is one product with a matrix.
const DIRECT: i64 = 64;

/// Real and imaginary parts; none if all are zero.
#[derive(Clone)]
struct Complex {
    re: Tensor,
    im: Option<Tensor>,
}

/// Cosine and sine of so many parts of a turn: exact at its quarters, and by the same numbers in each of its eighths.
fn direction(part: i64, turn: i64) -> (f64, f64) {
    let (part, turn) = (i128::from(part.rem_euclid(turn)), i128::from(turn));
    let quarter = 4 * part / turn;
    let rest = 4 * part - quarter * turn;
    let angle = |rest: i128| rest as f64 / turn as f64 * FRAC_PI_2;
    let (cosine, sine) = if 2 * rest > turn {
        (angle(turn - rest).sin(), angle(turn - rest).cos())
    } else {
        (angle(rest).cos(), angle(rest).sin())
    };
    match quarter {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}

/// Numbers on the unit circle, by their angles: each so many of `turn` parts of a turn.
fn circle(parts: impl Iterator<Item = i64>, turn: i64, sign: f64, shape: Vec<i64>) -> Complex {
    let (cosines, sines): (Vec<f64>, Vec<f64>) = parts.map(|part| direction(part, turn)).unzip();
    let sines: Vec<f64> = sines.into_iter().map(|sine| sign * sine).collect();
    Complex { re: Tensor::table(cosines, shape.clone()), im: Some(Tensor::table(sines, shape)) }
}

impl Complex {
    fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Complex {
        Complex { re: change(&self.re), im: self.im.as_ref().map(change) }
    }

    /// A product, of elements or of matrices.
    fn by(&self, other: &Complex, product: impl Fn(&Tensor, &Tensor) -> Tensor) -> Complex {
        let re = product(&self.re, &other.re);
        match (&self.im, &other.im) {
            (None, None) => Complex { re, im: None },
            (Some(im), None) => Complex { re, im: Some(product(im, &other.re)) },
            (None, Some(im)) => Complex { re, im: Some(product(&self.re, im)) },
            (Some(a), Some(b)) => {
                Complex { re: re - product(a, b), im: Some(product(&self.re, b) + product(a, &other.re)) }
            }
        }
    }

    fn stored(&self) -> Complex {
        self.each(Tensor::contiguous)
    }
}

/// The largest divisor that is one product, or else the least factor.
fn factor(n: i64) -> i64 {
    let direct = (2..=DIRECT.min(n)).rev().find(|&p| n % p == 0);
    direct.unwrap_or_else(|| (DIRECT + 1..).take_while(|p| p * p <= n).find(|&p| n % p == 0).unwrap_or(n))
}

/// The last axis with another length instead.
fn with_last(x: &Tensor, last: &[i64]) -> Result<Shape> {
    let dims = x.dims()?;
    Ok(dims[..dims.len() - 1].iter().cloned().chain(last.iter().map(|&length| Dim::Const(length))).collect())
}

/// All of the last axis, n numbers.
fn transformed(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    if n == 1 {
        return Ok(x.clone());
    }
    let p = factor(n);
    if p == n {
        return if n <= DIRECT { Ok(direct(x, n, sign)) } else { chirped(x, n, sign) };
    }
    // Element j1 q + j2 stands in row j1; number k1 + p k2 of the result in column k2.
    let q = n / p;
    let cut = with_last(&x.re, &[p, q])?;
    let rows = transformed(&x.each(|part| part.reshape(cut.clone()).t()), p, sign)?.each(Tensor::t);
    let twiddles = circle((0..p).flat_map(|k| (0..q).map(move |j| k * j)), n, sign, vec![p, q]);
    let turned = rows.by(&twiddles, |a, b| a * b).stored();
    let whole = with_last(&x.re, &[n])?;
    Ok(transformed(&turned, q, sign)?.each(|part| part.t().reshape(whole.clone())))
}

/// A product with the matrix of waves.
fn direct(x: &Complex, n: i64, sign: f64) -> Complex {
    let waves = circle((0..n).flat_map(|j| (0..n).map(move |k| j * k)), n, sign, vec![n, n]);
    x.by(&waves, |a, b| a.matmul(b))
}

/// With w_j half the angle of j^2, the product j k is (j^2 + k^2 - (j - k)^2) / 2: a convolution with w, between two products with it.
fn chirped(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    let length = u64::try_from(2 * n - 1).unwrap_or(1).next_power_of_two() as i64;
    let square = |j: i64| (i128::from(j) * i128::from(j) % (2 * i128::from(n))) as i64;
    let chirp = circle((0..n).map(square), 2 * n, sign, vec![n]);
    let mirrored = (0..length).map(|j| if j < n { j } else { length - j });
    // What lies between is multiplied by zeros of the padding.
    let other = circle(mirrored.map(|j| if j < n { square(j) } else { 0 }), 2 * n, -sign, vec![length]);
    let outer = x.re.rank()? - 1;
    let padding: Vec<(i64, i64)> = (0..outer).map(|_| (0, 0)).chain([(0, length - n)]).collect();
    let begun = x.by(&chirp, |a, b| a * b).each(|part| part.pad(&padding));
    let spectrum = transformed(&begun, length, -1.0)?.by(&transformed(&other, length, -1.0)?, |a, b| a * b).stored();
    let found = transformed(&spectrum, length, 1.0)?.each(|part| part.narrow(-1, 0, n) / length as f64);
    Ok(found.by(&chirp, |a, b| a * b))
}

/// As [`chirped`], of a length that is a variable: chirps are expressions of it, and the length of the transforms is one for all of its values.
fn chirped_by_variable(x: &Complex, n: &Dim, sign: f64) -> Result<Complex> {
    let length = u64::try_from(2 * n.max_value() - 1).unwrap_or(1).next_power_of_two() as i64;
    let chirp = |places: &Tensor, sign: f64| {
        let angle = (places * places % Tensor::from_dim(n.clone() * 2)).cast(DType::F64)
            * (std::f64::consts::PI / Tensor::from_dim(n.clone()).cast(DType::F64));
        Complex { re: angle.cos().contiguous(), im: Some((angle.sin() * sign).contiguous()) }
    };
    let own = chirp(&Tensor::iota(n.clone()).cast(DType::I64), sign);
    // Mirrored; what lies between is multiplied by zeros of the padding.
    let places = Tensor::iota(length).cast(DType::I64);
    let other = chirp(&places.minimum(length - &places), -sign);
    let outer = x.re.rank()? - 1;
    let none = || (Dim::Const(0), Dim::Const(0));
    let padding: Vec<(Dim, Dim)> =
        (0..outer).map(|_| none()).chain([(Dim::Const(0), Dim::Const(length) - n.clone())]).collect();
    let begun = x.by(&own, |a, b| a * b).each(|part| part.pad(&padding));
    let spectrum = transformed(&begun, length, -1.0)?.by(&transformed(&other, length, -1.0)?, |a, b| a * b).stored();
    let found = transformed(&spectrum, length, 1.0)?.each(|part| part.narrow(-1, 0, n.clone()) / length as f64);
    Ok(found.by(&own, |a, b| a * b))
}

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
    let dtype = Some(x.dtype()?).filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
    let last = |part: &Tensor| part.cast(DType::F64).movedim(axis, -1);
    let x = Complex { re: last(x), im: imaginary.map(last) };
    let sign = if inverse { 1.0 } else { -1.0 };
    let found = match n.as_const() {
        Some(n) => transformed(&x, n, sign)?,
        None => chirped_by_variable(&x, &n, sign)?,
    };
    let back = |part: &Tensor| {
        let part = part.movedim(-1, axis);
        match (inverse, n.as_const()) {
            (false, _) => part.cast(dtype),
            (true, Some(n)) => (part / n as f64).cast(dtype),
            (true, None) => (part / Tensor::from_dim(n.clone()).cast(DType::F64)).cast(dtype),
        }
    };
    let im = found.im.as_ref().map_or_else(|| found.re.zeros_like(), Tensor::clone);
    Ok((back(&found.re), back(&im)))
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
            let (re, im) = match (length.as_const(), half.as_const()) {
                (Some(length), Some(half)) => {
                    let mirrored = |x: &Tensor| x.narrow(axis, 1, length - half).flip(axis);
                    let re = Tensor::cat(&[real, &mirrored(real)], axis);
                    (re, Tensor::cat(&[imaginary, &-mirrored(imaginary)], axis))
                }
                _ => mirrored_by_variable(real, imaginary, axis, &length)?,
            };
            Ok(along("irfft", &re, Some(&im), axis, true, location)?.0)
        })())
    }
}

/// All of a spectrum of real numbers, from its half, along an axis that is to be as long as a variable.
fn mirrored_by_variable(real: &Tensor, imaginary: &Tensor, axis: i64, length: &Dim) -> Result<(Tensor, Tensor)> {
    let places = Tensor::iota(length.clone());
    let other = Tensor::from_dim(length.clone()).cast(DType::I32) - &places;
    let is_other = places.gt(&other);
    let from = places.minimum(&other);
    let mut line = vec![Dim::Const(1); real.rank()?];
    line[axis as usize] = length.clone();
    let sign = is_other.where_(-1, places.ones_like()).reshape(Shape::from(line)).cast(imaginary.dtype()?);
    Ok((real.index_select(axis, &from), imaginary.index_select(axis, &from) * sign))
}
