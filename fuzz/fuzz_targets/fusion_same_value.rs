#![no_main]
//! Blocks of networks have one value, fused, unfused and interpreted: `warpweft_tests::oracle::fusion_same_value`. Run with `cargo fuzz run fusion_same_value` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::fusion_same_value(bytes, false) {
        panic!("{failure}");
    }
});
