//! The order of the loops of a reduction: as the memory lies that it reads.
//!
//! The sum of a transposed matrix over both of its axes walks down the columns, if its loops stand in the order of the axes: a cache line for each
//! number. With the loops the other way round it walks along the rows, and [`super::loops::merge_ranges`] then makes one loop of the two.
//! A loop that changes the cache line at each of its steps stands outside of one that stays in a line: that is the order by what a loop costs as
//! the innermost one (Carr, McKinley and Tseng, "Compiler optimizations for improving data locality", 1994). Lines of 64 bytes serve GPUs, too, whose sectors have 32:
//! the order is the same but for the shortest rows.
//!
//! Always: reductions that share their loops go on sharing them; loops whose steps through memory are not known numbers stay where they are. Tested
//! by the tests below and by kernels of permuted tensors (`tests/it/sums.rs`).

use rustc_hash::FxHashMap;

use super::loops::is_serial;
use crate::ir::{Op, Sources, UOp, postorder, with_mapped_sources};
use crate::kernel::ranges::{all_ranges, closed_ranges, open_operands, range_id};
use crate::symbolic::linear_terms;
use crate::target::CACHE_LINE_BYTES;

/// What one step of a loop does to the addresses that a kernel reads: cache lines that change with it, and bytes that it goes on.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Step {
    lines: f64,
    bytes: f64,
}

/// Puts the loops of each reduction in an order in which those with small steps stand inside of those with large ones.
pub fn order_reductions(root: &UOp) -> UOp {
    let has_several = |node: &UOp| node.op() == Op::ReduceRange && closed_ranges(node).len() > 1;
    let order = postorder(std::slice::from_ref(root));
    if !order.iter().any(has_several) {
        return root.clone();
    }
    let steps = steps_of_ranges(&order, root);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in order {
        let mut new = with_mapped_sources(&node, |operand| &done[operand]);
        if has_several(&node) {
            let mut closed = closed_ranges(&new).to_vec();
            let known: Option<Vec<Step>> = closed.iter().map(|range| steps.get(&range_id(range)).copied()).collect();
            if known.is_some() && !closed.iter().any(is_serial) {
                let step = |range: &UOp| steps[&range_id(range)];
                closed.sort_by(|a, b| step(b).partial_cmp(&step(a)).unwrap_or(std::cmp::Ordering::Equal));
                new = new.with_src(open_operands(&new).iter().cloned().chain(closed).collect::<Sources>());
            }
        }
        done.insert(node, new);
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}

/// The steps of ranges by their numbers; without those whose steps are no numbers, as where a length is a variable or an index a quotient.
fn steps_of_ranges(order: &[UOp], root: &UOp) -> FxHashMap<u32, Step> {
    let mut steps: FxHashMap<u32, Step> =
        all_ranges(root).iter().map(|range| (range_id(range), Step::default())).collect();
    for load in order.iter().filter(|node| node.op() == Op::Load) {
        let item = load.dtype().bytes() as i64;
        for (term, coefficient) in linear_terms(&load.src()[0].src()[1]).0 {
            if term.op() != Op::Range {
                for range in all_ranges(&term) {
                    steps.remove(&range_id(&range));
                }
            } else if let Some(step) = steps.get_mut(&range_id(&term)) {
                let bytes = coefficient.saturating_abs().saturating_mul(item);
                step.lines += bytes.min(CACHE_LINE_BYTES) as f64 / CACHE_LINE_BYTES as f64;
                step.bytes += bytes as f64;
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, ReduceOp};
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// The lengths of the loops of the only reduction of a kernel.
    fn lengths(value: &UOp) -> Vec<i64> {
        let numel = value.shape().as_const().unwrap().iter().product::<i64>();
        let target = UOp::param(9, value.dtype(), numel as u64);
        let store = UOp::new(Op::Store, DType::VOID, vec![target, value.reshape([numel])], Arg::None);
        let root = loops_of(&UOp::sink([store]), &mut Silent);
        let order = postorder(std::slice::from_ref(&root));
        let reduction = order.iter().find(|node| node.op() == Op::ReduceRange).unwrap();
        closed_ranges(reduction).iter().map(|range| range.src()[0].as_int().unwrap()).collect()
    }

    fn param(slot: u32, shape: &[i64]) -> UOp {
        UOp::param(slot, DType::F32, shape.iter().product::<i64>() as u64).reshape(shape.to_vec())
    }

    #[test]
    fn loops_go_as_memory_lies() {
        let x = param(0, &[7, 5, 3, 40]).permute(&[3, 1, 2, 0]);
        assert_eq!(lengths(&x.reduce(ReduceOp::Add, &[0, 2, 3])), [7, 3 * 40]);
        assert_eq!(lengths(&x.reduce(ReduceOp::Add, &[0, 1, 2])), [5 * 3 * 40]);
        // As given, where it lies like that.
        assert_eq!(lengths(&param(0, &[7, 5, 40]).reduce(ReduceOp::Max, &[0, 2])), [7, 40]);
    }

    #[test]
    fn the_loop_that_changes_fewest_lines_is_the_innermost() {
        // One tensor lies as it is read, two lie the other way round.
        let (a, b, c) = (param(0, &[30, 50]), param(1, &[50, 30]), param(2, &[50, 30]));
        let product = a * b.permute(&[1, 0]) * c.permute(&[1, 0]);
        assert_eq!(lengths(&product.reduce(ReduceOp::Add, &[0, 1])), [50, 30]);
    }
}
