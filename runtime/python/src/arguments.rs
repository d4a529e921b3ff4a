//! What Python gives where a tensor, a number, axes or a shape is wanted.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use warpweft::tensor::{Dim, Dims, Literal, Operand, Var};
use warpweft::{DType, Tensor};

use crate::tensor::PyTensor;
use crate::var::{PyDim, PyVar};

/// A tensor, a number, or nested sequences of numbers.
#[derive(Clone)]
pub(crate) enum Given {
    /// A tensor.
    Tensor(Tensor),
    /// A number, which takes the type of the tensor beside it.
    Number(Literal),
}

impl Given {
    /// As the library takes it.
    pub(crate) fn operand(self) -> impl Operand {
        match self {
            Given::Tensor(tensor) => tensor.given(),
            Given::Number(number) => number.given(),
        }
    }

    /// As an operand of arithmetic with another, where an integer beside bools is int64, as all integers of Python's.
    pub(crate) fn beside(self, other: &Tensor) -> impl Operand {
        self.widened(other).operand()
    }

    fn widened(self, other: &Tensor) -> Given {
        match self {
            Given::Number(number @ Literal::Int(_)) if other.dtype().is_ok_and(|dtype| dtype == DType::BOOL) => {
                Given::Tensor(Tensor::full_of(Vec::<i64>::new(), number, DType::I64))
            }
            other => other,
        }
    }

    /// As a tensor beside another.
    pub(crate) fn tensor(self, other: &Tensor) -> Tensor {
        match self.widened(other) {
            Given::Tensor(tensor) => tensor,
            Given::Number(number) => number.beside(other),
        }
    }
}

/// A number of Python's or of numpy's.
pub(crate) fn literal(object: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if object.is_instance_of::<PyBool>() {
        return Ok(Literal::Bool(object.extract()?));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Literal::Int(object.extract()?));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Literal::Float(object.extract()?));
    }
    let kind =
        object.getattr("dtype").and_then(|dtype| dtype.getattr("kind")).and_then(|kind| kind.extract::<String>());
    // An array with axes is no number, were it of one element.
    let has_axes =
        kind.is_ok() && object.getattr("ndim").and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim > 0);
    match kind.as_deref() {
        _ if has_axes => Err(PyTypeError::new_err(format!("expected a number, not {}", object.get_type().name()?))),
        Ok("b") => Ok(Literal::Bool(object.call_method0("__bool__")?.extract()?)),
        Ok("i" | "u") => Ok(Literal::Int(object.call_method0("__int__")?.extract()?)),
        Ok("f") => Ok(Literal::Float(object.call_method0("__float__")?.extract()?)),
        _ => Err(PyTypeError::new_err(format!("expected a number, not {}", object.get_type().name()?))),
    }
}

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Given> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            return Ok(Given::Tensor(tensor.get().0.clone()));
        }
        if let Ok(number) = literal(&object) {
            return Ok(Given::Number(number));
        }
        if object.hasattr("__dlpack__")? {
            return Ok(Given::Tensor(crate::interchange::copied(&object, None)?));
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            return Ok(Given::Tensor(crate::tensor::tensor_of(&object, None)?.0));
        }
        if object.is_instance_of::<PyInt>()
            && let Ok(large) = object.extract::<u64>()
        {
            let bytes = large.to_le_bytes();
            return Ok(Given::Tensor(Tensor::from_bytes(None, DType::U64, Vec::<i64>::new(), &bytes)));
        }
        // Python's own message where an integer is too large.
        literal(&object).map(Given::Number).map_err(|error| {
            if error.is_instance_of::<PyTypeError>(object.py()) {
                let found = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
                return PyTypeError::new_err(format!("expected a tensor or a number, not {found}"));
            }
            error
        })
    }
}

/// A tensor, an array of another library, or nested sequences of numbers.
pub(crate) struct Array(pub(crate) Tensor);

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Array> {
        match object.extract::<Given>() {
            Ok(Given::Tensor(tensor)) => Ok(Array(tensor)),
            Err(error) if !error.is_instance_of::<PyTypeError>(object.py()) => Err(error),
            _ => Err(PyTypeError::new_err(format!("expected a tensor, not {}", object.get_type().name()?))),
        }
    }
}

/// A number alone.
pub(crate) struct Number(pub(crate) Literal);

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Number> {
        literal(&object).map(Number)
    }
}

/// One integer or several.
#[derive(Clone)]
pub(crate) struct Numbers(pub(crate) Vec<i64>);

impl Numbers {
    pub(crate) fn list(self) -> Vec<i64> {
        self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Numbers> {
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("expected an integer or a sequence of integers"));
        }
        match object.extract::<i64>() {
            Ok(number) => Ok(Numbers(vec![number])),
            Err(_) => Ok(Numbers(object.extract()?)),
        }
    }
}

/// The axes of a reduction: all of them where none is given.
pub(crate) fn axes(given: Option<Numbers>) -> PyResult<Vec<i64>> {
    match given {
        None => Ok(Vec::new()),
        Some(Numbers(axes)) if axes.is_empty() => Err(PyValueError::new_err("axis=() names no axis; None names all")),
        Some(Numbers(axes)) => Ok(axes),
    }
}

fn dim(object: &Bound<'_, PyAny>) -> PyResult<Dim> {
    if let Ok(dim) = object.cast::<PyDim>() {
        return Ok(dim.get().0.clone());
    }
    if let Ok(variable) = object.cast::<PyVar>() {
        return Ok(Dim::from(&variable.get().0));
    }
    if object.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("a length is an integer, not a bool"));
    }
    Ok(Dim::from(object.extract::<i64>()?))
}

/// A length: an integer, a variable, or an expression of variables.
#[derive(Clone)]
pub(crate) struct Length(pub(crate) Dim);

impl<'py> FromPyObject<'_, 'py> for Length {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Length> {
        dim(&object).map(Length)
    }
}

/// A shape: one length or a sequence of them.
#[derive(Clone)]
pub(crate) struct Lengths(pub(crate) Vec<Dim>);

impl Lengths {
    pub(crate) fn shape(self) -> Dims {
        self.0.into_iter().collect()
    }
}

impl<'py> FromPyObject<'_, 'py> for Lengths {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Lengths> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("a shape is a sequence of integers, not a text"));
        }
        match dim(&object) {
            Ok(dim) => Ok(Lengths(vec![dim])),
            Err(_) => object.try_iter()?.map(|item| dim(&item?)).collect::<PyResult<Vec<Dim>>>().map(Lengths),
        }
    }
}

/// What stands in `f(2, 3)` or `f((2, 3))`.
pub(crate) fn spread<'py, T: for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<T> {
    match arguments.len() {
        1 => arguments.get_item(0)?.extract::<T>(),
        _ => arguments.as_any().extract::<T>(),
    }
}

/// The variables and values of `{variable: value}`.
pub(crate) fn bindings(given: Vec<(Py<PyVar>, i64)>) -> Vec<(Var, i64)> {
    given.into_iter().map(|(variable, value)| (variable.get().0.clone(), value)).collect()
}
