//! `warpweft bench --target sm_90 --model [CASE...]`: what a GPU that need not be there would take at least for each case, by counting.
//!
//! A case is scheduled and lowered for the machine, with opts by hand; each kernel's times are those of the roofline
//! (`warpweft_compiler::cost_model::roofline`), added up. Registers and spills are ptxas's, where there is one. Nothing runs, and nothing is measured.

use std::error::Error;
use std::path::Path;

use warpweft::execute::ExecuteError;
use warpweft_compiler::UOp;
use warpweft_compiler::cost_model::roofline::{Roofline, roofline};
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_devices::ptxas::{INSTALLED, Ptxas, Resources};

use crate::{cases, gpu_cases, layer_cases};

/// Where the numbers of a machine come from.
const SOURCE: &str =
    "from data sheets (compiler/src/target/costs.rs); nothing is measured, and latencies are not looked at";

/// A case on paper, or one of its kernels.
struct Modelled {
    name: String,
    times: Roofline,
    kernels: usize,
    /// Of the kernel that takes most registers.
    registers: u64,
    spilled: u64,
}

impl Modelled {
    fn nothing() -> Modelled {
        let times = Roofline { busy: 1.0, ..Roofline::default() };
        Modelled { name: String::new(), times, kernels: 0, registers: 0, spilled: 0 }
    }

    fn and_then(self, next: &Modelled) -> Modelled {
        Modelled {
            name: self.name,
            times: self.times.and_then(&next.times),
            kernels: self.kernels + next.kernels,
            registers: self.registers.max(next.registers),
            spilled: self.spilled + next.spilled,
        }
    }
}

/// Prints a line for each case, of one alone also for each of its kernels, and writes its program to a folder if there is one.
pub(crate) fn run(target: &str, wanted: &[String], save: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let machine = Target::nvidia(target)
        .ok_or_else(|| format!("there is no target {target}; there are {}", Target::NVIDIA.join(", ")))?;
    let ptxas = Ptxas::find(&[Path::new(INSTALLED)]);
    let costs = &machine.costs;
    println!(
        "{target}: {} GB/s of memory, {} GFLOP/s of f32, {} GB/s of shared memory, {} multiprocessors: {SOURCE}",
        costs.memory_bytes_per_ns,
        2 * costs.ops_per_ns,
        costs.scratch_bytes_per_ns,
        costs.cores
    );
    println!(
        "times in us; `of bound`: the longest of them by that of bytes or flops, which no kernel is below; `launch`, which comes to that: {} us for each kernel",
        f64::from(costs.launch_ns) / 1e3
    );
    println!(
        "{:22} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5} {:>9} {:>6}",
        "case",
        "kernels",
        "launch",
        "bytes",
        "flops",
        "sectors",
        "shared",
        "issue",
        "of bound",
        "busy",
        "registers",
        "spills"
    );
    let mut spilling: Vec<&str> = Vec::new();
    let names = gpu_cases::names().chain(cases::NAMES.iter().chain(layer_cases::NAMES).copied());
    for name in names.filter(|name| wanted.is_empty() || wanted.iter().any(|other| other == name)) {
        let value = gpu_cases::shaped(name)?;
        if let Some(folder) = save {
            std::fs::create_dir_all(folder)?;
            let program = Graph::new(name, [value.clone()]);
            std::fs::write(folder.join(format!("{name}.uop")), program.to_string())?;
        }
        let of_kernels = model(&value, &machine, ptxas.as_ref())?;
        let modelled = of_kernels.iter().fold(Modelled::nothing(), |sum, kernel| sum.and_then(kernel));
        if modelled.spilled > 0 {
            spilling.push(name);
        }
        // Of one case alone, each kernel as well.
        for kernel in of_kernels.iter().filter(|_| wanted.len() == 1) {
            print_line(&format!("  {}", kernel.name), kernel, &machine, ptxas.is_some());
        }
        print_line(name, &modelled, &machine, ptxas.is_some());
    }
    if ptxas.is_none() {
        println!("registers and spills: there is no ptxas (`./x setup --ptxas` installs it)");
    }
    match spilling.as_slice() {
        [] => Ok(()),
        _ => Err(format!("a choice by hand spills: {}", spilling.join(", ")).into()),
    }
}

fn print_line(name: &str, modelled: &Modelled, machine: &Target, is_assembled: bool) {
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    let Modelled { times, kernels, .. } = modelled;
    let [registers, spilled] = [modelled.registers, modelled.spilled].map(|count| match is_assembled {
        true => count.to_string(),
        false => "-".to_string(),
    });
    println!(
        "{name:22} {kernels:7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:8.2} {:4.0}% {registers:>9} {spilled:>6}",
        us(f64::from(machine.costs.launch_ns) * *kernels as f64),
        us(times.memory_ns),
        us(times.operations_ns),
        us(times.sectors_ns),
        us(times.shared_ns),
        us(times.issue_ns),
        times.least_ns() / times.of_any_kernel_ns().max(f64::MIN_POSITIVE),
        times.busy * 100.0
    );
}

/// Nanoseconds of a case that no kernels can beat on a machine: of bytes or of operations. None for what is no case of tensors, or cannot be counted.
pub(crate) fn bound_ns(name: &str, machine: &Target) -> Option<f64> {
    let of_kernels = model(&gpu_cases::shaped(name).ok()?, machine, None).ok()?;
    let times = of_kernels.iter().fold(Modelled::nothing(), |sum, kernel| sum.and_then(kernel)).times;
    Some(times.of_any_kernel_ns()).filter(|ns| *ns > 0.0)
}

/// Each kernel of a program.
fn model(value: &UOp, machine: &Target, ptxas: Option<&Ptxas>) -> Result<Vec<Modelled>, Box<dyn Error>> {
    let normalized = normalize(std::slice::from_ref(value), |_| None).map_err(ExecuteError::from)?;
    let options = ScheduleOptions { fuse: true, costs: machine.costs };
    let schedule = schedule_with(&normalized.sink, options, &mut Silent).map_err(ExecuteError::from)?;
    let mut of_kernels = Vec::new();
    for kernel in &schedule.kernels {
        let by_hand = LowerOptions::by_hand_unless(false);
        let linear = lower_kernel(&kernel.ast, machine, &by_hand, &mut Silent).map_err(ExecuteError::from)?;
        let times = roofline(&linear, machine);
        let mut modelled = Modelled { name: linear.name.to_string(), times, kernels: 1, ..Modelled::nothing() };
        if let Some(ptxas) = ptxas {
            let program = warpweft_renderer::render(&linear, machine)?;
            let Resources { registers, spill_store_bytes, .. } = ptxas.assemble(&program.source, &machine.processor)?;
            (modelled.registers, modelled.spilled) = (registers, spill_store_bytes);
        }
        of_kernels.push(modelled);
    }
    Ok(of_kernels)
}
