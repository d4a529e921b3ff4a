//! What flows along the edges of a graph: tensors, sequences, optionals, text.
//!
//! An [`Array`] is a tensor with the element type that the format gives it and, where they are few and follow from constants and shapes alone, its
//! elements: so shapes that a model computes are numbers when its program is built.

use std::sync::Arc;

use warpweft_compiler::dtype::{Elements, Scalar};
use warpweft_compiler::ir::interpret::{self, interpret};
use warpweft_compiler::ir::{Dim, Op};

use super::element::ElementType;
use super::error::Failure;
use crate::tensor::{self, Tensor};
use crate::{DType, execute};

/// Elements that a value may have for its elements to be known while the program is built.
const KNOWN_MAX: i64 = 4096;
/// Nodes that they may be computed by, at once.
const NODES_MAX: usize = 20_000;

/// A value of a model.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Array),
    /// Values in order.
    Sequence(Vec<Value>),
    /// An optional that holds nothing.
    Nothing,
    /// Text: the lengths of the axes, and the elements in row-major order.
    Text(Vec<usize>, Arc<Vec<String>>),
}

/// A tensor with its element type in the format.
#[derive(Clone, Debug)]
pub struct Array {
    pub(super) tensor: Tensor,
    pub(super) element: ElementType,
    pub(super) known: Option<Arc<Elements>>,
    /// The model's inputs that it follows from, if those are short lists of integers: programs may be made for their values.
    pub(super) follows: Option<Vec<usize>>,
    /// Of a list of lengths, what its elements are if some are variables.
    pub(super) dims: Option<Vec<Dim>>,
}

impl Array {
    /// A tensor whose elements are of the type that they are held in.
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn new(tensor: Tensor) -> tensor::Result<Array> {
        let element = tensor.dtype()?.into();
        Ok(Array { tensor, element, known: None, follows: None, dims: None })
    }

    /// A tensor whose elements stand for those of a narrower type, which must have them.
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn of(tensor: Tensor, element: ElementType) -> tensor::Result<Array> {
        tensor.dtype()?;
        Ok(Array { tensor, element, known: None, follows: None, dims: None })
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The type of its elements in the format.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// With the elements, if they are few and follow from constants.
    pub(super) fn folded(mut self) -> Array {
        if self.known.is_none() {
            self.known = known_elements(&self.tensor).map(Arc::new);
            // A graph of constants is a constant from here on.
            if let (Some(elements), Ok(shape)) = (&self.known, self.tensor.shape())
                && let Ok(dtype) = self.tensor.dtype()
            {
                self.tensor = constant(dtype, &shape, elements);
            }
        }
        self
    }
}

impl Value {
    /// A tensor whose elements are of the type that they are held in.
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn from_tensor(tensor: &Tensor) -> tensor::Result<Value> {
        Ok(Value::Tensor(Array::new(tensor.clone())?))
    }

    /// Its type and shape: `float[2, 3]`, `a sequence of 3`.
    pub fn description(&self) -> String {
        match self {
            Value::Tensor(array) => match array.tensor.dims() {
                Ok(dims) => format!("{}{dims}", array.element),
                Err(_) => array.element.to_string(),
            },
            Value::Sequence(values) => format!("a sequence of {}", values.len()),
            Value::Nothing => "nothing".to_string(),
            Value::Text(shape, _) => format!("string{shape:?}"),
        }
    }
}

/// A tensor of few elements that programs know: equal ones are a number repeated, others lie in memory.
pub(super) fn constant(dtype: DType, shape: &[usize], elements: &Elements) -> Tensor {
    if !elements.is_empty() {
        let first = elements.get(0);
        if (1..elements.len()).all(|at| elements.get(at) == first)
            && let Some(literal) = literal(first)
        {
            return Tensor::full_of(shape.to_vec(), literal, dtype);
        }
    }
    Tensor::from_bytes(None, dtype, shape.to_vec(), &elements.to_bytes())
}

fn literal(value: Scalar) -> Option<tensor::Literal> {
    match value {
        Scalar::Bool(value) => Some(tensor::Literal::Bool(value)),
        Scalar::Int(value) => Some(tensor::Literal::Int(value)),
        Scalar::UInt(value) => i64::try_from(value).ok().map(tensor::Literal::Int),
        Scalar::Float(bits) => Some(tensor::Literal::Float(f64::from_bits(bits))),
    }
}

/// The elements of a tensor made of constants and of memory of this trace; no more nodes are looked at than a small graph has.
fn known_elements(tensor: &Tensor) -> Option<Elements> {
    let value = tensor.uop().ok()?;
    let count = value.shape().numel().as_const()?;
    if !(0..=KNOWN_MAX).contains(&count) {
        return None;
    }
    let order = warpweft_compiler::ir::postorder(std::slice::from_ref(&value));
    let is_small = |node: &warpweft_compiler::UOp| node.shape().numel().max_value() <= KNOWN_MAX * KNOWN_MAX;
    if order.len() > NODES_MAX || !order.iter().all(is_small) {
        return None;
    }
    let leaf = |node: &warpweft_compiler::UOp| -> Option<interpret::Value> {
        execute::memory_of(node)?;
        let count = node.shape().numel().as_const()?;
        let elements = (node.op() == Op::Buffer).then(|| Tensor::from_uop(node.clone()).elements().ok())??;
        interpret::Value::new(node.dtype(), [count], elements)
    };
    let found = interpret(std::slice::from_ref(&value), &leaf).ok()?;
    Some(found.first()?.elements().clone())
}

/// Elements as integers.
pub(super) fn integers(elements: &Elements) -> Result<Vec<i64>, Failure> {
    let integer = |value: Scalar| match value {
        Scalar::Bool(value) => Ok(i64::from(value)),
        Scalar::Int(value) => Ok(value),
        Scalar::UInt(value) => Ok(i64::try_from(value).unwrap_or(i64::MAX)),
        Scalar::Float(bits) => Err(Failure::Wrong(format!("{} stands where an integer must", f64::from_bits(bits)))),
    };
    elements.scalars().into_iter().map(integer).collect()
}

/// Elements as floats.
pub(super) fn floats(elements: &Elements) -> Vec<f64> {
    elements.scalars().into_iter().map(Scalar::to_f64).collect()
}
