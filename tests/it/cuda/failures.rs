//! What goes wrong becomes a typed error with the driver's words, and never a panic.

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
