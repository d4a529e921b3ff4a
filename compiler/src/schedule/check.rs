//! Whether a schedule is legal, found out from the schedule alone, without asking how it was made.
//!
//! Checked: a kernel is a sink of stores into the params that come first, each of its value's type and length; its values hold only
//! what a kernel can compute; its params are its buffers, in type and length, no buffer twice; it loads what exists (a param of
//! the schedule, or what an earlier kernel stored) and stores what nothing has stored before, never a param; after the last kernel every
//! output exists. Runs after each scheduling in debug builds, and in the tests over everything that they schedule.

use rustc_hash::FxHashSet;

use super::{BufferRole, Schedule, ScheduledKernel};
use crate::ir::{Arg, Op, UOp, postorder};

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
        let (stored, loaded) = kernel.buffers.split_at(stores);
        if let Some(missing) = loaded.iter().find(|buffer| !exists.contains(buffer)) {
            return Err(format!("kernel {number}: loads buffer {missing} before it is stored"));
        }
        for &buffer in stored {
            if !exists.insert(buffer) {
                return Err(format!("kernel {number}: stores buffer {buffer}, which has a value already"));
            }
        }
    }
    match schedule.outputs.iter().find(|output| !exists.contains(output)) {
        Some(output) => Err(format!("output buffer {output} is never stored")),
        None => Ok(()),
    }
}

/// The number of stores of a kernel that is well-formed in itself.
fn check_kernel(schedule: &Schedule, kernel: &ScheduledKernel) -> Result<usize, String> {
    if kernel.ast.op() != Op::Sink || kernel.ast.src().is_empty() {
        return Err(format!("is a {}, not a sink of stores", kernel.ast.op()));
    }
    let distinct: FxHashSet<usize> = kernel.buffers.iter().copied().collect();
    if distinct.len() != kernel.buffers.len() {
        return Err("names a buffer twice".to_string());
    }
    for (slot, store) in kernel.ast.src().iter().enumerate() {
        let (Op::Store, [target, value]) = (store.op(), store.src()) else {
            return Err(format!("operand {slot} is a {}, not a store", store.op()));
        };
        let Arg::Param(param) = target.arg() else { return Err(format!("store {slot} is not into a param")) };
        let elements = value.shape().numel().max_value();
        if param.slot as usize != slot || target.dtype() != value.dtype() || param.len as i64 != elements {
            return Err(format!("store {slot} puts {elements} {} into {target:?}", value.dtype()));
        }
    }
    let stores = kernel.ast.src().len();
    let mut loaded = vec![false; kernel.buffers.len()];
    let values: Vec<UOp> = kernel.ast.src().iter().map(|store| store.src()[1].clone()).collect();
    for node in postorder(&values) {
        match (node.op(), node.arg()) {
            (Op::Param, Arg::Param(param)) => {
                let slot = param.slot as usize;
                if slot < stores || slot >= kernel.buffers.len() {
                    return Err(format!("loads slot {slot} of {}, of which {stores} are stored", kernel.buffers.len()));
                }
                let buffer = &schedule.buffers[kernel.buffers[slot]];
                if buffer.dtype != node.dtype() || buffer.len != param.len {
                    return Err(format!(
                        "slot {slot} is {} {}, its buffer {} {}",
                        param.len,
                        node.dtype(),
                        buffer.len,
                        buffer.dtype
                    ));
                }
                loaded[slot] = true;
            }
            (Op::Const | Op::Iota | Op::Variable | Op::Reduce | Op::Gather | Op::Keep, _) => {}
            (op, _) if op.is_elementwise() || op.is_movement() => {}
            (op, _) => return Err(format!("holds a {op}, which no kernel computes")),
        }
    }
    match (stores..kernel.buffers.len()).find(|&slot| !loaded[slot]) {
        Some(slot) => Err(format!("never loads its slot {slot}")),
        None => Ok(stores),
    }
}
