//! Tests that cross crates: the conformance runner, models and properties, tidy rules.

pub mod conformance;
pub mod kernels;
