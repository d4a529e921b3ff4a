//! Elementwise ops on whole tensors. Operands have one shape, or are of rank 0 and count as broadcast.

use super::{InterpretError, Value};
use crate::dtype::DType;
use crate::dtype::arithmetic::{Element, WithElement, with_element};
use crate::ir::scalar_op::{binary_function, comparison_function, is_defined, unary_function};
use crate::ir::{Op, UOp};

/// The value of an elementwise node.
pub(super) fn elementwise(node: &UOp, src: &[Value]) -> Result<Value, InterpretError> {
    let op = node.op();
    let fail = |message: String| InterpretError { op, message };
    let operand = if op == Op::Where { src[1].dtype() } else { src[0].dtype() };
    if !is_defined(op, operand) {
        return Err(fail(format!("is not defined on {operand}")));
    }
    let shape = common_shape(src).map_err(fail)?;
    let dtype = node.dtype();
    let result = match op {
        Op::Cast => convert(&src[0], dtype, false),
        Op::Bitcast => convert(&src[0], dtype, true),
        _ => with_element(operand, Apply { op, dtype, src, shape }).flatten(),
    };
    result.ok_or_else(|| fail(format!("is not defined on {operand}")))
}

/// The shape of the operands that have axes.
fn common_shape(src: &[Value]) -> Result<Vec<i64>, String> {
    let mut shape: &[i64] = src[0].shape();
    for value in &src[1..] {
        if shape.is_empty() {
            shape = value.shape();
        } else if !value.shape().is_empty() && value.shape() != shape {
            return Err(format!("operands have shapes {shape:?} and {:?}", value.shape()));
        }
    }
    Ok(shape.to_vec())
}

struct Apply<'v> {
    op: Op,
    dtype: DType,
    src: &'v [Value],
    shape: Vec<i64>,
}

impl WithElement for Apply<'_> {
    type Output = Option<Value>;
    fn with<E: Element>(self) -> Option<Value> {
        let Apply { op, dtype, src, shape } = self;
        match src {
            [a] => {
                let function = unary_function::<E>(op)?;
                Some(Value::of(dtype, shape, a.slice::<E>().iter().map(|x| function(*x)).collect()))
            }
            [a, b] => {
                let (a, b) = (Lane::new(a), Lane::new(b));
                let len = shape.iter().product::<i64>() as usize;
                if let Some(function) = binary_function::<E>(op) {
                    return Some(Value::of(dtype, shape, combine(len, a, b, function)));
                }
                let function = comparison_function::<E>(op)?;
                Some(Value::of(dtype, shape, combine(len, a, b, function)))
            }
            [a, b, c] => {
                let len = shape.iter().product::<i64>() as usize;
                let (b, c) = (Lane::<E>::new(b), Lane::<E>::new(c));
                let elements: Vec<E> = if op == Op::Where {
                    let cond = Lane::<bool>::new(a);
                    (0..len).map(|at| if cond.get(at) { b.get(at) } else { c.get(at) }).collect()
                } else {
                    let a = Lane::<E>::new(a);
                    (0..len).map(|at| a.get(at).muladd(b.get(at), c.get(at))).collect()
                };
                Some(Value::of(dtype, shape, elements))
            }
            _ => None,
        }
    }
}

/// An operand read position by position; one of rank 0 gives its value everywhere.
#[derive(Clone, Copy)]
struct Lane<'v, E> {
    elements: &'v [E],
    broadcast: bool,
}

impl<'v, E: Element> Lane<'v, E> {
    fn new(value: &'v Value) -> Lane<'v, E> {
        Lane { elements: value.slice(), broadcast: value.shape().is_empty() }
    }

    fn get(self, position: usize) -> E {
        self.elements[if self.broadcast { 0 } else { position }]
    }
}

/// Both operands combined, with a loop of its own for each kind of broadcast.
fn combine<E: Element, R>(len: usize, a: Lane<'_, E>, b: Lane<'_, E>, function: fn(E, E) -> R) -> Vec<R> {
    match (a.broadcast, b.broadcast) {
        (false, false) => a.elements.iter().zip(b.elements).map(|(a, b)| function(*a, *b)).collect(),
        (false, true) => {
            let b = b.get(0);
            a.elements.iter().map(|a| function(*a, b)).collect()
        }
        (true, false) => {
            let a = a.get(0);
            b.elements.iter().map(|b| function(a, *b)).collect()
        }
        (true, true) => (0..len).map(|_| function(a.get(0), b.get(0))).collect(),
    }
}

/// Elements on their way to another type: few enough forms that every pair of types needs no loop of its own.
enum Wide {
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Float(Vec<f64>),
}

struct Widen<'v> {
    src: &'v Value,
    bits: bool,
}

impl WithElement for Widen<'_> {
    type Output = Wide;
    fn with<E: Element>(self) -> Wide {
        let elements = self.src.slice::<E>();
        if self.bits {
            return Wide::Unsigned(elements.iter().map(|x| x.to_bits()).collect());
        }
        match self.src.dtype() {
            dtype if dtype.is_float() => Wide::Float(elements.iter().map(|x| x.convert()).collect()),
            dtype if dtype.is_unsigned() => Wide::Unsigned(elements.iter().map(|x| x.convert()).collect()),
            _ => Wide::Signed(elements.iter().map(|x| x.convert()).collect()),
        }
    }
}

struct Narrow<'v> {
    dtype: DType,
    shape: &'v [i64],
    wide: Wide,
    bits: bool,
}

impl WithElement for Narrow<'_> {
    type Output = Value;
    fn with<E: Element>(self) -> Value {
        let elements: Vec<E> = match &self.wide {
            Wide::Unsigned(elements) if self.bits => elements.iter().map(|x| E::from_bits(*x)).collect(),
            Wide::Unsigned(elements) => elements.iter().map(|x| E::from_u64(*x)).collect(),
            Wide::Signed(elements) => elements.iter().map(|x| E::from_i64(*x)).collect(),
            Wide::Float(elements) => elements.iter().map(|x| E::from_f64(*x)).collect(),
        };
        Value::of(self.dtype, self.shape.to_vec(), elements)
    }
}

/// The elements in another type, or their bits read as one.
fn convert(src: &Value, dtype: DType, bits: bool) -> Option<Value> {
    let wide = with_element(src.dtype(), Widen { src, bits })?;
    with_element(dtype, Narrow { dtype, shape: src.shape(), wide, bits })
}
