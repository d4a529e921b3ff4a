//! What an op sees of the node that calls it: inputs, attributes, the version of its domain, and what it may ask for.
//!
//! An op gives values, or a [`Failure`]; whoever called it adds where that was. An input that is not of the kind that the op needs, and an attribute of
//! another type, are failures that name it.

use std::borrow::Cow;
use std::sync::Arc;

use warpweft_compiler::dtype::Elements;
use warpweft_compiler::ir::Dim;

use super::element::ElementType;
use super::error::{Failure, unsupported, wrong};
use super::evaluate::{Evaluation, Scope};
use super::graph::{Attribute, Graph, Node};
use super::value::{self, Array, Value};
use crate::DType;
use crate::tensor::Tensor;

/// What an op gives.
pub(super) type Done = Result<Vec<Value>, Failure>;

pub(super) struct Call<'c> {
    pub(super) evaluation: &'c Evaluation<'c>,
    pub(super) scope: &'c Scope<'c>,
    pub(super) node: &'c Node,
    /// Of the ops of the node's domain.
    pub(super) version: i64,
    pub(super) inputs: Vec<Option<Value>>,
}

/// A tensor as the one result, with the type that it is held in.
pub(super) fn one(tensor: Tensor) -> Done {
    Ok(vec![Value::Tensor(Array::new(tensor)?)])
}

/// As [`one`], of a type of the format.
pub(super) fn one_of(tensor: Tensor, element: ElementType) -> Done {
    Ok(vec![Value::Tensor(Array::of(tensor, element)?)])
}

/// Several tensors as results.
pub(super) fn all(tensors: impl IntoIterator<Item = Tensor>) -> Done {
    tensors.into_iter().map(|tensor| Ok(Value::Tensor(Array::new(tensor)?))).collect()
}

/// Elements of a tensor of these lengths; more than there can be are the most of `i64`.
pub(super) fn product(lengths: &[i64]) -> i64 {
    lengths.iter().fold(1, |product: i64, &length| product.saturating_mul(length))
}

/// A number that can be multiplied with a stride, and added to, without leaving `i64`.
pub(super) fn within(number: i64) -> i64 {
    number.clamp(-(1 << 36), 1 << 36)
}

/// The axis counted from the start.
pub(super) fn resolve(axis: i64, rank: usize) -> Result<usize, Failure> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    match from_start.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank) {
        Some(axis) => Ok(axis),
        None => wrong!("axis {axis} of a tensor of {rank} axes: it must lie from -{rank} to {}", rank as i64 - 1),
    }
}

/// Inputs.
impl<'c> Call<'c> {
    pub(super) fn input(&self, number: usize) -> Option<&Value> {
        self.inputs.get(number)?.as_ref()
    }

    fn input_name(&self, number: usize) -> &str {
        self.node.inputs.get(number).map_or("", String::as_str)
    }

    pub(super) fn value(&self, number: usize) -> Result<&Value, Failure> {
        match self.input(number) {
            Some(value) => Ok(value),
            None => wrong!("input {number} is missing: {} are given", self.inputs.len()),
        }
    }

    pub(super) fn array(&self, number: usize) -> Result<&Array, Failure> {
        match self.value(number)? {
            Value::Tensor(array) => Ok(array),
            Value::Text(..) => unsupported!("text as input {number} '{}'", self.input_name(number)),
            other => {
                wrong!("input {number} '{}' is {} and must be a tensor", self.input_name(number), other.description())
            }
        }
    }

    pub(super) fn tensor(&self, number: usize) -> Result<&Tensor, Failure> {
        Ok(&self.array(number)?.tensor)
    }

    pub(super) fn optional(&self, number: usize) -> Result<Option<&Tensor>, Failure> {
        match self.input(number) {
            None | Some(Value::Nothing) => Ok(None),
            Some(_) => self.tensor(number).map(Some),
        }
    }

    pub(super) fn has(&self, number: usize) -> bool {
        !matches!(self.input(number), None | Some(Value::Nothing))
    }

    /// All inputs as tensors.
    pub(super) fn tensors(&self) -> Result<Vec<&Tensor>, Failure> {
        (0..self.inputs.len()).map(|number| self.tensor(number)).collect()
    }

