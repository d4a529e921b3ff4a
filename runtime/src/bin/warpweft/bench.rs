//! `warpweft bench [CASE...]`: named programs, timed in one process, a line each.
//!
//! A time is that of all that a user waits for: building the graph, finding or making its kernels, memory, launches. The first
//! call is given apart, since it schedules and compiles. Cases, sizes and the JSON line are those of the script that times other
//! libraries, so that lines of both can be laid side by side.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use warpweft::config::config;
use warpweft::execute::Executor;
use warpweft_compiler::{DType, UOp};

use crate::device_times::{Clock, DeviceTimes};
use crate::{callers, cases, copies, functions, gpu_cases, growth, layer_cases, minilm, model, regions, starts};

/// Arguments of `warpweft bench`.
#[derive(Args)]
pub(crate) struct Bench {
    /// Cases to run; all if none is named. `--list` names them.
    cases: Vec<String>,
    /// Print a JSON line for each case.
    #[arg(long)]
    pub(crate) json: bool,
    /// The device; the one that DEV names if not given.
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// Seconds that each case is repeated for.
    #[arg(long, default_value_t = 1.5)]
    pub(crate) seconds: f64,
    /// Write the inputs and the output of each case to this folder, as files of numpy: CASE.input_0.npy, CASE.output.npy. With --device CUDA bare elements, and CASE.json. With --target its program: CASE.uop.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// A folder with `model.safetensors` of all-MiniLM-L6-v2, for the cases of that name; else they have random weights. With --target no folder.
    #[arg(long, num_args = 0..=1, default_missing_value = ".", value_name = "FOLDER")]
    pub(crate) model: Option<std::path::PathBuf>,
    /// A GPU by its architecture (sm_80, sm_90 or sm_100), with --model: what it would take for each case at least, by counting. Nothing is run or measured.
    #[arg(long, requires = "model")]
    target: Option<String>,
    /// Print the names of the cases.
    #[arg(long)]
    list: bool,
}

/// One measured case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Seconds of each call after the first.
    pub(crate) calls: Vec<f64>,
    /// Seconds of the first call.
    pub(crate) first: f64,
}

/// What a case costs at least.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Operations.
    pub(crate) flops: f64,
    /// Bytes between memory and cores.
    pub(crate) bytes: f64,
}

/// Whatever went wrong.
pub(crate) type Failure = Box<dyn Error>;

/// Cases that are no tensor programs of a fixed size.
const OWN_CASES: &[&str] = &[
    "ceilings",
    "eager_tiny",
    "replay_tiny",
    "threads_2",
    "callers_8",
    "memory",
    "encoder_cold",
    "encoder_warm",
    "fresh_chain_20",
    "fresh_chain_800",
    "fresh_chain_8000",
];

/// What names of cases end with that run one kernel for each op.
const UNFUSED: &str = "_unfused";

/// Cases once more without fusion, for comparison.
const UNFUSED_CASES: &[&str] =
    &["softmax_4096x1024_unfused", "layernorm_4096x1024_unfused", "attention_8x128x64_unfused"];

/// Runs the cases.
pub(crate) fn run(arguments: &Bench) -> Result<(), Failure> {
    let names: Vec<&str> = [
        OWN_CASES,
        copies::NAMES,
        growth::NAMES,
        regions::NAMES,
        cases::NAMES,
        layer_cases::NAMES,
        minilm::NAMES,
        UNFUSED_CASES,
    ]
    .concat();
    if arguments.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let is_of_gpus = |case: &&String| gpu_cases::names().any(|name| name == case.as_str());
    let is_known = |case: &&String| names.contains(&case.as_str()) || *case == "minilm" || is_of_gpus(case);
    if let Some(unknown) = arguments.cases.iter().find(|case| !is_known(case)) {
        return Err(format!("no case is called {unknown}; the cases are {}", names.join(", ")).into());
    }
    let is_named = |case: &String, name: &str| case == name || (case == "minilm" && minilm::NAMES.contains(&name));
    let wanted = |name: &str| arguments.cases.is_empty() || arguments.cases.iter().any(|case| is_named(case, name));
    if let Some(target) = &arguments.target {
        let mut cases = arguments.cases.clone();
        // What stands behind `--model` is a case too.
        cases.extend(
            arguments.model.iter().filter_map(|case| case.to_str().map(str::to_string)).filter(|case| case != "."),
        );
        return model::run(target, &cases, arguments.save.as_deref());
    }
    let executor = warpweft::registry::executor(arguments.device.as_deref())?;
    let clock = Clock::of(&executor)?;
    let of_gpus: Vec<&str> = gpu_cases::names().filter(|name| !names.contains(name)).collect();
    if let (None, Some(case)) = (&clock, arguments.cases.iter().find(|case| of_gpus.contains(&case.as_str()))) {
        let device = executor.device().name();
        return Err(
            format!("{case} is a case of GPUs, and {device} is none: it takes --device CUDA, or --target").into()
        );
    }
    let names = names.into_iter().chain(of_gpus.into_iter().filter(|_| clock.is_some()));
    for name in names.filter(|name| wanted(name)) {
        run_case(arguments, name, clock.as_ref())?;
    }
    Ok(())
}

