//! Shape and facts of a node from its operands, and the errors of nodes that cannot be.
//!
//! The front end asks here before it builds (`UOp::try_new`), so a user's mistake becomes an error that names the op and the
//! shapes; inside the compiler the same error is a bug.

use smallvec::SmallVec;

use super::arg::Arg;
use super::dim::{Dim, Shape};
use super::facts::Facts;
use super::op::{Class, Op};
use super::uop::UOp;
use crate::dtype::{DType, Scalar};

/// A node that cannot be: the op, and what is wrong with its operands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}")]
pub struct IrError {
    /// The op that was to be made.
    pub op: Op,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// The shape of the node's value.
pub(super) fn infer_shape(op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> Result<Shape, IrError> {
    let fail = |message: String| IrError { op, message };
    let enough = if op.is_variadic() { src.len() >= op.arity() } else { src.len() == op.arity() };
    // The gate of an index and the lanes of a stack are optional; loops may be closed later.
    if !enough && !(op == Op::Index && src.len() == 2) {
        return Err(fail(format!("takes {} operands, not {}", op.operands().len(), src.len())));
    }
    match op.class() {
        Class::Unary | Class::Binary | Class::Commutative | Class::Ternary => {
            check_dtypes(op, dtype, src).map_err(fail)?;
            broadcast(src).map_err(fail)
        }
        Class::Leaf => leaf_shape(op, arg).map_err(fail),
        Class::Movement => movement_shape(op, src[0].shape(), arg).map_err(fail),
        Class::Tensor => tensor_shape(op, src, arg).map_err(fail),
        Class::Memory | Class::Loop | Class::Vector => Ok(Shape::scalar()),
    }
}

fn leaf_shape(op: Op, arg: &Arg) -> Result<Shape, String> {
    match (op, arg) {
        (Op::Buffer, Arg::Buffer(buffer)) => Ok(Shape::from([buffer.len as i64])),
        (Op::Param, Arg::Param(param)) => Ok(Shape::from([param.len as i64])),
        (Op::Iota, Arg::Shape(shape)) if shape.len() == 1 => Ok(shape.clone()),
        (Op::Const, Arg::Scalar(_)) | (Op::Variable, Arg::Variable(_)) | (Op::Bind, Arg::None) => Ok(Shape::scalar()),
        _ => Err(format!("does not take the argument {arg:?}")),
    }
}

/// Elementwise operands agree in type, but for the condition of `where`, casts and shifts.
fn check_dtypes(op: Op, dtype: DType, src: &[UOp]) -> Result<(), String> {
    let operands = if op == Op::Where { &src[1..] } else { src };
    if op == Op::Where && !src[0].dtype().is_bool() {
        return Err(format!("the condition is {}, not bool", src[0].dtype()));
    }
    if let Some(odd) = operands.iter().find(|node| node.dtype() != operands[0].dtype()) {
        return Err(format!("operands are of types {} and {}; cast one", operands[0].dtype(), odd.dtype()));
    }
    let expected = match op {
        Op::Cast => return Ok(()),
        Op::Bitcast if operands[0].dtype().bytes() == dtype.bytes() => return Ok(()),
        Op::Bitcast => return Err(format!("{} and {dtype} differ in width", operands[0].dtype())),
        _ if op.is_comparison() => DType::BOOL.with_lanes(operands[0].dtype().lanes()),
        _ => operands[0].dtype(),
    };
    if dtype == expected { Ok(()) } else { Err(format!("gives {expected}, not {dtype}")) }
}

/// One shape for all operands; those of rank 0 take it.
fn broadcast(src: &[UOp]) -> Result<Shape, String> {
    let mut shape: &Shape = src[0].shape();
    for node in &src[1..] {
        let other = node.shape();
        if shape.is_empty() {
            shape = other;
        } else if !other.is_empty() && shape != other {
            return Err(format!("operands have shapes {shape} and {other}"));
        }
    }
    Ok(shape.clone())
}

fn movement_shape(op: Op, from: &Shape, arg: &Arg) -> Result<Shape, String> {
    match (op, arg) {
        (Op::Reshape, Arg::Shape(to)) => {
            if to.iter().any(|dim| dim.max_value() < 0) {
                return Err(format!("the shape {to} has a negative length"));
            }
            match (from.is_concrete() && to.is_concrete(), from.numel() == to.numel()) {
                (true, false) => Err(format!("{from} has {} elements, {to} has {}", from.numel(), to.numel())),
                _ => Ok(to.clone()),
            }
        }
        (Op::Expand, Arg::Shape(to)) => {
            let fits = to.len() == from.len() && from.iter().zip(to.iter()).all(|(a, b)| a == b || a.is(1));
            if fits { Ok(to.clone()) } else { Err(format!("{from} does not expand to {to}: only axes of length 1 do")) }
        }
        (Op::Permute, Arg::Axes(order)) => {
            let mut seen = SmallVec::<[bool; 8]>::from_elem(false, from.len());
            for &axis in order {
                match seen.get_mut(axis as usize) {
                    Some(seen @ false) => *seen = true,
                    _ => return Err(format!("{order:?} does not name each axis of {from} once")),
                }
            }
            if order.len() != from.len() {
                return Err(format!("{order:?} does not name each axis of {from} once"));
            }
            Ok(order.iter().map(|&axis| from[axis as usize].clone()).collect())
        }
        (Op::Flip, Arg::Axes(axes)) => match axes.iter().find(|&&axis| axis as usize >= from.len()) {
            Some(axis) => Err(format!("{from} has no axis {axis}")),
            None => Ok(from.clone()),
        },
        (Op::Pad, Arg::Bounds(bounds)) if bounds.len() == from.len() => {
            Ok(from.iter().zip(bounds.iter()).map(|(dim, (before, after))| &(dim + before) + after).collect())
        }
        (Op::Shrink, Arg::Bounds(bounds)) if bounds.len() == from.len() => {
            for (dim, (start, end)) in from.iter().zip(bounds.iter()) {
                if let (Some(dim), Some(start), Some(end)) = (dim.as_const(), start.as_const(), end.as_const())
                    && !(0 <= start && start <= end && end <= dim)
                {
                    return Err(format!("{start}..{end} is not within an axis of length {dim} of {from}"));
                }
            }
            Ok(bounds.iter().map(|(start, end)| end - start).collect())
        }
        (Op::Pad | Op::Shrink, Arg::Bounds(bounds)) => Err(format!("{} bounds given for {from}", bounds.len())),
        (Op::AsStrided, Arg::Strided(strided)) => Ok(strided.shape.clone()),
        _ => Err(format!("does not take the argument {arg:?}")),
    }
}

fn tensor_shape(op: Op, src: &[UOp], arg: &Arg) -> Result<Shape, String> {
    let from = src[0].shape();
    match (op, arg) {
        (Op::Reduce, Arg::Reduce(_, axes) | Arg::ReduceState(_, axes)) => {
            check_states(src, arg)?;
            if axes.iter().any(|&axis| axis as usize >= from.len()) || axes.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(format!("{axes:?} are not ascending axes of {from}"));
            }
            let kept = |axis: &usize| !axes.contains(&(*axis as u8));
            Ok((0..from.len()).filter(kept).map(|axis| from[axis].clone()).collect())
        }
        (Op::Scan, Arg::Scan(_, axis) | Arg::ScanState(_, axis)) => match from.len() {
            rank if (*axis as usize) < rank => Ok(from.clone()),
            _ => Err(format!("{from} has no axis {axis}")),
        },
        (Op::Scatter | Op::Write, Arg::Scatter(_, axis)) => {
            let [_, b, c] = src else { return Err("takes a tensor, an index and what is put there".to_string()) };
            let (index, source) = if op == Op::Scatter { (b, c) } else { (c, b) };
            scatter_shape(&src[0], index, source, *axis as usize)
        }
        (Op::Fetch, Arg::Scatter(_, axis)) => {
            scatter_shape(&src[0], &src[1], &src[2], *axis as usize)?;
            Ok(src[2].shape().clone())
        }
        (Op::Place, Arg::Axis(axis)) => {
            let [index, source] = src else { return Err("takes an index and what is put there".to_string()) };
            if index.shape() != source.shape() {
                return Err(format!("{} is put at {}", source.shape(), index.shape()));
            }
            scatter_shape(source, index, source, *axis as usize)
        }
        (Op::Gather, Arg::Axis(axis)) => {
            let axis = *axis as usize;
            if axis >= from.len() {
                return Err(format!("{from} has no axis {axis}"));
            }
            if !src[1].dtype().is_integer() {
                return Err(format!("the index is {}, not an integer", src[1].dtype()));
            }
            let (before, after) = (&from[..axis], &from[axis + 1..]);
            Ok(before.iter().chain(src[1].shape().iter()).chain(after).cloned().collect())
        }
        (Op::Materialize, Arg::Axes(axes)) => match axes.iter().find(|&&axis| axis as usize >= from.len()) {
            Some(axis) => Err(format!("{from} has no axis {axis}")),
            None => Ok(from.clone()),
        },
        (Op::Write, Arg::View(steps)) => {
            let mut target = from.clone();
            for (op, arg) in steps.iter() {
                if !op.is_movement() || *op == Op::Pad {
                    return Err(format!("{op} makes no view that can be written to"));
                }
                target = movement_shape(*op, &target, arg)?;
            }
            let value = &src[1];
            if value.dtype() != src[0].dtype() || *value.shape() != target {
                let (given, wanted) = (value.dtype(), src[0].dtype());
                return Err(format!("{given}{} does not go to a view {wanted}{target}", value.shape()));
            }
            Ok(from.clone())
        }
        (Op::Contiguous | Op::Detach, Arg::None) | (Op::Copy, Arg::Device(_)) | (Op::Function, Arg::Function(_)) => {
            Ok(from.clone())
        }
        _ => Err(format!("does not take the argument {arg:?}")),
    }
}

/// Elements are put along one axis; along the others, index and source may be shorter than what they go to.
fn scatter_shape(x: &UOp, index: &UOp, source: &UOp, axis: usize) -> Result<Shape, String> {
    let to = x.shape();
    if axis >= to.len() {
        return Err(format!("{to} has no axis {axis}"));
    }
    if !index.dtype().is_integer() {
        return Err(format!("the index is {}, not an integer", index.dtype()));
    }
    if x.dtype() != source.dtype() {
        return Err(format!("{} is scattered into {}", source.dtype(), x.dtype()));
    }
    let longer =
        |(k, (dim, room)): (usize, (&Dim, &Dim))| k != axis && dim != room && dim.max_value() > room.min_value();
    if index.shape() != source.shape()
        || index.shape().len() != to.len()
        || index.shape().iter().zip(to.iter()).enumerate().any(longer)
    {
        return Err(format!("{} is put at {} in {to} along axis {axis}", source.shape(), index.shape()));
    }
    Ok(to.clone())
}

/// A reduction has as many operands as it combines values, all of one shape.
fn check_states(src: &[UOp], arg: &Arg) -> Result<(), String> {
    let wanted = match arg {
        Arg::ReduceState(component, _) => component.combiner.arity(),
        _ => 1,
    };
    if src.len() != wanted {
        return Err(format!("takes {wanted} operands, not {}", src.len()));
    }
    match src.iter().find(|operand| operand.shape() != src[0].shape()) {
        Some(odd) => Err(format!("operands have shapes {} and {}", src[0].shape(), odd.shape())),
        None => Ok(()),
    }
}

/// What is known of the node's value.
pub(super) fn infer_facts(op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> Facts {
    match (op, arg) {
        (Op::Const, Arg::Scalar(value))
            if dtype != DType::U64 || matches!(value, Scalar::UInt(bits) if *bits >> 63 == 0) =>
        {
            Facts::of_scalar(*value, dtype)
        }
        (Op::Variable, Arg::Variable(variable)) => Facts::between(variable.min, variable.max),
        (Op::Iota, Arg::Shape(shape)) => Facts::between(0, shape[0].max_value().saturating_sub(1).max(0)),
        // A loop that may not run at all keeps its variable: if it were a constant, what is only there inside of the loop would leave it.
        (Op::Range, _) => {
            let least = (src[0].min_value() < 1) as i64;
            Facts::between(0, src[0].max_value().saturating_sub(1).max(least))
        }
        (Op::Bind, _) => src[0].facts(),
        (Op::Ramp, Arg::Number(step)) => Facts::of_ramp(src[0].facts(), *step, dtype),
        (
            Op::Reshape
            | Op::Permute
            | Op::Expand
            | Op::Shrink
            | Op::Flip
            | Op::Contiguous
            | Op::Materialize
            | Op::Detach
            | Op::Function
            | Op::Splat
            | Op::Lane,
            _,
        ) => src[0].facts(),
        _ if op.is_elementwise() => {
            let facts: SmallVec<[Facts; 3]> = src.iter().map(UOp::facts).collect();
            let operand = if op == Op::Where { dtype } else { src[0].dtype() };
            Facts::of_op(op, dtype.element(), operand.element(), &facts)
        }
        _ => Facts::of_dtype(dtype.element()),
    }
}
