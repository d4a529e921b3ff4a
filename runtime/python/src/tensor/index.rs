//! `x[index]` and `x[index] = value` with Python's meaning: numbers, slices, None, Ellipsis, arrays of integers, masks.
//!
//! Numbers and slices come first and give a view. Arrays of integers, one for each axis that is left, follow: they broadcast, and what they
//! name is a copy. A mask stands for the indices where it holds, which are looked at; so there is none while a function is traced,
//! but for `x[mask] = number`, which needs no indices.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyList, PySlice, PyTuple};
use warpweft::tensor::Index;
use warpweft::{DType, Tensor};

use super::{PyTensor, asked, made, tensor_of};
use crate::arguments::{Array, Given};

/// An index taken apart.
struct Key {
    /// Numbers, slices, new axes and the rest; whole axes where an array stands.
    entries: Vec<Index>,
    /// Arrays of integers, each with the axis of the view that it is for.
    arrays: Vec<(i64, Tensor)>,
}

/// One bound of a slice.
fn bound(slice: &Bound<'_, PySlice>, name: &str) -> PyResult<Option<i64>> {
    let value = slice.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    let number = value
        .call_method0("__index__")
        .map_err(|_| PyTypeError::new_err(format!("a slice is made of integers and None, not {value}")))?;
    // Further than any axis is as good as the end.
    Ok(Some(
        number.extract::<i64>().or_else(|_| number.lt(0).map(|below| if below { i64::MIN + 1 } else { i64::MAX }))?,
    ))
}

/// The indices where a mask holds, one array for each of its axes.
fn indices(py: Python<'_>, mask: &Tensor) -> PyResult<Vec<Tensor>> {
    let (shape, held) = asked(py, || Ok((mask.shape()?, mask.to_bytes()?)))?;
    let numbers: Vec<usize> = (0..held.len()).filter(|&number| held[number] != 0).collect();
    let mut stride = held.len();
    let mut axes = Vec::new();
    for &len in &shape {
        stride /= len.max(1);
        let along: Vec<i64> = numbers.iter().map(|number| (number / stride.max(1) % len.max(1)) as i64).collect();
        axes.push(Tensor::from_vec(along, [numbers.len() as i64]));
    }
    Ok(axes)
}

impl Key {
    fn of(py: Python<'_>, key: &Bound<'_, PyAny>, x: &Tensor) -> PyResult<Key> {
        let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        let rank = asked(py, || x.rank())?;
        let mut found = Key { entries: Vec::new(), arrays: Vec::new() };
        let apart = are_apart(&items);
        // Axes of the view so far, and axes of the tensor that were used.
        let (mut axis, mut used, mut rest_at) = (0i64, 0usize, None);
        for item in &items {
            if item.is_none() {
                found.entries.push(Index::New);
                axis += 1;
            } else if item.is_instance_of::<PyEllipsis>() {
                if rest_at.replace((found.arrays.len(), found.entries.len())).is_some() {
                    return Err(PyIndexError::new_err("an index holds ... once"));
                }
                found.entries.push(Index::Rest);
            } else if let Ok(slice) = item.cast::<PySlice>() {
                let (start, stop) = (bound(slice, "start")?, bound(slice, "stop")?);
                let step = bound(slice, "step")?.unwrap_or(1);
                found.entries.push(Index::Range { start, stop, step });
                (axis, used) = (axis + 1, used + 1);
            } else if item.is_instance_of::<PyBool>() {
                return Err(PyIndexError::new_err(
                    "True and False are no index: a mask has the shape of what it chooses from",
                ));
            } else if !is_array(item) {
                let number = item.call_method0("__index__").and_then(|number| number.extract::<i64>());
                let Ok(at) = number else {
                    let what = item.get_type().name()?;
                    return Err(PyIndexError::new_err(format!(
                        "{what} is no index: use integers, slices, None, ... or arrays"
                    )));
                };
                if apart {
                    // Its axis goes to the front with those of the arrays, as numpy has it. An index that there is not is told as of a view.
                    asked(py, || {
                        x.get(found.entries.iter().cloned().chain([Index::At(at)]).collect::<Vec<_>>()).dims()
                    })?;
                    found.entries.push(Index::ALL);
                    found.arrays.push((axis, Tensor::full_of(Vec::<i64>::new(), at, DType::I64)));
                    axis += 1;
                } else {
                    found.entries.push(Index::At(at));
                }
                used += 1;
            } else {
                for array in arrays(py, item)? {
                    found.entries.push(Index::ALL);
                    found.arrays.push((axis, array));
                    (axis, used) = (axis + 1, used + 1);
                }
            }
        }
        if used > rank {
            return Err(PyIndexError::new_err(format!("{used} entries of an index for {rank} axes")));
        }
        if let Some((from, _)) = rest_at {
            let rest = (rank - used) as i64;
            found.arrays[from..].iter_mut().for_each(|(axis, _)| *axis += rest);
        }
        Ok(found)
    }

