//! The compiler: tensor graphs in, linear kernels out.
//!
//! Pure by construction: no file, clock, environment, thread, device, printing or `unsafe`. The same graph gives the same
//! kernels, byte for byte, so the hash of a graph can be the key of a cache. Modules stand in layer order: each may use those
//! above it (held by the test `imports_point_down`).

pub mod cost_model;
pub mod dtype;
pub mod error;
pub mod grad;
pub mod ir;
pub mod kernel;
pub mod legalize;
pub mod linearize;
pub mod lower;
pub mod memory_plan;
pub mod ops;
pub mod optimize;
pub mod pipeline;
pub mod program;
pub mod region;
pub mod rewrite;
pub mod schedule;
pub mod symbolic;
pub mod target;
pub mod verify;
pub mod view;
pub mod watch;

pub use dtype::DType;
pub use ir::{Op, UOp};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
