//! Which call of the program each kernel goes back to, for people: the one that asked for what the kernel stores.
//!
//! A schedule is made of a program without its data, and says of each kernel which of that program's values it stores. A plan
//! does not keep this, so it is asked anew, and only while somebody listens: scheduling has no other effect.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::UOp;
use warpweft_compiler::schedule::{normalized_nodes, stored_values};

use super::{Executor, computed};
use crate::debug;

/// Nodes that are asked for their call, from what a kernel stores down to what that is made of.
const ASKED_MAX: usize = 64;

impl Executor {
    /// The call behind each kernel of a program, of which `sink` is the structure: nothing where none is known.
    #[cold]
    pub(super) fn origins(&self, values: &[UOp], sink: &UOp) -> Vec<Option<String>> {
        let Ok(stored) = stored_values(sink, self.options) else { return Vec::new() };
        // Writes are other nodes where they give way than where they do not; nothing else is.
        let mut program: FxHashMap<UOp, UOp> = FxHashMap::default();
        for gives_way in [true, false] {
            program.extend(normalized_nodes(values, computed, |_| gives_way));
        }
        stored.iter().map(|values| values.iter().rev().find_map(|value| origin(value, &program))).collect()
    }
}

/// The call of the nearest node, from a value downwards, that has one.
fn origin(value: &UOp, program: &FxHashMap<UOp, UOp>) -> Option<String> {
    let mut pending = VecDeque::from([value]);
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    while let Some(node) = pending.pop_front() {
        if let Some(found) = program.get(node).and_then(debug::origin_of) {
            return Some(found);
        }
        if seen.len() < ASKED_MAX && seen.insert(node) {
            pending.extend(node.src());
        }
    }
    None
}
