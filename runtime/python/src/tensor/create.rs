//! Tensors from Python's data, from constants, and at random; and several tensors as one. Functions of the module.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyRange, PyTuple};
use warpweft::tensor::{Literal, ScatterReduce};
use warpweft::{DType, Tensor};

use super::{PyTensor, made, made_many, tensors};
use crate::arguments::{Array, Given, Length, Lengths, Number, literal, spread};
use crate::dtype::Wanted;
use crate::interchange;

/// Nested sequences deeper than that are taken for a list that holds itself.
const DEPTH_MAX: usize = 64;

/// Numbers in nested sequences, and the lengths of these.
#[derive(Default)]
struct Nested {
    numbers: Vec<Literal>,
    lengths: Vec<usize>,
}

impl Nested {
    fn read(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        let len = match (object.cast::<PyList>(), object.cast::<PyTuple>()) {
            (Ok(list), _) => list.len(),
            (_, Ok(tuple)) => tuple.len(),
            _ if depth == self.lengths.len() || self.numbers.is_empty() => {
                self.numbers.push(literal(object)?);
                return Ok(());
            }
            _ => return Err(PyValueError::new_err("a number stands where other entries are sequences")),
        };
        match self.lengths.get(depth) {
            Some(&known) if known == len => {}
            None if self.numbers.is_empty() && depth < DEPTH_MAX => self.lengths.push(len),
            _ => return Err(PyValueError::new_err("sequences of a tensor have one length and one depth")),
        }
        for item in object.try_iter()? {
            self.read(&item?, depth + 1)?;
        }
        Ok(())
    }

    /// Booleans stay such, integers are int64, and one float makes all of them float32.
    fn dtype(&self) -> DType {
        let any = |wanted: fn(&Literal) -> bool| self.numbers.iter().any(wanted);
        match () {
            () if self.numbers.is_empty() || any(|number| matches!(number, Literal::Float(_))) => DType::F32,
            () if any(|number| matches!(number, Literal::Int(_))) => DType::I64,
            () => DType::BOOL,
        }
    }

    fn tensor(self, dtype: DType) -> Tensor {
        let shape: Vec<i64> = self.lengths.iter().map(|&len| len as i64).collect();
        if shape.is_empty() && self.numbers.len() == 1 {
            return Tensor::full_of(Vec::<i64>::new(), self.numbers[0], dtype);
        }
        let is_float = self.numbers.iter().any(|number| matches!(number, Literal::Float(_)));
        if is_float {
            let value = |number: &Literal| match *number {
                Literal::Bool(value) => f64::from(value),
                Literal::Int(value) => value as f64,
                Literal::Float(value) => value,
            };
            return Tensor::from_vec(self.numbers.iter().map(value).collect::<Vec<f64>>(), shape).cast(dtype);
        }
        let value = |number: &Literal| match *number {
            Literal::Bool(value) => i64::from(value),
            Literal::Int(value) => value,
            Literal::Float(_) => 0, // there is none
        };
        Tensor::from_vec(self.numbers.iter().map(value).collect::<Vec<i64>>(), shape).cast(dtype)
    }
}

