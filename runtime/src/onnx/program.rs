//! Programs of a model: what inputs one is for, how it is made, and what it gives.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::element::ElementType;
use super::error::{self, Failure};
use super::evaluate::Evaluation;
use super::graph::{AxisLength, Kind};
use super::value::{self, Array, Value};
use super::{Model, Result};
use crate::function::{DynFunction, compile_dyn, spec};
use crate::tensor::{Dim, Dims, Tensor, Var};

/// Elements that an input may have for programs to be made for its values.
const VALUES_MAX: usize = 64;
/// Programs that a model keeps.
pub(super) const PROGRAMS_MAX: usize = 64;

/// What is learnt by running it.
#[derive(Default)]
pub(super) struct State {
    pub(super) programs: FxHashMap<Signature, Program>,
    /// Inputs whose values programs must know.
    pub(super) known_inputs: BTreeSet<usize>,
    /// Whether shapes follow from what the model computes.
    pub(super) is_dynamic: bool,
    /// Whether the model needs all lengths as numbers.
    pub(super) wants_numbers: bool,
}

/// What inputs a program is for: types and shapes, and of some the elements.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Signature(Vec<(ElementType, Vec<Length>, Option<Vec<u8>>)>);

/// A length that a program is for: a number, or any of a variable's.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Length {
    Number(usize),
    Variable(Var),
}

#[derive(Clone)]
pub(super) struct Program {
    function: DynFunction,
    /// What its results are.
    results: Arc<Vec<Form>>,
}

/// A value with its tensors taken out.
pub(super) enum Form {
    Tensor(ElementType),
    Sequence(Vec<Form>),
    Nothing,
    Text(Vec<usize>, Arc<Vec<String>>),
}

impl Model {
    /// What a program for these inputs is found by, with the tensors that it is called with; none where there is no program for them.
    pub(super) fn signature(&self, inputs: &[Value]) -> Result<Option<(Signature, Vec<Tensor>)>> {
        let (is_dynamic, wants_numbers, known) = {
            let state = self.state();
            (state.is_dynamic, state.wants_numbers, state.known_inputs.clone())
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
            let shape = array.tensor.shape()?;
            let is_open = bytes.is_none() && !wants_numbers;
            let length = |axis: usize| match self.variable(number, axis) {
                Some(variable) if is_open && variable.bounds().contains(&(shape[axis] as i64)) => {
                    Length::Variable(variable)
                }
                _ => Length::Number(shape[axis]),
            };
            parts.push((array.element, (0..shape.len()).map(length).collect(), bytes));
        }
        Ok(Some((Signature(parts), arrays)))
    }

    /// The variable that the length of an input's axis is.
    fn variable(&self, input: usize, axis: usize) -> Option<Var> {
        let Some(Kind::Tensor { shape: Some(shape), .. }) = &self.0.inputs.get(input)?.kind else { return None };
        let AxisLength::Named(name) = shape.get(axis)? else { return None };
        self.0.variables.iter().find(|(other, _)| other == name).map(|(_, variable)| variable.clone())
    }

    /// The model as a program for inputs of this signature.
    pub(super) fn compiled(&self, signature: &Signature, inputs: &[Value]) -> std::result::Result<Program, Failure> {
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
            specs.push(spec(dtype, shape.iter().map(Length::dim).collect::<Dims>()));
        }
        let (failure, forms) = (RefCell::new(None), RefCell::new(Vec::new()));
        let function = compile_dyn(&specs, |tensors| {
            let mut tensors = tensors.into_iter();
            let mut values = Vec::with_capacity(inputs.len());
            for (number, ((element, shape, _), known)) in signature.0.iter().zip(&elements).enumerate() {
                let tensor = match (known, element.dtype()) {
                    (Some(known), Some(dtype)) => value::constant(dtype, &numbers(shape), known),
                    _ => tensors.next().unwrap_or_else(|| Tensor::zeros([0usize])),
                };
                let follows = follows_itself(&tensor, number);
                values.push(Value::Tensor(Array {
                    tensor,
                    element: *element,
                    known: known.clone(),
                    follows,
                    dims: None,
                }));
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

impl Length {
    fn dim(&self) -> Dim {
        match self {
            Length::Number(length) => Dim::from(*length),
            Length::Variable(variable) => Dim::from(variable),
        }
    }
}

impl Signature {
    pub(super) fn has_variables(&self) -> bool {
        self.0.iter().any(|(_, shape, _)| shape.iter().any(|length| matches!(length, Length::Variable(_))))
    }
}

fn numbers(shape: &[Length]) -> Vec<usize> {
    shape.iter().map(|length| if let Length::Number(length) = length { *length } else { 0 }).collect()
}

/// An input by itself, if programs may be made for its values.
pub(super) fn follows_itself(tensor: &Tensor, number: usize) -> Option<Vec<usize>> {
    let is_short = tensor.numel().is_ok_and(|count| count <= VALUES_MAX);
    let counts = tensor.dtype().is_ok_and(|dtype| dtype.is_integer() || dtype.is_bool());
    (is_short && counts).then(|| vec![number])
}

pub(super) fn called(program: &Program, arrays: &[Tensor]) -> Result<Vec<Value>> {
    let mut results = program.function.call(&arrays.iter().collect::<Vec<_>>())?.into_iter();
    program.results.iter().map(|form| form.filled(&mut results)).collect()
}

/// The type and shape of a value.
pub(super) fn kind_of(value: &Value) -> Result<Kind> {
    let shape = |lengths: Vec<usize>| Some(lengths.into_iter().map(AxisLength::Fixed).collect());
    Ok(match value {
        Value::Tensor(array) => Kind::Tensor { element: array.element, shape: shape(array.tensor.shape()?) },
        Value::Text(lengths, _) => Kind::Tensor { element: ElementType::Text, shape: shape(lengths.clone()) },
        Value::Sequence(values) => match values.first() {
            Some(first) => Kind::Sequence(Box::new(kind_of(first)?)),
            None => Kind::Other("an empty sequence"),
        },
        Value::Nothing => Kind::Other("nothing"),
    })
}

/// What a value is, and its tensors.
pub(super) fn form_of(value: &Value, tensors: &mut Vec<Tensor>) -> Form {
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
