//! Ops that run graphs: branches, loops, scans. All are taken apart while the program is built, so conditions and numbers of rounds must be known then.

use super::super::call::{Call, Done, resolve};
use super::super::error::{Failure, wrong};
use super::super::value::{Array, Value};
use super::Op;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[("If", branch), ("Loop", repeat), ("Scan", scan)];

/// The truth of a value of one element.
fn truth(call: &Call<'_>, value: &Value) -> Result<bool, Failure> {
    let Value::Tensor(array) = value else { wrong!("the condition is {}, and must be a tensor", value.description()) };
    let elements = call.evaluation.elements(array)?;
    match elements.len() {
        1 => Ok(elements.get(0).to_f64() != 0.0),
        count => wrong!("the condition has {count} elements, and must have 1"),
    }
}

fn branch(call: &Call<'_>) -> Done {
    let name = if truth(call, call.value(0)?)? { "then_branch" } else { "else_branch" };
    call.run(call.graph(name)?, Vec::new())
}

/// A number of one element that the program knows.
fn known(value: Tensor) -> Result<Value, Failure> {
    Ok(Value::Tensor(Array::new(value)?.folded()))
}

fn repeat(call: &Call<'_>) -> Done {
    let body = call.graph("body")?;
    let rounds = if call.has(0) { call.integer(0)? } else { i64::MAX };
    let mut goes_on = if call.has(1) { truth(call, call.value(1)?)? } else { true };
    let mut carried: Vec<Value> =
        call.inputs.iter().skip(2).map(|value| value.clone().unwrap_or(Value::Nothing)).collect();
    let count = carried.len();
    let Some(scans) = body.outputs.len().checked_sub(count + 1) else {
        wrong!("the body has {} outputs, and must have a condition and {count} more", body.outputs.len());
    };
    let mut kept: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let mut round = 0;
    while goes_on && round < rounds {
        let number = known(Tensor::full_of([0i64; 0], round, DType::I64))?;
        let condition = known(Tensor::full_of([0i64; 0], true, DType::BOOL))?;
        let inputs: Vec<Value> = [number, condition].into_iter().chain(carried).take(body.inputs.len()).collect();
        let mut outputs = call.run(body, inputs)?.into_iter();
        let Some(condition) = outputs.next() else { wrong!("the body gives no condition") };
        carried = outputs.by_ref().take(count).collect();
        kept.iter_mut().zip(outputs).for_each(|(kept, value)| kept.push(value));
        round += 1;
        // A condition that nobody looks at need not be known.
        goes_on = round >= rounds || truth(call, &condition)?;
    }
    let declared = body.outputs.iter().skip(1 + count);
    for (values, declared) in kept.into_iter().zip(declared) {
        carried.push(stacked(values, declared.kind.as_ref(), 0)?);
    }
    Ok(carried)
}

/// Values of all rounds along a new axis; none make an empty tensor of the declared type.
fn stacked(values: Vec<Value>, kind: Option<&super::super::graph::Kind>, axis: i64) -> Result<Value, Failure> {
    use super::super::graph::{AxisLength, Kind};
    let mut arrays = Vec::with_capacity(values.len());
    for value in &values {
        match value {
            Value::Tensor(array) => arrays.push(array),
            other => wrong!("the body gives {} to be stacked, and must give a tensor", other.description()),
        }
    }
    if let Some(first) = arrays.first() {
        let tensors: Vec<&Tensor> = arrays.iter().map(|array| &array.tensor).collect();
        let stacked = Array::of(Tensor::stack(&tensors, axis), first.element)?;
        return Ok(Value::Tensor(if arrays.iter().all(|array| array.known.is_some()) {
            stacked.folded()
        } else {
            stacked
        }));
    }
    let Some(Kind::Tensor { element, shape }) = kind else {
        wrong!("there are no rounds, and no type of their results")
    };
    let Some(dtype) = element.dtype() else { wrong!("there are no rounds, and their results are text") };
    let length = |length: &AxisLength| if let AxisLength::Fixed(length) = length { *length } else { 0 };
    let lengths: Vec<usize> = std::iter::once(0).chain(shape.iter().flatten().map(length)).collect();
    Ok(Value::Tensor(Array::of(Tensor::zeros_of(lengths, dtype), *element)?))
}

