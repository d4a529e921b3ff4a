//! Nodes as text. The order of lines depends on the graph alone: operands first, as `postorder` has them.

use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::lex::quoted;
use super::literal::print_literal;
use super::{Graph, Parameter, default_dtype, is_identifier, lines_below, literal_dtype, param_of};
use crate::DType;
use crate::ir::{Arg, Axes, Component, Dim, MemorySpace, Op, ReduceOp, UOp};

/// What the nodes of a text are called.
#[derive(Default)]
pub(crate) struct Names {
    of: FxHashMap<UOp, String>,
    taken: FxHashSet<String>,
    next: usize,
    /// Whether constants have lines of their own rather than standing where they are used.
    pub(crate) constants_have_lines: bool,
}

impl Names {
    /// The node's name, if it has one yet.
    pub(crate) fn get(&self, node: &UOp) -> Option<&str> {
        self.of.get(node).map(String::as_str)
    }

    /// Gives the node that name, or if another has it or it is no name, a fresh one.
    pub(crate) fn assign(&mut self, node: &UOp, wanted: &str) {
        let mut name = wanted.to_string();
        while !is_identifier(&name) || self.taken.contains(&name) {
            name = format!("v{}", self.next);
            self.next += 1;
        }
        self.taken.insert(name.clone());
        self.of.insert(node.clone(), name);
    }

    /// Gives the node the name that its kind of node has.
    pub(crate) fn assign_default(&mut self, node: &UOp) {
        let wanted = match node.arg() {
            Arg::Range(range) => format!("r{}", range.id),
            Arg::Param(param) => format!("p{}", param.slot),
            Arg::Buffer(buffer) => format!("b{}", buffer.id),
            Arg::Variable(variable) => variable.name.clone(),
            Arg::Number(number) if node.op() == Op::Accumulator => format!("a{number}"),
            Arg::Scratch(number, ..) => format!("s{number}"),
            _ => String::new(),
        };
        self.assign(node, &wanted);
    }
}

/// The text of a graph; it ends in a line break.
pub fn print(graph: &Graph) -> String {
    print_with_lines(graph).0
}

/// The text of a graph, and which line says what a node is; nodes that the header says are in the first, constants in none.
pub fn print_with_lines(graph: &Graph) -> (String, FxHashMap<UOp, u32>) {
    let mut graph = graph.clone();
    let mut lines: FxHashMap<UOp, u32> = FxHashMap::default();
    complete_parameters(&mut graph);
    let mut names = Names::default();
    let mut text = format!("graph %{}(", graph.name);
    let mut slots = 0;
    let mut in_header: FxHashSet<UOp> = FxHashSet::default();
    for (position, parameter) in graph.parameters.iter().enumerate() {
        names.assign(&parameter.node, &parameter.name);
        in_header.insert(parameter.node.clone());
        lines.insert(parameter.node.clone(), 0);
        let name = names.get(&parameter.node).unwrap_or_default();
        let separator = if position == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{name}: {}", header_entry(&parameter.node, name, &mut slots));
    }
    text.push_str(") {\n");
    // What stands below a header entry (the param of a reshape) is said by the header.
    let hidden: FxHashSet<UOp> = in_header.iter().flat_map(|node| node.src()).cloned().collect();
    for node in lines_below(&graph.roots) {
        if node.op() == Op::Const || in_header.contains(&node) || hidden.contains(&node) {
            continue;
        }
        names.assign_default(&node);
        text.push_str("  ");
        write_line(&mut text, &node, &names);
        text.push('\n');
        lines.insert(node, (lines.len() + 1 - in_header.len()) as u32);
    }
    let roots: Vec<String> = graph.roots.iter().map(|root| operand(root, None, &names)).collect();
    let _ = writeln!(text, "  return {}\n}}", roots.join(", "));
    (text, lines)
}

fn header_entry(node: &UOp, name: &str, slots: &mut u32) -> String {
    if let Arg::Variable(variable) = node.arg() {
        let named = if name == variable.name { String::new() } else { format!(" named {}", quoted(&variable.name)) };
        return format!("{} {}..{}{named}", node.dtype(), variable.min, variable.max);
    }
    let slot = param_of(node).map_or(*slots, |param| param.slot);
    let suffix = if slot == *slots { String::new() } else { format!(" slot {slot}") };
    *slots = slots.saturating_add(1);
    format!("{}{}{suffix}", node.dtype(), node.shape())
}

/// Adds to the header every param and variable below the roots that it lacks.
pub(super) fn complete_parameters(graph: &mut Graph) {
    let lines = lines_below(&graph.roots);
    let known: FxHashSet<UOp> = graph.parameters.iter().map(|parameter| parameter.node.clone()).collect();
    let known_below: FxHashSet<UOp> = known.iter().flat_map(|node| node.src()).cloned().collect();
    let is_new = |node: &UOp| !known.contains(node) && !known_below.contains(node);
    // A param that is only ever used through one reshape is shown in that shape.
    let mut users: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for node in &lines {
        for operand in node.src().iter().filter(|operand| operand.op() == Op::Param) {
            users.entry(operand.clone()).or_default().push(node.clone());
        }
    }
    let mut params: Vec<UOp> = lines.iter().filter(|node| node.op() == Op::Param && is_new(node)).cloned().collect();
    params.sort_by_key(|node| param_of(node).map(|param| param.slot));
    for param in params {
        let name = format!("p{}", param_of(&param).map_or(0, |param| param.slot));
        let node = match users.get(&param).map(Vec::as_slice) {
            Some([user]) if user.op() == Op::Reshape && user.shape().is_concrete() && !graph.roots.contains(&param) => {
                user.clone()
            }
            _ => param,
        };
        graph.parameters.push(Parameter { name, node });
    }
    for node in lines.iter().filter(|node| node.op() == Op::Variable && is_new(node)) {
        if let Arg::Variable(variable) = node.arg() {
            graph.parameters.push(Parameter { name: variable.name.clone(), node: node.clone() });
        }
    }
}

