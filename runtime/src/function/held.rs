//! Tensors of the outside of which a function replaces some elements, as a row of a cache: they are replaced in memory.
//!
//! While the kernels run, the tensor's storage is held: whoever asks for it meanwhile waits, and then sees it whole, as with every write that is
//! carried out. Where somebody else still needs the old elements (a lazy tensor made of them, a result of a call before), the
//! function works on a copy, which takes their place.

use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Op};

use super::call::{Program, Source, Target, Value};
use crate::execute::{self, ExecuteError, Pieces};
use crate::memory::Buffer;
use crate::tensor::Result;
use crate::tensor::trace::{State, memory_node};

/// A tensor of the outside whose storage is held.
pub(super) struct Held<'program> {
    /// The number of the state.
    pub(super) number: usize,
    value: MutexGuard<'program, UOp>,
}

impl Held<'_> {
    /// Puts its new value in its place; gives the old one.
    pub(super) fn replace(&mut self, values: &[Value], stored: &[UOp]) -> UOp {
        let is_its = |value: &Value| matches!(value.target, Target::State(number) if number == self.number);
        let new = values.iter().zip(stored).find(|(value, _)| is_its(value)).map(|(_, stored)| stored.clone());
        let new = new.unwrap_or_else(|| self.value.clone());
        std::mem::replace(&mut *self.value, new)
    }
}

impl Program {
    /// Holds the storages of tensors that kernels write to, and puts their memory, or a copy of it, in its place among the pieces.
    pub(super) fn hold_replaced<'program>(
        &'program self,
        pieces: &mut Pieces,
    ) -> Result<SmallVec<[Held<'program>; 4]>> {
        let mut replaced: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (slot, source) in self.sources.iter().enumerate() {
            if let Source::State(number) = source
                && self.replay.plan.replaced[slot]
            {
                replaced.push((slot, *number));
            }
        }
        // Threads that need some of the same storages hold them in one order.
        replaced.sort_by_key(|(_, number)| Arc::as_ptr(&self.states[*number].0).addr());
        let mut held = SmallVec::new();
        for (slot, number) in replaced {
            let value = self.states[number].0.lock();
            let is_alone = is_alone(&value);
            let node = memory_node(&value)?;
            let memory = node.held::<Buffer>().ok_or_else(|| execute::missing(&node))?;
            let bytes = self.replay.bytes(slot);
            pieces[slot] = if is_alone && memory.bytes() >= bytes { memory.clone() } else { self.copy(memory, bytes)? };
            held.push(Held { number, value });
        }
        Ok(held)
    }

    fn copy(&self, memory: &Buffer, bytes: usize) -> Result<Buffer> {
        Ok(memory.copied_to(self.executor.allocator(), memory.bytes(), bytes).map_err(ExecuteError::from)?)
    }
}

/// Whether nobody but its storage knows of a value and of its memory: no other tensor, and no library that it was given to.
fn is_alone(value: &UOp) -> bool {
    let mut node = value;
    while node.op().is_movement() && node.owners() == 1 {
        node = &node.src()[0];
    }
    node.op() == Op::Buffer && node.owners() == 1 && node.held::<Buffer>().is_some_and(Buffer::is_only_handle)
}

/// Whether a function may replace elements of a state in memory: if it replaces some of them and leaves others. A state that is replaced as
/// a whole gets new memory, since then nobody has to wait for anybody.
pub(super) fn gives_way(state: &State) -> bool {
    let mut node = &state.value;
    while let (Op::Write, Arg::View(steps)) = (node.op(), node.arg()) {
        if steps.is_empty() {
            return false;
        }
        node = &node.src()[0];
    }
    node == &state.before && state.value != state.before
}
