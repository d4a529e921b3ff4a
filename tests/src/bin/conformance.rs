//! `conformance KIND FILE.json [--device NAME] [--filter TEXT] [--assemble sm_80,sm_90]`: runs a file of cases, plain or compressed (`.json.gz`), and prints which
//! did not pass.
//!
//! Exit code 0 if some passed, none failed and none is unsupported; 1 if not; 2 if the file could not be read.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use warpweft_tests::assembled::{Collected, assemble};
use warpweft_tests::assembler::PTXAS;
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
    /// With `--device PTX`: architectures for which ptxas assembles each kernel, separated by commas. One that is not accepted or spills is a failure. Kernels that are kept on disk
    /// are not made, so set CACHELEVEL=0.
    #[arg(long, value_delimiter = ',')]
    assemble: Vec<String>,
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
    let collected = match (arguments.assemble.is_empty(), &*PTXAS) {
        (true, _) => None,
        (false, None) => {
            eprintln!("there is no ptxas: `./x setup --ptxas`");
            return ExitCode::from(2);
        }
        (false, Some(ptxas)) => Collected::listen().ok().map(|collected| (collected, ptxas)),
    };
    let report = run(&arguments, &cases);
    println!("{report}");
    let is_accepted = collected.is_none_or(|(collected, ptxas)| {
        let texts = collected.texts();
        let architectures: Vec<&str> = arguments.assemble.iter().map(String::as_str).collect();
        let wrong = assemble(ptxas, &texts, &architectures);
        wrong.iter().for_each(|line| println!("{line}"));
        println!("{} kernels for {}: {} refused or spilled", texts.len(), architectures.join(", "), wrong.len());
        wrong.is_empty() && !texts.is_empty()
    });
    if report.is_clean() && is_accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
