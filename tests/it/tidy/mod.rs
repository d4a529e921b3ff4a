//! Rules of the code that a machine can check: each is a test that reads the sources.

mod crates;
mod environment;
mod layers;
mod ops;
mod shape;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository").to_path_buf()
}

/// A source file: its path below the root and its lines.
struct Source {
    path: String,
    lines: Vec<String>,
}

/// Every Rust file of these folders (all of the project's if there are none).
fn sources(folders: &[&str]) -> Vec<Source> {
    let all = ["compiler", "renderer", "devices", "runtime", "tests", "fuzz"];
    let folders = if folders.is_empty() { &all[..] } else { folders };
    let mut pending: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let is_built = path.file_name().is_some_and(|name| name == "target");
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            pending.extend(entries.map(|entry| entry.path()).filter(|_| !is_built));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let below = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
            found.push(Source { path: below, lines: text.lines().map(str::to_string).collect() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "there are no sources in {folders:?}");
    found
}

impl Source {
    /// The line without a comment at its end; nothing of a line that is all comment. Texts in quotes are kept.
    fn code(&self, number: usize) -> &str {
        let line = &self.lines[number];
        let mut quoted = false;
        let mut before = ' ';
        for (at, next) in line.char_indices() {
            match next {
                '"' if before != '\\' && before != '\'' => quoted = !quoted,
                '/' if !quoted && before == '/' => return &line[..at - 1],
                _ => {}
            }
            before = next;
        }
        line
    }

    /// Whether the file has tests alone, those of the module around it.
    fn is_of_tests(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.ends_with("properties.rs")
    }

    /// The first line of the file's unit tests, or the end of the file.
    fn end_of_code(&self) -> usize {
        if self.is_of_tests() {
            return 0;
        }
        let is_test = |line: &String| line.trim() == "#[cfg(test)]";
        let starts_module =
            |at: &usize| self.lines.get(at + 1).is_some_and(|line| line.trim().starts_with("mod tests {"));
        (0..self.lines.len()).filter(|at| is_test(&self.lines[*at])).find(starts_module).unwrap_or(self.lines.len())
    }
}

/// Fails with all of these, if there are any.
#[track_caller]
fn assert_none(failures: Vec<String>) {
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
