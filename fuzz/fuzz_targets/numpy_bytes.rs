#![no_main]
//! A NumPy file, or an array in an archive, of any bytes is tensors or an error: `numpy_bytes` in `warpweft_tests::fuzz`. Run with `cargo fuzz run numpy_bytes` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("numpy_bytes", bytes));
