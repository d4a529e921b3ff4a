//! Writing: a tensor that shares its storage with views gives it a new value, which all of them see.
//!
//! The storage's new value is a graph in which the written elements are put in the place of the old: the view's chain is walked
//! back from the view to the storage, taking the written values and a mask of where they belong along.

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Op};
use warpweft_compiler::ops::{Built, OpError, broadcast_to};

use super::errors::CallError;
use super::{Error, Operand, Result, Step, Tensor, View};

impl Tensor {
    /// Replaces all elements of this tensor, of all views of its storage, and of the storage if this is a view of part of it.
    ///
    /// The value broadcasts to the tensor's shape and is cast to its type. Nothing runs yet.
    ///
    /// # Errors
    /// If either tensor carries one, the shapes do not fit, or this is a view that repeats elements.
    #[track_caller]
    pub fn assign(&self, value: impl Operand) -> Result<()> {
        let location = Location::caller();
        let view = self.0.as_ref().map_err(Clone::clone)?;
        let value = value.beside(self).uop()?;
        let written = write(view, &value);
        let written = written.map_err(|error| -> Error {
            CallError::new("assign", &[&view.value(), &value], error.message, location).into()
        })?;
        view.cell.set(written);
        Ok(())
    }
}

/// The storage's value with the view replaced.
fn write(view: &View, value: &UOp) -> Built {
    let value = broadcast_to(&value.cast(view.dtype), &view.shape)?;
    let old = view.cell.value();
    if view.chain.is_empty() {
        return Ok(value);
    }
    // Shapes along the chain, storage first.
    let mut shapes = vec![old.shape().clone()];
    let mut node = old.clone();
    for (op, arg) in view.chain.iter() {
        node = UOp::new(*op, node.dtype(), vec![node], arg.clone());
        shapes.push(node.shape().clone());
    }
    let everywhere = UOp::bool(true);
    let mask = broadcast_to(&everywhere, &view.shape)?;
    let (mut value, mut mask) = (value, mask);
    for (step, shape) in view.chain.iter().zip(&shapes).rev() {
        value = undo(step, &value, shape)?;
        mask = undo(step, &mask, shape)?;
    }
    Ok(UOp::new(Op::Where, old.dtype(), vec![mask, value, old], Arg::None))
}

/// What a movement op was applied to, as far as its result tells; zeros elsewhere.
fn undo((op, arg): &Step, x: &UOp, before: &warpweft_compiler::ir::Shape) -> Built {
    match (op, arg) {
        (Op::Reshape, _) => Ok(x.reshape(before.clone())),
        (Op::Permute, Arg::Axes(order)) => {
            let mut inverse = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, &axis)| inverse[axis as usize] = place);
            Ok(x.permute(&inverse))
        }
        (Op::Flip, _) => Ok(UOp::new(Op::Flip, x.dtype(), vec![x.clone()], arg.clone())),
        (Op::Shrink, Arg::Bounds(bounds)) => {
            let cut: Vec<(Dim, Dim)> =
                bounds.iter().zip(before.iter()).map(|((start, end), len)| (start.clone(), len - end)).collect();
            // Symbolic amounts add up to the length that was cut, whatever they look like.
            Ok(x.pad(&cut).reshape(before.clone()))
        }
        (Op::Expand, _) => Err(OpError::new(
            "the view repeats elements, so writing to it would write some more than once: assign to a contiguous copy",
        )),
        _ => Err(OpError::new(format!("views made by {op} cannot be written to yet: assign to the whole tensor"))),
    }
}
