//! What the library tells: `DEBUG=1` to `7` as lines on stderr, through `tracing`.
//!
//! | level | target | tells |
//! |---|---|---|
//! | 1 | `warpweft::schedule` | devices opened, programs scheduled, kernels compiled, files read |
//! | 2 | `warpweft::kernel` | a line for each launch: time, GFLOP/s, GB/s, and the call that asked for what it stores |
//! | 3 | `warpweft::opts` | what was fused or not, how loops were laid out, and why; what accesses to memory took, on a device that counts |
//! | 4 | `warpweft::source` | the text of each new kernel |
//! | 5 | `warpweft::ast` | its tensor graph |
//! | 6 | `warpweft::linear` | its micro-ops |
//! | 7 | `warpweft::assembly` | its instructions |
//!
//! A level tells all that those below it tell. Each kind is an event with a target of its own, so an application that has a
//! subscriber can have any of it whatever `DEBUG` says; only where there is no subscriber, and `DEBUG` is set, one is installed that
//! prints (of the feature `printer`, which is there unless it is left out). Kernels are timed only while somebody listens to level 2, or
//! with `PROFILE=1`, which tells what each took in all when the process ends, or with `PROFILE=FILE.json`, which writes a trace and a page ([`trace`]).
//!
//! Always: what is told, and in which order, depends on the program alone; only times differ from run to run. Tested in `runtime/tests/debug.rs`.

mod closed_pipe;
mod lines;
mod origins;
mod progress;
pub mod record;
mod report;
#[cfg(feature = "printer")]
mod subscriber;
mod totals;
pub mod trace;

pub use closed_pipe::{PIPE_CLOSED, end_with_the_reader, is_closed_pipe};
pub use lines::{kernel_line, memory_line};
pub(crate) use origins::{note_origin, origin_of};
pub(crate) use progress::Progress;
pub use progress::show_progress;
pub(crate) use report::{DecisionWatch, KernelReport, Listening};
#[cfg(feature = "printer")]
pub(crate) use subscriber::print_unheard;
#[cfg(feature = "printer")]
pub use subscriber::{Printer, install};
pub(crate) use totals::{tell_totals_at_exit, write_trace_at_exit};

/// Without the feature `printer` nothing is installed: events go to the subscriber of the program, if it has one.
#[cfg(not(feature = "printer"))]
pub fn install(_level: u8) {}

/// Without the feature `printer` nothing is printed.
#[cfg(not(feature = "printer"))]
pub(crate) fn print_unheard(_warning: &dyn std::fmt::Display) {}

use std::sync::Arc;
use std::time::Duration;

use tracing::Level;
use warpweft_compiler::UOp;
use warpweft_compiler::memory_plan::Gain;
use warpweft_compiler::optimize::Opts;

use crate::execute::compile::Compiled;
use crate::memory::{MemoryStats, Source};
use crate::search::Found;

/// Target and level of each kind of event, by `DEBUG` level less one.
pub const TARGETS: [(&str, Level); 7] = [
    ("warpweft::schedule", Level::INFO),
    ("warpweft::kernel", Level::DEBUG),
    ("warpweft::opts", Level::DEBUG),
    ("warpweft::source", Level::TRACE),
    ("warpweft::ast", Level::TRACE),
    ("warpweft::linear", Level::TRACE),
    ("warpweft::assembly", Level::TRACE),
];

/// Whether somebody listens to that `DEBUG` level.
pub(crate) fn wants(level: usize) -> bool {
    // A target is part of a call site, which is static, so each level has one of its own.
    match level {
        1 => tracing::enabled!(target: "warpweft::schedule", Level::INFO),
        2 => tracing::enabled!(target: "warpweft::kernel", Level::DEBUG),
        3 => tracing::enabled!(target: "warpweft::opts", Level::DEBUG),
        4 => tracing::enabled!(target: "warpweft::source", Level::TRACE),
        5 => tracing::enabled!(target: "warpweft::ast", Level::TRACE),
        6 => tracing::enabled!(target: "warpweft::linear", Level::TRACE),
        _ => tracing::enabled!(target: "warpweft::assembly", Level::TRACE),
    }
}

/// Tells something at a `DEBUG` level.
pub(crate) fn tell(level: usize, text: &str) {
    match level {
        1 => tracing::info!(target: "warpweft::schedule", "{text}"),
        2 => tracing::debug!(target: "warpweft::kernel", "{text}"),
        3 => tracing::debug!(target: "warpweft::opts", "{text}"),
        4 => tracing::trace!(target: "warpweft::source", "{text}"),
        5 => tracing::trace!(target: "warpweft::ast", "{text}"),
        6 => tracing::trace!(target: "warpweft::linear", "{text}"),
        _ => tracing::trace!(target: "warpweft::assembly", "{text}"),
    }
}