/// The line of a node: `name: type = op operands, argument`, without the line break.
pub(crate) fn write_line(text: &mut String, node: &UOp, names: &Names) {
    text.push_str(names.get(node).unwrap_or("?"));
    if default_dtype(node.op(), node.src()) != Some(node.dtype()) {
        let _ = write!(text, ": {}", node.dtype());
    }
    let _ = write!(text, " = {}", node.op());
    let types: Vec<Option<DType>> = node
        .src()
        .iter()
        .map(|operand| (operand.op() != Op::Const || names.constants_have_lines).then(|| operand.dtype()))
        .collect();
    let mut separator = " ";
    for (position, source) in node.src().iter().enumerate() {
        text.push_str(separator);
        text.push_str(&operand(source, literal_dtype(node.op(), position, &types), names));
        separator = ", ";
    }
    let argument = argument(node.arg(), node.dtype(), names);
    if !argument.is_empty() {
        text.push_str(separator);
        text.push_str(&argument);
    }
}

/// A node as an operand: its name, or the constant, with its type unless that is `assumed`.
fn operand(node: &UOp, assumed: Option<DType>, names: &Names) -> String {
    match (node.as_scalar(), names.get(node)) {
        (Some(value), None) => {
            let literal = print_literal(value, node.dtype());
            let is_said = assumed == Some(node.dtype()) || (assumed.is_none() && node.dtype() == DType::BOOL);
            if is_said { literal } else { format!("{literal}:{}", node.dtype()) }
        }
        (_, name) => name.unwrap_or("?").to_string(),
    }
}

fn dim(dim: &Dim, names: &Names) -> String {
    match dim {
        Dim::Const(value) => value.to_string(),
        Dim::Expr(expr) => names.get(expr).unwrap_or("?").to_string(),
    }
}

fn dims(list: &[Dim], names: &Names) -> String {
    let texts: Vec<String> = list.iter().map(|entry| dim(entry, names)).collect();
    format!("[{}]", texts.join(", "))
}

fn axes(list: &Axes) -> String {
    let texts: Vec<String> = list.iter().map(u8::to_string).collect();
    format!("({})", texts.join(", "))
}

// tidy: table
fn argument(arg: &Arg, dtype: DType, names: &Names) -> String {
    match arg {
        Arg::None => String::new(),
        Arg::Scalar(value) => print_literal(*value, dtype),
        Arg::Shape(shape) => dims(shape, names),
        Arg::Axes(list) => axes(list),
        Arg::Bounds(bounds) if bounds.is_empty() => "[:]".to_string(),
        Arg::Bounds(bounds) => {
            let pair = |(low, high): &(Dim, Dim)| format!("{}:{}", dim(low, names), dim(high, names));
            let texts: Vec<String> = bounds.iter().map(pair).collect();
            format!("[{}]", texts.join(", "))
        }
        Arg::Strided(strided) => format!(
            "{} strides {} offset {}",
            dims(&strided.shape, names),
            dims(&strided.strides, names),
            dim(&strided.offset, names)
        ),
        Arg::Reduce(op, list) => format!("{} {}", op.name(), axes(list)),
        Arg::Combine(op) => op.name().to_string(),
        Arg::Scan(op, axis) => format!("{} axis {axis}", op.name()),
        Arg::ScanState(combiner, axis) => format!("{} axis {axis}", combiner.name()),
        Arg::Scatter(op, axis) => format!("{} axis {axis}", op.map_or("replace", ReduceOp::name)),
        Arg::ReduceState(Component { combiner, number }, list) => {
            format!("{} #{number} {}", combiner.name(), axes(list))
        }
        Arg::CombineState(Component { combiner, number }) => format!("{} #{number}", combiner.name()),
        Arg::Step(Component { combiner, number }) => format!("step {} #{number}", combiner.name()),
        Arg::Buffer(buffer) => format!("#{} [{}] {}", buffer.id, buffer.len, quoted(&buffer.device)),
        Arg::Param(param) => format!("#{} [{}]", param.slot, param.len),
        Arg::Variable(variable) => format!("{} {}..{}", quoted(&variable.name), variable.min, variable.max),
        Arg::Range(range) => format!("{} #{}", range.kind.name(), range.id),
        Arg::Axis(axis) => format!("axis {axis}"),
        Arg::Number(number) => format!("#{number}"),
        Arg::Scratch(number, len, MemorySpace::Private) => format!("#{number} [{len}]"),
        Arg::Scratch(number, len, space) => format!("{} #{number} [{len}]", space.name()),
        Arg::Device(device) => quoted(device),
        Arg::Function(function) => quoted(function.name()),
        Arg::View(steps) if steps.is_empty() => String::new(),
        Arg::View(steps) => {
            let step = |(op, arg): &(Op, Arg)| format!(" {op} {}", argument(arg, dtype, names));
            format!("through{}", steps.iter().map(step).collect::<String>())
        }
    }
}
