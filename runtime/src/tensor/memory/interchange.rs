//! Tensors from and for other libraries without a copy: DLPack, and `ndarray` behind the feature of that name.
//!
//! What comes in keeps its strides and its memory: the tensor is a view of a storage that belongs to the producer, and gives it back when
//! the last tensor that needs it drops. Tensors never write to such memory, whether it is flagged read-only or not: a write gives the
//! tensor memory of its own. The producer must not write to it either while tensors read it.
//! What goes out is flagged read-only, because other tensors may hold the same memory; a copy for the consumer alone is not.
//!
//! Not here: the C structs and who frees them (`devices::dlpack`). Tests: tests/it/interchange.rs.

use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::ir::{Dim, Op, Shape, UOp};
use warpweft_compiler::view::ViewSpec;
use warpweft_devices::RawBuffer;
use warpweft_devices::dlpack::abi::{CUDA, DLDevice};
use warpweft_devices::dlpack::{Capsule, DlpackError, Layout};

use crate::memory::{Buffer, Lease};
use crate::tensor::errors::CallError;
use crate::tensor::{Error, Result, Tensor, at};
use crate::{execute, registry};

impl Tensor {
    /// A tensor over the memory of a DLPack capsule, on the default device; memory of a GPU, on the device `CUDA` of its number.
    ///
    /// The memory is given back, once, when nothing needs it any more; at once if the capsule is refused.
    #[track_caller]
    pub fn from_dlpack(capsule: Capsule) -> Tensor {
        let location = Location::caller();
        // Memory of no elements belongs nowhere.
        let of_gpu = |device: DLDevice| (device.device_type == CUDA).then(|| format!("cuda:{}", device.device_id));
        let device = capsule.device().ok().and_then(of_gpu);
        match capsule.into_memory() {
            Ok((memory, layout)) => Tensor::adopted("from_dlpack", device.as_deref(), memory, &layout, location),
            Err(error) => Tensor::from_error(CallError::new("from_dlpack", &[], error.to_string(), location)),
        }
    }

    /// The elements for another library: computed, and shared without a copy where strides say how they lie, read-only. They are shared where they are: a
    /// tensor on a GPU gives memory of the GPU, which has done all that it was given. What an emulated device keeps is copied.
    ///
    /// # Errors
    /// If the tensor carries one, a variable of its shape has no value, or the program cannot run.
    #[track_caller]
    pub fn to_dlpack(&self) -> Result<Capsule> {
        let location = Location::caller();
        if self.numel()? == 0 {
            return self.to_dlpack_copy();
        }
        let (value, node) = self.in_memory().map_err(at(location))?;
        let Some(spec) = ViewSpec::of_node(&value).filter(|_| is_readable(&node)) else {
            return self.to_dlpack_copy();
        };
        shared(&value, &node, spec, location)
    }

    /// A copy of the elements in row-major order for another library, which may write to it.
    ///
    /// # Errors
    /// As [`Tensor::to_dlpack`].
    #[track_caller]
    pub fn to_dlpack_copy(&self) -> Result<Capsule> {
        let location = Location::caller();
        let elements = self.elements()?;
        let shape: Vec<i64> = self.shape()?.into_iter().map(|len| len as i64).collect();
        let strides = Shape::from(shape.clone()).row_major_strides().iter().map(Dim::max_value).collect();
        let layout = Layout { dtype: self.dtype()?, shape, strides, offset: 0 };
        let refused = |message: String| -> Error { CallError::new("to_dlpack", &[], message, location).into() };
        Capsule::of_memory(Arc::new(RawBuffer::from_elements(elements)), &layout, true)
            .map_err(|error| refused(error.to_string()))
    }

