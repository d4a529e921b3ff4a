//! Loads of neighbours in memory become one, of straight-line code: where they are of one memory, without a mask, one behind the other from an address that is aligned to all of them.
//!
//! Tested with the loops that are written out (`short_loops`).

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp};
use crate::linearize::addresses::split_offset;

/// The most bytes that one load moves.
const ACCESS_BYTES: usize = 16;
/// The most elements that one load moves.
const ELEMENTS_MAX: usize = 8;

/// A memory, and what is added to a constant to make offsets in it.
type Base = (UOp, Option<UOp>);

/// Straight-line code without stores, in which what lies side by side is loaded at once.
pub(super) fn with_neighbours(ops: &[UOp]) -> Vec<UOp> {
    let mut groups: FxHashMap<Base, Vec<(i64, UOp)>> = FxHashMap::default();
    let mut order: Vec<Base> = Vec::new();
    for load in ops.iter().filter(|node| node.op() == Op::Load && node.dtype().lanes() == 1) {
        let index = load.src()[0].src();
        if index.len() == 2 && !load.dtype().is_bool() {
            let (base, constant) = split_offset(&index[1]);
            let key = (index[0].clone(), base.cloned());
            let group = groups.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            if !group.iter().any(|(_, other)| other == load) {
                group.push((constant, load.clone()));
            }
        }
    }
    let mut lanes: FxHashMap<UOp, UOp> = FxHashMap::default();
    for key in order {
        let Some(mut group) = groups.remove(&key) else { continue };
        group.sort_by_key(|(constant, _)| *constant);
        load_together(&group, &mut lanes);
    }
    if lanes.is_empty() {
        return ops.to_vec();
    }
    let mut new: Vec<UOp> = Vec::with_capacity(ops.len());
    for node in ops {
        let now = match lanes.get(node) {
            Some(lane) => lane.clone(),
            None => {
                let src: Sources =
                    node.src().iter().map(|operand| lanes.get(operand).unwrap_or(operand).clone()).collect();
                if src[..] == *node.src() { node.clone() } else { node.with_src(src) }
            }
        };
        if now != *node {
            lanes.insert(node.clone(), now.clone());
        }
        new.push(now);
    }
    new
}

/// Loads of one memory from one base, in the order of their offsets, as lanes of as few loads as can be.
fn load_together(loads: &[(i64, UOp)], lanes: &mut FxHashMap<UOp, UOp>) {
    let mut at = 0;
    while at < loads.len() {
        let (first, load) = &loads[at];
        let dtype = load.dtype();
        let index = load.src()[0].src();
        let facts = index[1].facts();
        let zeros = (facts.modulus | facts.remainder).trailing_zeros().min(8);
        let mut count = (ACCESS_BYTES / dtype.bytes()).min(ELEMENTS_MAX).min(1 << zeros);
        let follows = |number: usize| loads.get(at + number).is_some_and(|(other, _)| *other == first + number as i64);
        while count > 1 && !(1..count).all(follows) {
            count /= 2;
        }
        if count > 1 {
            let vector = dtype.with_lanes(count);
            let src: Sources = index.iter().cloned().collect();
            let together =
                UOp::new(Op::Load, vector, smallvec![UOp::new(Op::Index, vector, src, Arg::None)], Arg::None);
            for (number, (_, one)) in loads[at..at + count].iter().enumerate() {
                let lane = UOp::new(Op::Lane, dtype, smallvec![together.clone()], Arg::Number(number as i64));
                lanes.insert(one.clone(), lane);
            }
        }
        at += count.max(1);
    }
}
