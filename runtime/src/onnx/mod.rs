//! Models of the ONNX format as functions: [`load`] a file, [`run`](Model::run) it.
//!
//! ```no_run
//! # use warpweft::{Tensor, onnx};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = onnx::load("digits.onnx")?;
//! for input in model.inputs() {
//!     println!("{input}"); // images: float[batch, 1, 28, 28]
//! }
//! let outputs = model.run(&[&Tensor::rand([2, 1, 28, 28])])?;
//! # Ok(()) }
//! ```
//!
//! ```text
//! file --read--> graph, checked --evaluate--> lazy tensors --compile_dyn--> a program for each shape of the inputs
//!                                 (`ops`)
//! ```
//!
//! A model is compiled when it is first called with inputs of some shapes, and called as one program from then on. Constants of the file are bound once.
//! What shapes depend on (the target of a reshape, the number of rounds of a loop) is computed while the program is built, where it follows
//! from constants and the inputs' shapes; if it is an input itself, programs are made for its values; and where it follows from what the model computes
//! (`NonZero`, say), the model is walked at each call and computed in parts, with kernels that are kept.
//!
//! Not here: complex numbers, maps, images in files. What is not there is an error that names the file, the node, and what is missing.
//! Tested by the cases of the package `onnx` (`./x onnx`; some of them in `tests/it/onnx.rs`), and by a fuzz target (`onnx_model`).

mod call;
mod data;
mod element;
mod error;
mod evaluate;
mod graph;
mod ops;
mod proto;
mod read;
mod value;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::function::{DynFunction, compile_dyn, spec};
use crate::tensor::Tensor;
pub use data::{read_value, write_value};
pub use element::ElementType;
use error::Failure;
pub use error::{Error, Place};
use evaluate::Evaluation;
use graph::Whole;
pub use graph::{AxisLength, Declared, Kind};
use read::Reader;
pub use value::{Array, Value};

/// What calls that read or run models give.
pub type Result<T> = std::result::Result<T, Error>;

/// Elements that an input may have for programs to be made for its values.
const VALUES_MAX: usize = 1024;
/// Programs that a model keeps.
const PROGRAMS_MAX: usize = 64;

/// A model of a file. Cloning shares it; any thread may run it.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    file: PathBuf,
    whole: Whole,
    /// The inputs that must be given.
    inputs: Vec<Declared>,
    state: Mutex<State>,
}

/// What is learnt by running it.
#[derive(Default)]
struct State {
    programs: FxHashMap<Signature, Program>,
    /// Inputs whose values programs must know.
    known_inputs: BTreeSet<usize>,
    /// Whether shapes follow from what the model computes.
    is_dynamic: bool,
}

/// What inputs a program is for: types and shapes, and of some the elements.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Signature(Vec<(ElementType, Vec<usize>, Option<Vec<u8>>)>);

#[derive(Clone)]
struct Program {
    function: DynFunction,
    /// What its results are.
    results: Arc<Vec<Form>>,
}

/// A value with its tensors taken out.
enum Form {
    Tensor(ElementType),
    Sequence(Vec<Form>),
    Nothing,
    Text(Vec<usize>, Arc<Vec<String>>),
}

/// Reads the model of a file.
///
/// # Errors
/// If the file cannot be read, is no model, or names data that is not there.
pub fn load(path: impl AsRef<Path>) -> Result<Model> {
    let file = path.as_ref();
    let bytes =
        std::fs::read(file).map_err(|error| Error::File { file: file.to_path_buf(), message: error.to_string() })?;
    let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    Model::read(file, folder.map(Path::to_path_buf), &bytes)
}

impl Model {
    /// The model of these bytes, which name no data in other files; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`load`].
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Model> {
        Model::read(Path::new(name), None, bytes)
    }

    fn read(file: &Path, folder: Option<PathBuf>, bytes: &[u8]) -> Result<Model> {
        let whole = Reader { file, folder }.model(bytes)?;
        let graph = &whole.graph;
        let is_constant = |input: &&Declared| graph.constants.iter().any(|(name, _)| *name == input.name);
        let inputs = graph.inputs.iter().filter(|input| !is_constant(input)).cloned().collect();
        Ok(Model(Arc::new(Inner { file: file.to_path_buf(), whole, inputs, state: Mutex::default() })))
    }

