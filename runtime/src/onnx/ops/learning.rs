//! What prepares features and maps labels (the domain `ai.onnx.ml`): encoders, scalers, linear models.
//!
//! Labels are looked up among keys: of text on the host, where it lies, of numbers by comparing with all keys at once.
//!
//! Tested by the cases of the package, and by tests/it/onnx.rs, with values of onnxruntime.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::call::{Call, Done, lengths_from, one};
use super::super::error::{Failure, wrong};
use super::super::evaluate::value_of;
use super::super::graph::Attribute;
use super::super::value::{self, Array, Value};
use super::Op;
use super::trees::transformed;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const ML: &[(&str, Op)] = &[
    ("FeatureVectorizer", vectorize),
    ("Imputer", impute),
    ("LabelEncoder", encode),
    ("LinearRegressor", regress),
    ("Normalizer", normalize),
    ("OneHotEncoder", one_hot),
    ("Scaler", scale),
];

/// A list that stands in one of several attributes by the type of its elements.
fn list(call: &Call<'_>, name: &str) -> Result<Option<Value>, Failure> {
    let of = |suffix: &str| format!("{name}_{suffix}");
    if let Some(texts) = call.texts(&of("strings"))?.filter(|texts| !texts.is_empty()) {
        return Ok(Some(Value::Text(vec![texts.len()], Arc::new(texts))));
    }
    let numbers = match (call.ints(&of("int64s"))?, call.float_list(&of("floats"))?) {
        (Some(list), _) if !list.is_empty() => Tensor::from_vec(list.to_vec(), [list.len()]),
        (_, Some(list)) if !list.is_empty() => Tensor::from_vec(list.to_vec(), [list.len()]),
        _ => match call.attribute(&of("tensor"))? {
            Some(Attribute::Constant(data)) => return Ok(Some(value_of(data)?)),
            _ => return Ok(None),
        },
    };
    Ok(Some(Value::Tensor(Array::new(numbers)?)))
}

/// Where elements of input 0 stand among keys, the last of equal ones; -1 where they are none of them.
enum Indices {
    Known(Vec<usize>, Vec<i64>),
    Computed(Tensor),
}

impl Indices {
    fn of(call: &Call<'_>, keys: &Value) -> Result<Indices, Failure> {
        match (call.value(0)?, keys) {
            (Value::Text(shape, texts), Value::Text(_, keys)) => {
                let indices: FxHashMap<&str, i64> =
                    keys.iter().enumerate().map(|(at, key)| (key.as_str(), at as i64)).collect();
                let found = texts.iter().map(|text| indices.get(text.as_str()).copied().unwrap_or(-1));
                Ok(Indices::Known(shape.clone(), found.collect()))
            }
            (Value::Tensor(x), Value::Tensor(keys)) => {
                let (x, keys) = (x.tensor.unsqueeze(-1), keys.tensor.reshape([-1]));
                let mut same = x.eq(keys.cast(x.dtype()?));
                // Since version 4 NaN is a key like others.
                if x.dtype()?.is_float() && call.version >= 4 {
                    same = same.logical_or(x.isnan().logical_and(keys.isnan()));
                }
                let count = keys.numel()? as i64;
                Ok(Indices::Computed(same.where_(Tensor::iota(count), -1).max(-1)))
            }
            (x, keys) => wrong!("input 0 is {}, and the keys are {}", x.description(), keys.description()),
        }
    }

    fn tensor(&self) -> Tensor {
        match self {
            Indices::Known(shape, indices) => Tensor::from_vec(indices.clone(), shape.clone()),
            Indices::Computed(indices) => indices.clone(),
        }
    }

    /// On the host, if they can be known there.
    fn known(&self, call: &Call<'_>) -> Result<(Vec<usize>, Vec<i64>), Failure> {
        match self {
            Indices::Known(shape, indices) => Ok((shape.clone(), indices.clone())),
            Indices::Computed(indices) => {
                let elements = call.evaluation.elements(&Array::new(indices.clone())?.folded())?;
                Ok((indices.shape()?, value::integers(&elements)?))
            }
        }
    }
}

