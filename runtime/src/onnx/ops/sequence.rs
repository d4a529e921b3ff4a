//! Ops of sequences and optionals.

use super::super::call::{Call, Done, one, resolve};
use super::super::error::{Failure, wrong};
use super::super::value::{Array, Value};
use super::Op;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("ConcatFromSequence", concat),
    ("Optional", |call| Ok(vec![call.input(0).cloned().unwrap_or(Value::Nothing)])),
    ("OptionalGetElement", |call| match call.input(0) {
        None | Some(Value::Nothing) => wrong!("the optional is empty"),
        Some(value) => Ok(vec![value.clone()]),
    }),
    ("OptionalHasElement", |call| one(Tensor::full_of([0i64; 0], call.has(0), DType::BOOL))),
    ("SequenceAt", |call| {
        let values = sequence(call, 0)?;
        let at = position(call, 1, values.len())?;
        match values.get(at) {
            Some(value) => Ok(vec![value.clone()]),
            None => wrong!("there is no element {at} of {}", values.len()),
        }
    }),
    ("SequenceConstruct", |call| Ok(vec![Value::Sequence(call.inputs.iter().flatten().cloned().collect())])),
    ("SequenceEmpty", |_| Ok(vec![Value::Sequence(Vec::new())])),
    ("SequenceErase", |call| {
        let mut values = sequence(call, 0)?.to_vec();
        let at = if call.has(1) { position(call, 1, values.len())? } else { values.len().wrapping_sub(1) };
        if at >= values.len() {
            wrong!("there is no element {at} of {}", values.len());
        }
        values.remove(at);
        Ok(vec![Value::Sequence(values)])
    }),
    ("SequenceInsert", |call| {
        let mut values = sequence(call, 0)?.to_vec();
        let at = if call.has(2) { position(call, 2, values.len())? } else { values.len() };
        if at > values.len() {
            wrong!("an element cannot be put at position {at} of {}", values.len());
        }
        values.insert(at, call.value(1)?.clone());
        Ok(vec![Value::Sequence(values)])
    }),
    ("SequenceLength", |call| one(Tensor::full_of([0i64; 0], sequence(call, 0)?.len() as i64, DType::I64))),
    ("SequenceMap", map),
    ("SplitToSequence", split),
];

fn sequence<'c>(call: &'c Call<'_>, number: usize) -> Result<&'c [Value], Failure> {
    match call.value(number)? {
        Value::Sequence(values) => Ok(values),
        other => wrong!("input {number} is {}, and must be a sequence", other.description()),
    }
}

/// A position that may count from the end.
fn position(call: &Call<'_>, number: usize, length: usize) -> Result<usize, Failure> {
    let at = call.integer(number)?;
    let from_start = if at < 0 { at.saturating_add(length as i64) } else { at };
    match usize::try_from(from_start) {
        Ok(at) if at <= length => Ok(at),
        _ => wrong!("there is no position {at} in a sequence of {length}"),
    }
}

fn concat(call: &Call<'_>) -> Done {
    let values = sequence(call, 0)?;
    let Some(axis) = call.int("axis")? else { wrong!("attribute 'axis' is missing: it must be an axis") };
    let mut arrays: Vec<&Array> = Vec::new();
    for value in values {
        match value {
            Value::Tensor(array) => arrays.push(array),
            other => wrong!("the sequence holds {}, and must hold tensors", other.description()),
        }
    }
    let Some(first) = arrays.first() else { wrong!("the sequence is empty, and must hold a tensor") };
    let tensors: Vec<&Tensor> = arrays.iter().map(|array| &array.tensor).collect();
    let joined = if call.flag("new_axis")? { Tensor::stack(&tensors, axis) } else { Tensor::cat(&tensors, axis) };
    Ok(vec![Value::Tensor(Array::of(joined, first.element)?)])
}

/// Parts that a tensor can be taken apart into.
const PARTS_MAX: i64 = 1 << 20;

fn split(call: &Call<'_>) -> Done {
    let x = call.array(0)?;
    let axis = resolve(call.int_or("axis", 0)?, x.tensor.rank()?)?;
    let length = call.lengths(0)?[axis];
    let keeps_axis = call.has(1) || call.int_or("keepdims", 1)? != 0;
    let sizes = match call.sizes_if(1)? {
        None if length > PARTS_MAX => wrong!("{length} parts: there can be {PARTS_MAX}"),
        None => vec![1; length.max(0) as usize],
        Some(sizes) if call.rank(1)? > 0 => sizes,
        Some(sizes) => match sizes[..] {
            [size] if size > 0 && length / size < PARTS_MAX => {
                (0..(length + size - 1) / size).map(|part| size.min(length - part * size)).collect()
            }
            ref other => wrong!("parts of {other:?} elements: it must be one number from 1 on"),
        },
    };
    let parts = x.tensor.split(sizes, axis as i64)?.into_iter();
    let part = |part: Tensor| -> Result<Value, Failure> {
        let part = if keeps_axis { part } else { part.squeeze(axis as i64) };
        Ok(Value::Tensor(Array::of(part, x.element)?))
    };
    Ok(vec![Value::Sequence(parts.map(part).collect::<Result<_, Failure>>()?)])
}

/// A graph for each element of a sequence; inputs that are no sequences are the same for each.
fn map(call: &Call<'_>) -> Done {
    let body = call.graph("body")?;
    let count = sequence(call, 0)?.len();
    let mut results: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    for at in 0..count {
        let mut inputs = Vec::new();
        for (number, value) in call.inputs.iter().enumerate() {
            inputs.push(match value {
                Some(Value::Sequence(values)) => match values.get(at) {
                    Some(value) => value.clone(),
                    None => wrong!("input {number} is a sequence of {}, and the first one of {count}", values.len()),
                },
                Some(value) => value.clone(),
                None => Value::Nothing,
            });
        }
        let found = call.run(body, inputs)?;
        results.iter_mut().zip(found).for_each(|(results, value)| results.push(value));
    }
    Ok(results.into_iter().map(Value::Sequence).collect())
}