/// A tensor of whatever holds numbers: a tensor, a number, nested sequences, an array of another library. Always a copy.
pub(crate) fn tensor_of(object: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<PyTensor> {
    tensor_at(object, dtype, 0)
}

fn tensor_at(object: &Bound<'_, PyAny>, dtype: Option<DType>, depth: usize) -> PyResult<PyTensor> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err(format!("sequences are nested more than {DEPTH_MAX} deep")));
    }
    let py = object.py();
    let cast = |tensor: Tensor| match dtype {
        Some(dtype) if tensor.dtype().is_ok_and(|own| own != dtype) => tensor.cast(dtype),
        _ => tensor,
    };
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let tensor = tensor.get();
        return made(py, || cast(tensor.0.clone()));
    }
    if object.is_instance_of::<PyRange>() {
        return tensor_at(&object.py().get_type::<PyList>().call1((object,))?, dtype, depth);
    }
    let is_typed = object.hasattr("dtype")?;
    if is_typed || !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() && literal(object).is_err()
    {
        if object.is_instance_of::<PyInt>() {
            literal(object)?; // Python's own message where an integer is too large
        }
        let tensor = interchange::copied(object, None)?;
        return made(py, || cast(tensor));
    }
    let mut nested = Nested::default();
    let has_tensors = |list: &Bound<'_, PyAny>| -> PyResult<bool> {
        Ok(literal(list).is_err()
            && list.try_iter()?.any(|item| item.is_ok_and(|item| item.is_instance_of::<PyTensor>())))
    };
    if has_tensors(object)? {
        let parts =
            object.try_iter()?.map(|item| tensor_at(&item?, dtype, depth + 1)).collect::<PyResult<Vec<PyTensor>>>()?;
        return made(py, || Tensor::stack(&parts.iter().map(|part| &part.0).collect::<Vec<_>>(), 0));
    }
    nested.read(object, 0)?;
    let dtype = dtype.unwrap_or_else(|| nested.dtype());
    made(py, || {
        let tensor = nested.tensor(dtype);
        // Data of the program: memory of its own, so that kernels do not depend on its numbers.
        match tensor.realize() {
            Ok(_) => tensor.clone(),
            Err(_) => tensor.clone(),
        }
    })
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (data, dtype=None))]
    fn new(data: &Bound<'_, PyAny>, dtype: Option<Wanted>) -> PyResult<PyTensor> {
        tensor_of(data, dtype.map(|wanted| wanted.0))
    }

    /// This with elements of a source written to the positions that an index names along an axis; the last wins.
    fn scatter(&self, py: Python<'_>, axis: i64, index: Array, source: Array) -> PyResult<PyTensor> {
        made(py, || self.0.scatter(axis, &index.0, &source.0))
    }

    /// As `scatter`, with elements combined: `reduce` is "sum", "prod", "mean", "amax" or "amin".
    #[pyo3(signature = (axis, index, source, reduce, include_self=true))]
    fn scatter_reduce(
        &self,
        py: Python<'_>,
        axis: i64,
        index: Array,
        source: Array,
        reduce: &str,
        include_self: bool,
    ) -> PyResult<PyTensor> {
        let reduce = match reduce {
            "sum" => ScatterReduce::Sum,
            "prod" => ScatterReduce::Prod,
            "mean" => ScatterReduce::Mean,
            "amax" => ScatterReduce::Amax,
            "amin" => ScatterReduce::Amin,
            other => {
                let known = "\"sum\", \"prod\", \"mean\", \"amax\" or \"amin\"";
                return Err(PyValueError::new_err(format!("reduce is {known}, not {other:?}")));
            }
        };
        made(py, || self.0.scatter_reduce(axis, &index.0, &source.0, reduce, include_self))
    }
}

/// One number everywhere.
#[pyfunction]
#[pyo3(signature = (shape, value, dtype=None))]
fn full(py: Python<'_>, shape: Lengths, value: Number, dtype: Option<Wanted>) -> PyResult<PyTensor> {
    let own = match value.0 {
        Literal::Int(_) => DType::I64,
        other => other.dtype(),
    };
    made(py, || Tensor::full_of(shape.shape(), value.0, dtype.map_or(own, |wanted| wanted.0)))
}

