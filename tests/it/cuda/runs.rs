//! Programs over the stand-in: their values whatever order streams work in, and that the driver was asked as it should be.

use std::path::Path;
use std::process::Command;

use super::{Ran, over, run};

/// As late as can be, and two other orders.
const SEEDS: [&str; 3] = ["seed=0", "seed=1", "seed=2"];

fn runs(options: &str, program: &str) -> Vec<Ran> {
    SEEDS.iter().map(|seed| run(&format!("{options} {seed}"), program)).collect()
}

#[test]
fn tensors_have_the_values_of_the_cpu() {
    for ran in runs("", "values") {
        // Elements were waited for when they were read: nobody waited for the whole GPU, nor for memory to be freed.
        assert_eq!((ran.count("cuCtxSynchronize"), ran.count("cuMemFree")), (0, 0));
        assert!(ran.count("cuLaunchKernel") >= 7 && ran.count("cuEventSynchronize") >= 2, "{:?}", ran.calls);
    }
    run("pools=0 seed=3", "values");
}

#[test]
fn data_may_change_while_a_copy_of_it_waits() {
    runs("", "uploads");
    // Without pinned memory the driver copies.
    run("pinned=0 seed=1", "uploads");
}

#[test]
fn functions_are_replayed_as_graphs() {
    for ran in runs("", "replays") {
        let counts = ["cuGraphInstantiateWithFlags", "cuGraphLaunch"].map(|call| ran.count(call));
        assert_eq!(counts, [2, 7 + 3], "{:?}", ran.said);
        assert!(ran.count("cuGraphExecKernelNodeSetParams") > 0);
    }
}

#[test]
fn gpus_copy_from_each_other_where_they_can() {
    for ran in runs("gpus=2 peer=1", "two_gpus") {
        assert_eq!(ran.count("cuMemcpyPeerAsync"), 6 + 10);
    }
    for ran in runs("gpus=2 peer=0", "two_gpus") {
        assert_eq!(ran.count("cuMemcpyPeerAsync"), 0);
    }
    run("gpus=2 peer=1 pools=0 seed=1", "two_gpus");
}

#[test]
fn memory_is_given_back_before_it_runs_out() {
    runs("memory=4000000", "little_memory");
    run("memory=4000000 pools=0", "little_memory");
}

/// The conformance runner over a corpus.
#[track_caller]
fn corpus(kind: &str, file: &str, filter: &str, cases: usize, options: &str) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let options = format!("{options} log={}", log.display());
    let mut command: Command = over(&options, env!("CARGO_BIN_EXE_conformance"));
    let output = command.arg(kind).arg(data).args(["--device", "cuda", "--filter", filter]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, format!("{cases} passed, 0 failed, 0 unsupported"), "{kind} {filter}: {said}{errors}");
    let calls = std::fs::read_to_string(log).unwrap_or_default();
    assert!(calls.matches("cuLaunchKernel").count() >= cases / 2, "{kind} {filter} launched its kernels elsewhere");
}

#[test]
fn a_sample_of_the_corpora() {
    corpus("ops", "ops.json.gz", "matmul", 8, "seed=1");
    corpus("ops", "ops.json.gz", "softmax", 7, "seed=2");
    corpus("ops", "ops.json.gz", "cast", 82, "seed=0");
    corpus("views", "views.json.gz", "", 689, "seed=3");
}
