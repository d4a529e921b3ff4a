#![no_main]
//! Chains of movement ops find the elements that they should: `view_elements` in `warpweft_tests::fuzz`. Run with `cargo fuzz run view_elements` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("view_elements", bytes));
