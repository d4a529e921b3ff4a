//! Writes through views that are pending: carried out before memory is read, all that belong together in one program.
//!
//! Tested in tests/it/writes.rs, and by random programs with effects.

use std::sync::Arc;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::Op;

use super::{Result, Storage, Tensor};
use crate::execute::{self};

impl Tensor {
    /// Carries out what is still to be written to its memory, if anything is.
    pub(crate) fn settle(&self) -> Result<()> {
        match self.storage() {
            Some(storage) => storage.settled().map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Storage {
    /// What it holds, whatever a trace says, once what is still to be written to its memory was.
    pub(crate) fn settled(self: &Arc<Storage>) -> Result<UOp> {
        let value = self.peek();
        if !writes_to_memory(&value) {
            return Ok(value);
        }
        drop(value);
        carry_out(vec![self])?;
        Ok(self.peek())
    }
}

/// Whether a value is memory that is still to be written to.
pub(super) fn writes_to_memory(value: &UOp) -> bool {
    value.op() == Op::Write && execute::computed_buffer(value).is_none() && written_memory(value).is_some()
}

/// The memory, under a shape, that a chain of writes begins with.
fn written_memory(value: &UOp) -> Option<&UOp> {
    let mut base = value;
    while base.op() == Op::Write && execute::computed_buffer(base).is_none() {
        base = &base.src()[0];
    }
    execute::computed_buffer(base).is_some().then_some(base)
}

/// Computes what storages hold, and carries out the writes to their memory, in place where nobody else needs what is replaced.
///
/// Meanwhile nobody else can look at the storages. If a single storage's writes cannot be carried out, it holds what it did before them.
pub(super) fn carry_out(mut storages: Vec<&Arc<Storage>>) -> Result<()> {
    let mut seen: Vec<*const Storage> = Vec::new();
    storages.retain(|storage| {
        let is_new = !seen.contains(&Arc::as_ptr(storage));
        seen.push(Arc::as_ptr(storage));
        is_new
    });
    // Threads that need some of the same storages lock them in one order; the program has them in the caller's, whatever their addresses.
    let mut order: Vec<usize> = (0..storages.len()).collect();
    order.sort_by_key(|&number| Arc::as_ptr(storages[number]).addr());
    // Dropped after the locks: it may be the last owner of much.
    let mut forgotten: Vec<UOp> = Vec::new();
    let mut held: Vec<(usize, _)> = order.into_iter().map(|number| (number, storages[number].lock())).collect();
    held.sort_by_key(|(number, _)| *number);
    // Another thread may have been first.
    held.retain(|(_, value)| execute::base_memory(value).is_none());
    let values: Vec<UOp> = held.iter().map(|(_, value)| (**value).clone()).collect();
    if values.is_empty() {
        return Ok(());
    }
    let outcome = execute::realize_in_place(&values);
    forgotten.extend(values);
    match outcome {
        Ok(stored) => {
            for ((_, value), stored) in held.iter_mut().zip(stored) {
                forgotten.push(std::mem::replace(&mut **value, stored));
            }
            Ok(())
        }
        Err(error) => {
            if let [(_, value)] = &mut held[..]
                && let Some(before) = written_memory(value).cloned()
            {
                forgotten.push(std::mem::replace(&mut **value, before));
            }
            Err(error.into())
        }
    }
}
