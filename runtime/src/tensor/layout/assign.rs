//! Writing: a tensor that shares its storage with views gives it a new value, which all of them see.
//!
//! The storage's new value is a `write` of the graph: the elements that the view shows, replaced. Nothing runs until a value is asked for;
//! then the elements are replaced in memory if nobody needs the old ones, and else in a copy, which takes its place. So writes
//! happen in the order of the program, values computed before one keep what they read, and a value that overlaps what it is written
//! to is read first.
//!
//! Threads: `add_assign` and its like, and `index_assign`, read and replace in one step, so none of several threads' updates is lost. What is
//! computed first and assigned then (`x.assign(&x + 1)`) is two steps; a compiled function that does so is one.
//!
//! Gradients flow through writes: into the value where it was written, and past it into the old value elsewhere. They stop at a write that
//! was carried out: reading a tensor whose memory is written to carries the write out, as realising it does.

use std::panic::Location;
use std::sync::MutexGuard;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::Op;
use warpweft_compiler::ops::broadcast_to;
use warpweft_compiler::ops::indexing::index_put;
use warpweft_compiler::region::view_overlaps_itself;

use super::index::{IndexList, with_indices};
use crate::execute;
use crate::tensor::convert::Given;
use crate::tensor::errors::CallError;
use crate::tensor::{AxisList, Error, Literal, Operand, Result, Step, Tensor, trace};

/// What a write does with the old elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    /// One number everywhere.
    Fill,
    /// Others in their place.
    Copy,
    /// They are combined with others.
    Update,
}

impl Tensor {
    /// Replaces all elements of this tensor, of all views of its storage, and of the storage if this is a view of part of it.
    ///
    /// The value broadcasts to the tensor's shape and is cast to its type. It may be made of this tensor, and show the same storage in
    /// another way; a view assigned to itself stays as it is. Nothing runs yet.
    ///
    /// # Errors
    /// If either tensor carries one, the shapes do not fit, or positions of this view share elements.
    #[track_caller]
    pub fn assign(&self, value: impl Operand) -> Result<()> {
        let value = value.given().stored_among("assign", self);
        self.write("assign", WriteKind::Copy, &value, Location::caller())
    }

    /// As [`Tensor::assign`], of a tensor.
    ///
    /// # Errors
    /// As [`Tensor::assign`].
    #[track_caller]
    pub fn copy_from(&self, source: &Tensor) -> Result<()> {
        self.write("copy_from", WriteKind::Copy, source, Location::caller())
    }

