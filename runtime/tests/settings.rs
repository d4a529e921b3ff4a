//! Settings of a process: what a host's environment says under our names, and what a program says itself.
//!
//! A process has its settings once, so each case is a process of its own: this program, run again for one of the ignored tests.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::process::{Command, Output};

use warpweft::config::{AlreadyInitialized, config};
use warpweft::{Config, Tensor, init};

/// Runs an ignored test in an environment.
fn child(test: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", test]).env("CACHELEVEL", "0");
    command.envs(environment.iter().copied()).output().unwrap()
}

/// What it told on stderr, if it was right.
#[track_caller]
fn told(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    err.into_owned()
}

fn sum() -> f32 {
    (Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]) * 2.0).sum(()).item().unwrap()
}

#[test]
#[ignore = "run by others in an environment"]
fn computes() {
    assert_eq!(sum(), 12.0);
}

#[test]
fn an_environment_that_is_about_the_host_is_no_error() {
    let host = [("DEBUG", "true"), ("PROFILE", "release"), ("THREADS", "auto"), ("DEV", "production"), ("LRU", "yes")];
    assert_eq!(told(&child("computes", &host)), "");
    let ours = [("DEBUG", "1"), ("WARPWEFT_THREADS", "many"), ("WARPWEFT_DEV", "interpreter")];
    let lines = told(&child("computes", &ours));
    assert!(lines.contains("opened device INTERPRETER"), "{lines}");
    let warning = "WARPWEFT_THREADS=many in the environment is ignored: expected a number of threads, or `all`";
    assert_eq!(lines.matches(warning).count(), 1, "{lines}");
    // Though nothing was asked for, what is ours and wrong is told, once.
    let lines = told(&child("computes", &[("WARPWEFT_THREADS", "many")]));
    assert_eq!(lines, format!("warpweft: {warning}\n"));
}

#[cfg(unix)]
#[test]
fn a_cache_folder_that_others_can_write_costs_one_warning() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().to_str().unwrap();
    let lines = told(&child("computes", &[("WARPWEFT_CACHE_DIR", path), ("WARPWEFT_CACHELEVEL", "1")]));
    assert!(lines.lines().count() == 1 && lines.contains("others than its owner can write it"), "{lines}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_cache_folder_under_the_short_name_is_shared_with_others() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hits"), b"theirs").unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(told(&child("computes", &[("CACHE_DIR", path), ("CACHELEVEL", "1"), ("DEV", "cpu")])), "");
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["hits", "warpweft"]);
    assert_eq!(std::fs::read(folder.path().join("hits")).unwrap(), b"theirs");
    assert!(std::fs::read_dir(folder.path().join("warpweft")).unwrap().count() > 1);
}

#[test]
fn a_trace_replaces_traces_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("host.json"), folder.path().join("host.html"));
    let run = || told(&child("computes", &[("PROFILE", trace.to_str().unwrap())]));
    for theirs in ["{\"port\": 8080}", "{\"traceEvents\":[\n]}"] {
        std::fs::write(&trace, theirs).unwrap();
        let lines = run();
        assert!(lines.contains("is a file of another kind") && lines.lines().count() == 1, "{lines}");
        assert_eq!(std::fs::read_to_string(&trace).unwrap(), theirs);
        assert!(!page.exists());
    }
    std::fs::write(&trace, "").unwrap();
    for _ in 0..2 {
        assert_eq!(run(), "");
        assert!(std::fs::read_to_string(&trace).unwrap().contains("\"kernels\":[{") && page.exists());
    }
    std::fs::write(&page, "<!doctype html><title>theirs</title>").unwrap();
    assert!(run().contains("host.html is a file of another kind"));
    assert!(std::fs::read_to_string(&page).unwrap().contains("theirs"));
}

#[test]
fn totals_of_kernels_are_told_when_any_program_ends() {
    let lines = told(&child("computes", &[("PROFILE", "1"), ("DEV", "cpu")]));
    let (heading, kernels) = lines.split_once('\n').unwrap();
    assert_eq!(heading, "CPU: total ms, launches, mean us, kernel");
    assert!(
        kernels.lines().count() >= 1 && kernels.lines().all(|line| line.split_whitespace().count() == 4),
        "{lines}"
    );
    assert_eq!(told(&child("computes", &[("PROFILE", "0")])), "");
}

#[test]
#[ignore = "run by others in an environment"]
fn a_program_says_it() {
    let mut own = Config::default();
    (own.device, own.threads) = ("INTERPRETER".to_string(), Some(1));
    init(own.clone()).unwrap();
    assert_eq!(sum(), 12.0);
    assert_eq!(config(), &own);
    assert_eq!(warpweft::registry::executors()[0].device().name(), "INTERPRETER");
    assert_eq!(init(Config::default()), Err(AlreadyInitialized));
}

#[test]
fn what_a_program_says_is_all_that_counts() {
    assert_eq!(told(&child("a_program_says_it", &[("WARPWEFT_DEBUG", "7"), ("WARPWEFT_LRU", "nothing")])), "");
}

#[test]
#[ignore = "run by others in an environment"]
fn too_late() {
    assert_eq!(sum(), 12.0);
    assert_eq!(init(Config::default()), Err(AlreadyInitialized));
}

#[test]
fn settings_do_not_change_under_what_runs() {
    told(&child("too_late", &[]));
}
