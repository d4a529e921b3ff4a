//! Asking: shapes, values, computation.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;
use warpweft_compiler::dtype::arithmetic::{self, WithElement, with_element};
use warpweft_compiler::dtype::{Elements, Scalar};
use warpweft_compiler::ir::Shape;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::schedule::normalize;
use warpweft_compiler::{DType, UOp};
use warpweft_devices::{BufferSlice, DeviceError, elements};

use super::convert::TensorElement;
use super::errors::CallError;
use super::gradient::{is_constant, note_memory};
use super::settle::{carry_out, writes_to_memory};
use super::{Error, Result, Storage, Tensor, View, at, trace};
use crate::execute::{self, ExecuteError};
use crate::search::Tuning;

impl Tensor {
    pub(super) fn as_view(&self) -> Result<&View> {
        self.0.as_ref().map_err(Clone::clone)
    }

    /// The lengths of the axes; of a variable without a value, the largest.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn shape(&self) -> Result<Vec<usize>> {
        Ok(self.as_view()?.shape.iter().map(|dim| dim.value_or_most().max(0) as usize).collect())
    }

    /// The lengths of the axes, symbolic ones as such.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn dims(&self) -> Result<Shape> {
        Ok(self.as_view()?.shape.clone())
    }

    /// The type of an element.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.as_view()?.dtype)
    }

    /// The number of axes.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn rank(&self) -> Result<usize> {
        Ok(self.as_view()?.shape.len())
    }

    /// The number of elements; with a variable without a value, the most there can be.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn numel(&self) -> Result<usize> {
        Ok(self.as_view()?.shape.numel().value_or_most().max(0) as usize)
    }

    /// Whether its elements are in memory.
    pub fn is_realized(&self) -> bool {
        let in_memory = |buffer: UOp| execute::memory_of(&buffer).is_none_or(|memory| memory.unread().is_none());
        self.as_view().is_ok_and(|view| execute::computed_buffer(&view.storage.peek()).is_some_and(in_memory))
    }

    /// Computes the tensor, once; it then lies in memory and forgets how it was computed. Gives itself, for chaining.
    ///
    /// Reading a tensor computes it too, but does not forget: gradients flow through what was read, and stop at what was realised.
    ///
    /// # Errors
    /// If the tensor carries one, or the program cannot run.
    #[track_caller]
    pub fn realize(&self) -> Result<&Tensor> {
        Tensor::realize_all(&[self])?;
        Ok(self)
    }

    /// Computes several tensors in one program, which shares what they share.
    ///
    /// # Errors
    /// If a tensor carries one, or the program cannot run.
    #[track_caller]
    pub fn realize_all(tensors: &[&Tensor]) -> Result<()> {
        compute(tensors).map_err(at(Location::caller()))
    }

    /// Searches for faster kernels of the program that computes these tensors, as [`Function::tune`](crate::Function::tune) does; nothing is computed. Programs
    /// of this process that have such kernels and are compiled from then on, this one among them, use what is found.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use warpweft::Tensor;
    /// let (x, w) = (Tensor::rand([64, 512]), Tensor::rand([512, 512]));
    /// let y = x.matmul(&w).relu();
    /// println!("{}", Tensor::tune_all(&[&y], Duration::from_secs(10))?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a tensor carries one, the device runs kernels as they are (the interpreter), or memory for a kernel's buffers does not suffice.
    #[track_caller]
    pub fn tune_all(tensors: &[&Tensor], budget: Duration) -> Result<Tuning> {
        let location = Location::caller();
        let values = tensors.iter().map(|tensor| tensor.uop()).collect::<Result<Vec<UOp>>>().map_err(at(location))?;
        execute::tune(&values, budget).map_err(|error| Error::from(error).at(location))
    }

    /// What is still to be computed for this tensor, as text that `warpweft inspect` reads: tensors in memory are its parameters.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
    /// assert!((x.exp() * 2.0).program()?.starts_with("graph %program(p0: f32[2]) {"));
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn program(&self) -> Result<String> {
        let value = self.uop()?;
        let normalized = normalize(std::slice::from_ref(&value), execute::computed).map_err(ExecuteError::from)?;
        Ok(Graph::new("program", normalized.sink.src().to_vec()).to_string())
    }

    /// The elements in row-major order, whatever their type, as little-endian bytes.
    ///
    /// # Errors
    /// If the tensor carries one, or the program cannot run.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.with_bytes(|bytes| Ok(elements::to_vec(bytes)?.unwrap_or_default()))?.unwrap_or_default())
    }

    /// Hands its memory, row-major, to a closure, once it is computed; none if there are no elements.
    #[track_caller]
    fn with_bytes<R>(
        &self,
        read: impl FnOnce(BufferSlice<'_>) -> std::result::Result<R, ExecuteError>,
    ) -> Result<Option<R>> {
        let location = Location::caller();
        match self.settled_value().map_err(at(location))? {
            None => Ok(None),
            Some(value) => execute::with_bytes(&value, read).map(Some).map_err(|error| Error::from(error).at(location)),
        }
    }

    /// Its value, once what is still to be written to its memory was; none if there are no elements.
    pub(super) fn settled_value(&self) -> Result<Option<UOp>> {
        let view = self.as_view()?;
        match view.shape.numel().value() {
            Ok(0) => return Ok(None),
            Ok(_) if !trace::is_active() && writes_to_memory(&view.storage.peek()) => carry_out(vec![&view.storage])?,
            Ok(_) => {}
            Err(name) => return Err(ExecuteError::Unbound { name }.into()),
        }
        Ok(Some(view.value()))
    }

    /// Hands the elements, in row-major order, to a closure: of a tensor in memory, whose elements lie in a row, without a copy.
    ///
    /// What is written to the tensor meanwhile goes to other memory.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]);
    /// assert_eq!(x.with_slice(|elements: &[f32]| elements.iter().sum::<f32>())?, 6.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn with_slice<E: TensorElement, R>(&self, read: impl FnOnce(&[E]) -> R) -> Result<R> {
        self.check_type::<E>("with_slice", Location::caller())?;
        let mut read = Some(read);
        let found =
            self.with_bytes(|bytes| Ok(elements::as_elements(bytes).and_then(|found| Some(read.take()?(found)))))?;
        match (found.flatten(), read) {
            (Some(found), _) => Ok(found),
            (None, Some(read)) => Ok(read(&self.to_vec::<E>()?)),
            (None, None) => Err(ExecuteError::NoMemory.into()), // a closure that was called gave something
        }
    }

    /// The elements in row-major order, whatever their type.
    ///
    /// # Errors
    /// If the tensor carries one, or the program cannot run.
    #[track_caller]
    pub fn elements(&self) -> Result<Elements> {
        let location = Location::caller();
        let dtype = self.as_view()?.dtype;
        let found = self.with_bytes(|bytes| match with_element(dtype, Typed(bytes)) {
            Some(copied) => Ok(copied?),
            None => Ok(None),
        })?;
        let elements = match found {
            None => Elements::from_bytes(dtype, &[]),
            Some(Some(elements)) => Some(elements),
            Some(None) => Elements::from_bytes(dtype, &self.to_bytes()?),
        };
        elements.ok_or_else(|| {
            CallError::new("elements", &[], format!("there are no elements of {dtype}"), location).into()
        })
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// If the tensor is of another type or carries an error, or the program cannot run.
    #[track_caller]
    pub fn to_vec<E: TensorElement>(&self) -> Result<Vec<E>> {
        self.check_type::<E>("to_vec", Location::caller())?;
        match self.with_bytes(|bytes| Ok(elements::to_vec::<E>(bytes)?))? {
            None => Ok(Vec::new()),
            Some(Some(elements)) => Ok(elements),
            Some(None) => Ok(E::slice(&self.elements()?).map(<[E]>::to_vec).unwrap_or_default()),
        }
    }

    /// The one element of a tensor of one element.
    ///
    /// # Errors
    /// If it has another number of elements or another type, carries an error, or the program cannot run.
    #[track_caller]
    pub fn item<E: TensorElement>(&self) -> Result<E> {
        let location = Location::caller();
        self.check_type::<E>("item", location)?;
        let value = self.item_scalar()?;
        Ok(E::from_scalar(value))
    }

    /// As [`Tensor::item`], whatever the type.
    ///
    /// # Errors
    /// If it has another number of elements, carries an error, or the program cannot run.
    #[track_caller]
    pub fn item_scalar(&self) -> Result<Scalar> {
        let location = Location::caller();
        let view = self.as_view()?;
        let unbound = |name| Error::from(ExecuteError::Unbound { name }).at(location);
        let count = view.shape.numel().value().map_err(unbound)?;
        if count != 1 {
            let message = format!("it has {count} elements; only one element is an item");
            return Err(CallError::new("item", &[&view.value()], message, location).into());
        }
        Ok(self.elements()?.get(0))
    }

    fn check_type<E: TensorElement>(&self, op: &'static str, location: &'static Location<'static>) -> Result<()> {
        let view = self.as_view()?;
        if view.dtype == E::DTYPE {
            return Ok(());
        }
        let message = format!("its elements are {}, not {}: ask for those, or cast it first", view.dtype, E::DTYPE);
        Err(CallError::new(op, &[&view.value()], message, location).into())
    }
}

