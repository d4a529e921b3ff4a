//! The pool of threads that kernels run on: one per process, shared by all devices and callers.
//!
//! [`run`] offers the work to the pool's threads and takes part itself. The items of a kernel's parallel loop are cut into more
//! shares than there are threads: each thread begins with its own part of them, and who is done with that takes others' shares.
//!
//! Several callers share the threads. With `t` threads in all and `c` callers at work there are `t - c` threads to help them, and each
//! caller gets an equal part of those: one alone gets all, and where there are as many callers as threads, each runs its kernel itself.
//! A caller that comes while others have threads is heard at once: after each share a thread sees whether its job has more than
//! its part by now, and goes over. Nobody waits for anybody else's kernel.
//!
//! Always: threads that find nothing spin for [`SPIN`] and then sleep; an offer is never overlooked by who goes to sleep. A child of `fork` has
//! none of its parent's threads: it makes a pool of its own when it first needs one, whatever the parent's was at.
//!
//! Not here: how a thread joins and leaves a job (`offer`). Tested in `cpu/tests` and at the end of this file.
#![allow(unsafe_code, reason = "calls machine code from several threads")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::kernel::Work;
use super::offer::{Job, Offer, Seat};
use super::scratch;
use crate::timeline;

/// More threads than this are never started.
const THREADS_MAX: usize = 256;
/// Callers whose kernels are shared at one time; any more run theirs alone.
const OFFERS_MAX: usize = 32;
/// How long a thread looks for work before it sleeps: longer than from one call of a program to the next, where an interpreter makes them. One that sleeps takes some 60 us
/// to wake, on a virtual machine; one that looks gives way to any other thread that wants its processor.
const SPIN: Duration = Duration::from_micros(500);
/// The number of a caller among the threads of a job.
const CALLER: usize = 0;
/// Shares a thread gets on average: enough to even out threads that are slowed down by others.
const SHARES_PER_THREAD: i64 = 8;
/// Kernels keep registers on the stack that they have not enough of, and no more: scratch memory is apart.
const STACK_BYTES: usize = 256 << 10;

/// A thread that may sleep.
struct Worker {
    /// From 1 on, for callers are number 0.
    number: usize,
    sleeps: AtomicBool,
    thread: OnceLock<Thread>,
}

struct Pool {
    /// The process whose threads these are.
    process: u32,
    offers: Vec<Offer>,
    /// Callers whose kernels run now, shared or not.
    callers: AtomicUsize,
    /// Threads that look for work and do not sleep.
    looking: AtomicUsize,
    workers: Vec<Worker>,
    started: AtomicUsize,
    /// Held while threads are started, never while a kernel runs.
    starting: Mutex<()>,
}

/// The pool of this process. A child of `fork` sees its parent's, of which no thread lives, and makes another; the old one's memory stays.
fn pool() -> &'static Pool {
    static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
    let mut current = POOL.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or stored below and never freed.
        if let Some(pool) = unsafe { current.as_ref() }
            && pool.process == std::process::id()
        {
            return pool;
        }
        let new = Box::into_raw(Box::new(Pool::new()));
        match POOL.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was just made, and is never freed.
            Ok(_) => return unsafe { &*new },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                current = other;
            }
        }
    }
}

