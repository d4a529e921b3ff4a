//! What a kernel costs: operations, bytes that must move, bytes that instructions move.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ranges::{Dependencies, RangeSet, closed_ranges, is_further_component, range_id};
use crate::ir::{Arg, Op, UOp};
use crate::lower::loops::{ranges_by_id, trip_count};
use crate::program::Estimate;

/// Counts over a kernel in loop form, before optimization: elementwise float ops and reductions as operations (a reduction of products is
/// two an element), each parameter's bytes once (at most its size), each load and store of a parameter as often as it runs; scratch does not count.
pub fn estimate(root: &UOp) -> Estimate {
    let dependencies = Dependencies::of(root);
    let ranges = ranges_by_id(root);
    let trips = |set: &RangeSet| trip_count(set.iter().filter_map(|id| ranges.get(&id).cloned()));
    let mut total = Estimate::default();
    let mut touched: FxHashMap<UOp, f64> = FxHashMap::default();
    let mut states: FxHashSet<&[UOp]> = FxHashSet::default();
    for node in &dependencies.order {
        let mut open = dependencies.get(node).clone();
        closed_ranges(node).iter().for_each(|range| open.insert(range_id(range)));
        match node.op() {
            Op::Load | Op::Store | Op::Previous if node.src()[0].src()[0].op() == Op::Param => {
                let buffer = &node.src()[0].src()[0];
                let bytes = trips(&open) * buffer.dtype().bytes() as f64;
                total.bytes_accessed += bytes;
                *touched.entry(buffer.clone()).or_default() += bytes;
            }
            Op::ReduceRange if !is_further_component(node, &mut states) => total.operations += trips(&open),
            op if op.is_elementwise() && op != Op::Cast && op != Op::Bitcast && !node.dtype().is_index() => {
                total.operations += trips(&open);
            }
            _ => {}
        }
    }
    for buffer in dependencies.order.iter().filter(|node| touched.contains_key(*node)) {
        let size = match buffer.arg() {
            Arg::Param(param) => param.len as f64 * buffer.dtype().bytes() as f64,
            _ => f64::INFINITY,
        };
        total.bytes_unique += touched[buffer].min(size);
    }
    total
}
