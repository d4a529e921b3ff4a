//! Whether a schedule is legal, found out from the schedule alone, without asking how it was made.
//!
//! Checked: a kernel is a sink of stores into views of the params that come first, each of its value's type and length; its values
//! hold only what a kernel can compute; its params are its buffers, in type and length, no buffer twice; it loads what exists (a param
//! of the schedule, or what an earlier kernel stored); what it stores into a buffer that exists replaces part of it, and into any other
//! is all of it, and what it scatters into it does not load; after the last kernel every output exists. Whether replacing comes at the right time is asked of the program
//! (`check_order`): a kernel runs after those that store the versions which it loads or replaces, and before any that replaces
//! what it reads. Both run after each scheduling in debug builds, the first in the tests over everything that they schedule.

#[cfg(debug_assertions)]
use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use super::{BufferRole, Schedule, ScheduledKernel};
#[cfg(debug_assertions)]
use super::{cut::Piece, graph::Graph};
use crate::ir::{Arg, Op, ParamArg, UOp, postorder};
use crate::view::collect_movement_chain;

/// The first thing about the schedule that is not legal.
///
/// # Errors
/// A sentence that names the kernel and what is wrong with it.
pub fn check(schedule: &Schedule) -> Result<(), String> {
    let is_param = |&buffer: &usize| matches!(schedule.buffers[buffer].role, BufferRole::Param(_));
    // What exists so far; memory of no elements needs no kernel.
    let mut exists: FxHashSet<usize> =
        (0..schedule.buffers.len()).filter(|buffer| is_param(buffer) || schedule.buffers[*buffer].len == 0).collect();
    for (number, kernel) in schedule.kernels.iter().enumerate() {
        let stores = check_kernel(schedule, kernel).map_err(|message| format!("kernel {number}: {message}"))?;
        let loaded = (0..kernel.buffers.len()).filter(|&slot| stores.loaded[slot]).map(|slot| &kernel.buffers[slot]);
        if let Some(missing) = loaded.into_iter().find(|buffer| !exists.contains(buffer)) {
            return Err(format!("kernel {number}: loads buffer {missing} before it is stored"));
        }
        for (&slot, &is_part) in stores.slots.iter().zip(&stores.are_parts) {
            let buffer = kernel.buffers[slot];
            if is_part && !exists.contains(&buffer) {
                return Err(format!("kernel {number}: replaces part of buffer {buffer} before it is stored"));
            }
        }
        exists.extend(stores.slots.iter().map(|&slot| kernel.buffers[slot]));
    }
    match schedule.outputs.iter().find(|output| !exists.contains(output)) {
        Some(output) => Err(format!("output buffer {output} is never stored")),
        None => Ok(()),
    }
}

/// What a kernel stores and loads, by slot.
struct Stores {
    slots: Vec<usize>,
    /// Whether each store leaves elements of its buffer as they are.
    are_parts: Vec<bool>,
    loaded: Vec<bool>,
}

