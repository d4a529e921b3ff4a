//! Lengths that are not known when a program is written, in Python: [`PyVar`], and expressions of it as [`PyDim`].

use pyo3::exceptions::{PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use warpweft::tensor::{Dim, Var};

use crate::arguments::Length;

/// A named integer of which the least and the largest value are known.
#[pyclass(name = "Var", module = "warpweft", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyVar(pub(crate) Var);

/// A length made of variables.
#[pyclass(name = "Dim", module = "warpweft", frozen)]
pub(crate) struct PyDim(pub(crate) Dim);

/// Refuses what lengths are not divided by: only numbers above 0 are known not to be 0 for any value.
fn divisor(dim: &Dim) -> PyResult<()> {
    match dim.value() {
        Ok(0) => Err(PyZeroDivisionError::new_err("a length is divided by 0")),
        Ok(number) if number > 0 => Ok(()),
        _ => Err(PyValueError::new_err(format!("a length is divided by a number above 0, not by {dim}"))),
    }
}

macro_rules! arithmetic {
    ($($class:ident $as_dim:expr;)*) => { $(
        #[pymethods]
        impl $class {
            fn __add__(&self, other: Length) -> PyDim {
                PyDim(($as_dim)(&self.0) + other.0)
            }
            fn __radd__(&self, other: Length) -> PyDim {
                PyDim(other.0 + ($as_dim)(&self.0))
            }
            fn __sub__(&self, other: Length) -> PyDim {
                PyDim(($as_dim)(&self.0) - other.0)
            }
            fn __rsub__(&self, other: Length) -> PyDim {
                PyDim(other.0 - ($as_dim)(&self.0))
            }
            fn __mul__(&self, other: Length) -> PyDim {
                PyDim(($as_dim)(&self.0) * other.0)
            }
            fn __rmul__(&self, other: Length) -> PyDim {
                PyDim(other.0 * ($as_dim)(&self.0))
            }
            fn __floordiv__(&self, other: Length) -> PyResult<PyDim> {
                divisor(&other.0)?;
                Ok(PyDim(($as_dim)(&self.0) / other.0))
            }
            fn __mod__(&self, other: Length) -> PyResult<PyDim> {
                divisor(&other.0)?;
                Ok(PyDim(($as_dim)(&self.0) % other.0))
            }
        }
    )* };
}

arithmetic! {
    PyVar |variable: &Var| Dim::from(variable);
    PyDim Dim::clone;
}

#[pymethods]
impl PyVar {
    #[new]
    fn new(name: &str, min: i64, max: i64) -> PyResult<PyVar> {
        Var::new(name, min..=max).map(PyVar).map_err(|error| PyValueError::new_err(error.kind.to_string()))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Its least value.
    #[getter]
    fn min(&self) -> i64 {
        *self.0.bounds().start()
    }

    /// Its largest value.
    #[getter]
    fn max(&self) -> i64 {
        *self.0.bounds().end()
    }

    /// It with a value, as a length.
    fn bind(&self, value: i64) -> PyResult<PyDim> {
        self.0.bind(value).map(PyDim).map_err(|error| PyValueError::new_err(error.kind.to_string()))
    }

    fn __repr__(&self) -> String {
        format!("Var({:?}, {}, {})", self.0.name(), self.min(), self.max())
    }
}

#[pymethods]
impl PyDim {
    fn __eq__(&self, other: Length) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&self.0, &mut hasher);
        std::hash::Hasher::finish(&hasher)
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}
