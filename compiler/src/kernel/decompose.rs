//! Ops that a target lacks become ops that it has.

use crate::ir::UOp;
use crate::target::Target;

/// The kernel in ops that every target has.
pub fn decompose(root: &UOp, _target: &Target) -> UOp {
    root.clone()
}
