//! The two traits that a machine implements: [`Device`] for memory and code, [`Kernel`] for one loaded program.
//!
//! Both are object safe and shared between threads. A device has no state that a caller must synchronise.
//!
//! Nothing here is an unsafe function, because whoever has a device has promised already: at [`crate::registry::open`].
#![allow(unsafe_code, reason = "names a promise")]

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use warpweft_compiler::program::Program;
use warpweft_compiler::target::Target;

use crate::buffer::{BufferSlice, RawBuffer};
use crate::elements;
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, OneByOne, Step};
use crate::queue::Queue;

/// Bytes that go by way of the host in one piece.
const COPIED_AT_ONCE: usize = 4 << 20;

/// One machine: its memory, its code generator, and its queue. Where nothing else is said the memory is that of the host, and there is no queue:
/// what is asked for is done when the call returns.
///
/// # Safety
/// A value of a type that implements this can be had only from who made the promises of [`crate::registry::open`].
pub unsafe trait Device: Debug + Send + Sync {
    /// Name in capitals, as in `CPU`; of the second and later ones of a kind with the number, as in `PTX:1` ([`crate::registry::DeviceName`]).
    fn name(&self) -> &str;

    /// What the machine can do.
    fn target(&self) -> &Target;

    /// What turns programs into objects: its version, and all else that changes objects. Part of the key of a stored object.
    fn compiler(&self) -> &str;

    /// What launches and copies of this device wait in; none where they are done when the call returns.
    fn queue(&self) -> Option<&dyn Queue> {
        None
    }

    /// Returns when all that the device was given so far is done.
    ///
    /// # Errors
    /// As [`Queue::finish`].
    fn finish(&self) -> Result<(), DeviceError> {
        self.queue().map_or(Ok(()), Queue::finish)
    }

    /// Whether kernels work on memory of the host. If not, theirs is [`RawBuffer::of_device`].
    fn uses_host_memory(&self) -> bool {
        true
    }

    /// Allocates `bytes` bytes, aligned to at least 128 bytes; all zero, if it is memory of the host. No bytes is a valid request.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        RawBuffer::host(self.name(), bytes)
    }

    /// Copies `data` into a buffer, from byte `offset` on, after all that the queue holds. The caller orders this against launches, as in
    /// [`Kernel::launch`], and may use `data` again when the call returns.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it does not fit.
    fn copy_in(&self, buffer: &RawBuffer, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        buffer.all().copy_in(offset, data)
    }

    /// Fills `data` from a buffer, from byte `offset` on, when all that the queue holds is done. The caller orders this against launches, as in
    /// [`Kernel::launch`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when the buffer is too short; the first failure in the queue that nobody was told of.
    fn copy_out(&self, buffer: &RawBuffer, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        buffer.all().copy_out(offset, data)
    }

    /// Copies `bytes` bytes of another device's memory into a buffer of this one: through the host, where the machine knows no better way.
    ///
    /// # Errors
    /// As [`Device::copy_in`], and [`Device::copy_out`] of the other.
    fn copy_from(
        &self,
        (buffer, offset): (&RawBuffer, usize),
        from: &dyn Device,
        (source, source_offset): (&RawBuffer, usize),
        bytes: usize,
    ) -> Result<(), DeviceError> {
        copy_through_host(self, (buffer, offset), from, (source, source_offset), bytes)
    }

    /// Makes memory of its kind that somebody lent ([`crate::dlpack::Capsule::into_memory`]) its own to read: as it lies there, or copied where kernels need it
    /// otherwise. The lender has it back when the buffer drops and nothing waits that reads it.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when it is no memory that the device's kernels can use.
    fn adopt(&self, memory: RawBuffer) -> Result<RawBuffer, DeviceError> {
        match memory.is_host() && self.uses_host_memory() {
            true => Ok(memory),
            false => Err(DeviceError::Unsupported {
                device: self.name().to_string(),
                what: "use memory of another device: copy it first".to_string(),
            }),
        }
    }

    /// Turns a program into object bytes, which may be stored and loaded by another process on a machine of the same target.
    /// Nothing is cached here, and any number of threads may compile at once.
    ///
    /// # Errors
    /// [`DeviceError::Program`] when the source does not parse or lacks the entry point, [`DeviceError::Compile`] when code
    /// generation fails, [`DeviceError::CompilerMissing`] when there is none.
    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError>;

    /// Makes a kernel of what [`Device::compile`] returned for this program.
    ///
    /// # Errors
    /// [`DeviceError::Object`] when the object is damaged or needs something that the loader lacks.
    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError>;

    /// Prepares launches to run in order, again and again. An argument is at least as long as its kernel's parameter.
    fn launch_list(&self, steps: Vec<Step>) -> Arc<dyn LaunchList> {
        Arc::new(OneByOne::new(steps))
    }

    /// The instructions of an object, one a line, for people to read.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the object is damaged, or on a device without instructions.
    fn disassemble(&self, object: &[u8]) -> Result<String, DeviceError>;
}

/// What [`Device::copy_from`] does where a machine knows no better way.
pub(crate) fn copy_through_host<D: Device + ?Sized>(
    to: &D,
    (buffer, offset): (&RawBuffer, usize),
    from: &dyn Device,
    (source, source_offset): (&RawBuffer, usize),
    bytes: usize,
) -> Result<(), DeviceError> {
    if from.queue().is_none()
        && let Some(data) = elements::as_elements(source.slice(source_offset, bytes)?)
    {
        return to.copy_in(buffer, offset, data);
    }
    let mut piece = vec![0; bytes.min(COPIED_AT_ONCE)];
    let mut done = 0;
    while done < bytes {
        let piece = &mut piece[..(bytes - done).min(COPIED_AT_ONCE)];
        from.copy_out(source, source_offset + done, piece)?;
        to.copy_in(buffer, offset + done, piece)?;
        done += piece.len();
    }
    Ok(())
}

/// One loaded program, ready to run any number of times from any number of threads.
pub trait Kernel: Any + Debug + Send + Sync {
    /// Runs the whole kernel and returns when it is done; a device with a [`Queue`] may return when the kernel stands in it. At most `threads` threads
    /// take part, the caller among them.
    ///
    /// `buffers` and `variables` stand in the order of the program's. No lock is held while the kernel runs, and a short
    /// kernel runs on the calling thread without allocating.
    ///
    /// The caller's duties, which no type can hold, were promised at [`crate::registry::open`]: the program came from the renderer, so
    /// that it keeps to `parameters`; and two launches or copies that touch the same bytes, one of them writing, do not overlap in time. What stands in
    /// one queue does not overlap, and memory of a device may be dropped while a launch over it waits: it is freed after that.
    ///
    /// # Errors
    /// Whatever the device reports about the run; on a CPU there is nothing. What fails later is told to who waits for the queue.
    ///
    /// # Panics
    /// When the number of buffers or variables is not the program's, or a slice is shorter than its parameter: a mistake of
    /// the caller, not of the user.
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError>;

    /// The same code for another program of its text, which differs in numbers, lengths and name alone; none on a device that loads it anew.
    fn for_program(&self, _program: &Program) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// Counts from now on what accesses to memory take, on a device that can.
    fn count_memory(&self) {}

    /// A table of what accesses to memory took since it was asked for last; none where nothing is counted.
    fn memory_report(&self) -> Option<String> {
        None
    }
}
