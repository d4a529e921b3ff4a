#![no_main]
//! A value has the same bits wherever it is computed: `value_is_itself` in `warpweft_tests::fuzz`. Run with `cargo fuzz run value_is_itself` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("value_is_itself", bytes));
