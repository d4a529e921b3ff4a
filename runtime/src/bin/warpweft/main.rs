//! The command line: arguments become library calls, and nothing else happens here.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod bench;
mod cache;
mod callers;
mod cases;
mod copies;
mod device_times;
mod devices;
mod files;
mod functions;
mod gpu_cases;
mod growth;
mod inspect;
mod inspect_opts;
mod inspect_region;
mod layer_cases;
mod minilm;
mod model;
mod onnx;
mod regions;
mod starts;
mod tune;
mod view;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use warpweft::config::{PREFIX, VARIABLES, config, tell_ignored};

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
    /// Record what a graph or a program becomes and does: a trace for Perfetto, and a page to look at.
    View(view::View),
    /// List the tensors of files of weights: safetensors, npy, npz, gguf, pt.
    Files(files::Files),
    /// Run a model of the ONNX format, and print its outputs' shapes and what calls take.
    Onnx(onnx::Onnx),
    /// What `bench encoder_cold` and `encoder_warm` start: the encoder, once.
    #[command(hide = true)]
    EncoderStart(starts::Sizes),
    /// What `DEBUG` tells at each level, and what the columns of its lines mean.
    #[command(long_about = debug_help())]
    Debug,
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

/// What each level tells, and what the columns of its lines mean.
fn debug_help() -> &'static str {
    "\
DEBUG=1 to 7 tells on stderr what the library does, in any program that has no tracing subscriber of its own. Each level tells all that
those below it tell:

  1  devices opened, programs scheduled, kernels made, files read
  2  each launch, timed
  3  what was fused or not, how loops were laid out, and why
  4  the source of each new kernel
  5  its tensor graph
  6  its micro-ops
  7  its instructions

A program, scheduled (level 1; of one kernel from level 3 on):

  scheduled     2 kernels in     0.31 ms | CACHE MISS 8c2f01aa | 120 uops in memory
                |                |         |          |          nodes of graphs that are alive in this process
                |                |         |          the first digits of the program's hash: the same program has the same
                |                |         `CACHE MISS`: scheduled now; `cache hit`: its plan was in memory; `from disk`
                |                what scheduling took
                its kernels

Kernels that were not in memory (level 1):

  made          2 kernels in    31.20 ms | 1 from disk, 1 compiled

A tensor of a file that was read, because something uses it (level 1):

  read       1.18 MB      in     0.61 ms | DISK to CPU: model.safetensors at byte 4872
             |                   |                       where in the file
             |                   what reading and copying it took
             its bytes

A launch (level 2):

  *** CPU      3 r_64_256    arg   3 mem   0.01 GB tm     10.50us/     0.03ms (  190.5 GFLOPS    1.1|381.0  GB/s)
      |        | |           |       |             |            |             |                  |   |
      |        | |           |       |             |            |             |                  |   bytes that its loads and
      |        | |           |       |             |            |             |                  |   stores name, each time they run
      |        | |           |       |             |            |             |                  bytes of its memory, each once
      |        | |           |       |             |            |             operations on floats a second, in 10^9
      |        | |           |       |             |            all launches of this process so far
      |        | |           |       |             this launch
      |        | |           |       memory of tensors that is in use
      |        | |           pieces of memory that it is given
      |        | its name: `r` reduces, `e` does not; the lengths of its loops
      |        number of the launch
      device

  ... GB/s) softmax at src/main.rs:12
            the call of the program that asked for what the kernel stores: its op, and the caller's line

PROFILE=1 prints the totals of each kernel when a program ends, whichever it is; PROFILE=FILE.json writes a trace and a page to look at (`warpweft view`).
`warpweft inspect FILE` shows one program at any stage."
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
    warpweft::debug::end_with_the_reader();
    warpweft::debug::show_progress(show_progress);
    warpweft::debug::install(config().debug);
    tell_ignored();
    let result = match Arguments::parse().command {
        Command::Devices => devices::run(),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::View(arguments) => view::run(&arguments),
        Command::Files(arguments) => files::run(&arguments),
        Command::Onnx(arguments) => onnx::run(&arguments),
        Command::Debug => {
            println!("{}", debug_help());
            Ok(())
        }
        Command::EncoderStart(sizes) => starts::child(sizes),
        Command::Cache(arguments) => cache::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warpweft: {error}");
            ExitCode::FAILURE
        }
    }
}
