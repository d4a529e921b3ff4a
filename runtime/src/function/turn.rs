//! Turns: calls of a function that assigns tensors come one after another, since each starts from what the one before assigned.
//!
//! A turn is no lock that is held while kernels run, but a mark that somebody is at it; who comes meanwhile sleeps until it is gone.

use std::sync::{Condvar, Mutex, PoisonError};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<bool>,
    free: Condvar,
}

/// A turn, which ends when this drops.
pub(super) struct Turn<'turns>(&'turns Turns);

impl Turns {
    /// Waits for a turn.
    pub(super) fn take(&self) -> Turn<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self.free.wait_while(taken, |taken| *taken).unwrap_or_else(PoisonError::into_inner);
        *taken = true;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}
