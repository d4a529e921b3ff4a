//! What the GPU of this machine computes, if it has one: the filetests, the corpora, random kernels and random programs that run on the emulator too.
//!
//! Where there is no GPU each test says on stderr that it is skipped, and why. Beside these, what asks `guarded::gpus` runs on the GPU as well: kernels with lists of opts, tiles of
//! matrices, attention, orders and scatters.
//!
//! All but the corpora compare with the interpreter, so that no LLVM is needed. `cargo test -p warpweft-tests --test it on_gpu` runs these alone.

use std::io::Write;
use std::path::Path;

use warpweft_devices::Device;
use warpweft_tests::effects;
use warpweft_tests::filetest;
use warpweft_tests::guarded;
use warpweft_tests::kernels::{Generator, Random, check_kernel, kernel_of};
use warpweft_tests::{lists, opt_lists};

use crate::corpora;

/// The GPU; where there is none the test says so.
fn gpu(test: &str) -> Option<&'static dyn Device> {
    match guarded::gpu() {
        Ok(device) => Some(device),
        Err(why) => {
            // Not by `println!`, which tests that pass keep to themselves.
            writeln!(std::io::stderr(), "{test} skipped: no device: {why}").expect("stderr is open");
            None
        }
    }
}

#[test]
fn filetests_have_the_values_of_the_interpreter() {
    if gpu("filetests").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests/run");
    let mut cases = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // What runs on the emulator runs on the GPU, and nothing else of the file.
        let is_for_gpus = |line: &&str| line.starts_with("test run ") && line.ends_with(" ptx");
        assert!(text.lines().any(|line| is_for_gpus(&line)), "{}", path.display());
        let line = |line: &str| match line {
            _ if is_for_gpus(&line) => "test run cuda\n".to_string(),
            _ if line.starts_with("test ") => String::new(),
            _ => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        let summary = filetest::run_text(&path.to_string_lossy(), &text);
        assert!(summary.failures.is_empty(), "{}", summary.failures.join("\n"));
        cases += summary.cases;
    }
    assert!(cases > 80, "{cases}");
}

#[test]
fn corpora_pass() {
    if gpu("corpora").is_none() {
        return;
    }
    for (kind, file, cases) in [
        ("ops", "ops.json.gz", 680),
        ("ops", "op_cases.json.gz", 700),
        ("ops", "more_ops.json.gz", 449),
        ("ops", "edges.json.gz", 1205),
        ("ops", "odd.json.gz", 616),
        ("fusion", "fusion.json.gz", 42),
        ("views", "views.json.gz", 689),
    ] {
        corpora::all_pass(kind, file, cases, "CUDA");
    }
}

#[test]
fn random_kernels_have_the_values_of_the_interpreter() {
    let Some(device) = gpu("random kernels") else { return };
    for seed in 1000..1200 {
        let mut generator = Generator::new(seed, 1);
        if seed % 2 == 1 {
            generator = generator.keeping();
        }
        let ast = kernel_of(&[generator.graph(2 + seed as usize % 7)]);
        check_kernel(device, &ast, seed).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
}

#[test]
fn random_programs_of_writes_have_the_values_of_the_model() {
    if gpu("random programs").is_none() {
        return;
    }
    for seed in 0..100 {
        effects::check(&drawn(seed, 120), "CUDA").unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
}

#[test]
fn random_lists_of_opts_keep_the_values_of_kernels() {
    if gpu("random lists").is_none() {
        return;
    }
    for seed in 0..150 {
        let checked = opt_lists::check_for(&drawn(seed, 120), Some(&lists::GPU_MODEL), None);
        checked.unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
}

/// Bytes that programs are made of.
fn drawn(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}
