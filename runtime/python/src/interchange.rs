//! Arrays of other libraries as tensors and back, through DLPack.
//!
//! What comes in is shared ([`shared`]) or copied ([`copied`]); what goes out is shared and flagged read-only, or a copy where the consumer asks
//! for one or cannot be told. Who frees what is `devices::dlpack`.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use warpweft::Tensor;
use warpweft_devices::dlpack::{Capsule, python};

use crate::dtype::Wanted;
use crate::errors::exception;
use crate::tensor::{PyTensor, asked, made};

/// DLPack's number of the host.
const CPU: (i32, i32) = (1, 0);

/// A tensor over the memory of an array or of a capsule.
pub(crate) fn shared(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = array.py();
    let capsule = if array.is_instance_of::<PyCapsule>() {
        array.clone()
    } else {
        let versioned = PyDict::new(py);
        versioned.set_item("max_version", (1, 0))?;
        // Libraries of before version 1 know no such argument.
        match array.call_method("__dlpack__", (), Some(&versioned)) {
            Err(error) if error.is_instance_of::<PyTypeError>(py) => array.call_method0("__dlpack__")?,
            other => other?,
        }
    };
    let capsule = python::take(&capsule)?;
    let tensor = py.detach(|| Tensor::from_dlpack(capsule));
    match tensor.dtype() {
        Ok(_) => Ok(tensor),
        Err(error) => Err(exception(py, &error)),
    }
}

/// A copy of an array, or of what numpy makes an array of.
pub(crate) fn copied(object: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Tensor> {
    let py = object.py();
    let array = match object.hasattr("__dlpack__")? && dtype.is_none() {
        true => object.clone(),
        false if object.hasattr("__array__")? || object.hasattr("__array_interface__")? => {
            py.import("numpy")?.call_method1("asarray", (object, dtype))?
        }
        false => {
            let found = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a tensor cannot be made of {found}")));
        }
    };
    let tensor = shared(&array)?;
    asked(py, || {
        let (dtype, shape, data) = (tensor.dtype()?, tensor.dims()?, tensor.to_bytes()?);
        Ok(Tensor::from_bytes(None, dtype, shape, &data))
    })
}

/// The elements of a tensor, computed.
fn capsule_of(tensor: &Bound<'_, PyTensor>) -> PyResult<Capsule> {
    let tensor_of = tensor.get();
    asked(tensor.py(), || tensor_of.0.to_dlpack())
}

warpweft_devices::buffer_protocol!(PyTensor, capsule_of);

#[pymethods]
impl PyTensor {
    /// The elements for another library: a capsule of DLPack.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Py<PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream); // of the consumer's device; the host has none
        if dl_device.is_some_and(|device| device != CPU) {
            return Err(PyBufferError::new_err("the elements are on the CPU, device (1, 0)"));
        }
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        // Who cannot be told that memory is read-only gets memory of its own.
        let copies = copy.unwrap_or(!versioned);
        let capsule = asked(py, || if copies { self.0.to_dlpack_copy() } else { self.0.to_dlpack() })?;
        python::give(py, capsule, versioned)
    }

    /// Where the elements are, as DLPack numbers it.
    fn __dlpack_device__(&self) -> (i32, i32) {
        CPU
    }

    /// The elements as a numpy array, which shares the memory and is read-only; bfloat16, which numpy lacks, as float32.
    fn numpy<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let tensor = &slf.get().0;
        let shown = match tensor.dtype() {
            Ok(warpweft::DType::BF16) => made(py, || tensor.cast(warpweft::DType::F32))?.into_bound_py_any(py)?,
            _ => slf.clone().into_any(),
        };
        py.import("numpy")?.call_method1("from_dlpack", (shown,))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, PyTensor>,
        dtype: Option<Py<PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = PyTensor::numpy(slf)?;
        let options = PyDict::new(slf.py());
        options.set_item("copy", copy.unwrap_or(false))?;
        match dtype {
            Some(dtype) => array.call_method("astype", (dtype,), Some(&options)),
            None if copy == Some(true) => array.call_method0("copy"),
            None => Ok(array),
        }
    }

    /// In another type.
    fn to(&self, py: Python<'_>, dtype: Wanted) -> PyResult<PyTensor> {
        made(py, || self.0.cast(dtype.0))
    }
}
