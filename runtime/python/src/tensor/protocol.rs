//! What Python asks of an object: shape, values, printing, gradients, memory.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use warpweft::tensor::Dims;
use warpweft::{DType, Tensor};
use warpweft_compiler::dtype::Scalar;

use super::{PyTensor, asked, made, made_many, tensors};
use crate::arguments::{Given, Number, bindings};
use crate::dtype::{PyDType, name};
use crate::errors::exception;
use crate::var::{PyDim, PyVar};

/// A shape as a tuple: of integers, and of expressions where lengths are not known.
fn tuple<'py>(py: Python<'py>, shape: &Dims) -> PyResult<Bound<'py, PyTuple>> {
    let lengths = shape.iter().map(|dim| match dim.value() {
        Ok(length) => length.into_bound_py_any(py),
        Err(_) => PyDim(dim.clone()).into_bound_py_any(py),
    });
    PyTuple::new(py, lengths.collect::<PyResult<Vec<_>>>()?)
}

/// Elements as nested lists.
fn nested<'py>(
    py: Python<'py>,
    items: &mut impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        [] => items.next().unwrap_or_else(|| Err(PyValueError::new_err("too few elements"))),
        [len, rest @ ..] => {
            let list = PyList::empty(py);
            for _ in 0..*len {
                list.append(nested(py, items, rest)?)?;
            }
            Ok(list.into_any())
        }
    }
}

impl PyTensor {
    fn get<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&Tensor) -> warpweft::Result<T> + Send) -> PyResult<T> {
        asked(py, || ask(&self.0))
    }
}