fn encode(call: &Call<'_>) -> Done {
    let (Some(keys), Some(values)) = (list(call, "keys")?, list(call, "values")?) else {
        wrong!("there must be keys and values, in attributes such as 'keys_int64s' and 'values_strings'");
    };
    let indices = Indices::of(call, &keys)?;
    match values {
        Value::Text(_, values) => {
            let default = call.text_or("default_string", "_Unused")?;
            let (shape, indices) = indices.known(call)?;
            let label = |index: &i64| usize::try_from(*index).ok().and_then(|index| values.get(index));
            let found = indices.iter().map(|index| label(index).cloned().unwrap_or_else(|| default.to_string()));
            Ok(vec![Value::Text(shape, Arc::new(found.collect()))])
        }
        Value::Tensor(values) => {
            let dtype = values.tensor.dtype()?;
            let default = match call.attribute("default_tensor")? {
                Some(Attribute::Constant(data)) => match value_of(data)? {
                    Value::Tensor(array) => array.tensor.reshape([-1]).narrow(0, 0, 1).squeeze(0),
                    other => wrong!("attribute 'default_tensor' is {}, and must be a number", other.description()),
                },
                _ if dtype.is_float() => {
                    Tensor::full_of(Vec::<i64>::new(), call.float_or("default_float", -0.0)?, dtype)
                }
                _ => Tensor::full_of(Vec::<i64>::new(), call.int("default_int64")?.unwrap_or(-1), dtype),
            };
            let (values, indices) = (values.tensor.reshape([-1]), indices.tensor());
            let found = values.index(&[0], &[&indices.maximum(0)]);
            one(indices.ge(0).where_(found, default.cast(dtype)))
        }
        other => wrong!("the values are {}, and must be a list", other.description()),
    }
}

/// 1 at the index of each category along a new last axis.
fn one_hot(call: &Call<'_>) -> Done {
    let Some(categories) = list(call, "cats")? else { wrong!("there must be 'cats_int64s' or 'cats_strings'") };
    let count = match &categories {
        Value::Text(_, texts) => texts.len(),
        Value::Tensor(array) => array.tensor.numel()?,
        _ => 0,
    };
    let indices = Indices::of(call, &categories)?;
    if call.int_or("zeros", 1)? == 0
        && let Ok((_, known)) = indices.known(call)
        && known.contains(&-1)
    {
        wrong!("an element is none of the {count} categories, and attribute 'zeros' is 0");
    }
    one(indices.tensor().unsqueeze(-1).eq(Tensor::iota(count as i64)).cast(DType::F32))
}

fn floats(call: &Call<'_>, name: &str) -> Result<Vec<f32>, Failure> {
    Ok(call.float_list(name)?.unwrap_or_default().to_vec())
}

/// Numbers for the last axis of a tensor: one for all, or one for each.
fn beside(name: &str, list: &[f32], x: &Tensor) -> Result<Tensor, Failure> {
    let width = lengths_from(x, x.rank()?.saturating_sub(1))?.first().copied().unwrap_or(1);
    if list.len() != 1 && list.len() as i64 != width {
        wrong!(
            "attribute '{name}' has {} elements, and the features are {width}: it must have as many, or one",
            list.len()
        );
    }
    Ok(Tensor::from_vec(list.to_vec(), [list.len()]))
}

/// Numbers of any type as floats.
fn real(call: &Call<'_>) -> Result<Tensor, Failure> {
    let x = call.tensor(0)?;
    Ok(if x.dtype()?.is_float() { x.clone() } else { x.cast(DType::F32) })
}

fn scale(call: &Call<'_>) -> Done {
    let x = real(call)?;
    let (offset, scale) = (floats(call, "offset")?, floats(call, "scale")?);
    let moved = if offset.is_empty() { x.clone() } else { &x - beside("offset", &offset, &x)? };
    let scaled = if scale.is_empty() { moved } else { moved * beside("scale", &scale, &x)? };
    one(scaled.cast(DType::F32))
}

