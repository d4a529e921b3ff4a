#![no_main]
//! Chains of movement ops find the elements that they should: `warpweft_tests::oracle::view_elements`. Run with `cargo fuzz run view_elements` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::view_elements(bytes) {
        panic!("{failure}");
    }
});