    /// The elements for another library, which may write to them: the tensor is given away, without a copy where its memory is nobody else's.
    ///
    /// # Errors
    /// As [`Tensor::to_dlpack`].
    #[track_caller]
    pub fn into_dlpack(self) -> Result<Capsule> {
        let location = Location::caller();
        if self.numel()? == 0 {
            return self.to_dlpack_copy();
        }
        let (value, node) = self.in_memory().map_err(at(location))?;
        let is_own = execute::memory_of(&node).is_some_and(Buffer::is_own) && is_readable(&node);
        let Some(spec) = ViewSpec::of_node(&value).filter(|_| is_own) else { return self.to_dlpack_copy() };
        let (memory, layout) = placed(&value, &node, spec)?;
        // Whoever else holds the memory now may read it later, or write to it.
        drop((self, value, node));
        let is_copy = Arc::strong_count(&memory) == 1;
        let capsule = Capsule::of_memory(memory, &layout, is_copy).map_err(|error| unnamed(&error, location))?;
        if is_copy { Ok(capsule) } else { Tensor::from_dlpack(capsule).to_dlpack_copy() }
    }

    /// A tensor over memory that lies in any strides.
    pub(super) fn adopted(
        op: &'static str,
        device: Option<&str>,
        memory: RawBuffer,
        layout: &Layout,
        location: &'static Location<'static>,
    ) -> Tensor {
        match registry::executor(device) {
            Ok(executor) => match executor.adopt(memory, layout.dtype) {
                Ok(flat) => Tensor::laid_out(op, flat, layout, location),
                Err(error) => Tensor::from_error(Error::from(error).at(location)),
            },
            Err(error) => Tensor::from_error(Error::from(error).at(location)),
        }
    }

    /// The value over memory, and the memory's node: computed if it was not, in row-major order if no strides say how it lies.
    #[track_caller]
    fn in_memory(&self) -> Result<(UOp, UOp)> {
        self.realize()?;
        let value = self.uop()?;
        let mut base = &value;
        while base.op().is_movement() {
            base = &base.src()[0];
        }
        if base.op() == Op::Buffer && ViewSpec::of_node(&value).is_some() {
            return Ok((value.clone(), base.clone()));
        }
        let stored = execute::realize(std::slice::from_ref(&value))?.remove(0);
        let node = execute::base_memory(&stored).cloned().ok_or(execute::ExecuteError::NoMemory)?;
        Ok((stored, node))
    }
}

/// Whether others in this process can use the memory of a node.
fn is_readable(node: &UOp) -> bool {
    let is_known = |memory: &RawBuffer| memory.device_memory().is_none_or(|memory| memory.dlpack_device().is_some());
    execute::memory_of(node)
        .is_some_and(|memory| memory.shared_memory().is_ok_and(|memory| is_known((*memory).as_ref())))
}

/// A capsule over the memory of a node, of which a value is a view.
fn shared(value: &UOp, node: &UOp, spec: &ViewSpec, location: &'static Location<'static>) -> Result<Capsule> {
    let (memory, layout) = placed(value, node, spec)?;
    let refused = |message: String| -> Error { CallError::new("to_dlpack", &[value], message, location).into() };
    Capsule::of_memory(memory, &layout, false).map_err(|error| refused(error.to_string()))
}

/// The memory of a node, and where in it the elements of a view of it lie.
fn placed(value: &UOp, node: &UOp, spec: &ViewSpec) -> Result<(Arc<Lease>, Layout)> {
    let number = |dim: &Dim| dim.value().map_err(|name| Error::from(execute::ExecuteError::Unbound { name }));
    let buffer = execute::memory_of(node).ok_or(execute::ExecuteError::NoMemory)?;
    let layout = Layout {
        dtype: value.dtype(),
        shape: spec.shape.iter().map(number).collect::<Result<_>>()?,
        strides: spec.strides.iter().map(number).collect::<Result<_>>()?,
        offset: number(&spec.offset)? + (buffer.offset() / value.dtype().bytes().max(1)) as i64,
    };
    let memory = buffer.shared_memory().map_err(execute::ExecuteError::from)?;
    buffer.allocator().device().finish().map_err(execute::ExecuteError::from)?;
    Ok((memory, layout))
}

fn unnamed(error: &DlpackError, location: &'static Location<'static>) -> Error {
    CallError::new("to_dlpack", &[], error.to_string(), location).into()
}
