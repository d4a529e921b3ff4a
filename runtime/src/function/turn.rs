//! Turns: who updates a tensor starts from what the one before made of it, whoever that is.
//!
//! A turn belongs to a storage, and not to the function: two functions that assign one tensor, a function and a plain write, or calls that are
//! given one tensor to assign, come one after another. Who needs several takes them in the order of their addresses, so
//! nobody waits in a circle; and nobody who waits for a turn holds the value of a storage. Who only reads needs none, and sees what the last one left.

use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;

use super::call::{Program, Target};
use crate::tensor::{Storage, Tensor};

/// Turns that a call has taken; they end when this drops.
pub(super) type Turns<'call> = SmallVec<[MutexGuard<'call, ()>; 4]>;

impl Program {
    /// Waits for the turns of all that a call assigns.
    pub(super) fn turns<'call>(&'call self, arguments: &[&'call Tensor]) -> Turns<'call> {
        let mut storages: SmallVec<[&Arc<Storage>; 4]> = SmallVec::new();
        for value in &self.values {
            match value.target {
                Target::Result(_) => {}
                Target::Argument(number) => storages.extend(arguments[number].storage()),
                Target::State(number) => storages.push(&self.states[number].0),
            }
        }
        storages.sort_unstable_by_key(|storage| Arc::as_ptr(storage).addr());
        storages.dedup_by(|a, b| Arc::ptr_eq(a, b));
        storages.into_iter().map(|storage| storage.turn()).collect()
    }
}
