//! Compiled functions in Python: a callable over tensors, traced once, then called as one program.
//!
//! The callable runs with the interpreter's lock, what it gives is compiled without it. An exception of the callable ends the trace and is raised
//! as it is. [`PyFunction::call_arrays`] takes and gives capsules of DLPack, so that a caller of another library crosses once.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use warpweft::function::{Foreign, Spec};
use warpweft::search::Tuning;
use warpweft::tensor::{CallError, Dims, Var};
use warpweft::{DType, DynFunction, Error, Tensor, compile_dyn_with, spec};
use warpweft_devices::dlpack::python;

use crate::arguments::{Lengths, bindings};
use crate::dtype::Wanted;
use crate::errors::{exception, interruption};
use crate::tensor::{PyTensor, asked, tensors};
use crate::var::PyVar;

/// A callable over tensors as a compiled program.
#[pyclass(name = "Function", module = "warpweft", frozen)]
pub(crate) struct PyFunction {
    function: RwLock<DynFunction>,
    specs: Vec<(DType, Dims)>,
}

/// What tells the library that a callable raised; the exception is kept beside it.
#[track_caller]
fn raised() -> Error {
    let location = std::panic::Location::caller();
    Error::from(CallError { op: "compile", operands: Vec::new(), message: "the callable raised".to_string(), location })
}

/// Calls the callable on tensors of a trace.
fn traced(callable: &Py<PyAny>, arguments: Vec<Tensor>, failed: &mut Option<PyErr>) -> warpweft::Result<Vec<Tensor>> {
    Python::attach(|py| {
        let call = || -> PyResult<Vec<Tensor>> {
            let arguments: Vec<PyTensor> = arguments.into_iter().map(PyTensor).collect();
            let results: Vec<Py<PyTensor>> = callable
                .call1(py, (arguments,))?
                .extract(py)
                .map_err(|_| PyTypeError::new_err("a function that is compiled gives tensors"))?;
            Ok(results.iter().map(|result| result.get().0.clone()).collect())
        };
        call().map_err(|error| {
            *failed = Some(error);
            raised()
        })
    })
}

