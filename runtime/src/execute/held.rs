//! What nodes hold: their memory, or the node that has their elements since they were computed.
//!
//! A `Buffer` node holds its [`Buffer`]. A node that was computed holds the `Buffer` node with its elements in row-major order, under no reshape, so every
//! graph that contains it finds them. Nodes of constants hold nothing: programs of all devices share them.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use warpweft_compiler::Op;
use warpweft_compiler::ir::{Arg, UOp};
use warpweft_compiler::schedule::ANONYMOUS;
use warpweft_devices::{BufferSlice, elements};

use super::{ExecuteError, Placeholder, realize};
use crate::memory::Buffer;

/// What a computed node holds: the `Buffer` node with its elements in row-major order.
struct Realised(UOp);

/// The elements of a computed value, in row-major order, as bytes.
///
/// # Errors
/// As [`realize`].
pub fn to_bytes(value: &UOp) -> Result<Vec<u8>, ExecuteError> {
    with_bytes(value, copied)
}

/// Hands the bytes of a value's elements, in row-major order, to a closure; computes the value if it was not. Nothing replaces them in
/// memory meanwhile, since the value is known here.
pub(crate) fn with_bytes<R>(
    value: &UOp,
    read: impl FnOnce(BufferSlice<'_>) -> Result<R, ExecuteError>,
) -> Result<R, ExecuteError> {
    match base_memory(value) {
        Some(_) => with_stored(value, read),
        None => with_stored(&realize(std::slice::from_ref(value))?.remove(0), read),
    }
}

/// The memory of a `Buffer` node, if it is one and this runtime made it.
pub fn memory_of(buffer: &UOp) -> Option<&Buffer> {
    buffer.held::<Buffer>()
}

/// The `Buffer` node that a node is, under any shape, or that holds its elements since it was computed.
pub fn computed_buffer(node: &UOp) -> Option<UOp> {
    base_memory(node).cloned().or_else(|| computed(node))
}

/// The `Buffer` node that a node is under reshapes, its elements from the first on in row-major order; more may follow them.
pub fn base_memory(node: &UOp) -> Option<&UOp> {
    let below = without_reshapes(node);
    let base = match (below.op(), below.arg()) {
        (Op::Shrink, Arg::Bounds(bounds)) if bounds.len() == 1 && bounds[0].0.is(0) => &below.src()[0],
        _ => below,
    };
    (base.op() == Op::Buffer).then_some(base)
}

/// The node with a node's elements, if it was computed.
pub(crate) fn computed(node: &UOp) -> Option<UOp> {
    node.held::<Realised>().map(|realised| realised.0.clone())
}

fn without_reshapes(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Reshape {
        node = &node.src()[0];
    }
    node
}

/// Why a `Buffer` node has no memory.
pub(crate) fn missing(buffer: &UOp) -> ExecuteError {
    match buffer.held::<Placeholder>() {
        Some(Placeholder::Traced) => ExecuteError::Traced,
        Some(Placeholder::Donated) => ExecuteError::Donated,
        None => ExecuteError::NoMemory,
    }
}

/// Lets a value that was computed hold the node with its elements. Nodes of constants are shared by all programs, on whatever devices, so they
/// cannot stand for memory of one; those of random numbers are of one draw.
pub(super) fn hold_stored(value: &UOp, stored: &UOp) {
    if !reads_memory(value) {
        return;
    }
    let base = without_reshapes(value);
    if let Some(node) = base_memory(stored).filter(|node| *node != base) {
        // What is stored is the value under its reshapes, row-major as all of them.
        base.hold(Arc::new(Realised(node.clone())));
        value.hold(Arc::new(Realised(node.clone())));
    }
}

/// Whether a value is made of memory or of random numbers, and not of constants alone.
fn reads_memory(value: &UOp) -> bool {
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    let mut pending = vec![value];
    while let Some(node) = pending.pop() {
        let is_drawn = || matches!(node.arg(), Arg::Variable(variable) if variable.name == ANONYMOUS);
        if node.op() == Op::Buffer || node.held::<Realised>().is_some() || is_drawn() {
            return true;
        }
        if seen.insert(node) {
            pending.extend(node.src());
        }
    }
    false
}

/// The bytes of a node that [`realize`] gave.
pub(super) fn read_stored(stored: &UOp) -> Result<Vec<u8>, ExecuteError> {
    with_stored(stored, copied)
}

fn copied(bytes: BufferSlice<'_>) -> Result<Vec<u8>, ExecuteError> {
    Ok(elements::to_vec(bytes)?.unwrap_or_default()) // bytes are never refused
}

fn with_stored<R>(
    stored: &UOp,
    read: impl FnOnce(BufferSlice<'_>) -> Result<R, ExecuteError>,
) -> Result<R, ExecuteError> {
    let base = base_memory(stored).ok_or(ExecuteError::NoMemory)?;
    let memory = memory_of(base).ok_or_else(|| missing(base))?;
    let elements = stored.shape().numel().value().map_err(|name| ExecuteError::Unbound { name })?.max(0) as usize;
    memory.with_host((elements * stored.dtype().bytes()).min(memory.bytes()), read)
}

/// Whether a buffer holds what was computed from constants alone.
pub(crate) fn is_of_constants(buffer: &UOp) -> bool {
    memory_of(buffer).is_some_and(Buffer::is_of_constants)
}
