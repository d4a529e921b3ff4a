//! Loops and the accumulators that live across them.
//!
//! An accumulator is no memory: at each position in the list it *is* some value, which `values` holds. Where a loop updates an
//! accumulator that was made before the loop, a phi joins the value from before with the value at the end of the body; where
//! the loop may not run at all, another joins the two after it.
//!
//! ```text
//!   before ─────(may be empty)────┐
//!     │                           │
//!   loop3:  r3 = phi, acc0 = phi  │ <─┐
//!     │  ...body...               │   │
//!     └── r3 + 1 < length? ───────┼───┘
//!         │                       │
//!   loop3.end:  acc0 = phi  <─────┘
//! ```

use rustc_hash::FxHashMap;
use warpweft_compiler::ir::{Arg, AxisKind};
use warpweft_compiler::{Op, UOp};

use super::{Writer, bug, spelling};

/// More iterations than this are many.
const AGAIN_MAX: i64 = 1 << 20;

/// The loops of a list: which accumulators each carries, and which are open now.
pub(super) struct Loops {
    carried: FxHashMap<UOp, Vec<UOp>>,
    open: Vec<OpenLoop>,
}

struct OpenLoop {
    range: UOp,
    label: String,
    stop: String,
    /// Label of the block before the loop.
    before: String,
    /// Whether the loop may have nothing to do.
    may_be_empty: bool,
    /// Where the phis stand, to be completed when the end of the body is known: that of the loop variable, then these.
    phis_at: usize,
    carried: Vec<Carried>,
}

struct Carried {
    accumulator: UOp,
    phi: String,
    before: String,
}

