//! Work that runs when the process ends: by returning from `main`, or by `exit`.
//!
//! What is left to tell of a whole process, as the totals of `PROFILE=1`, is known only then, and the program that the library is part of has no line that
//! is always its last. Work runs in the order in which it was given, on the thread that ends the process, after `main` and before the objects of C libraries
//! are destroyed; a panic ends that piece of work alone. A process that is killed or calls `_exit` runs none.
//!
//! Tested by the runtime's tests of settings, in processes of their own.
#![allow(unsafe_code, reason = "registers a function with the C library")]

#[cfg(all(feature = "cpu", unix))]
use std::sync::{Mutex, Once, PoisonError};

#[cfg(all(feature = "cpu", unix))]
static WORK: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has some work run when the process ends. Returns whether it will: where there is no C library to ask, it will not.
#[cfg(all(feature = "cpu", unix))]
pub fn at_exit(work: fn()) -> bool {
    static REGISTERED: Once = Once::new();
    WORK.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    let mut accepted = true;
    REGISTERED.call_once(|| {
        // SAFETY: a function without arguments that does not unwind: panics are caught inside.
        accepted = unsafe { libc::atexit(run) } == 0;
    });
    accepted
}

/// Has some work run when the process ends. Returns whether it will: where there is no C library to ask, it will not.
#[cfg(not(all(feature = "cpu", unix)))]
pub fn at_exit(_work: fn()) -> bool {
    false
}

#[cfg(all(feature = "cpu", unix))]
extern "C" fn run() {
    // Work may give more work: nothing is locked while it runs, and what comes now is too late.
    let all = std::mem::take(&mut *WORK.lock().unwrap_or_else(PoisonError::into_inner));
    for work in all {
        let _ = std::panic::catch_unwind(work);
    }
}