    /// The elements of an input, which the program must know.
    pub(super) fn elements(&self, number: usize) -> Result<Arc<Elements>, Failure> {
        self.evaluation.elements(self.array(number)?)
    }

    pub(super) fn integers(&self, number: usize) -> Result<Vec<i64>, Failure> {
        let found = value::integers(self.elements(number)?.as_ref());
        found.map_err(|failure| self.naming(number, failure))
    }

    /// As [`Call::integers`], if the input is given.
    pub(super) fn integers_if(&self, number: usize) -> Result<Option<Vec<i64>>, Failure> {
        if self.has(number) { self.integers(number).map(Some) } else { Ok(None) }
    }

    /// As [`Call::integers`], of lengths and the like: what no tensor can have counts as the most that arithmetic bears.
    pub(super) fn sizes(&self, number: usize) -> Result<Vec<i64>, Failure> {
        Ok(self.integers(number)?.into_iter().map(within).collect())
    }

    pub(super) fn sizes_if(&self, number: usize) -> Result<Option<Vec<i64>>, Failure> {
        if self.has(number) { self.sizes(number).map(Some) } else { Ok(None) }
    }

    fn naming(&self, number: usize, failure: Failure) -> Failure {
        match failure {
            Failure::Wrong(message) => {
                Failure::Wrong(format!("input {number} '{}': {message}", self.input_name(number)))
            }
            other => other,
        }
    }

    /// Lengths that an input lists, variables among them.
    pub(super) fn dims(&self, number: usize) -> Result<Vec<Dim>, Failure> {
        match super::lengths::dims_of(self.array(number)?) {
            Some(dims) => Ok(dims),
            None => Ok(self.sizes(number)?.into_iter().map(Dim::from).collect()),
        }
    }

    pub(super) fn integer(&self, number: usize) -> Result<i64, Failure> {
        match self.integers(number)?[..] {
            [one] => Ok(one),
            ref other => wrong!("input {number} '{}' has {} elements, not 1", self.input_name(number), other.len()),
        }
    }

    pub(super) fn floats(&self, number: usize) -> Result<Vec<f64>, Failure> {
        Ok(value::floats(self.elements(number)?.as_ref()))
    }

    pub(super) fn float(&self, number: usize) -> Result<f64, Failure> {
        match self.floats(number)?[..] {
            [one] => Ok(one),
            ref other => wrong!("input {number} '{}' has {} elements, not 1", self.input_name(number), other.len()),
        }
    }

    /// The lengths of an input, which must be numbers.
    pub(super) fn lengths(&self, number: usize) -> Result<Vec<i64>, Failure> {
        lengths(self.tensor(number)?)
    }

    pub(super) fn rank(&self, number: usize) -> Result<usize, Failure> {
        Ok(self.tensor(number)?.rank()?)
    }

    /// A tensor with the element type of an input as the one result.
    pub(super) fn like(&self, number: usize, tensor: Tensor) -> Done {
        one_of(tensor, self.array(number)?.element)
    }

    /// Whether a result of that number is wanted.
    pub(super) fn wants(&self, number: usize) -> bool {
        self.node.outputs.get(number).is_some_and(|name| !name.is_empty())
    }
}

/// The tensor in memory, unless it lies there: what reads each element many times shall not compute it as often.
pub(super) fn stored(tensor: &Tensor) -> Result<Tensor, Failure> {
    let lies_in_memory = crate::execute::base_memory(&tensor.uop()?).is_some();
    Ok(if lies_in_memory { tensor.clone() } else { tensor.contiguous() })
}

/// The lengths of a tensor, which must be numbers.
pub(super) fn lengths(tensor: &Tensor) -> Result<Vec<i64>, Failure> {
    let dims = tensor.dims()?;
    match dims.as_const() {
        Some(lengths) => Ok(lengths),
        None => unsupported!("the shape {dims}, whose lengths are not numbers"),
    }
}

/// The lengths from an axis on, which must be numbers; those before may be variables.
pub(super) fn lengths_from(tensor: &Tensor, axis: usize) -> Result<Vec<i64>, Failure> {
    let dims = tensor.dims()?;
    match dims.iter().skip(axis).map(Dim::as_const).collect() {
        Some(lengths) => Ok(lengths),
        None => unsupported!("the shape {dims}, whose lengths from axis {axis} on are not numbers"),
    }
}

