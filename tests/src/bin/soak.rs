//! `soak [MINUTES] [--seed N] [--only KIND,KIND]`: random programs of all kinds against all oracles, on all cores, until the time is over.
//!
//! `soak --seed N --kind KIND --program NUMBER` runs one program again, and reduces it if it fails.
//!
//! Exit code 0 if nothing differed, 1 if something did, 2 if the arguments make no sense.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use warpweft_tests::soak::parent::{self, Counts, Plan};
use warpweft_tests::soak::worker::{self, Task};
use warpweft_tests::soak::{KINDS, kind};

/// Random programs against all oracles, until the time is over.
#[derive(Parser)]
struct Arguments {
    /// For how long.
    #[arg(default_value_t = 10.0)]
    minutes: f64,
    /// The seed of all programs: the same seed, kind and number are the same program.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these kinds, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Processes; all cores if it is not given.
    #[arg(long)]
    workers: Option<u64>,
    /// The kind of one program.
    #[arg(long, requires = "program")]
    kind: Option<String>,
    /// The number of one program.
    #[arg(long, requires = "kind")]
    program: Option<u64>,
    /// Where failures are saved.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A process of a soak says which it is, of how many.
    #[arg(long, hide = true)]
    worker: Option<String>,
    #[arg(long, hide = true)]
    seconds: Option<f64>,
    #[arg(long, hide = true, value_delimiter = ',')]
    next: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Panics of programs are failures that are told of, and need no text of their own.
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = match (&arguments.worker, &arguments.kind, arguments.program) {
        (Some(worker), ..) => work(&arguments, worker),
        (None, Some(kind), Some(program)) => repeat(&arguments, kind, program),
        _ => soak(&arguments),
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("soak: {why}");
        ExitCode::from(2)
    })
}

fn folder(arguments: &Arguments) -> PathBuf {
    arguments.folder.clone().unwrap_or_else(|| PathBuf::from(format!("target/soak/failures-{}", arguments.seed)))
}

fn number_of(name: &str) -> Result<usize, String> {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    kind(name)
        .map(|(number, _)| number)
        .ok_or_else(|| format!("there is no kind `{name}`; there are {}", names.join(", ")))
}

fn work(arguments: &Arguments, worker: &str) -> Result<ExitCode, String> {
    let (number, of) = worker.split_once('/').ok_or("a worker says which it is, as 0/2")?;
    let count = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let kinds = arguments.next.iter().map(|next| {
        let (name, first) = next.split_once('=').unwrap_or((next, "0"));
        Ok((number_of(name)?, count(first)?))
    });
    let task = Task {
        seed: arguments.seed,
        worker: (count(number)?, count(of)?),
        time: Duration::from_secs_f64(arguments.seconds.unwrap_or(60.0)),
        kinds: kinds.collect::<Result<_, String>>()?,
        folder: folder(arguments),
    };
    worker::run(&task, &mut std::io::stdout()).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn repeat(arguments: &Arguments, name: &str, program: u64) -> Result<ExitCode, String> {
    let kind = &KINDS[number_of(name)?];
    let bytes = kind.bytes_of(arguments.seed, program);
    match kind.check(program, &bytes) {
        Ok(()) => {
            println!("program {program} of {name} is right");
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            println!("{why}\n\nreducing it ...");
            println!("{}", kind.reduced(program, &bytes, Duration::from_secs(60), &mut || {}));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn soak(arguments: &Arguments) -> Result<ExitCode, String> {
    let kinds = match arguments.only.is_empty() {
        true => (0..KINDS.len()).collect(),
        false => arguments.only.iter().map(|name| number_of(name)).collect::<Result<Vec<_>, String>>()?,
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let plan = Plan {
        seed: arguments.seed,
        time: Duration::from_secs_f64((arguments.minutes * 60.0).max(0.0)),
        workers: arguments.workers.unwrap_or(cores).max(1),
        kinds,
        folder: folder(arguments),
    };
    // Failures of an earlier run of this seed would stand beside those of this.
    let _ = std::fs::remove_dir_all(&plan.folder);
    let mut progress = Progress::new(plan.time);
    let counts = parent::run(&plan, &mut |counts, elapsed| progress.tell(counts, elapsed));
    progress.end();
    let counts = counts.map_err(|error| error.to_string())?;
    Ok(report(&plan, &counts))
}

/// A line that says how far it is: redrawn on a terminal, else a new one now and then.
struct Progress {
    bar: Option<ProgressBar>,
    time: Duration,
    told: Instant,
}

impl Progress {
    fn new(time: Duration) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {elapsed} of {prefix}: {msg}");
            let bar = ProgressBar::new(time.as_secs()).with_prefix(format!("{}s", time.as_secs()));
            if let Ok(style) = style { bar.with_style(style) } else { bar }
        });
        Progress { bar, time, told: Instant::now() }
    }

    fn tell(&mut self, counts: &Counts, elapsed: Duration) {
        let tried: u64 = counts.values().map(|count| count.tried).sum();
        let failed: u64 = counts.values().map(|count| count.failed).sum();
        let text = format!("{tried} programs, {failed} differ");
        match &self.bar {
            Some(bar) => {
                bar.set_position(elapsed.as_secs().min(self.time.as_secs()));
                bar.set_message(text);
            }
            None if self.told.elapsed() > Duration::from_secs(30) => {
                self.told = Instant::now();
                eprintln!("{}s of {}s: {text}", elapsed.as_secs(), self.time.as_secs());
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn report(plan: &Plan, counts: &Counts) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{:<22} {:>10} {:>8} {:>9} {:>10}", "kind", "programs", "differ", "seconds", "a second");
    let (mut tried, mut failed) = (0, 0);
    for (name, count) in counts {
        let seconds = count.spent.as_secs_f64();
        let rate = count.tried as f64 / seconds.max(1e-9);
        let _ = writeln!(out, "{name:<22} {:>10} {:>8} {seconds:>9.1} {rate:>10.0}", count.tried, count.failed);
        tried += count.tried;
        failed += count.failed;
    }
    let _ = writeln!(out, "{tried} programs of seed {}, {failed} differ", plan.seed);
    if failed == 0 && tried > 0 {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(out, "what differs lies in {}", plan.folder.display());
    ExitCode::FAILURE
}
