//! Warpweft for Python: the module `warpweft._core`, which the package `warpweft` shows as its own.
//!
//! [`tensor`] is the class `Tensor`, by methods that are alike; [`function`] compiled functions; [`interchange`] arrays of other libraries; [`errors`],
//! [`dtype`], [`var`] and [`arguments`] what crosses the border. Nothing is computed here, and nothing in here is unsafe:
//! pointers of Python's are opened by `devices::dlpack::python`.
//!
//! Always: no argument from Python ends the process or panics; what is wrong is an exception. Tests: runtime/python/tests.

mod arguments;
mod dtype;
mod errors;
mod function;
mod interchange;
mod tensor;
mod var;

use pyo3::prelude::*;

/// The compiled part of `warpweft`.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<function::PyFunction>()?;
    module.add_class::<function::PyTuning>()?;
    module.add_class::<dtype::PyDType>()?;
    module.add_class::<var::PyVar>()?;
    module.add_class::<var::PyDim>()?;
    for (name, dtype) in dtype::NAMES {
        let name = if name == "bool" { "bool_" } else { name };
        module.add(name, dtype::PyDType(dtype))?;
    }
    warpweft::search::stop_when(errors::is_interrupted);
    tensor::functions(module)
}
