//! Values that are unpacked from fewer bytes than they take: weights of few bits, and numbers that were cast to a wider type.
//!
//! Such a value is made of its bytes by movement and cheap arithmetic alone. A kernel that uses it computes that again and reads the bytes, which is less
//! than reading the value. So a trace does not compute it once and for all, as it does with other tensors of the outside: its expression becomes part of the
//! function (`function::trace`).
//!
//! Always: what it is made of is memory of one device, or a value that was computed. Random numbers, which are made of no memory, and what takes more than
//! unpacking (sums, exponentials) are none. Tested by tests/it/packed.rs.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Op};

use crate::execute;

/// The most nodes between the bytes and the value.
const NODES_MAX: usize = 512;

/// The device of the bytes that a value is unpacked from; none if it is no such value, or was computed already.
pub(in crate::tensor) fn device_of_packed(value: &UOp) -> Option<Arc<str>> {
    let own = bytes(value)?;
    if execute::computed_buffer(value).is_some() {
        return None;
    }
    let (mut pending, mut seen) = (vec![value.clone()], FxHashSet::default());
    let (mut device, mut read) = (None::<Arc<str>>, 0u64);
    while let Some(node) = pending.pop() {
        if !seen.insert(node.clone()) {
            continue;
        }
        match execute::computed_buffer(&node) {
            Some(memory) if node.op() == Op::Buffer || execute::base_memory(&node).is_none() => {
                let Arg::Buffer(arg) = memory.arg() else { return None };
                if *device.get_or_insert_with(|| arg.device.clone()) != arg.device {
                    return None;
                }
                read += bytes(&node)?;
            }
            _ if is_unpacking(node.op()) && seen.len() <= NODES_MAX => pending.extend(node.src().iter().cloned()),
            _ => return None,
        }
    }
    device.filter(|_| read < own)
}

/// The bytes that a value takes in memory; none if a length is symbolic.
fn bytes(value: &UOp) -> Option<u64> {
    let count = u64::try_from(value.shape().numel().as_const()?).ok()?;
    count.checked_mul(value.dtype().bytes() as u64)
}

/// Ops of which an expression that unpacks is made: those that are as cheap as a load.
fn is_unpacking(op: Op) -> bool {
    match op {
        Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos => false,
        Op::Const | Op::Iota | Op::Gather | Op::Detach => true,
        _ => op.is_elementwise() || op.is_movement(),
    }
}
