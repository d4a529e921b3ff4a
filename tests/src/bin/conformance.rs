//! `conformance KIND FILE.json [--device NAME] [--filter TEXT]`: runs a file of cases, plain or compressed (`.json.gz`), and prints which
//! did not pass.
//!
//! Exit code 0 if some passed, none failed and none is unsupported; 1 if not; 2 if the file could not be read.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use warpweft_tests::conformance::{self, Report};

/// Runs a file of conformance cases and prints which did not pass.
#[derive(Parser)]
struct Arguments {
    /// What the file holds.
    kind: Kind,
    /// The cases: JSON, or JSON compressed by gzip if the name ends in `.gz`.
    file: PathBuf,
    /// The device that computes values; kinds without values ignore it.
    #[arg(long)]
    device: Option<String>,
    /// Only cases whose id holds this text.
    #[arg(long)]
    filter: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Alias,
    Fusion,
    Inplace,
    Ops,
    Symbolic,
    Views,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases = match conformance::corpus::read(&arguments.file) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let report = run(&arguments, &cases);
    println!("{report}");
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The kinds of files and the modules that read them.
fn run(arguments: &Arguments, cases: &serde_json::Value) -> Report {
    let filter = arguments.filter.as_deref();
    match arguments.kind {
        Kind::Alias => conformance::alias::run(cases, filter),
        Kind::Fusion => conformance::fusion::run(cases, filter, arguments.device.as_deref()),
        Kind::Inplace => conformance::inplace::run(cases, filter),
        Kind::Ops => conformance::ops::run(cases, filter, arguments.device.as_deref()),
        Kind::Views => conformance::views::run(cases, filter, arguments.device.as_deref()),
        Kind::Symbolic => conformance::symbolic::run(cases, filter),
    }
}
