//! Views: other orders, shapes and repetitions of the same elements; padding and cutting.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use warpweft::tensor::{Dim, Literal, PadMode};

use super::{PyTensor, made, made_many};
use crate::arguments::{Length, Lengths, Number, Numbers, spread};

macro_rules! spreads {
    ($($(#[$doc:meta])* $name:ident $kind:ident $convert:path;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (*shape))]
            fn $name(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
                let given = spread::<$kind>(shape)?;
                made(py, || self.0.$name($convert(given)))
            }
        )* }
    };
}

spreads! {
    /// The elements under another shape; one length may be -1. A view where strides can say it, else a copy.
    reshape Lengths Lengths::shape;
    /// Axes of length 1 repeated, new axes put in front; -1 keeps a length.
    expand Lengths Lengths::shape;
    /// The same elements under another shape, as a view, or an error.
    view Numbers Numbers::list;
    /// Axes in another order.
    permute Numbers Numbers::list;
    /// The whole repeated along each axis.
    repeat Numbers Numbers::list;
}

#[pymethods]
impl PyTensor {
    /// One axis moved to another position.
    fn movedim(&self, py: Python<'_>, source: i64, destination: i64) -> PyResult<PyTensor> {
        made(py, || self.0.movedim(source, destination))
    }

    /// The given axes in reverse; all of them for None.
    #[pyo3(signature = (axis=None))]
    fn flip(&self, py: Python<'_>, axis: Option<Numbers>) -> PyResult<PyTensor> {
        made(py, || {
            let all = || (0..self.0.rank().unwrap_or(0) as i64).collect();
            self.0.flip(axis.map_or_else(all, |axis| axis.0))
        })
    }

    /// A new axis of length 1.
    fn unsqueeze(&self, py: Python<'_>, axis: i64) -> PyResult<PyTensor> {
        made(py, || self.0.unsqueeze(axis))
    }

    /// Without the given axes of length 1; without all of them for None.
    #[pyo3(signature = (axis=None))]
    fn squeeze(&self, py: Python<'_>, axis: Option<Numbers>) -> PyResult<PyTensor> {
        made(py, || self.0.squeeze(axis.map_or_else(Vec::new, |axis| axis.0)))
    }

    /// Axes from `start` to `end`, both included, as one.
    #[pyo3(signature = (start=0, end=-1))]
    fn flatten(&self, py: Python<'_>, start: i64, end: i64) -> PyResult<PyTensor> {
        made(py, || self.0.flatten(start, end))
    }

    /// One axis cut into several.
    fn unflatten(&self, py: Python<'_>, axis: i64, sizes: Numbers) -> PyResult<PyTensor> {
        made(py, || self.0.unflatten(axis, sizes.0))
    }

    /// `length` elements of an axis from `start` on.
    fn narrow(&self, py: Python<'_>, axis: i64, start: Length, length: Length) -> PyResult<PyTensor> {
        made(py, || self.0.narrow(axis, start.0, length.0))
    }

    /// A diagonal of two axes, as a new last axis.
    #[pyo3(signature = (offset=0, axis1=0, axis2=1))]
    fn diagonal(&self, py: Python<'_>, offset: i64, axis1: i64, axis2: i64) -> PyResult<PyTensor> {
        made(py, || self.0.diagonal(offset, axis1, axis2))
    }

    /// Windows of `size` elements along an axis, one every `step`, as a new last axis.
    fn unfold(&self, py: Python<'_>, axis: i64, size: i64, step: i64) -> PyResult<PyTensor> {
        made(py, || self.0.unfold(axis, size, step))
    }

    /// Rotated along axes; as if flat for None.
    #[pyo3(signature = (shift, axis=None))]
    fn roll(&self, py: Python<'_>, shift: Numbers, axis: Option<Numbers>) -> PyResult<PyTensor> {
        made(py, || self.0.roll(shift.0, axis.map_or_else(Vec::new, |axis| axis.0)))
    }

