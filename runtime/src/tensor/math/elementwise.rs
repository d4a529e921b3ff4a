//! Arithmetic, functions, comparisons and activations, element by element.
//!
//! Operands broadcast and are promoted; a number takes the tensor's type. What each function means is said in `compiler::ops`.

use warpweft_compiler::DType;
use warpweft_compiler::ir::Op;
use warpweft_compiler::ops::{activation, bits, elementwise as ops, math, power};

use crate::tensor::convert::{Given, Literal};
use crate::tensor::{Operand, Rounding, Tensor};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $function:path;)*) => {
        /// Functions of one tensor.
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                Tensor::compute(stringify!($name), [self], |[x]| Ok($function(x)))
            }
        )* }
    };
}

unary! {
    /// Absolute value.
    abs ops::abs;
    /// -1, 0 or 1; 0 for NaN.
    sign ops::sign;
    /// Whether the sign bit is set.
    signbit ops::signbit;
    /// x times x.
    square ops::square;
    /// 1 / x.
    reciprocal ops::reciprocal;
    /// Rounded toward zero.
    trunc ops::trunc;
    /// Rounded down.
    floor ops::floor;
    /// Rounded up.
    ceil ops::ceil;
    /// Rounded to the nearest integer, ties to even.
    round ops::round;
    /// Whether NaN.
    isnan ops::isnan;
    /// Whether infinite.
    isinf ops::isinf;
    /// Whether neither infinite nor NaN.
    isfinite ops::isfinite;
    /// Whether zero.
    logical_not ops::logical_not;
    /// e to the power x.
    exp math::exp;
    /// 2 to the power x.
    exp2 math::exp2;
    /// exp(x) - 1, exact near 0.
    expm1 math::expm1;
    /// Natural logarithm.
    log math::log;
    /// Base-2 logarithm.
    log2 math::log2;
    /// Base-10 logarithm.
    log10 math::log10;
    /// log(1 + x), exact near 0.
    log1p math::log1p;
    /// Square root.
    sqrt math::sqrt;
    /// 1 / sqrt(x).
    rsqrt math::rsqrt;
    /// Sine.
    sin math::sin;
    /// Cosine.
    cos math::cos;
    /// Tangent.
    tan math::tan;
    /// Inverse sine.
    asin math::asin;
    /// Inverse cosine.
    acos math::acos;
    /// Inverse tangent.
    atan math::atan;
    /// Hyperbolic sine.
    sinh math::sinh;
    /// Hyperbolic cosine.
    cosh math::cosh;
    /// Hyperbolic tangent.
    tanh math::tanh;
    /// Inverse hyperbolic sine.
    asinh math::asinh;
    /// Inverse hyperbolic cosine.
    acosh math::acosh;
    /// Inverse hyperbolic tangent.
    atanh math::atanh;
    /// Error function.
    erf math::erf;
    /// The larger of x and 0.
    relu activation::relu;
    /// x between 0 and 6.
    relu6 activation::relu6;
    /// 1 / (1 + exp(-x)).
    sigmoid activation::sigmoid;
    /// log(sigmoid(x)).
    logsigmoid activation::logsigmoid;
    /// x sigmoid(x).
    silu activation::silu;
    /// x sigmoid(1.702 x).
    quick_gelu activation::quick_gelu;
    /// log(1 + exp(x)).
    softplus activation::softplus;
    /// x tanh(softplus(x)).
    mish activation::mish;
    /// x / (1 + |x|).
    softsign activation::softsign;
    /// (x + 3) / 6 between 0 and 1.
    hardsigmoid activation::hardsigmoid;
    /// x hardsigmoid(x).
    hardswish activation::hardswish;
    /// Scaled exponential linear unit.
    selu activation::selu;
}

macro_rules! binary {
    ($beside:path; $($(#[$doc:meta])* $name:ident $text:literal $function:expr;)*) => {
        /// Functions of two tensors, or of a tensor and a number.
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                let other = $beside(other.given(), self);
                Tensor::compute($text, [self, &other], |[a, b]| $function(a, b))
            }
        )* }
    };
}

