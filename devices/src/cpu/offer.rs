//! One caller's kernel, offered to the pool's threads: who may join, who is at work on it, and when the caller may go on.
//!
//! All of it is one word of state, which holds whether the offer is open, how many seats are left and how many threads are at work:
//!
//! ```text
//!   caller:  publish work, open with some seats ... take shares ... close ... wait until none is at work
//!   thread:  see it open -> take a seat (seats-1, working+1) ... take shares ... leave (working-1)
//! ```
//!
//! A thread that found no share left takes away the seats that remain, since nobody else would find any. One that leaves for another
//! caller's kernel gives its seat back.
//!
//! Always: a thread touches the caller's work only between taking its seat and leaving, and after closing nobody takes a seat;
//! so the work can live on the caller's stack, and a thread that comes late costs nothing but its own time.
//!
//! Tested with the pool, in `threads.rs` and `cpu/tests`.
#![allow(unsafe_code, reason = "shares a caller's stack between threads and calls machine code")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

use super::kernel::Work;

/// Parts of a grid that have owners; of more threads, several own one together.
const PARTS_MAX: usize = 64;

/// A launch that is shared: its arguments, and which items are taken.
///
/// The grid is cut into one part for each thread. A thread takes shares of its own part as long as there are any, and then of others'. So from launch to launch
/// it mostly works on the same items, whose memory its caches may have.
pub(super) struct Job<'work> {
    work: &'work Work,
    share: i64,
    parts: usize,
    next: [Next; PARTS_MAX],
}

/// The next item of a part; alone in its cache line.
#[repr(align(64))]
struct Next(AtomicI64);

impl<'work> Job<'work> {
    /// Nothing of it is taken; of each thread's part, so many shares are made.
    pub(super) fn new(work: &'work Work, threads: usize, shares: i64) -> Job<'work> {
        let parts = threads.clamp(1, PARTS_MAX);
        let share = (work.grid / (threads as i64 * shares)).max(1);
        let begin =
            |part: usize| Next(AtomicI64::new(if part < parts { part_begin(work.grid, parts, part) } else { 0 }));
        Job { work, share, parts, next: std::array::from_fn(begin) }
    }

    /// The launch.
    pub(super) fn work(&self) -> &Work {
        self.work
    }

    /// Runs the next share of the part that the thread of this number owns, or of another; false if none is left.
    ///
    /// # Safety
    /// As for `threads::run`; `scratch` is this thread's.
    pub(super) unsafe fn take_share(&self, scratch: NonNull<u8>, thread: usize) -> bool {
        let Work { entry, pointers, variables, grid, scratch_bytes: _ } = *self.work;
        for part in (0..self.parts).map(|further| (thread + further) % self.parts) {
            let (next, end) = (&self.next[part].0, part_begin(grid, self.parts, part + 1));
            if next.load(Ordering::Relaxed) >= end {
                continue;
            }
            let begin = next.fetch_add(self.share, Ordering::Relaxed);
            if begin < end {
                // SAFETY: `begin..end` lies in `0..grid` and no other thread gets any of it: parts do not overlap, and each counter only grows. The
                // rest is the caller's promise.
                unsafe { entry(pointers, variables, scratch.as_ptr(), begin, end.min(begin + self.share)) }
                return true;
            }
        }
        false
    }
}

/// The first item of a part of a grid; the first parts have one item more where items are left over.
fn part_begin(grid: i64, parts: usize, part: usize) -> i64 {
    let (parts, part) = (parts as i64, part as i64);
    grid / parts * part + part.min(grid % parts)
}

/// A slot for one caller's kernel; alone in its cache lines.
#[repr(align(128))]
pub(super) struct Offer {
    /// Whether a caller has it.
    taken: AtomicBool,
    state: AtomicU64,
    job: AtomicPtr<Job<'static>>,
}

// Layout of `Offer::state`: bit 0 open; bits 1..16 seats; bits 16..32 threads at work; bits 32.. number of the offer, so that a thread
// that saw an older one takes no seat of this.
const OPEN: u64 = 1;
const SEAT: u64 = 1 << 1;
const SEATS: u64 = 0xfffe;
const WORKING: u64 = 1 << 16;
const WORKINGS: u64 = 0xffff << 16;
const NUMBER: u64 = 1 << 32;
const NUMBERS: u64 = !(NUMBER - 1);

fn working(state: u64) -> usize {
    ((state & WORKINGS) / WORKING) as usize
}

impl Offer {
    pub(super) fn new() -> Offer {
        Offer { taken: AtomicBool::new(false), state: AtomicU64::new(0), job: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Takes the slot, if no caller has it.
    pub(super) fn try_take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed)
            && self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the slot back.
    pub(super) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Offers a job. Only who has the slot calls this, and must call `close` before the job goes.
    pub(super) fn open(&self, job: &Job<'_>, seats: usize) {
        self.job.store(std::ptr::from_ref(job).cast_mut().cast(), Ordering::Relaxed);
        let number = (self.state.load(Ordering::Relaxed) & NUMBERS).wrapping_add(NUMBER);
        // SeqCst: either a thread sees the offer before it sleeps, or the caller sees that it sleeps.
        self.state.store(number | (seats as u64 * SEAT) | OPEN, Ordering::SeqCst);
    }

    /// Takes the offer back and waits until nobody works on it.
    pub(super) fn close(&self) {
        let mut state = self.state.fetch_and(!(OPEN | SEATS), Ordering::AcqRel);
        let mut rounds = 0u32;
        while state & WORKINGS != 0 {
            rounds += 1;
            // A thread has at most one share left, unless the system took its processor away: then give it ours.
            if rounds < 2_000 {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Whether somebody could join, if fewer than `most` are at work.
    pub(super) fn has_seat(&self, most: usize) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        state & OPEN != 0 && state & SEATS != 0 && working(state) < most
    }

    /// A seat, if there is one and fewer than `most` are at work.
    pub(super) fn join(&self, most: usize) -> Option<Seat<'_>> {
        let state = self.state.load(Ordering::Acquire);
        if state & OPEN == 0 || state & SEATS == 0 || working(state) >= most {
            return None;
        }
        let seated = state - SEAT + WORKING;
        self.state.compare_exchange(state, seated, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Seat(self))
    }
}

/// A seat that a thread has: until it leaves, the job is there.
pub(super) struct Seat<'offer>(&'offer Offer);

impl Seat<'_> {
    pub(super) fn job(&self) -> &Job<'_> {
        // SAFETY: we hold a seat of an open offer. `open` stored the job before it opened, and `close` does not return
        // before we leave, so the job is alive as long as the seat.
        unsafe { &*self.0.job.load(Ordering::Relaxed) }
    }

