//! Fourier transforms. Complex numbers are pairs of tensors, the real and the imaginary parts.

use pyo3::prelude::*;
use warpweft::{Result, Tensor};

use super::{PyTensor, asked, made};
use crate::arguments::{Array, Length};

fn pair(py: Python<'_>, build: impl FnOnce() -> (Tensor, Tensor) + Send) -> PyResult<(PyTensor, PyTensor)> {
    let checked = || -> Result<(Tensor, Tensor)> {
        let (re, im) = build();
        re.dtype()?;
        im.dtype()?;
        Ok((re, im))
    };
    let (re, im) = asked(py, checked)?;
    Ok((PyTensor(re), PyTensor(im)))
}

#[pymethods]
impl PyTensor {
    /// The Fourier transform along an axis, of any length, which may be a variable: the real and the imaginary parts.
    #[pyo3(signature = (imaginary=None, axis=-1))]
    fn fft(&self, py: Python<'_>, imaginary: Option<Array>, axis: i64) -> PyResult<(PyTensor, PyTensor)> {
        pair(py, || self.0.fft(imaginary.as_ref().map(|part| &part.0), axis))
    }

    /// What `fft` was made of: the real and the imaginary parts.
    #[pyo3(signature = (imaginary=None, axis=-1))]
    fn ifft(&self, py: Python<'_>, imaginary: Option<Array>, axis: i64) -> PyResult<(PyTensor, PyTensor)> {
        pair(py, || self.0.ifft(imaginary.as_ref().map(|part| &part.0), axis))
    }

    /// The first half of the transform of n real numbers, n // 2 + 1 of them: the real and the imaginary parts.
    #[pyo3(signature = (axis=-1))]
    fn rfft(&self, py: Python<'_>, axis: i64) -> PyResult<(PyTensor, PyTensor)> {
        pair(py, || self.0.rfft(axis))
    }

    /// The real numbers that `rfft` makes these of, as many as `length`.
    #[pyo3(signature = (imaginary, length, axis=-1))]
    fn irfft(&self, py: Python<'_>, imaginary: Array, length: Length, axis: i64) -> PyResult<PyTensor> {
        made(py, || Tensor::irfft(&self.0, &imaginary.0, axis, length.0))
    }
}
