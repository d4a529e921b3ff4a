//! Arithmetic, functions, comparisons and activations, as rows of tables.

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpweft::tensor::Rounding;

use super::{PyTensor, made};
use crate::arguments::{Array, Given, Number};
use crate::dtype::Wanted;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            pub(super) fn $name(&self, py: Python<'_>) -> PyResult<PyTensor> {
                made(py, || self.0.$name())
            }
        )* }
    };
}

pub(super) use unary;

unary! {
    /// Absolute value.
    abs;
    /// -1, 0 or 1; 0 for NaN.
    sign;
    /// Whether the sign bit is set.
    signbit;
    /// x times x.
    square;
    /// 1 / x.
    reciprocal;
    /// Rounded toward zero.
    trunc;
    /// Rounded down.
    floor;
    /// Rounded up.
    ceil;
    /// Rounded to the nearest integer, ties to even.
    round;
    /// Whether NaN.
    isnan;
    /// Whether infinite.
    isinf;
    /// Whether neither infinite nor NaN.
    isfinite;
    /// Whether zero.
    logical_not;
    /// Minus this.
    negative;
    /// All bits flipped, or logical not.
    bitwise_not;
    /// e to the power x.
    exp;
    /// 2 to the power x.
    exp2;
    /// exp(x) - 1, exact near 0.
    expm1;
    /// Natural logarithm.
    log;
    /// Base-2 logarithm.
    log2;
    /// Base-10 logarithm.
    log10;
    /// log(1 + x), exact near 0.
    log1p;
    /// Square root.
    sqrt;
    /// 1 / sqrt(x).
    rsqrt;
    /// Sine.
    sin;
    /// Cosine.
    cos;
    /// Tangent.
    tan;
    /// Inverse sine.
    asin;
    /// Inverse cosine.
    acos;
    /// Inverse tangent.
    atan;
    /// Hyperbolic sine.
    sinh;
    /// Hyperbolic cosine.
    cosh;
    /// Hyperbolic tangent.
    tanh;
    /// Inverse hyperbolic sine.
    asinh;
    /// Inverse hyperbolic cosine.
    acosh;
    /// Inverse hyperbolic tangent.
    atanh;
    /// Error function.
    erf;
    /// The larger of x and 0.
    relu;
    /// x between 0 and 6.
    relu6;
    /// 1 / (1 + exp(-x)).
    sigmoid;
    /// log(sigmoid(x)).
    logsigmoid;
    /// x sigmoid(x).
    silu;
    /// x sigmoid(1.702 x).
    quick_gelu;
    /// log(1 + exp(x)).
    softplus;
    /// x tanh(softplus(x)).
    mish;
    /// x / (1 + |x|).
    softsign;
    /// (x + 3) / 6 between 0 and 1.
    hardsigmoid;
    /// x hardsigmoid(x).
    hardswish;
    /// Scaled exponential linear unit.
    selu;
    /// Stored in memory of its own, in row-major order.
    contiguous;
    /// The same values, through which no gradient flows.
    detach;
    /// Zeros in the shape and type of this.
    zeros_like;
    /// Ones in the shape and type of this.
    ones_like;
    /// The last two axes exchanged.
    t;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            pub(super) fn $name(&self, py: Python<'_>, other: Given) -> PyResult<PyTensor> {
                made(py, || self.0.$method(other.beside(&self.0)))
            }
        )* }
    };
}

binary! {
    /// Sum.
    add plus;
    /// Difference.
    subtract minus;
    /// Product.
    multiply times;
    /// Quotient, of integers as a float.
    divide over;
    /// Quotient rounded down.
    floor_divide floor_div;
    /// Remainder with the sign of the divisor.
    remainder modulo;
    /// Remainder with the sign of the dividend.
    fmod fmod;
    /// To the power of the other.
    pow pow;
    /// Angle of the point (other, self).
    atan2 atan2;
    /// The magnitude with the sign of the other.
    copysign copysign;
    /// log(exp(a) + exp(b)).
    logaddexp logaddexp;
    /// Whether both are not zero.
    logical_and logical_and;
    /// Whether one at least is not zero.
    logical_or logical_or;
    /// Whether exactly one is not zero.
    logical_xor logical_xor;
    /// Bitwise and.
    bitwise_and bitwise_and;
    /// Bitwise or.
    bitwise_or bitwise_or;
    /// Bitwise exclusive or.
    bitwise_xor bitwise_xor;
    /// Shifted left.
    left_shift lshift;
    /// Shifted right, with the sign if there is one.
    right_shift rshift;
    /// Whether equal.
    equal eq;
    /// Whether different.
    not_equal ne;
    /// Whether less.
    less lt;
    /// Whether less or equal.
    less_equal le;
    /// Whether greater.
    greater gt;
    /// Whether greater or equal.
    greater_equal ge;
    /// The larger; NaN if either is NaN.
    maximum maximum;
    /// The smaller; NaN if either is NaN.
    minimum minimum;
}

macro_rules! operators {
    ($($forward:ident $backward:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            fn $forward(&self, py: Python<'_>, other: Given) -> PyResult<PyTensor> {
                made(py, || self.0.$method(other.beside(&self.0)))
            }
            fn $backward(&self, py: Python<'_>, other: Given) -> PyResult<PyTensor> {
                made(py, || other.tensor(&self.0).$method(&self.0))
            }
        )* }
    };
}

operators! {
    __add__ __radd__ plus;
    __sub__ __rsub__ minus;
    __mul__ __rmul__ times;
    __truediv__ __rtruediv__ over;
    __floordiv__ __rfloordiv__ floor_div;
    __mod__ __rmod__ modulo;
    __and__ __rand__ bitwise_and;
    __or__ __ror__ bitwise_or;
    __xor__ __rxor__ bitwise_xor;
    __lshift__ __rlshift__ lshift;
    __rshift__ __rrshift__ rshift;
}

