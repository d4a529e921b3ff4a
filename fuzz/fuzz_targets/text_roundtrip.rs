#![no_main]
//! Text never panics the parser, and graphs read as they print: `warpweft_tests::oracle::text_roundtrip`. Run with `cargo fuzz run text_roundtrip` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::text_roundtrip(bytes) {
        panic!("{failure}");
    }
});
