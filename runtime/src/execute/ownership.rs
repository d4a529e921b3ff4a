//! Who needs the old elements of memory that a program writes to: nobody, if every node that depends on them is of the program alone.
//!
//! Nodes are shared by counting, so the question has an exact answer: a node is *held* if it has more owners than the program
//! explains. A lazy tensor over the old elements, wherever it stands, holds a node of the program or has a path to the memory that is
//! none of the program's nodes, and then the memory itself is held. Whoever is held may one day be computed, or asked for a gradient,
//! from the old elements.
//!
//! Always: an answer that a race with another thread makes wrong says that somebody needs them; who calls keeps the values from being
//! looked up meanwhile (a storage is locked while its write is carried out).
//! Tested by programs of views and writes in the tests crate, and below.

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::ir::{Op, UOp, postorder_until};

use super::computed;
use crate::debug;

/// The `Buffer` nodes below `values` that nothing outside of the program of these values depends on.
///
/// Each of `values` has one owner that does not count, who will forget it.
pub(super) fn unneeded_buffers(values: &[UOp]) -> FxHashSet<UOp> {
    let order = postorder_until(values, |node| computed(node).is_some() || node.op() == Op::Bind);
    if !order.iter().any(|node| node.op() == Op::Write) {
        return FxHashSet::default();
    }
    let numbers: FxHashMap<&UOp, usize> = order.iter().enumerate().map(|(number, node)| (node, number)).collect();
    // This function's own handle to each.
    let mut explained = vec![1usize; order.len()];
    let is_open = |node: &UOp| computed(node).is_none() && node.op() != Op::Bind;
    for node in order.iter().filter(|node| is_open(node)) {
        node.src().iter().for_each(|operand| explained[numbers[operand]] += 1);
    }
    values.iter().for_each(|value| explained[numbers[value]] += 2);
    let mut is_held: Vec<bool> = order.iter().zip(&explained).map(|(node, count)| node.owners() > *count).collect();
    // Users stand after what they use.
    for (number, node) in order.iter().enumerate().rev() {
        if is_held[number] && is_open(node) {
            node.src().iter().for_each(|operand| is_held[numbers[operand]] = true);
        }
    }
    if debug::wants(3) {
        tell_copied(&order, &numbers, &is_held);
    }
    let unneeded = order.iter().zip(&is_held).filter(|(node, is_held)| node.op() == Op::Buffer && !**is_held);
    unneeded.map(|(node, _)| node.clone()).collect()
}

/// Says for each write to memory that is needed elsewhere that it goes to a copy.
fn tell_copied(order: &[UOp], numbers: &FxHashMap<&UOp, usize>, is_held: &[bool]) {
    for write in order.iter().filter(|node| node.op() == Op::Write && computed(node).is_none()) {
        let mut base = &write.src()[0];
        while base.op().is_movement() && computed(base).is_none() {
            base = &base.src()[0];
        }
        let is_memory = base.op() == Op::Buffer || computed(base).is_some();
        if is_memory && (is_held[numbers[base]] || base.op() != Op::Buffer) {
            let (value, whole) = (write.src()[1].shape(), write.shape());
            debug::tell(3, &format!("write {value} in {whole}: copied: a graph elsewhere needs the old elements"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::DType;

    fn buffer(id: u64) -> UOp {
        UOp::buffer(id, DType::F32, 4, &"OWNERSHIP".into())
    }

    /// The value as one owner and a list have it.
    fn is_unneeded(build: impl FnOnce(UOp) -> UOp, id: u64) -> bool {
        let owned = build(buffer(id));
        let values = vec![owned.clone()];
        let unneeded = unneeded_buffers(&values);
        drop(owned);
        unneeded.len() == 1
    }

    #[test]
    fn memory_that_a_write_alone_reaches_is_unneeded() {
        assert!(is_unneeded(|x| x.write(&[], &(&x + 1)), 9_000_001));
        assert!(is_unneeded(|x| x.reshape([2, 2]).write(&[], &(x.reshape([2, 2]) * 2)), 9_000_002));
    }

    #[test]
    fn who_holds_the_memory_or_anything_made_of_it_needs_it() {
        let x = buffer(9_000_003);
        assert!(!is_unneeded(|x| x.write(&[], &(&x + 1)), 9_000_003));
        drop(x);
        let lazy = buffer(9_000_004) * 2;
        // Inside of the program, and outside of it.
        assert!(!is_unneeded(|x| x.write(&[], &(&x * 2 + 1)), 9_000_004));
        assert!(!is_unneeded(|x| x.write(&[], &(&x + 1)), 9_000_004));
        drop(lazy);
        assert!(is_unneeded(|x| x.write(&[], &(&x + 1)), 9_000_004));
        let between = buffer(9_000_005).write(&[], &(buffer(9_000_005) + 1));
        assert!(!is_unneeded(|x| x.write(&[], &(&x + 1)).write(&[], &(&x * 3)), 9_000_005));
        drop(between);
    }
}
