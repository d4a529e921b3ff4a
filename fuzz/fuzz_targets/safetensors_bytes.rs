#![no_main]
//! A safetensors file of any bytes is tensors or an error: `safetensors_bytes` in `warpweft_tests::fuzz`. Run with `cargo fuzz run safetensors_bytes` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("safetensors_bytes", bytes));
