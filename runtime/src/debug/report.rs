//! What is gathered while a kernel is made, by whichever thread makes it, to be told later by the thread that asked.

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text;
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opts, apply_list, choose, outline};
use warpweft_compiler::pipeline::{LowerOptions, loops_of};
use warpweft_compiler::program::Program;
use warpweft_compiler::target::{Language, Target};
use warpweft_compiler::watch::{CutNode, Report, Silent, Topic, Watch};
use warpweft_devices::Device;

use super::{record, tell, wants};
use crate::execute::compile::{LinearWatch, Times};

/// A watch that tells decisions (level 3) when asked to, and keeps what is recorded.
#[derive(Default)]
pub(crate) struct DecisionWatch {
    lines: Vec<String>,
    nodes: Vec<CutNode>,
}

impl DecisionWatch {
    /// Tells what was gathered.
    pub(crate) fn emit(&self) {
        self.lines.iter().for_each(|line| tell(3, line));
    }

    /// The program as it was cut, and the decisions, for a recording.
    pub(crate) fn into_parts(self) -> (Vec<CutNode>, Vec<String>) {
        (self.nodes, self.lines)
    }
}

impl Watch for DecisionWatch {
    fn wants(&self, topic: Topic) -> bool {
        match topic {
            Topic::Fusion => wants(3) || record::is_on(),
            Topic::Cut => record::is_on(),
            _ => false,
        }
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Decision { about, reason, .. } => self.lines.push(format!("{about}: {reason}")),
            Report::Cut { nodes } => self.nodes = nodes.to_vec(),
            Report::Pass { .. } => {}
        }
    }
}

/// All that is told about one kernel, each part with its level.
pub(crate) struct KernelReport {
    parts: Vec<(usize, String)>,
    /// The loops, of a kernel that is recorded.
    loops: String,
    wants_loops: bool,
    wants_choices: bool,
    wants_source: bool,
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
            loops: String::new(),
            wants_loops: listening.loops,
            wants_choices: listening.choices,
            wants_source: listening.source,
            wants_linear: listening.linear,
            wants_assembly: listening.assembly,
        }
    }

    /// Adds the loops as opts left them.
    pub(crate) fn loops(&mut self, ast: &UOp, target: &Target, options: &LowerOptions) {
        if !self.wants_loops || target.language == Language::Text {
            return;
        }
        let kernel = loops_of(ast, &mut Silent);
        self.loops = match &options.opts {
            Opts::None => outline(&kernel),
            Opts::ByHand => outline(&choose(&kernel, target).kernel),
            // A list that does not fit has failed before.
            Opts::List(list) => {
                apply_list(&kernel, list, target).map_or(String::new(), |choice| outline(&choice.kernel))
            }
        };
    }

    /// All texts by what they are, for a recording.
    pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
        let of = |wanted: usize| {
            let texts = self.parts.iter().filter(|(level, _)| *level == wanted).map(|(_, text)| text.as_str());
            texts.collect::<Vec<_>>().join("\n")
        };
        let levels = [("choices", 3), ("graph", 5), ("linear", 6), ("source", 4), ("assembly", 7)];
        let mut texts: Vec<(&str, String)> = levels.into_iter().map(|(name, level)| (name, of(level))).collect();
        texts.push(("loops", self.loops.trim_end().to_string()));
        texts.retain(|(_, text)| !text.is_empty());
        texts
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
        if self.wants_source {
            self.parts.push((4, program.source.trim_end().to_string()));
        }
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
    loops: bool,
    memory: bool,
    choices: bool,
    source: bool,
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
        self.memory
    }

    /// As it is for this thread now.
    pub(crate) fn now() -> Listening {
        let all = record::is_on();
        Listening {
            loops: all,
            memory: wants(3),
            choices: wants(3) || all,
            source: wants(4) || all,
            ast: wants(5) || all,
            linear: wants(6) || all,
            assembly: wants(7) || all,
        }
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
