//! Warpweft: an embeddable tensor compiler. Lazy tensors, fused kernels, machine code.

pub mod cache;
pub mod config;
pub mod debug;
pub mod execute;
pub mod memory;
pub mod registry;
