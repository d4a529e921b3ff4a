#![no_main]
//! Blocks of networks have one value, fused, unfused and interpreted: `fusion_same_value` in `warpweft_tests::fuzz`. Run with `cargo fuzz run fusion_same_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("fusion_same_value", bytes));
