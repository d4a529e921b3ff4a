//! What is gathered while a kernel is made, by whichever thread makes it, to be told later by the thread that asked.

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text;
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::program::Program;
use warpweft_compiler::watch::{Report, Topic, Watch};
use warpweft_devices::Device;

use super::{tell, wants};
use crate::execute::compile::{LinearWatch, Times};

/// A watch that tells decisions (level 3) when asked to.
#[derive(Default)]
pub(crate) struct DecisionWatch {
    lines: Vec<String>,
}

impl DecisionWatch {
    /// Tells what was gathered.
    pub(crate) fn emit(&self) {
        self.lines.iter().for_each(|line| tell(3, line));
    }
}

impl Watch for DecisionWatch {
    fn wants(&self, topic: Topic) -> bool {
        topic == Topic::Fusion && wants(3)
    }

    fn report(&mut self, report: Report<'_>) {
        if let Report::Decision { about, reason, .. } = report {
            self.lines.push(format!("{about}: {reason}"));
        }
    }
}

/// All that is told about one kernel, each part with its level.
pub(crate) struct KernelReport {
    parts: Vec<(usize, String)>,
    wants_choices: bool,
    wants_linear: bool,
    wants_assembly: bool,
}

impl KernelReport {
    /// The report of a kernel that begins with its AST. Whether somebody listens is asked here: threads that compile would ask
    /// for themselves.
    pub(crate) fn new(ast: &UOp, listening: Listening) -> KernelReport {
        let mut parts = Vec::new();
        if listening.ast {
            parts.push((5, text::print(&text::Graph::new("kernel", [ast.clone()])).trim_end().to_string()));
        }
        KernelReport {
            parts,
            wants_choices: listening.choices,
            wants_linear: listening.linear,
            wants_assembly: listening.assembly,
        }
    }

    /// Adds what is known once the kernel is loaded.
    pub(crate) fn finish(
        &mut self,
        program: &Program,
        object: &[u8],
        device: &dyn Device,
        times: Times,
        from_disk: bool,
    ) {
        if self.wants_choices {
            let (lowered, all) = (times.lowered.as_secs_f64() * 1e3, times.all.as_secs_f64() * 1e3);
            let origin = if from_disk { "found on disk" } else { "compiled" };
            self.parts.push((
                3,
                format!("{}: lowered in {lowered:.2} ms, {origin} and loaded in {:.2} ms", program.name, all - lowered),
            ));
        }
        self.parts.push((4, program.source.trim_end().to_string()));
        if self.wants_assembly {
            let assembly = device.disassemble(object).unwrap_or_else(|error| format!("{}: {error}", program.name));
            self.parts.push((7, assembly.trim_end().to_string()));
        }
    }

    /// The parts with their levels, in the order of making.
    pub(crate) fn parts(&self) -> &[(usize, String)] {
        &self.parts
    }
}

/// Who listens to what, asked on the thread of the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    choices: bool,
    ast: bool,
    linear: bool,
    assembly: bool,
}

impl Listening {
    /// Whether somebody wants to see how kernels are lowered.
    pub(crate) fn to_lowering(self) -> bool {
        self.choices || self.ast || self.linear
    }

    /// Whether somebody wants to see what accesses to memory take.
    pub(crate) fn to_memory(self) -> bool {
        self.choices
    }

    /// As it is for this thread now.
    pub(crate) fn now() -> Listening {
        Listening { choices: wants(3), ast: wants(5), linear: wants(6), assembly: wants(7) }
    }
}

impl Watch for KernelReport {
    fn wants(&self, topic: Topic) -> bool {
        topic == Topic::Choices && self.wants_choices
    }

    fn report(&mut self, report: Report<'_>) {
        if let Report::Decision { about, reason, .. } = report {
            self.parts.push((3, format!("{about}: {reason}")));
        }
    }
}

impl LinearWatch for KernelReport {
    fn linear(&mut self, linear: &Linear) {
        if self.wants_linear {
            self.parts.push((6, warpweft_compiler::linearize::text::print(linear)));
        }
    }
}
