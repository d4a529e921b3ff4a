//! runtime

pub mod cache;
pub mod memory;
