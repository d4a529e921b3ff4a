#![no_main]
//! Kernels, in place and not, compute on the CPU and as linear lists what the interpreter says: `cpu_kernel` in `warpweft_tests::fuzz`. Run with `cargo fuzz run cpu_kernel` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("cpu_kernel", bytes));
