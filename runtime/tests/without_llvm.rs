//! A program whose kernels are all stored runs on a machine without LLVM; one that has something to compile says what to install.
//!
//! A test whose name begins with `child` is the body of a process of its own, started by another test.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::Path;
use std::process::{Command, Output};

use warpweft::Tensor;

fn child(name: &str, folder: &Path) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env("WARPWEFT_CACHE_DIR", folder).env("DEV", "CPU");
    let Output { status, stdout, stderr } = command.env_remove("CACHELEVEL").env_remove("DEBUG").output().unwrap();
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

/// Several kernels, of which one has threads and one a reduction.
fn compute() -> warpweft::Result<f32> {
    let x = Tensor::from_vec((0..4096).map(|number| number as f32 / 4096.0).collect::<Vec<f32>>(), [64, 64]);
    let y = (&x * 2.0 + 1.0).exp2().matmul(&x);
    let z = &y / &y.sum_keepdim(1);
    z.sum(0).sum(0).item::<f32>()
}

#[test]
fn stored_kernels_run_without_llvm() {
    let folder = tempfile::tempdir().unwrap();
    let (succeeded, said) = child("child_that_finds_no_llvm", folder.path());
    assert!(!succeeded && said.contains("libllvm22") && said.contains("it is hidden"), "{said}");
    let (succeeded, said) = child("child_with_llvm", folder.path());
    assert!(succeeded, "{said}");
    let (succeeded, said) = child("child_that_finds_no_llvm", folder.path());
    assert!(succeeded, "{said}");
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_with_llvm() {
    assert!((compute().unwrap() - 64.0).abs() < 1e-3);
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_that_finds_no_llvm() {
    warpweft_devices::cpu::hide_llvm();
    assert!((compute().unwrap_or_else(|error| panic!("{error}")) - 64.0).abs() < 1e-3);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("libLLVM"), "it is loaded for nothing");
}