#[pymethods]
impl PyTensor {
    fn __pow__(&self, py: Python<'_>, other: Given, modulus: Option<Py<PyAny>>) -> PyResult<PyTensor> {
        no_modulus(modulus)?;
        made(py, || self.0.pow(other.beside(&self.0)))
    }

    fn __rpow__(&self, py: Python<'_>, other: Given, modulus: Option<Py<PyAny>>) -> PyResult<PyTensor> {
        no_modulus(modulus)?;
        made(py, || other.tensor(&self.0).pow(&self.0))
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.negative(py)
    }

    fn __pos__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        made(py, || self.0.clone())
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.abs(py)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        self.bitwise_not(py)
    }

    fn __richcmp__(&self, py: Python<'_>, other: Given, compare: CompareOp) -> PyResult<PyTensor> {
        match compare {
            CompareOp::Lt => self.less(py, other),
            CompareOp::Le => self.less_equal(py, other),
            CompareOp::Eq => self.equal(py, other),
            CompareOp::Ne => self.not_equal(py, other),
            CompareOp::Gt => self.greater(py, other),
            CompareOp::Ge => self.greater_equal(py, other),
        }
    }

    /// Quotient rounded to an integer: `rounding` is "floor" or "trunc".
    fn div_rounded(&self, py: Python<'_>, other: Given, rounding: &str) -> PyResult<PyTensor> {
        let rounding = match rounding {
            "floor" => Rounding::Floor,
            "trunc" => Rounding::Trunc,
            other => return Err(PyValueError::new_err(format!("rounding is \"floor\" or \"trunc\", not {other:?}"))),
        };
        made(py, || self.0.div_rounded(other.operand(), rounding))
    }

    /// This, with a value where the mask holds.
    fn masked_fill(&self, py: Python<'_>, mask: Array, value: Given) -> PyResult<PyTensor> {
        made(py, || self.0.masked_fill(&mask.0, value.operand()))
    }

    /// Between two numbers, either of which may be None.
    #[pyo3(signature = (min=None, max=None))]
    fn clip(&self, py: Python<'_>, min: Option<Number>, max: Option<Number>) -> PyResult<PyTensor> {
        made(py, || self.0.clamp(min.map(|number| number.0), max.map(|number| number.0)))
    }

    /// This plus `weight` times the distance to the other.
    fn lerp(&self, py: Python<'_>, other: Array, weight: Given) -> PyResult<PyTensor> {
        made(py, || self.0.lerp(&other.0, weight.operand()))
    }

    /// Whether |a - b| <= atol + rtol |b|.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn isclose(&self, py: Python<'_>, other: Given, rtol: f64, atol: f64, equal_nan: bool) -> PyResult<PyTensor> {
        made(py, || self.0.isclose(other.operand(), rtol, atol, equal_nan))
    }

    /// NaN and infinities replaced by numbers.
    #[pyo3(signature = (nan=0.0, posinf=None, neginf=None))]
    fn nan_to_num(&self, py: Python<'_>, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> PyResult<PyTensor> {
        made(py, || self.0.nan_to_num(nan, posinf, neginf))
    }

    /// The values in another type: wrapped, truncated, rounded, or compared with zero.
    fn astype(&self, py: Python<'_>, dtype: Wanted) -> PyResult<PyTensor> {
        made(py, || self.0.cast(dtype.0))
    }

    /// The same bits as another type of the same width.
    fn bitcast(&self, py: Python<'_>, dtype: Wanted) -> PyResult<PyTensor> {
        made(py, || self.0.bitcast(dtype.0))
    }

    /// x where positive, else slope x.
    #[pyo3(signature = (slope=0.01))]
    fn leaky_relu(&self, py: Python<'_>, slope: f64) -> PyResult<PyTensor> {
        made(py, || self.0.leaky_relu(slope))
    }

    /// x where positive, else alpha (exp(x) - 1).
    #[pyo3(signature = (alpha=1.0))]
    fn elu(&self, py: Python<'_>, alpha: f64) -> PyResult<PyTensor> {
        made(py, || self.0.elu(alpha))
    }

    /// x where positive, else alpha (exp(x / alpha) - 1).
    #[pyo3(signature = (alpha=1.0))]
    fn celu(&self, py: Python<'_>, alpha: f64) -> PyResult<PyTensor> {
        made(py, || self.0.celu(alpha))
    }

    /// x P(X <= x) for a standard normal X; `approximate` is "none" or "tanh".
    #[pyo3(signature = (approximate="none"))]
    fn gelu(&self, py: Python<'_>, approximate: &str) -> PyResult<PyTensor> {
        match approximate {
            "none" => made(py, || self.0.gelu()),
            "tanh" => made(py, || self.0.gelu_tanh()),
            other => Err(PyValueError::new_err(format!("approximate is \"none\" or \"tanh\", not {other:?}"))),
        }
    }

    /// x between two numbers.
    #[pyo3(signature = (min=-1.0, max=1.0))]
    fn hardtanh(&self, py: Python<'_>, min: f64, max: f64) -> PyResult<PyTensor> {
        made(py, || self.0.hardtanh(min, max))
    }

    /// One number in the shape and type of this.
    fn full_like(&self, py: Python<'_>, value: Number) -> PyResult<PyTensor> {
        made(py, || self.0.full_like(value.0))
    }
}

fn no_modulus(modulus: Option<Py<PyAny>>) -> PyResult<()> {
    match modulus {
        None => Ok(()),
        Some(_) => Err(PyValueError::new_err("powers of tensors take no modulus")),
    }
}
