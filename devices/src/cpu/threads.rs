//! The pool of threads that kernels run on: one per process, shared by all devices and callers.
//!
//! [`run`] offers the work to the pool's threads and takes part itself. The items of a kernel's parallel loop are cut into more
//! shares than there are threads, and whoever is free takes the next share. A caller that finds the pool busy with another
//! kernel runs its kernel alone: nobody waits for anybody else's kernel.
//!
//! How a thread joins, in one word of state that holds whether the offer is open, how many seats are left and how many threads
//! are at work:
//!
//! ```text
//!   caller:  publish work, open with seats=threads-1 ... take shares ... close ... wait until none is at work
//!   thread:  see it open -> take a seat (seats-1, working+1) ... take shares ... leave (working-1)
//! ```
//!
//! Always: a thread touches the caller's work only between taking its seat and leaving, and after closing nobody takes a seat;
//! so the work can live on the caller's stack, and a thread that wakes late costs nothing but its own time. Threads that find
//! nothing spin for [`SPIN`] and then sleep.
//!
//! Tested in `cpu/tests.rs` and at the end of this file.
#![allow(unsafe_code, reason = "shares a caller's stack between threads and calls machine code")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::kernel::Work;
use super::scratch;

/// More threads than this are never started.
const THREADS_MAX: usize = 256;
/// How long a thread looks for work before it sleeps: longer than from one kernel of a program to the next.
const SPIN: Duration = Duration::from_micros(30);
/// Shares a thread gets on average: enough to even out threads that are slowed down by others.
const SHARES_PER_THREAD: i64 = 8;
/// Kernels keep registers on the stack that they have not enough of, and no more: scratch memory is apart.
const STACK_BYTES: usize = 256 << 10;

/// A launch that is shared: its arguments, and which items are taken.
struct Job<'work> {
    work: &'work Work,
    share: i64,
    next: AtomicI64,
}

impl Job<'_> {
    /// Runs shares until none is left, with scratch memory of this thread.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn take_shares(&self, scratch: NonNull<u8>) {
        let Work { entry, pointers, variables, grid, scratch_bytes: _ } = *self.work;
        loop {
            let begin = self.next.fetch_add(self.share, Ordering::Relaxed);
            if begin >= grid {
                return;
            }
            // SAFETY: `begin..end` lies in `0..grid` and no other thread gets any of it; the rest is the caller's promise.
            unsafe { entry(pointers, variables, scratch.as_ptr(), begin, grid.min(begin + self.share)) }
        }
    }
}

/// A thread that may sleep.
struct Worker {
    sleeps: AtomicBool,
    thread: OnceLock<Thread>,
}

struct Pool {
    /// Whether a caller has the pool.
    taken: AtomicBool,
    state: AtomicU64,
    job: AtomicPtr<Job<'static>>,
    workers: Vec<Worker>,
    started: AtomicUsize,
    /// Held while threads are started, never while a kernel runs.
    starting: Mutex<()>,
}

// Layout of `Pool::state`: bit 0 open; bits 1..16 seats; bits 16..32 threads at work; bits 32.. number of the offer.
const OPEN: u64 = 1;
const SEAT: u64 = 1 << 1;
const SEATS: u64 = 0xfffe;
const WORKING: u64 = 1 << 16;
const WORKINGS: u64 = 0xffff << 16;
const OFFER: u64 = 1 << 32;
const OFFERS: u64 = !(OFFER - 1);

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        taken: AtomicBool::new(false),
        state: AtomicU64::new(0),
        job: AtomicPtr::new(std::ptr::null_mut()),
        workers: (0..THREADS_MAX).map(|_| Worker { sleeps: AtomicBool::new(false), thread: OnceLock::new() }).collect(),
        started: AtomicUsize::new(0),
        starting: Mutex::new(()),
    })
}

/// Runs all of `work` on at most `threads` threads, the caller among them, and returns when all is done.
///
/// # Safety
/// For each part `begin..end` of `0..work.grid`, `work.entry` may be called with `work.pointers`, `work.variables`, scratch memory of
/// `work.scratch_bytes` bytes that no other call uses at that time, `begin` and `end`, from any thread, and parts at the same time; and
/// `scratch` points at so many bytes of this thread.
pub(super) unsafe fn run(work: &Work, scratch: NonNull<u8>, threads: usize) {
    let pool = pool();
    let threads = threads.min(THREADS_MAX);
    let alone = threads <= 1 || pool.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err();
    if alone {
        // SAFETY: the caller's promise, for the whole grid.
        unsafe { (work.entry)(work.pointers, work.variables, scratch.as_ptr(), 0, work.grid) };
        return;
    }
    pool.start_workers(threads - 1);
    let share = (work.grid / (threads as i64 * SHARES_PER_THREAD)).max(1);
    let job = Job { work, share, next: AtomicI64::new(0) };
    pool.open(&job, threads - 1);
    // SAFETY: the caller's promise; machine code does not unwind, so that `close` is reached.
    unsafe { job.take_shares(scratch) };
    pool.close();
    pool.taken.store(false, Ordering::Release);
}

