//! `warpweft tune FILE.uop | --case NAME`: searches for faster kernels, and prints what was tried.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use warpweft::execute::{ExecuteError, Executor};
use warpweft::search::{Budget, Found, Outcome, Progress, Trial, launches_of, try_lists};
use warpweft_compiler::UOp;
use warpweft_compiler::ir::Op;
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::optimize::text::{OptTextError, parse_list};
use warpweft_compiler::optimize::{Opt, Opts};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Language;

use crate::bench::duration;
use crate::cases;

/// What `--help` ends with.
const EXAMPLE: &str = "\
Lists of opts are tried on this machine, beginning with the choice by hand; each is checked against the unoptimised kernel. What is found
is kept in the cache's folder: programs use it with BEAM=n, for n up to the width of the search.

  warpweft tune --case matmul_1024                     at most 30 seconds for each kernel
  warpweft tune program.uop --width 8 --budget 120     a wider and longer search
  warpweft tune program.uop --total 60                 a minute for all kernels, most for those that take most of the time
  warpweft tune kernel.uop --opts \"...\"                what lists are worth, beside the choice by hand
  warpweft inspect kernel.uop --opts \"...\"             what a list does to the loops, and what it compiles to (--stage assembly)";

/// Arguments of `warpweft tune`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Tune {
    /// The graph: values to compute, or a sink of stores (one kernel).
    #[arg(required_unless_present = "case")]
    file: Option<PathBuf>,
    /// A case of `warpweft bench` in place of a file.
    #[arg(long, conflicts_with = "file")]
    case: Option<String>,
    /// Lists that each round goes on from.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    width: u32,
    /// Seconds that the search for one kernel may take.
    #[arg(long, default_value_t = 30.0)]
    budget: f64,
    /// Seconds for the whole program, in place of a budget for each kernel: kernels get shares by the time that the program spends in them.
    #[arg(long, conflicts_with_all = ["budget", "kernel", "width", "rows"])]
    total: Option<f64>,
    /// The kernel to tune, by its number, where the program becomes several; all if not given.
    #[arg(long)]
    kernel: Option<usize>,
    /// A list of opts to time beside the choice by hand, in place of a search; may be given several times.
    #[arg(long, conflicts_with = "total", value_parser = parse_list_of_opts)]
    opts: Vec<ListOfOpts>,
    /// How many of the lists that were tried are printed, the fastest first.
    #[arg(long, default_value_t = 15)]
    rows: usize,
    /// The device; the one that DEV names if not given.
    #[arg(long)]
    device: Option<String>,
    /// Print a JSON line for each kernel.
    #[arg(long)]
    json: bool,
}

/// Opts as one argument of the command line.
#[derive(Clone)]
struct ListOfOpts(Vec<Opt>);

fn parse_list_of_opts(text: &str) -> Result<ListOfOpts, OptTextError> {
    parse_list(text).map(ListOfOpts)
}

/// Searches for each kernel of the program.
pub(crate) fn run(arguments: &Tune) -> Result<(), Box<dyn Error>> {
    let executor = warpweft::registry::executor(arguments.device.as_deref())?;
    if executor.device().target().language == Language::Text {
        return Err(
            format!("{} runs kernels as they are: there are no opts to search for", executor.device().name()).into()
        );
    }
    let time = Duration::try_from_secs_f64(arguments.budget).map_err(|error| format!("--budget: {error}"))?;
    let kernels = match (&arguments.file, &arguments.case) {
        (Some(file), _) => kernels_of_file(file, &executor)?,
        (None, Some(case)) => kernels_of(&[cases::value(case, arguments.device.as_deref())?], &executor)?,
        (None, None) => return Err("a file or --case NAME says what to tune".into()),
    };
    if let Some(total) = arguments.total {
        return tune_all(arguments, total, &kernels, &executor);
    }
    if let Some(number) = arguments.kernel.filter(|number| *number >= kernels.len()) {
        return Err(
            format!("there is no kernel {number}; the program becomes {}, the first is 0", kernels.len()).into()
        );
    }
    for (number, (ast, _)) in kernels.iter().enumerate() {
        if arguments.kernel.is_some_and(|chosen| chosen != number) {
            continue;
        }
        let bar = ProgressBar::new(time.as_millis() as u64).with_style(style(&format!("kernel {number}")));
        let budget = Budget { width: arguments.width as usize, time };
        let mut told = |progress| show(&bar, "", Duration::ZERO, progress);
        let lists: Vec<Vec<Opt>> = arguments.opts.iter().map(|list| list.0.clone()).collect();
        let found = match lists.as_slice() {
            [] => executor.search(ast, budget, &mut told),
            lists => try_lists(&executor, ast, lists, budget, &mut told),
        };
        bar.finish_and_clear();
        print(arguments, number, &found?);
    }
    Ok(())
}

