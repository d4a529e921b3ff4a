//! Values and gradients of tensor ops, as PyTorch computes them on the CPU.
//!
//! A case names an op, attributes, inputs and the outputs expected; `grads` are the gradients of `sum(outputs[0] * cotangent)` by
//! the inputs. A value passes if it is within `atol + rtol * |want|` (NaN equals NaN, infinities, integers and bools are exact), a gradient
//! within ten times that; and within what rounding explains of that element, by the ops and the lengths of sums that made it
//! (`error_bound`), on either side. What a case asks of the library is `ops_table`.
//!
//! A case with `error`, what PyTorch says of a call that it refuses, has no outputs: it passes if the library refuses the call too, with the text
//! `says` in its message.

use serde_json::Value;
use warpweft::execute;
use warpweft::registry;
use warpweft::{DType, Tensor};
use warpweft_compiler::UOp;
use warpweft_compiler::dtype::{Elements, Scalar};

use super::ops_table::apply;
use super::{Outcome, Report, Stop, field, run_list_in_parallel};
use crate::error_bound::{Bounded, bounded_from_real, unit_roundoff};

/// Roundings of a result that another formula for it may make besides those of ours.
const FORMULA_ROUNDINGS: f64 = 2.0;
/// Ops of which the graph of the result does not explain all that values are apart: how much it leaves out, and why. Infinity leaves the
/// tolerance of the case.
const LEFT_OUT: &[(&str, f64)] = &[
    // Above its threshold of 20, softplus is x itself: e^-20 is left out.
    ("softplus", 2.1e-9),
    // Several steps, with parameters and moments in memory between them: the graph is that of the last step.
    ("sgd", f64::INFINITY),
    ("adamw", f64::INFINITY),
    // What is eliminated, rotated or summed as a series errs by its condition, which no graph of ops tells.
    ("inverse", f64::INFINITY),
    ("det", f64::INFINITY),
    ("slogdet", f64::INFINITY),
    ("cholesky", f64::INFINITY),
    ("solve", f64::INFINITY),
    ("solve_triangular", f64::INFINITY),
    ("lstsq", f64::INFINITY),
    ("matrix_power", f64::INFINITY),
    ("qr", f64::INFINITY),
    ("qr_r", f64::INFINITY),
    ("eigh", f64::INFINITY),
    ("eigh_vectors", f64::INFINITY),
    ("svd", f64::INFINITY),
    ("svd_left", f64::INFINITY),
    ("svd_right", f64::INFINITY),
    ("pinv", f64::INFINITY),
    ("matrix_norm", f64::INFINITY),
    ("ctc_loss", f64::INFINITY),
    ("lgamma", f64::INFINITY),
    ("digamma", f64::INFINITY),
    ("polygamma", f64::INFINITY),
    ("zeta", f64::INFINITY),
    ("multigammaln", f64::INFINITY),
    ("erfinv", f64::INFINITY),
    ("erfc", f64::INFINITY),
    ("erfcx", f64::INFINITY),
    ("ndtr", f64::INFINITY),
    ("ndtri", f64::INFINITY),
    ("log_ndtr", f64::INFINITY),
    ("i0", f64::INFINITY),
    ("i0e", f64::INFINITY),
    ("i1", f64::INFINITY),
    ("i1e", f64::INFINITY),
    ("bessel_j0", f64::INFINITY),
    ("bessel_j1", f64::INFINITY),
    ("bessel_y0", f64::INFINITY),
    ("bessel_y1", f64::INFINITY),
    ("bessel_k0", f64::INFINITY),
    ("bessel_k1", f64::INFINITY),
    // Waves are numbers in memory, rounded to f64.
    ("fft", 1e-13),
    ("ifft", 1e-13),
    ("rfft", 1e-13),
    ("irfft", 1e-13),
];

/// How far apart a value and the one expected may be.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    /// Relative to the expected element.
    pub(super) rtol: f64,
    /// Absolute.
    pub(super) atol: f64,
    /// What rounding of the graph does not explain.
    pub(super) left_out: f64,
}

impl Tolerance {
    /// What the fields of a case say, for values of this op.
    pub(super) fn of(case: &Value, op: &str) -> Result<Tolerance, Stop> {
        let number =
            |name: &str| case[name].as_f64().ok_or_else(|| Stop::unsupported(format!("field {name} is no number")));
        let left_out = LEFT_OUT.iter().find(|(name, _)| *name == op).map_or(0.0, |(_, left_out)| *left_out);
        Ok(Tolerance { rtol: number("rtol")?, atol: number("atol")?, left_out })
    }

    /// Of gradients: ten times that of values.
    fn of_gradients(self) -> Tolerance {
        Tolerance { rtol: 10.0 * self.rtol, atol: 10.0 * self.atol, ..self }
    }
}

/// Judges every case whose id holds `filter`, on the device of that name or the default one.
pub fn run(cases: &Value, filter: Option<&str>, device: Option<&str>) -> Report {
    let mut report = Report::default();
    // Either the list itself, or the list with what is to be said about it.
    let list = if cases.is_object() { &cases["cases"] } else { cases };
    run_list_in_parallel(&mut report, list, filter, |case| judge(case, device));
    report
}

