//! What each kernel took in all, told when the process ends: `PROFILE=1`.
//!
//! ```text
//! CPU: total ms, launches, mean us, kernel
//!       1.29       12     107.50  r_4096_1024
//! ```
//!
//! With the feature `cli` the lines go to stderr; without it they are one event of the target `warpweft::profile`, level INFO, for the subscriber of the
//! program. Tested in `tests/settings.rs`.

use std::sync::Once;

use crate::registry;

/// Has the totals of all open devices told when the process ends. May be called often, and counts once.
pub(crate) fn tell_totals_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        warpweft_devices::at_exit::at_exit(tell_totals);
    });
}

#[cfg(feature = "cli")]
fn tell_totals() {
    use std::io::Write;
    // A closed stderr is no reason to end in another way.
    let _ = std::io::stderr().write_all(totals().as_bytes());
}

#[cfg(not(feature = "cli"))]
fn tell_totals() {
    tracing::info!(target: "warpweft::profile", "{}", totals().trim_end());
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
