//! Scheduling: a program of tensors becomes a list of kernels.
//!
//! ```text
//! values --normalize--> key --prepare--> what must exist --fuse--> who stores what --split--> kernel ASTs --in_order--> schedule
//!          (memory out)       (realize)                   (fuse)                     (cut)
//! ```
//!
//! [`normalize`] takes memory and bound values out of the graph; its sink is the key under which a schedule is kept. [`schedule`]
//! does the rest. A kernel is a *nest* of loops, not one reduction: several reductions that share their outer loops are one
//! kernel, and a kernel may store several values. What shares a kernel is a matter of cost (`fuse`, in the units of `cost`);
//! whether the outcome is legal is checked apart from that ([`mod@check`]).
//!
//! What lowering can rely on, beyond what [`mod@check`] lists: stores of one kernel share their leading loops as far as their shapes
//! (axes of length 1 left out) agree; where an inlined reduction depends on some of the outer loops alone, all such sets of loops
//! in a kernel form a chain, so that one order of the outer loops lets every reduction stand outside of the loops that it does not
//! depend on. That order need not be the order of the axes (softmax along the first axis). Where recomputing is cheaper than a
//! second kernel, a reduction may stand inside of a loop that it does not depend on.
//!
//! Always: the same graph gives the same kernels in the same order. Time is linear in the size of the graph.
//! Not here: where buffers lie (`memory_plan`, `runtime`), how a kernel's loops are laid out (`kernel`, `optimize`).

pub mod check;
mod cut;
mod fusion;
mod kernel_order;
mod program;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use fusion::{cost, fuse, fuse_writes};
pub use program::aliases;
use program::{graph, indices, normalize, offsets, realize, writes};

pub use check::check;
pub use normalize::{ANONYMOUS, Normalized, normalize, normalize_for_writes, normalized_nodes, view_of};
pub use offsets::{Bound, Offsets};

use rustc_hash::FxHashMap;

use crate::DType;
use crate::error::CompileError;
use crate::ir::text::{Graph as TextGraph, print_with_lines};
use crate::ir::{Arg, Op, UOp, postorder};
use crate::target::Costs;
use crate::watch::{CutNode, Report, Silent, Topic, Watch};
use graph::Graph;

/// A program as kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The kernels in the order in which they run.
    pub kernels: Vec<ScheduledKernel>,
    /// All memory that they name: first the program's params by slot, then what kernels store in the order in which they do.
    pub buffers: Vec<ScheduleBuffer>,
    /// The buffer of each value of the program, in row-major order.
    pub outputs: Vec<usize>,
}

/// One kernel and the memory that it works on.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledKernel {
    /// Sink of stores of tensor values into params; see [`split`](self).
    pub ast: UOp,
    /// The schedule's buffer that each param of the AST is, by slot.
    pub buffers: Vec<usize>,
    /// What its variables are, by number: where its views begin, and variables of the program.
    pub offsets: Offsets,
}

/// Memory that a schedule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleBuffer {
    /// Type of its elements.
    pub dtype: DType,
    /// Elements.
    pub len: u64,
    /// Where it comes from.
    pub role: BufferRole,
}

/// Where memory comes from and whither it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferRole {
    /// Given to the program: the memory of this slot of its params.
    Param(u32),
    /// Stored by a kernel and asked for: the first value of the program that it holds.
    Output(usize),
    /// Stored by a kernel and only loaded by others.
    Temporary,
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleOptions {
    /// Whether values may share kernels; else each op is a kernel of its own.
    pub fuse: bool,
    /// What things cost on the machine that it is for.
    pub costs: Costs,
}

impl Default for ScheduleOptions {
    fn default() -> ScheduleOptions {
        ScheduleOptions { fuse: true, costs: Costs::cpu() }
    }
}

/// The kernels that compute the values of a normalized sink.
///
/// # Errors
/// When an op cannot be part of a kernel, as a copy to another device.
pub fn schedule(sink: &UOp) -> Result<Schedule, CompileError> {
    schedule_with(sink, ScheduleOptions::default(), &mut Silent)
}

/// As [`schedule`], with choices, and with somebody who is told what was fused and why.
///
/// # Errors
/// As [`schedule`].
pub fn schedule_with(sink: &UOp, options: ScheduleOptions, watch: &mut dyn Watch) -> Result<Schedule, CompileError> {
    scheduled(sink, options, watch, None)
}

/// For each kernel that [`schedule_with`] makes of a sink, the nodes of the program that it stores, or the nearest that those are made of.
///
/// # Errors
/// As [`schedule`].
pub fn stored_values(sink: &UOp, options: ScheduleOptions) -> Result<Vec<Vec<UOp>>, CompileError> {
    let mut origins = realize::Origins::default();
    scheduled(sink, options, &mut Silent, Some(&mut origins))?;
    Ok(origins.of_kernels)
}

