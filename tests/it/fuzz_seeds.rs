//! A smoke run of every fuzz target over the seeds that are kept for it; the table, the files and the folders say the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use warpweft_tests::choices::caught;
use warpweft_tests::fuzz::TARGETS;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names_in(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(fuzz_folder().join(folder)).unwrap().flatten();
    entries.map(|entry| entry.path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_target_holds_for_its_seeds() {
    for target in TARGETS {
        let mut seeds = 0;
        for entry in std::fs::read_dir(fuzz_folder().join("seeds").join(target.name)).unwrap().flatten() {
            let bytes = std::fs::read(entry.path()).unwrap();
            caught(|| (target.check)(&bytes)).unwrap_or_else(|why| panic!("{}: {why}", entry.path().display()));
            seeds += 1;
        }
        assert!(seeds >= 3, "{} has {seeds} seeds", target.name);
    }
}

#[test]
fn every_target_has_a_file_and_seeds() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    assert_eq!(names.len(), TARGETS.len());
    assert_eq!(names_in("fuzz_targets"), names);
    assert_eq!(names_in("seeds"), names);
    let manifest = std::fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    for name in &names {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is not in fuzz/Cargo.toml");
        let file = std::fs::read_to_string(fuzz_folder().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(file.contains(&format!("fuzz::run(\"{name}\", bytes)")), "{name}.rs runs another target");
    }
}
