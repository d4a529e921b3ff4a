//! One test binary for all that crosses crates.

mod bad_input;
mod coverage;
mod filetests;
mod gradients;
mod kernels;
mod machine_code;
mod properties;
mod region;
mod renderer_goldens;
mod tensors;
mod tidy;
mod views;
