//! The formats of single lines.

use std::time::Duration;

use warpweft_compiler::memory_plan::Gain;
use warpweft_compiler::program::Estimate;

/// The line of a launch: device, number, name, buffers, memory in use, time of it and of all so far, arithmetic and bandwidth
/// (each byte counted once, then as often as it was accessed).
#[expect(clippy::too_many_arguments, reason = "a line has that many columns")]
pub fn kernel_line(
    device: &str,
    number: u64,
    name: &str,
    buffers: usize,
    memory_bytes: usize,
    elapsed: Duration,
    total: Duration,
    estimate: &Estimate,
) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let rate = |count: f64| count / seconds / 1e9;
    format!(
        "*** {device:<11}{number:5} {name:<40} arg {buffers:3} mem {:6.2} GB tm {:9.2}us/{:9.2}ms ({:7.1} GFLOPS {:6.1}|{:<6.1} GB/s)",
        memory_bytes as f64 / 1e9,
        seconds * 1e6,
        total.as_secs_f64() * 1e3,
        rate(estimate.operations),
        rate(estimate.bytes_unique),
        rate(estimate.bytes_accessed),
    )
}

/// The line of a program that was scheduled; `key` is the low half of its hash.
pub(super) fn schedule_line(kernels: usize, elapsed: Duration, key: u32, nodes: usize) -> String {
    let ms = elapsed.as_secs_f64() * 1e3;
    format!("scheduled {kernels:5} kernels in {ms:8.2} ms | CACHE MISS {key:08x} | {nodes:7} uops in memory")
}

/// The line of a program's memory: without planning, with it, and the most that lives at once.
pub fn memory_line(gain: &Gain) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let share = if gain.bound > 0 { gain.planned as f64 / gain.bound as f64 } else { 1.0 };
    format!(
        "memory    reduced from {:.2} MB to {:.2} MB | {share:.2}x of the {:.2} MB that live at once",
        mb(gain.unplanned),
        mb(gain.planned),
        mb(gain.bound)
    )
}
