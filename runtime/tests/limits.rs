//! A machine that gives no more: no threads, no memory. What cannot be done is an error, and what can be done otherwise is.
//!
//! A limit is one of a process, so each case is a process of its own: this program, run again for one of the ignored tests.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::process::{Command, Output};

use warpweft::{Tensor, config::Config, init};

/// Runs an ignored test under a limit that a shell sets, or with a variable.
fn child(test: &str, limit: &str, environment: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().unwrap();
    let line = format!("{limit} exec '{}' --ignored --exact --nocapture --test-threads=1 {test}", program.display());
    Command::new("sh").args(["-c", &line]).envs(environment.iter().copied()).env("CACHELEVEL", "0").output().unwrap()
}

#[track_caller]
fn passes(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

#[test]
#[ignore = "run by others under a limit"]
fn compiles_without_threads() {
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "there are threads");
    let mut config = Config::default();
    config.threads = Some(4);
    init(config).unwrap();
    // Two kernels, so that threads are asked for.
    let x = Tensor::from_vec((0..4096).map(|k| k as f32).collect(), [64, 64]);
    let y = x.exp().contiguous().sum(0);
    let z = (&x + 1.0).matmul(&x);
    Tensor::realize_all(&[&y, &z]).unwrap();
    assert!(warpweft::registry::executors()[0].stats().kernels_compiled >= 2);
}

#[test]
fn a_system_without_threads_compiles_on_the_caller() {
    // The stack of each new thread would be larger than memory can be addressed.
    passes(&child("compiles_without_threads", "", &[("RUST_MIN_STACK", "281474976710656")]));
}

#[test]
#[ignore = "run by others under a limit"]
fn copies_until_memory_is_short() {
    let mut config = Config::default();
    config.threads = Some(1);
    init(config).unwrap();
    let x = Tensor::zeros([16 << 20]).contiguous(); // 64 MiB
    x.realize().unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match x.to_vec::<f32>() {
            Ok(copy) => kept.push(copy),
            Err(error) => break error.to_string(),
        }
        assert!(kept.len() < 32, "there is no limit");
    };
    assert!(error.contains("out of memory on the host: 67108864 bytes"), "{error}");
    assert!(x.to_bytes().is_err() && x.elements().is_err());
    let more = x.exp().realize().map(|_| ()).unwrap_err().to_string();
    assert!(more.contains("out of memory on CPU"), "{more}");
    drop(kept);
    assert_eq!(x.to_vec::<f32>().unwrap().len(), 16 << 20);
}

#[test]
fn memory_that_is_short_is_an_error() {
    passes(&child("copies_until_memory_is_short", "ulimit -v 1500000;", &[]));
}
