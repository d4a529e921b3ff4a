//! `onnx FOLDER [--filter TEXT]`: runs the cases of the ONNX format below a folder, and prints which did not pass.
//!
//! A case is a folder with a `model.onnx` and folders `test_data_set_N`; `tests/onnx/write_cases.py` writes those of the package `onnx`. Exit code 0 if some
//! passed and none failed; 1 if not; 2 if the folder could not be read.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use warpweft_tests::onnx::{Outcome, files_of, run};

/// Runs cases of the ONNX format and prints which did not pass.
#[derive(Parser)]
struct Arguments {
    /// A folder; every folder below it with a `model.onnx` is a case.
    folder: PathBuf,
    /// Only cases whose name holds this text.
    #[arg(long)]
    filter: Option<String>,
    /// Only the counts, and how many cases are unsupported for each reason.
    #[arg(long)]
    summary: bool,
    /// Cases that take as many milliseconds or more are printed too.
    #[arg(long)]
    slow: Option<u128>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut folders = Vec::new();
    if let Err(error) = cases_below(&arguments.folder, &mut folders) {
        eprintln!("{}: {error}", arguments.folder.display());
        return ExitCode::from(2);
    }
    folders.sort();
    let name = |folder: &Path| folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    folders.retain(|folder| arguments.filter.as_ref().is_none_or(|text| name(folder).contains(text)));
    // Panics are outcomes, and told as such.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for folder in &folders {
        let (name, start) = (name(folder), Instant::now());
        let outcome = match files_of(folder) {
            Ok(files) => run(&name, &files),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        let elapsed = start.elapsed().as_millis();
        if arguments.slow.is_some_and(|limit| elapsed >= limit) {
            println!("slow {name}: {elapsed} ms");
        }
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Failed(message) => {
                failed += 1;
                println!("failed {name}: {message}");
            }
            Outcome::Unsupported(reason) => {
                unsupported += 1;
                if !arguments.summary {
                    println!("unsupported {name}: {reason}");
                }
                *reasons.entry(reason).or_default() += 1;
            }
        }
    }
    if arguments.summary {
        reasons.iter().for_each(|(reason, count)| println!("{count:5} unsupported: {reason}"));
    }
    println!("{passed} passed, {failed} failed, {unsupported} unsupported");
    if passed > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cases_below(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if folder.join("model.onnx").is_file() {
        found.push(folder.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            cases_below(&path, found)?;
        }
    }
    Ok(())
}