/// Runs one of them, by the clock of the device if it has one, and prints its line.
fn run_case(arguments: &Bench, name: &str, clock: Option<&Clock<'_>>) -> Result<(), Failure> {
    match name {
        "ceilings" => ceilings(arguments)?,
        "eager_tiny" => report(arguments, name, Cost::default(), &eager_tiny(arguments)?),
        "replay_tiny" => report(arguments, name, Cost::default(), &functions::replay_tiny(arguments)?),
        "threads_2" => functions::threads(arguments)?,
        "callers_8" => callers::run(arguments)?,
        "memory" => functions::memory(arguments)?,
        "encoder_cold" | "encoder_warm" => starts::run(arguments, name)?,
        _ if copies::NAMES.contains(&name) => {
            let (cost, times) = copies::run(arguments, name)?;
            report(arguments, name, cost, &times);
        }
        _ if regions::NAMES.contains(&name) => {
            report(arguments, name, Cost::default(), &regions::run(name, arguments.seconds)?);
        }
        _ if minilm::NAMES.contains(&name) => {
            let (cost, times) = minilm::run(arguments, name)?;
            report(arguments, name, cost, &times);
        }
        _ if growth::NAMES.contains(&name) => {
            report(arguments, name, Cost::default(), &growth::run(arguments, name)?);
        }
        _ if name.ends_with(UNFUSED) => unfused(arguments, name)?,
        _ => match name.strip_prefix("fresh_chain_") {
            Some(len) => report(arguments, name, Cost::default(), &fresh_chain(arguments, len.parse()?)?),
            None => {
                if let Some(clock) = clock {
                    report_device(arguments, name, &clock.run(name, arguments.seconds, arguments.save.as_deref())?);
                    return Ok(());
                }
                let (cost, times) =
                    cases::run(name, arguments.device.as_deref(), arguments.seconds, arguments.save.as_deref())?;
                report(arguments, name, cost, &times);
            }
        },
    }
    Ok(())
}

/// Calls a program until the time is over: at least 5 times after the first call and three to warm up, at most 200 times.
pub(crate) fn time(seconds: f64, mut call: impl FnMut() -> Result<(), Failure>) -> Result<Times, Failure> {
    let mut once = || -> Result<f64, Failure> {
        let started = Instant::now();
        call()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let first = once()?;
    for _ in 0..3 {
        once()?;
    }
    let started = Instant::now();
    let mut calls = Vec::new();
    while calls.len() < 5 || (started.elapsed().as_secs_f64() < seconds && calls.len() < 200) {
        calls.push(once()?);
    }
    Ok(Times { calls, first })
}

/// Prints the line of a case.
pub(crate) fn report(arguments: &Bench, name: &str, cost: Cost, times: &Times) {
    let mut sorted = times.calls.clone();
    sorted.sort_by(f64::total_cmp);
    let (median, least) = (sorted[sorted.len() / 2], sorted[0]);
    if arguments.json {
        let line = serde_json::json!({
            "peer": "warpweft", "case": name, "median_s": median, "min_s": least, "first_s": times.first,
            "flops": cost.flops, "bytes": cost.bytes,
        });
        println!("{line}");
        return;
    }
    let rate = |count: f64, unit: &str| {
        if count > 0.0 { format!("{:9.1} {unit}", count / median / 1e9) } else { String::new() }
    };
    println!(
        "{name:<22} median {:>11} min {:>11} first {:>11} {} {}",
        duration(median),
        duration(least),
        duration(times.first),
        rate(cost.flops, "GFLOP/s"),
        rate(cost.bytes, "GB/s"),
    );
}

/// Prints the line of a case that a device has timed.
fn report_device(arguments: &Bench, name: &str, DeviceTimes { times, bound }: &DeviceTimes) {
    let mut sorted = times.calls.clone();
    sorted.sort_by(f64::total_cmp);
    let (median, least) = (sorted[sorted.len() / 2], sorted[0]);
    if arguments.json {
        let line = serde_json::json!({
            "peer": "warpweft", "case": name, "median_s": median, "min_s": least, "first_s": times.first, "bound_s": bound,
        });
        println!("{line}");
        return;
    }
    let of_bound = |bound: f64| format!("bound {:>11}, of bound {:6.2}", duration(bound), median / bound);
    println!(
        "{name:<22} median {:>11} min {:>11} first {:>11} {}",
        duration(median),
        duration(least),
        duration(times.first),
        bound.map_or_else(String::new, of_bound),
    );
}

/// A time with a unit that suits it.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.2} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// A case with one kernel for each op: in a process of its own, since how to schedule is a process's choice.
fn unfused(arguments: &Bench, name: &str) -> Result<(), Failure> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.env("NOFUSE", "1").args(["bench", name.trim_end_matches(UNFUSED), "--json"]);
    command.args(["--seconds", &arguments.seconds.to_string()]);
    command.args(arguments.device.iter().flat_map(|device| ["--device", device]));
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |field: &str| told[field].as_f64().ok_or(format!("{name} told no {field}"));
    // The median of the least, the median and the median is the median.
    let (least, median) = (number("min_s")?, number("median_s")?);
    let times = Times { calls: vec![least, median, median], first: number("first_s")? };
    report(arguments, name, Cost { flops: number("flops")?, bytes: number("bytes")? }, &times);
    Ok(())
}

