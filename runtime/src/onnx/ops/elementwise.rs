//! Ops element by element: functions, arithmetic, comparisons, activations, casts.

use super::super::call::{Call, Done, one, one_of, product};
use super::super::element::ElementType;
use super::super::error::{Failure, unsupported, wrong};
use super::super::value::Value;
use super::Op;
use crate::DType;
use crate::tensor::{PowerRounding, Rounding, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("Abs", |call| one(call.tensor(0)?.abs())),
    ("Acos", |call| one(call.tensor(0)?.acos())),
    ("Acosh", |call| one(call.tensor(0)?.acosh())),
    ("Asin", |call| one(call.tensor(0)?.asin())),
    ("Asinh", |call| one(call.tensor(0)?.asinh())),
    ("Atan", |call| one(call.tensor(0)?.atan())),
    ("Atanh", |call| one(call.tensor(0)?.atanh())),
    ("BitwiseNot", |call| one(call.tensor(0)?.bitwise_not())),
    ("Ceil", |call| one(call.tensor(0)?.ceil())),
    ("Cos", |call| one(call.tensor(0)?.cos())),
    ("Cosh", |call| one(call.tensor(0)?.cosh())),
    ("Erf", |call| one(call.tensor(0)?.erf())),
    ("Exp", |call| one(call.tensor(0)?.exp())),
    ("Floor", |call| one(call.tensor(0)?.floor())),
    ("HardSwish", |call| one(call.tensor(0)?.hardswish())),
    ("IsNaN", |call| one(call.tensor(0)?.isnan())),
    ("Log", |call| one(call.tensor(0)?.log())),
    ("Mish", |call| one(call.tensor(0)?.mish())),
    ("Neg", |call| one(call.tensor(0)?.negative())),
    ("Not", |call| one(call.tensor(0)?.logical_not())),
    ("Reciprocal", |call| one(call.tensor(0)?.reciprocal())),
    ("Relu", |call| one(call.tensor(0)?.relu())),
    ("Round", |call| one(call.tensor(0)?.round())),
    ("Sigmoid", |call| one(call.tensor(0)?.sigmoid())),
    ("Sign", |call| one(call.tensor(0)?.sign())),
    ("Sin", |call| one(call.tensor(0)?.sin())),
    ("Sinh", |call| one(call.tensor(0)?.sinh())),
    ("Softplus", |call| one(call.tensor(0)?.softplus())),
    ("Softsign", |call| one(call.tensor(0)?.softsign())),
    ("Sqrt", |call| one(call.tensor(0)?.sqrt())),
    ("Tan", |call| one(call.tensor(0)?.tan())),
    ("Tanh", |call| one(call.tensor(0)?.tanh())),
    ("Celu", |call| one(call.tensor(0)?.celu(call.float_or("alpha", 1.0)?))),
    ("Elu", |call| one(call.tensor(0)?.elu(call.float_or("alpha", 1.0)?))),
    ("LeakyRelu", |call| one(call.tensor(0)?.leaky_relu(call.float_or("alpha", 0.01)?))),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("IsInf", is_inf),
    ("PRelu", p_relu),
    ("Selu", selu),
    ("Shrink", shrink),
    ("SwiGLU", |call| one(swish(call)? * call.tensor(1)?)),
    ("Swish", |call| one(swish(call)?)),
    ("ThresholdedRelu", |call| one(call.tensor(0)?.gt(call.float_or("alpha", 1.0)?).where_(call.tensor(0)?, 0.0))),
    ("Clip", clip),
    ("Hardmax", hardmax),
    ("LogSoftmax", |call| softmax(call, |x, axis| x.log_softmax(axis))),
    ("Softmax", |call| softmax(call, |x, axis| x.softmax(axis))),
    ("Add", |call| legacy(call, |a, b| a + b)),
    ("Sub", |call| legacy(call, |a, b| a - b)),
    ("Mul", |call| legacy(call, |a, b| a * b)),
    ("Div", |call| legacy(call, quotient)),
    ("Pow", pow),
    ("Mod", modulo),
    ("And", |call| legacy(call, |a, b| a.logical_and(b))),
    ("Or", |call| legacy(call, |a, b| a.logical_or(b))),
    ("Xor", |call| legacy(call, |a, b| a.logical_xor(b))),
    ("BitShift", bit_shift),
    ("BitwiseAnd", |call| one(call.tensor(0)? & call.tensor(1)?)),
    ("BitwiseOr", |call| one(call.tensor(0)? | call.tensor(1)?)),
    ("BitwiseXor", |call| one(call.tensor(0)? ^ call.tensor(1)?)),
    ("Equal", equal),
    ("Greater", |call| legacy(call, |a, b| a.gt(b))),
    ("GreaterOrEqual", |call| one(call.tensor(0)?.ge(call.tensor(1)?))),
    ("Less", |call| legacy(call, |a, b| a.lt(b))),
    ("LessOrEqual", |call| one(call.tensor(0)?.le(call.tensor(1)?))),
    ("Max", |call| joined(call, |a, b| a.maximum(b))),
    ("Min", |call| joined(call, |a, b| a.minimum(b))),
    ("Sum", |call| joined(call, |a, b| a + b)),
    ("Mean", mean),
    ("Where", |call| call.like(1, call.tensor(0)?.where_(call.tensor(1)?, call.tensor(2)?))),
    ("Cast", cast),
    ("CastLike", cast),
    ("BitCast", bit_cast),
];

