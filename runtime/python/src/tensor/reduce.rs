//! Reductions, scans and sorting, as rows of tables.

use pyo3::prelude::*;
use warpweft::DType;

use super::{PyTensor, asked, made};
use crate::arguments::{Array, Numbers, axes};
use crate::dtype::Wanted;

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $kept:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, keepdims=false))]
            fn $name(&self, py: Python<'_>, axis: Option<Numbers>, keepdims: bool) -> PyResult<PyTensor> {
                let axes = axes(axis)?;
                made(py, || if keepdims { self.0.$kept(&axes) } else { self.0.$name(&axes) })
            }
        )* }
    };
}

reductions! {
    /// Largest along axes; NaN if there is one.
    max max_keepdim;
    /// Smallest along axes; NaN if there is one.
    min min_keepdim;
    /// Whether any is not zero.
    any any_keepdim;
    /// Whether all are not zero.
    all all_keepdim;
    /// log of the sum of exponentials, without overflow.
    logsumexp logsumexp_keepdim;
}

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident $kept:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, keepdims=false, dtype=None))]
            fn $name(&self, py: Python<'_>, axis: Option<Numbers>, keepdims: bool, dtype: Option<Wanted>) -> PyResult<PyTensor> {
                let axes = axes(axis)?;
                made(py, || {
                    let x = dtype.map_or_else(|| self.0.clone(), |dtype| self.0.cast(dtype.0));
                    let found = if keepdims { x.$kept(&axes) } else { x.$name(&axes) };
                    dtype.map_or_else(|| found.clone(), |dtype| found.cast(dtype.0))
                })
            }
        )* }
    };
}

totals! {
    /// Sum along axes; of bools and integers int64. A type that is given is that of the elements and of the sum.
    sum sum_keepdim;
    /// Product along axes; of bools and integers int64. A type that is given is that of the elements and of the product.
    prod prod_keepdim;
    /// Mean along axes, of integers as a float. A type that is given is that of the elements and of the mean.
    mean mean_keepdim;
}

macro_rules! running {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (axis=None, dtype=None))]
            fn $name(&self, py: Python<'_>, axis: Option<i64>, dtype: Option<Wanted>) -> PyResult<PyTensor> {
                made(py, || {
                    // Integers are added up as int64, as whole sums are.
                    let narrow = self.0.dtype().is_ok_and(|own| !own.is_float() && own.bytes() < 8);
                    let wanted = dtype.map(|dtype| dtype.0).or(narrow.then_some(DType::I64));
                    let x = wanted.map_or_else(|| self.0.clone(), |wanted| self.0.cast(wanted));
                    let found = axis.map_or_else(|| x.reshape([-1]).$name(0), |axis| x.$name(axis));
                    dtype.map_or_else(|| found.clone(), |dtype| found.cast(dtype.0))
                })
            }
        )* }
    };
}

running! {
    /// Running sum along an axis, or of all elements, row by row; of bools and integers int64.
    cumsum;
    /// Running product along an axis, or of all elements, row by row; of bools and integers int64.
    cumprod;
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident $axis:literal;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (axis=$axis))]
            fn $name(&self, py: Python<'_>, axis: i64) -> PyResult<PyTensor> {
                made(py, || self.0.$name(axis))
            }
        )* }
    };
}

scans! {
    /// Largest so far along an axis.
    cummax -1;
    /// Smallest so far along an axis.
    cummin -1;
    /// Running log of the sum of exponentials.
    logcumsumexp -1;
    /// Differences of neighbours along an axis.
    diff -1;
    /// Exponentials divided by their sum along an axis.
    softmax -1;
    /// Logarithm of the softmax.
    log_softmax -1;
}

