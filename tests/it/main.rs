//! One test binary for all that crosses crates.

mod kernels;
mod views;