binary! {
    Given::beside;
    /// Sum; what `+` does.
    plus "add" ops::add;
    /// Difference; what `-` does.
    minus "sub" ops::sub;
    /// Product; what `*` does.
    times "mul" ops::mul;
    /// Quotient, of integers as a float; what `/` does.
    over "div" ops::div;
    /// Remainder with the sign of the divisor; what `%` does.
    modulo "mod" ops::modulo;
    /// Remainder with the sign of the dividend.
    fmod "fmod" ops::fmod;
    /// To the power of the other.
    pow "pow" power::pow;
    /// Angle of the point (other, self).
    atan2 "atan2" ops::atan2;
    /// The magnitude with the sign of the other.
    copysign "copysign" ops::copysign;
    /// log(exp(a) + exp(b)).
    logaddexp "logaddexp" activation::logaddexp;
    /// Whether both are not zero.
    logical_and "logical_and" ops::logical_and;
    /// Whether one at least is not zero.
    logical_or "logical_or" ops::logical_or;
    /// Whether exactly one is not zero.
    logical_xor "logical_xor" ops::logical_xor;
    /// Bitwise and; what `&` does.
    bitwise_and "bitwise_and" |a, b| ops::bitwise(Op::And, a, b);
    /// Bitwise or; what `|` does.
    bitwise_or "bitwise_or" |a, b| ops::bitwise(Op::Or, a, b);
    /// Bitwise exclusive or; what `^` does.
    bitwise_xor "bitwise_xor" |a, b| ops::bitwise(Op::Xor, a, b);
    /// Shifted left; what `<<` does.
    lshift "lshift" |a, b| ops::bitwise(Op::Shl, a, b);
    /// Shifted right, with the sign if there is one; what `>>` does.
    rshift "rshift" |a, b| ops::bitwise(Op::Shr, a, b);
}

binary! {
    Given::compared_with;
    /// Whether equal.
    eq "eq" ops::eq;
    /// Whether different.
    ne "ne" ops::ne;
    /// Whether less.
    lt "lt" ops::lt;
    /// Whether less or equal.
    le "le" ops::le;
    /// Whether greater.
    gt "gt" ops::gt;
    /// Whether greater or equal.
    ge "ge" ops::ge;
}

/// Functions with parameters.
impl Tensor {
    /// The larger; NaN if either is NaN. A number that the type does not hold counts by its value. -0.0 counts as less than 0.0.
    #[track_caller]
    pub fn maximum(&self, other: impl Operand) -> Tensor {
        match other.given() {
            Given::Number(number) if !number.fits(self) => self.bounded("maximum", Some(number), None),
            other => Tensor::compute("maximum", [self, &other.beside(self)], |[a, b]| ops::maximum(a, b)),
        }
    }

    /// The smaller; NaN if either is NaN. A number that the type does not hold counts by its value. -0.0 counts as less than 0.0.
    #[track_caller]
    pub fn minimum(&self, other: impl Operand) -> Tensor {
        match other.given() {
            Given::Number(number) if !number.fits(self) => self.bounded("minimum", None, Some(number)),
            other => Tensor::compute("minimum", [self, &other.beside(self)], |[a, b]| ops::minimum(a, b)),
        }
    }

    /// Minus this; what `-` does.
    #[track_caller]
    pub fn negative(&self) -> Tensor {
        Tensor::compute("neg", [self], |[x]| ops::neg(x))
    }

