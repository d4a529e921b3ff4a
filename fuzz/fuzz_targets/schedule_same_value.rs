#![no_main]
//! A program has one value, however it is cut into kernels: `schedule_same_value` in `warpweft_tests::fuzz`. Run with `cargo fuzz run schedule_same_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("schedule_same_value", bytes));
