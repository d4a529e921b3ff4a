//! `warpweft onnx MODEL.onnx`: runs a model on given or random inputs, and prints what went in, what came out, and what that took.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use warpweft::onnx::{self, Array, AxisLength, Declared, ElementType, Kind, Model, Value};
use warpweft::{DType, Tensor};

use crate::bench::duration;

/// Later calls go on for as long as this, unless their number is given.
const LATER: Duration = Duration::from_millis(200);

/// Arguments of `warpweft onnx`.
#[derive(Args)]
pub(crate) struct Onnx {
    /// The model.
    model: PathBuf,
    /// A folder with `input_0.pb`, `input_1.pb`, ...: a tensor of the ONNX format each. Without it inputs are random.
    #[arg(long)]
    inputs: Option<PathBuf>,
    /// A folder that outputs are written to, as `output_0.pb` and so on.
    #[arg(long)]
    outputs: Option<PathBuf>,
    /// The length of an axis that the model names, for random inputs: `batch=4`; 1 if not given.
    #[arg(long = "dim", value_parser = named_length)]
    lengths: Vec<(String, usize)>,
    /// How many calls follow the first one.
    #[arg(long)]
    calls: Option<u32>,
    /// Print the elements of outputs too.
    #[arg(long)]
    values: bool,
}

fn named_length(text: &str) -> Result<(String, usize), String> {
    let (name, length) = text.split_once('=').ok_or("it must be NAME=LENGTH")?;
    let length = length.parse().map_err(|_| format!("{length:?} is no length"))?;
    Ok((name.to_string(), length))
}

/// Runs the model.
pub(crate) fn run(arguments: &Onnx) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let model = onnx::load(&arguments.model)?;
    let read = start.elapsed();
    let mut inputs = Vec::new();
    for (number, declared) in model.inputs().iter().enumerate() {
        let value = match &arguments.inputs {
            Some(folder) => given(folder, number, declared)?,
            None => random(declared, &arguments.lengths)?,
        };
        inputs.extend(value);
    }
    for (declared, value) in model.inputs().iter().zip(&inputs) {
        println!("input   {}: {}", declared.name, value.description());
    }
    let start = Instant::now();
    let outputs = model.run_values(&inputs)?;
    let first = start.elapsed();
    let later = later_calls(&model, &inputs, arguments.calls)?;
    for (declared, value) in model.outputs().iter().zip(&outputs) {
        println!("output  {}: {}", declared.name, value.description());
        if arguments.values
            && let Value::Tensor(array) = value
        {
            println!("{}", array.tensor());
        }
    }
    let later = later
        .map_or(String::new(), |(least, calls)| format!(", then {} (least of {calls})", duration(least.as_secs_f64())));
    println!("read in {}, first call {}{later}", duration(read.as_secs_f64()), duration(first.as_secs_f64()));
    if let Some(folder) = &arguments.outputs {
        std::fs::create_dir_all(folder)?;
        for (number, (declared, value)) in model.outputs().iter().zip(&outputs).enumerate() {
            std::fs::write(folder.join(format!("output_{number}.pb")), onnx::write_value(&declared.name, value)?)?;
        }
    }
    Ok(())
}

/// The least that a later call takes, and how many there were.
fn later_calls(model: &Model, inputs: &[Value], calls: Option<u32>) -> Result<Option<(Duration, u32)>, onnx::Error> {
    let (begin, mut least, mut made) = (Instant::now(), None, 0);
    while calls.map_or_else(|| begin.elapsed() < LATER, |calls| made < calls) {
        let start = Instant::now();
        model.run_values(inputs)?;
        let elapsed = start.elapsed();
        least = Some(least.map_or(elapsed, |least: Duration| least.min(elapsed)));
        made += 1;
    }
    Ok(least.map(|least| (least, made)))
}

/// The input of a file; none if there is no file and the input may be absent.
fn given(folder: &Path, number: usize, declared: &Declared) -> Result<Option<Value>, Box<dyn Error>> {
    let file = folder.join(format!("input_{number}.pb"));
    match std::fs::read(&file) {
        Ok(bytes) => Ok(Some(onnx::read_value(&file.to_string_lossy(), &bytes, declared.kind.as_ref())?)),
        Err(error) => Err(format!("{}: {error} (input '{}')", file.display(), declared.name).into()),
    }
}

/// A random value of the declared type: normal numbers, small integers.
fn random(declared: &Declared, lengths: &[(String, usize)]) -> Result<Option<Value>, Box<dyn Error>> {
    let refused = |why: &str| format!("input '{}' is {why}: give it as a file, by --inputs", declared.name);
    let Some(Kind::Tensor { element, shape: Some(shape) }) = &declared.kind else {
        return Err(refused("of no type that random values are made of").into());
    };
    let length = |axis: &AxisLength| match axis {
        AxisLength::Fixed(length) => *length,
        AxisLength::Named(name) => lengths.iter().find(|(other, _)| other == name).map_or(1, |(_, length)| *length),
        AxisLength::Any => 1,
    };
    let shape: Vec<usize> = shape.iter().map(length).collect();
    let tensor = match element {
        ElementType::Plain(dtype) if dtype.is_float() => Tensor::randn(shape).cast(*dtype),
        ElementType::Plain(DType::BOOL) => Tensor::rand(shape).lt(0.5),
        ElementType::Plain(dtype) => Tensor::randint(0, 2, shape).cast(*dtype),
        _ => return Err(refused(&element.to_string()).into()),
    };
    tensor.realize()?;
    Ok(Some(Value::Tensor(Array::new(tensor)?)))
}
