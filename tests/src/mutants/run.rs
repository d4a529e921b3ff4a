//! One test, run by itself with one fault: what fails, crashes or does not end in time notices the fault.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::plant::{ACTIVE, REACHED};
use super::suite::Binary;

/// How a test is run.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The switch that is on.
    pub fault: Option<usize>,
    /// How long it may take.
    pub limit: Duration,
    /// The file that gets the switches that are reached.
    pub reached: Option<&'a Path>,
}

/// Runs a test of a binary, and says how it fails. `folder` is for what it writes; it ends early, as if it passed, once `stop` says so.
pub fn fails(binary: &Binary, test: &str, asked: &Asked, folder: &Path, stop: &dyn Fn() -> bool) -> Option<String> {
    // What one fault computes must not be another's cache.
    let cache = folder.join("cache");
    let _ = std::fs::remove_dir_all(&cache);
    let mut command = Command::new(&binary.path);
    command.args(["--exact", test, "--test-threads", "1"]).current_dir(&binary.folder).env("CACHE_DIR", &cache);
    command.env("CARGO_MANIFEST_DIR", &binary.folder).env_remove(ACTIVE).env_remove(REACHED);
    if let Some(number) = asked.fault {
        command.env(ACTIVE, number.to_string());
    }
    if let Some(path) = asked.reached {
        command.env(REACHED, path);
    }
    let mut process = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(process) => process,
        Err(error) => return Some(format!("cannot be run: {error}")),
    };
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let outcome = loop {
        match process.try_wait() {
            Ok(Some(status)) if status.success() => break None,
            // What a test says when it fails.
            Ok(Some(status)) if status.code() == Some(101) => break Some("fails".to_string()),
            Ok(Some(status)) => break Some(status.to_string()),
            _ if stop() => break None,
            _ if started.elapsed() > asked.limit => break Some("does not end".to_string()),
            _ => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    // Only the process that was started here, where it still runs.
    let _ = process.kill();
    let _ = process.wait();
    outcome
}