#[pymethods]
impl PyTensor {
    /// Variance with `count - correction` as the divisor; `ddof` is another name of the correction.
    #[pyo3(signature = (axis=None, correction=0, keepdims=false, ddof=None))]
    fn var(
        &self,
        py: Python<'_>,
        axis: Option<Numbers>,
        correction: i64,
        keepdims: bool,
        ddof: Option<i64>,
    ) -> PyResult<PyTensor> {
        let (axes, correction) = (axes(axis)?, ddof.unwrap_or(correction));
        made(py, || self.0.var(&axes, correction, keepdims))
    }

    /// Square root of the variance.
    #[pyo3(signature = (axis=None, correction=0, keepdims=false, ddof=None))]
    fn std(
        &self,
        py: Python<'_>,
        axis: Option<Numbers>,
        correction: i64,
        keepdims: bool,
        ddof: Option<i64>,
    ) -> PyResult<PyTensor> {
        let (axes, correction) = (axes(axis)?, ddof.unwrap_or(correction));
        made(py, || self.0.std(&axes, correction, keepdims))
    }

    /// The p-norm.
    #[pyo3(signature = (order=2.0, axis=None, keepdims=false))]
    fn norm(&self, py: Python<'_>, order: f64, axis: Option<Numbers>, keepdims: bool) -> PyResult<PyTensor> {
        let axes = axes(axis)?;
        made(py, || self.0.norm(order, &axes, keepdims))
    }

    /// Divided by the p-norm along an axis, or by `eps` where that is smaller.
    #[pyo3(signature = (order=2.0, axis=1, eps=1e-12))]
    fn normalize(&self, py: Python<'_>, order: f64, axis: i64, eps: f64) -> PyResult<PyTensor> {
        made(py, || self.0.normalize(order, axis, eps))
    }

    /// Index of the first largest along an axis, or of all elements, counted row-major; int32.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn argmax(&self, py: Python<'_>, axis: Option<i64>, keepdims: bool) -> PyResult<PyTensor> {
        made(py, || self.0.argmax(axis, keepdims))
    }

    /// Index of the first smallest along an axis, or of all elements, counted row-major; int32.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn argmin(&self, py: Python<'_>, axis: Option<i64>, keepdims: bool) -> PyResult<PyTensor> {
        made(py, || self.0.argmin(axis, keepdims))
    }

    /// How many are not zero.
    #[pyo3(signature = (axis=None))]
    fn count_nonzero(&self, py: Python<'_>, axis: Option<Numbers>) -> PyResult<PyTensor> {
        let axes = axes(axis)?;
        made(py, || self.0.count_nonzero(&axes))
    }

    /// Sorted along an axis, stable, and where each came from (int32).
    #[pyo3(signature = (axis=-1, descending=false))]
    fn sort(&self, py: Python<'_>, axis: i64, descending: bool) -> PyResult<(PyTensor, PyTensor)> {
        let (values, order) = asked(py, || self.0.sort(axis, descending))?;
        Ok((PyTensor(values), PyTensor(order)))
    }

    /// Where each element of the sorted axis comes from; int32.
    #[pyo3(signature = (axis=-1, descending=false))]
    fn argsort(&self, py: Python<'_>, axis: i64, descending: bool) -> PyResult<PyTensor> {
        made(py, || self.0.argsort(axis, descending))
    }

    /// Where in the last axis, which is sorted, each value belongs: before those that are equal, or (`right`) after them; int32. Axes before the last are those of
    /// the values too, or there are none.
    #[pyo3(signature = (values, right=false))]
    fn searchsorted(&self, py: Python<'_>, values: Array, right: bool) -> PyResult<PyTensor> {
        made(py, || self.0.searchsorted(&values.0, right))
    }

    /// The `k` largest or smallest along an axis, best first, and where they stand (int32).
    #[pyo3(signature = (k, axis=-1, largest=true))]
    fn topk(&self, py: Python<'_>, k: i64, axis: i64, largest: bool) -> PyResult<(PyTensor, PyTensor)> {
        let (values, order) = asked(py, || self.0.topk(k, axis, largest))?;
        Ok((PyTensor(values), PyTensor(order)))
    }
}
