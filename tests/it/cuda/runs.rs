//! Programs over the stand-in: their values whatever order streams work in, and that the driver was asked as it should be.

use std::path::Path;
use std::process::Command;

use super::{Ran, over, run, run_with};

/// As late as can be, and two other orders.
const SEEDS: [&str; 3] = ["seed=0", "seed=1", "seed=2"];

fn runs(options: &str, program: &str) -> Vec<Ran> {
    SEEDS.iter().map(|seed| run(&format!("{options} {seed}"), program)).collect()
}

#[test]
fn tensors_have_the_values_of_the_cpu() {
    for ran in runs("", "programs::values") {
        // Elements were waited for when they were read: nobody waited for the whole GPU, nor for memory to be freed.
        assert_eq!((ran.count("cuCtxSynchronize"), ran.count("cuMemFree")), (0, 0));
        assert!(ran.count("cuLaunchKernel") >= 7 && ran.count("cuEventSynchronize") >= 2, "{:?}", ran.calls);
    }
    run("pools=0 seed=3", "programs::values");
}

#[test]
fn data_may_change_while_a_copy_of_it_waits() {
    runs("", "programs::uploads");
    // Without pinned memory the driver copies.
    run("pinned=0 seed=1", "programs::uploads");
}

#[test]
fn functions_are_replayed_as_graphs() {
    for ran in runs("", "programs::replays") {
        let counts = ["cuGraphInstantiateWithFlags", "cuGraphLaunch"].map(|call| ran.count(call));
        assert_eq!(counts, [2, 7 + 3], "{:?}", ran.said);
        assert!(ran.count("cuGraphExecKernelNodeSetParams") > 0);
    }
    for ran in runs("", "by_hand::lists") {
        // Of the three nodes, as many as have changed since the call before.
        let counts = ["cuGraphLaunch", "cuGraphExecKernelNodeSetParams"].map(|call| ran.count(call));
        assert_eq!(counts, [6, 3 + 3 + 3 + 3 + 3], "{:?}", ran.calls);
    }
}

#[test]
fn gpus_copy_from_each_other_where_they_can() {
    for ran in runs("gpus=2 peer=1", "programs::two_gpus") {
        assert_eq!(ran.count("cuMemcpyPeerAsync"), 6 + 10);
    }
    for ran in runs("gpus=2 peer=0", "programs::two_gpus") {
        assert_eq!(ran.count("cuMemcpyPeerAsync"), 0);
    }
    run("gpus=2 peer=1 pools=0 seed=1", "programs::two_gpus");
}

#[test]
fn memory_is_given_back_before_it_runs_out() {
    runs("memory=4000000", "programs::little_memory");
    run("memory=4000000 pools=0", "programs::little_memory");
}

#[test]
fn memory_crosses_to_other_libraries_where_it_lies() {
    for ran in runs("gpus=2", "programs::crossing") {
        // One part began where no kernel may begin to read; all else was shared.
        assert_eq!(ran.count("cuMemcpyDtoDAsync"), 1);
        // Who lends memory may still write to it, and who gives it back may still read it: four capsules went each way.
        assert_eq!(ran.count("cuCtxSynchronize"), 8, "{:?}", ran.calls);
    }
    run("gpus=2 pools=0 seed=3", "programs::crossing");
    runs("", "by_hand::what_is_lent_goes_back_when_nothing_reads_it");
}

#[test]
fn threads_share_a_gpu() {
    runs("", "programs::threads");
}

#[test]
fn events_order_queues_and_keep_time() {
    for pools in ["pools=1", "pools=0"] {
        runs(pools, "by_hand::events_and_what_is_dropped");
        for peer in ["peer=1", "peer=0"] {
            runs(&format!("gpus=2 {peer} {pools}"), "by_hand::queues_wait_for_each_other");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    run("", "by_hand::refusals");
}

#[test]
fn machine_code_is_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let more = [("CACHELEVEL", "1"), ("CACHE_DIR", folder.path().to_str().unwrap())];
    let linked = ["first", "second"].map(|_| {
        let ran = run_with("", "programs::values", &more);
        assert!(ran.well, "{}", ran.said);
        assert!(ran.count("cuModuleLoadDataEx") >= 3);
        ran.count("cuLinkCreate")
    });
    assert!(linked[0] >= 3 && linked[1] == 0, "{linked:?}");
}

#[test]
fn kernels_are_timed_by_the_gpus_clock() {
    let ran = run_with("", "programs::values", &[("PROFILE", "1")]);
    assert!(ran.well, "{}", ran.said);
    assert_eq!(ran.count("cuEventElapsedTime"), ran.count("cuLaunchKernel"));
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
    assert!(calls.matches("cuLaunchKernel").count() >= cases / 4, "{kind} {filter} launched its kernels elsewhere");
}

#[test]
fn corpora_of_ops_and_views() {
    corpus("ops", "ops.json.gz", "", 680, "seed=1");
    corpus("ops", "edges.json.gz", "", 1205, "seed=2");
    corpus("fusion", "fusion.json.gz", "", 42, "seed=0");
    corpus("views", "views.json.gz", "", 689, "seed=3");
}