impl PyFunction {
    /// The program of now: tuning gives another.
    fn function(&self) -> DynFunction {
        self.function.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl PyFunction {
    /// Traces a callable over a list of tensors of these types and shapes, and compiles it.
    #[new]
    #[pyo3(signature = (callable, specs, variables=Vec::new()))]
    fn new(
        py: Python<'_>,
        callable: Py<PyAny>,
        specs: Vec<(Wanted, Lengths)>,
        variables: Vec<Py<PyVar>>,
    ) -> PyResult<PyFunction> {
        let specs: Vec<(DType, Dims)> = specs.into_iter().map(|(dtype, shape)| (dtype.0, shape.shape())).collect();
        let wanted: Vec<Spec> = specs.iter().map(|(dtype, shape)| spec(*dtype, shape.clone())).collect();
        let variables: Vec<&Var> = variables.iter().map(|variable| &variable.get().0).collect();
        let mut failed = None;
        let compiled =
            py.detach(|| compile_dyn_with(&variables, &wanted, |arguments| traced(&callable, arguments, &mut failed)));
        interruption()?;
        match (failed, compiled) {
            (Some(error), _) => Err(error),
            (None, Ok(function)) => Ok(PyFunction { function: RwLock::new(function), specs }),
            (None, Err(error)) => Err(exception(py, &error)),
        }
    }

    /// Runs the function on tensors.
    #[pyo3(signature = (arguments, variables=Vec::new()))]
    fn call(
        &self,
        py: Python<'_>,
        arguments: Vec<Py<PyTensor>>,
        variables: Vec<(Py<PyVar>, i64)>,
    ) -> PyResult<Vec<PyTensor>> {
        let variables = bindings(variables);
        let named: Vec<(&Var, i64)> = variables.iter().map(|(variable, value)| (variable, *value)).collect();
        let arguments = tensors(&arguments);
        let results = asked(py, || self.function().call_with(&named, &arguments))?;
        Ok(results.into_iter().map(PyTensor).collect())
    }

    /// Runs the function on these tensors if they are of its types and shapes, which are numbers; else gives None. One result is given by itself.
    fn call_like<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if arguments.len() != self.specs.len() {
            return Ok(None);
        }
        let mut given: SmallVec<[Bound<'py, PyTensor>; 8]> = SmallVec::new();
        for argument in arguments.iter_borrowed() {
            match argument.cast_exact::<PyTensor>() {
                Ok(tensor) => given.push(tensor.to_owned()),
                Err(_) => return Ok(None),
            }
        }
        let tensors: SmallVec<[&Tensor; 8]> = given.iter().map(|tensor| &tensor.get().0).collect();
        let is_like = |(tensor, (dtype, shape)): (&&Tensor, &(DType, Dims))| {
            tensor.dtype().is_ok_and(|found| found == *dtype) && tensor.dims().is_ok_and(|found| found == *shape)
        };
        let results = asked(py, || match tensors.iter().zip(&self.specs).all(is_like) {
            true => self.function().call(&tensors).map(Some),
            false => Ok(None),
        })?;
        let Some(mut results) = results else { return Ok(None) };
        match results.len() {
            1 => results.pop().map(|result| PyTensor(result).into_bound_py_any(py)).transpose(),
            _ => {
                let results = results.into_iter().map(PyTensor).collect::<Vec<_>>();
                results.into_bound_py_any(py).map(Some)
            }
        }
    }

    /// Runs the function on capsules of DLPack, and on tensors, and gives capsules whose memory the caller may write to.
    #[pyo3(signature = (arguments, variables=Vec::new()))]
    fn call_arrays<'py>(
        &self,
        py: Python<'py>,
        arguments: Vec<Bound<'py, PyAny>>,
        variables: Vec<(Py<PyVar>, i64)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let array = |argument: &Bound<'py, PyAny>| match argument.cast::<PyTensor>() {
            Ok(tensor) => Ok(Foreign::Tensor(tensor.get().0.clone())),
            Err(_) => python::take(argument).map(Foreign::Memory),
        };
        let arrays: Vec<Foreign> = arguments.iter().map(array).collect::<PyResult<_>>()?;
        let variables = bindings(variables);
        let named: Vec<(&Var, i64)> = variables.iter().map(|(variable, value)| (variable, *value)).collect();
        let results = asked(py, || self.function().call_foreign(&named, arrays))?;
        results.into_iter().map(|capsule| python::give(py, capsule, false)).collect()
    }

    /// Searches for faster kernels for about so many seconds, and uses them from the next call on. What is found is kept in the cache's folder, so that
    /// tuning the same function in a later process takes no search.
    #[pyo3(signature = (seconds=30.0))]
    fn tune(&self, py: Python<'_>, seconds: f64) -> PyResult<PyTuning> {
        let budget = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("tune: {seconds} is no number of seconds: {error}")))?;
        let mut function = self.function();
        let tuning = asked(py, || function.tune(budget));
        interruption()?;
        let tuning = tuning?;
        *self.function.write().unwrap_or_else(PoisonError::into_inner) = function;
        Ok(PyTuning(tuning))
    }

    /// How many kernels a call launches.
    #[getter]
    fn kernels(&self) -> usize {
        self.function().kernels()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.function())
    }
}

/// What tuning a function came to. Its text is a table of the kernels, those that took most of the time first.
#[pyclass(name = "Tuning", module = "warpweft", frozen)]
pub(crate) struct PyTuning(Tuning);

#[pymethods]
impl PyTuning {
    /// Seconds of a call's kernels with the lists of opts that they have now.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds()
    }

    /// Seconds of a call's kernels with the lists that were chosen by hand.
    #[getter]
    fn by_hand_seconds(&self) -> f64 {
        self.0.by_hand_seconds()
    }

    /// How long the tuning took, in seconds.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.0.elapsed.as_secs_f64()
    }

    /// Lists of opts that were compiled and timed.
    #[getter]
    fn tried(&self) -> usize {
        self.0.kernels.iter().map(|kernel| kernel.tried).sum()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}
