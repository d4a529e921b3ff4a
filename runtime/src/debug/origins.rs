//! Where a program asked for what a kernel computes: the op and the caller's line, for the lines of `DEBUG=2`.
//!
//! Nodes are shared by all who ask for the same, so they have no line of their own. While somebody listens, each call notes the node that it made, by
//! its hash; of several calls that made one node, the last counts. What is noted keeps no graph alive, and is bounded.
//!
//! Not here: which node a kernel stores (`execute::origins`). Tested there.

use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};
use warpweft_compiler::UOp;

use super::wants;

/// Calls that are known at most; when there are more, all are forgotten.
const KNOWN_MAX: usize = 1 << 16;

type Origin = (&'static str, &'static Location<'static>);

static KNOWN: Mutex<FxHashMap<u64, Origin>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Notes which call made a node, if somebody listens.
pub(crate) fn note_origin(node: &UOp, op: &'static str, location: &'static Location<'static>) {
    if !wants(2) {
        return;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(node.structural_hash(), (op, location));
}

/// The call that made a node, as `exp at src/main.rs:12`.
pub(crate) fn origin_of(node: &UOp) -> Option<String> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (op, location) = known.get(&node.structural_hash())?;
    Some(format!("{op} at {}:{}", location.file(), location.line()))
}