/// The stores of a kernel that is well-formed in itself.
fn check_kernel(schedule: &Schedule, kernel: &ScheduledKernel) -> Result<Stores, String> {
    if kernel.ast.op() != Op::Sink || kernel.ast.src().is_empty() {
        return Err(format!("is a {}, not a sink of stores", kernel.ast.op()));
    }
    let distinct: FxHashSet<usize> = kernel.buffers.iter().copied().collect();
    if distinct.len() != kernel.buffers.len() {
        return Err("names a buffer twice".to_string());
    }
    let mut stores = Stores { slots: Vec::new(), are_parts: Vec::new(), loaded: vec![false; kernel.buffers.len()] };
    for (number, store) in kernel.ast.src().iter().enumerate() {
        let (Op::Store, [target, value, index @ ..]) = (store.op(), store.src()) else {
            return Err(format!("operand {number} is a {}, not a store", store.op()));
        };
        let (base, steps) = collect_movement_chain(target);
        let Arg::Param(param) = base.arg() else { return Err(format!("store {number} is not into a param")) };
        let slot = param.slot as usize;
        // Stored params come first, numbered as they are met.
        let known = stores.slots.iter().max().map_or(0, |last| last + 1);
        let (room, elements) = (target.shape().numel().max_value(), value.shape().numel().max_value());
        // What an index puts somewhere is as long as the index.
        let fits = (room == elements || !index.is_empty())
            && target.dtype() == value.dtype()
            && steps.iter().all(|step| step.op() != Op::Pad);
        if slot > known || !fits {
            return Err(format!("store {number} puts {elements} {} into {target:?}", value.dtype()));
        }
        stores.slots.push(slot);
        stores.are_parts.push(room != param.len as i64 || !index.is_empty());
    }
    let values: Vec<UOp> = kernel.ast.src().iter().flat_map(|store| store.src()[1..].to_vec()).collect();
    for node in postorder(&values) {
        match (node.op(), node.arg()) {
            (Op::Param, Arg::Param(param)) => check_param(schedule, kernel, &node, *param, &mut stores.loaded)?,
            (Op::Const | Op::Iota | Op::Variable | Op::Reduce | Op::Scan | Op::Gather | Op::Materialize, _) => {}
            (Op::Fetch | Op::Place, _) => {}
            (op, _) if op.is_elementwise() || op.is_movement() => {}
            (op, _) => return Err(format!("holds a {op}, which no kernel computes")),
        }
    }
    let scatters = kernel.ast.src().iter().zip(&stores.slots).filter(|(store, _)| store.src().len() > 2);
    if let Some((_, slot)) = scatters.into_iter().find(|(_, slot)| stores.loaded[**slot]) {
        return Err(format!("loads slot {slot}, into which it scatters"));
    }
    match (0..kernel.buffers.len()).find(|slot| !stores.loaded[*slot] && !stores.slots.contains(slot)) {
        Some(slot) => Err(format!("never uses its slot {slot}")),
        None => Ok(stores),
    }
}

fn check_param(
    schedule: &Schedule,
    kernel: &ScheduledKernel,
    node: &UOp,
    param: ParamArg,
    loaded: &mut [bool],
) -> Result<(), String> {
    let slot = param.slot as usize;
    if slot >= kernel.buffers.len() {
        return Err(format!("loads slot {slot} of {}", kernel.buffers.len()));
    }
    let buffer = &schedule.buffers[kernel.buffers[slot]];
    if buffer.dtype != node.dtype() || buffer.len != param.len {
        let (len, dtype) = (param.len, node.dtype());
        return Err(format!("slot {slot} is {len} {dtype}, its buffer {} {}", buffer.len, buffer.dtype));
    }
    loaded[slot] = true;
    Ok(())
}

/// The first kernel that does not run at the time at which it must.
///
/// # Errors
/// A sentence that names both kernels.
#[cfg(debug_assertions)]
pub(super) fn check_order(graph: &Graph, pieces: &[Piece]) -> Result<(), String> {
    let numbered = pieces.iter().enumerate();
    let at: FxHashMap<u32, usize> =
        numbered.flat_map(|(number, piece)| piece.stores.iter().map(move |&store| (store, number))).collect();
    for (number, piece) in pieces.iter().enumerate() {
        let bases = piece.stores.iter().filter(|&&store| graph.nodes[store as usize].op() == Op::Write);
        let bases = bases.map(|&store| graph.src[store as usize][0]);
        for version in piece.loads.iter().copied().chain(bases) {
            if let Some(storing) = at.get(&version).filter(|&&storing| storing > number) {
                return Err(format!("kernel {number} needs what kernel {storing} stores after it"));
            }
        }
        for (_, guard) in piece.members.iter().filter_map(|member| graph.guards.get(member)).flatten() {
            if let Some(writing) = at.get(guard).filter(|&&writing| writing < number) {
                return Err(format!("kernel {number} reads what kernel {writing} has replaced"));
            }
        }
    }
    Ok(())
}
