//! Long rows of exponents, of which a program finds the largest and a sum of powers block by block (`ops::by_blocks`), in longer blocks.
//!
//! A CPU's blocks are as long as its nearest cache likes. Where the threads of a block share one, they meet for its largest, meet for its sum, and combine both with what came
//! before: some hundred instructions of each thread, for four elements that it has of 1,024.
//!
//! Always: the same numbers, combined in another order. Tested in the test crate, on the emulator of GPUs.

use crate::ir::{Arg, Combiner, Op, ReduceOp, UOp};
use crate::ops::by_blocks::exponentials_in_blocks;

/// Bytes of a block: eight such beside each other, of 256 threads each, stay in the first cache of a multiprocessor.
const BLOCK_BYTES: i64 = 16 << 10;

/// A state of blocks of exponents, as that of longer blocks.
pub(super) fn in_longer_blocks(node: &UOp) -> Option<UOp> {
    let Arg::ReduceState(component, axes) = node.arg() else { return None };
    let ([largest, sum], [axis]) = (node.src(), &axes[..]) else { return None };
    let axis = usize::from(*axis);
    let mut largest = largest;
    while largest.op() == Op::Reshape {
        largest = &largest.src()[0];
    }
    let is_over = |node: &UOp, op: ReduceOp| matches!(node.arg(), Arg::Reduce(kind, axes) if *kind == op && axes[..] == [axis as u8 + 1]);
    if component.combiner != Combiner::LogSumExp || !is_over(largest, ReduceOp::Max) || !is_over(sum, ReduceOp::Add) {
        return None;
    }
    let x = &largest.src()[0];
    let lens = x.shape().as_const()?;
    let (parts, block) = (lens[axis], lens[axis + 1]);
    let longer = BLOCK_BYTES / bytes_in_memory(x);
    if lens.len() != axis + 2 || block >= longer || parts * block < 2 * longer || sum.src()[0].shape() != x.shape() {
        return None;
    }
    let mut row = lens[..axis].to_vec();
    row.push(parts * block);
    let states = exponentials_in_blocks(&x.reshape(row), axis, longer);
    states.into_iter().nth(usize::from(component.number))
}

/// Bytes of an element before it was cast to what it is computed in.
fn bytes_in_memory(x: &UOp) -> i64 {
    let mut node = x;
    while node.op().is_movement() || matches!(node.op(), Op::Cast | Op::Detach) {
        node = &node.src()[0];
    }
    node.dtype().bytes().clamp(2, 4) as i64
}
