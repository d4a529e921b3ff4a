//! The subscriber that prints when `DEBUG` is set and the application has none of its own.
//!
//! It is small enough to be written out, so that a program that only computes does not take in a library of subscribers for it. Spans mean
//! nothing to it.

use std::fmt;
use std::io::Write;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::TARGETS;

/// A subscriber that writes the message of each event up to a `DEBUG` level, a line (or several) each, and warnings of any target.
#[derive(Debug)]
pub struct Printer<W> {
    level: u8,
    open: W,
}

impl<W> Printer<W> {
    /// Prints up to `level` to what `open` gives for each event.
    pub fn new(level: u8, open: W) -> Printer<W> {
        Printer { level, open }
    }

    fn prints(&self, metadata: &Metadata<'_>) -> bool {
        match TARGETS.iter().position(|(target, _)| *target == metadata.target()) {
            Some(number) => number < self.level as usize,
            None => metadata.target().starts_with("warpweft") && *metadata.level() <= tracing::Level::WARN,
        }
    }
}

impl<O: Write, W: Fn() -> O + Send + Sync + 'static> Subscriber for Printer<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && self.prints(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        message.0.push('\n');
        // A closed stderr is no reason to stop computing.
        let _ = (self.open)().write_all(message.0.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Installs a subscriber that prints to stderr, if `level` is not 0 and the process has none. An application that installs its own
/// does so before it computes the first value, and nothing here replaces it.
pub fn install(level: u8) {
    if level > 0 && !tracing::dispatcher::has_been_set() {
        // Another thread may have installed one in this moment: then that one is respected.
        let _ = tracing::subscriber::set_global_default(Printer::new(level, std::io::stderr));
    }
}
