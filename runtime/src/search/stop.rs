//! Ending searches before their time: a program is asked between trials whether it still wants to wait ([`stop_when`]).
//!
//! A search that is ended gives the best that it has, and that is not kept: the next one begins anew. Python's package asks whether Ctrl-C
//! was pressed. Tested in `search/tests.rs` and in `runtime/python/tests/test_interrupt.py`.

use std::sync::OnceLock;

static ASKED: OnceLock<fn() -> bool> = OnceLock::new();

/// Asks a function, on the thread that searches, whether searches shall end; for the whole process, and once: false if another was given before.
pub fn stop_when(ask: fn() -> bool) -> bool {
    ASKED.set(ask).is_ok()
}

/// Whether searches shall end.
pub(crate) fn is_stopped() -> bool {
    ASKED.get().is_some_and(|ask| ask())
}