/// A function of two tensors. Before version 7 the second was broadcast from an axis on, or to the last axes.
fn legacy(call: &Call<'_>, function: impl Fn(&Tensor, &Tensor) -> Tensor) -> Done {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if let Some(axis) = call.int("axis")?.filter(|_| call.version < 7) {
        let axis = super::super::call::resolve(axis, a.rank()?.max(1))?;
        let mut lengths = b.shape()?;
        lengths.resize((a.rank()? - axis).max(lengths.len()), 1);
        return one(function(a, &b.reshape(lengths)));
    }
    one(function(a, b))
}

/// A function of two tensors over all inputs.
fn joined(call: &Call<'_>, function: impl Fn(&Tensor, &Tensor) -> Tensor) -> Done {
    let tensors = call.tensors()?;
    match tensors.split_first() {
        Some((first, rest)) => one(rest.iter().fold((*first).clone(), |all, next| function(&all, next))),
        None => wrong!("there are no inputs, and at least one must be given"),
    }
}

fn mean(call: &Call<'_>) -> Done {
    let count = call.inputs.len();
    let sum = joined(call, |a, b| a + b)?;
    match sum.first() {
        Some(Value::Tensor(sum)) => one(&sum.tensor / count as f64),
        _ => Ok(sum),
    }
}

/// Integers divide toward zero.
pub(super) fn quotient(a: &Tensor, b: &Tensor) -> Tensor {
    let is_integer = a.dtype().is_ok_and(|dtype| dtype.is_integer());
    if is_integer { a.div_rounded(b, Rounding::Trunc) } else { a / b }
}

fn gelu(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    match &*call.text_or("approximate", "none")? {
        "none" => one(x.gelu()),
        "tanh" => one(x.gelu_tanh()),
        other => wrong!("attribute 'approximate' is '{other}', and must be 'none' or 'tanh'"),
    }
}

fn hard_sigmoid(call: &Call<'_>) -> Done {
    let (alpha, beta) = (call.float_or("alpha", 0.2)?, call.float_or("beta", 0.5)?);
    one((call.tensor(0)? * alpha + beta).clamp(Some(0.0.into()), Some(1.0.into())))
}

fn is_inf(call: &Call<'_>) -> Done {
    let (negative, positive) = (call.int_or("detect_negative", 1)? != 0, call.int_or("detect_positive", 1)? != 0);
    let (x, infinite) = (call.tensor(0)?, call.tensor(0)?.isinf());
    one(match (negative, positive) {
        (true, true) => infinite,
        (true, false) => infinite.logical_and(x.lt(0.0)),
        (false, true) => infinite.logical_and(x.gt(0.0)),
        (false, false) => Tensor::full_of(x.dims()?, false, DType::BOOL),
    })
}

fn selu(call: &Call<'_>) -> Done {
    let alpha = call.float_or("alpha", 1.673_263_192_176_818_8)?;
    let gamma = call.float_or("gamma", 1.050_701_022_148_132_3)?;
    one(call.tensor(0)?.elu(alpha) * gamma)
}