pub(crate) fn opened(device: &str) {
    if wants(1) {
        tell(1, &format!("opened device {device} from pid:{}", std::process::id()));
    }
}

/// A program whose plan was there already.
pub(crate) fn schedule_found(kernels: usize, sink: &UOp) {
    // As the ancestor of this format does: one kernel is worth a line only to who looks closely.
    if wants(1) && (kernels > 1 || wants(3)) {
        tell(
            1,
            &format!("scheduled {kernels:5} kernels                | cache hit  {:08x}", sink.structural_hash() as u32),
        );
    }
}

pub(crate) fn scheduled(kernels: usize, sink: &UOp, elapsed: Duration) {
    record::worked("schedule", || format!("{kernels} kernels"), elapsed);
    if wants(1) && (kernels > 1 || wants(3)) {
        tell(1, &lines::schedule_line(kernels, elapsed, sink.structural_hash() as u32, UOp::live_nodes()));
    }
}

/// A program whose schedule was on disk, with so many kernels that were not loaded before.
pub(crate) fn schedule_stored(kernels: usize, loaded: usize, sink: &UOp, elapsed: Duration) {
    if wants(1) {
        let (ms, key) = (elapsed.as_secs_f64() * 1e3, sink.structural_hash() as u32);
        tell(1, &format!("scheduled {kernels:5} kernels in {ms:8.2} ms | from disk  {key:08x} | {loaded} loaded"));
    }
}

pub(crate) fn compiled(kernels: usize, from_disk: usize, elapsed: Duration) {
    if kernels > 0 && wants(1) {
        let ms = elapsed.as_secs_f64() * 1e3;
        tell(
            1,
            &format!(
                "made      {kernels:5} kernels in {ms:8.2} ms | {from_disk} from disk, {} compiled",
                kernels - from_disk
            ),
        );
    }
}

/// What placing temporaries gained, if there was something to gain.
pub(crate) fn memory_planned(gain: &Gain) {
    if gain.planned < gain.unplanned && wants(1) {
        tell(1, &lines::memory_line(gain));
    }
}

/// A file, or a part of one, that was copied to a device because it is used.
pub(crate) fn file_read(device: &str, bytes: usize, source: &dyn Source, elapsed: Duration) {
    record::worked("read", || source.location().to_string(), elapsed);
    if wants(1) {
        let (mb, ms) = (bytes as f64 / 1e6, elapsed.as_secs_f64() * 1e3);
        tell(1, &format!("read   {mb:8.2} MB      in {ms:8.2} ms | DISK to {device}: {}", source.location()));
    }
}

/// A copy that nobody asked for.
pub(crate) fn copied(text: impl FnOnce() -> String) {
    if wants(2) {
        tell(2, &text());
    }
}

/// What a search for one kernel came to.
pub(crate) fn searched(found: &Found) {
    if wants(1) {
        let gain = found.by_hand_seconds / found.seconds;
        let (tried, seconds) = (found.tried.len(), found.elapsed.as_secs_f64());
        tell(1, &format!("searched  {tried:5} lists in {seconds:8.2} s  | {gain:.2} times as fast as by hand"));
    }
    if wants(3) {
        tell(3, &format!("searched: {}", Opts::List(found.opts.clone())));
    }
}

/// Whether launches are timed.
pub(crate) fn wants_kernels() -> bool {
    wants(2) || record::is_on()
}

/// Tells all that was gathered about a new kernel.
pub(crate) fn kernel_made(report: &KernelReport) {
    for (level, text) in report.parts() {
        tell(*level, text);
    }
}

/// Tells of a launch; `total` is the time of all launches so far, `origin` the call that asked for what it stores.
#[expect(clippy::too_many_arguments, reason = "a line has that many columns")]
pub(crate) fn kernel_ran(
    device: &str,
    kernel: &Arc<Compiled>,
    buffers: usize,
    elapsed: Duration,
    total: Duration,
    number: u64,
    memory: MemoryStats,
    origin: Option<&str>,
) {
    record::launched(kernel, device, elapsed);
    if wants(2) {
        let line = kernel_line(
            device,
            number,
            &kernel.program.name,
            buffers,
            memory.in_use_bytes,
            elapsed,
            total,
            &kernel.program.estimate,
        );
        tell(2, &origin.map_or(line.clone(), |origin| format!("{line} {origin}")));
    }
    if wants(3)
        && let Some(table) = kernel.kernel.memory_report()
    {
        tell(3, &table);
    }
}
