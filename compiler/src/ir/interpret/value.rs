//! A tensor that has been computed: type, shape and elements in row-major order.

use std::sync::Arc;

use crate::dtype::arithmetic::Element;
use crate::dtype::{DType, Elements, Scalar};

/// A computed tensor. Cloning shares the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    dtype: DType,
    shape: Vec<i64>,
    elements: Arc<Elements>,
}

impl Value {
    /// A tensor of these elements, if there are as many as the shape says and they are of the type's storage type.
    pub fn new(dtype: DType, shape: impl Into<Vec<i64>>, elements: Elements) -> Option<Value> {
        let shape = shape.into();
        let fits = shape.iter().try_fold(1i64, |total, dim| total.checked_mul(*dim)) == Some(elements.len() as i64)
            && shape.iter().all(|dim| *dim >= 0)
            && storage_type(&elements) == if dtype.is_index() { DType::I64 } else { dtype };
        fits.then(|| Value { dtype, shape, elements: Arc::new(elements) })
    }

    /// As [`Value::new`] for parts that the interpreter knows to fit.
    pub(super) fn of<E: Element>(dtype: DType, shape: Vec<i64>, elements: Vec<E>) -> Value {
        debug_assert_eq!(shape.iter().product::<i64>(), elements.len() as i64);
        Value { dtype, shape, elements: Arc::new(E::wrap(elements)) }
    }

    /// One value, of rank 0.
    pub fn scalar(value: Scalar, dtype: DType) -> Option<Value> {
        Value::from_scalars(dtype, [], &[value])
    }

    /// An index, of rank 0.
    pub fn index(value: i64) -> Value {
        Value::of(DType::INDEX, Vec::new(), vec![value])
    }

    /// A tensor of these constants, converted to the type, if there are as many as the shape says.
    pub fn from_scalars(dtype: DType, shape: impl Into<Vec<i64>>, values: &[Scalar]) -> Option<Value> {
        Value::new(dtype, shape, Elements::from_scalars(dtype, values)?)
    }

    /// A tensor of these numbers, rounded to the type, if there are as many as the shape says.
    pub fn from_f64(dtype: DType, shape: impl Into<Vec<i64>>, values: &[f64]) -> Option<Value> {
        let values: Vec<Scalar> = values.iter().map(|value| Scalar::from_f64(*value, dtype)).collect();
        Value::from_scalars(dtype, shape, &values)
    }

    /// A tensor from little-endian bytes, if there are as many as the shape says.
    pub fn from_bytes(dtype: DType, shape: impl Into<Vec<i64>>, bytes: &[u8]) -> Option<Value> {
        Value::new(dtype, shape, Elements::from_bytes(dtype, bytes)?)
    }

    /// The type of an element.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The elements in row-major order.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Element `position`, counted row-major.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn get(&self, position: usize) -> Scalar {
        self.elements.get(position)
    }

    /// The elements as constants.
    pub fn scalars(&self) -> Vec<Scalar> {
        self.elements.scalars()
    }

    /// The elements as floats, rounded where they must be.
    pub fn to_f64(&self) -> Vec<f64> {
        self.scalars().into_iter().map(Scalar::to_f64).collect()
    }

    /// The elements as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.elements.to_bytes()
    }

    /// The same elements under another shape of as many elements, or as another type with the same storage.
    pub(super) fn with_shape(&self, shape: Vec<i64>) -> Value {
        debug_assert_eq!(shape.iter().product::<i64>(), self.len() as i64);
        Value { dtype: self.dtype, shape, elements: self.elements.clone() }
    }

    /// The elements as a slice of their type.
    pub(super) fn slice<E: Element>(&self) -> &[E] {
        // The interpreter asks with the storage type of `dtype`, which `new` has checked.
        E::slice(&self.elements).unwrap_or(&[])
    }
}

fn storage_type(elements: &Elements) -> DType {
    match elements {
        Elements::Bool(_) => DType::BOOL,
        Elements::I8(_) => DType::I8,
        Elements::I16(_) => DType::I16,
        Elements::I32(_) => DType::I32,
        Elements::I64(_) => DType::I64,
        Elements::U8(_) => DType::U8,
        Elements::U16(_) => DType::U16,
        Elements::U32(_) => DType::U32,
        Elements::U64(_) => DType::U64,
        Elements::F16(_) => DType::F16,
        Elements::BF16(_) => DType::BF16,
        Elements::F32(_) => DType::F32,
        Elements::F64(_) => DType::F64,
    }
}