fn normalize(call: &Call<'_>) -> Done {
    let x = real(call)?;
    let norm = call.text_or("norm", "MAX")?;
    let length = match &*norm {
        "MAX" => x.max_keepdim(-1),
        "L1" => x.abs().sum_keepdim(-1),
        "L2" => x.square().sum_keepdim(-1).sqrt(),
        other => wrong!("attribute 'norm' is '{other}', and must be 'MAX', 'L1' or 'L2'"),
    };
    // A row of zeros stays one.
    one((&x / length.eq(0.0).where_(1.0, &length)).cast(DType::F32))
}

fn impute(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    if x.dtype()?.is_float() {
        let values = floats(call, "imputed_value_floats")?;
        let replaced = call.float_or("replaced_value_float", 0.0)?;
        let is_missing = if replaced.is_nan() { x.isnan() } else { x.eq(replaced) };
        return call.like(0, is_missing.where_(beside("imputed_value_floats", &values, x)?.cast(x.dtype()?), x));
    }
    let values = call.ints("imputed_value_int64s")?.unwrap_or_default();
    let width = lengths_from(x, x.rank()?.saturating_sub(1))?.first().copied().unwrap_or(1);
    if values.len() != 1 && values.len() as i64 != width {
        wrong!("attribute 'imputed_value_int64s' has {} elements, and the features are {width}", values.len());
    }
    let values = Tensor::from_vec(values.to_vec(), [values.len()]).cast(x.dtype()?);
    call.like(0, x.eq(call.int("replaced_value_int64")?.unwrap_or(0)).where_(values, x))
}

fn regress(call: &Call<'_>) -> Done {
    let x = real(call)?;
    let (coefficients, intercepts) = (floats(call, "coefficients")?, floats(call, "intercepts")?);
    let targets = call.int_or("targets", 1)?.max(1);
    let width = lengths_from(&x, x.rank()?.saturating_sub(1))?.first().copied().unwrap_or(0);
    if coefficients.len() as i64 != targets.saturating_mul(width) {
        wrong!(
            "attribute 'coefficients' has {} elements, and {targets} targets of {width} features have {}",
            coefficients.len(),
            targets.saturating_mul(width)
        );
    }
    if !intercepts.is_empty() && intercepts.len() as i64 != targets {
        wrong!("attribute 'intercepts' has {} elements, and there are {targets} targets", intercepts.len());
    }
    let weight = Tensor::from_vec(coefficients, [targets, width]);
    let bias = (!intercepts.is_empty()).then(|| Tensor::from_vec(intercepts, [targets]));
    let scores = x.cast(DType::F32).linear(&weight, bias.as_ref());
    one(transformed(call, &scores, &call.text_or("post_transform", "NONE")?)?)
}

/// The first features of each input, one after the other; what an input does not have is 0.
fn vectorize(call: &Call<'_>) -> Done {
    let Some(lengths) = call.ints("inputdimensions")? else { wrong!("attribute 'inputdimensions' is missing") };
    if lengths.len() != call.inputs.len() {
        wrong!(
            "attribute 'inputdimensions' has {} elements, and there are {} inputs",
            lengths.len(),
            call.inputs.len()
        );
    }
    let mut parts = Vec::with_capacity(lengths.len());
    for (number, &length) in lengths.iter().enumerate() {
        let x = call.tensor(number)?;
        let rows = if x.rank()? == 1 { x.unsqueeze(-1) } else { x.clone() };
        if rows.rank()? != 2 || !(0..=1 << 24).contains(&length) {
            wrong!(
                "input {number} is {}, of which {length} features are wanted: it must be [rows, features]",
                rows.dims()?
            );
        }
        let own = lengths_from(&rows, 1)?[0];
        let kept = rows.narrow(1, 0, own.min(length));
        parts.push(kept.pad(&[(0, 0), (0, (length - own).max(0))]).cast(DType::F32));
    }
    one(Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1))
}