/// Computes tensors in one program.
fn compute(tensors: &[&Tensor]) -> Result<()> {
    let views = tensors.iter().map(|tensor| tensor.as_view()).collect::<Result<Vec<&View>>>()?;
    tensors.iter().try_for_each(|tensor| tensor.load_storage())?;
    let mut pending: Vec<(&View, UOp)> = views
        .into_iter()
        .map(|view| (view, view.storage.value()))
        .filter(|(_, value)| execute::base_memory(value).is_none() && !value.shape().numel().is(0))
        .collect();
    // Constants that are alike are one node, but each tensor's memory is its own: it may be a parameter.
    let mut seen: FxHashSet<UOp> = FxHashSet::default();
    let is_again = |(_, value): &mut (&View, UOp)| is_constant(value) && !seen.insert(plain(value));
    let several = if pending.len() > 1 { 0.. } else { pending.len().. };
    let again: Vec<&View> = pending.extract_if(several, is_again).map(|(view, _)| view).collect();
    drop(seen); // who holds a value would seem to need its old elements
    compute_pending(pending)?;
    again.into_iter().try_for_each(|view| compute(&[&Tensor(Ok(view.clone()))]))
}

/// A constant as programs have it, where all that are alike are one.
fn plain(constant: &UOp) -> UOp {
    match normalize(std::slice::from_ref(constant), |_| None) {
        Ok(normalized) => normalized.sink.src()[0].clone(),
        Err(_) => constant.clone(), // whoever computes it is told
    }
}

fn compute_pending(pending: Vec<(&View, UOp)>) -> Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    if trace::is_active() {
        // The function that the trace becomes computes what it needs; what is left is that gradients stop here.
        pending.iter().for_each(|(view, value)| view.storage.set(value.detach()));
        return Ok(());
    }
    let storages: Vec<&Arc<Storage>> = pending.iter().map(|(view, _)| &view.storage).collect();
    if !pending.iter().any(|(_, value)| writes_to_memory(value)) {
        let values: Vec<UOp> = pending.iter().map(|(_, value)| value.clone()).collect();
        for ((storage, value), stored) in storages.into_iter().zip(&values).zip(execute::realize(&values)?) {
            note_memory(value, &stored);
            storage.settle_to(value, stored);
        }
        return Ok(());
    }
    drop(pending);
    carry_out(storages)
}

/// A copy of memory as elements of their type.
struct Typed<'memory>(BufferSlice<'memory>);

impl WithElement for Typed<'_> {
    type Output = std::result::Result<Option<Elements>, DeviceError>;
    fn with<E: arithmetic::Element>(self) -> Self::Output {
        Ok(elements::to_vec::<E>(self.0)?.map(E::wrap))
    }
}
