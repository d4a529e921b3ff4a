//! Running programs: from lazy graphs to values in memory.
//!
//! ```text
//! values --normalize--> key --plan cache--> plan --launch--> buffers
//!                             | not there: schedule, then for each kernel that is new:
//!                             |   lower, render, find on disk or compile (in parallel), load
//! ```
//!
//! A *plan* is a schedule with its kernels loaded; it is kept under the normalized graph, so a program that has run before
//! costs a walk over its graph, a lookup and its launches. Memory belongs to nodes: a `Buffer` node holds its [`Buffer`], and a node
//! that has been computed holds the `Buffer` node with its elements, so that every graph which contains it finds them, and all
//! is freed with the last graph that needs it.
//!
//! Always: no lock is held while a kernel compiles or runs. Errors name the op or the kernel.
//! Not here: which kernels there are (`compiler::schedule`), memory (`memory`), machines (`devices`).

mod bounded_map;
mod checks;
pub(crate) mod compile;
mod constants;
mod device_view;
mod error;
mod executor;
mod held;
mod internal;
mod origins;
mod ownership;
pub(crate) mod plan;
mod replay;
mod run;
mod shared_code;
mod stats;
mod stored;
mod timed;

use std::sync::Arc;
use std::time::Duration;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, UOp};
use warpweft_compiler::schedule::{Normalized, normalize, normalize_for_writes};
use warpweft_devices::{Device, DeviceError};

use crate::memory::Buffer;
use crate::registry;
use crate::search::Tuning;
pub(crate) use held::is_of_constants;

pub use checks::{IndexCall, IndexError};
pub(crate) use checks::{any_outside, checked, checked_below, is_any, look_at};
pub use device_view::DeviceView;
pub use error::ExecuteError;
pub use executor::Executor;
pub use held::{base_memory, computed_buffer, memory_of, to_bytes};
pub(crate) use held::{computed, missing, with_bytes};
pub use internal::InternalError;
pub(crate) use replay::{Pieces, Replay};
pub(crate) use run::{Placeholder, buffer_node, placeholder_node};
pub use stats::{ExecuteStats, KernelTotal};

/// Computes values, each once, and gives the `Buffer` node of each under the value's shape.
///
/// What has been computed before is not computed again. Values of one call share kernels.
///
/// # Errors
/// When the program is wrong, its device cannot run it, or memory does not suffice.
pub fn realize(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    look_at(&checked_below(values))?;
    realize_unchecked(values)
}

/// As [`realize`], whatever indices hold.
fn realize_unchecked(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    let normalized = normalize(values, computed)?;
    executor_of(&normalized)?.run_normalized(values, normalized)
}

/// Searches for faster kernels of the program that computes values, and keeps them for the programs that are planned afterwards.
///
/// # Errors
/// As [`Executor::tune`].
pub(crate) fn tune(values: &[UOp], budget: Duration) -> Result<Tuning, ExecuteError> {
    let normalized = normalize(values, computed)?;
    executor_of(&normalized)?.tune(&normalized.sink, budget, &mut |_| ())
}

/// As [`realize`] for values of which each has one owner beside this list, who is going to keep the outcome in its place: where nobody
/// else needs what a write replaces, it is replaced in its memory.
///
/// # Errors
/// As [`realize`]. Unless the device failed, nothing has been replaced then.
pub(crate) fn realize_in_place(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    look_at(&checked_below(values))?;
    let gives_way = ownership::unneeded_buffers(values);
    // What came from another library or was given to one is not ours to replace.
    let is_own = |buffer: &UOp| memory_of(buffer).is_some_and(Buffer::is_own);
    let normalized = normalize_for_writes(values, computed, |buffer| gives_way.contains(buffer) && is_own(buffer))?;
    drop(gives_way);
    executor_of(&normalized)?.run_normalized(values, normalized)
}

/// A `Buffer` node that holds a copy of `data`, on the device of that name; none means the one that `DEV` names.
///
/// # Errors
/// When the data are not as long as `len` elements, there is no such device, or memory does not suffice.
pub fn from_bytes(device: Option<&str>, dtype: DType, len: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
    registry::executor(device)?.with_room(dtype, len, len, data)
}