/// Runs all of `work` on at most `threads` threads, the caller among them, and returns when all is done.
///
/// # Safety
/// For each part `begin..end` of `0..work.grid`, `work.entry` may be called with `work.pointers`, `work.variables`, scratch memory of
/// `work.scratch_bytes` bytes that no other call uses at that time, `begin` and `end`, from any thread, and parts at the same time; and
/// `scratch` points at so many bytes of this thread.
pub(super) unsafe fn run(work: &Work, scratch: NonNull<u8>, threads: usize) {
    if threads <= 1 {
        // SAFETY: the caller's promise, for the whole grid.
        unsafe { (work.entry)(work.pointers, work.variables, scratch.as_ptr(), 0, work.grid) };
        return;
    }
    let pool = pool();
    let threads = threads.min(THREADS_MAX);
    pool.start_workers(threads - 1);
    pool.callers.fetch_add(1, Ordering::SeqCst);
    // Where nobody is left to help, one piece is faster than many.
    let offer = if pool.part() > 0 { pool.offers.iter().find(|offer| offer.try_take()) } else { None };
    match offer {
        // SAFETY: the caller's promise, for the whole grid.
        None => unsafe { (work.entry)(work.pointers, work.variables, scratch.as_ptr(), 0, work.grid) },
        Some(offer) => {
            let job = Job::new(work, threads, SHARES_PER_THREAD);
            offer.open(&job, threads - 1);
            pool.wake(pool.part().min(threads - 1));
            // SAFETY: the caller's promise; machine code does not unwind, so that `close` is reached.
            while unsafe { job.take_share(scratch, CALLER) } {}
            offer.close();
            offer.give_back();
        }
    }
    pool.callers.fetch_sub(1, Ordering::SeqCst);
}

impl Pool {
    fn new() -> Pool {
        Pool {
            process: std::process::id(),
            offers: (0..OFFERS_MAX).map(|_| Offer::new()).collect(),
            callers: AtomicUsize::new(0),
            looking: AtomicUsize::new(0),
            workers: (0..THREADS_MAX)
                .map(|index| Worker {
                    number: CALLER + 1 + index,
                    sleeps: AtomicBool::new(false),
                    thread: OnceLock::new(),
                })
                .collect(),
            started: AtomicUsize::new(0),
            starting: Mutex::new(()),
        }
    }

    /// How many threads may help each caller now, beside itself.
    fn part(&self) -> usize {
        part(self.started.load(Ordering::Relaxed) + 1, self.callers.load(Ordering::Relaxed))
    }

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

    /// Wakes sleepers until so many threads look for work.
    fn wake(&self, wanted: usize) {
        let mut missing = wanted.saturating_sub(self.looking.load(Ordering::SeqCst));
        for worker in &self.workers[..self.started.load(Ordering::Acquire)] {
            if missing == 0 {
                return;
            }
            if worker.sleeps.load(Ordering::SeqCst)
                && worker.sleeps.swap(false, Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
                missing -= 1;
            }
        }
    }

    /// The life of a worker.
    fn serve(&self, worker: &Worker) {
        loop {
            let mut seat = self.find_seat(worker);
            // Without scratch memory this thread leaves its part to the others; the caller has had its own before.
            let scratch = scratch::of_this_thread(seat.job().work().scratch_bytes);
            let begun = timeline::begin();
            loop {
                // SAFETY: the promise made to `run`; the scratch memory is this thread's.
                let took =
                    scratch.as_ref().is_ok_and(|&scratch| unsafe { seat.job().take_share(scratch, worker.number) });
                if !took {
                    timeline::end(begun);
                    seat.finish();
                    break;
                }
                match seat.leave_if_more_than(self.part()) {
                    Some(still) => seat = still,
                    None => {
                        timeline::end(begun);
                        break;
                    }
                }
            }
        }
    }

    /// Waits for a seat at a caller who has fewer threads than its part.
    fn find_seat(&self, worker: &Worker) -> Seat<'_> {
        loop {
            self.looking.fetch_add(1, Ordering::SeqCst);
            let found = self.look_for_seat();
            self.looking.fetch_sub(1, Ordering::SeqCst);
            if let Some(seat) = found {
                return seat;
            }
            worker.sleeps.store(true, Ordering::SeqCst);
            // An offer that was opened before we were seen to sleep.
            if !self.has_seat() {
                // Returns at once when we were woken since; waking without reason only means another round.
                std::thread::park();
            }
            worker.sleeps.store(false, Ordering::SeqCst);
        }
    }

    /// A seat, if one is found within [`SPIN`].
    fn look_for_seat(&self) -> Option<Seat<'_>> {
        let begin = Instant::now();
        while begin.elapsed() < SPIN {
            for _ in 0..64 {
                if self.callers.load(Ordering::Relaxed) > 0 {
                    let part = self.part();
                    if let Some(seat) = self.offers.iter().find_map(|offer| offer.join(part)) {
                        return Some(seat);
                    }
                }
                std::hint::spin_loop();
            }
            // Where processors are scarce, the caller that woke us may wait for the one that we spin on.
            std::thread::yield_now();
        }
        None
    }

    fn has_seat(&self) -> bool {
        let part = self.part();
        self.offers.iter().any(|offer| offer.has_seat(part))
    }
}

