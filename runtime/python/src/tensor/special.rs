//! Special functions, as rows of tables.

use pyo3::prelude::*;

use super::elementwise::unary;
use super::{PyTensor, made};
use crate::arguments::Array;

unary! {
    /// log |gamma(x)|.
    lgamma;
    /// The derivative of log gamma(x).
    digamma;
    /// x of which erf is this.
    erfinv;
    /// 1 - erf(x), exact for large x.
    erfc;
    /// exp(x^2) erfc(x).
    erfcx;
    /// The share of a normal distribution below x.
    ndtr;
    /// Below which x that share of a normal distribution is.
    ndtri;
    /// The logarithm of ndtr, exact where that is near 0.
    log_ndtr;
    /// -x log(x); 0 at 0 and minus infinity below.
    entr;
    /// sin(pi x) / (pi x); 1 at 0.
    sinc;
    /// Modified Bessel function of the first kind, of order 0.
    i0;
    /// exp(-|x|) i0(x).
    i0e;
    /// Modified Bessel function of the first kind, of order 1.
    i1;
    /// exp(-|x|) i1(x).
    i1e;
    /// Bessel function of the first kind, of order 0.
    bessel_j0;
    /// Bessel function of the first kind, of order 1.
    bessel_j1;
    /// Bessel function of the second kind, of order 0; NaN below 0.
    bessel_y0;
    /// Bessel function of the second kind, of order 1; NaN below 0.
    bessel_y1;
    /// Modified Bessel function of the second kind, of order 0; NaN below 0.
    bessel_k0;
    /// Modified Bessel function of the second kind, of order 1; NaN below 0.
    bessel_k1;
    /// exp(x) bessel_k0(x).
    bessel_k0e;
    /// exp(x) bessel_k1(x).
    bessel_k1e;
}

#[pymethods]
impl PyTensor {
    /// The n-th derivative of digamma.
    fn polygamma(&self, py: Python<'_>, n: u32) -> PyResult<PyTensor> {
        made(py, || self.0.polygamma(n))
    }

    /// The sum of (other + k)^-x over k from 0, Hurwitz' zeta function; infinity at 1 and NaN below.
    fn zeta(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.zeta(&other.0))
    }

    /// The share of the integral of t^(a - 1) exp(-t) that lies below `other`, of this as a.
    fn igamma(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.igamma(&other.0))
    }

    /// The share of that integral that lies above `other`.
    fn igammac(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.igammac(&other.0))
    }
}
