//! What the compiler tells about its work while it works, without printing anything.
//!
//! A pass hands a [`Report`] to a [`Watch`]; whoever calls the compiler decides what becomes of it. Reports that cost something to
//! make are made only when the watch [`wants`](Watch::wants) their [`Topic`]. A watch cannot change what is compiled.
//!
//! Not here: levels, formats and clocks (`runtime::debug`), which measure the time between two reports.

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Which values share a kernel, and why or why not.
    Fusion,
    /// How the loops of a kernel were laid out, and why.
    Choices,
    /// The graph or list after each pass.
    Passes,
    /// Which rewrite rules hit.
    Rules,
    /// The program as it was cut, and which kernels compute what of it.
    Cut,
}

/// A node of a program that was cut into kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutNode {
    /// Its op.
    pub op: String,
    /// Type of its elements.
    pub dtype: String,
    /// Lengths of its axes.
    pub shape: String,
    /// Positions of its operands, which stand before it.
    pub operands: Vec<u32>,
    /// The kernels that compute it, by their number in the order in which they run, and the line of the kernel's graph in text form that does, where it is
    /// known.
    pub computed_by: Vec<(u32, Option<u32>)>,
    /// The kernel that stores it, if one does.
    pub stored_by: Option<u32>,
}

/// One thing that the compiler tells.
pub enum Report<'a> {
    /// A pass has ended.
    Pass {
        /// Its name, as in the list of passes.
        name: &'static str,
        /// Nodes after it.
        nodes: usize,
        /// What it made, as text; called only by a watch that shows it.
        text: &'a dyn Fn() -> String,
    },
    /// A decision, and its reason.
    Decision {
        /// What it belongs to.
        topic: Topic,
        /// What was decided about, as a user would recognise it.
        about: &'a str,
        /// What was decided, and why.
        reason: &'a str,
    },
    /// A program was cut into kernels.
    Cut {
        /// Its nodes in order.
        nodes: &'a [CutNode],
    },
}

/// Somebody who follows the work of the compiler.
pub trait Watch {
    /// Whether reports of this topic are looked at.
    fn wants(&self, topic: Topic) -> bool;

    /// Takes a report.
    fn report(&mut self, report: Report<'_>);
}

/// A watch that looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watch for Silent {
    fn wants(&self, _: Topic) -> bool {
        false
    }

    fn report(&mut self, _: Report<'_>) {}
}

/// A watch that keeps the decisions of some topics as lines, for tests and for people.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The topics to keep.
    pub topics: Vec<Topic>,
    /// What was reported, a line each.
    pub lines: Vec<String>,
}

impl Notes {
    /// Keeps the decisions of these topics.
    pub fn of(topics: &[Topic]) -> Notes {
        Notes { topics: topics.to_vec(), lines: Vec::new() }
    }
}

impl Watch for Notes {
    fn wants(&self, topic: Topic) -> bool {
        self.topics.contains(&topic)
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Pass { name, nodes, .. } => {
                if self.wants(Topic::Passes) {
                    self.lines.push(format!("{name}: {nodes} nodes"));
                }
            }
            Report::Decision { topic, about, reason } => {
                if self.wants(topic) {
                    self.lines.push(format!("{about}: {reason}"));
                }
            }
            Report::Cut { nodes } => {
                if self.wants(Topic::Cut) {
                    self.lines.push(format!("cut: {} nodes", nodes.len()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_keep_what_they_want() {
        let mut notes = Notes::of(&[Topic::Fusion]);
        notes.report(Report::Decision { topic: Topic::Fusion, about: "reduce [4]", reason: "kept in its kernel" });
        notes.report(Report::Decision { topic: Topic::Choices, about: "axis 0", reason: "upcast by 4" });
        notes.report(Report::Pass { name: "fold", nodes: 3, text: &|| unreachable!("nobody asked for the text") });
        assert_eq!(notes.lines, ["reduce [4]: kept in its kernel"]);
    }
}
