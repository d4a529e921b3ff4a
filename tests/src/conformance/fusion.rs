//! Whole programs with a budget of kernels.
//!
//! A program names inputs, steps (ops over inputs and earlier steps) and outputs, which are computed together. It passes if all
//! values are right and no more kernels were launched than its goal; printed besides: `kernels total: X (reference Y, goal Z)`.

use serde_json::Value;
use warpweft::{Tensor, registry};

use super::ops::{Tolerance, compare, read_tensor};
use super::ops_table::apply;
use super::{Report, Stop, field, run_list};

/// Judges every program whose id holds `filter`, on the device of that name or the default one.
pub fn run(cases: &Value, filter: Option<&str>, device: Option<&str>) -> Report {
    let mut report = Report::default();
    let mut totals = [0u64; 3];
    run_list(&mut report, cases, filter, |case| {
        let budget = |name: &str| field::integer(case, name).map(|count| count.max(0) as u64);
        let (reference, goal) = (budget("kernels_reference")?, budget("kernels_goal")?);
        let kernels = judge(case, device)?;
        for (total, count) in totals.iter_mut().zip([kernels, reference, goal]) {
            *total += count;
        }
        if kernels > goal {
            return Err(Stop::failed(format!("{kernels} kernels, the goal is {goal} (reference {reference})")));
        }
        Ok(())
    });
    let [kernels, reference, goal] = totals;
    report.lines.push(format!("kernels total: {kernels} (reference {reference}, goal {goal})"));
    report
}

/// Runs a program; gives the kernels that it launched if its values are right.
fn judge(case: &Value, device: Option<&str>) -> Result<u64, Stop> {
    let failed = |error: &dyn std::fmt::Display| Stop::failed(error.to_string());
    let mut values = Vec::new();
    for input in field::list(case, "inputs")? {
        let input = read_tensor(input, device)?;
        input.realize().map_err(|error| failed(&error))?;
        values.push(input);
    }
    let named = |values: &[Tensor], entry: &Value| -> Result<Tensor, Stop> {
        let value = entry.as_u64().and_then(|number| values.get(number as usize)).cloned();
        value.ok_or_else(|| Stop::unsupported(format!("a reference to {entry}")))
    };
    for step in field::list(case, "steps")? {
        let inputs =
            field::list(step, "args")?.iter().map(|entry| named(&values, entry)).collect::<Result<Vec<_>, _>>()?;
        values.push(apply_step(field::text(step, "op")?, &step["attrs"], &inputs)?);
    }
    let outputs =
        field::list(case, "outputs")?.iter().map(|entry| named(&values, entry)).collect::<Result<Vec<_>, _>>()?;
    drop(values);
    let graphs =
        outputs.iter().map(warpweft::compiler::graph).collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    let executor = registry::executor(device).map_err(|error| failed(&error))?;
    let before = executor.stats().launches;
    // Computed together; what is compared below finds the values.
    let _computed = executor.realize(&graphs).map_err(|error| failed(&error))?;
    let kernels = executor.stats().launches - before;
    let tolerance = Tolerance::of(case, "a program")?;
    let expected = field::list(case, "expected")?;
    if outputs.len() != expected.len() {
        return Err(Stop::unsupported(format!("{} outputs with {} expected values", outputs.len(), expected.len())));
    }
    for (number, (output, want)) in outputs.iter().zip(expected).enumerate() {
        compare(output, want, tolerance, device).map_err(|why| Stop::failed(format!("output {number}: {why}")))?;
    }
    Ok(kernels)
}

/// A step: an op of the table, or one that means something of its own in programs, where names have the reference's meaning: `gelu` is
/// the approximation by tanh, `layer_norm` is over the last axis, `arange` begins at 0.
fn apply_step(op: &str, attributes: &Value, inputs: &[Tensor]) -> Result<Tensor, Stop> {
    let number = || attributes["value"].as_f64().ok_or_else(|| Stop::unsupported(format!("{op} without a value")));
    match (op, inputs) {
        ("add_scalar", [x]) => Ok(x + number()?),
        ("mul_scalar", [x]) => Ok(x * number()?),
        ("contiguous", [x]) => Ok(x.contiguous()),
        ("gelu", [x]) => Ok(x.gelu_tanh()),
        ("layer_norm", [x]) => {
            let len = x.shape().map_err(|error| Stop::failed(error.to_string()))?.last().copied().unwrap_or(1);
            let eps = attributes["eps"].as_f64().ok_or_else(|| Stop::unsupported("layer_norm without eps"))?;
            Ok(x.layer_norm(&[len as i64], None, None, eps))
        }
        ("arange", []) if attributes["start"].is_null() => {
            Ok(Tensor::arange(0, field::integer(attributes, "stop")?, 1))
        }
        _ => match <[Tensor; 1]>::try_from(apply(op, attributes, inputs)?) {
            Ok([output]) => Ok(output),
            Err(outputs) => Err(Stop::unsupported(format!("{op} with {} outputs", outputs.len()))),
        },
    }
}
