//! A copy of the project in which each fault is a switch.
//!
//! An expression `old` becomes `(if active(N) { new } else { old })`; `active` reads an environment variable once, and stands in a module that
//! only the copy has, in the lowest crate. Files that are as they were keep their time, so that a second build is short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::list::Fault;

/// Names the fault that a process has; nothing where it is not set.
pub const ACTIVE: &str = "WARPWEFT_MUTANT";
/// A file that gets the number of each switch that is reached.
pub const REACHED: &str = "WARPWEFT_MUTANTS_REACHED";

/// The file that only a copy has, by which it is known for one.
const SWITCHES: &str = "compiler/src/mutants.rs";
/// The module that the copy has.
const MODULE: &str = r#"//! Switches of planted faults.
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ACTIVE: LazyLock<usize> =
    LazyLock::new(|| std::env::var("WARPWEFT_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX));
static REACHED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("WARPWEFT_MUTANTS_REACHED").ok());
static SEEN: [AtomicBool; 1000] = [const { AtomicBool::new(false) }; 1000];

/// Whether this process has the fault.
pub fn active(number: usize) -> bool {
    if let Some(path) = &*REACHED
        && !SEEN[number].swap(true, Ordering::Relaxed)
    {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    }
    *ACTIVE == number
}
"#;

/// Copies the project into a folder, with all faults that are not built alone as switches (by their number in the list), and one of those that
/// are in place.
///
/// # Errors
/// If a file cannot be copied, or what a fault replaces is not there just once.
pub fn plant(root: &Path, to: &Path, faults: &[Fault], alone: Option<&Fault>) -> Result<(), String> {
    let mut changed: BTreeMap<&str, Vec<(usize, &Fault)>> = BTreeMap::new();
    let switches = faults.iter().enumerate().filter(|(_, fault)| !fault.alone && alone.is_none());
    for (number, fault) in switches.chain(alone.map(|fault| (usize::MAX, fault))) {
        changed.entry(&fault.file).or_default().push((number, fault));
    }
    let files = files_of(root)?;
    for path in &files {
        let bytes = std::fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let bytes = match changed.remove(path.as_str()) {
            Some(faults) => with_faults(path, &String::from_utf8_lossy(&bytes), &faults)?.into_bytes(),
            None => bytes,
        };
        let bytes = if path == "compiler/src/lib.rs" {
            [&bytes[..], b"\n#[allow(missing_docs)]\npub mod mutants;\n"].concat()
        } else {
            bytes
        };
        write(&to.join(path), &bytes)?;
    }
    let module = to.join(SWITCHES);
    if module.exists() {
        let files: BTreeSet<&str> = files.iter().map(String::as_str).chain([SWITCHES]).collect();
        remove_others(to, "", &files).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    write(&module, MODULE.as_bytes())?;
    match changed.into_keys().next() {
        Some(missing) => Err(format!("there is no file {missing}")),
        None => Ok(()),
    }
}

/// The files of the project, those that are not yet committed too.
fn files_of(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let files: Vec<String> = text.lines().filter(|path| root.join(path).is_file()).map(str::to_string).collect();
    if files.is_empty() { Err("git lists no files here".to_string()) } else { Ok(files) }
}

/// Writes a file if it is not so already.
fn write(path: &PathBuf, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let outcome = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, bytes));
    outcome.map_err(|error| format!("{}: {error}", path.display()))
}

/// Takes out of an earlier copy what the project has no more: cargo finds tests by their files.
fn remove_others(root: &Path, folder: &str, files: &BTreeSet<&str>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{folder}{}", name.to_string_lossy());
        if entry.file_type()?.is_dir() {
            remove_others(root, &format!("{path}/"), files)?;
        } else if !files.contains(path.as_str()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The text of a file with these faults as switches; a fault without a number takes the place of what it replaces.
fn with_faults(path: &str, text: &str, faults: &[(usize, &Fault)]) -> Result<String, String> {
    let module = if path.starts_with("compiler/") { "crate" } else { "warpweft_compiler" };
    // What each part of the text becomes; several faults may be of one part.
    let mut parts: BTreeMap<(usize, usize), Vec<(usize, &Fault)>> = BTreeMap::new();
    for &(number, fault) in faults {
        let wanted = format!("{}{}{}", fault.before, fault.old, fault.after);
        let mut found = text.match_indices(&wanted);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            return Err(format!("{}: what it replaces is not in {path} just once", fault.name));
        };
        let start = at + fault.before.len();
        parts.entry((start, start + fault.old.len())).or_default().push((number, fault));
    }
    let ranges: Vec<&(usize, usize)> = parts.keys().collect();
    if let Some(pair) = ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        return Err(format!("{path}: two faults replace parts of the same text, at {}", pair[1].0));
    }
    let mut result = text.to_string();
    for (&(start, end), faults) in parts.iter().rev() {
        let old = faults[0].1.old.clone();
        let switched = faults.iter().fold(old, |old, (number, fault)| match (*number, fault.statements) {
            (usize::MAX, _) => fault.new.clone(),
            (number, true) => format!("if {module}::mutants::active({number}) {{ {} }} else {{ {old} }}", fault.new),
            (number, false) => {
                format!("(if {module}::mutants::active({number}) {{ {} }} else {{ {old} }})", fault.new)
            }
        });
        result.replace_range(start..end, &switched);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;

    #[test]
    fn what_the_project_has_no_more_leaves_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/b/kept.rs", "a/old.rs", "new.rs"] {
            write(&folder.path().join(path), b"x").unwrap();
        }
        remove_others(folder.path(), "", &["a/b/kept.rs", "new.rs"].into_iter().collect()).unwrap();
        assert!(folder.path().join("a/b/kept.rs").is_file() && folder.path().join("new.rs").is_file());
        assert!(!folder.path().join("a/old.rs").exists());
    }

    #[test]
    fn faults_become_switches() {
        let all =
            parse("== a\nfile x\n- let y = ⟦1 + 2⟧;\n+ 3\n== b\nfile x\nstatements\n- go();\n+ stop();\n").unwrap();
        let faults: Vec<(usize, &Fault)> = all.iter().enumerate().collect();
        let text = with_faults("runtime/x", "let y = 1 + 2;\ngo();\n", &faults).unwrap();
        assert_eq!(
            text,
            "let y = (if warpweft_compiler::mutants::active(0) { 3 } else { 1 + 2 });\n\
             if warpweft_compiler::mutants::active(1) { stop(); } else { go(); }\n"
        );
        let alone = with_faults("compiler/x", "let y = 1 + 2;", &[(usize::MAX, &all[0])]).unwrap();
        assert_eq!(alone, "let y = 3;");
        assert!(with_faults("x", "let y = 1 + 2; let y = 1 + 2;", &faults[..1]).unwrap_err().contains("just once"));
    }
}
