//! `warpweft inspect FILE.uop --stage NAME`: a graph in text form, and what it becomes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use warpweft::execute::{ExecuteError, Executor};
use warpweft_compiler::UOp;
use warpweft_compiler::ir::Op;
use warpweft_compiler::ir::text::{Graph, parse, print};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::Opts;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::Program;
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::{Language, Target};
use warpweft_compiler::watch::{Report, Topic, Watch};
use warpweft_devices::ptxas::{self, Ptxas};

use crate::{inspect_opts, inspect_region};

/// What `--help` ends with.
const EXAMPLE: &str = "\
Opts are applied one after the other, and the loops are shown after each. An opt names ranges (r0) and loads (l0) by the numbers that are shown:

  warpweft inspect matmul.uop --opts \"vectorize(r1, 16), stage(l1, r2, r3), outermost(r1), upcast(r0, 6), thread(r1)\"
  warpweft inspect matmul.uop --opts \"vectorize(r1, 16)\" --legal-opts        what may come next
  warpweft inspect matmul.uop --opts \"by hand\"                             what the compiler itself chooses
  warpweft inspect matmul.uop --opts \"vectorize(r1, 16)\" --stage source     what that compiles to";

/// Arguments of `warpweft inspect`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Inspect {
    /// The graph: values to compute, or a sink of stores (one kernel).
    file: PathBuf,
    /// What to print: graph, region (its views, drawn), normalized, schedule, passes, linear, source (or render), assembly, ptxas (registers, spills and shared
    /// memory of a GPU kernel), or the name of a pass [default: source, or the loops after each opt if --opts or --legal-opts is given].
    #[arg(long)]
    stage: Option<String>,
    /// The device to compile for; its name in any case.
    #[arg(long)]
    device: Option<String>,
    /// The machine to compile for, which need not be there: x86-64, x86-64-v3, x86-64-v4, cooperlake, sapphirerapids or graniterapids; sm_80, sm_90 or sm_100.
    #[arg(long, conflicts_with = "device")]
    target: Option<String>,
    /// The assembler of --stage ptxas [default: the one that `./x setup --ptxas` installs, or that of the search path].
    #[arg(long, value_name = "PROGRAM")]
    ptxas: Option<PathBuf>,
    /// One kernel for each op.
    #[arg(long)]
    no_fuse: bool,
    /// Leave loops as they are.
    #[arg(long, conflicts_with = "opts")]
    no_opt: bool,
    /// The opts that the kernel gets: a list, "none", or "by hand".
    #[arg(long)]
    opts: Option<Opts>,
    /// Print the opts that the kernel admits, after those of --opts.
    #[arg(long)]
    legal_opts: bool,
    /// The kernel to look at, by its number, where the program becomes several.
    #[arg(long)]
    kernel: Option<usize>,
}

impl Inspect {
    fn stage(&self) -> &str {
        match self.stage.as_deref() {
            None | Some("render") => "source",
            Some(stage) => stage,
        }
    }

    /// Whether it is loops and opts that are asked for.
    fn shows_opts(&self) -> bool {
        self.stage.is_none() && (self.opts.is_some() || self.legal_opts)
    }

    /// What is compiled for.
    fn machine(&self) -> Result<Machine, Box<dyn Error>> {
        let Some(name) = &self.target else {
            let executor = warpweft::registry::executor(self.device.as_deref())?;
            return Ok(Machine { target: executor.device().target().clone(), executor: Some(executor) });
        };
        let names = || [&Target::CPUS[..], &Target::NVIDIA[..]].concat().join(", ");
        let target = Target::named(name).ok_or_else(|| format!("there is no target {name}; there are {}", names()))?;
        Ok(Machine { target, executor: None })
    }

    fn lowering(&self) -> LowerOptions {
        match &self.opts {
            Some(opts) => LowerOptions { opts: opts.clone() },
            None => LowerOptions::by_hand_unless(self.no_opt),
        }
    }

    /// An error if the kernel that opts are for cannot be told.
    fn check_kernel(&self, count: usize) -> Result<(), String> {
        let names_ranges = self.legal_opts || matches!(self.opts, Some(Opts::List(_)));
        match self.kernel {
            None if names_ranges && count != 1 => {
                Err(format!("the program becomes {count} kernels; --kernel NUMBER says which one the opts are for"))
            }
            Some(number) if number >= count => {
                Err(format!("there is no kernel {number}; the program becomes {count}, the first is 0"))
            }
            _ => Ok(()),
        }
    }
}

/// What is compiled for: a device, or what one would be like.
struct Machine {
    target: Target,
    executor: Option<Arc<Executor>>,
}

/// Prints the stage that was asked for.
pub(crate) fn run(arguments: &Inspect) -> Result<(), Box<dyn Error>> {
    let text =
        std::fs::read_to_string(&arguments.file).map_err(|error| format!("{}: {error}", arguments.file.display()))?;
    let graph = parse(&text).map_err(|error| format!("{}: {error}", arguments.file.display()))?;
    if arguments.stage() == "graph" {
        print!("{}", print(&graph));
        return Ok(());
    }
    if arguments.stage() == "region" {
        print!("{}", inspect_region::text(&graph));
        return Ok(());
    }
    let machine = arguments.machine()?;
    let is_kernel = |root: &UOp| root.op() == Op::Sink && root.src().iter().all(|store| store.op() == Op::Store);
    let kernels = if graph.roots.iter().all(is_kernel) {
        graph.roots.clone()
    } else {
        let values: Vec<UOp> = graph.roots.iter().flat_map(values_of).collect();
        let normalized = normalize(&values, |_| None).map_err(ExecuteError::from)?;
        if arguments.stage() == "normalized" {
            print!("{}", print(&Graph::new(&graph.name, normalized.sink.src().to_vec())));
            return Ok(());
        }
        let mut notes = Notes::new(arguments.stage(), Topic::Fusion);
        let options = ScheduleOptions { fuse: !arguments.no_fuse, costs: machine.target.costs };
        let schedule = schedule_with(&normalized.sink, options, &mut notes).map_err(ExecuteError::from)?;
        schedule.kernels.into_iter().map(|kernel| kernel.ast).collect()
    };
    arguments.check_kernel(kernels.len())?;
    for (number, ast) in kernels.iter().enumerate() {
        if arguments.kernel.is_some_and(|chosen| chosen != number) {
            continue;
        }
        if kernels.len() > 1 {
            println!("; kernel {number}");
        }
        kernel(arguments, &machine, &format!("{}_{number}", graph.name), ast)?;
    }
    Ok(())
}

