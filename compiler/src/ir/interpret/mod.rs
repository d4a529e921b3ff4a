//! The interpreter: the meaning of tensor graphs and kernel ASTs, and the oracle of every other engine.
//!
//! [`interpret`] computes values node by node as the `ops!` table words them, with the arithmetic of `dtype::arithmetic`. It is
//! written to be obviously right, not fast, though it works on typed vectors. A *leaf* is what the interpreter cannot compute
//! itself (buffers, params, variables); the caller gives its value. Values are dropped after their last use, and there is no
//! recursion, so a graph of any depth runs.
//!
//! Always: integers wrap, half floats are rounded after each op, sums go in row-major order in the node's own type.
//! Not here: loops, loads and vectors of kernels. Tests: below, and every property and filetest that compares with it.

mod dims;
mod elementwise;
mod movement;
mod reduce;
mod scan;
mod states;
mod store;
#[cfg(test)]
mod tests;
mod value;

use rustc_hash::FxHashMap;

pub use value::Value;

use super::walk::postorder;
use super::{Arg, Dim, Op, UOp};
use crate::dtype::DType;
use dims::Dims;

/// Elements that one value may have: a bound on what a wrong or hostile program can ask for.
const ELEMENTS_MAX: i64 = 1 << 31;

/// A graph that has no value: the op, and what was wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}")]
pub struct InterpretError {
    /// The op that could not be computed.
    pub op: Op,
    /// What is wrong.
    pub message: String,
}

/// The values of `roots`, where `leaves` gives the values of buffers, params and variables.
///
/// A `sink` among the roots stands for what it is made of: a value for each operand, and for a `store` the stored value.
///
/// # Errors
/// If a leaf has no value or one of the wrong type or length, an op is not defined on its operands, a symbolic dim comes out
/// impossible, or the graph holds an op of lowered kernels.
pub fn interpret(roots: &[UOp], leaves: &dyn Fn(&UOp) -> Option<Value>) -> Result<Vec<Value>, InterpretError> {
    let roots: Vec<UOp> = roots.iter().flat_map(values_of_root).collect();
    let order = postorder(&roots);
    let number: FxHashMap<&UOp, usize> = order.iter().enumerate().map(|(number, node)| (node, number)).collect();
    let mut uses_left = vec![0usize; order.len()];
    for node in order.iter().flat_map(|node| node.src()).chain(&roots) {
        uses_left[number[node]] += 1;
    }
    let mut nodes = Nodes::of(&order, leaves)?;
    let mut values: Vec<Option<Value>> = vec![None; order.len()];
    for (at, node) in order.iter().enumerate() {
        let mut operands = Vec::with_capacity(node.src().len());
        for operand in node.src() {
            let operand = number[operand];
            uses_left[operand] -= 1;
            let value = if uses_left[operand] == 0 { values[operand].take() } else { values[operand].clone() };
            // Operands stand before their users in the order, and are kept until the last use.
            operands.extend(value);
        }
        values[at] = Some(nodes.value(node, &operands)?);
    }
    Ok(roots.iter().filter_map(|root| values[number[root]].clone()).collect())
}

/// Computes nodes one at a time, for those who carry more than values along a graph, such as bounds of their errors.
pub struct Nodes<'l> {
    dims: Dims<'l>,
}