macro_rules! creators {
    ($($(#[$doc:meta])* $name:ident $of:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (*shape, dtype=None))]
        fn $name(py: Python<'_>, shape: &Bound<'_, PyTuple>, dtype: Option<Wanted>) -> PyResult<PyTensor> {
            let shape = spread::<Lengths>(shape)?;
            made(py, || Tensor::$of(shape.shape(), dtype.map_or(DType::F32, |wanted| wanted.0)))
        }
    )* };
}

creators! {
    /// Zeros.
    zeros zeros_of;
    /// Ones.
    ones ones_of;
    /// Random numbers, uniform in [0, 1).
    rand rand_of;
    /// Random numbers, normal with mean 0 and variance 1.
    randn randn_of;
}

/// start, start + step, ... up to but without stop.
#[pyfunction]
#[pyo3(signature = (start, stop=None, step=Number(Literal::Int(1)), dtype=None))]
fn arange(
    py: Python<'_>,
    start: Number,
    stop: Option<Number>,
    step: Number,
    dtype: Option<Wanted>,
) -> PyResult<PyTensor> {
    let (start, stop) = stop.map_or((Literal::Int(0), start.0), |stop| (start.0, stop.0));
    let is_float = [start, stop, step.0].iter().any(|number| matches!(number, Literal::Float(_)));
    let own = if is_float { DType::F32 } else { DType::I64 };
    made(py, || Tensor::arange_of(start, stop, step.0, dtype.map_or(own, |wanted| wanted.0)))
}

/// `num` numbers from start to stop, both included.
#[pyfunction]
#[pyo3(signature = (start, stop, num=50, dtype=None))]
fn linspace(py: Python<'_>, start: f64, stop: f64, num: i64, dtype: Option<Wanted>) -> PyResult<PyTensor> {
    made(py, || Tensor::linspace_of(start, stop, num, dtype.map_or(DType::F32, |wanted| wanted.0)))
}

/// Ones on the diagonal of a matrix, zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (rows, columns=None, dtype=None))]
fn eye(py: Python<'_>, rows: i64, columns: Option<i64>, dtype: Option<Wanted>) -> PyResult<PyTensor> {
    made(py, || Tensor::eye_of(rows, columns.unwrap_or(rows), dtype.map_or(DType::F32, |wanted| wanted.0)))
}

/// Random integers from `low` up to but without `high`.
#[pyfunction]
fn randint(py: Python<'_>, low: i64, high: i64, shape: Lengths) -> PyResult<PyTensor> {
    made(py, || Tensor::randint(low, high, shape.shape()))
}

/// Random numbers, uniform between two.
#[pyfunction]
fn uniform(py: Python<'_>, low: f64, high: f64, shape: Lengths) -> PyResult<PyTensor> {
    made(py, || Tensor::uniform(low, high, shape.shape()))
}

/// 0 to n - 1 in random order, int32.
#[pyfunction]
fn randperm(py: Python<'_>, n: i64) -> PyResult<PyTensor> {
    made(py, || Tensor::randperm(n))
}

/// Begins the sequence of random numbers of that seed.
#[pyfunction]
fn manual_seed(seed: u64) {
    warpweft::tensor::manual_seed(seed);
}

/// A length as a tensor of one int64.
#[pyfunction]
fn from_dim(py: Python<'_>, dim: Length) -> PyResult<PyTensor> {
    made(py, || Tensor::from_dim(dim.0))
}

/// One after the other along an axis.
#[pyfunction]
#[pyo3(signature = (tensors, axis=0))]
fn cat(py: Python<'_>, tensors: Vec<Py<PyTensor>>, axis: i64) -> PyResult<PyTensor> {
    let list = self::tensors(&tensors);
    made(py, || Tensor::cat(&list, axis))
}

/// Along a new axis.
#[pyfunction]
#[pyo3(signature = (tensors, axis=0))]
fn stack(py: Python<'_>, tensors: Vec<Py<PyTensor>>, axis: i64) -> PyResult<PyTensor> {
    let list = self::tensors(&tensors);
    made(py, || Tensor::stack(&list, axis))
}

/// Sum of products in Einstein's notation.
#[pyfunction]
#[pyo3(signature = (equation, *operands))]
fn einsum(py: Python<'_>, equation: &str, operands: Vec<Py<PyTensor>>) -> PyResult<PyTensor> {
    let list = self::tensors(&operands);
    made(py, || Tensor::einsum(equation, &list))
}

/// Each vector repeated over the grid of all: `indexing` is "xy" or "ij".
#[pyfunction]
#[pyo3(signature = (*vectors, indexing="xy"))]
fn meshgrid(py: Python<'_>, vectors: Vec<Py<PyTensor>>, indexing: &str) -> PyResult<Vec<PyTensor>> {
    if !matches!(indexing, "xy" | "ij") {
        return Err(PyValueError::new_err(format!("indexing is \"xy\" or \"ij\", not {indexing:?}")));
    }
    let list = self::tensors(&vectors);
    made_many(py, || Tensor::meshgrid(&list, indexing == "xy"))
}

/// `a` where the condition holds, else `b`.
#[pyfunction(name = "where")]
fn where_(py: Python<'_>, condition: Array, a: Given, b: Given) -> PyResult<PyTensor> {
    // Of two numbers none has a tensor beside it, so integers are int64 here too.
    let a = match (&a, &b) {
        (Given::Number(Literal::Int(_)), Given::Number(Literal::Int(_) | Literal::Bool(_)))
        | (Given::Number(Literal::Bool(_)), Given::Number(Literal::Int(_))) => {
            let Given::Number(number) = a else { return Err(PyValueError::new_err("no number")) };
            Given::Tensor(Tensor::full_of(Vec::<i64>::new(), number, DType::I64))
        }
        _ => a,
    };
    made(py, || condition.0.where_(a.operand(), b.operand()))
}

/// Computes several tensors in one program, which shares what they share.
#[pyfunction]
fn realize(py: Python<'_>, tensors: Vec<Py<PyTensor>>) -> PyResult<()> {
    let list = self::tensors(&tensors);
    super::asked(py, || Tensor::realize_all(&list))
}

/// A tensor over the memory of another library's array, without a copy. The array must not be written to while the tensor lives.
#[pyfunction]
fn from_dlpack(array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    if let Ok(tensor) = array.cast::<PyTensor>() {
        return Ok(PyTensor(tensor.get().0.clone()));
    }
    if !array.hasattr("__dlpack__")? && array.get_type().name()? != "PyCapsule" {
        return Err(PyTypeError::new_err("the object has no __dlpack__, so its memory cannot be shared"));
    }
    let tensor = interchange::shared(array)?;
    made(array.py(), || tensor)
}

/// The functions of the module that make tensors.
pub(crate) fn functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($name:ident)*) => { $( module.add_function(wrap_pyfunction!($name, module)?)?; )* };
    }
    add!(full zeros ones rand randn arange linspace eye randint uniform randperm manual_seed from_dim);
    add!(cat stack einsum meshgrid where_ realize from_dlpack);
    Ok(())
}
