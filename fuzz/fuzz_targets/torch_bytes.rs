#![no_main]
//! A PyTorch file, or a pickle in one, of any bytes is tensors or an error: `torch_bytes` in `warpweft_tests::fuzz`. Run with `cargo fuzz run torch_bytes` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("torch_bytes", bytes));
