//! Reductions of states become accumulators and the expressions that renew them.
//!
//! ```text
//! index = reduce_range x, i, r0, argmax_first #1     =>     a0 = accumulator -inf, r0          what the loop has found so far
//!                                                   a1 = accumulator 2147483647, r0
//!                                                   index = reduce_range next0, next1, a0, a1, r0, step argmax_first #1
//! ```
//!
//! A running state becomes the same: what it is in an iteration is what its accumulators become there.
//!
//! Until here a state is combined by name, so that loops can be split, repeated and put into lanes. From here on combining is made of plain ops, and
//! what comes after (decomposition, types of indices) treats them like any others. An accumulator names the loops that renew it: what is
//! computed from it stands in them.
//!
//! Always: reductions of one state share their accumulators, so that all components are renewed together. Tested below and by every kernel that runs.

use rustc_hash::FxHashMap;

use crate::DType;
use crate::ir::{Arg, Combining, Component, Op, Sources, UOp, rebuild};
use crate::symbolic::simplify;

/// The kernel without reductions that combine states by name.
pub fn accumulate_states(root: &UOp) -> UOp {
    if !root.contains(Op::ReduceRange) && !root.contains(Op::Running) {
        return root.clone();
    }
    let mut count = 0;
    // By operands and combiner, for components differ in their number alone.
    let mut known: FxHashMap<UOp, Sources> = FxHashMap::default();
    let new = rebuild(root, |_, node| {
        let Arg::CombineState(component) = *node.arg() else { return node };
        let Some(first) = node.first_component() else { return node };
        let steps = known.entry(first).or_insert_with(|| stepped(&node, component, &mut count)).clone();
        UOp::new(node.op(), node.dtype(), steps, Arg::Step(component))
    });
    if count == 0 { new } else { simplify(&new) }
}

/// The operands of a reduction, or of a running state, that renews accumulators: what they become, they, and the loops.
fn stepped(reduction: &UOp, component: Component, count: &mut i64) -> Sources {
    let combining = Combining::Several(component);
    let (values, ranges) = reduction.src().split_at(combining.arity());
    let accumulator = |(number, value): (usize, &UOp)| -> UOp {
        let dtype: DType = value.dtype();
        let src: Sources = [combining.identity(number, dtype)].into_iter().chain(ranges.iter().cloned()).collect();
        *count += 1;
        UOp::new(Op::Accumulator, dtype, src, Arg::Number(*count - 1))
    };
    let accumulators: Vec<UOp> = values.iter().enumerate().map(accumulator).collect();
    let next = combining.combine(&accumulators, values);
    next.into_iter().chain(accumulators).chain(ranges.iter().cloned()).collect()
}
