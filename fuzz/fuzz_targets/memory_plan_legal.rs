#![no_main]
//! Spans are placed legally: `warpweft_tests::oracle::memory_plan_legal`. Run with `cargo fuzz run memory_plan_legal` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::memory_plan_legal(bytes) {
        panic!("{failure}");
    }
});
