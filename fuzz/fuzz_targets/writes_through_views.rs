#![no_main]
//! Views show, and writes through views change, what a model of plain lists says: `warpweft_tests::oracle::writes_through_views`. Run with `cargo fuzz run writes_through_views` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::writes_through_views(bytes, false) {
        panic!("{failure}");
    }
});
