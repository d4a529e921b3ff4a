#![no_main]
//! Simplifying an expression keeps its value: `rewrite_keeps_value` in `warpweft_tests::fuzz`. Run with `cargo fuzz run rewrite_keeps_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("rewrite_keeps_value", bytes));