fn values_of(root: &UOp) -> Vec<UOp> {
    if root.op() == Op::Sink { root.src().to_vec() } else { vec![root.clone()] }
}

fn kernel(arguments: &Inspect, machine: &Machine, name: &str, ast: &UOp) -> Result<(), Box<dyn Error>> {
    if arguments.stage() == "schedule" {
        print!("{}", print(&Graph::new(name, [ast.clone()])));
        return Ok(());
    }
    let target = &machine.target;
    if target.language == Language::Text {
        return Err(format!("{} runs kernels as they are: stages end at `schedule`", target.device).into());
    }
    if arguments.shows_opts() {
        let opts = arguments.opts.as_ref().unwrap_or(&Opts::None);
        return inspect_opts::show(ast, target, opts, arguments.legal_opts);
    }
    let mut notes = Notes::new(arguments.stage(), Topic::Passes);
    let linear = lower_kernel(ast, target, &arguments.lowering(), &mut notes).map_err(ExecuteError::from)?;
    match arguments.stage() {
        "linear" => print!("{}", warpweft_compiler::linearize::text::print(&linear)),
        "source" => print!("{}", warpweft_renderer::render(&linear, target)?.source),
        "assembly" => print!("{}", assembly(machine, &linear)?),
        "ptxas" => print!("{}", resources(arguments, target, &linear)?),
        "passes" => {}
        pass if notes.passes.contains(&pass) => {}
        other => {
            let passes: Vec<String> = notes.passes.iter().map(|pass| format!("  {pass}\n")).collect();
            let known = "graph, region, normalized (of programs), schedule, passes, linear, source, assembly, ptxas";
            return Err(format!(
                "there is no stage `{other}`; the stages are {known}, and each pass:\n{}",
                passes.concat()
            )
            .into());
        }
    }
    Ok(())
}

fn assembly(machine: &Machine, linear: &Linear) -> Result<String, Box<dyn Error>> {
    let program = warpweft_renderer::render(linear, &machine.target)?;
    let Some(executor) = &machine.executor else {
        return code_for(&program, &machine.target);
    };
    let device = executor.device();
    Ok(device.disassemble(&device.compile(&program)?)?)
}

/// The machine code for a CPU that need not be there.
fn code_for(program: &Program, target: &Target) -> Result<String, Box<dyn Error>> {
    #[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
    if target.language == Language::Llvm {
        return Ok(warpweft_devices::cpu::assembly_for(program, target)?);
    }
    let what = format!("{} of {}", program.name, target.device);
    Err(format!("no compiler here makes machine code for {what}; what a GPU would be given is shown by --stage ptxas")
        .into())
}

/// What ptxas says that a kernel takes.
fn resources(arguments: &Inspect, target: &Target, linear: &Linear) -> Result<String, Box<dyn Error>> {
    if target.language != Language::Ptx {
        return Err(format!("ptxas is for GPUs, not for {}: --target sm_90", target.device).into());
    }
    let program = warpweft_renderer::render(linear, target)?;
    let installed = Path::new(ptxas::INSTALLED);
    let given = arguments.ptxas.as_deref().unwrap_or(installed);
    let Some(ptxas) = Ptxas::find(&[given]) else {
        return Err(format!("there is no ptxas at {} nor on the PATH: `./x setup --ptxas`", given.display()).into());
    };
    let takes = ptxas.assemble(&program.source, &target.processor)?;
    Ok(format!(
        "; {}: {} registers, {} bytes of stack, {} bytes of spill stores, {} of spill loads, {} bytes of shared memory, {} barriers\n",
        target.processor,
        takes.registers,
        takes.stack_bytes,
        takes.spill_store_bytes,
        takes.spill_load_bytes,
        takes.shared_bytes + program.shared_bytes,
        takes.barriers
    ))
}

/// Prints passes, all or the one of the wanted name, and the decisions of fusion at stage `schedule`.
struct Notes<'a> {
    wanted: &'a str,
    topic: Topic,
    /// Those that there were.
    passes: Vec<&'static str>,
}

impl<'a> Notes<'a> {
    fn new(wanted: &'a str, topic: Topic) -> Notes<'a> {
        Notes { wanted, topic, passes: Vec::new() }
    }
}

impl Watch for Notes<'_> {
    fn wants(&self, topic: Topic) -> bool {
        topic == self.topic && !matches!(self.wanted, "linear" | "source" | "assembly" | "ptxas")
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Pass { name, nodes, text } if self.topic == Topic::Passes => {
                self.passes.push(name);
                if self.wanted == "passes" {
                    println!("; {name}: {nodes} nodes");
                } else if self.wanted == name {
                    println!("{}", text());
                }
            }
            Report::Decision { about, reason, .. } if self.wanted == "schedule" => println!("; {about}: {reason}"),
            _ => {}
        }
    }
}
