//! Warpweft: an embeddable tensor compiler. Lazy tensors, fused kernels, machine code.
//!
#![doc = include_str!("guide.md")]
#![deny(missing_docs)]

#[doc(hidden)] // this and its like below: `compiler` is where they are found
pub mod cache;
pub mod compiler;
pub mod config;
pub mod debug;
pub mod device;
#[doc(hidden)]
pub mod execute;
pub mod formats;
pub mod function;
#[doc(hidden)]
pub mod memory;
pub mod nn;
#[cfg(feature = "onnx")]
pub mod onnx;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod search;
pub mod tensor;

pub use config::{Config, init};
pub use device::Device;
pub use execute::ExecuteError;
pub use function::{
    DynFunction, Function, checkpoint, compile, compile_dyn, compile_dyn_with, compile_with, spec, vmap,
};
pub use tensor::{Dim, Error, Result, Tensor, Var};
pub use warpweft_compiler::DType;
