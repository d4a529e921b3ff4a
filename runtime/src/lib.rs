//! Warpweft: an embeddable tensor compiler. Lazy tensors, fused kernels, machine code.

pub mod cache;
pub mod config;
pub mod debug;
pub mod execute;
pub mod function;
pub mod memory;
pub mod nn;
pub mod registry;
pub mod tensor;

pub use function::{Function, compile, compile_with, spec};
pub use tensor::{Dim, Error, Result, Tensor, Var};
pub use warpweft_compiler::DType;