    /// Each element repeated in place along an axis; flattened first without one.
    #[pyo3(signature = (count, axis=None))]
    fn repeat_interleave(&self, py: Python<'_>, count: i64, axis: Option<i64>) -> PyResult<PyTensor> {
        made(py, || self.0.repeat_interleave(count, axis))
    }

    /// A matrix with this on a diagonal, or the diagonal of a matrix.
    #[pyo3(signature = (offset=0))]
    fn diag(&self, py: Python<'_>, offset: i64) -> PyResult<PyTensor> {
        made(py, || self.0.diag(offset))
    }

    /// Padded by (before, after) of each axis: `mode` is "constant", "reflect", "edge" or "wrap".
    #[pyo3(signature = (padding, mode="constant", value=Number(Literal::Int(0))))]
    fn pad(&self, py: Python<'_>, padding: Vec<(Length, Length)>, mode: &str, value: Number) -> PyResult<PyTensor> {
        let mode = match mode {
            "constant" => PadMode::Constant(value.0.scalar()),
            "reflect" => PadMode::Reflect,
            "edge" => PadMode::Replicate,
            "wrap" => PadMode::Circular,
            other => {
                let message = format!("mode is \"constant\", \"reflect\", \"edge\" or \"wrap\", not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let padding: Vec<(Dim, Dim)> = padding.into_iter().map(|(before, after)| (before.0, after.0)).collect();
        made(py, || self.0.pad_by(&padding, mode))
    }

    /// Zeros above the given diagonal of the last two axes.
    #[pyo3(signature = (diagonal=0))]
    fn tril(&self, py: Python<'_>, diagonal: i64) -> PyResult<PyTensor> {
        made(py, || self.0.tril(diagonal))
    }

    /// Zeros below the given diagonal of the last two axes.
    #[pyo3(signature = (diagonal=0))]
    fn triu(&self, py: Python<'_>, diagonal: i64) -> PyResult<PyTensor> {
        made(py, || self.0.triu(diagonal))
    }

    /// Parts of the given lengths along an axis; of one length, but for the last, where it is one integer.
    #[pyo3(signature = (sizes, axis=0))]
    fn split(&self, py: Python<'_>, sizes: &Bound<'_, PyAny>, axis: i64) -> PyResult<Vec<PyTensor>> {
        let Ok(size) = sizes.extract::<i64>() else {
            let sizes: Numbers = sizes.extract()?;
            return made_many(py, || self.0.split(sizes.0, axis));
        };
        if size < 1 {
            return Err(PyValueError::new_err(format!("parts of length {size}: a part has one element at least")));
        }
        made_many(py, || {
            let shape = self.0.shape()?;
            let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
            // An axis that is not there is the library's error.
            let len = usize::try_from(at).ok().and_then(|at| shape.get(at)).map_or(0, |&len| len as i64);
            let count = (len + size - 1) / size;
            self.0.split((0..count).map(|part| size.min(len - part * size)).collect::<Vec<i64>>(), axis)
        })
    }

    /// At most `count` parts of equal length along an axis.
    #[pyo3(signature = (count, axis=0))]
    fn chunk(&self, py: Python<'_>, count: i64, axis: i64) -> PyResult<Vec<PyTensor>> {
        made_many(py, || self.0.chunk(count, axis))
    }

    /// The parts of an axis one by one.
    #[pyo3(signature = (axis=0))]
    fn unbind(&self, py: Python<'_>, axis: i64) -> PyResult<Vec<PyTensor>> {
        made_many(py, || self.0.unbind(axis))
    }

    /// Any shape and strides over the storage, counted in elements.
    #[pyo3(signature = (shape, strides, offset=None))]
    fn as_strided(&self, py: Python<'_>, shape: Numbers, strides: Numbers, offset: Option<i64>) -> PyResult<PyTensor> {
        made(py, || self.0.as_strided(shape.0, strides.0, offset))
    }
}
