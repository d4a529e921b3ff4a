//! Memory and queue of the emulated GPU: bytes that the host gets at by copies alone, and a thread of the host that does one thing after the other.
//!
//! So whoever runs on the emulator runs as on a GPU: a launch returns before its kernel has run, what goes wrong in it is told to who waits, and memory
//! that is given back while a kernel waits is freed after it. A process that was forked has no such thread; the first launch starts one.
//!
//! Always: work is done in the order in which it was given. Where no thread can be started, it is done by the caller.
//!
//! Tested by `tests/queue.rs`, and by all that runs with `DEV=PTX`.
#![allow(unsafe_code, reason = "work in the queue keeps addresses of memory")]

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::buffer::{BufferSlice, DeviceMemory, RawBuffer};
use crate::error::DeviceError;
use crate::queue::{Event, Queue};

/// Pieces of work that may wait; who gives more waits.
const WAITING_MAX: usize = 1024;

type Work = Box<dyn FnOnce() -> Result<(), DeviceError> + Send>;

/// A thread that works in order, once there is something to do.
#[derive(Debug, Default)]
pub(super) struct EmulatedQueue {
    progress: Arc<Progress>,
    worker: Mutex<Option<Worker>>,
}

struct Worker {
    /// The process that the thread is of: a child has none of its parent's.
    process: u32,
    work: SyncSender<Work>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker of process {}", self.process)
    }
}

#[derive(Debug, Default)]
struct Progress {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    given: u64,
    done: u64,
    /// What failed first since somebody was told.
    failure: Option<DeviceError>,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one piece of work, and says that it is done.
    fn carry_out(&self, work: Work) {
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err(DeviceError::Unsupported {
                device: "PTX".to_string(),
                what: "go on after a panic of its own".to_string(),
            })
        });
        let mut state = self.state();
        state.done += 1;
        if let Err(error) = outcome {
            state.failure.get_or_insert(error);
        }
        drop(state);
        self.more.notify_all();
    }

    /// Returns when so many pieces of work are done.
    fn wait(&self, number: u64) -> Result<(), DeviceError> {
        let mut state = self.state();
        while state.done < number {
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl EmulatedQueue {
    /// Has some work done after all that was given before.
    pub(super) fn push(&self, work: impl FnOnce() -> Result<(), DeviceError> + Send + 'static) {
        // Held until the work stands in the queue, so that numbers are in order.
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if worker.as_ref().is_none_or(|worker| worker.process != process) {
            *worker = self.start(process);
        }
        self.progress.state().given += 1;
        let work: Work = Box::new(work);
        match &*worker {
            Some(worker) => {
                if let Err(refused) = worker.work.send(work) {
                    self.progress.carry_out(refused.0);
                }
            }
            None => self.progress.carry_out(work),
        }
    }

    fn start(&self, process: u32) -> Option<Worker> {
        // What a parent gave and had not done is done by the parent alone.
        let mut state = self.progress.state();
        state.done = state.given;
        drop(state);
        let (work, given) = sync_channel::<Work>(WAITING_MAX);
        let progress = self.progress.clone();
        let thread = std::thread::Builder::new().name("warpweft-ptx".to_string());
        thread.spawn(move || given.into_iter().for_each(|work| progress.carry_out(work))).ok()?;
        Some(Worker { process, work })
    }

    /// Whether nothing is left to do.
    fn is_idle(&self) -> bool {
        let state = self.progress.state();
        state.done == state.given
    }

    /// Memory that is freed in order.
    pub(super) fn memory(self: &Arc<EmulatedQueue>, bytes: RawBuffer) -> RawBuffer {
        RawBuffer::of_device(Box::new(EmulatedMemory { bytes: Some(bytes), queue: self.clone() }))
    }

    /// Copies into memory, in order; `data` may be used again at once.
    pub(super) fn copy_in(&self, memory: BufferSlice<'_>, data: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: whoever drops the memory has it freed after this work.
        let memory = unsafe { memory.slice(0, data.len())?.kept_by_queue() };
        if self.is_idle() {
            return memory.copy_in(0, data);
        }
        let data = data.to_vec();
        self.push(move || memory.copy_in(0, &data));
        Ok(())
    }

    /// Copies out of memory, when all that was given is done.
    pub(super) fn copy_out(&self, memory: BufferSlice<'_>, data: &mut [u8]) -> Result<(), DeviceError> {
        self.finish()?;
        // SAFETY: the caller's slice lives as long as this call.
        unsafe { memory.kept_by_queue() }.copy_out(0, data)
    }
}

impl Queue for EmulatedQueue {
    fn record(&self) -> Result<Arc<dyn Event>, DeviceError> {
        let number = self.progress.state().given;
        Ok(Arc::new(Point { progress: self.progress.clone(), number }))
    }

    fn finish(&self) -> Result<(), DeviceError> {
        let number = self.progress.state().given;
        self.progress.wait(number)
    }
}

#[derive(Debug)]
struct Point {
    progress: Arc<Progress>,
    number: u64,
}

impl Event for Point {
    fn has_happened(&self) -> bool {
        self.progress.state().done >= self.number
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.progress.wait(self.number)
    }
}

/// Bytes of the emulated GPU.
#[derive(Debug)]
struct EmulatedMemory {
    /// Present until drop.
    bytes: Option<RawBuffer>,
    queue: Arc<EmulatedQueue>,
}

// SAFETY: the address and length are those of memory that this owns until it drops, and that is freed when the queue has done what came before.
unsafe impl DeviceMemory for EmulatedMemory {
    fn address(&self) -> NonNull<u8> {
        self.bytes.as_ref().map_or(NonNull::dangling(), |bytes| bytes.all().address())
    }

    fn bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, RawBuffer::bytes)
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        let Some(bytes) = self.bytes.take() else { return };
        if !self.queue.is_idle() {
            self.queue.push(move || {
                drop(bytes);
                Ok(())
            });
        }
    }
}