/// Directions or axes, one for each input or output that is scanned.
fn listed(call: &Call<'_>, name: &str, count: usize) -> Result<Vec<i64>, Failure> {
    match call.ints(name)? {
        Some(list) if list.len() != count => {
            wrong!("attribute '{name}' has {} numbers, and must have {count}", list.len())
        }
        Some(list) => Ok(list.to_vec()),
        None => Ok(vec![0; count]),
    }
}

fn scan(call: &Call<'_>) -> Done {
    let body = call.graph("body")?;
    let Some(scanned) =
        call.int("num_scan_inputs")?.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0)
    else {
        wrong!("attribute 'num_scan_inputs' is missing: it must be 1 or more");
    };
    // Version 8 has lengths of sequences first, and a batch.
    let first = usize::from(call.version < 9);
    let mut values: Vec<Value> =
        call.inputs.iter().skip(first).map(|value| value.clone().unwrap_or(Value::Nothing)).collect();
    let Some(states) = values.len().checked_sub(scanned) else {
        wrong!("there are fewer inputs than the {scanned} to scan")
    };
    let sequences = values.split_off(states);
    let Some(outputs) = body.outputs.len().checked_sub(states) else { wrong!("the body has too few outputs") };
    if first == 0 {
        return over_sequences(call, values, &sequences, outputs);
    }
    let batch = match sequences.first() {
        Some(Value::Tensor(array)) => super::super::call::lengths(&array.tensor)?.first().copied().unwrap_or(0),
        _ => wrong!("what is scanned must be tensors"),
    };
    let part = |value: &Value, number: i64| match value {
        Value::Tensor(array) => Ok(Value::Tensor(Array::of(array.tensor.get(number), array.element)?)),
        other => wrong!("{} has no batch", other.description()),
    };
    let mut results: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    for number in 0..batch {
        let states = values.iter().map(|value| part(value, number)).collect::<Result<Vec<_>, Failure>>()?;
        let sequences = sequences.iter().map(|value| part(value, number)).collect::<Result<Vec<_>, Failure>>()?;
        let found = over_sequences(call, states, &sequences, outputs)?;
        results.iter_mut().zip(found).for_each(|(results, value)| results.push(value));
    }
    results.into_iter().map(|values| stacked(values, None, 0)).collect()
}

fn over_sequences(call: &Call<'_>, mut states: Vec<Value>, sequences: &[Value], outputs: usize) -> Done {
    let body = call.graph("body")?;
    let input_name = if call.version < 9 { "directions" } else { "scan_input_directions" };
    let backwards = listed(call, input_name, sequences.len())?;
    let axes = listed(call, "scan_input_axes", sequences.len())?;
    let (output_backwards, output_axes) =
        (listed(call, "scan_output_directions", outputs)?, listed(call, "scan_output_axes", outputs)?);
    let mut arrays = Vec::new();
    for (value, &axis) in sequences.iter().zip(&axes) {
        let Value::Tensor(array) = value else {
            wrong!("what is scanned must be a tensor, not {}", value.description())
        };
        let axis = resolve(axis, array.tensor.rank()?)?;
        arrays.push((array, axis, super::super::call::lengths(&array.tensor)?[axis]));
    }
    let rounds = arrays.first().map_or(0, |(.., length)| *length);
    if arrays.iter().any(|(.., length)| *length != rounds) {
        wrong!("what is scanned must be of one length along its axes");
    }
    let count = states.len();
    let mut kept: Vec<Vec<Value>> = vec![Vec::new(); outputs];
    for round in 0..rounds {
        let mut inputs = states;
        for ((array, axis, _), backward) in arrays.iter().zip(&backwards) {
            let at = if *backward != 0 { rounds - 1 - round } else { round };
            let part = array.tensor.narrow(*axis as i64, at, 1i64).squeeze(*axis as i64);
            inputs.push(Value::Tensor(Array::of(part, array.element)?));
        }
        let mut found = call.run(body, inputs)?.into_iter();
        states = found.by_ref().take(count).collect();
        kept.iter_mut().zip(found).for_each(|(kept, value)| kept.push(value));
    }
    for (number, mut values) in kept.into_iter().enumerate() {
        if output_backwards[number] != 0 {
            values.reverse();
        }
        let declared = body.outputs.get(count + number).and_then(|declared| declared.kind.as_ref());
        states.push(stacked(values, declared, output_axes[number])?);
    }
    Ok(states)
}
