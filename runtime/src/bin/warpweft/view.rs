//! `warpweft view FILE.uop | TRACE.json | PROGRAM ...`: a trace for Perfetto, and a page that shows graph, kernels and memory.
//!
//! A graph in text form is run here, on random inputs. A program runs by itself with `PROFILE`, so any program that the library is part of will do. A trace that was
//! written before becomes a page again.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use indicatif::ProgressBar;
use rustc_hash::FxHashMap;
use warpweft::debug::{record, trace};
use warpweft::execute::Executor;
use warpweft_compiler::dtype::{Elements, Scalar};
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::ir::{Arg, Op, UOp, postorder, substitute};

/// What `--help` ends with.
const EXAMPLE: &str = "\
Two files are written: NAME.json, which https://ui.perfetto.dev and chrome://tracing open (schedule, lower, compile, load, kernel, by thread), and
NAME.html, one page that needs nothing else: the tensor graph, the kernel of each node and why, its loops, micro-ops, IR and machine code, its time
beside what the machine can do, and the memory plan over time. A click leads from a node to its kernel to its line.

  warpweft view rows.uop                          a graph in text form, on random inputs
  warpweft view target/release/examples/digits    any program; what follows are its arguments
  warpweft view warpweft.json                     the page of a trace that was written before
  PROFILE=digits.json ./digits                    the same without this command, and without the machine's ceilings";

/// Arguments of `warpweft view`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct View {
    /// The trace that is written; the page goes beside it.
    #[arg(long, default_value = "warpweft.json")]
    out: PathBuf,
    /// How often a graph is run.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Do not measure what the machine can do, which takes a second.
    #[arg(long)]
    no_ceilings: bool,
    /// A graph (.uop), a trace (.json), or a program with its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    what: Vec<String>,
}

/// Writes trace and page, and says where.
pub(crate) fn run(arguments: &View) -> Result<(), Box<dyn Error>> {
    let what = &arguments.what[0];
    if what.ends_with(".json") {
        let json = std::fs::read_to_string(what).map_err(|error| format!("{what}: {error}"))?;
        if !json.contains("\"warpweft\":") {
            return Err(format!("{what}: is no trace of warpweft: it has no part of that name").into());
        }
        let page = trace::page_beside(Path::new(what));
        std::fs::write(&page, trace::page(&json)).map_err(|error| format!("{}: {error}", page.display()))?;
        println!("{}", page.display());
        return Ok(());
    }
    if arguments.out.extension().is_none_or(|extension| extension != "json") {
        return Err(format!("--out {}: a trace is named NAME.json", arguments.out.display()).into());
    }
    if what.ends_with(".uop") {
        graph(arguments, Path::new(what))?
    } else {
        program(arguments, what)?
    }
    println!("{}\n{}", arguments.out.display(), trace::page_beside(&arguments.out).display());
    Ok(())
}

/// Runs a graph in text form, recorded.
fn graph(arguments: &View, file: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let graph = parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let executor = warpweft::registry::executor(None)?;
    let values: Vec<UOp> = graph.roots.iter().flat_map(values_of).collect();
    let shown = ProgressBar::new_spinner().with_message("running");
    record::start();
    for _ in 0..arguments.runs.max(1) {
        // Other inputs each time: what was computed of the same ones is known.
        let inputs = inputs(&executor, &values)?;
        executor.realize(&values.iter().map(|value| substitute(value, &inputs)).collect::<Vec<UOp>>())?;
        shown.inc(1);
    }
    let recording = record::finish().ok_or("the recording was ended by somebody else")?;
    shown.finish_and_clear();
    let ceilings = ceilings(arguments, executor.threads());
    trace::write(&recording, ceilings, &arguments.out)
        .map_err(|error| format!("{}: {error}", arguments.out.display()).into())
}

/// The values of a root: of a kernel what it stores.
fn values_of(root: &UOp) -> Vec<UOp> {
    let stored = |node: &UOp| if node.op() == Op::Store { node.src()[1].clone() } else { node.clone() };
    if root.op() == Op::Sink { root.src().iter().map(stored).collect() } else { vec![root.clone()] }
}

/// Memory for each param: floats between -1 and 1, and small numbers.
fn inputs(executor: &Executor, values: &[UOp]) -> Result<FxHashMap<UOp, UOp>, Box<dyn Error>> {
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / f64::from(1u32 << 24)
    };
    let mut inputs = FxHashMap::default();
    for node in postorder(values) {
        match node.arg() {
            Arg::Variable(variable) => {
                inputs.insert(node.clone(), node.bind(variable.max));
            }
            Arg::Param(param) => {
                let numbers = (0..param.len).map(|_| match node.dtype().is_float() {
                    true => Scalar::from_f64(next() * 2.0 - 1.0, node.dtype()),
                    false => Scalar::from_f64((next() * 2.0).floor(), node.dtype()),
                });
                let elements = Elements::from_scalars(node.dtype(), &numbers.collect::<Vec<Scalar>>());
                let bytes = elements.map(|elements| elements.to_bytes()).unwrap_or_default();
                inputs.insert(node.clone(), executor.from_bytes(node.dtype(), param.len, &bytes)?);
            }
            _ => {}
        }
    }
    Ok(inputs)
}

/// Runs a program, which records itself, and adds the ceilings to what it wrote.
fn program(arguments: &View, name: &str) -> Result<(), Box<dyn Error>> {
    // Else one of an earlier run would be shown.
    match std::fs::remove_file(&arguments.out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", arguments.out.display()).into());
        }
        _ => {}
    }
    let out = std::path::absolute(&arguments.out)?;
    let status = Command::new(name).args(&arguments.what[1..]).env("WARPWEFT_PROFILE", &out).status();
    let status = status.map_err(|error| format!("{name}: {error}"))?;
    let Ok(json) = std::fs::read_to_string(&out) else {
        return Err(
            format!("{name} wrote no trace ({status}): does it compute with warpweft, and end by itself?").into()
        );
    };
    if !status.success() {
        eprintln!("warpweft: {name}: {status}; what it did until then is shown");
    }
    if let Some(ceilings) = ceilings(arguments, warpweft::registry::executor(None)?.threads()) {
        let json = trace::with_roofline(&json, ceilings);
        std::fs::write(&out, &json)?;
        std::fs::write(trace::page_beside(&out), trace::page(&json))?;
    }
    Ok(())
}

#[cfg(any(feature = "llvm-loaded", feature = "llvm-linked"))]
fn ceilings(arguments: &View, threads: usize) -> Option<trace::Roofline> {
    if arguments.no_ceilings || warpweft::config::config().device != "CPU" {
        return None;
    }
    let measured = warpweft_devices::cpu::ceilings::measure(threads).ok()?;
    // Kernels read more than they write, and reading is the faster.
    Some(trace::Roofline { operations: measured.fma_operations, bytes: measured.read_bytes.max(measured.copy_bytes) })
}

#[cfg(not(any(feature = "llvm-loaded", feature = "llvm-linked")))]
fn ceilings(_: &View, _: usize) -> Option<trace::Roofline> {
    None
}
