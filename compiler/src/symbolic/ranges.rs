//! Ranges whose length is an expression: atoms of index arithmetic, whose lengths no rule may touch.
//!
//! A range is one node, named in many expressions and closed once. If each expression wrote the range's length in the way that suits
//! it best, there would be several nodes for one loop. So rules stop at such ranges; where a pass cannot, ranges of equal bounds stand
//! in their place meanwhile.

use rustc_hash::FxHashMap;

use crate::ir::{Op, UOp, postorder_until, substitute};

/// Whether it is a range of a length that is no constant.
pub(super) fn has_symbolic_length(node: &UOp) -> bool {
    node.op() == Op::Range && node.src()[0].as_int().is_none()
}

/// What `pass` makes of an expression, the lengths of whose ranges it does not see.
pub(super) fn with_plain_lengths(expr: &UOp, pass: impl FnOnce(&UOp) -> UOp) -> UOp {
    let without = |node: &UOp| !node.contains(Op::Range);
    let nodes = postorder_until(std::slice::from_ref(expr), without);
    let ranges: Vec<UOp> = nodes.into_iter().filter(has_symbolic_length).collect();
    if ranges.is_empty() {
        return pass(expr);
    }
    let plain = |range: &UOp| range.with_src(vec![UOp::index(range.src()[0].max_value())]);
    let hidden: FxHashMap<UOp, UOp> = ranges.iter().map(|range| (range.clone(), plain(range))).collect();
    let shown: FxHashMap<UOp, UOp> = ranges.iter().map(|range| (plain(range), range.clone())).collect();
    substitute(&pass(&substitute(expr, &hidden)), &shown)
}

/// Whether a range lies below a length: `r < n` for a range of n.
pub(super) fn is_below(range: &UOp, limit: &UOp) -> bool {
    range.op() == Op::Range && range.src()[0] == *limit
}
