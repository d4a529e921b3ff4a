//! Cases of the ONNX format: a model, inputs, and the outputs that it must give; files of a folder, or packed together.
//!
//! A case passes if all outputs have the stored types, shapes and elements: integers, bools and text exactly, floats within the case's tolerance (as the
//! package `onnx` compares them). It is *unsupported* if the library says of an op, a type or an option that it is not there, if the values are
//! random numbers, of which only types and shapes can be compared, or if the case is one of [`ROUNDED`].

use std::collections::BTreeMap;
use std::path::Path;

use warpweft::DType;
use warpweft::onnx::{AxisLength, ElementType, Error, Kind, Model, Value, read_value};

/// The files of a case, by their paths below its folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All outputs are right.
    Passed,
    /// One is wrong, or there is none.
    Failed(String),
    /// What it needs is not there.
    Unsupported(String),
}

/// Cases whose outputs are drawn at random: types and shapes are compared alone.
const RANDOM: &[&str] = &["bernoulli", "training_dropout", "dropout_random", "randomuniform", "randomnormal"];
/// Cases whose stored outputs are further from the exact values than ours, by rounding in half and single precision: so far that both are not within the
/// tolerance of each other.
const ROUNDED: &[&str] = &["test_attention_4d_causal_fp16_expanded", "test_dft_inverse", "test_dft_inverse_opset19"];
/// What the package allows of a `bfloat16`: two units in its last place.
const TOLERANCE_BF16: f64 = 1.0 / 64.0;
/// How far a float may be from what it must be, where a case does not say it: relative and absolute.
const TOLERANCE: (f64, f64) = (1e-3, 1e-7);

/// The files of a case's folder.
///
/// # Errors
/// If one cannot be read.
pub fn files_of(folder: &Path) -> std::io::Result<Files> {
    let mut files = Files::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        } else if let Ok(name) = path.strip_prefix(folder) {
            files.insert(name.to_string_lossy().into_owned(), std::fs::read(&path)?);
        }
    }
    Ok(files)
}

/// Runs a case.
pub fn run(name: &str, files: &Files) -> Outcome {
    let result = std::panic::catch_unwind(|| outputs_are_right(name, files));
    match result {
        Ok(Ok(())) => {
            let is_random = RANDOM.iter().any(|part| name.contains(part));
            if is_random {
                Outcome::Unsupported("random numbers: types and shapes are right".into())
            } else {
                Outcome::Passed
            }
        }
        Ok(Err(Wrong::Unsupported(reason))) => Outcome::Unsupported(reason),
        Ok(Err(Wrong::Failed(message))) if ROUNDED.contains(&name) && message.contains("elements are wrong") => {
            Outcome::Unsupported("stored outputs that are further from the exact values than ours".into())
        }
        Ok(Err(Wrong::Failed(message))) => Outcome::Failed(message),
        Err(_) => Outcome::Failed("it panics".to_string()),
    }
}

enum Wrong {
    Unsupported(String),
    Failed(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        match &error {
            Error::Unsupported { node, reason } => Wrong::Unsupported(format!("{}: {reason}", node.op)),
            other => Wrong::Failed(other.to_string()),
        }
    }
}

fn outputs_are_right(name: &str, files: &Files) -> Result<(), Wrong> {
    let Some(bytes) = files.get("model.onnx") else { return Err(Wrong::Failed("there is no model".into())) };
    let model = Model::from_bytes(name, bytes)?;
    let mut sets = 0;
    while files.keys().any(|file| file.starts_with(&format!("test_data_set_{sets}/"))) {
        run_set(name, files, &model, sets)?;
        sets += 1;
    }
    if sets == 0 { Err(Wrong::Failed("there are no inputs and outputs".into())) } else { Ok(()) }
}

fn run_set(name: &str, files: &Files, model: &Model, set: usize) -> Result<(), Wrong> {
    let read = |what: &str, number: usize, kind| {
        let file = format!("test_data_set_{set}/{what}_{number}.pb");
        files.get(&file).map(|bytes| read_value(&file, bytes, kind)).transpose()
    };
    let mut inputs = Vec::new();
    for (number, declared) in model.inputs().iter().enumerate() {
        inputs.extend(read("input", number, declared.kind.as_ref())?);
    }
    let outputs = model.run_values(&inputs)?;
    let tolerance = files.get("tolerance.txt").and_then(|text| tolerance_of(text)).unwrap_or(TOLERANCE);
    let values_count = !RANDOM.iter().any(|part| name.contains(part));
    for (number, (declared, output)) in model.outputs().iter().zip(&outputs).enumerate() {
        let Some(wanted) = read("output", number, declared.kind.as_ref())? else {
            return Err(Wrong::Failed(format!("the case has no output {number}")));
        };
        let difference = difference(output, &wanted, tolerance, values_count)?;
        if let Some(difference) = difference {
            return Err(Wrong::Failed(format!("output {number} '{}': {difference}", declared.name)));
        }
    }
    Ok(())
}

fn tolerance_of(text: &[u8]) -> Option<(f64, f64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (relative, absolute) = text.trim().split_once(' ')?;
    Some((relative.parse().ok()?, absolute.parse().ok()?))
}

