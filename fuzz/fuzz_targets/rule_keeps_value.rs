#![no_main]
//! One rule keeps the value of an instance of its pattern: `rule_keeps_value` in `warpweft_tests::fuzz`. Run with `cargo fuzz run rule_keeps_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("rule_keeps_value", bytes));
