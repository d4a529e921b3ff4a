//! Every kernel that a run makes for GPUs, through ptxas: `conformance KIND FILE --device PTX --assemble sm_80,sm_90,sm_100`.
//!
//! The library tells the text of each new kernel to whoever listens (`warpweft::source`). Here texts of PTX are collected, each once, and assembled when the run has ended. A text that
//! ptxas does not accept is a failure, and so is a kernel that spills: its opts were chosen by hand.
//!
//! Tested below, where there is a ptxas.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use warpweft_devices::ptxas::Ptxas;

/// What tells the texts of kernels.
const SOURCE: &str = "warpweft::source";
/// What every module of PTX has.
const OF_MODULES: &str = ".address_size 64";

/// Texts of PTX that were told.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<BTreeSet<String>>>);

impl Collected {
    /// Listens in the whole process from now on.
    ///
    /// # Errors
    /// If somebody listens already.
    pub fn listen() -> Result<Collected, String> {
        let collected = Collected::default();
        tracing::subscriber::set_global_default(collected.clone()).map_err(|error| error.to_string())?;
        Ok(collected)
    }

    /// The texts so far, in alphabetical order.
    pub fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == SOURCE
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        if message.0.contains(OF_MODULES) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(message.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A line for each text that ptxas does not accept for one of the architectures, or that spills there; by as many threads as there are processors.
pub fn assemble(ptxas: &Ptxas, texts: &[String], architectures: &[&str]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let lines: Mutex<Vec<(usize, String)>> = Mutex::default();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(text) = texts.get(number) else { return };
            let wrong = architectures.iter().filter_map(|architecture| judged(ptxas, text, architecture));
            let wrong: Vec<(usize, String)> = wrong.map(|line| (number, line)).collect();
            lines.lock().unwrap_or_else(PoisonError::into_inner).extend(wrong);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// What is wrong with a text on an architecture.
fn judged(ptxas: &Ptxas, text: &str, architecture: &str) -> Option<String> {
    // The first line is a comment that names the kernel.
    let name = text.lines().next().unwrap_or_default();
    match ptxas.assemble(text, architecture) {
        Err(why) => Some(format!("{architecture} {name}: {why}")),
        Ok(takes) if takes.spill_store_bytes + takes.spill_load_bytes > 0 => {
            let (bytes, registers) = (takes.spill_store_bytes, takes.registers);
            Some(format!("{architecture} {name}: spills {bytes} bytes, with {registers} registers"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::{NO_PTXAS, PTXAS};

    const EMPTY: &str = "// empty\n.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";

    #[test]
    fn texts_of_kernels_are_collected_once() {
        let collected = Collected::default();
        tracing::subscriber::with_default(collected.clone(), || {
            tracing::trace!(target: "warpweft::source", "{EMPTY}");
            tracing::trace!(target: "warpweft::source", "{EMPTY}");
            tracing::trace!(target: "warpweft::source", "define void @kernel()");
            tracing::trace!(target: "warpweft::linear", "{EMPTY}");
        });
        assert_eq!(collected.texts(), [EMPTY]);
    }

    #[test]
    fn what_ptxas_says_is_a_line() {
        let Some(ptxas) = &*PTXAS else { return println!("{NO_PTXAS}") };
        assert_eq!(assemble(ptxas, &[EMPTY.to_string()], &["sm_80", "sm_90", "sm_100"]), [""; 0]);
        let wrong = EMPTY.replace("ret;", "return;");
        let lines = assemble(ptxas, &[wrong], &["sm_80", "sm_90"]);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("sm_80 // empty: "), "{lines:?}");
    }
}