    /// Sets all elements to one number, in the tensor's type; also where positions of this view share elements.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn fill(&self, number: impl Into<Literal>) -> Result<()> {
        let location = Location::caller();
        let value = Given::Number(number.into()).stored_among("fill", self);
        self.write("fill", WriteKind::Fill, &value, location)
    }

    /// Adds to all elements, where they lie.
    ///
    /// # Errors
    /// As [`Tensor::assign`]; or if a float is added to integers.
    #[track_caller]
    pub fn add_assign(&self, value: impl Operand) -> Result<()> {
        let value = value.given();
        let _turn = self.turn();
        self.update("add_assign", &self.plus(value), Location::caller())
    }

    /// Subtracts from all elements, where they lie.
    ///
    /// # Errors
    /// As [`Tensor::add_assign`].
    #[track_caller]
    pub fn sub_assign(&self, value: impl Operand) -> Result<()> {
        let value = value.given();
        let _turn = self.turn();
        self.update("sub_assign", &self.minus(value), Location::caller())
    }

    /// Multiplies all elements, where they lie.
    ///
    /// # Errors
    /// As [`Tensor::add_assign`].
    #[track_caller]
    pub fn mul_assign(&self, value: impl Operand) -> Result<()> {
        let value = value.given();
        let _turn = self.turn();
        self.update("mul_assign", &self.times(value), Location::caller())
    }

    /// Divides all elements, where they lie.
    ///
    /// # Errors
    /// As [`Tensor::add_assign`]; a quotient of integers is a float.
    #[track_caller]
    pub fn div_assign(&self, value: impl Operand) -> Result<()> {
        let value = value.given();
        let _turn = self.turn();
        self.update("div_assign", &self.over(value), Location::caller())
    }

    /// Assigns to the part that an index names: `x.get(index).assign(value)`.
    ///
    /// # Errors
    /// As [`Tensor::assign`]; or if the index does not fit.
    #[track_caller]
    pub fn slice_assign(&self, index: impl IndexList, value: impl Operand) -> Result<()> {
        let part = self.get(index);
        let value = value.given().stored_among("slice_assign", &part);
        part.write("slice_assign", WriteKind::Copy, &value, Location::caller())
    }

    /// Assigns to the elements that tensors of integers name: `x[.., index, ..] = value`, with the axes and indices of [`Tensor::index`].
    ///
    /// Of several values for one element the last counts. Negative indices count from the end; one out of range is an error as in
    /// [`Tensor::index`], and unless it is seen, it names nothing.
    ///
    /// # Errors
    /// As [`Tensor::assign`]; or if the indices do not fit.
    #[track_caller]
    pub fn index_assign(&self, axes: impl AxisList, indices: &[&Tensor], value: impl Operand) -> Result<()> {
        let axes = &axes.axes()[..];
        let location = Location::caller();
        let value = value.given().stored_among("index_assign", self);
        let _turn = self.turn();
        let all: Vec<&Tensor> = [self, &value].into_iter().chain(indices.iter().copied()).collect();
        let changed = Tensor::joined("index_assign", &all, |nodes| {
            let build = |indices: &[UOp]| index_put(&nodes[0], axes, indices, &nodes[1]);
            with_indices("index_assign", nodes, axes, &nodes[2..], location, build)
        });
        self.write_in_turn("index_assign", WriteKind::Update, &changed, location)
    }

    /// Replaces all elements by what `change` makes of them, where they lie; no other update comes between. For bindings to other languages: `change`
    /// says what is to be computed and updates nothing, since this tensor's turn is taken meanwhile.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1i32, 2, 3], [3]);
    /// x.get(1..).update_with(|part| part.lshift(2))?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 8, 12]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::add_assign`].
    #[doc(hidden)]
    #[track_caller]
    pub fn update_with(&self, change: impl FnOnce(&Tensor) -> Tensor) -> Result<()> {
        let _turn = self.turn();
        self.update("update_with", &change(self), Location::caller())
    }

    fn update(&self, op: &'static str, value: &Tensor, location: &'static Location<'static>) -> Result<()> {
        let (own, other) = (self.dtype()?, value.dtype()?);
        if other.is_float() && !own.is_float() {
            let message = format!("gives {other}, which does not go into {own} as it is: cast it first, and assign it");
            return Err(CallError::new(op, &[&self.uop()?], message, location).into());
        }
        self.write_in_turn(op, WriteKind::Update, value, location)
    }

    /// Keeps all others from making the next value of the one that this shows now; in a trace there are none.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.storage().filter(|_| !trace::is_active()).map(|storage| storage.turn())
    }

    /// Holds another tensor's value from now on, of the same type and shape: of a whole storage the very memory, without a copy.
    pub(crate) fn take(&self, value: &Tensor, location: &'static Location<'static>) -> Result<()> {
        let (view, new) = (self.as_view()?, value.uop()?);
        let _turn = self.turn();
        if view.chain.is_empty() && !trace::is_active() && *new.shape() == view.shape {
            view.storage.replace(new);
            return Ok(());
        }
        self.write_in_turn("call_into", WriteKind::Copy, value, location)?;
        if trace::is_active() { Ok(()) } else { view.storage.settled().map(|_| ()) }
    }

    /// As [`Tensor::assign`], by who has the turn.
    pub(crate) fn assign_in_turn(&self, value: &Tensor) -> Result<()> {
        self.write_in_turn("assign", WriteKind::Copy, value, Location::caller())
    }

    /// Whether the other shows the same elements at the same positions: what is assigned so changes nothing, whatever the view.
    fn is_same_view(&self, other: &Tensor) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(another)) => {
                let (one, another) = (one.spec(), another.spec());
                let mut strides = one.shape.iter().zip(one.strides.iter().zip(another.strides.iter()));
                let same_offset = one.shape == another.shape && one.offset == another.offset;
                self.shares_storage_with(other) && same_offset && strides.all(|(len, (a, b))| len.is(1) || a == b)
            }
            _ => false,
        }
    }

    fn write(
        &self,
        op: &'static str,
        kind: WriteKind,
        value: &Tensor,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let _turn = self.turn();
        self.write_in_turn(op, kind, value, location)
    }

    fn write_in_turn(
        &self,
        op: &'static str,
        kind: WriteKind,
        value: &Tensor,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let view = self.as_view()?;
        if kind == WriteKind::Copy && self.is_same_view(value) {
            return Ok(());
        }
        let value = value.uop()?;
        let fail =
            |message: String| -> Error { CallError::new(op, &[&view.value(), &value], message, location).into() };
        let value = broadcast_to(&value.cast(view.dtype), &view.shape).map_err(|error| fail(error.message))?;
        if kind != WriteKind::Fill && view_overlaps_itself(view.spec()).may_be() {
            let (shape, strides) = (&view.shape, &view.spec().strides);
            return Err(fail(format!(
                "positions of the view of shape {shape} and strides {strides} share elements, so a write to it would have no defined \
                 result; write to a copy"
            )));
        }
        if !value.shape().numel().is(0) {
            view.storage.change(|old| written(old, &view.chain, value));
        }
        Ok(())
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
