//! Types of elements under the names that numpy and PyTorch give them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyType};
use warpweft::DType;

/// The type of an element: `warpweft.float32` and its like.
#[pyclass(name = "DType", module = "warpweft", frozen, eq, hash, from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyDType(pub(crate) DType);

/// Names in Python, which are numpy's.
pub(crate) const NAMES: [(&str, DType); 13] = [
    ("bool", DType::BOOL),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("float32", DType::F32),
    ("float64", DType::F64),
];

/// Numpy's codes, which count bytes, and names that it has for some.
const CODES: [(&str, DType); 16] = [
    ("?", DType::BOOL),
    ("b1", DType::BOOL),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("half", DType::F16),
    ("single", DType::F32),
    ("double", DType::F64),
];

/// The name in Python.
pub(crate) fn name(dtype: DType) -> &'static str {
    NAMES.iter().find(|(_, other)| *other == dtype).map_or("?", |(name, _)| name)
}

#[pymethods]
impl PyDType {
    /// Its name, which is numpy's.
    #[getter]
    fn name(&self) -> &'static str {
        name(self.0)
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.bytes()
    }

    fn __repr__(&self) -> String {
        format!("warpweft.{}", name(self.0))
    }
}

/// What may stand where a type of elements is wanted: ours, a name, numpy's, PyTorch's, or `bool`, `int`, `float`.
pub(crate) fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(dtype) = object.extract::<PyDType>() {
        return Ok(dtype.0);
    }
    let py = object.py();
    if object.is(PyType::new::<PyBool>(py)) {
        return Ok(DType::BOOL);
    }
    if object.is(PyType::new::<PyInt>(py)) {
        return Ok(DType::I64);
    }
    if object.is(PyType::new::<PyFloat>(py)) {
        return Ok(DType::F32);
    }
    let said: String = match object.extract() {
        Ok(name) => name,
        Err(_) => {
            let named = object.getattr("name").or_else(|_| object.getattr("__name__"));
            named.and_then(|name| name.extract()).or_else(|_| object.str().map(|text| text.to_string()))?
        }
    };
    let short = said.strip_prefix("torch.").unwrap_or(&said);
    let short = short.strip_prefix(['<', '=', '|']).unwrap_or(short);
    let found = NAMES.iter().find(|(name, _)| *name == short).map(|(_, dtype)| *dtype);
    let found = found.or_else(|| CODES.iter().find(|(code, _)| *code == short).map(|(_, dtype)| *dtype));
    found.ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        PyTypeError::new_err(format!("{said} is no type of elements; there are {}", known.join(", ")))
    })
}

/// A type where one may be given.
#[derive(Clone, Copy)]
pub(crate) struct Wanted(pub(crate) DType);

impl<'py> FromPyObject<'_, 'py> for Wanted {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Wanted> {
        dtype_of(&object).map(Wanted)
    }
}
