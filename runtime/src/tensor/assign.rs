//! Writing: a tensor that shares its storage with views gives it a new value, which all of them see.
//!
//! The storage's new value is a `write` of the graph: the elements that the view shows, replaced. Nothing runs until a value is asked for;
//! then the elements are replaced in memory if nobody needs the old ones, and else in a copy, which takes its place. So writes
//! happen in the order of the program, values computed before one keep what they read, and a value that overlaps what it is written
//! to is read first.
//!
//! Gradients flow through writes: into the value where it was written, and past it into the old value elsewhere. They stop at a write that
//! was carried out: reading a tensor whose memory is written to carries the write out, as realising it does.

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Op};
use warpweft_compiler::ops::{Built, OpError, broadcast_to};
use warpweft_compiler::region::ExactJudge;
use warpweft_compiler::view::{WriteKind, WriteSource, plan_write};

use super::errors::CallError;
use super::{Error, Operand, Result, Step, Tensor, View};
use crate::execute;

impl Tensor {
    /// Replaces all elements of this tensor, of all views of its storage, and of the storage if this is a view of part of it.
    ///
    /// The value broadcasts to the tensor's shape and is cast to its type. It may be made of this tensor, and show the same storage in
    /// another way. Nothing runs yet.
    ///
    /// # Errors
    /// If either tensor carries one, the shapes do not fit, or positions of this view share elements.
    #[track_caller]
    pub fn assign(&self, value: impl Operand) -> Result<()> {
        let value = value.beside(self);
        self.write("assign", WriteKind::Copy, &value, Location::caller())
    }

    pub(super) fn write(
        &self,
        op: &'static str,
        kind: WriteKind,
        value: &Tensor,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let view = self.0.as_ref().map_err(Clone::clone)?;
        let value = value.uop()?;
        let fail = |message: String| -> Error { CallError::new(op, &[&view.value(), &value], message, location).into() };
        let value = prepared(view, kind, &value).map_err(|error| fail(error.message))?;
        if !value.shape().numel().is(0) {
            let steps = view.steps();
            view.cell.change(|old| written(old, &steps, value));
        }
        Ok(())
    }
}

/// The value as it is written to a view, if it may be.
fn prepared(view: &View, kind: WriteKind, value: &UOp) -> Built {
    let value = broadcast_to(&value.cast(view.dtype), &view.shape)?;
    match view.spec() {
        Some(spec) => plan_write(kind, spec, WriteSource::Scalar, &ExactJudge)
            .map(|_| value)
            .map_err(|error| OpError::new(error.to_string())),
        // Reshapes across seams show each element once; what repeats elements below them is not known to.
        None if view.chain.iter().all(|(op, _)| !matches!(op, Op::Expand | Op::AsStrided | Op::Pad)) => Ok(value),
        None => Err(OpError::new("no strides say where the elements of this view lie: write to a copy")),
    }
}

/// A storage's value with what a view of it shows replaced.
fn written(old: &UOp, steps: &[Step], value: UOp) -> UOp {
    if !steps.is_empty() {
        return old.write(steps, &value);
    }
    // What is replaced as a whole is needed no longer, unless somebody else reads it; but its memory is kept.
    let mut base = old;
    while base.op() == Op::Write && base.owners() == 1 {
        base = &base.src()[0];
    }
    if base.op() == Op::Write || execute::computed_buffer(base).is_some() { base.write(&[], &value) } else { value }
}

impl View {
    /// The movement ops from the storage to the view, none of them padding where strides say where its elements lie.
    fn steps(&self) -> Vec<Step> {
        match self.spec() {
            Some(spec) if self.chain.iter().any(|(op, _)| *op == Op::Pad) => {
                vec![(Op::AsStrided, Arg::Strided(spec.clone().into_arg().into()))]
            }
            _ => self.chain.to_vec(),
        }
    }
}
