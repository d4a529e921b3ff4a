//! The class `Tensor`: what it is made of, and how its methods are written.
//!
//! A method takes Python's arguments apart, lets the lock of the interpreter go, calls the library, and raises what the new tensor
//! carries ([`made`]). Methods that are alike are rows of a table: `elementwise`, `reduce`, `movement`, `layers`. Nothing of what is computed is here.
//!
//! Always: the library is called without the interpreter's lock, since it may wait for a thread that frees memory of Python's.

mod conventions;
mod create;
mod elementwise;
mod fourier;
mod index;
mod layers;
mod movement;
mod protocol;
mod reduce;
mod special;

use pyo3::prelude::*;
use warpweft::{Result, Tensor};

use crate::errors::{exception, interruption};

pub(crate) use create::tensor_of;

/// The functions of the module that make tensors.
pub(crate) fn functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    create::functions(module)?;
    conventions::functions(module)
}

/// An array of elements of one type, computed when it is asked for.
#[pyclass(name = "Tensor", module = "warpweft", frozen, subclass, weakref)]
pub(crate) struct PyTensor(pub(crate) Tensor);

/// Calls the library without the interpreter's lock; a tensor that carries an error raises it.
pub(crate) fn made(py: Python<'_>, build: impl FnOnce() -> Tensor + Send) -> PyResult<PyTensor> {
    let tensor = py.detach(build);
    interruption()?;
    match tensor.dtype() {
        Ok(_) => Ok(PyTensor(tensor)),
        Err(error) => Err(exception(py, &error)),
    }
}

/// Calls the library without the interpreter's lock.
pub(crate) fn asked<T: Send>(py: Python<'_>, ask: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let found = py.detach(ask);
    interruption()?;
    found.map_err(|error| exception(py, &error))
}

/// As [`made`], of several.
pub(crate) fn made_many(py: Python<'_>, build: impl FnOnce() -> Result<Vec<Tensor>> + Send) -> PyResult<Vec<PyTensor>> {
    asked(py, build)?.into_iter().map(|tensor| made(py, || tensor)).collect()
}

/// References to tensors of Python's.
pub(crate) fn tensors(list: &[Py<PyTensor>]) -> Vec<&Tensor> {
    list.iter().map(|tensor| &tensor.get().0).collect()
}