/// Searches for all kernels of a program in so many seconds, and prints a table of them.
fn tune_all(arguments: &Tune, total: f64, kernels: &[(UOp, usize)], executor: &Executor) -> Result<(), Box<dyn Error>> {
    let time = Duration::try_from_secs_f64(total).map_err(|error| format!("--total: {error}"))?;
    let bar = ProgressBar::new(time.as_millis() as u64).with_style(style("tuning"));
    let mut finished = Duration::ZERO;
    let mut kernel = 0;
    let tuning = executor.tune_kernels(kernels, time, &mut |progress| {
        if progress.kernel != kernel {
            (kernel, finished) = (progress.kernel, Duration::from_millis(bar.position()));
        }
        show(&bar, &format!("kernel {} of {}: ", kernel + 1, progress.kernels), finished, progress.search);
    });
    bar.finish_and_clear();
    let tuning = tuning?;
    if !arguments.json {
        println!("{tuning}");
        return Ok(());
    }
    for kernel in &tuning.kernels {
        let line = serde_json::json!({
            "kernel": kernel.name, "launches": kernel.launches, "seconds": kernel.seconds, "by_hand_seconds": kernel.by_hand_seconds,
            "opts": Opts::List(kernel.opts.clone()).to_string(), "tried": kernel.tried,
        });
        println!("{line}");
    }
    Ok(())
}

/// The kernels of a file with the number of their launches.
fn kernels_of_file(file: &Path, executor: &Executor) -> Result<Vec<(UOp, usize)>, Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    let graph = parse(&text).map_err(|error| named(&error))?;
    let is_kernel = |root: &UOp| root.op() == Op::Sink && root.src().iter().all(|store| store.op() == Op::Store);
    if graph.roots.iter().all(is_kernel) {
        return Ok(graph.roots.into_iter().map(|root| (root, 1)).collect());
    }
    let values = graph
        .roots
        .iter()
        .flat_map(|root| if root.op() == Op::Sink { root.src().to_vec() } else { vec![root.clone()] });
    kernels_of(&values.collect::<Vec<_>>(), executor)
}

/// The kernels that values become, with the number of their launches.
fn kernels_of(values: &[UOp], executor: &Executor) -> Result<Vec<(UOp, usize)>, Box<dyn Error>> {
    let normalized = normalize(values, |_| None).map_err(ExecuteError::from)?;
    let options = ScheduleOptions { costs: executor.device().target().costs, ..ScheduleOptions::default() };
    let schedule =
        schedule_with(&normalized.sink, options, &mut warpweft_compiler::watch::Silent).map_err(ExecuteError::from)?;
    Ok(launches_of(&schedule))
}

fn style(what: &str) -> ProgressStyle {
    let template = format!("{what} {{bar:28}} {{msg}}");
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn show(bar: &ProgressBar, which: &str, before: Duration, progress: Progress) {
    bar.set_position((before + progress.elapsed).as_millis() as u64);
    let (best, gain) = (duration(progress.best), progress.by_hand / progress.best);
    bar.set_message(format!("{which}{} tried, best {best}, {gain:.2} of the hand choice's speed", progress.tried));
}

fn print(arguments: &Tune, number: usize, found: &Found) {
    let text = |opts: &[Opt]| Opts::List(opts.to_vec()).to_string();
    if arguments.json {
        let line = serde_json::json!({
            "kernel": number, "seconds": found.seconds, "by_hand_seconds": found.by_hand_seconds, "opts": text(&found.opts),
            "by_hand": text(&found.by_hand), "tried": found.tried.len(), "considered": found.considered,
            "checked_against": found.checked_against, "elapsed_seconds": found.elapsed.as_secs_f64(),
        });
        println!("{line}");
        return;
    }
    println!(
        "kernel {number}: {} by hand, {} found ({:.2} times as fast); {} lists tried of {} thought of, in {:.1} s; checked against {}",
        duration(found.by_hand_seconds),
        duration(found.seconds),
        found.by_hand_seconds / found.seconds,
        found.tried.len(),
        found.considered,
        found.elapsed.as_secs_f64(),
        found.checked_against,
    );
    println!("  by hand  {}", text(&found.by_hand));
    println!("  found    {}", text(&found.opts));
    let mut tried: Vec<&Trial> = found.tried.iter().collect();
    let seconds = |trial: &Trial| if let Outcome::Ran(seconds) = trial.outcome { seconds } else { f64::INFINITY };
    tried.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    println!("       time   predicted  opts");
    for trial in tried.into_iter().take(arguments.rows) {
        let time = match &trial.outcome {
            Outcome::Ran(seconds) => duration(*seconds),
            Outcome::Failed(_) => "failed".to_string(),
            Outcome::Wrong(_) => "WRONG".to_string(),
        };
        println!("{time:>11} {:>11}  {}", duration(trial.predicted), text(&trial.opts));
        if let Outcome::Failed(why) | Outcome::Wrong(why) = &trial.outcome {
            println!("            {why}");
        }
    }
}