/// As [`from_bytes`], with memory for `room` elements, of which the data are the first.
///
/// # Errors
/// As [`from_bytes`].
pub fn from_bytes_with_room(
    device: Option<&str>,
    dtype: DType,
    len: u64,
    room: u64,
    data: &[u8],
) -> Result<UOp, ExecuteError> {
    registry::executor(device)?.with_room(dtype, len, room, data)
}

/// As [`from_bytes`], of numbers that do not depend on anything that a caller gave: they go along to the device of what they are computed with.
///
/// # Errors
/// As [`from_bytes`].
pub(crate) fn of_constants(dtype: DType, len: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
    let executor = registry::executor(None)?;
    let memory = Buffer::from_bytes(&executor.allocator, data)?.of_constants(true);
    Ok(run::buffer_node(memory, dtype, len, &executor.name))
}

/// A copy of a value's elements in memory of another executor's device, with room for `room` elements; computes the value if it was not.
pub(crate) fn copied_to(executor: &Executor, value: &UOp, room: u64) -> Result<UOp, ExecuteError> {
    let stored = match base_memory(value) {
        Some(_) => value.clone(),
        None => realize(std::slice::from_ref(value))?.remove(0),
    };
    let base = base_memory(&stored).ok_or(ExecuteError::NoMemory)?;
    let memory = memory_of(base).ok_or_else(|| missing(base))?;
    let elements = stored.shape().numel().value().map_err(|name| ExecuteError::Unbound { name })?.max(0) as u64;
    let (dtype, room) = (stored.dtype(), room.max(elements));
    let bytes = |elements: u64| elements as usize * dtype.bytes();
    let mut copy = memory.copied_to(&executor.allocator, bytes(elements), bytes(room))?;
    if let Some(known) = memory.known_bytes().and_then(|known| known.get(..bytes(elements))) {
        copy = copy.given(known);
    } else if memory.allocator().device().uses_host_memory() {
        copy = memory.with_host(bytes(elements), |data| {
            Ok::<_, ExecuteError>(copy.given(warpweft_devices::elements::as_elements(data).unwrap_or_default()))
        })?;
    }
    Ok(run::buffer_node(copy, dtype, room, &executor.name))
}

/// The executor of the device whose memory a program uses. What was computed from constants alone is where it was first asked for, which says nothing,
/// unless there is nothing else.
fn executor_of(program: &Normalized) -> Result<Arc<Executor>, ExecuteError> {
    let mut found: Option<&Arc<str>> = None;
    let mut belongs = false;
    for buffer in &program.buffers {
        let Arg::Buffer(arg) = buffer.arg() else { continue };
        match found {
            Some(first) if *first == arg.device => belongs |= !is_of_constants(buffer),
            Some(_) if is_of_constants(buffer) => {}
            Some(first) if belongs => {
                return Err(ExecuteError::MixedDevices { first: first.to_string(), second: arg.device.to_string() });
            }
            Some(_) | None => {
                found = Some(&arg.device);
                belongs = !is_of_constants(buffer);
            }
        }
    }
    registry::executor(found.map(|name| &**name))
}

/// The one function of this crate that makes a promise that no type can hold. It rests on this:
///
/// - Programs come from `program_of`, which lowers and renders, or with their objects from the cache on disk, where this user alone can
///   have put them (`cache/folder.rs`), under a key of all that they depend on.
/// - Launches of one program are ordered by its schedule. Memory that a program writes is its own, or what its caller holds alone or in its turn: see
///   `ownership.rs` and `function`.
/// - Nobody outside of this crate gets the device, its kernels or its memory: [`DeviceView`], and what is public of `memory`.
#[allow(unsafe_code, reason = "makes the promise of opening a device")]
pub(crate) fn open_device(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    // SAFETY: as argued above.
    unsafe { warpweft_devices::open(name, threads) }
}

#[cfg(test)]
mod tests;
