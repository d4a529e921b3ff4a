//! What each kernel took in all, told when the process ends: `PROFILE=1`; or all that was recorded, written to a file: `PROFILE=FILE.json`.
//!
//! ```text
//! CPU: total ms, launches, mean us, kernel
//!       1.29       12     107.50  r_4096_1024
//! ```
//!
//! With the feature `printer` the lines go to stderr; without it they are one event of the target `warpweft::profile`, level INFO, for the subscriber of the
//! program. Tested in `tests/settings.rs`.

use std::sync::Once;

use super::{print_unheard, record, trace};
use crate::config::config;
use crate::registry;

/// Has the totals of all open devices told when the process ends. May be called often, and counts once.
pub(crate) fn tell_totals_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        warpweft_devices::at_exit::at_exit(tell_totals);
    });
}

/// Records from now on, and has it written when the process ends, to the file that the settings name. May be called often, and counts once. Nothing is
/// recorded where somebody else's file has that name: `PROFILE=settings.json` may be a host's.
pub(crate) fn write_trace_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(path) = &config().profile_file else { return };
        match trace::check_path(path) {
            Ok(()) => {
                record::start();
                warpweft_devices::at_exit::at_exit(write_trace);
            }
            Err(error) => {
                let warning = format!("nothing is recorded: PROFILE={}: {error}", path.display());
                tracing::warn!(target: "warpweft::profile", "{warning}");
                print_unheard(&warning);
            }
        }
    });
}

fn write_trace() {
    if let (Some(path), Some(recording)) = (&config().profile_file, record::finish())
        && let Err(error) = trace::check_path(path).and_then(|()| trace::write(&recording, None, path))
    {
        tell_at_exit(&format!("PROFILE: {}: {error}\n", path.display()));
    }
}

fn tell_totals() {
    tell_at_exit(&totals());
}

#[cfg(feature = "printer")]
fn tell_at_exit(text: &str) {
    use std::io::Write;
    // A closed stderr is no reason to end in another way.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(not(feature = "printer"))]
fn tell_at_exit(text: &str) {
    tracing::info!(target: "warpweft::profile", "{}", text.trim_end());
}

/// A heading for each device that ran something, and a line for each kernel, the one with the most time first.
fn totals() -> String {
    let mut text = String::new();
    for executor in registry::executors() {
        let kernels = executor.kernel_totals();
        if kernels.is_empty() {
            continue;
        }
        text.push_str(&format!("{}: total ms, launches, mean us, kernel\n", executor.device().name()));
        for (name, total) in kernels {
            let seconds = total.elapsed.as_secs_f64();
            let mean_us = seconds * 1e6 / total.launches.max(1) as f64;
            text.push_str(&format!("{:10.2} {:8} {mean_us:10.2}  {name}\n", seconds * 1e3, total.launches));
        }
    }
    text
}