    /// The inputs that must be given, in order.
    pub fn inputs(&self) -> &[Declared] {
        &self.0.inputs
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[Declared] {
        &self.0.whole.graph.outputs
    }

    /// The version of the standard ops that the model is written in.
    pub fn version(&self) -> Option<i64> {
        self.0.whole.versions.get("").copied()
    }

    /// Runs the model on tensors, one for each input, and gives a tensor for each output.
    ///
    /// # Errors
    /// If an input is not what the model says, a node cannot be computed, or an output is no tensor.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let values = self.0.inputs.iter().zip(inputs).map(|(declared, tensor)| {
            let element = match &declared.kind {
                // Elements of a narrower type are held in this one.
                Some(Kind::Tensor { element, .. }) if element.dtype() == tensor.dtype().ok() => *element,
                _ => tensor.dtype()?.into(),
            };
            Ok(Value::Tensor(Array::of((*tensor).clone(), element)?))
        });
        let mut values = values.collect::<Result<Vec<Value>>>()?;
        // What is too many is refused with the rest.
        values.extend((self.0.inputs.len()..inputs.len()).map(|_| Value::Nothing));
        let tensor = |(number, value): (usize, Value)| match value {
            Value::Tensor(array) => Ok(array.tensor),
            other => {
                let name = self.outputs().get(number).map_or("", |declared| declared.name.as_str());
                let message = format!("output {number} '{name}' is {}: ask for it by run_values", other.description());
                Err(Error::Input { file: self.0.file.clone(), message })
            }
        };
        self.run_values(&values)?.into_iter().enumerate().map(tensor).collect()
    }

    /// As [`Model::run`], of values of any kind: sequences, optionals, text, elements of narrow types.
    ///
    /// # Errors
    /// If an input is not what the model says, or a node cannot be computed.
    pub fn run_values(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.check_inputs(inputs)?;
        while let Some((signature, arrays)) = self.signature(inputs)? {
            let known = self.state().programs.get(&signature).cloned();
            if let Some(program) = known {
                return called(&program, &arrays);
            }
            match self.compiled(&signature, inputs) {
                Ok(program) => {
                    let mut state = self.state();
                    if state.programs.len() >= PROGRAMS_MAX {
                        state.programs.clear();
                    }
                    state.programs.insert(signature, program.clone());
                    drop(state);
                    return called(&program, &arrays);
                }
                Err(Failure::Unknown(Some(input))) if is_small(inputs.get(input)) => {
                    self.state().known_inputs.insert(input);
                }
                Err(Failure::Unknown(_)) => self.state().is_dynamic = true,
                Err(failure) => return Err(self.error(failure)),
            }
        }
        let outputs = Evaluation::new(&self.0.whole, &self.0.file, true).outputs(inputs.to_vec());
        let outputs = outputs.map_err(|failure| self.error(failure))?;
        let mut tensors = Vec::new();
        outputs.iter().for_each(|output| _ = form_of(output, &mut tensors));
        Tensor::realize_all(&tensors.iter().collect::<Vec<_>>())?;
        Ok(outputs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, failure: Failure) -> Error {
        let format = |message: String| Error::Format { file: self.0.file.clone(), message };
        match failure {
            Failure::Inside(error) => *error,
            Failure::Wrong(message) | Failure::Unsupported(message) => format(message),
            Failure::Unknown(_) => format("a value that shapes depend on is not known".to_string()),
            Failure::Tensor(error) => Error::Tensor(error),
        }
    }

    /// Inputs must be as many as declared, and each of the declared type and shape.
    fn check_inputs(&self, inputs: &[Value]) -> Result<()> {
        let refused = |message: String| Err(Error::Input { file: self.0.file.clone(), message });
        let declared = &self.0.inputs;
        if inputs.len() != declared.len() {
            let names: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
            return refused(format!(
                "the model has {} inputs ({}), and {} are given",
                names.len(),
                names.join(", "),
                inputs.len()
            ));
        }
        let mut named: FxHashMap<&str, usize> = FxHashMap::default();
        for (number, (input, declared)) in inputs.iter().zip(declared).enumerate() {
            let Some(kind) = &declared.kind else { continue };
            if !fits(input, kind, &mut named)? {
                let given = input.description();
                return refused(format!("input {number} '{}' is {given}, and must be {kind}", declared.name));
            }
        }
        Ok(())
    }

    /// What a program for these inputs is found by, with the tensors that it is called with; none where there is no program for them.
    fn signature(&self, inputs: &[Value]) -> Result<Option<(Signature, Vec<Tensor>)>> {
        let (is_dynamic, known) = {
            let state = self.state();
            (state.is_dynamic, state.known_inputs.clone())
        };
        if is_dynamic {
            return Ok(None);
        }
        let (mut parts, mut arrays) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for (number, input) in inputs.iter().enumerate() {
            let Value::Tensor(array) = input else { return Ok(None) };
            let bytes = if known.contains(&number) { Some(array.tensor.to_bytes()?) } else { None };
            if bytes.is_none() {
                arrays.push(array.tensor.clone());
            }
            parts.push((array.element, array.tensor.shape()?, bytes));
        }
        Ok(Some((Signature(parts), arrays)))
    }

    /// The model as a program for inputs of this signature.
    fn compiled(&self, signature: &Signature, inputs: &[Value]) -> std::result::Result<Program, Failure> {
        let elements: Vec<_> = inputs
            .iter()
            .zip(&signature.0)
            .map(|(input, (.., bytes))| match input {
                Value::Tensor(array) if bytes.is_some() => {
                    array.tensor.elements().map(|elements| Some(Arc::new(elements)))
                }
                _ => Ok(None),
            })
            .collect::<crate::Result<_>>()?;
        let mut specs = Vec::new();
        for (element, shape, _) in signature.0.iter().filter(|part| part.2.is_none()) {
            let Some(dtype) = element.dtype() else { error::unsupported!("text as an input of a program") };
            specs.push(spec(dtype, shape.clone()));
        }
        let (failure, forms) = (RefCell::new(None), RefCell::new(Vec::new()));
        let function = compile_dyn(&specs, |tensors| {
            let mut tensors = tensors.into_iter();
            let mut values = Vec::with_capacity(inputs.len());
            for (number, ((element, shape, _), known)) in signature.0.iter().zip(&elements).enumerate() {
                let tensor = match (known, element.dtype()) {
                    (Some(known), Some(dtype)) => value::constant(dtype, shape, known),
                    _ => tensors.next().unwrap_or_else(|| Tensor::zeros([0usize])),
                };
                let array = Array { tensor, element: *element, known: known.clone(), input: Some(number) };
                values.push(Value::Tensor(array));
            }
            let mut results = Vec::new();
            match Evaluation::new(&self.0.whole, &self.0.file, false).outputs(values) {
                Ok(outputs) => {
                    *forms.borrow_mut() = outputs.iter().map(|output| form_of(output, &mut results)).collect()
                }
                Err(found) => *failure.borrow_mut() = Some(found),
            }
            Ok(results)
        });
        match failure.into_inner() {
            Some(failure) => Err(failure),
            None => Ok(Program { function: function?, results: Arc::new(forms.into_inner()) }),
        }
    }
}

