//! The corpora of `tests/data` by the conformance runner, as somebody runs it from a shell, on every device that computes values.
//!
//! The runner is a process of its own: the launches that it counts are its own, and its exit code is judged with what it prints. Each
//! file has as many cases as its line says, so that a case that gets lost is seen.

use std::path::{Path, PathBuf};
use std::process::Command;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// What the runner prints, and its exit code.
fn run(kind: &str, file: &Path, more: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    if let ["--device", device] = more {
        // Optimizers keep their own tensors on the default device.
        command.env("DEV", device);
    }
    let output = command.arg(kind).arg(file).args(more).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[track_caller]
pub(crate) fn all_pass(kind: &str, file: &str, cases: usize, device: &str) {
    let (printed, code) = run(kind, &data(file), &["--device", device]);
    let last = printed.lines().last().unwrap_or_default();
    assert_eq!((last, code), (&*format!("{cases} passed, 0 failed, 0 unsupported"), Some(0)), "{device}: {printed}");
}

#[test]
fn values_and_gradients_of_ops_on_the_cpu() {
    all_pass("ops", "ops.json.gz", 680, "CPU");
}

#[test]
fn values_and_gradients_of_ops_on_the_interpreter() {
    all_pass("ops", "ops.json.gz", 680, "INTERPRETER");
}

#[test]
fn every_option_of_every_op_on_the_cpu() {
    all_pass("ops", "op_cases.json.gz", 700, "CPU");
}

#[test]
fn every_option_of_every_op_on_the_interpreter() {
    all_pass("ops", "op_cases.json.gz", 700, "INTERPRETER");
}

#[test]
fn algebra_transforms_and_special_functions() {
    all_pass("ops", "more_ops.json.gz", 449, "CPU");
}

#[test]
fn edges_on_the_cpu() {
    all_pass("ops", "edges.json.gz", 1205, "CPU");
}

#[test]
fn edges_on_the_interpreter() {
    all_pass("ops", "edges.json.gz", 1205, "INTERPRETER");
}

#[test]
fn odd_operands() {
    all_pass("ops", "odd.json.gz", 616, "CPU");
}

#[test]
fn programs_keep_their_values_and_their_budgets_of_kernels() {
    for device in ["CPU", "INTERPRETER"] {
        all_pass("fusion", "fusion.json.gz", 42, device);
    }
}

#[test]
fn views_and_writes_through_them() {
    for device in ["CPU", "INTERPRETER"] {
        all_pass("views", "views.json.gz", 689, device);
    }
}

/// A build for tests takes its time with the kernels of the others: all pass in a release.
#[test]
fn a_sample_on_the_emulator_of_gpus() {
    for (kind, file, filter, cases) in [
        ("ops", "ops.json.gz", "cast", 82),
        ("ops", "ops.json.gz", "matmul", 8),
        ("ops", "ops.json.gz", "softmax", 7),
        ("views", "views.json.gz", "", 689),
    ] {
        let (printed, code) = run(kind, &data(file), &["--device", "ptx", "--filter", filter]);
        let last = printed.lines().last().unwrap_or_default();
        assert_eq!((last, code), (&*format!("{cases} passed, 0 failed, 0 unsupported"), Some(0)), "{kind}: {printed}");
    }
}

/// What ops keep for themselves, as the weights of a resize, and functions that they compile go along to the device of their input, whatever the default device is.
#[test]
fn tables_of_ops_go_along_to_another_device() {
    for (file, filter, cases) in [
        ("op_cases.json.gz", "avg_pool", 23),
        ("op_cases.json.gz", "interpolate", 24),
        ("more_ops.json.gz", "eigh", 24),
    ] {
        let (printed, code) = run("ops", &data(file), &["--device", "ptx", "--filter", filter]);
        let last = printed.lines().last().unwrap_or_default();
        assert_eq!(
            (last, code),
            (&*format!("{cases} passed, 0 failed, 0 unsupported"), Some(0)),
            "{filter}: {printed}"
        );
    }
}

#[test]
fn integer_expressions() {
    all_pass("symbolic", "symbolic.json.gz", 1317, "CPU");
}

#[test]
fn alias_analysis_and_set_algebra() {
    all_pass("alias", "alias.json.gz", 894, "CPU");
}

/// 46 programs of proposals and 17 ambiguity cases. Of these, `open_gates` has the program of `open_gates_f`, which is ambiguous by the
/// definition and by the latter's expectation, and expects the contrary: it cannot pass.
#[test]
fn every_in_place_verdict_but_one_that_is_contradicted() {
    let (printed, code) = run("inplace", &data("inplace.json.gz"), &[]);
    let wanted = "failed open_gates: wants ambiguous false, got true; \"open_gates_f\" has the same program and the other answer\n\
        62 passed, 1 failed, 0 unsupported\n";
    assert_eq!((&*printed, code), (wanted, Some(1)));
}

#[test]
fn a_plain_file_is_read_and_a_run_without_cases_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.json");
    std::fs::write(&file, r#"[{"id": "a", "vars": {"i": [0, 3]}, "expr": "(i + 0)", "vmin": 0, "vmax": 3, "ops": 0}]"#)
        .unwrap();
    let (printed, code) = run("symbolic", &file, &[]);
    assert!(printed.ends_with("1 passed, 0 failed, 0 unsupported\n"), "{printed}");
    assert_eq!(code, Some(0));
    let (printed, code) = run("symbolic", &file, &["--filter", "elsewhere"]);
    assert!(printed.contains("no case was judged"), "{printed}");
    assert_eq!(code, Some(1));
    assert_eq!(run("symbolic", &folder.path().join("none.json"), &[]).1, Some(2));
}
