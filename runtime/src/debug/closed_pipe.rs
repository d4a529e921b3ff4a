//! Programs at a terminal whose reader stops, as `head` does: they end without a word.
//!
//! Rust ignores the signal by which the system would end them, so printing fails and `println!` panics. A hook sees that panic before anything is told of it, and ends the process with the
//! code that a shell gives a program which that signal ended. Other panics are told as before.
//!
//! Not here: writes that return their error, as flushing does. Who makes them compares the error with [`is_closed_pipe`]. Tested in `runtime/tests/cli.rs` and `examples.rs`.

use std::error::Error;
use std::io;

/// The exit code of a program that prints to a pipe which nobody reads any more: 128 and the number of SIGPIPE.
pub const PIPE_CLOSED: u8 = 141;

/// Ends this process without a word when it prints and nobody reads it any more. For programs at a terminal: they call it first.
pub fn end_with_the_reader() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>();
        if said.is_some_and(|said| said.starts_with("failed printing to stdout") && said.contains("Broken pipe")) {
            std::process::exit(PIPE_CLOSED.into());
        }
        others(panic);
    }));
}

/// Whether an error is that nobody reads any more what is written.
pub fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
