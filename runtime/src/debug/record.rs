//! What a process did, kept for a trace and a page: `PROFILE=FILE.json`, and `warpweft view`.
//!
//! A *span* is a piece of work on a thread: a program scheduled, a kernel lowered, compiled and loaded, a launch, what each
//! thread of the device did of it, a file that was read. A *kernel* is kept with
//! everything that is known of it, a *program* with its nodes, its launches and its memory plan.
//!
//! Always: while nothing is recorded, this costs one load of a flag. Recording changes no kernel; it has kernels lowered that could be had without, and each
//! launched and timed by itself. Spans beyond [`SPANS_MAX`] are counted and not kept.
//! Not here: what becomes of it (`trace`, and `page.html`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpweft_compiler::memory_plan::Gain;
use warpweft_compiler::program::Estimate;
use warpweft_compiler::schedule::BufferRole;
use warpweft_compiler::watch::CutNode;
use warpweft_devices::timeline::{self, Piece};

use super::KernelReport;
use crate::execute::compile::Compiled;
use crate::execute::plan::{Location, Plan};

/// Spans that are kept at most: some hundred bytes each in a trace.
pub const SPANS_MAX: usize = 1 << 20;

/// The number of the first of the device's own threads.
pub(crate) const WORKERS: usize = 1000;

/// A piece of work on a thread.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// `schedule`, `lower`, `compile`, `load`, `kernel`, `share` (of a kernel, by a thread of the device) or `read`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// The number of its thread.
    pub(crate) thread: usize,
    /// Counted from the beginning of the recording.
    pub(crate) start: Duration,
    pub(crate) length: Duration,
    /// Of a launch, the number of its kernel.
    pub(crate) kernel: Option<usize>,
}

/// A kernel with all that is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelRecord {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) from_disk: bool,
    pub(crate) estimate: Estimate,
    /// Texts by what they are: `choices`, `loops`, `graph`, `linear`, `source`, `assembly`.
    pub(crate) texts: Vec<(&'static str, String)>,
    pub(crate) launches: u64,
    pub(crate) total: Duration,
    pub(crate) least: Duration,
}

/// A buffer of a plan.
#[derive(Clone, Debug)]
pub(crate) struct BufferRecord {
    /// `given`, `output`, `temporary`, or `in an output` that is stored later.
    pub(crate) role: &'static str,
    pub(crate) dtype: String,
    pub(crate) len: u64,
    pub(crate) bytes: u64,
    /// Where in the arena.
    pub(crate) offset: Option<usize>,
    /// The first and the last launch that names it.
    pub(crate) lives: Option<(usize, usize)>,
}

/// A program that was scheduled.
#[derive(Clone, Debug)]
pub(crate) struct ProgramRecord {
    pub(crate) nodes: Vec<CutNode>,
    /// What was fused or not, and why.
    pub(crate) reasons: Vec<String>,
    /// The kernel of each launch, and the buffers that it works on.
    pub(crate) launches: Vec<(usize, Vec<u32>)>,
    pub(crate) buffers: Vec<BufferRecord>,
    pub(crate) arena_bytes: usize,
    pub(crate) gain: Gain,
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recording {
    started: Option<Instant>,
    pub(crate) spans: Vec<Span>,
    pub(crate) spans_left_out: usize,
    /// Names of threads, by their numbers.
    pub(crate) threads: Vec<String>,
    /// Names of the device's own threads, which have the numbers from [`WORKERS`] on.
    pub(crate) workers: Vec<String>,
    pub(crate) kernels: Vec<KernelRecord>,
    pub(crate) programs: Vec<ProgramRecord>,
    /// What stands for each kernel while it is loaded; kept, so that no other comes to its address.
    loaded: Vec<Arc<Compiled>>,
}

impl Recording {
    /// How many programs were scheduled.
    pub fn programs(&self) -> usize {
        self.programs.len()
    }

    /// How many kernels were made or launched.
    pub fn kernels(&self) -> usize {
        self.kernels.len()
    }

    fn kernel_of(&mut self, compiled: &Arc<Compiled>, device: &str) -> usize {
        if let Some(number) = self.loaded.iter().position(|known| Arc::ptr_eq(known, compiled)) {
            return number;
        }
        self.loaded.push(compiled.clone());
        let (name, estimate) = (compiled.program.name.clone(), compiled.program.estimate);
        self.kernels.push(KernelRecord { name, estimate, device: device.to_string(), ..KernelRecord::default() });
        self.kernels.len() - 1
    }