impl<'l> Nodes<'l> {
    /// For these nodes, where `leaves` gives the values of buffers, params and variables.
    ///
    /// # Errors
    /// If a variable is bound to a value that it cannot have, or to two values.
    pub fn of(order: &[UOp], leaves: &'l dyn Fn(&UOp) -> Option<Value>) -> Result<Nodes<'l>, InterpretError> {
        let mut dims = Dims::new(leaves);
        note_bindings(order, &mut dims)?;
        Ok(Nodes { dims })
    }

    /// What a node makes of these operands. Ops that move or combine elements take them in any type, whatever type the node says.
    ///
    /// # Errors
    /// As [`interpret`]; or if there are not as many operands as the node has.
    pub fn value(&mut self, node: &UOp, operands: &[Value]) -> Result<Value, InterpretError> {
        if operands.len() != node.src().len() {
            let message = format!("{} operands are given, and it has {}", operands.len(), node.src().len());
            return Err(InterpretError { op: node.op(), message });
        }
        value_of(node, operands, &mut self.dims)
    }
}

/// What a kernel AST stores where its params have these values: the slot of each store with all elements of that param.
///
/// All values are computed before any is stored. A store into a view of a param, or of fewer elements than the param has, leaves
/// the rest as `leaves` gives it.
///
/// # Errors
/// As [`interpret`]; or if the AST is not a sink of stores to params.
pub fn interpret_kernel(
    ast: &UOp,
    leaves: &dyn Fn(&UOp) -> Option<Value>,
) -> Result<Vec<(u32, Value)>, InterpretError> {
    store::interpret_stores(ast, leaves)
}

fn values_of_root(root: &UOp) -> Vec<UOp> {
    let value = |node: &UOp| match (node.op(), node.src()) {
        (Op::Store, [_, value, ..]) => value.clone(),
        _ => node.clone(),
    };
    if root.op() == Op::Sink { root.src().iter().map(value).collect() } else { vec![value(root)] }
}

/// Notes every `bind` to a constant, those inside of symbolic dims too: shapes may name the variable alone.
fn note_bindings(order: &[UOp], dims: &mut Dims<'_>) -> Result<(), InterpretError> {
    let mut bindings: Vec<UOp> = order.iter().filter(|node| node.op() == Op::Bind).cloned().collect();
    for node in order {
        node.arg().for_each_dim(&mut |dim| {
            if let Dim::Expr(expr) = dim {
                bindings.extend(postorder(std::slice::from_ref(expr)).into_iter().filter(|node| node.op() == Op::Bind));
            }
        });
    }
    for binding in bindings {
        if let [variable, value] = binding.src()
            && let Some(value) = value.as_int()
        {
            dims.bind(variable, value)?;
        }
    }
    Ok(())
}

fn value_of(node: &UOp, src: &[Value], dims: &mut Dims<'_>) -> Result<Value, InterpretError> {
    let op = node.op();
    let fail = |message: String| InterpretError { op, message };
    match (op, node.arg()) {
        (Op::Const, Arg::Scalar(value)) => {
            Value::scalar(*value, node.dtype()).ok_or_else(|| fail(format!("{} has no values", node.dtype())))
        }
        (Op::Iota, Arg::Shape(shape)) => {
            let shape = dims.shape(op, shape)?;
            element_count(op, &shape)?;
            Ok(movement::iota(shape[0]))
        }
        (Op::Variable, _) => dims.variable(node).map(Value::index),
        (Op::Bind, _) => Ok(src[1].clone()),
        (Op::Reduce, Arg::Reduce(reduce, axes)) => reduce::reduce(*reduce, axes, &src[0]),
        (Op::Scan, Arg::Scan(op, axis)) => scan::scan(*op, *axis as usize, &src[0]),
        (Op::Scan, Arg::ScanState(combiner, axis)) => scan::scan_states(*combiner, *axis as usize, &src[0]),
        (Op::Scatter, Arg::Scatter(op, axis)) => scan::scatter(*op, *axis as usize, &src[0], &src[1], &src[2]),
        (Op::Fetch, Arg::Scatter(op, axis)) => scan::fetch(*op, *axis as usize, &src[0], &src[1], &src[2]),
        (Op::Place, Arg::Axis(axis)) => scan::place(*axis as usize, &src[0], &src[1]),
        (Op::Write, Arg::Scatter(op, axis)) => scan::scatter(*op, *axis as usize, &src[0], &src[2], &src[1]),
        (Op::Reduce, Arg::ReduceState(component, axes)) => states::reduce(*component, axes, src),
        (Op::Gather, Arg::Axis(axis)) => reduce::gather(*axis as usize, &src[0], &src[1]),
        (Op::Contiguous | Op::Materialize | Op::Detach | Op::Copy | Op::Function, _) => Ok(src[0].clone()),
        (Op::Write, Arg::View(steps)) => store::write(&src[0], steps, &src[1], dims),
        _ if op.is_elementwise() => elementwise::elementwise(node, src),
        _ if op.is_movement() => movement::movement(op, node.arg(), &src[0], dims),
        _ => leaf(node, dims),
    }
}

/// The value that the caller gives for a node, checked against what the node says of it.
fn leaf(node: &UOp, dims: &Dims<'_>) -> Result<Value, InterpretError> {
    let fail = |message: String| InterpretError { op: node.op(), message };
    let described = match node.arg() {
        Arg::Buffer(buffer) => format!("buffer {}", buffer.id),
        Arg::Param(param) => format!("param {}", param.slot),
        _ => format!("a node of type {}", node.dtype()),
    };
    let value = dims.leaf(node).ok_or_else(|| fail(format!("no value was given for {described}")))?;
    if value.dtype() != node.dtype() {
        return Err(fail(format!("{described} is of type {}, not {}", node.dtype(), value.dtype())));
    }
    match node.shape().as_const() {
        Some(shape) if shape.iter().product::<i64>() != value.len() as i64 => {
            Err(fail(format!("{described} has shape {shape:?}, but {} elements were given", value.len())))
        }
        Some(shape) => Ok(value.with_shape(shape)),
        None => Ok(value),
    }
}

/// How many elements a shape has, if a value may have so many.
fn element_count(op: Op, shape: &[i64]) -> Result<usize, InterpretError> {
    let fail = |message: String| InterpretError { op, message };
    if let Some(dim) = shape.iter().find(|dim| **dim < 0) {
        return Err(fail(format!("{shape:?} has the negative length {dim}")));
    }
    // Strides of other axes count even where an axis is empty, so the product is of lengths of at least 1.
    let reach = shape.iter().try_fold(1i64, |total, dim| total.checked_mul((*dim).max(1)));
    match reach {
        Some(reach) if reach <= ELEMENTS_MAX => Ok(shape.iter().product::<i64>() as usize),
        _ => Err(fail(format!("{shape:?} has more elements than the {ELEMENTS_MAX} that the interpreter holds"))),
    }
}

/// Whether the interpreter has values of that type.
pub fn has_values(dtype: DType) -> bool {
    dtype.lanes() == 1 && dtype != DType::VOID
}
