#![no_main]
//! A value has the same bits wherever it is computed: `warpweft_tests::oracle::value_is_itself`. Run with `cargo fuzz run value_is_itself` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::value_is_itself(bytes, true) {
        panic!("{failure}");
    }
});
