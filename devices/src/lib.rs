//! Memory, code and launch of one machine: everything between a [`Program`](warpweft_compiler::program::Program) and running it.
//!
//! A [`Device`] allocates [`RawBuffer`]s, compiles a program to object bytes, loads an object into a [`Kernel`], and a kernel is
//! launched over slices of buffers. A device looks at nothing of the compiler but the two plain structs `Program` and `Target`,
//! keeps no cache, reads no environment and prints nothing.
//!
//! Always: all `unsafe` of the workspace is in this crate, in modules that open it by name, and each block is argued by what
//! stands in the same file. What the types cannot hold is promised once, by who opens a device ([`registry::open`] is an unsafe function):
//! programs are trusted as the renderer made them, and calls that touch the same bytes are ordered. Without a device nothing here runs code, or
//! writes to memory that is shared.
//!
//! Not here: which kernels exist (`compiler`), their text (`renderer`), reuse of memory and of objects (`runtime`).
//! Modules stand in reading order.

pub mod at_exit;
pub mod buffer;
#[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod dlpack;
pub mod elements;
pub mod emulator;
pub mod error;
#[cfg(feature = "guard-pages")]
pub mod guard;
pub mod interpreter;
pub mod launch_list;
pub mod ptxas;
pub mod queue;
pub mod registry;
pub mod timeline;

pub use buffer::{BufferSlice, DeviceMemory, RawBuffer};
pub use device::{Device, Kernel};
pub use error::{DeviceError, FileError};
pub use launch_list::{Argument, LaunchList, Step};
pub use queue::{Event, Queue};
pub use registry::{DeviceName, open};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