fn ceilings(arguments: &Bench) -> Result<(), Failure> {
    let executor = warpweft::registry::executor(arguments.device.as_deref())?;
    let device = executor.device();
    if device.name() != "CPU" {
        println!("ceilings: {} has none", device.name());
        return Ok(());
    }
    print_ceilings(arguments, executor.threads())
}

#[cfg(not(all(any(feature = "llvm-loaded", feature = "llvm-linked"), target_arch = "x86_64", unix)))]
fn print_ceilings(_arguments: &Bench, _threads: usize) -> Result<(), Failure> {
    Err("there is no CPU device in this build".into())
}

#[cfg(all(any(feature = "llvm-loaded", feature = "llvm-linked"), target_arch = "x86_64", unix))]
fn print_ceilings(arguments: &Bench, threads: usize) -> Result<(), Failure> {
    let ceilings = warpweft_devices::cpu::ceilings::measure(threads)?;
    if arguments.json {
        let line = serde_json::json!({
            "peer": "machine", "case": "ceilings", "copy_bytes_per_s": ceilings.copy_bytes,
            "read_bytes_per_s": ceilings.read_bytes, "fma_flops_per_s": ceilings.fma_operations,
        });
        println!("{line}");
    } else {
        println!(
            "ceilings               copy {:.1} GB/s (plain stores, read and written bytes), read {:.1} GB/s, f32 FMA {:.1} GFLOP/s",
            ceilings.copy_bytes / 1e9,
            ceilings.read_bytes / 1e9,
            ceilings.fma_operations / 1e9
        );
    }
    Ok(())
}

/// One kernel over 16 floats, computed again and again with every cache warm.
fn eager_tiny(arguments: &Bench) -> Result<Times, Failure> {
    let executor = warpweft::registry::executor(arguments.device.as_deref())?;
    let x = executor.from_bytes(DType::F32, 16, &[0; 64])?;
    // A call is too short for the clock alone: a sample is the mean of 100.
    let times = time(arguments.seconds, || {
        for _ in 0..100 {
            executor.realize(&[&x + 1])?;
        }
        Ok(())
    })?;
    Ok(Times { calls: times.calls.iter().map(|seconds| seconds / 100.0).collect(), first: times.first })
}

/// Chains of elementwise ops with constants that no process has seen: each call schedules, lowers and compiles.
fn fresh_chain(arguments: &Bench, len: usize) -> Result<Times, Failure> {
    let mut settings = config().clone();
    settings.cache_folder = None;
    let name = arguments.device.as_deref().unwrap_or(&settings.device);
    let executor = Executor::open(name, &settings)?;
    let x = executor.from_bytes(DType::F32, 1024, &[0; 4096])?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut seed = since.as_nanos() as u64 | 1;
    let mut next = || {
        // The generator of Knuth's MMIX; its high bits are good enough to choose ops and constants.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let calls = (0..5).map(|_| {
        let started = Instant::now();
        let mut value = x.clone();
        for _ in 0..len {
            let constant = UOp::float(1.0 + (next() % 1_000_003) as f64 * 1e-7, DType::F32);
            value = match next() % 5 {
                0 => &value + &constant,
                1 => &value * &constant,
                2 => value.max(&constant),
                3 => &value - &constant,
                _ => value.min(&constant) + &value,
            };
        }
        executor.realize(&[value])?;
        Ok(started.elapsed().as_secs_f64())
    });
    let calls = calls.collect::<Result<Vec<f64>, Failure>>()?;
    Ok(Times { first: calls[0], calls })
}
