//! Builds the tests of the copy, and runs them with one fault after the other.
//!
//! First every test binary runs without a fault: all must pass, and it is seen how long each takes and which switches it reaches. A
//! binary that does not reach a fault cannot notice it and is not asked. What fails, crashes or does not end in time notices.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::list::Fault;
use super::plant::{ACTIVE, REACHED};

/// A binary of tests.
#[derive(Clone, Debug)]
pub struct Binary {
    /// What it is called.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// Where it runs.
    pub folder: PathBuf,
    /// How long it takes without a fault.
    pub time: Duration,
    /// The faults that it reaches.
    pub reaches: BTreeSet<usize>,
}

/// What became of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This test failed.
    Noticed(String),
    /// No test failed.
    Survived,
    /// No test reaches it.
    NotReached,
}

/// Builds all tests of the project in a folder.
///
/// # Errors
/// With what the build says.
pub fn build(tree: &Path, target: &Path) -> Result<Vec<Binary>, String> {
    let output = Command::new("cargo")
        .args([
            "test",
            "--workspace",
            "--tests",
            "--no-run",
            "--quiet",
            "--profile",
            "soak",
            "--message-format",
            "json",
        ])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let mut binaries = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] == "compiler-message" && message["message"]["level"] == "error" {
            return Err(message["message"]["rendered"].as_str().unwrap_or_default().to_string());
        }
        if message["profile"]["test"] == true
            && let (Some(path), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str())
        {
            let folder = Path::new(manifest).parent().unwrap_or(tree).to_path_buf();
            let name = message["target"]["name"].as_str().unwrap_or_default().to_string();
            binaries.push(Binary { name, path: path.into(), folder, time: Duration::ZERO, reaches: BTreeSet::new() });
        }
    }
    if binaries.is_empty() || !output.status.success() {
        return Err("the copy cannot be built".to_string());
    }
    Ok(binaries)
}

/// Runs each binary without a fault, and notes what it takes and reaches.
///
/// # Errors
/// If a test fails.
pub fn baseline(binaries: &mut [Binary], scratch: &Path) -> Result<(), String> {
    for binary in binaries.iter_mut() {
        let reached = scratch.join("reached");
        let _ = std::fs::remove_file(&reached);
        let started = Instant::now();
        let noticed = run_tests(binary, "", None, Duration::from_secs(1800), scratch, Some(&reached));
        if let Some(test) = noticed {
            return Err(format!("without a fault {} fails in {test}", binary.name));
        }
        binary.time = started.elapsed();
        let text = std::fs::read_to_string(&reached).unwrap_or_default();
        binary.reaches = text.lines().filter_map(|line| line.parse().ok()).collect();
    }
    // Short ones are asked first.
    binaries.sort_by_key(|binary| binary.time);
    Ok(())
}

/// Whether the tests notice a fault: `number` names the switch, or nothing what was built alone.
pub fn judge(fault: &Fault, number: Option<usize>, binaries: &[Binary], scratch: &Path) -> Outcome {
    let reaching: Vec<&Binary> =
        binaries.iter().filter(|binary| number.is_none_or(|number| binary.reaches.contains(&number))).collect();
    if reaching.is_empty() {
        return Outcome::NotReached;
    }
    let likely = fault.killers.iter().flat_map(|(name, test)| {
        reaching.iter().filter(move |binary| binary.name == *name).map(move |binary| (*binary, test.as_str()))
    });
    let all = reaching.iter().map(|binary| (*binary, ""));
    for (binary, filter) in likely.chain(all) {
        let limit = binary.time * 5 + Duration::from_secs(20);
        if let Some(test) = run_tests(binary, filter, number, limit, scratch, None) {
            return Outcome::Noticed(format!("{} {test}", binary.name));
        }
    }
    Outcome::Survived
}

/// Runs the tests of a binary whose names begin so; the first that fails.
fn run_tests(
    binary: &Binary,
    filter: &str,
    number: Option<usize>,
    limit: Duration,
    scratch: &Path,
    reached: Option<&Path>,
) -> Option<String> {
    // What one fault computes must not be another's cache.
    let cache = scratch.join("cache");
    let _ = std::fs::remove_dir_all(&cache);
    let mut command = Command::new(&binary.path);
    command.args(["--skip", "tidy::", "--skip", "mutants::"]).current_dir(&binary.folder).env("CACHE_DIR", &cache);
    if !filter.is_empty() {
        command.arg(filter);
    }
    let variables = BTreeMap::from([
        (ACTIVE, number.map(|number| number.to_string())),
        (REACHED, reached.map(|path| path.display().to_string())),
    ]);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("CARGO_MANIFEST_DIR", &binary.folder);
    let mut process = match command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(process) => process,
        Err(error) => return Some(format!("cannot be run: {error}")),
    };
    let output = process.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.map(|mut output| output.read_to_string(&mut text));
        text
    });
    let end = Instant::now() + limit;
    let status = loop {
        match process.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            _ => break None,
        }
    };
    if status.is_none() {
        // Only the process that was started here.
        let _ = process.kill();
        let _ = process.wait();
    }
    let text = reader.join().unwrap_or_default();
    match status {
        None => Some("(does not end)".to_string()),
        Some(status) if status.success() => None,
        Some(status) => Some(first_failure(&text).unwrap_or_else(|| format!("({status})"))),
    }
}

fn first_failure(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.ends_with("... FAILED"))?;
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(|name| name.replace(" - should panic", ""))
}
