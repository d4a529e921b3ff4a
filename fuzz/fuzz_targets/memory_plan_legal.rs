#![no_main]
//! Spans are placed legally: `memory_plan_legal` in `warpweft_tests::fuzz`. Run with `cargo fuzz run memory_plan_legal` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("memory_plan_legal", bytes));
