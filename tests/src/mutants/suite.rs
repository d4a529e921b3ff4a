//! The tests of the copy: built once, and each run without a fault, by itself.
//!
//! So it is known of each test how long it takes and which switches it reaches. A test that does not reach a fault cannot notice it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::run::{self, Asked};

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// What it is called.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// Where it runs.
    pub folder: PathBuf,
}

/// A test, and what it does without a fault.
#[derive(Clone, Debug)]
pub struct Test {
    /// Which of the binaries it is in.
    pub binary: usize,
    /// What it is called there.
    pub name: String,
    /// How long it takes.
    pub time: Duration,
    /// The faults that it reaches.
    pub reaches: BTreeSet<usize>,
}

/// All tests of the copy.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// The programs.
    pub binaries: Vec<Binary>,
    /// Their tests, short ones first.
    pub tests: Vec<Test>,
}

/// Programs of another build in the order of those that are known, whose tests name them by number. A library and a program may have one name; then it is the
/// path that tells them apart.
///
/// # Errors
/// When one is missing.
pub fn in_order_of(known: &[Binary], mut built: Vec<Binary>) -> Result<Vec<Binary>, String> {
    let is_known = |binary: &Binary| known.iter().any(|known| known.path == binary.path);
    let of = |known: &Binary| {
        let like = |binary: &Binary| binary.name == known.name && binary.folder == known.folder && !is_known(binary);
        let at = built.iter().position(|binary| binary.path == known.path).or_else(|| built.iter().position(like));
        at.map(|at| built.swap_remove(at)).ok_or_else(|| format!("there are no tests {}", known.name))
    };
    known.iter().map(of).collect()
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
            binaries.push(Binary { name, path: path.into(), folder });
        }
    }
    if binaries.is_empty() || !output.status.success() {
        return Err("the copy cannot be built".to_string());
    }
    Ok(binaries)
}

/// The names of the tests of a binary, but for those that look at sources and not at what the project does.
fn names_of(binary: &Binary) -> Result<Vec<String>, String> {
    let output = Command::new(&binary.path)
        .args(["--list", "--format", "terse", "--skip", "tidy::", "--skip", "mutants::"])
        .output()
        .map_err(|error| format!("{}: {error}", binary.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect())
}

/// Runs each test without a fault, `workers` at once, and notes what it takes and reaches.
///
/// # Errors
/// If a test fails.
pub fn baseline(binaries: Vec<Binary>, scratch: &Path, workers: usize) -> Result<Suite, String> {
    let mut names = Vec::new();
    for (number, binary) in binaries.iter().enumerate() {
        names.extend(names_of(binary)?.into_iter().map(|name| (number, name)));
    }
    let progress = ProgressBar::new(names.len() as u64);
    let (waiting, done) = (Mutex::new(names), Mutex::new(Vec::new()));
    let work = |worker: usize| -> Result<(), String> {
        let folder = scratch.join(format!("worker{worker}"));
        loop {
            let Some((binary, name)) = next_of(&waiting) else { return Ok(()) };
            let test = look_at(&binaries[binary], binary, &name, &folder)?;
            progress.inc(1);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(test);
        }
    };
    let outcome: Result<(), String> = std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        started.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into())))
    });
    progress.finish_and_clear();
    outcome?;
    let mut tests = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    tests.sort_by_key(|test: &Test| test.time);
    Ok(Suite { binaries, tests })
}

fn next_of(waiting: &Mutex<Vec<(usize, String)>>) -> Option<(usize, String)> {
    waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop()
}

/// One test without a fault.
fn look_at(binary: &Binary, number: usize, name: &str, folder: &Path) -> Result<Test, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let reached = folder.join("reached");
    let _ = std::fs::remove_file(&reached);
    let started = Instant::now();
    let asked = Asked { fault: None, limit: Duration::from_secs(1800), reached: Some(&reached) };
    if let Some(why) = run::fails(binary, name, &asked, folder, &|| false) {
        return Err(format!("without a fault {} {name} fails: {why}", binary.name));
    }
    let text = std::fs::read_to_string(&reached).unwrap_or_default();
    let reaches = text.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Test { binary: number, name: name.to_string(), time: started.elapsed(), reaches })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_another_build_are_found_again() {
        let binary = |name: &str, path: &str| Binary { name: name.into(), path: path.into(), folder: "runtime".into() };
        let known = [binary("warpweft", "a/1"), binary("view", "a/2"), binary("warpweft", "a/3"), binary("it", "a/4")];
        let built = vec![known[3].clone(), known[2].clone(), known[0].clone(), known[1].clone()];
        assert_eq!(in_order_of(&known, built.clone()).unwrap(), known);
        // With other paths they are told by names.
        let other = binary("view", "b/2");
        let moved = vec![known[3].clone(), other.clone(), known[2].clone(), known[0].clone()];
        assert_eq!(in_order_of(&known, moved).unwrap(), [known[0].clone(), other, known[2].clone(), known[3].clone()]);
        assert!(in_order_of(&known, built[1..].to_vec()).unwrap_err().contains("it"));
    }
}
