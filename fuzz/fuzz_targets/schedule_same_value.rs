#![no_main]
//! A program has one value, however it is cut into kernels: `warpweft_tests::oracle::schedule_same_value`. Run with `cargo fuzz run schedule_same_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::schedule_same_value(bytes, false) {
        panic!("{failure}");
    }
});