    /// All bits flipped, or logical not; what `!` does.
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        Tensor::compute("bitwise_not", [self], |[x]| ops::bitwise_not(x))
    }

    /// Quotient rounded to an integer; integers stay integers, and division by an integer zero gives 0.
    #[track_caller]
    pub fn div_rounded(&self, other: impl Operand, rounding: Rounding) -> Tensor {
        let other = other.beside(self);
        Tensor::compute("div", [self, &other], |[a, b]| ops::div_rounded(a, b, rounding))
    }

    /// Quotient rounded down.
    #[track_caller]
    pub fn floor_div(&self, other: impl Operand) -> Tensor {
        self.div_rounded(other, Rounding::Floor)
    }

    /// `a` where this holds, else `b`; a number takes the type of the other.
    #[track_caller]
    pub fn where_(&self, a: impl Operand, b: impl Operand) -> Tensor {
        let (a, b) = match (a.given(), b.given()) {
            (Given::Tensor(a), b) => (a.clone(), b.stored_among("where", &a)),
            (a, Given::Tensor(b)) => (a.stored_among("where", &b), b),
            (Given::Number(a), Given::Number(b)) => {
                (Tensor::from_uop(a.uop_beside(a.dtype())), Tensor::from_uop(b.uop_beside(b.dtype())))
            }
        };
        Tensor::compute("where", [self, &a, &b], |[c, a, b]| ops::where_(c, a, b))
    }

    /// This, with a value where the mask holds.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Operand) -> Tensor {
        let value = value.given().stored_among("masked_fill", self);
        Tensor::compute("masked_fill", [self, mask, &value], |[x, mask, value]| ops::masked_fill(x, mask, value))
    }

    /// Between two numbers, either of which may be absent. They count by their value, whatever the type holds. No gradient where x is
    /// at a bound or beyond.
    #[track_caller]
    pub fn clamp(&self, lowest: Option<Literal>, highest: Option<Literal>) -> Tensor {
        self.bounded("clamp", lowest, highest)
    }

    #[track_caller]
    fn bounded(&self, op: &'static str, lowest: Option<Literal>, highest: Option<Literal>) -> Tensor {
        Tensor::compute(op, [self], |[x]| ops::clamp(x, lowest.map(Literal::scalar), highest.map(Literal::scalar)))
    }

    /// Not below a number.
    #[track_caller]
    pub fn clamp_min(&self, lowest: impl Into<Literal>) -> Tensor {
        self.clamp(Some(lowest.into()), None)
    }

    /// Not above a number.
    #[track_caller]
    pub fn clamp_max(&self, highest: impl Into<Literal>) -> Tensor {
        self.clamp(None, Some(highest.into()))
    }

    /// This plus `weight` times the distance to the other.
    #[track_caller]
    pub fn lerp(&self, other: &Tensor, weight: impl Operand) -> Tensor {
        let weight = weight.beside(self);
        Tensor::compute("lerp", [self, other, &weight], |[a, b, w]| ops::lerp(a, b, w))
    }

    /// Whether |a - b| <= atol + rtol |b|.
    #[track_caller]
    pub fn isclose(&self, other: impl Operand, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
        let other = other.beside(self);
        Tensor::compute("isclose", [self, &other], |[a, b]| ops::isclose(a, b, rtol, atol, equal_nan))
    }

    /// NaN and infinities replaced by numbers.
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, highest: Option<f64>, lowest: Option<f64>) -> Tensor {
        Tensor::compute("nan_to_num", [self], |[x]| Ok(ops::nan_to_num(x, nan, highest, lowest)))
    }

    /// The values in another type: wrapped, truncated, rounded, or compared with zero.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        Tensor::compute("cast", [self], |[x]| {
            if DType::ALL.contains(&dtype) {
                return Ok(x.cast(dtype));
            }
            Err(warpweft_compiler::ops::OpError::new(format!("{dtype} is no type that elements in memory can have")))
        })
    }

    /// The same bits as another type of the same width.
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        Tensor::compute("bitcast", [self], |[x]| bits::bitcast(x, dtype))
    }

    /// Stored in memory of its own, in row-major order: what comes after cannot be computed together with what comes before.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        Tensor::compute("contiguous", [self], |[x]| Ok(x.contiguous()))
    }

    /// The same values, through which no gradient flows.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        Tensor::compute("detach", [self], |[x]| Ok(x.detach()))
    }

    /// x where positive, else slope x.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        Tensor::compute("leaky_relu", [self], |[x]| Ok(activation::leaky_relu(x, slope)))
    }

    /// x where positive, else alpha (exp(x) - 1).
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        Tensor::compute("elu", [self], |[x]| Ok(activation::elu(x, alpha)))
    }

    /// x where positive, else alpha (exp(x / alpha) - 1).
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        Tensor::compute("celu", [self], |[x]| Ok(activation::celu(x, alpha)))
    }

    /// x P(X <= x) for a standard normal X.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        Tensor::compute("gelu", [self], |[x]| Ok(activation::gelu(x, false)))
    }

    /// [`Tensor::gelu`], approximated by tanh.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        Tensor::compute("gelu", [self], |[x]| Ok(activation::gelu(x, true)))
    }

    /// x between two numbers.
    #[track_caller]
    pub fn hardtanh(&self, lowest: f64, highest: f64) -> Tensor {
        Tensor::compute("hardtanh", [self], |[x]| Ok(activation::hardtanh(x, lowest, highest)))
    }
}
