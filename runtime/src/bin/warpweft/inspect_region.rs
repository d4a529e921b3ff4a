//! `warpweft inspect FILE.uop --stage region`: the views of a graph as sets of elements, drawn, and which of them share elements.
//!
//! A view is a chain of movement ops on a param that something else than movement uses (or the graph returns), or that a write replaces.
//! It is drawn over its param in the shape that the header gives it: `1` for an element that it shows, `.` for one that it does not; how it
//! nests in strides is said beside. Drawings are left out of memory too large to look at.

use std::fmt::Write;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Op, postorder};
use warpweft_compiler::region::draw::draw_elements;
use warpweft_compiler::region::{AliasGraph, Answer, TensorId};
use warpweft_compiler::schedule::aliases::MemoryViews;
use warpweft_compiler::view::{ViewSpec, collect_movement_chain};

/// Longer rows are not drawn.
const COLUMNS_MAX: i64 = 160;
/// More elements are not drawn.
const ELEMENTS_MAX: i64 = 1 << 14;

struct View {
    name: String,
    id: TensorId,
    allocation: TensorId,
    param: UOp,
    /// The shape that it is drawn in.
    shape: Vec<i64>,
    spec: Option<ViewSpec>,
}

/// The views of a graph, drawn.
pub(crate) fn text(graph: &Graph) -> String {
    let mut memory = MemoryViews::new();
    let mut views: Vec<View> = Vec::new();
    for node in viewed(graph) {
        let (param, steps) = collect_movement_chain(&node);
        if param.op() != Op::Param || steps.is_empty() {
            continue;
        }
        let shape = shape_of(graph, &param);
        if let (Some(allocation), Some(id)) = (memory.memory(&param), memory.view(&node)) {
            let names: Vec<String> = steps.iter().map(|step| step.op().to_string()).collect();
            let name = format!("view {} of {}: {}", views.len(), name_of(graph, &param), names.join(", "));
            views.push(View { name, id, allocation, param, shape, spec: ViewSpec::of_node(&node).cloned() });
        }
    }
    let mut text = String::new();
    for view in &views {
        draw(&mut text, memory.aliases(), view);
    }
    for (number, a) in views.iter().enumerate() {
        for (other, b) in views.iter().enumerate().skip(number + 1).filter(|(_, b)| b.param == a.param) {
            let answer = match memory.aliases().intersects(a.id, b.id) {
                Ok(Answer::Yes) => "share elements",
                Ok(Answer::No) => "lie apart",
                Ok(Answer::Unknown) | Err(_) => "may share elements: it would take too long to know",
            };
            let _ = writeln!(text, "views {number} and {other} {answer}");
        }
    }
    if views.is_empty() {
        text.push_str("no views of params\n");
    }
    text
}

/// What ops that do not move elements are given, and what writes replace.
fn viewed(graph: &Graph) -> Vec<UOp> {
    let mut viewed: Vec<UOp> = Vec::new();
    let mut take = |node: UOp| {
        if node.op().is_movement() && !is_header(graph, &node) && !viewed.contains(&node) {
            viewed.push(node);
        }
    };
    for node in postorder(&graph.roots).iter().filter(|node| !node.op().is_movement()) {
        if let (Op::Write, Arg::View(steps)) = (node.op(), node.arg()) {
            take(node.src()[0].through(steps));
        }
        node.src().iter().cloned().for_each(&mut take);
    }
    graph.roots.iter().cloned().for_each(&mut take);
    viewed
}

fn is_header(graph: &Graph, node: &UOp) -> bool {
    graph.parameters.iter().any(|parameter| parameter.node == *node)
}

fn shape_of(graph: &Graph, param: &UOp) -> Vec<i64> {
    let entry = graph.parameters.iter().find(|parameter| collect_movement_chain(&parameter.node).0 == *param);
    entry.map_or(param, |entry| &entry.node).shape().as_const().unwrap_or_default()
}

fn name_of(graph: &Graph, param: &UOp) -> String {
    let entry = graph.parameters.iter().find(|parameter| collect_movement_chain(&parameter.node).0 == *param);
    entry.map(|entry| entry.name.clone()).unwrap_or_default()
}

fn draw(text: &mut String, aliases: &AliasGraph, view: &View) {
    let _ = writeln!(text, "{}", view.name);
    let _ = match &view.spec {
        Some(spec) => writeln!(text, "  {} strides {} offset {}", spec.shape, spec.strides, spec.offset),
        None => writeln!(text, "  no strides describe it"),
    };
    let Ok(Ok(elements)) = aliases.elements(view.id, view.allocation) else {
        text.push_str("  too many pieces to say\n");
        return;
    };
    let all: i64 = view.shape.iter().product();
    let repeats = match aliases.aliases_itself(view.id) {
        Ok(Answer::No) => "each once",
        Ok(Answer::Yes) => "some more than once",
        Ok(Answer::Unknown) | Err(_) => "perhaps some more than once",
    };
    let _ =
        writeln!(text, "  {} of {all} elements, {repeats}, in {} pieces", elements.count(), elements.pieces().len());
    if all <= ELEMENTS_MAX && view.shape.last().is_none_or(|&columns| columns <= COLUMNS_MAX) {
        text.push_str(&draw_elements(&elements, &view.shape));
    }
}