/// Attributes.
impl<'c> Call<'c> {
    pub(super) fn attribute(&self, name: &str) -> Result<Option<&'c Attribute>, Failure> {
        match self.node.attributes.get(name) {
            Some(Attribute::OfCaller(of_caller)) => match self.scope.attributes() {
                Some(attributes) => Ok(attributes.get(of_caller)),
                None => wrong!("attribute '{name}' is that of a caller, and the node is in no function"),
            },
            found => Ok(found),
        }
    }

    fn of_kind<T>(
        &self,
        name: &str,
        kind: &str,
        pick: impl FnOnce(&'c Attribute) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        match self.attribute(name)? {
            None => Ok(None),
            Some(attribute) => match pick(attribute) {
                Some(found) => Ok(Some(found)),
                None => wrong!("attribute '{name}' is no {kind}, and must be one"),
            },
        }
    }

    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, Failure> {
        self.of_kind(name, "integer", |found| if let Attribute::Int(value) = found { Some(*value) } else { None })
    }

    /// What is beyond all lengths counts as their end.
    pub(super) fn int_or(&self, name: &str, default: i64) -> Result<i64, Failure> {
        Ok(within(self.int(name)?.unwrap_or(default)))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.int_or(name, 0)? != 0)
    }

    pub(super) fn float_attribute(&self, name: &str) -> Result<Option<f64>, Failure> {
        let pick = |found: &Attribute| if let Attribute::Float(value) = found { Some(*value as f64) } else { None };
        self.of_kind(name, "float", pick)
    }

    pub(super) fn float_or(&self, name: &str, default: f64) -> Result<f64, Failure> {
        Ok(self.float_attribute(name)?.unwrap_or(default))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<Cow<'c, str>>, Failure> {
        let pick = |found: &'c Attribute| {
            if let Attribute::Text(bytes) = found { Some(String::from_utf8_lossy(bytes)) } else { None }
        };
        self.of_kind(name, "text", pick)
    }

    pub(super) fn text_or(&self, name: &str, default: &'static str) -> Result<Cow<'c, str>, Failure> {
        Ok(self.text(name)?.unwrap_or(Cow::Borrowed(default)))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let pick = |found: &Attribute| match found {
            Attribute::Texts(texts) => {
                Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
            }
            _ => None,
        };
        self.of_kind(name, "list of texts", pick)
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'c [i64]>, Failure> {
        let pick = |found: &'c Attribute| if let Attribute::Ints(values) = found { Some(&values[..]) } else { None };
        self.of_kind(name, "list of integers", pick)
    }

    pub(super) fn float_list(&self, name: &str) -> Result<Option<&'c [f32]>, Failure> {
        let pick = |found: &'c Attribute| if let Attribute::Floats(values) = found { Some(&values[..]) } else { None };
        self.of_kind(name, "list of floats", pick)
    }

    pub(super) fn graph(&self, name: &str) -> Result<&'c Graph, Failure> {
        match self.graph_if(name)? {
            Some(graph) => Ok(graph),
            None => wrong!("attribute '{name}' is missing: it must be a graph"),
        }
    }

    pub(super) fn graph_if(&self, name: &str) -> Result<Option<&'c Graph>, Failure> {
        self.of_kind(name, "graph", |found| if let Attribute::Graph(graph) = found { Some(&**graph) } else { None })
    }

    /// The element type that an attribute names.
    pub(super) fn element(&self, name: &str) -> Result<Option<ElementType>, Failure> {
        match self.int(name)? {
            None => Ok(None),
            Some(code) => match i32::try_from(code).ok().and_then(ElementType::from_code) {
                Some(element) => Ok(Some(element)),
                None => unsupported!("elements of type {code} (attribute '{name}')"),
            },
        }
    }

    /// The type of tensors that an attribute names; text is not held in one.
    pub(super) fn dtype_or(&self, name: &str, default: DType) -> Result<DType, Failure> {
        match self.element(name)? {
            None => Ok(default),
            Some(element) => match element.dtype() {
                Some(dtype) => Ok(dtype),
                None => unsupported!("text (attribute '{name}')"),
            },
        }
    }

    /// Runs a graph of an attribute over these inputs.
    pub(super) fn run(&self, graph: &'c Graph, inputs: Vec<Value>) -> Done {
        self.evaluation.inner(graph, inputs, self.scope, &self.node.op)
    }
}
