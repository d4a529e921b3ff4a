#![no_main]
//! Views show, and writes through views change, what a model of plain lists says: `writes_through_views` in `warpweft_tests::fuzz`. Run with `cargo fuzz run writes_through_views` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("writes_through_views", bytes));
