#![no_main]
//! Text never panics the parser, and graphs read as they print: `text_roundtrip` in `warpweft_tests::fuzz`. Run with `cargo fuzz run text_roundtrip` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("text_roundtrip", bytes));