    fn get(&self, x: &Tensor) -> Tensor {
        let part = x.get(&self.entries[..]);
        if self.arrays.is_empty() {
            return part;
        }
        let (axes, arrays) = self.split();
        part.index(&axes, &arrays)
    }

    fn split(&self) -> (Vec<i64>, Vec<&Tensor>) {
        self.arrays.iter().map(|(axis, array)| (*axis, array)).unzip()
    }
}

/// Whether numbers and arrays of an index, of both of which there are some, do not stand next to each other.
fn are_apart(items: &[Bound<'_, PyAny>]) -> bool {
    let is_view = |item: &Bound<'_, PyAny>| {
        item.is_none() || item.is_instance_of::<PyEllipsis>() || item.is_instance_of::<PySlice>()
    };
    let kinds: Vec<(bool, bool)> = items.iter().map(|item| (is_view(item), !is_view(item) && is_array(item))).collect();
    let has_both = kinds.contains(&(false, true)) && kinds.contains(&(false, false));
    let mut inside = kinds.iter().skip_while(|kind| kind.0).skip_while(|kind| !kind.0).skip_while(|kind| kind.0);
    has_both && inside.next().is_some()
}

fn is_array(item: &Bound<'_, PyAny>) -> bool {
    item.is_instance_of::<PyTensor>()
        || item.is_instance_of::<PyList>()
        || item.is_instance_of::<PyTuple>()
        || item.hasattr("__dlpack__").unwrap_or(false) && item.hasattr("__len__").unwrap_or(false)
}

/// The arrays of integers that an entry stands for: itself, or the indices of a mask.
fn arrays(py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    let array = tensor_of(item, None)?.0;
    let dtype = asked(py, || array.dtype())?;
    match dtype {
        DType::BOOL => indices(py, &array),
        float if float.is_float() && asked(py, || array.numel())? == 0 => Ok(vec![array.cast(DType::I64)]),
        float if float.is_float() => Err(PyIndexError::new_err("arrays of an index are of integers or bools")),
        _ => Ok(vec![array]),
    }
}

/// A mask of the tensor's own shape.
fn mask_of(key: &Bound<'_, PyAny>, x: &Tensor) -> Option<Tensor> {
    let mask = key.cast::<PyTensor>().ok()?.get().0.clone();
    let is_one = mask.dtype().ok()? == DType::BOOL && mask.dims().ok()? == x.dims().ok()?;
    is_one.then_some(mask)
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let key = Key::of(py, key, &self.0)?;
        made(py, || key.get(&self.0))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: Given) -> PyResult<()> {
        if let (Given::Number(number), Some(mask)) = (&value, mask_of(key, &self.0)) {
            return asked(py, || self.0.assign(self.0.masked_fill(&mask, *number)));
        }
        let key = Key::of(py, key, &self.0)?;
        asked(py, || {
            let part = self.0.get(&key.entries[..]);
            if key.arrays.is_empty() {
                return part.assign(value.operand());
            }
            let (axes, arrays) = key.split();
            part.index_assign(&axes, &arrays, value.operand())
        })
    }

    /// One axis replaced by the axes of an index.
    fn index_select(&self, py: Python<'_>, axis: i64, index: Array) -> PyResult<PyTensor> {
        made(py, || self.0.index_select(axis, &index.0))
    }

    /// Several axes indexed at once by tensors that broadcast.
    fn index(&self, py: Python<'_>, axes: Vec<i64>, indices: Vec<Py<PyTensor>>) -> PyResult<PyTensor> {
        let indices = super::tensors(&indices);
        made(py, || self.0.index(&axes, &indices))
    }

    /// Assigns to the elements that tensors of integers name.
    fn index_assign(&self, py: Python<'_>, axes: Vec<i64>, indices: Vec<Py<PyTensor>>, value: Given) -> PyResult<()> {
        let indices = super::tensors(&indices);
        asked(py, || self.0.index_assign(&axes, &indices, value.operand()))
    }

    /// Elements of one axis, chosen for each position along the others.
    fn gather(&self, py: Python<'_>, axis: i64, index: Array) -> PyResult<PyTensor> {
        made(py, || self.0.gather(&index.0, axis))
    }

    /// 1 at the position that each index names along a new last axis, 0 elsewhere; int32.
    fn one_hot(&self, py: Python<'_>, classes: i64) -> PyResult<PyTensor> {
        made(py, || self.0.one_hot(classes))
    }
}
