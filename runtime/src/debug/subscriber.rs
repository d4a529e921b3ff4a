//! The subscriber that prints when `DEBUG` is set and the application has none of its own.

use std::fmt;
use std::io::Write;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::TARGETS;

/// A layer that writes the message of each event up to a `DEBUG` level, a line (or several) each, and warnings of any target.
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

impl<S: Subscriber, O: Write, W: Fn() -> O + 'static> Layer<S> for Printer<W> {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.prints(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        message.0.push('\n');
        // A closed stderr is no reason to stop computing.
        let _ = (self.open)().write_all(message.0.as_bytes());
    }
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

/// Prints a warning in a process that has no subscriber, where it would be lost. None is installed for it: the application may have one yet to come.
pub(crate) fn print_unheard(warning: &dyn fmt::Display) {
    if !tracing::dispatcher::has_been_set() {
        // A closed stderr is no reason to stop computing.
        let _ = std::io::stderr().write_all(format!("warpweft: {warning}\n").as_bytes());
    }
}

/// Installs a subscriber that prints to stderr, if `level` is not 0 and the process has none. An application that installs its own
/// does so before it computes the first value, and nothing here replaces it.
pub fn install(level: u8) {
    if level > 0 && !tracing::dispatcher::has_been_set() {
        let subscriber = tracing_subscriber::registry().with(Printer::new(level, std::io::stderr));
        // Another thread may have installed one in this moment: then that one is respected.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}