    /// What a thread of the device did of the launch that began then; of an earlier one, or of another caller's, that of no kernel.
    fn helped(&mut self, piece: &Piece, began: Instant, kernel: usize) {
        let (Some(started), true) = (self.started, self.spans.len() < SPANS_MAX) else {
            self.spans_left_out += 1;
            return;
        };
        let worker = self.workers.iter().position(|name| *name == piece.thread).unwrap_or_else(|| {
            self.workers.push(piece.thread.clone());
            self.workers.len() - 1
        });
        let kernel = (piece.start >= began).then_some(kernel);
        let name = kernel.map_or("another kernel".to_string(), |kernel| self.kernels[kernel].name.clone());
        let (start, length) = (piece.start.saturating_duration_since(started), piece.end - piece.start);
        self.spans.push(Span { kind: "share", name, thread: WORKERS + worker, start, length, kernel });
    }

    fn add(&mut self, kind: &'static str, name: String, ended: Instant, length: Duration, kernel: Option<usize>) {
        if self.spans.len() >= SPANS_MAX {
            self.spans_left_out += 1;
            return;
        }
        let (thread, started) = (thread_number(), self.started.unwrap_or(ended));
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, String::new());
        }
        if self.threads[thread].is_empty() {
            let name = std::thread::current().name().map_or_else(|| format!("thread {thread}"), str::to_string);
            self.threads[thread] = name;
        }
        let start = ended.saturating_duration_since(started).saturating_sub(length);
        self.spans.push(Span { kind, name, thread, start, length, kernel });
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

/// A small number for each thread, in the order in which they were first seen.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// Whether anything is recorded.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Records from now on, what was recorded before is forgotten.
pub fn start() {
    let recording = Recording { started: Some(Instant::now()), ..Recording::default() };
    *RECORDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(recording);
    timeline::note(true);
    ON.store(true, Ordering::Relaxed);
}

/// Ends the recording, and gives it, if there was one.
pub fn finish() -> Option<Recording> {
    ON.store(false, Ordering::Relaxed);
    timeline::note(false);
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn with(change: impl FnOnce(&mut Recording)) {
    if is_on()
        && let Some(recording) = RECORDING.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
    {
        change(recording);
    }
}

/// Work of this thread that ends now.
pub(crate) fn worked(kind: &'static str, name: impl FnOnce() -> String, length: Duration) {
    let ended = Instant::now();
    with(|recording| recording.add(kind, name(), ended, length, None));
}

/// A kernel that was made.
pub(crate) fn kernel_made(compiled: &Arc<Compiled>, device: &str, report: &KernelReport, from_disk: bool) {
    with(|recording| {
        let number = recording.kernel_of(compiled, device);
        recording.kernels[number].texts = report.texts();
        recording.kernels[number].from_disk = from_disk;
    });
}

/// A launch of this thread that ends now.
pub(crate) fn launched(compiled: &Arc<Compiled>, device: &str, length: Duration) {
    let ended = Instant::now();
    with(|recording| {
        let number = recording.kernel_of(compiled, device);
        let kernel = &mut recording.kernels[number];
        kernel.least = if kernel.launches == 0 { length } else { kernel.least.min(length) };
        kernel.launches += 1;
        kernel.total += length;
        let name = kernel.name.clone();
        recording.add("kernel", name, ended, length, Some(number));
        timeline::take().into_iter().for_each(|piece| recording.helped(&piece, ended - length, number));
    });
}

/// A program that was made ready.
pub(crate) fn program(plan: &Plan, device: &str, nodes: Vec<CutNode>, reasons: Vec<String>) {
    with(|recording| {
        let launches: Vec<(usize, Vec<u32>)> = plan
            .kernels
            .iter()
            .map(|launch| (recording.kernel_of(&launch.kernel, device), launch.buffers.to_vec()))
            .collect();
        let lives = |buffer: usize| {
            let names = |(_, buffers): &&(usize, Vec<u32>)| buffers.contains(&(buffer as u32));
            let first = launches.iter().position(|launch| names(&launch))?;
            Some((first, launches.iter().rposition(|launch| names(&launch))?))
        };
        let buffers = plan.buffers.iter().zip(&plan.locations).enumerate().map(|(at, (buffer, home))| BufferRecord {
            role: match (buffer.role, home) {
                (_, Location::Lent(_)) => "in an output",
                (BufferRole::Param(_), _) => "given",
                (BufferRole::Output(_), _) => "output",
                (BufferRole::Temporary, _) => "temporary",
            },
            dtype: buffer.dtype.to_string(),
            len: buffer.len,
            bytes: buffer.len.saturating_mul(buffer.dtype.bytes() as u64),
            offset: match home {
                Location::Arena(offset) => Some(*offset),
                _ => None,
            },
            lives: lives(at),
        });
        let (buffers, arena_bytes, gain) = (buffers.collect(), plan.arena_bytes, plan.gain);
        recording.programs.push(ProgramRecord { nodes, reasons, launches, buffers, arena_bytes, gain });
    });
}
