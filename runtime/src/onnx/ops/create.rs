//! Ops that make tensors: constants, ranges, shapes, random numbers, windows.

use super::super::call::{Call, Done, one, one_of};
use super::super::error::{Failure, wrong};
use super::super::evaluate::value_of;
use super::super::graph::{Attribute, Data};
use super::super::value::constant;
use super::Op;
use crate::DType;
use crate::tensor::{Literal, Tensor};
use std::sync::Arc;
use warpweft_compiler::dtype::{Elements, Scalar};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("Bernoulli", bernoulli),
    ("Constant", constant_node),
    ("ConstantOfShape", constant_of_shape),
    ("EyeLike", eye_like),
    ("Multinomial", multinomial),
    ("RandomNormal", |call| random(call, None)),
    ("RandomNormalLike", |call| random(call, Some(0))),
    ("RandomUniform", |call| random(call, None)),
    ("RandomUniformLike", |call| random(call, Some(0))),
    ("Range", range),
    ("Shape", shape),
    ("Size", |call| one(Tensor::from_dim(call.tensor(0)?.dims()?.numel()))),
];

fn constant_node(call: &Call<'_>) -> Done {
    let texts = |texts: &[Vec<u8>], shape: Vec<usize>| {
        let texts = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        Ok(vec![super::super::value::Value::Text(shape, Arc::new(texts))])
    };
    for name in ["value", "sparse_value"] {
        match call.attribute(name)? {
            None => {}
            Some(Attribute::Constant(data) | Attribute::Sparse(data)) => return Ok(vec![value_of(data)?]),
            Some(_) => wrong!("attribute '{name}' is no tensor, and must be one"),
        }
    }
    match (call.attribute("value_string")?, call.attribute("value_strings")?) {
        (Some(Attribute::Text(text)), _) => return texts(std::slice::from_ref(text), Vec::new()),
        (_, Some(Attribute::Texts(list))) => return texts(list, vec![list.len()]),
        _ => {}
    }
    if let Some(value) = call.float_attribute("value_float")? {
        return one(Tensor::full_of([0i64; 0], value, DType::F32));
    }
    if let Some(value) = call.int("value_int")? {
        return one(Tensor::full_of([0i64; 0], value, DType::I64));
    }
    if let Some(values) = call.float_list("value_floats")? {
        return one(Tensor::from_slice(values, [values.len()]));
    }
    match call.ints("value_ints")? {
        Some(values) => one(Tensor::from_slice(values, [values.len()])),
        None => wrong!("there is no attribute with a value: 'value', 'value_int', 'value_floats' and so on"),
    }
}

/// Lengths of a tensor to be made.
fn lengths_of(wanted: Vec<i64>) -> Result<Vec<usize>, Failure> {
    match wanted.iter().map(|&length| usize::try_from(length).ok()).collect() {
        Some(lengths) => Ok(lengths),
        None => wrong!("there is no tensor of shape {wanted:?}: lengths must be 0 or more"),
    }
}

fn constant_of_shape(call: &Call<'_>) -> Done {
    let lengths = call.dims(0)?;
    if lengths.iter().any(|length| length.max_value() < 0) {
        wrong!("there is no tensor of shape {lengths:?}: lengths must be 0 or more");
    }
    let Some(attribute) = call.attribute("value")? else { return one(Tensor::zeros(lengths)) };
    let (Attribute::Constant(data), Some(dtype)) = (attribute, data_type(attribute)) else {
        wrong!("attribute 'value' must be a tensor of one number");
    };
    let number = match &data.data {
        Data::Known(elements) if elements.len() == 1 => elements.clone(),
        _ => wrong!("attribute 'value' has shape {:?}, and must have one element", data.shape),
    };
    one_of(constant(dtype, &[1], &number).reshape(vec![1i64; lengths.len()]).expand(lengths), data.element)
}

fn data_type(attribute: &Attribute) -> Option<DType> {
    if let Attribute::Constant(data) = attribute { data.element.dtype() } else { None }
}