fn shrink(call: &Call<'_>) -> Done {
    let (x, bias, limit) = (call.tensor(0)?, call.float_or("bias", 0.0)?, call.float_or("lambd", 0.5)?);
    let dtype = x.dtype()?;
    let wide = x.cast(if dtype.is_float() { dtype } else { DType::F32 });
    one(wide.lt(-limit).where_(&wide + bias, wide.gt(limit).where_(&wide - bias, wide.zeros_like())).cast(dtype))
}

fn swish(call: &Call<'_>) -> Result<Tensor, Failure> {
    let (x, alpha) = (call.tensor(0)?, call.float_or("alpha", 1.0)?);
    Ok(x * (x * alpha).sigmoid())
}

fn clip(call: &Call<'_>) -> Done {
    let mut x = call.tensor(0)?.clone();
    let bound = |number: usize, name: &str| -> Result<Option<Tensor>, Failure> {
        match (call.optional(number)?, call.float_attribute(name)?) {
            (Some(bound), _) => Ok(Some(bound.clone())),
            (None, Some(bound)) => Ok(Some(Tensor::full_of([0i64; 0], bound, x.dtype()?))),
            (None, None) => Ok(None),
        }
    };
    let (lowest, highest) = (bound(1, "min")?, bound(2, "max")?);
    if let Some(lowest) = lowest {
        x = x.maximum(&lowest);
    }
    if let Some(highest) = highest {
        x = x.minimum(&highest);
    }
    one(x)
}

/// The axis of a softmax: before version 13 all axes from it on are one.
fn softmax(call: &Call<'_>, function: impl Fn(&Tensor, i64) -> Tensor) -> Done {
    let x = call.tensor(0)?;
    if call.version >= 13 {
        return one(function(x, call.int_or("axis", -1)?));
    }
    let lengths = call.lengths(0)?;
    let axis = call.int_or("axis", 1)?;
    let axis =
        if axis == lengths.len() as i64 { lengths.len() } else { super::super::call::resolve(axis, lengths.len())? };
    let rows = product(&lengths[..axis]);
    let columns = product(&lengths[axis..]);
    one(function(&x.reshape([rows, columns]), 1).reshape(lengths))
}

/// 1 where the first largest stands.
fn hardmax(call: &Call<'_>) -> Done {
    let dtype = call.tensor(0)?.dtype()?;
    call.lengths(0)?;
    softmax(call, |x, axis| {
        let index = x.argmax(Some(axis), true);
        let (Ok(shape), Ok(_)) = (x.shape(), index.dtype()) else { return index };
        let from_start = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let length = |at: usize| if at as i64 == from_start { shape[at] } else { 1 };
        let line: Vec<usize> = (0..shape.len()).map(length).collect();
        index.eq(Tensor::iota(line.iter().product::<usize>()).reshape(line)).cast(dtype)
    })
}

/// Of the type of the base, whatever the exponent is of.
fn pow(call: &Call<'_>) -> Done {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let (base, exponent) = (a.dtype()?, b.dtype()?);
    let b = if base.is_float() || exponent.is_float() { b.clone() } else { b.cast(base) };
    one(a.pow(b).cast(base))
}

fn p_relu(call: &Call<'_>) -> Done {
    let (x, slope) = (call.tensor(0)?, call.tensor(1)?);
    // Before version 7 a list of slopes belongs to the channels.
    let slope = if call.version < 7 && slope.rank()? == 1 && x.rank()? > 1 {
        let mut line = vec![1usize; x.rank()? - 1];
        line[0] = slope.numel()?;
        slope.reshape(line)
    } else {
        slope.clone()
    };
    one(x.lt(0).where_(x * slope, x))
}

/// The remainder with the sign of the divisor, that of a zero too; or as of C.
fn modulo(call: &Call<'_>) -> Done {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if call.flag("fmod")? {
        return one(a.fmod(b));
    }
    let rest = a % b;
    one(if a.dtype()?.is_float() { rest.eq(0.0).where_(rest.copysign(b), &rest) } else { rest })
}

fn bit_shift(call: &Call<'_>) -> Done {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    match call.text("direction")?.as_deref() {
        Some("LEFT") => one(a << b),
        Some("RIGHT") => one(a >> b),
        other => wrong!("attribute 'direction' is {other:?}, and must be 'LEFT' or 'RIGHT'"),
    }
}

