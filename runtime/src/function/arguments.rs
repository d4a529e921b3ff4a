//! Arguments of a call: held against their specs and against each other, and found in memory.

use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Shape};
use warpweft_compiler::region::{Answer, views_meet};
use warpweft_compiler::view::ViewSpec;

use super::call::{Program, Target};
use crate::debug;
use crate::execute::{self, ExecuteError};
use crate::memory::{Buffer, LruAllocator};
use crate::tensor::trace::memory_node;
use crate::tensor::{CallError, Error, Result, Storage, Tensor};

/// An argument of a call.
#[derive(Debug)]
pub(super) struct Given {
    /// Its elements in row-major order, from the first byte on.
    pub(super) memory: Buffer,
    /// A node of these elements, which keeps the memory from being written to; none where the memory is the call's own.
    pub(super) node: Option<UOp>,
    pub(super) shape: Shape,
}

impl Given {
    /// Makes the memory at least that long, as a symbolic shape may be at its largest; elements stay at the start.
    pub(super) fn lengthen(&mut self, bytes: usize, allocator: &Arc<LruAllocator>) -> Result<()> {
        if self.memory.bytes() >= bytes {
            return Ok(());
        }
        let own = self.memory.bytes();
        let longer = self.memory.copied_to(allocator, own, bytes).map_err(ExecuteError::from)?;
        debug::copied(|| {
            format!("an argument of {own} bytes is copied to memory for its largest shape, {bytes} bytes")
        });
        (self.memory, self.node) = (longer, None);
        Ok(())
    }
}

impl Program {
    /// Holds an argument against its spec.
    pub(super) fn check(&self, number: usize, value: &UOp, location: &'static Location<'static>) -> Result<()> {
        let spec = &self.specs[number];
        let wrong = |what: &str| -> Error {
            let message = format!("argument {number} must be {}{}: {what}", spec.dtype, spec.shape);
            CallError::new("call", &[value], message, location).into()
        };
        if value.dtype() != spec.dtype {
            return Err(wrong(&format!("cast it to {}, or compile the function for {}", spec.dtype, value.dtype())));
        }
        if value.shape().len() != spec.shape.len() {
            return Err(wrong(&format!("it has {} axes, not {}", value.shape().len(), spec.shape.len())));
        }
        for (axis, (len, wanted)) in value.shape().iter().zip(spec.shape.iter()).enumerate() {
            if let (Some(len), Some(wanted)) = (len.as_const(), wanted.as_const())
                && len != wanted
            {
                return Err(wrong(&format!("its axis {axis} is {len} long, not {wanted}")));
            }
        }
        Ok(())
    }

