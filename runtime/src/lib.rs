//! Warpweft: an embeddable tensor compiler. Lazy tensors, fused kernels, machine code.
//!
#![doc = include_str!("guide.md")]
#![deny(missing_docs)]

pub mod cache;
pub mod compiler {
    //! Analysis of the compiler that is of use by itself.
    //!
    //! [`region`] answers which elements views share ([`region::AliasGraph`], which the scheduler asks before it lets a write go to memory),
    //! and judges in-place proposals for graphs of an embedder's own ([`region::inplace::InplaceGraph`]). Both are pure: no device, no tensor.

    pub use warpweft_compiler::region;
}
pub mod config;
pub mod debug;
pub mod device;
pub mod execute;
pub mod formats;
pub mod function;
pub mod memory;
pub mod nn;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod registry;
pub mod search;
pub mod tensor;

pub use config::{Config, init};
pub use device::Device;
pub use function::{
    DynFunction, Function, checkpoint, compile, compile_dyn, compile_dyn_with, compile_with, spec, vmap,
};
pub use tensor::{Dim, Error, Result, Tensor, Var};
pub use warpweft_compiler::DType;
