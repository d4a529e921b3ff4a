//! The micro-ops of a linear list, one by one: what the table in `linearize` allows. Their order is `linearize::check`'s business.

use rustc_hash::FxHashSet;

use super::VerifyError;
use super::arguments::check_node;
use super::kernel::check_memory;
use crate::ir::{AxisKind, Class, Op, UOp};

/// What lanes combine is what each had in a range of lanes: as many as a power of two, and no vector.
fn check_shuffle(node: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    let range = node.src().get(1).filter(|end| end.op() == Op::EndRange).map(|end| &end.src()[0]);
    let kind = range.and_then(|range| range.as_range()).map(|range| range.kind);
    let Some(range) = range.filter(|_| kind == Some(AxisKind::Lane)) else {
        return fail("combines what no range of lanes has left".to_string());
    };
    if range.src()[0].as_int().is_none_or(|len| len < 1 || !(len as u64).is_power_of_two()) {
        return fail("combines lanes whose number is no power of two".to_string());
    }
    match node.dtype() == node.src()[0].dtype() {
        true => Ok(()),
        false => fail(format!("gives {} of {}", node.dtype(), node.src()[0].dtype())),
    }
}

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
        if node.op() == Op::ShuffleReduce {
            check_shuffle(node)?;
        }
        if let Some(operand) = node.src().iter().find(|operand| !listed.contains(operand)) {
            return fail(format!("its operand {} is not listed before it", operand.op()));
        }
        listed.insert(node);
    }
    Ok(())
}
