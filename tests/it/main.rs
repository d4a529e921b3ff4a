//! One test binary for all that crosses crates.

mod filetests;
mod kernels;
mod properties;
mod tidy;
mod views;
