//! The micro-ops of a linear list, one by one: what the table in `linearize` allows. Their order is `linearize::check`'s business.

use rustc_hash::FxHashSet;

use super::VerifyError;
use super::arguments::check_node;
use super::kernel::check_memory;
use crate::ir::{Class, Op, UOp};

/// Checks each micro-op: its stage, its types, its memory; and that no operand is missing from the list before it.
///
/// # Errors
/// The first op in the list that breaks a rule.
pub fn check(list: &[UOp]) -> Result<(), VerifyError> {
    let mut listed: FxHashSet<&UOp> = FxHashSet::default();
    for node in list {
        check_node(node)?;
        let fail = |message: String| Err(VerifyError::new(node, message));
        match (node.op().class(), node.op()) {
            (_, Op::ReduceRange | Op::Running | Op::LocalBuffer | Op::Sink | Op::Buffer | Op::Bind | Op::Iota) => {
                return fail(format!("{} should have been lowered", node.op()));
            }
            (Class::Movement | Class::Tensor, op) => return fail(format!("{op} should have been lowered")),
            _ => {}
        }
        if node.dtype().is_index() {
            return fail("is of type index, which no machine has".to_string());
        }
        check_memory(node)?;
        if let Some(operand) = node.src().iter().find(|operand| !listed.contains(operand)) {
            return fail(format!("its operand {} is not listed before it", operand.op()));
        }
        listed.insert(node);
    }
    Ok(())
}