fn eye_like(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let dtype = call.dtype_or("dtype", x.dtype()?)?;
    let [rows, columns] = call.lengths(0)?[..] else { wrong!("the input has {} axes, and must have 2", x.rank()?) };
    let offset = call.int_or("k", 0)?;
    let [row, column] =
        [(rows, [rows, 1]), (columns, [1, columns])].map(|(count, shape)| Tensor::iota(count).reshape(shape));
    one((column - row).eq(offset).cast(dtype))
}

fn range(call: &Call<'_>) -> Done {
    let dtype = call.tensor(0)?.dtype()?;
    let literal = |number: usize| -> Result<Literal, Failure> {
        Ok(if dtype.is_float() { Literal::Float(call.float(number)?) } else { Literal::Int(call.integer(number)?) })
    };
    one(Tensor::arange_of(literal(0)?, literal(1)?, literal(2)?, dtype))
}

fn shape(call: &Call<'_>) -> Done {
    use super::super::value::Value;
    let lengths: Vec<i64> = match call.value(0)? {
        Value::Text(lengths, _) => lengths.iter().map(|&length| length as i64).collect(),
        _ => match call.tensor(0)?.dims()?.as_const() {
            Some(lengths) => lengths,
            None => return variable_shape(call),
        },
    };
    let rank = lengths.len() as i64;
    let bound = |name: &str, default: i64| -> Result<usize, Failure> {
        let at = call.int_or(name, default)?;
        Ok(if at < 0 { at + rank } else { at }.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let part = lengths.get(start..end).unwrap_or(&[]);
    one(Tensor::from_slice(part, [part.len()]))
}

/// The shape of a tensor whose lengths are variables in part: they are known when the program is called.
fn variable_shape(call: &Call<'_>) -> Done {
    let Some(dims) = super::super::lengths::followed(call) else { wrong!("its shape has no such part") };
    if dims.is_empty() {
        return one(Tensor::zeros_of([0i64], DType::I64));
    }
    let lengths: Vec<Tensor> = dims.into_iter().map(Tensor::from_dim).collect();
    one(Tensor::stack(&lengths.iter().collect::<Vec<_>>(), 0))
}

/// Random numbers, in the shape of an input or of an attribute. They are the library's own, whatever the seed.
fn random(call: &Call<'_>, like: Option<usize>) -> Done {
    let (lengths, default) = match like {
        Some(number) => (call.lengths(number)?, call.tensor(number)?.dtype()?),
        None => match call.ints("shape")? {
            Some(shape) => (shape.to_vec(), DType::F32),
            None => wrong!("attribute 'shape' is missing: it must be a list of lengths"),
        },
    };
    let (lengths, dtype) = (lengths_of(lengths)?, call.dtype_or("dtype", default)?);
    let numbers = if call.node.op.contains("Normal") {
        Tensor::randn(lengths) * call.float_or("scale", 1.0)? + call.float_or("mean", 0.0)?
    } else {
        Tensor::uniform(call.float_or("low", 0.0)?, call.float_or("high", 1.0)?, lengths)
    };
    one(numbers.cast(dtype))
}

fn bernoulli(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let dtype = call.dtype_or("dtype", x.dtype()?)?;
    one(Tensor::rand(x.dims()?).lt(x.cast(DType::F32)).cast(dtype))
}

/// Classes drawn by their log-probabilities: the largest of each plus Gumbel noise.
fn multinomial(call: &Call<'_>) -> Done {
    let [rows, classes] = call.lengths(0)?[..] else { wrong!("the input must have axes [batch, classes]") };
    let draws = call.int_or("sample_size", 1)?;
    let noise = -(-(Tensor::rand([rows, draws, classes]) + 1e-20).log()).log();
    let scores = call.tensor(0)?.cast(DType::F32).unsqueeze(1) + noise;
    one(scores.argmax(Some(2), false).cast(call.dtype_or("dtype", DType::I32)?))
}

/// Numbers of a host as a tensor of a type.
pub(super) fn numbers(values: &[f64], shape: &[usize], dtype: DType) -> Tensor {
    let scalars: Vec<Scalar> = values.iter().map(|&value| Scalar::from_f64(value, dtype)).collect();
    match Elements::from_scalars(dtype, &scalars) {
        Some(elements) => constant(dtype, shape, &elements),
        None => Tensor::zeros([0usize]),
    }
}
