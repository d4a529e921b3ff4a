//! Copies from memory to shared memory: a store of just what a load gave, which a machine may make beside other work (`cp.async`), without a register.
//!
//! A copy moves 4, 8 or 16 bytes at once. What it copies is seen by nobody before threads have met, and before its own thread has waited for it: that threads meet between a
//! store and a load of shared memory is proven (`races`), so whoever makes copies so need only wait before each barrier.
//!
//! Always: the load has no other user, and of its memory the list stores nothing; the store has no mask, the load's is one for all lanes. Tested below.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Arg, MemorySpace, Op, UOp};

/// The most bytes that are copied at once.
const COPY_BYTES: usize = 16;
/// The fewest.
const COPY_BYTES_MIN: usize = 4;

/// The loads of a list that are halves of copies, each with the bytes that are copied at once.
pub fn copies(list: &[UOp]) -> FxHashMap<UOp, usize> {
    let mut users: FxHashMap<&UOp, usize> = FxHashMap::default();
    let mut stored: FxHashSet<&UOp> = FxHashSet::default();
    for node in list {
        for operand in node.src() {
            *users.entry(operand).or_default() += 1;
        }
        if matches!(node.op(), Op::Store | Op::Exchange) {
            stored.insert(&node.src()[0].src()[0]);
        }
    }
    let mut found = FxHashMap::default();
    for store in list.iter().filter(|node| node.op() == Op::Store && node.src().len() == 2) {
        let (to, load) = (&store.src()[0], &store.src()[1]);
        let is_shared = matches!(to.src()[0].arg(), Arg::Scratch(_, _, MemorySpace::Shared));
        if !is_shared || load.op() != Op::Load || users.get(load) != Some(&1) {
            continue;
        }
        let from = &load.src()[0];
        let is_param = from.src()[0].op() == Op::Param && !stored.contains(&from.src()[0]);
        let is_plain = to.src().len() == 2 && from.src().get(2).is_none_or(is_one_for_all);
        let lies_together = [to, from].iter().all(|index| index.src()[1].dtype().lanes() == 1);
        if !is_param || !is_plain || !lies_together || load.dtype().is_bool() || *store.arg() != Arg::None {
            continue;
        }
        let bytes = load.dtype().element().bytes();
        let aligned = |index: &UOp| {
            let facts = index.src()[1].facts();
            bytes << (facts.modulus | facts.remainder).trailing_zeros().min(4)
        };
        let all = bytes * load.dtype().lanes();
        let at_once = aligned(to).min(aligned(from)).min(COPY_BYTES).min(1 << all.trailing_zeros());
        if at_once >= COPY_BYTES_MIN {
            found.insert(load.clone(), at_once);
        }
    }
    found
}

/// Whether a mask is the same for all lanes.
fn is_one_for_all(gate: &UOp) -> bool {
    gate.dtype().lanes() == 1 || gate.op() == Op::Splat
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::text::parse;

    fn copied(body: &str) -> Vec<usize> {
        let text = format!("linear %k(f32[64] write, f32[64] read) grid 1 {{\n{body}}}");
        let linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        copies(&linear.ops).into_values().collect()
    }

    const COPY: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      s0: f32 = scratch shared #0 [64]
      four: i32 = const 4
      eight: i32 = const 8
      r0: i32 = range eight, block_x #0
      v0 = mul r0, four
      m0 = lt r0, four
      v1: f32x4 = index p1, v0
      v2 = load v1
      v3: f32x4 = index s0, v0
      v4 = store v3, v2
      v5 = end r0\n";

    #[test]
    fn what_is_only_stored_in_shared_memory_is_a_copy() {
        assert_eq!(copied(COPY), [16]);
        // As far apart as elements are.
        assert_eq!(copied(&COPY.replace("index p1, v0", "index p1, r0")), [4]);
        let masked = COPY.replace("m0 = lt", "m1: bool = lt").replace("v1: f32x4", "m0: boolx4 = splat m1\n v1: f32x4");
        assert_eq!(copied(&masked.replace("index p1, v0", "index p1, v0, m0")), [16]);
    }

    #[test]
    fn what_something_else_needs_or_changes_is_none() {
        let used =
            COPY.replace("v4 = store v3, v2", "v6: f32x4 = index p0, v0\n v7 = store v6, v2\n v4 = store v3, v2");
        assert_eq!(copied(&used), [0; 0]);
        assert_eq!(copied(&COPY.replace("v4 = store v3, v2", "v6 = neg v2\n v4 = store v3, v6")), [0; 0]);
        let changed = COPY.replace("v4 = store v3, v2", "v4 = store v3, v2\n v7 = store v1, v8");
        let changed = changed
            .replace("eight: i32", "zero: f32 = const 0.0\n eight: i32")
            .replace("v2 = load v1", "v2 = load v1\n v8: f32x4 = splat zero");
        assert_eq!(copied(&changed), [0; 0]);
        assert_eq!(copied(&COPY.replace("scratch shared", "scratch")), [0; 0]);
    }
}
