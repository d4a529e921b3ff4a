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
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, OneByOne, Step};

/// One machine: its memory and its code generator. Where nothing else is said the memory is that of the host.
///
/// # Safety
/// A value of a type that implements this can be had only from who made the promises of [`crate::registry::open`].
pub unsafe trait Device: Debug + Send + Sync {
    /// Name in capitals, as in `CPU`.
    fn name(&self) -> &str;

    /// What the machine can do.
    fn target(&self) -> &Target;

    /// What turns programs into objects: its version, and all else that changes objects. Part of the key of a stored object.
    fn compiler(&self) -> &str;

    /// Allocates `bytes` bytes, all zero, aligned to at least 128 bytes. No bytes is a valid request.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        RawBuffer::host(self.name(), bytes)
    }

    /// Copies `data` into a buffer, from byte `offset` on. The caller orders this against launches, as in [`Kernel::launch`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it does not fit.
    fn copy_in(&self, buffer: &RawBuffer, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        buffer.all().copy_in(offset, data)
    }

    /// Fills `data` from a buffer, from byte `offset` on. The caller orders this against launches, as in [`Kernel::launch`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when the buffer is too short.
    fn copy_out(&self, buffer: &RawBuffer, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        buffer.all().copy_out(offset, data)
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

/// One loaded program, ready to run any number of times from any number of threads.
pub trait Kernel: Any + Debug + Send + Sync {
    /// Runs the whole kernel and returns when it is done. At most `threads` threads take part, the caller among them.
    ///
    /// `buffers` and `variables` stand in the order of the program's. No lock is held while the kernel runs, and a short
    /// kernel runs on the calling thread without allocating.
    ///
    /// The caller's duties, which no type can hold, were promised at [`crate::registry::open`]: the program came from the renderer, so
    /// that it keeps to `parameters`; and two launches or copies that touch the same bytes, one of them writing, do not overlap in time.
    ///
    /// # Errors
    /// Whatever the device reports about the run; on a CPU there is nothing.
    ///
    /// # Panics
    /// When the number of buffers or variables is not the program's, or a slice is shorter than its parameter: a mistake of
    /// the caller, not of the user.
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError>;

    /// Counts from now on what accesses to memory take, on a device that can.
    fn count_memory(&self) {}

    /// A table of what accesses to memory took since it was asked for last; none where nothing is counted.
    fn memory_report(&self) -> Option<String> {
        None
    }
}
