//! What users of numpy and PyTorch expect of an array besides computing: copies, pickles, formats, numpy's functions, and operators in place.
//!
//! Always: an operator in place writes where the elements lie, so every view sees it; one whose result the type does not hold is an error.
//! Tests: tests/test_conventions.py compares with numpy.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use warpweft::Tensor;

use super::{PyTensor, asked, made};
use crate::arguments::{Array, Given, Numbers, spread};
use crate::dtype::{Wanted, name};

macro_rules! in_place {
    ($($operator:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            fn $operator(&self, py: Python<'_>, other: Given) -> PyResult<()> {
                asked(py, || self.0.update_with(|x| x.$method(other.operand())))
            }
        )* }
    };
}

in_place! {
    __ifloordiv__ floor_div;
    __imod__ modulo;
    __iand__ bitwise_and;
    __ior__ bitwise_or;
    __ixor__ bitwise_xor;
    __ilshift__ lshift;
    __irshift__ rshift;
}

/// A tree of Python's with arrays of numpy in place of tensors.
fn as_arrays<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if object.is_instance_of::<PyTensor>() {
        return py.import("numpy")?.call_method1("asarray", (object,));
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return PyTuple::new(py, tuple.iter().map(|item| as_arrays(&item)).collect::<PyResult<Vec<_>>>()?)?
            .into_bound_py_any(py);
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return PyList::new(py, list.iter().map(|item| as_arrays(&item)).collect::<PyResult<Vec<_>>>()?)?
            .into_bound_py_any(py);
    }
    Ok(object.clone())
}

#[pymethods]
impl PyTensor {
    /// Before numpy's arrays: `array + tensor` is a tensor.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    /// Functions of numpy take tensors as arrays, and give arrays.
    fn __array_function__<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        _types: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = PyDict::new(kwargs.py());
        for (key, value) in kwargs {
            arrays.set_item(key, as_arrays(&value)?)?;
        }
        function.call(as_arrays(args.as_any())?.cast::<PyTuple>()?, Some(&arrays))
    }

    fn __ipow__(&self, py: Python<'_>, other: Given, _modulus: Option<Py<PyAny>>) -> PyResult<()> {
        asked(py, || self.0.update_with(|x| x.pow(other.operand())))
    }

    fn __imatmul__(&self, py: Python<'_>, other: Array) -> PyResult<()> {
        asked(py, || self.0.update_with(|x| x.matmul(&other.0)))
    }

    fn __divmod__(&self, py: Python<'_>, other: Given) -> PyResult<(PyTensor, PyTensor)> {
        Ok((self.floor_divide(py, other.clone())?, self.remainder(py, other)?))
    }

    fn __rdivmod__(&self, py: Python<'_>, other: Given) -> PyResult<(PyTensor, PyTensor)> {
        let other = PyTensor(other.tensor(&self.0));
        other.__divmod__(py, Given::Tensor(self.0.clone()))
    }

    #[pyo3(signature = (digits=None))]
    fn __round__(&self, py: Python<'_>, digits: Option<i32>) -> PyResult<PyTensor> {
        match digits {
            None | Some(0) => self.round(py),
            Some(digits) => {
                let factor = 10f64.powi(digits.abs());
                let scaled = |x: &Tensor| {
                    if digits > 0 { x.times(factor).round().over(factor) } else { x.over(factor).round().times(factor) }
                };
                made(py, || scaled(&self.0))
            }
        }
    }

    fn __contains__(&self, py: Python<'_>, value: Given) -> PyResult<bool> {
        made(py, || self.0.eq(value.operand()).any(()))?.__bool__(py)
    }

    /// One element in a format of numbers; several have no format but the empty one.
    fn __format__<'py>(slf: &Bound<'py, PyTensor>, format: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if format.is_empty() {
            return slf.repr()?.into_bound_py_any(py);
        }
        if slf.get().ndim(py)? > 0 {
            let message = format!("the format {format:?} is for one number, and this tensor has axes");
            return Err(PyTypeError::new_err(message));
        }
        slf.get().item(py)?.call_method1("__format__", (format,))
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        self.copy(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let make = py.import("warpweft._core")?.getattr("_restored")?;
        let (bytes, dtype) = asked(py, || Ok((self.0.to_bytes()?, self.0.dtype()?)))?;
        (make, (PyBytes::new(py, &bytes), name(dtype), self.shape(py)?)).into_bound_py_any(py)
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.size(py)? * self.itemsize(py)?)
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(asked(py, || self.0.dtype())?.bytes())
    }

    /// The device that holds it or will compute it, as "CPU".
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<String> {
        asked(py, || self.0.device())
    }

    /// The last two axes exchanged.
    #[getter(mT)]
    fn matrix_transposed(&self, py: Python<'_>) -> PyResult<PyTensor> {
        made(py, || self.0.transpose(-1, -2))
    }

    /// The number of elements.
    fn numel(&self, py: Python<'_>) -> PyResult<usize> {
        self.size(py)
    }

    /// The number of axes.
    fn dim(&self, py: Python<'_>) -> PyResult<usize> {
        self.ndim(py)
    }

    /// All elements along one axis.
    fn ravel(&self, py: Python<'_>) -> PyResult<PyTensor> {
        made(py, || self.0.reshape([-1]))
    }

    /// Two axes exchanged.
    fn swapaxes(&self, py: Python<'_>, a: i64, b: i64) -> PyResult<PyTensor> {
        made(py, || self.0.transpose(a, b))
    }

    /// Two axes exchanged; all axes in reverse for none given, and in the given order for more than two.
    #[pyo3(signature = (*axes))]
    fn transpose(&self, py: Python<'_>, axes: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        match axes.is_empty() || axes.len() == 1 && axes.get_item(0)?.is_none() {
            true => self.transposed(py),
            false => match spread::<Numbers>(axes)?.0[..] {
                [a, b] => made(py, || self.0.transpose(a, b)),
                ref axes => made(py, || self.0.permute(axes.to_vec())),
            },
        }
    }
}

/// A tensor of elements in row-major order, as a pickle holds them.
#[pyfunction]
fn _restored(py: Python<'_>, data: Vec<u8>, dtype: Wanted, shape: Vec<i64>) -> PyResult<PyTensor> {
    made(py, || Tensor::from_bytes(None, dtype.0, shape, &data))
}

/// The function of the module that pickles name.
pub(crate) fn functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_restored, module)?)
}
