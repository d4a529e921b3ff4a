#![no_main]
//! Bytes never panic the reader of models, nor what makes programs of them: `onnx_model` in `warpweft_tests::fuzz`. Run with `cargo fuzz run onnx_model` (any toolchain, with `RUSTC_BOOTSTRAP=1` on a stable one).

use libfuzzer_sys::fuzz_target;
use warpweft_tests::fuzz;

fuzz_target!(|bytes: &[u8]| fuzz::run("onnx_model", bytes));