fn scheduled(
    sink: &UOp,
    options: ScheduleOptions,
    watch: &mut dyn Watch,
    mut origins: Option<&mut realize::Origins>,
) -> Result<Schedule, CompileError> {
    let values = realize::prepare(sink.src(), options.fuse.then_some(&options.costs), origins.as_deref_mut())?;
    let (values, nodes) = writes::in_order(values, watch);
    let graph = Graph::of(&values, nodes, &options.costs);
    let fused = fuse::fuse(&graph, options.fuse, watch);
    let pieces = kernel_order::in_order(&graph, cut::split(&graph, &fused));
    #[cfg(debug_assertions)]
    if let Err(message) = check::check_order(&graph, &pieces) {
        panic!("bug in the compiler: illegal schedule: {message}");
    }
    if watch.wants(Topic::Cut) {
        watch.report(Report::Cut { nodes: &cut_nodes(&graph, &pieces) });
    }
    let mut schedule = Schedule { kernels: Vec::new(), buffers: params_of(sink), outputs: Vec::new() };
    let mut buffer_of: FxHashMap<u32, usize> = FxHashMap::default();
    for (position, node) in graph.nodes.iter().enumerate() {
        if let (Op::Param, Arg::Param(param)) = (node.op(), node.arg()) {
            buffer_of.insert(position as u32, param.slot as usize);
        }
    }
    let mut first_output: FxHashMap<u32, usize> = FxHashMap::default();
    for (number, &position) in graph.outputs.iter().enumerate() {
        first_output.entry(graph.memory_of(position)).or_insert(number);
    }
    let add = |schedule: &mut Schedule, buffer_of: &mut FxHashMap<u32, usize>, position: u32| {
        let position = graph.memory_of(position);
        *buffer_of.entry(position).or_insert_with(|| {
            let node = &graph.nodes[position as usize];
            let role = first_output.get(&position).copied().map_or(BufferRole::Temporary, BufferRole::Output);
            schedule.buffers.push(ScheduleBuffer { dtype: node.dtype(), len: cut::elements(node.shape()), role });
            schedule.buffers.len() - 1
        })
    };
    for piece in pieces {
        if let Some(origins) = &mut origins {
            origins.add_kernel(piece.stores.iter().map(|&position| &graph.nodes[position as usize]));
        }
        let buffers = piece.memory.iter().map(|&position| add(&mut schedule, &mut buffer_of, position)).collect();
        let (ast, offsets) = offsets::take_out_offsets(&piece.ast);
        schedule.kernels.push(ScheduledKernel { ast, buffers, offsets });
    }
    for &output in &graph.outputs {
        // What lies in memory already is not copied.
        let is_stored = graph.must_store[output as usize];
        let base = if is_stored { output } else { graph.below_reshapes(output) };
        let buffer = add(&mut schedule, &mut buffer_of, base);
        schedule.outputs.push(buffer);
    }
    if watch.wants(Topic::Passes) {
        let text = || schedule.kernels.iter().map(|kernel| format!("{:?}\n", kernel.ast)).collect();
        watch.report(Report::Pass { name: "schedule", nodes: graph.nodes.len(), text: &text });
    }
    #[cfg(debug_assertions)]
    if let Err(message) = check(&schedule) {
        panic!("bug in the compiler: illegal schedule: {message}");
    }
    Ok(schedule)
}

/// The nodes of a program, each with the kernels that compute it.
fn cut_nodes(graph: &Graph, pieces: &[cut::Piece]) -> Vec<CutNode> {
    let of = |(position, node): (usize, &UOp)| CutNode {
        op: match node.arg() {
            Arg::Param(param) => format!("{} {}", node.op(), param.slot),
            _ => node.op().to_string(),
        },
        dtype: node.dtype().to_string(),
        shape: node.shape().to_string(),
        operands: graph.src[position].to_vec(),
        ..CutNode::default()
    };
    let mut nodes: Vec<CutNode> = graph.nodes.iter().enumerate().map(of).collect();
    for (piece, number) in pieces.iter().zip(0u32..) {
        // Where views begin is taken out of a kernel, and what stands above such a view is another node then.
        let is_kept = offsets::take_out_offsets(&piece.ast).0 == piece.ast;
        let lines = is_kept.then(|| print_with_lines(&TextGraph::new("kernel", [piece.ast.clone()])).1);
        for &position in &piece.members {
            let line = lines.as_ref().and_then(|lines| lines.get(piece.values.get(&position)?).copied());
            nodes[position as usize].computed_by.push((number, line));
        }
        for &position in &piece.stores {
            nodes[position as usize].stored_by = Some(number);
        }
    }
    nodes
}

/// The params of a program, by slot. A slot that the program does not name has no elements.
fn params_of(sink: &UOp) -> Vec<ScheduleBuffer> {
    let mut buffers: Vec<ScheduleBuffer> = Vec::new();
    for node in postorder(sink.src()) {
        if let (Op::Param, Arg::Param(param)) = (node.op(), node.arg()) {
            let slot = param.slot as usize;
            while buffers.len() <= slot {
                let role = BufferRole::Param(buffers.len() as u32);
                buffers.push(ScheduleBuffer { dtype: DType::U8, len: 0, role });
            }
            buffers[slot] = ScheduleBuffer { dtype: node.dtype(), len: param.len, role: buffers[slot].role };
        }
    }
    buffers
}