#[pymethods]
impl PyTensor {
    /// The lengths of the axes.
    #[getter]
    pub(super) fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.get(py, Tensor::dims)?)
    }

    /// The type of an element.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<PyDType> {
        self.get(py, Tensor::dtype).map(PyDType)
    }

    /// The number of axes.
    #[getter]
    pub(super) fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        self.get(py, Tensor::rank)
    }

    /// The number of elements.
    #[getter]
    pub(super) fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.get(py, Tensor::numel)
    }

    /// Elements of the storage between neighbours along each axis.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.get(py, Tensor::strides)?)
    }

    /// All axes in reverse order.
    #[getter(T)]
    pub(super) fn transposed(&self, py: Python<'_>) -> PyResult<PyTensor> {
        let axes: Vec<i64> = (0..self.ndim(py)? as i64).rev().collect();
        made(py, || self.0.permute(axes))
    }

    /// Whether its elements are in memory.
    #[getter]
    fn is_realized(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_realized())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let shape = self.get(py, Tensor::shape)?;
        shape.first().copied().ok_or_else(|| PyTypeError::new_err("a tensor without axes has no length"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.ndim(py)? == 0 {
            return Err(PyTypeError::new_err("a tensor without axes has no parts to go over"));
        }
        let parts = made_many(py, || self.0.unbind(0))?;
        Ok(PyList::new(py, parts)?.try_iter()?.into_any())
    }

    fn __hash__(slf: &Bound<'_, PyTensor>) -> isize {
        slf.as_ptr().addr() as isize >> 4
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let text = py.detach(|| self.0.to_string());
        // The type by its name in Python.
        match (text.rsplit_once("dtype="), self.0.dtype()) {
            (Some((before, own)), Ok(dtype)) => {
                format!("{before}dtype={}{}", name(dtype), own.strip_prefix(&dtype.to_string()).unwrap_or(own))
            }
            _ => text,
        }
    }

    pub(super) fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        match self.get(py, Tensor::numel)? {
            1 => self.item(py)?.is_truthy(),
            count => {
                let message = format!("a tensor of {count} elements is neither true nor false: ask for any() or all()");
                Err(PyValueError::new_err(message))
            }
        }
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |tensor| tensor.cast(DType::F64).item::<f64>())
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.item(py)?.call_method0("__int__")
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.get(py, Tensor::dtype)?.is_float() {
            return Err(PyTypeError::new_err("only a tensor of integers is an index"));
        }
        self.item(py)?.call_method0("__int__")
    }

    /// The one element as a number of Python.
    pub(super) fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let elements = self.get(py, |tensor| tensor.item_scalar().and_then(|_| tensor.elements()))?;
        scalar(py, self.get(py, Tensor::dtype)?, elements.get(0))
    }

    /// The elements as nested lists.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (elements, shape, dtype) =
            self.get(py, |tensor| Ok((tensor.elements()?, tensor.shape()?, tensor.dtype()?)))?;
        let count: usize = shape.iter().product();
        let mut items = (0..count).map(|at| scalar(py, dtype, elements.get(at)));
        nested(py, &mut items, &shape)
    }

    /// The elements in row-major order as bytes.
    fn tobytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.get(py, Tensor::to_bytes)
    }

    /// Computes the tensor, once; gives itself.
    fn realize<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyTensor>> {
        slf.get().get(slf.py(), |tensor| tensor.realize().map(|_| ()))?;
        Ok(slf.clone())
    }

    /// A copy in memory of its own.
    pub(super) fn copy(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.contiguous(py)
    }

    /// What is still to be computed for this tensor, as text.
    fn program(&self, py: Python<'_>) -> PyResult<String> {
        self.get(py, Tensor::program)
    }

    /// The derivative of this tensor, which must have one element, by each of the targets.
    fn gradient(&self, py: Python<'_>, targets: Vec<Py<PyTensor>>) -> PyResult<Vec<PyTensor>> {
        let targets = tensors(&targets);
        made_many(py, || self.0.gradient(&targets))
    }

    /// As `gradient`, with None for a target that the result does not depend on, instead of zeros.
    fn gradient_or_none(&self, py: Python<'_>, targets: Vec<Py<PyTensor>>) -> PyResult<Vec<Option<PyTensor>>> {
        let targets = tensors(&targets);
        let found = asked(py, || self.0.gradient_or_none(&targets))?;
        found.into_iter().map(|tensor| tensor.map(|tensor| made(py, || tensor)).transpose()).collect()
    }

    /// The derivative of the sum of this tensor times a cotangent by each of the targets.
    fn gradient_with(
        &self,
        py: Python<'_>,
        cotangent: &PyTensor,
        targets: Vec<Py<PyTensor>>,
    ) -> PyResult<Vec<PyTensor>> {
        let targets = tensors(&targets);
        made_many(py, || self.0.gradient_with(&cotangent.0, &targets))
    }

    /// The same values as a tensor of its own, which gradients tell from this one and from all that are alike.
    fn distinct(&self, py: Python<'_>) -> PyResult<PyTensor> {
        made(py, || self.0.distinct())
    }

    /// Replaces all elements, of all views of the same memory too.
    fn assign(&self, py: Python<'_>, value: Given) -> PyResult<()> {
        self.get(py, |tensor| tensor.assign(value.operand()))
    }

    /// Sets all elements to one number.
    fn fill(&self, py: Python<'_>, value: Number) -> PyResult<()> {
        self.get(py, |tensor| tensor.fill(value.0))
    }

    fn __iadd__(&self, py: Python<'_>, other: Given) -> PyResult<()> {
        self.get(py, |tensor| tensor.add_assign(other.operand()))
    }

    fn __isub__(&self, py: Python<'_>, other: Given) -> PyResult<()> {
        self.get(py, |tensor| tensor.sub_assign(other.operand()))
    }

    fn __imul__(&self, py: Python<'_>, other: Given) -> PyResult<()> {
        self.get(py, |tensor| tensor.mul_assign(other.operand()))
    }

    fn __itruediv__(&self, py: Python<'_>, other: Given) -> PyResult<()> {
        self.get(py, |tensor| tensor.div_assign(other.operand()))
    }

    /// The tensor with values for variables of its shape: `{variable: value}`.
    fn bind(&self, py: Python<'_>, values: std::collections::HashMap<PyVarKey, i64>) -> PyResult<PyTensor> {
        let values = bindings(values.into_iter().map(|(key, value)| (key.0, value)).collect());
        let values: Vec<_> = values.iter().map(|(variable, value)| (variable, *value)).collect();
        let bound = py.detach(|| self.0.bind(&values));
        match bound.dtype() {
            Ok(_) => Ok(PyTensor(bound)),
            Err(error) => Err(exception(py, &error)),
        }
    }

    /// The element of the storage that is this tensor's first.
    #[getter]
    fn storage_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.get(py, Tensor::storage_offset)
    }

    /// Whether its elements follow each other in the storage in row-major order.
    fn is_contiguous(&self, py: Python<'_>) -> PyResult<bool> {
        self.get(py, Tensor::is_contiguous)
    }

    /// Whether two positions of this view show one element of the storage: such a view takes only `fill`.
    fn overlaps_itself(&self, py: Python<'_>) -> PyResult<bool> {
        self.get(py, Tensor::overlaps_itself)
    }

    /// Whether some element of a storage is shown by both, so that what is written through one is seen through the other.
    fn shares_elements_with(&self, py: Python<'_>, other: &PyTensor) -> PyResult<bool> {
        self.get(py, |tensor| tensor.shares_elements_with(&other.0))
    }

    /// The variables of its shape, and of what it is computed from, that have no value yet.
    fn vars(&self, py: Python<'_>) -> PyResult<Vec<PyVar>> {
        Ok(self.get(py, Tensor::vars)?.into_iter().map(PyVar).collect())
    }

    /// Whether both are views of one storage.
    fn shares_storage_with(&self, other: &PyTensor) -> bool {
        self.0.shares_storage_with(&other.0)
    }
}

/// A variable as a key of a dictionary.
struct PyVarKey(Py<PyVar>);

impl PartialEq for PyVarKey {
    fn eq(&self, other: &PyVarKey) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for PyVarKey {}

impl std::hash::Hash for PyVarKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.get().hash(state);
    }
}

impl<'py> FromPyObject<'_, 'py> for PyVarKey {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<PyVarKey> {
        Ok(PyVarKey(object.cast::<PyVar>()?.to_owned().unbind()))
    }
}

/// An element as a number of Python.
fn scalar(py: Python<'_>, dtype: DType, value: Scalar) -> PyResult<Bound<'_, PyAny>> {
    match dtype {
        DType::BOOL => (value.to_i64() != 0).into_bound_py_any(py),
        DType::U64 => (value.to_i64() as u64).into_bound_py_any(py),
        float if float.is_float() => value.to_f64().into_bound_py_any(py),
        _ => value.to_i64().into_bound_py_any(py),
    }
}
