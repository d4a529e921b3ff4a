#![no_main]
//! Questions of aliasing have the answers that lists of elements give: `warpweft_tests::oracle::alias_answers`. Run with `cargo fuzz run alias_answers` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = oracle::alias_answers(bytes) {
        panic!("{failure}");
    }
});