    /// Leaves a job of which no share is left to take.
    pub(super) fn finish(self) {
        self.0.state.fetch_and(!SEATS, Ordering::Relaxed);
        self.0.state.fetch_sub(WORKING, Ordering::Release);
    }

    /// Leaves a job that others may go on with, if more than `most` are at it; else the seat stays.
    pub(super) fn leave_if_more_than(self, most: usize) -> Option<Self> {
        let mut state = self.0.state.load(Ordering::Relaxed);
        while working(state) > most {
            // A closed offer has no seats, and gets none.
            let left = if state & OPEN != 0 { state - WORKING + SEAT } else { state - WORKING };
            match self.0.state.compare_exchange_weak(state, left, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return None,
                Err(now) => state = now,
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static RUN: RefCell<Vec<(i64, i64)>> = const { RefCell::new(Vec::new()) };
    }

    /// A stand-in for a kernel: notes what it is asked to do.
    unsafe extern "C" fn note(_: *const *mut u8, _: *const i64, _: *mut u8, begin: i64, end: i64) {
        RUN.with_borrow_mut(|run| run.push((begin, end)));
    }

    fn run_by(job: &Job<'_>, thread: usize, shares: usize) -> Vec<(i64, i64)> {
        RUN.take();
        // SAFETY: `note` touches no memory that it is given.
        while RUN.with_borrow(Vec::len) < shares && unsafe { job.take_share(NonNull::dangling(), thread) } {}
        RUN.take()
    }

    #[test]
    fn a_thread_takes_its_own_part_first_and_then_what_others_left() {
        let (pointers, variables) = (std::ptr::null(), std::ptr::null());
        let work = Work { entry: note, pointers, variables, grid: 21, scratch_bytes: 0 };
        let job = Job::new(&work, 2, 2);
        assert_eq!(run_by(&job, 1, 1), [(11, 16)]);
        assert_eq!(run_by(&job, 0, 1), [(0, 5)]);
        assert_eq!(run_by(&job, 1, 9), [(16, 21), (5, 10), (10, 11)]);
        assert_eq!(run_by(&job, 0, 9), []);
        // A thread whose number is larger than there are parts shares one.
        let job = Job::new(&work, 3, 1);
        assert_eq!(run_by(&job, 4, 9), [(7, 14), (14, 21), (0, 7)]);
        let work = Work { grid: 0, ..work };
        assert_eq!(run_by(&Job::new(&work, 300, 8), 299, 9), []);
    }
}