fn judge(case: &Value, device: Option<&str>) -> Result<(), Stop> {
    let inputs =
        field::list(case, "inputs")?.iter().map(|input| read_tensor(input, device)).collect::<Result<Vec<_>, _>>()?;
    let outputs = apply(field::text(case, "op")?, &case["attrs"], &inputs);
    if case.get("error").is_some() {
        return refused(outputs, field::text(case, "says")?);
    }
    let outputs = outputs?;
    let wanted = field::list(case, "outputs")?;
    if outputs.len() != wanted.len() {
        return Err(Stop::failed(format!("{} outputs, not {}", outputs.len(), wanted.len())));
    }
    let tolerance = Tolerance::of(case, field::text(case, "op")?)?;
    for (k, (output, want)) in outputs.iter().zip(wanted).enumerate() {
        compare(output, want, tolerance, device).map_err(|why| Stop::failed(format!("output {k}: {why}")))?;
    }
    let Some(gradients) = case["grads"].as_array() else { return Ok(()) };
    let cotangent = read_tensor(&case["cotangent"], device)?;
    // Only inputs whose gradient is given are asked for: integers have none.
    if gradients.len() > inputs.len() {
        return Err(Stop::unsupported(format!("{} gradients of {} inputs", gradients.len(), inputs.len())));
    }
    let asked: Vec<usize> =
        (0..inputs.len()).filter(|&k| gradients.get(k).is_some_and(|want| !want.is_null())).collect();
    let targets: Vec<&Tensor> = asked.iter().map(|&k| &inputs[k]).collect();
    let got =
        outputs[0].gradient_with(&cotangent, &targets).map_err(|error| Stop::failed(format!("gradient: {error}")))?;
    if got.len() != asked.len() {
        return Err(Stop::failed(format!("{} gradients, not {}", got.len(), asked.len())));
    }
    for (&k, got) in asked.iter().zip(&got) {
        compare(got, &gradients[k], tolerance.of_gradients(), device)
            .map_err(|why| Stop::failed(format!("gradient by input {k}: {why}")))?;
    }
    Ok(())
}

/// Judges a case that must be an error, at once or when a value is asked for.
fn refused(outputs: Result<Vec<Tensor>, Stop>, says: &str) -> Result<(), Stop> {
    let message = match outputs {
        Err(Stop(Outcome::Failed(why))) => why,
        Err(stop) => return Err(stop),
        Ok(outputs) => match outputs.iter().map(Tensor::to_bytes).find_map(Result::err) {
            Some(error) => error.to_string(),
            None => return Err(Stop::failed("it gave a value, and should have been refused")),
        },
    };
    if message.contains(says) { Ok(()) } else { Err(Stop::failed(format!("`{message}` does not say `{says}`"))) }
}

/// Type, shape and data of a tensor in a case.
struct Expected {
    dtype: DType,
    shape: Vec<i64>,
    data: Vec<Scalar>,
}

fn read_expected(value: &Value) -> Result<Expected, Stop> {
    let name = field::text(value, "dtype")?;
    let dtype = DType::from_name(name).ok_or_else(|| Stop::unsupported(format!("type {name}")))?;
    let data: Vec<Scalar> =
        field::list(value, "data")?.iter().map(|element| read_scalar(element, dtype)).collect::<Result<_, _>>()?;
    let shape = field::integers(value, "shape")?;
    if shape.iter().product::<i64>() != data.len() as i64 {
        return Err(Stop::unsupported(format!("{} elements in a tensor of shape {shape:?}", data.len())));
    }
    Ok(Expected { dtype, shape, data })
}

fn read_scalar(element: &Value, dtype: DType) -> Result<Scalar, Stop> {
    let scalar = match element {
        Value::Bool(value) => Scalar::Bool(*value),
        Value::String(text) => Scalar::float(match text.as_str() {
            "nan" => f64::NAN,
            "inf" => f64::INFINITY,
            "-inf" => f64::NEG_INFINITY,
            _ => return Err(Stop::unsupported(format!("element {text}"))),
        }),
        Value::Number(number) if number.is_i64() => Scalar::Int(number.as_i64().unwrap_or(0)),
        Value::Number(number) if number.is_u64() => Scalar::UInt(number.as_u64().unwrap_or(0)),
        Value::Number(number) => Scalar::float(number.as_f64().unwrap_or(f64::NAN)),
        _ => return Err(Stop::unsupported(format!("element {element}"))),
    };
    Ok(scalar.cast(dtype))
}

/// A tensor of a case, in memory.
pub(super) fn read_tensor(value: &Value, device: Option<&str>) -> Result<Tensor, Stop> {
    let Expected { dtype, shape, data } = read_expected(value)?;
    let elements = Elements::from_scalars(dtype, &data).ok_or_else(|| Stop::unsupported(format!("type {dtype}")))?;
    Ok(Tensor::from_bytes(device, dtype, shape, &elements.to_bytes()))
}

