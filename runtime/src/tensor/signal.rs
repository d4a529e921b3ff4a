//! Signals: Fourier transforms, and windows that fade a signal in and out.
//!
//! A transform is a product with a matrix of cosines and sines, whose angles are reduced as integers, so that long ones lose no digits. Tested by the cases of
//! the ONNX package and by values of PyTorch (tests/it/samples.rs).

use std::panic::Location;

use super::Tensor;
use super::errors::CallError;
use crate::DType;
use warpweft_compiler::dtype::Elements;

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
    pub fn dft(real: &Tensor, imaginary: Option<&Tensor>, axis: i64, inverse: bool) -> (Tensor, Tensor) {
        let location = Location::caller();
        let length = real.dims().ok().and_then(|dims| {
            let axis = usize::try_from(if axis < 0 { axis + dims.len() as i64 } else { axis }).ok()?;
            dims.get(axis)?.as_const()
        });
        let Some(length) = length.filter(|&length| length > 0) else {
            let error = match real.uop() {
                Ok(x) => {
                    let message = format!("axis {axis} must be there and have elements, as many as a number says");
                    CallError::new("dft", &[&x], message, location).into()
                }
                Err(error) => error,
            };
            return (Tensor::from_error(error.clone()), Tensor::from_error(error));
        };
        // What cancels must leave nothing: sums are made in double precision.
        let wide = DType::F64;
        let dtype = real.dtype().ok().filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        // Angles are fractions of a turn, whole turns taken off.
        let line = Tensor::iota(length).cast(DType::I64);
        let turns = (line.unsqueeze(1) * line.unsqueeze(0)) % length;
        let angles = turns.cast(wide) * (std::f64::consts::TAU / length as f64);
        let (cosines, sines) = (angles.cos(), if inverse { angles.sin() } else { -angles.sin() });
        let product = |x: &Tensor, matrix: &Tensor| x.cast(wide).movedim(axis, -1).matmul(matrix).movedim(-1, axis);
        let (mut re, mut im) = (product(real, &cosines), product(real, &sines));
        if let Some(imaginary) = imaginary {
            re = re - product(imaginary, &sines);
            im = im + product(imaginary, &cosines);
        }
        if inverse {
            (re, im) = (re / length as f64, im / length as f64);
        }
        (re.cast(dtype), im.cast(dtype))
    }

    /// A window of `size` elements: the sum of `factors[k]` times the cosine of `k` turns over it, `f32`. A periodic one goes on after its last element as it
    /// began; else the last element is the first. Hann's window has the factors 0.5 and -0.5, Hamming's 0.54 and -0.46, Blackman's 0.42, -0.5 and 0.08.
    #[track_caller]
    pub fn cosine_window(size: i64, factors: &[f64], periodic: bool) -> Tensor {
        let location = Location::caller();
        let Ok(count) = usize::try_from(size) else {
            return Tensor::from_error(CallError::new(
                "cosine_window",
                &[],
                format!("{size} elements: there cannot be fewer than 0"),
                location,
            ));
        };
        let round = if periodic || count < 2 { count } else { count - 1 };
        let element = |at: usize| {
            let turn = |k: usize| (k * at % round.max(1)) as f64 / round.max(1) as f64 * std::f64::consts::TAU;
            factors.iter().enumerate().map(|(k, factor)| factor * turn(k).cos()).sum::<f64>() as f32
        };
        Tensor::from_bytes(None, DType::F32, [count], &Elements::F32((0..count).map(element).collect()).to_bytes())
    }
}