/// Whether programs may be made for the values of an input.
fn is_small(input: Option<&Value>) -> bool {
    matches!(input, Some(Value::Tensor(array)) if array.tensor.numel().is_ok_and(|count| count <= VALUES_MAX))
}

/// Whether a value is of a kind; lengths of one name must be the same.
fn fits<'k>(value: &Value, kind: &'k Kind, named: &mut FxHashMap<&'k str, usize>) -> Result<bool> {
    Ok(match (value, kind) {
        (Value::Tensor(array), Kind::Tensor { element, shape }) => {
            let lengths = array.tensor.shape()?;
            array.element == *element && shape.as_ref().is_none_or(|shape| lengths_fit(&lengths, shape, named))
        }
        (Value::Text(lengths, _), Kind::Tensor { element: ElementType::Text, shape }) => {
            shape.as_ref().is_none_or(|shape| lengths_fit(lengths, shape, named))
        }
        (Value::Sequence(values), Kind::Sequence(of)) => {
            for value in values {
                if !fits(value, of, &mut FxHashMap::default())? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Nothing, Kind::Optional(_)) => true,
        (value, Kind::Optional(of)) => fits(value, of, named)?,
        _ => false,
    })
}

fn lengths_fit<'k>(lengths: &[usize], shape: &'k [AxisLength], named: &mut FxHashMap<&'k str, usize>) -> bool {
    let fits = |(length, declared): (&usize, &'k AxisLength)| match declared {
        AxisLength::Fixed(wanted) => wanted == length,
        AxisLength::Named(name) => named.entry(name).or_insert(*length) == length,
        AxisLength::Any => true,
    };
    lengths.len() == shape.len() && lengths.iter().zip(shape).all(fits)
}

fn called(program: &Program, arrays: &[Tensor]) -> Result<Vec<Value>> {
    let mut results = program.function.call(&arrays.iter().collect::<Vec<_>>())?.into_iter();
    program.results.iter().map(|form| form.filled(&mut results)).collect()
}

/// What a value is, and its tensors.
fn form_of(value: &Value, tensors: &mut Vec<Tensor>) -> Form {
    match value {
        Value::Tensor(array) => {
            tensors.push(array.tensor.clone());
            Form::Tensor(array.element)
        }
        Value::Sequence(values) => Form::Sequence(values.iter().map(|value| form_of(value, tensors)).collect()),
        Value::Nothing => Form::Nothing,
        Value::Text(shape, texts) => Form::Text(shape.clone(), texts.clone()),
    }
}

impl Form {
    fn filled(&self, tensors: &mut impl Iterator<Item = Tensor>) -> Result<Value> {
        Ok(match self {
            Form::Tensor(element) => match tensors.next() {
                Some(tensor) => Value::Tensor(Array::of(tensor, *element)?),
                None => Value::Nothing, // there is a result for each
            },
            Form::Sequence(forms) => {
                Value::Sequence(forms.iter().map(|form| form.filled(tensors)).collect::<Result<_>>()?)
            }
            Form::Nothing => Value::Nothing,
            Form::Text(shape, texts) => Value::Text(shape.clone(), texts.clone()),
        })
    }
}

impl std::fmt::Display for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{}: {kind}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |declared: &[Declared]| declared.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "Model({}; {} -> {})", self.0.file.display(), list(self.inputs()), list(self.outputs()))
    }
}