/// What is different, if anything is.
pub(super) fn compare(got: &Tensor, want: &Value, tolerance: Tolerance, device: Option<&str>) -> Result<(), String> {
    let want = read_expected(want).map_err(|stop| format!("{:?}", stop.0))?;
    let text = |error: warpweft::Error| error.to_string();
    let (dtype, shape) = (got.dtype().map_err(text)?, got.shape().map_err(text)?);
    let shape: Vec<i64> = shape.into_iter().map(|len| len as i64).collect();
    if (dtype, &shape) != (want.dtype, &want.shape) {
        return Err(format!("{dtype}{shape:?} instead of {}{:?}", want.dtype, want.shape));
    }
    let bounds = bounds_of(got)?;
    let got = elements(got, device)?.scalars();
    if got.len() != want.data.len() {
        return Err(format!("{} elements instead of {}", got.len(), want.data.len()));
    }
    for (k, (got, want)) in got.into_iter().zip(&want.data).enumerate() {
        let size = want.to_f64().abs();
        let explained = 2.0 * bounds.error(k) + FORMULA_ROUNDINGS * unit_roundoff(dtype) * size + tolerance.left_out;
        if !close(got, *want, explained.min(tolerance.atol + tolerance.rtol * size)) {
            return Err(format!(
                "element {k} is {}, not {}: off by {:.2e}, where rounding explains {explained:.2e}",
                written(got),
                written(*want),
                (got.to_f64() - want.to_f64()).abs()
            ));
        }
    }
    Ok(())
}

/// The elements, computed on the device also if the program reads nothing that lies there.
fn elements(got: &Tensor, device: Option<&str>) -> Result<Elements, String> {
    let value = warpweft::compiler::graph(got).map_err(|error| error.to_string())?;
    let empty = value.shape().numel().is(0);
    let bytes = match device {
        Some(_) if !empty => {
            let executor = registry::executor(device).map_err(|error| error.to_string())?;
            let stored = executor.realize(std::slice::from_ref(&value)).map_err(|error| error.to_string())?.remove(0);
            execute::to_bytes(&stored).map_err(|error| error.to_string())?
        }
        _ => got.to_bytes().map_err(|error| error.to_string())?,
    };
    Elements::from_bytes(value.dtype(), &bytes).ok_or_else(|| format!("{} bytes are no elements", bytes.len()))
}

/// How far rounding may take each element from the real number that is meant.
fn bounds_of(got: &Tensor) -> Result<Bounded, String> {
    let value = warpweft::compiler::graph(got).map_err(|error| error.to_string())?;
    let leaf = |node: &UOp| {
        let bytes = execute::to_bytes(node).ok()?;
        let len = bytes.len() / node.dtype().bytes();
        warpweft_compiler::ir::interpret::Value::from_bytes(node.dtype(), [len as i64], &bytes)
    };
    let bounded = bounded_from_real(std::slice::from_ref(&value), &leaf)?;
    bounded.into_iter().next().ok_or_else(|| "no value".to_owned())
}

fn close(got: Scalar, want: Scalar, tolerance: f64) -> bool {
    match want {
        Scalar::Float(_) => {
            let (got, want) = (got.to_f64(), want.to_f64());
            // Infinities are met exactly: a finite value is infinitely far from one, and so is any tolerance relative to it.
            let near = want.is_finite() && (got - want).abs() <= tolerance;
            got == want || (got.is_nan() && want.is_nan()) || near
        }
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::UInt(_) => got == want,
    }
}

fn written(value: Scalar) -> String {
    match value {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Float(bits) => format!("{:e}", f64::from_bits(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_close_is_within_the_tolerance() {
        let float = Scalar::float;
        assert!(close(float(1.00001), float(1.0), 1.1e-5));
        assert!(!close(float(1.0001), float(1.0), 1.1e-5));
        assert!(close(float(f64::NAN), float(f64::NAN), 0.0));
        assert!(!close(float(f64::NAN), float(1.0), 2.0));
        assert!(!close(float(1e300), float(f64::INFINITY), f64::INFINITY));
        assert!(close(float(-0.0), float(0.0), 0.0));
        assert!(!close(Scalar::Int(3), Scalar::Int(4), 2.0));
    }

    #[test]
    fn elements_are_held_to_what_rounding_explains() {
        // One of a thousand terms is 0.001 and missing: the tolerance of the file alone would not see it.
        let mut terms = vec![0.01f32; 1000];
        terms[500] = 0.001;
        let sum = |terms: &[f32]| Tensor::from_vec(terms.to_vec(), [terms.len() as i64]).sum(0);
        let file = Tolerance { rtol: 1e-3, atol: 1e-3, left_out: 0.0 };
        let want = serde_json::json!({"dtype": "float32", "shape": [], "data": [9.991]});
        assert_eq!(compare(&sum(&terms), &want, file, None), Ok(()));
        terms[500] = 0.0;
        let why = compare(&sum(&terms), &want, file, None).unwrap_err();
        assert!(why.contains("where rounding explains"), "{why}");
    }
}