impl Loops {
    /// Finds, for each loop, the accumulators that were made before it and are updated in it.
    pub(super) fn find(ops: &[UOp]) -> Loops {
        let mut carried: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
        let mut made_at: FxHashMap<&UOp, usize> = FxHashMap::default();
        let mut open: Vec<(&UOp, usize)> = Vec::new();
        for (position, node) in ops.iter().enumerate() {
            match node.op() {
                Op::Range => open.push((node, position)),
                Op::EndRange => drop(open.pop()),
                Op::Accumulator => drop(made_at.insert(node, position)),
                Op::Update => {
                    let accumulator = &node.src()[0];
                    let made =
                        made_at.get(accumulator).copied().unwrap_or_else(|| bug(node, "comes before its accumulator"));
                    for (range, _) in open.iter().filter(|(_, opened)| made < *opened) {
                        let list = carried.entry((*range).clone()).or_default();
                        if !list.contains(accumulator) {
                            list.push(accumulator.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        Loops { carried, open: Vec::new() }
    }

    /// How many loops are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }
}

impl Writer {
    pub(super) fn open_loop(&mut self, range: &UOp) {
        let Some(arg) = range.as_range() else { bug(range, "has no number") };
        let integer = spelling::register(range.dtype());
        let version = self.version();
        let (name, label) = (format!("%r{}{version}", arg.id), format!("loop{}{version}", arg.id));
        let (start, stop) = self.bounds(range, &name, &integer);
        // A call's share of the parallel loop may be empty, whatever the length of the whole.
        let may_be_empty = arg.kind == AxisKind::Parallel || range.src()[0].min_value() < 1;
        if may_be_empty {
            let runs = self.step(&name, "runs", &format!("icmp slt {integer} {start}, {stop}"));
            self.line(&format!("br i1 {runs}, label %{label}, label %{label}.end"));
        } else {
            self.line(&format!("br label %{label}"));
        }
        let before = std::mem::replace(&mut self.block, label.clone());
        let carried = self.loops.carried.get(range).cloned().unwrap_or_default();
        let carried: Vec<Carried> = carried
            .into_iter()
            .map(|accumulator| Carried {
                phi: format!("{}.r{}", accumulator_name(&accumulator), arg.id),
                before: self.operand(&accumulator).to_string(),
                accumulator,
            })
            .collect();
        self.label(&label);
        let phis_at = self.lines.len();
        self.loops.open.push(OpenLoop {
            range: range.clone(),
            label,
            stop,
            before: before.clone(),
            may_be_empty,
            phis_at,
            carried: Vec::new(),
        });
        self.line(&format!("{name} = phi {integer} [ {start}, %{before} ]"));
        self.set(range, name);
        for one in &carried {
            let accumulator = self.register(&one.accumulator);
            self.line(&format!("{} = phi {accumulator} [ {}, %{before} ]", one.phi, one.before));
            self.set(&one.accumulator, one.phi.clone());
        }
        if let Some(open) = self.loops.open.last_mut() {
            open.carried = carried;
        }
    }

    /// Where a loop begins and stops.
    pub(super) fn bounds(&mut self, range: &UOp, name: &str, integer: &str) -> (String, String) {
        let kind = range.as_range().map_or(AxisKind::Loop, |arg| arg.kind);
        match kind {
            AxisKind::Parallel => self.share_of_thread(range, name, integer),
            AxisKind::Grid(_) | AxisKind::Block(_) | AxisKind::Lane => bug(range, "is an index that no CPU has"),
            AxisKind::Loop
            | AxisKind::Reduce
            | AxisKind::Serial
            | AxisKind::Unroll
            | AxisKind::Vector
            | AxisKind::Dot => ("0".to_string(), self.operand(&range.src()[0]).to_string()),
        }
    }

    /// Where a call's share of the parallel loop begins and stops.
    ///
    /// Shares are cut from the largest length, so where the length is symbolic a share may reach past it.
    fn share_of_thread(&mut self, range: &UOp, name: &str, integer: &str) -> (String, String) {
        let (begin, stop) = match integer {
            "i64" => ("%begin".to_string(), "%end".to_string()),
            _ => (
                self.step(name, "begin", &format!("trunc i64 %begin to {integer}")),
                self.step(name, "stop", &format!("trunc i64 %end to {integer}")),
            ),
        };
        if range.src()[0].as_int().is_some() {
            return (begin, stop);
        }
        let len = self.operand(&range.src()[0]).to_string();
        let whole = self.step(name, "whole", &format!("icmp slt {integer} {stop}, {len}"));
        (begin, self.step(name, "cut", &format!("select i1 {whole}, {integer} {stop}, {integer} {len}")))
    }

    pub(super) fn close_loop(&mut self, end: &UOp) {
        let range = &end.src()[0];
        if let Some(open) = self.loops.open.last() {
            let (from, block) = (open.phis_at + 1 + open.carried.len(), open.label.clone());
            self.outline(range, from, &block);
        }
        let name = self.operand(range).to_string();
        let integer = spelling::register(range.dtype());
        let next = self.step(&name, "next", &format!("add nuw nsw {integer} {name}, 1"));
        let Some(open) = self.loops.open.last() else { bug(end, "closes no open loop") };
        if open.range != *range {
            bug(end, "does not close the innermost loop");
        }
        let (label, stop) = (open.label.clone(), open.stop.clone());
        let more = self.step(&name, "more", &format!("icmp slt {integer} {next}, {stop}"));
        let weights = self.weights(range);
        self.line(&format!("br i1 {more}, label %{label}, label %{label}.end{weights}"));

        let Some(open) = self.loops.open.pop() else { bug(end, "closes no open loop") };
        let last = self.block.clone();
        let finals: Vec<String> = open.carried.iter().map(|one| self.operand(&one.accumulator).to_string()).collect();
        for (offset, value) in [&next].into_iter().chain(&finals).enumerate() {
            self.lines[open.phis_at + offset] += &format!(", [ {value}, %{last} ]");
        }
        self.label(&format!("{label}.end"));
        if open.may_be_empty {
            for (one, value) in open.carried.iter().zip(&finals) {
                let instruction = format!(
                    "phi {} [ {}, %{} ], [ {value}, %{last} ]",
                    self.register(&one.accumulator),
                    one.before,
                    open.before
                );
                let joined = self.step(&one.phi, "end", &instruction);
                self.set(&one.accumulator, joined);
            }
        }
    }

    /// How often a loop goes on for each time that it ends, for whoever chooses what stays in registers: constants of a copy must not take those of the
    /// accumulators of the loop that reads it.
    fn weights(&mut self, range: &UOp) -> String {
        let is_shared = range.as_range().is_some_and(|arg| arg.kind == AxisKind::Parallel);
        let again = (range.src()[0].max_value() - 1).min(AGAIN_MAX);
        if is_shared || again < 1 {
            return String::new();
        }
        let known = self.weights.iter().position(|other| *other == again);
        let number = known.unwrap_or_else(|| {
            self.weights.push(again);
            self.weights.len() - 1
        });
        format!(", !prof !{number}")
    }

    pub(super) fn accumulator(&mut self, node: &UOp) {
        match self.tiles.get(node).copied() {
            Some(size) => self.first_tile(node, size, &accumulator_name(node)),
            None => self.set(node, self.operand(&node.src()[0]).to_string()),
        }
    }

    pub(super) fn update(&mut self, node: &UOp) {
        let value = self.operand(&node.src()[1]).to_string();
        self.set(&node.src()[0], value);
    }
}

fn accumulator_name(accumulator: &UOp) -> String {
    match accumulator.arg() {
        Arg::Number(number) => format!("%acc{number}"),
        _ => bug(accumulator, "has no number"),
    }
}
