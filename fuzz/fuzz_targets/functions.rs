#![no_main]
//! Exponentials, logarithms and sines are right to their last places: `functions` in `warpweft_tests::fuzz`. Run with `cargo fuzz run functions` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("functions", bytes));
