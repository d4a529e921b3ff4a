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

/// A launch that is shared: its arguments, and which items are taken.
pub(super) struct Job<'work> {
    pub(super) work: &'work Work,
    pub(super) share: i64,
    pub(super) next: AtomicI64,
}

impl Job<'_> {
    /// Runs the next share; false if none is left.
    ///
    /// # Safety
    /// As for `threads::run`; `scratch` is this thread's.
    pub(super) unsafe fn take_share(&self, scratch: NonNull<u8>) -> bool {
        let Work { entry, pointers, variables, grid, scratch_bytes: _ } = *self.work;
        let begin = self.next.fetch_add(self.share, Ordering::Relaxed);
        if begin >= grid {
            return false;
        }
        // SAFETY: `begin..end` lies in `0..grid` and no other thread gets any of it; the rest is the caller's promise.
        unsafe { entry(pointers, variables, scratch.as_ptr(), begin, grid.min(begin + self.share)) }
        true
    }
}

/// A place for one caller's kernel; alone in its cache lines.
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

    /// Takes the place, if no caller has it.
    pub(super) fn try_take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed)
            && self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the place back.
    pub(super) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Offers a job. Only who has the place calls this, and must call `close` before the job goes.
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
