//! `mutants [--only NAME,NAME] [--first NAME,NAME] [--list]`: plants each fault of `tests/mutants` in a copy of the project, and says which the tests do not notice.
//!
//! Exit code 0 if all are noticed or shown to be equivalent, 1 if one survives, 2 if it cannot be found out.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use warpweft_tests::mutants::judge::{Outcome, judge};
use warpweft_tests::mutants::list::{self, Fault};
use warpweft_tests::mutants::plant::plant;
use warpweft_tests::mutants::suite::{Suite, baseline, build, in_order_of};

/// Plants small faults and says which the tests do not notice.
#[derive(Parser)]
struct Arguments {
    /// Only faults whose names hold one of these texts, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Faults whose names hold one of these texts before the others: those of what was just changed.
    #[arg(long, value_delimiter = ',')]
    first: Vec<String>,
    /// Print the names of the faults.
    #[arg(long)]
    list: bool,
    /// Where the copy and its build go.
    #[arg(long, default_value = "target/mutants")]
    folder: PathBuf,
    /// How many tests run at once; one for each core unless said.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("mutants: {why}");
            ExitCode::from(2)
        }
    }
}

/// How many survive.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let root = std::env::current_dir().map_err(|error| error.to_string())?;
    let mut faults = list::read(&root.join("tests/mutants"))?;
    faults.retain(|fault| arguments.only.is_empty() || arguments.only.iter().any(|name| fault.name.contains(name)));
    if arguments.list {
        faults.iter().for_each(|fault| println!("{} ({})", fault.name, fault.file));
        return Ok(0);
    }
    if faults.is_empty() {
        return Err("there is no such fault".to_string());
    }
    std::fs::create_dir_all(&arguments.folder).map_err(|error| error.to_string())?;
    let folder = arguments.folder.canonicalize().map_err(|error| error.to_string())?;
    // A build folder of its own: packages of the copy have the names of the project's.
    let (tree, target) = (folder.join("tree"), folder.join("build"));
    let started = Instant::now();
    plant(&root, &tree, &faults, None)?;
    eprintln!("building the tests with {} faults as switches", faults.len());
    let binaries = build(&tree, &target)?;
    eprintln!("built in {:.0} s; running each test without a fault", started.elapsed().as_secs_f64());
    let suite = baseline(binaries, &folder, arguments.jobs)?;
    eprintln!("all {} pass after {:.0} s", suite.tests.len(), started.elapsed().as_secs_f64());
    let mut survivors = 0;
    let mut switches: Vec<(usize, &Fault)> = faults.iter().enumerate().filter(|(_, fault)| !fault.alone).collect();
    let is_first = |fault: &Fault| arguments.first.iter().any(|name| fault.name.contains(name));
    // Those that nothing can notice take longest, so they come last.
    switches.sort_by_key(|(_, fault)| (fault.equivalent.is_some(), !is_first(fault)));
    for (number, fault) in switches {
        let began = Instant::now();
        survivors += tell(fault, &judge(fault, Some(number), &suite, &folder, arguments.jobs), began);
    }
    for fault in faults.iter().filter(|fault| fault.alone) {
        let began = Instant::now();
        survivors += tell(fault, &built_alone(&root, &tree, &target, fault, &suite, &folder, arguments.jobs)?, began);
    }
    println!("{} faults, {survivors} survive, {:.0} s", faults.len(), started.elapsed().as_secs_f64());
    Ok(survivors)
}

#[allow(clippy::too_many_arguments, reason = "folders and a number")]
fn built_alone(
    root: &Path,
    tree: &Path,
    target: &Path,
    fault: &Fault,
    known: &Suite,
    folder: &Path,
    jobs: usize,
) -> Result<Outcome, String> {
    plant(root, tree, &[], Some(fault))?;
    let built = build(tree, target).map_err(|why| format!("{}: {why}", fault.name))?;
    let binaries = in_order_of(&known.binaries, built).map_err(|why| format!("{}: {why}", fault.name))?;
    Ok(judge(fault, None, &Suite { binaries, tests: known.tests.clone() }, folder, jobs))
}

/// Prints what became of a fault; 1 if it survives and is not shown to be equivalent.
fn tell(fault: &Fault, outcome: &Outcome, began: Instant) -> usize {
    let seconds = began.elapsed().as_secs_f64();
    let (text, survives) = match (outcome, &fault.equivalent) {
        (Outcome::Noticed(test), None) => (format!("noticed by {test}"), 0),
        (Outcome::Noticed(test), Some(_)) => (format!("noticed by {test}, but said to be EQUIVALENT"), 1),
        (_, Some(reason)) => (format!("equivalent: {reason}"), 0),
        (Outcome::Survived, None) => ("SURVIVED".to_string(), 1),
        (Outcome::NotReached, None) => ("SURVIVED: no test reaches it".to_string(), 1),
    };
    println!("{:<44} {seconds:>6.1} s  {text}", fault.name);
    survives
}
