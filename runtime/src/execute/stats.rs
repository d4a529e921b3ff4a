//! Counters of an executor, as `DEBUG=1`, `PROFILE=1`, the demo and the tests read them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use warpweft_compiler::program::Estimate;

/// What an executor has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecuteStats {
    /// Programs that were scheduled.
    pub schedules_made: u64,
    /// Programs that ran by a plan made before.
    pub schedules_found: u64,
    /// Programs whose schedule was found on disk, with all kernels.
    pub schedules_from_disk: u64,
    /// Kernels that were lowered to text.
    pub kernels_lowered: u64,
    /// Kernels that were compiled.
    pub kernels_compiled: u64,
    /// Kernels whose object was found on disk.
    pub kernels_from_disk: u64,
    /// Kernels of a new schedule that were loaded already.
    pub kernels_from_memory: u64,
    /// Kernels launched.
    pub launches: u64,
}

/// All launches of the kernels of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelTotal {
    /// How many.
    pub launches: u64,
    /// How long they took together.
    pub elapsed: Duration,
    /// What one costs.
    pub estimate: Estimate,
}

#[derive(Debug, Default)]
struct Totals {
    launches: u64,
    elapsed: Duration,
    by_name: BTreeMap<String, KernelTotal>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    schedules_made: AtomicU64,
    schedules_found: AtomicU64,
    schedules_from_disk: AtomicU64,
    kernels_lowered: AtomicU64,
    kernels_compiled: AtomicU64,
    kernels_from_disk: AtomicU64,
    kernels_from_memory: AtomicU64,
    launches: AtomicU64,
    /// Filled while kernels are timed.
    totals: Mutex<Totals>,
}

impl Counters {
    pub(super) fn schedule_made(&self) {
        self.schedules_made.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn schedule_found(&self) {
        self.schedules_found.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn schedule_stored(&self) {
        self.schedules_from_disk.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lowered(&self) {
        self.kernels_lowered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn kernels(&self, compiled: u64, from_disk: u64, from_memory: u64) {
        self.kernels_compiled.fetch_add(compiled, Ordering::Relaxed);
        self.kernels_from_disk.fetch_add(from_disk, Ordering::Relaxed);
        self.kernels_from_memory.fetch_add(from_memory, Ordering::Relaxed);
    }

    pub(super) fn launched(&self, count: usize) {
        self.launches.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts a launch that was timed; gives its number and the time of all so far.
    pub(super) fn timed(&self, name: &str, elapsed: Duration, estimate: &Estimate) -> (u64, Duration) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.launches += 1;
        totals.elapsed += elapsed;
        let total = totals.by_name.entry(name.to_string()).or_default();
        total.launches += 1;
        total.elapsed += elapsed;
        total.estimate = *estimate;
        (totals.launches, totals.elapsed)
    }

    pub(super) fn read(&self) -> ExecuteStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ExecuteStats {
            schedules_made: read(&self.schedules_made),
            schedules_found: read(&self.schedules_found),
            schedules_from_disk: read(&self.schedules_from_disk),
            kernels_lowered: read(&self.kernels_lowered),
            kernels_compiled: read(&self.kernels_compiled),
            kernels_from_disk: read(&self.kernels_from_disk),
            kernels_from_memory: read(&self.kernels_from_memory),
            launches: read(&self.launches),
        }
    }

    pub(super) fn totals(&self) -> Vec<(String, KernelTotal)> {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<(String, KernelTotal)> =
            totals.by_name.iter().map(|(name, total)| (name.clone(), *total)).collect();
        list.sort_by(|a, b| b.1.elapsed.cmp(&a.1.elapsed).then_with(|| a.0.cmp(&b.0)));
        list
    }
}

impl super::Executor {
    /// The kernels that took the most time first, if kernels were timed (`PROFILE=1` or `DEBUG=2`).
    pub fn kernel_totals(&self) -> Vec<(String, KernelTotal)> {
        self.stats.totals()
    }
}