/// Where a value differs from what it must be.
fn difference(
    found: &Value,
    wanted: &Value,
    tolerance: (f64, f64),
    values_count: bool,
) -> Result<Option<String>, Wrong> {
    Ok(match (found, wanted) {
        (Value::Tensor(found), Value::Tensor(wanted)) => {
            let shapes = [found, wanted].map(|array| array.tensor().shape().map_err(Error::from));
            let [shape, wanted_shape] = shapes;
            let (shape, wanted_shape) = (shape?, wanted_shape?);
            if (found.element(), &shape) != (wanted.element(), &wanted_shape) {
                let (found, wanted) = (found.element(), wanted.element());
                return Ok(Some(format!("it is {found}{shape:?}, and must be {wanted}{wanted_shape:?}")));
            }
            if !values_count {
                return Ok(None);
            }
            let found = found.tensor().elements().map_err(Error::from)?;
            let is_bf16 = wanted.element() == ElementType::Plain(DType::BF16);
            let wanted = wanted.tensor().elements().map_err(Error::from)?;
            let tolerance = if is_bf16 { (tolerance.0.max(TOLERANCE_BF16), tolerance.1) } else { tolerance };
            let is_float = wanted
                .scalars()
                .first()
                .is_some_and(|first| matches!(first, warpweft_compiler::dtype::Scalar::Float(_)));
            let differs = |at: &usize| {
                let (a, b) = (found.get(*at), wanted.get(*at));
                if is_float { !is_near(a.to_f64(), b.to_f64(), tolerance) } else { a != b }
            };
            let wrong: Vec<usize> = (0..wanted.len()).filter(differs).collect();
            wrong.first().map(|&at| {
                let (a, b) = (found.get(at).to_f64(), wanted.get(at).to_f64());
                format!(
                    "{} of {} elements are wrong, first element {at}: {a}, and must be {b}",
                    wrong.len(),
                    wanted.len()
                )
            })
        }
        (Value::Sequence(found), Value::Sequence(wanted)) => {
            if found.len() != wanted.len() {
                return Ok(Some(format!("a sequence of {}, and must be of {}", found.len(), wanted.len())));
            }
            for (number, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                if let Some(difference) = difference(found, wanted, tolerance, values_count)? {
                    return Ok(Some(format!("number {number}: {difference}")));
                }
            }
            None
        }
        (Value::Nothing, Value::Nothing) => None,
        (Value::Text(shape, found), Value::Text(wanted_shape, wanted)) => {
            let same = shape == wanted_shape && found == wanted;
            (!same).then(|| format!("{found:?} of shape {shape:?}, and must be {wanted:?} of {wanted_shape:?}"))
        }
        (found, wanted) => Some(format!("it is {found:?}, and must be {wanted:?}")),
    })
}

fn is_near(found: f64, wanted: f64, (relative, absolute): (f64, f64)) -> bool {
    if found.is_nan() || wanted.is_nan() || found.is_infinite() || wanted.is_infinite() {
        return (found.is_nan() && wanted.is_nan()) || found == wanted;
    }
    (found - wanted).abs() <= absolute + relative * wanted.abs()
}

/// Lengths that a model's inputs may have where a fuzzer tries it, and elements.
const FUZZED_LENGTH_MAX: usize = 64;

/// Bytes never panic the reader of models, nor what makes programs of them; nothing is run.
///
/// # Errors
/// Never: what must hold is that this returns.
pub fn bytes_are_read(bytes: &[u8]) -> Result<(), String> {
    let Ok(model) = Model::from_bytes("bytes", bytes) else { return Ok(()) };
    let mut inputs = Vec::new();
    for declared in model.inputs() {
        let Some(Kind::Tensor { element, shape }) = &declared.kind else { return Ok(()) };
        let length = |length: &AxisLength| if let AxisLength::Fixed(length) = length { *length } else { 2 };
        let lengths: Vec<usize> = shape.iter().flatten().map(length).collect();
        if lengths.iter().any(|&length| length > FUZZED_LENGTH_MAX) {
            return Ok(());
        }
        inputs.push((*element, lengths));
    }
    // Whether it says shapes or an error is the model's business.
    let _ = model.output_kinds(&inputs);
    Ok(())
}

/// Cases packed into one file: JSON of the bytes of each file of each case, in base 16, compressed by gzip.
///
/// # Errors
/// If the file cannot be read, or is none of these.
pub fn packed_cases(path: &Path) -> Result<BTreeMap<String, Files>, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(|error| at(&error))?;
    let json: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_reader(flate2::read::GzDecoder::new(file)).map_err(|error| at(&error))?;
    let byte = |text: &str, at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or("-"), 16);
    let bytes = |text: &String| (0..text.len()).step_by(2).map(|at| byte(text, at)).collect::<Result<Vec<u8>, _>>();
    let case = |(name, files): (String, BTreeMap<String, String>)| {
        let files = files.into_iter().map(|(file, text)| Ok((file, bytes(&text).map_err(|error| at(&error))?)));
        Ok((name, files.collect::<Result<Files, String>>()?))
    };
    json.into_iter().map(case).collect()
}
