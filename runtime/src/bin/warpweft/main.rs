//! The command line: arguments become library calls, and nothing else happens here.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod bench;
mod cache;
mod callers;
mod cases;
mod devices;
mod functions;
mod growth;
mod inspect;
mod inspect_opts;
mod inspect_region;
mod regions;
mod starts;
mod tune;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use warpweft::config::{PREFIX, VARIABLES, config, ignored};

/// Warpweft, a tensor compiler: look at what it makes, and measure it.
#[derive(Parser)]
#[command(name = "warpweft", version, after_help = environment_help())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the devices, and what the compiler knows of each.
    Devices,
    /// Read a graph in text form and print what it becomes at any stage.
    Inspect(inspect::Inspect),
    /// Time named programs, a line each.
    Bench(bench::Bench),
    /// Search for faster kernels, by trying lists of opts on this machine.
    Tune(tune::Tune),
    /// What `bench encoder_cold` and `encoder_warm` start: the encoder, once.
    #[command(hide = true)]
    EncoderStart(starts::Sizes),
    /// What is kept on disk between runs: where, how much, how often it was used; `clear` and `prune` remove it.
    Cache(cache::Cache),
}

fn environment_help() -> String {
    let mut text = format!("Environment, each also as {PREFIX}NAME:\n");
    for variable in VARIABLES {
        text.push_str(&format!("  {:<18}{} [default: {}]\n", variable.name, variable.meaning, variable.default));
    }
    text
}

/// A bar on stderr, if that is a terminal, for as long as kernels are made.
fn show_progress(made: usize, of: usize) {
    static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);
    let mut bar = BAR.lock().unwrap_or_else(PoisonError::into_inner);
    let style = ProgressStyle::with_template("compiling {bar:32} {pos}/{len} {elapsed}");
    let new = || ProgressBar::new(of as u64).with_style(style.unwrap_or(ProgressStyle::default_bar()));
    let shown = bar.get_or_insert_with(new);
    shown.set_position(made as u64);
    if made == of {
        shown.finish_and_clear();
        *bar = None;
    }
}

fn main() -> ExitCode {
    warpweft::debug::show_progress(show_progress);
    if config().debug == 0 {
        ignored().iter().for_each(|ignored| eprintln!("warpweft: {ignored}")); // else the library tells it
    }
    let result = match Arguments::parse().command {
        Command::Devices => devices::run(),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::EncoderStart(sizes) => starts::child(sizes),
        Command::Cache(arguments) => cache::run(&arguments),
    };
    profile();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warpweft: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what each kernel took, if `PROFILE` is set.
fn profile() {
    if !config().profile {
        return;
    }
    for executor in warpweft::registry::executors() {
        eprintln!("{}: total ms, launches, mean us, kernel", executor.device().name());
        for (name, total) in executor.kernel_totals() {
            let seconds = total.elapsed.as_secs_f64();
            let mean_us = seconds * 1e6 / total.launches.max(1) as f64;
            eprintln!("{:10.2} {:8} {mean_us:10.2}  {name}", seconds * 1e3, total.launches);
        }
    }
}
