#![no_main]
//! A GGUF file of any bytes is tensors or an error: `gguf_bytes` in `warpweft_tests::fuzz`. Run with `cargo fuzz run gguf_bytes` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("gguf_bytes", bytes));
