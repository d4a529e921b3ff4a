//! Every `.uop` file below `tests/filetests`, a test for each folder. `BLESS=1 cargo test -p warpweft-tests filetests` renews precise outputs.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A test for each folder, and the names of all.
macro_rules! folders {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run_folder(stringify!($name));
        })*
        const FOLDERS: &[&str] = &[$(stringify!($name)),*];
    };
}

folders!(kernel, opts, render, run, schedule, symbolic, text, verify);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")
}

fn run_folder(folder: &str) {
    let bless = std::env::var_os("BLESS").is_some();
    let summary = warpweft_tests::filetest::run_directory(&root().join(folder), bless).expect("the files can be read");
    assert!(summary.cases > 0, "there are no filetests");
    if !summary.skipped.is_empty() {
        let (first, count) = (&summary.skipped[..summary.skipped.len().min(3)], summary.skipped.len());
        let text = format!("{count} runs of filetests are skipped:\n{}\n", first.join("\n"));
        // Not by `println!`, which tests that pass keep to themselves.
        std::io::stderr().write_all(text.as_bytes()).expect("stderr is open");
    }
    assert!(
        summary.failures.is_empty(),
        "{} of {} cases fail:\n{}",
        summary.failures.len(),
        summary.cases,
        summary.failures.join("\n")
    );
}

#[test]
fn every_folder_is_a_test() {
    let entries = std::fs::read_dir(root()).expect("the folder can be read");
    let found: BTreeSet<String> =
        entries.map(|entry| entry.expect("as above").file_name().to_string_lossy().into_owned()).collect();
    let known: BTreeSet<String> = FOLDERS.iter().map(|name| name.to_string()).collect();
    assert_eq!(found, known, "each entry of tests/filetests is a folder that tests/it/filetests.rs names");
}
