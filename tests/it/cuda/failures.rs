//! What goes wrong becomes a typed error with the driver's words, and never a panic.

use std::collections::BTreeSet;
use std::process::Command;

use super::run_with;

/// What a program said after some words.
#[track_caller]
fn said(options: &str, program: &str, words: &str) -> String {
    let ran = run_with(options, program, &[]);
    assert!(ran.well, "{options}: {}", ran.said);
    let line = ran.said.lines().find_map(|line| line.strip_prefix(words));
    line.unwrap_or_else(|| panic!("{options}: {}", ran.said)).to_string()
}

#[test]
fn what_cannot_be_opened_says_why() {
    for (options, wanted) in [
        ("gpus=0", "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"),
        ("version=11080", "the NVIDIA driver is for CUDA 11.8; 12.0 or later is needed"),
        ("capability=75", "the GPU has compute capability 7.5; kernels need 8.0"),
    ] {
        let error = said(options, "programs::unavailable", "the error: ");
        assert!(error.contains("device CUDA is not available: ") && error.contains(wanted), "{options}: {error}");
    }
}

#[test]
fn a_launch_that_is_refused_harms_nothing_else() {
    let words = |which: &str| said("refuse_launch=1", "programs::a_failed_launch", which);
    let error = words("the first: ");
    assert!(error.contains("Launch {") && error.contains("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"), "{error}");
    assert_eq!(words("the second: "), "Ok([3.0, 6.0])");
    assert_eq!(words("at the end: "), "Ok(())");
}

#[test]
fn a_fault_of_a_kernel_ends_the_device_and_says_so_again() {
    for seed in ["0", "1"] {
        let words = |which: &str| said(&format!("fault_launch=1 seed={seed}"), "programs::a_failed_launch", which);
        let told = said(&format!("fault_launch=1 seed={seed}"), "programs::a_failed_finish", "who waits: ");
        assert!(told.contains("Lost {") && told.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{seed}: {told}");
        for which in ["the first: ", "the second: ", "at the end: "] {
            let error = words(which);
            let text = "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered";
            assert!(error.contains("Lost {") && error.contains(text), "{seed}: {which}{error}");
        }
    }
}

/// A library of the driver's name that is something else: whatever this process has loaded.
#[test]
fn a_library_that_is_no_driver_is_told_from_one() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc."));
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library.unwrap(), folder.path().join("libcuda.so")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("LD_LIBRARY_PATH", folder.path()).env("DEV", "CUDA");
    command.args(["--exact", "cuda::programs::unavailable", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the error: device CUDA is not available: "), "{said}");
    assert!(said.contains("is not NVIDIA's driver, or a part of it alone: it lacks `cuInit`"), "{said}");
}

/// What the device calls is looked for when it is opened, so that nothing that is missing ends the process later.
#[test]
fn all_that_is_called_is_looked_for() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices/src/cuda");
    let (mut called, mut listed) = (BTreeSet::new(), BTreeSet::new());
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_string();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if path.ends_with("calls.rs") {
            listed.extend(text.split("\"cu").skip(1).map(|rest| format!("cu{}", word(rest))));
        } else {
            called.extend(text.split("sys::cu").skip(1).map(|rest| format!("cu{}", word(rest))));
        }
    }
    assert!(called.len() > 50, "{called:?}");
    assert_eq!(called, listed);
}