impl Pool {
    /// Makes sure that `count` workers exist, as far as the system gives threads.
    fn start_workers(&'static self, count: usize) {
        if self.started.load(Ordering::Acquire) >= count {
            return;
        }
        let _guard = self.starting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for index in self.started.load(Ordering::Acquire)..count {
            let worker = &self.workers[index];
            let spawned = std::thread::Builder::new()
                .name(format!("kernel-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || self.serve(worker));
            // A system without more threads: fewer take part, and the caller does what is left.
            let Ok(handle) = spawned else { return };
            let _ = worker.thread.set(handle.thread().clone());
            self.started.store(index + 1, Ordering::Release);
        }
    }

    /// Offers a job. Only who has the pool calls this, and must call `close` before the job goes.
    fn open(&self, job: &Job<'_>, seats: usize) {
        self.job.store(std::ptr::from_ref(job).cast_mut().cast(), Ordering::Relaxed);
        let offer = (self.state.load(Ordering::Relaxed) & OFFERS).wrapping_add(OFFER);
        // SeqCst here and in `sleep`: either the worker sees the offer before it sleeps, or we see that it sleeps.
        self.state.store(offer | (seats as u64 * SEAT) | OPEN, Ordering::SeqCst);
        for worker in self.workers[..self.started.load(Ordering::Acquire)].iter().take(seats) {
            if worker.sleeps.load(Ordering::SeqCst)
                && worker.sleeps.swap(false, Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// Takes the offer back and waits until nobody works on it.
    fn close(&self) {
        let mut state = self.state.fetch_and(!(OPEN | SEATS), Ordering::AcqRel);
        let mut rounds = 0u32;
        while state & WORKINGS != 0 {
            rounds += 1;
            // A worker has at most one share left, unless the system took its processor away: then give it ours.
            if rounds < 2_000 {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// The life of a worker.
    fn serve(&self, worker: &Worker) {
        let mut offer_seen = 0;
        loop {
            let state = self.find_offer(worker, offer_seen);
            offer_seen = state & OFFERS;
            let seated = state - SEAT + WORKING;
            if self.state.compare_exchange(state, seated, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // Somebody else took a seat or left; the offer may still stand.
                offer_seen = offer_seen.wrapping_sub(OFFER);
                continue;
            }
            // SAFETY: we hold a seat of an open offer. `open` stored the job before it opened, and `close` does not return
            // before we leave below, so the job is alive.
            let job = unsafe { &*self.job.load(Ordering::Relaxed) };
            // Without scratch memory this thread leaves its part to the others; the caller has had its own before.
            if let Ok(scratch) = scratch::of_this_thread(job.work.scratch_bytes) {
                // SAFETY: the promise made to `run`; the scratch memory is this thread's.
                unsafe { job.take_shares(scratch) };
            }
            self.state.fetch_sub(WORKING, Ordering::Release);
        }
    }

    /// Waits for an offer that is open, has a seat and is not the one already served.
    fn find_offer(&self, worker: &Worker, offer_seen: u64) -> u64 {
        let wanted = |state: u64| state & OPEN != 0 && state & SEATS != 0 && state & OFFERS != offer_seen;
        loop {
            let begin = Instant::now();
            while begin.elapsed() < SPIN {
                for _ in 0..64 {
                    let state = self.state.load(Ordering::Acquire);
                    if wanted(state) {
                        return state;
                    }
                    std::hint::spin_loop();
                }
                // Where processors are scarce, the caller that woke us may wait for the one that we spin on.
                std::thread::yield_now();
            }
            worker.sleeps.store(true, Ordering::SeqCst);
            let state = self.state.load(Ordering::SeqCst);
            if wanted(state) {
                worker.sleeps.store(false, Ordering::SeqCst);
                return state;
            }
            // Returns at once when we were woken since; waking without reason only means another round.
            std::thread::park();
            worker.sleeps.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for a kernel: adds 1 to each item of its share, and spends some time.
    unsafe extern "C" fn count(pointers: *const *mut u8, _: *const i64, _: *mut u8, begin: i64, end: i64) {
        for item in begin..end {
            // SAFETY: the tests below pass a pointer to as many counters as the grid has items.
            let counter = unsafe { &*(*pointers).cast::<AtomicU64>().add(item as usize) };
            counter.fetch_add(1, Ordering::Relaxed);
            for _ in 0..100 {
                std::hint::spin_loop();
            }
        }
    }

    fn run_once(items: usize, threads: usize) -> Vec<u64> {
        let counters: Vec<AtomicU64> = (0..items).map(|_| AtomicU64::new(0)).collect();
        let pointers = [counters.as_ptr().cast_mut().cast::<u8>()];
        let (pointers, variables) = (pointers.as_ptr(), std::ptr::null());
        let work = Work { entry: count, pointers, variables, grid: items as i64, scratch_bytes: 0 };
        // SAFETY: `count` adds atomically to counters that outlive the call.
        unsafe { run(&work, NonNull::dangling(), threads) };
        counters.into_iter().map(AtomicU64::into_inner).collect()
    }

    #[test]
    fn every_item_is_done_exactly_once() {
        for (items, threads) in [(0, 4), (1, 4), (2, 2), (7, 3), (1000, 1), (1000, 2), (1000, 5), (12_345, 8)] {
            assert!(run_once(items, threads).iter().all(|&count| count == 1), "{items} items, {threads} threads");
        }
    }

    #[test]
    fn callers_on_several_threads_do_not_disturb_each_other() {
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for round in 0..200 {
                        let items = 50 + caller * 31 + round % 17;
                        assert!(run_once(items, 2 + caller % 3).iter().all(|&count| count == 1));
                        if round % 40 == 0 {
                            std::thread::sleep(SPIN * 3); // so that workers sleep and are woken
                        }
                    }
                });
            }
        });
    }
}
