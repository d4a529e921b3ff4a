//! Lines of a kernel, and what stands for values in them: registers, constants, and the lanes of vectors.
//!
//! Tested by the goldens.

use registers::Kind;
use warpweft_compiler::UOp;

use super::{Writer, bug, registers};

impl Writer<'_> {
    /// Records what stands for the lanes of a node.
    pub(super) fn set(&mut self, node: &UOp, lanes: Vec<String>) {
        self.values.insert(node.clone(), lanes);
    }

    /// What stands for the lanes of a node.
    pub(super) fn lanes(&self, node: &UOp) -> &[String] {
        match self.values.get(node) {
            Some(lanes) => lanes,
            None => bug(node, "is used before it stands in the list"),
        }
    }

    /// What stands for one lane of a node; scalars have the same in each.
    pub(super) fn lane(&self, node: &UOp, lane: usize) -> String {
        let lanes = self.lanes(node);
        lanes[lane.min(lanes.len() - 1)].clone()
    }

    /// A register that nothing has been written to.
    pub(super) fn register(&mut self, kind: Kind) -> String {
        let count = &mut self.counts[kind as usize];
        *count += 1;
        format!("{}{}", kind.prefix(), *count - 1)
    }

    /// Writes an instruction with a result of its own, and gives the register.
    pub(super) fn compute(&mut self, kind: Kind, instruction: &str, operands: &[&str]) -> String {
        let result = self.register(kind);
        self.line(&format!("{instruction} {result}, {};", operands.join(", ")));
        result
    }

    /// The operand in a register.
    pub(super) fn in_register(&mut self, kind: Kind, operand: String) -> String {
        if registers::is_register(&operand) {
            return operand;
        }
        self.compute(kind, &format!("mov.{}", kind.plain()), &[&operand])
    }

    /// The operand as it is now, whatever is written to its register later.
    pub(super) fn kept(&mut self, kind: Kind, operand: String) -> String {
        if !self.renewed.contains(&operand) {
            return operand;
        }
        self.compute(kind, &format!("mov.{}", kind.plain()), &[&operand])
    }

    /// One instruction, indented by the loops around it.
    pub(super) fn line(&mut self, text: &str) {
        let depth = self.open.len();
        self.lines.push(format!("{:1$}{text}", "", 2 * depth + 2));
    }

    /// A label to branch to.
    pub(super) fn label(&mut self, label: &str) {
        let depth = self.open.len();
        self.lines.push(format!("{:1$}{label}:", "", 2 * depth));
    }

    /// A number for labels that are of no range.
    pub(super) fn next_label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    /// Notes that an instruction needs at least these.
    pub(super) fn need(&mut self, version: (u32, u32), target: u32) {
        self.needs.version = self.needs.version.max(version);
        self.needs.target = self.needs.target.max(target);
    }
}