    /// Arguments are values: what is assigned to one is not seen through another while the function runs, as it would be in the closure
    /// by itself. So what is assigned may share no element with what else the function reads.
    pub(super) fn check_aliases(&self, arguments: &[&Tensor], location: &'static Location<'static>) -> Result<()> {
        let refuse = |written: usize, other: String| -> Error {
            let message = format!(
                "the function assigns argument {written}, which shares memory with {other}: pass a copy of one of them, as `x.contiguous()`"
            );
            CallError::new("call", &[], message, location).into()
        };
        for value in &self.values {
            let (storage, written) = match value.target {
                Target::Result(_) => continue,
                Target::Argument(number) => (arguments[number].storage(), Some(number)),
                Target::State(number) => (Some(&self.states[number].0), None),
            };
            let is_its = |other: &Tensor| matches!((storage, other.storage()), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
            for (other, argument) in arguments.iter().enumerate().filter(|(_, argument)| is_its(argument)) {
                match written {
                    Some(written) if written == other => {}
                    Some(written) if !meet(arguments[written], argument)? => {}
                    Some(written) => return Err(refuse(written, format!("argument {other}"))),
                    None => return Err(refuse_state(other, location)),
                }
            }
            let is_state =
                |(state, _): &(Arc<Storage>, UOp)| storage.is_some_and(|storage| Arc::ptr_eq(storage, state));
            if let Some(written) = written.filter(|_| self.states.iter().any(is_state)) {
                return Err(refuse(written, "a tensor that its closure uses".to_string()));
            }
        }
        Ok(())
    }

    /// An argument, held against its spec and found in memory.
    pub(super) fn given(
        &self,
        number: usize,
        argument: &Tensor,
        location: &'static Location<'static>,
    ) -> Result<Given> {
        argument.settle()?;
        let value = argument.uop()?;
        self.check(number, &value, location)?;
        let shape = numbers(value.shape());
        if shape.numel().is(0) {
            return Ok(Given { memory: Buffer::new(self.executor.allocator(), 0), node: None, shape });
        }
        let (node, offset, len) = match found(&value) {
            Some(found) => found,
            None => {
                if value.op().is_movement() {
                    let what = format!("{}{}", value.dtype(), value.shape());
                    debug::copied(|| format!("argument {number}, {what}, is copied: its elements do not lie in a row"));
                }
                (memory_node(&value)?, 0, None)
            }
        };
        // What was computed from constants alone is where it was first asked for, which says nothing.
        let is_elsewhere =
            |node: &UOp| matches!(node.arg(), Arg::Buffer(arg) if *arg.device != *self.executor.device_name());
        let node = match len.is_none() && is_elsewhere(&node) && execute::is_of_constants(&node) {
            true => execute::copied_to(&self.executor, &node, 0)?,
            false => node,
        };
        if let Arg::Buffer(arg) = node.arg()
            && is_elsewhere(&node)
        {
            let message = format!(
                "argument {number} lies on {}, and the function runs on {}: make the tensor there, or compile with `spec(..).on(\"{}\")`",
                arg.device,
                self.executor.device().name(),
                arg.device
            );
            return Err(CallError::new("call", &[&value], message, location).into());
        }
        let memory = node.held::<Buffer>().ok_or_else(|| execute::missing(&node))?;
        match len {
            None => Ok(Given { memory: memory.clone(), node: Some(node), shape }),
            // A symbolic shape may make use of what lies behind.
            Some(_) => {
                let rest = memory.bytes().saturating_sub(offset);
                let memory = memory.view(offset, rest).map_err(ExecuteError::from)?;
                Ok(Given { memory, node: Some(value), shape })
            }
        }
    }
}

fn refuse_state(argument: usize, location: &'static Location<'static>) -> Error {
    let message = format!(
        "argument {argument} shares memory with a tensor that the function assigns: pass a copy of it, as `x.contiguous()`"
    );
    CallError::new("call", &[], message, location).into()
}

/// Whether two views of one storage may have an element in common.
fn meet(a: &Tensor, b: &Tensor) -> Result<bool> {
    let (a, b) = (a.uop()?, b.uop()?);
    Ok(match (ViewSpec::of_node(&a), ViewSpec::of_node(&b)) {
        (Some(a), Some(b)) => views_meet(a, b) != Answer::No,
        _ => true,
    })
}

/// The buffer that a value lies in, in a row: whole, or from a byte on, so many bytes. None where it lies in none, or not in a row.
fn found(value: &UOp) -> Option<(UOp, usize, Option<usize>)> {
    if let Some(node) = execute::computed_buffer(value) {
        return Some((node, 0, None));
    }
    let view = ViewSpec::of_node(value).filter(|view| view.is_contiguous() && value.shape().is_concrete())?;
    let mut base = value;
    while base.op().is_movement() {
        base = &base.src()[0];
    }
    let node = execute::computed_buffer(base)?;
    let width = value.dtype().bytes();
    let offset = usize::try_from(view.offset.as_const()?).ok()? * width;
    let len = usize::try_from(value.shape().numel().max_value()).ok()? * width;
    Some((node, offset, Some(len)))
}

/// A shape with bound variables replaced by their values.
fn numbers(shape: &Shape) -> Shape {
    let number = |dim: &Dim| dim.value().map_or_else(|_| dim.clone(), Dim::Const);
    if shape.is_concrete() { shape.clone() } else { shape.iter().map(number).collect() }
}
