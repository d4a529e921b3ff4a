#![no_main]
//! Questions of aliasing have the answers that lists of elements give: `alias_answers` in `warpweft_tests::fuzz`. Run with `cargo fuzz run alias_answers` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("alias_answers", bytes));
