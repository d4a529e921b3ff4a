//! When the threads of the CPU's pool worked on kernels, for traces: who asks for it takes what was noted meanwhile.
//!
//! Always: while nobody asks, this costs a thread one load of a flag for each kernel that it helps with. What is noted of a kernel is there when its launch
//! returns, unless the thread left it for another one's before it was done. No more than [`PIECES_MAX`] are kept.
//!
//! Not here: which kernel it was; who launches knows. Tested by the runtime's tests of traces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Pieces of work that are kept until somebody takes them.
pub const PIECES_MAX: usize = 1 << 16;

/// What one thread did of one kernel.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The thread's name.
    pub thread: String,
    /// When it began.
    pub start: Instant,
    /// When it was done.
    pub end: Instant,
}

static ON: AtomicBool = AtomicBool::new(false);
static PIECES: Mutex<Vec<Piece>> = Mutex::new(Vec::new());

/// Notes what threads do from now on, or no longer. What was noted before is forgotten.
pub fn note(on: bool) {
    PIECES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    ON.store(on, Ordering::Relaxed);
}

/// What was noted since it was last taken.
pub fn take() -> Vec<Piece> {
    std::mem::take(&mut PIECES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The beginning of a piece of work of this thread, if anybody asks.
#[cfg_attr(not(feature = "cpu"), allow(dead_code, reason = "threads of the CPU have pieces of work"))]
pub(crate) fn begin() -> Option<Instant> {
    ON.load(Ordering::Relaxed).then(Instant::now)
}

/// Its end.
#[cfg_attr(not(feature = "cpu"), allow(dead_code, reason = "as above"))]
pub(crate) fn end(begun: Option<Instant>) {
    let Some(start) = begun else { return };
    let piece =
        Piece { thread: std::thread::current().name().unwrap_or("a thread").to_string(), start, end: Instant::now() };
    let mut pieces = PIECES.lock().unwrap_or_else(PoisonError::into_inner);
    if pieces.len() < PIECES_MAX {
        pieces.push(piece);
    }
}
