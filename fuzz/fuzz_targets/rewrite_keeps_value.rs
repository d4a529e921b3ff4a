#![no_main]
//! Simplifying an expression keeps its value: `warpweft_tests::oracle::rewrite_keeps_value`. Run with `cargo fuzz run rewrite_keeps_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::rewrite_keeps_value(bytes) {
        panic!("{failure}");
    }
});
