#![no_main]
//! What is simplified for where a condition holds keeps its value there: `conditions_keep_value` in `warpweft_tests::fuzz`. Run with `cargo fuzz run conditions_keep_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("conditions_keep_value", bytes));