/// How many of `threads` threads may help each of so many callers, who are threads themselves.
fn part(threads: usize, callers: usize) -> usize {
    threads.saturating_sub(callers).div_ceil(callers.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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

    #[test]
    fn callers_get_equal_parts_of_the_threads_that_they_leave() {
        let parts: Vec<usize> = [0, 1, 2, 3, 5, 8, 15, 16, 40].iter().map(|&callers| part(16, callers)).collect();
        assert_eq!(parts, [16, 15, 7, 5, 3, 1, 1, 0, 0]);
        assert_eq!((part(1, 1), part(2, 1), part(2, 2)), (0, 1, 0));
    }

    /// Counts who is in it, waits until `wanted` are, and says so; gives up after a while.
    unsafe extern "C" fn meet(pointers: *const *mut u8, variables: *const i64, _: *mut u8, _: i64, _: i64) {
        // SAFETY: the tests below pass two counters and a number.
        let (inside, met, wanted) = unsafe {
            let counter = |index: usize| &*(*pointers.add(index)).cast::<AtomicU64>();
            (counter(0), counter(1), *variables as u64)
        };
        inside.fetch_add(1, Ordering::SeqCst);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if inside.load(Ordering::SeqCst) >= wanted {
                met.store(1, Ordering::SeqCst);
            }
            if met.load(Ordering::SeqCst) > 0 {
                break;
            }
            std::thread::yield_now();
        }
        inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether so many threads are in one kernel at a time; no share ends before they are.
    fn threads_meet(wanted: i64) -> bool {
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        let pointers = counters.each_ref().map(|counter| std::ptr::from_ref(counter).cast_mut().cast::<u8>());
        let variables = [wanted];
        let (pointers, variables) = (pointers.as_ptr(), variables.as_ptr());
        let work = Work { entry: meet, pointers, variables, grid: wanted, scratch_bytes: 0 };
        // SAFETY: `meet` works on counters that outlive the call.
        unsafe { run(&work, NonNull::dangling(), wanted as usize) };
        counters[1].load(Ordering::SeqCst) > 0
    }

    #[test]
    fn two_callers_have_threads_at_one_time() {
        let both = AtomicUsize::new(0);
        let other_came = |mine: bool| {
            both.fetch_add(usize::from(mine), Ordering::SeqCst);
            let begin = Instant::now();
            while both.load(Ordering::SeqCst) < 2 && begin.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
        };
        // Each caller holds a thread of the pool in its kernel until the other has one too.
        run_once(64, 32);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| other_came(threads_meet(2)));
            }
        });
        assert_eq!(both.load(Ordering::SeqCst), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_of_fork_has_threads_of_its_own() {
        run_once(64, 32); // so that there are threads for other tests' callers too
        assert!(threads_meet(3));
        // SAFETY: the child only runs kernels and ends, without anything of the test harness.
        match unsafe { libc::fork() } {
            0 => {
                let right = threads_meet(3) && run_once(1000, 3).iter().all(|&count| count == 1);
                // SAFETY: ends the child without what the parent registered for its end.
                unsafe { libc::_exit(i32::from(!right)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child into a number of this frame.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
            }
        }
    }
}
