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
mod inputs;
mod lengths;
mod ops;
mod program;
mod proto;
mod read;
mod value;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tensor::{Tensor, Var};
pub use data::{read_value, write_value};
pub use element::ElementType;
use error::Failure;
pub use error::{Error, NodeLocation};
use evaluate::Evaluation;
use graph::Whole;
pub use graph::{AxisLength, Declared, Kind};
use inputs::names_of;
use program::{PROGRAMS_MAX, State, called, follows_itself, form_of, kind_of};
use read::Reader;
pub use value::{Array, Value};

/// What calls that read or run models give.
pub type Result<T> = std::result::Result<T, Error>;

/// A model of a file. Cloning shares it; any thread may run it.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    file: PathBuf,
    whole: Arc<Whole>,
    /// Lengths that stay open within bounds, by the names that the model has for them.
    variables: Vec<(String, Var)>,
    /// The inputs that must be given.
    inputs: Vec<Declared>,
    state: Mutex<State>,
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
        let (file, whole) = (file.to_path_buf(), Arc::new(whole));
        Ok(Model(Arc::new(Inner { file, whole, variables: Vec::new(), inputs, state: Mutex::default() })))
    }

    /// The model with lengths that stay open: axes that it declares by these names have any length within the bounds, and one program serves them
    /// all. Memory is planned for the longest. A model that cannot be compiled so is compiled for each shape, as without.
    ///
    /// ```no_run
    /// # use warpweft::onnx;
    /// let model = onnx::load("digits.onnx")?.with_lengths(&[("batch", 1..=64)])?;
    /// # Ok::<(), onnx::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the model declares no axis of that name, or there is no length within the bounds.
    pub fn with_lengths(&self, bounds: &[(&str, RangeInclusive<usize>)]) -> Result<Model> {
        let refused = |message: String| Error::Input { file: self.0.file.clone(), message };
        let declared: BTreeSet<&str> = self.0.inputs.iter().flat_map(names_of).collect();
        let mut variables = Vec::new();
        for (number, (name, bounds)) in bounds.iter().enumerate() {
            if !declared.contains(name) {
                let there: Vec<&str> = declared.into_iter().collect();
                return Err(refused(format!("no input has an axis '{name}': there are {}", there.join(", "))));
            }
            // Names of the format need not be names of variables.
            let letters: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let variable = Var::new(&format!("n{number}_{letters}"), bounds.clone());
            variables.push(((*name).to_string(), variable.map_err(|error| refused(error.kind.to_string()))?));
        }
        let Inner { file, whole, inputs, .. } = &*self.0;
        let (file, whole, inputs) = (file.clone(), whole.clone(), inputs.clone());
        Ok(Model(Arc::new(Inner { file, whole, variables, inputs, state: Mutex::default() })))
    }

    /// The inputs that must be given, in order.
    pub fn inputs(&self) -> &[Declared] {
        &self.0.inputs
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[Declared] {
        &self.0.whole.graph.outputs
    }

    /// How many programs are ready: one for each shape of the inputs that the model was run with, or for all within bounds.
    pub fn programs(&self) -> usize {
        self.state().programs.len()
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
            let has_variables = signature.has_variables();
            match self.compiled(&signature, inputs) {
                Ok(program) => {
                    let mut state = self.state();
                    if state.programs.len() >= PROGRAMS_MAX {
                        // Values that are others at each call are not worth a program each.
                        state.is_dynamic = !state.known_inputs.is_empty();
                        state.programs.clear();
                    }
                    state.programs.insert(signature, program.clone());
                    drop(state);
                    return called(&program, &arrays);
                }
                // What cannot be done with open lengths may be done with numbers.
                Err(_) if has_variables => self.state().wants_numbers = true,
                Err(Failure::Unknown(follows)) => {
                    let mut state = self.state();
                    let before = state.known_inputs.len();
                    state.known_inputs.extend(follows.unwrap_or_default());
                    state.is_dynamic = state.known_inputs.len() == before;
                }
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

    /// The types and shapes of the outputs for inputs of these, where they follow from them; nothing is run.
    ///
    /// # Errors
    /// If a node cannot be computed, or a shape follows from elements of inputs.
    pub fn output_kinds(&self, inputs: &[(ElementType, Vec<usize>)]) -> Result<Vec<Kind>> {
        let input = |(number, (element, shape)): (usize, &(ElementType, Vec<usize>))| {
            let Some(dtype) = element.dtype() else {
                error::unsupported!("text as an input of which nothing is known")
            };
            let tensor = Tensor::zeros_of(shape.clone(), dtype);
            tensor.dtype()?;
            let follows = follows_itself(&tensor, number);
            Ok(Value::Tensor(Array { tensor, element: *element, known: None, follows, dims: None }))
        };
        let inputs = inputs.iter().enumerate().map(input).collect::<std::result::Result<Vec<Value>, Failure>>();
        let outputs = inputs.and_then(|inputs| Evaluation::new(&self.0.whole, &self.0.file, false).outputs(inputs));
        let outputs = outputs.map_err(|failure| self.error(failure))?;
        outputs.iter().map(kind_of).collect()
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