fn equal(call: &Call<'_>) -> Done {
    if let (Value::Text(..), Value::Text(..)) = (call.value(0)?, call.value(1)?) {
        let (shape, same) = super::text::paired(call, |a, b| a == b)?;
        return one(Tensor::from_vec(same, shape));
    }
    legacy(call, |a, b| a.eq(b))
}

/// The type that an op casts to: an attribute, or that of the second input.
fn cast(call: &Call<'_>) -> Done {
    let to = match call.node.op.as_str() {
        "CastLike" => match call.value(1)? {
            Value::Text(..) => ElementType::Text,
            _ => call.array(1)?.element,
        },
        _ => match call.element("to")? {
            Some(to) => to,
            None => wrong!("attribute 'to' is missing: it must be the number of a type"),
        },
    };
    if let (Value::Text(shape, texts), Some(dtype)) = (call.value(0)?, to.dtype()) {
        let number = |text: &String| match text.trim().parse::<f64>() {
            Ok(number) => Ok(number),
            Err(_) => wrong!("the text {text:?} is no number"),
        };
        let numbers = texts.iter().map(number).collect::<Result<Vec<f64>, Failure>>()?;
        return one_of(Tensor::from_vec(numbers, shape.clone()).cast(dtype), to);
    }
    let saturate = call.int_or("saturate", 1)? != 0;
    let rounding = match &*call.text_or("round_mode", "up")? {
        "up" => PowerRounding::Up,
        "down" => PowerRounding::Down,
        "nearest" => PowerRounding::Nearest,
        other => wrong!("attribute 'round_mode' is '{other}', and must be 'up', 'down' or 'nearest'"),
    };
    let from = call.array(0)?;
    one_of(converted(&from.tensor, from.element, to, saturate, rounding)?, to)
}

/// Elements of one type as those of another.
pub(super) fn converted(
    x: &Tensor,
    from: ElementType,
    to: ElementType,
    saturate: bool,
    rounding: PowerRounding,
) -> Result<Tensor, Failure> {
    if from == to {
        return Ok(x.clone());
    }
    Ok(match to {
        ElementType::Plain(dtype) => x.cast(dtype),
        ElementType::Small(crate::tensor::SmallFloat::E8M0FNU) => x.round_to_power(rounding, saturate),
        ElementType::Small(float) => x.round_to_small(float, saturate),
        // Floats lose what is after the point, and integers all but their low bits.
        ElementType::Signed(bits) => {
            let up = 32 - i64::from(bits);
            x.cast(DType::I32).lshift(up).rshift(up).cast(DType::I8)
        }
        ElementType::Unsigned(bits) => x.cast(DType::I32).bitwise_and((1i64 << bits) - 1).cast(DType::U8),
        ElementType::Text => unsupported!("numbers as text"),
    })
}

fn bit_cast(call: &Call<'_>) -> Done {
    let from = call.array(0)?;
    let Some(to) = call.element("to")? else { wrong!("attribute 'to' is missing: it must be the number of a type") };
    if from.element.bits() != to.bits() {
        wrong!("{} has other bits than {to}: both must have as many", from.element);
    }
    match (from.element, to) {
        (ElementType::Plain(DType::BOOL), ElementType::Plain(dtype)) => one(from.tensor.cast(DType::U8).bitcast(dtype)),
        (ElementType::Plain(_), ElementType::Plain(DType::BOOL)) => one(from.tensor.cast(DType::BOOL)),
        (ElementType::Plain(_), ElementType::Plain(dtype)) => one(from.tensor.bitcast(dtype)),
        (ElementType::Signed(bits), ElementType::Unsigned(_)) => {
            one_of(from.tensor.cast(DType::U8).bitwise_and((1i64 << bits) - 1), to)
        }
        (ElementType::Unsigned(bits), ElementType::Signed(_)) => {
            let up = 8 - i64::from(bits);
            one_of(from.tensor.lshift(up).bitcast(DType::I8).rshift(up), to)
        }
        (a, b) if a == b => one_of(from.tensor.clone(), to),
        (a, b) => unsupported!("the bits of {a} as {b}"),
    }
}
