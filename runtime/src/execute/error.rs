//! Why a program could not run.

use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::error::CompileError;
use warpweft_devices::DeviceError;

use super::{IndexError, InternalError};

/// Why a program could not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The program did not become kernels.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A program works on memory of two devices.
    #[error("a program uses memory of {first} and of {second}; move one tensor to the other device first")]
    MixedDevices {
        /// One device.
        first: String,
        /// Another.
        second: String,
    },
    /// A variable of a symbolic shape has no value.
    #[error("the variable {name} has no value; bind it before computing")]
    Unbound {
        /// The variable.
        name: String,
    },
    /// Data of another length than its shape says.
    #[error("{bytes} bytes of data for {len} elements of {dtype}, which are {expected} bytes")]
    DataLength {
        /// Bytes given.
        bytes: usize,
        /// Elements wanted.
        len: u64,
        /// Their type.
        dtype: DType,
        /// Bytes that these are.
        expected: u128,
    },
    /// The value of a tensor that is being traced.
    #[error(
        "a value was asked for while a function is traced, when there is none yet, so no branch can depend on it: compute both sides and \
         choose with `where_`, or return the tensor and look at it after the call"
    )]
    Traced,
    /// The value of a tensor that was given away.
    #[error(
        "the tensor was donated to a function, whose result may lie in its memory: use the result, or donate a copy"
    )]
    Donated,
    /// An index has an element that names nothing; found in the checked mode alone.
    #[error("{0}")]
    Index(Box<IndexError>),
    /// A bug in the compiler.
    #[error("{0}")]
    Internal(Arc<InternalError>),
    /// A device that runs programs as they are has nothing that a search could choose.
    #[error(
        "{device} runs kernels as they are: there are no opts to search for; tune on a device that compiles them, such as CPU"
    )]
    NothingToTune {
        /// The device.
        device: String,
    },
    /// A `Buffer` node without memory: it did not come from this runtime.
    #[error("a buffer without memory: only buffers that the runtime made hold values")]
    NoMemory,
}
