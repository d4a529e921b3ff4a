//! Names of kernels: `r` if anything is reduced, else `e`, then the lengths of the loops over outputs and, after them, of reductions and local buffers.
//!
//! A name says what shape of work a kernel does; two kernels may share one.

use super::ranges::{RangeSet, closed_ranges, inner_loop_ends, range_id};
use crate::ir::{Op, UOp, postorder};

/// The name of a kernel in loop form, before optimization.
pub fn kernel_name(root: &UOp) -> String {
    let order = postorder(std::slice::from_ref(root));
    let mut seen = RangeSet::default();
    let mut parts: Vec<String> = Vec::new();
    let stores = root.src().iter();
    let inner = inner_loop_ends(&order, root);
    let is_reduction = order.iter().any(|node| node.op() == Op::ReduceRange);
    for loop_end in stores.chain(inner) {
        for range in closed_ranges(loop_end) {
            if !seen.contains(range_id(range)) {
                seen.insert(range_id(range));
                parts.push(range.src()[0].as_int().map_or_else(|| "n".to_string(), |len| len.to_string()));
            }
        }
    }
    // A name is for reading: a kernel of many loops is cut short.
    parts.truncate(8);
    if parts.is_empty() {
        parts.push("1".to_string());
    }
    format!("{}_{}", if is_reduction { "r" } else { "e" }, parts.join("_"))
}
