//! One test binary for all that crosses crates.

mod coverage;
mod filetests;
mod kernels;
mod machine_code;
mod properties;
mod region;
mod tidy;
mod views;
