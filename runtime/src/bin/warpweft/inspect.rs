//! `warpweft inspect FILE.uop --stage NAME`: a graph in text form, and what it becomes.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use warpweft::execute::ExecuteError;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::Op;
use warpweft_compiler::ir::text::{Graph, parse, print};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Language;
use warpweft_compiler::watch::{Report, Topic, Watch};

use crate::inspect_region;

/// Arguments of `warpweft inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    /// The graph: values to compute, or a sink of stores (one kernel).
    file: PathBuf,
    /// What to print: graph, region (its views, drawn), normalized, schedule, passes, linear, source, assembly, or the name of a pass.
    #[arg(long, default_value = "source")]
    stage: String,
    /// The device to compile for; its name in any case.
    #[arg(long)]
    device: Option<String>,
    /// One kernel for each op.
    #[arg(long)]
    no_fuse: bool,
    /// Leave loops as they are.
    #[arg(long)]
    no_opt: bool,
}

/// Prints the stage that was asked for.
pub(crate) fn run(arguments: &Inspect) -> Result<(), Box<dyn Error>> {
    let text =
        std::fs::read_to_string(&arguments.file).map_err(|error| format!("{}: {error}", arguments.file.display()))?;
    let graph = parse(&text).map_err(|error| format!("{}: {error}", arguments.file.display()))?;
    if arguments.stage == "graph" {
        print!("{}", print(&graph));
        return Ok(());
    }
    if arguments.stage == "region" {
        print!("{}", inspect_region::text(&graph));
        return Ok(());
    }
    let is_kernel = |root: &UOp| root.op() == Op::Sink && root.src().iter().all(|store| store.op() == Op::Store);
    let kernels = if graph.roots.iter().all(is_kernel) {
        graph.roots.clone()
    } else {
        let values: Vec<UOp> = graph.roots.iter().flat_map(values_of).collect();
        let normalized = normalize(&values, |_| None).map_err(ExecuteError::from)?;
        if arguments.stage == "normalized" {
            print!("{}", print(&Graph::new(&graph.name, normalized.sink.src().to_vec())));
            return Ok(());
        }
        let mut notes = Notes { wanted: &arguments.stage, topic: Topic::Fusion };
        let options = ScheduleOptions { fuse: !arguments.no_fuse };
        let schedule = schedule_with(&normalized.sink, options, &mut notes).map_err(ExecuteError::from)?;
        schedule.kernels.into_iter().map(|kernel| kernel.ast).collect()
    };
    for (number, ast) in kernels.iter().enumerate() {
        if kernels.len() > 1 {
            println!("; kernel {number}");
        }
        kernel(arguments, &format!("{}_{number}", graph.name), ast)?;
    }
    Ok(())
}

fn values_of(root: &UOp) -> Vec<UOp> {
    if root.op() == Op::Sink { root.src().to_vec() } else { vec![root.clone()] }
}

fn kernel(arguments: &Inspect, name: &str, ast: &UOp) -> Result<(), Box<dyn Error>> {
    if arguments.stage == "schedule" {
        print!("{}", print(&Graph::new(name, [ast.clone()])));
        return Ok(());
    }
    let executor = warpweft::registry::executor(arguments.device.as_deref())?;
    let device = executor.device();
    if device.target().language == Language::Text {
        return Err(format!("{} runs kernels as they are: stages end at `schedule`", device.name()).into());
    }
    let mut notes = Notes { wanted: &arguments.stage, topic: Topic::Passes };
    let options = LowerOptions::by_hand_unless(arguments.no_opt);
    let linear = lower_kernel(ast, device.target(), &options, &mut notes).map_err(ExecuteError::from)?;
    match arguments.stage.as_str() {
        "linear" => println!("{}", warpweft::debug::linear_list(&linear)),
        "source" => print!("{}", warpweft_renderer::render(&linear, device.target()).source),
        "assembly" => print!("{}", assembly(&**device, &linear)?),
        _ => {}
    }
    Ok(())
}

fn assembly(device: &dyn warpweft_devices::Device, linear: &Linear) -> Result<String, Box<dyn Error>> {
    let program = warpweft_renderer::render(linear, device.target());
    Ok(device.disassemble(&device.compile(&program)?)?)
}

/// Prints passes, all or the one of the wanted name, and the decisions of fusion at stage `schedule`.
struct Notes<'a> {
    wanted: &'a str,
    topic: Topic,
}

impl Watch for Notes<'_> {
    fn wants(&self, topic: Topic) -> bool {
        topic == self.topic && !matches!(self.wanted, "linear" | "source" | "assembly")
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Pass { name, nodes, text } if self.topic == Topic::Passes => {
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
