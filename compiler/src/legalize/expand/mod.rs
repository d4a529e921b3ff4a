//! Ranges of kind `unroll` become straight-line code, those of kind `vector` become lanes.
//!
//! An unrolled range is replaced by each of its numbers in turn (`unroll`). A vector range is replaced by lanes: what depends on it becomes a vector, what does not is splat
//! where it meets one; a store that closes it stores a vector, a reduction that closes it combines the lanes.
//!
//! Loads and stores whose offset moves by 1 with the lane become vector accesses, by 0 scalar ones, by another constant gathers;
//! any other offset is computed lane by lane, where rules can simplify each. A local buffer that depends on a lane keeps a vector where it
//! kept a value: its scratch grows by the count of lanes, and the lanes of one element lie side by side. Leaves: no range of these two kinds.
//!
//! Tested by filetests, and by random lists of opts on random kernels.

mod lane_indices;
mod loads;
mod loop_ends;
mod unroll;
mod vectors;

use std::cell::RefCell;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::smallvec;

use loads::repeated;
use unroll::unroll;
use vectors::{ramp, splat};

use crate::ir::{Arg, AxisKind, Op, Sources, UOp, with_mapped_sources};
use crate::kernel::effects::find_lost_loads;
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, range_id};

/// Expands every range of kind `unroll` or `vector`.
pub fn expand(root: &UOp) -> UOp {
    vectorize(&find_lost_loads(&unroll(root)))
}

fn kind_of(range: &UOp) -> AxisKind {
    range.as_range().map_or(AxisKind::Loop, |range| range.kind)
}

/// The store over other leading operands and ranges.
fn reclose(store: &UOp, open: &[UOp], ranges: impl Iterator<Item = UOp>) -> UOp {
    UOp::new(store.op(), store.dtype(), open.iter().cloned().chain(ranges).collect::<Sources>(), store.arg().clone())
}

/// Lanes for vector ranges.
fn vectorize(root: &UOp) -> UOp {
    let dependencies = Dependencies::of(root);
    let mut lanes: FxHashMap<u32, UOp> = FxHashMap::default();
    for node in &dependencies.order {
        if node.op() == Op::Range && kind_of(node) == AxisKind::Vector {
            lanes.insert(range_id(node), node.clone());
        }
    }
    if lanes.is_empty() {
        return root.clone();
    }
    let mut vectorizer = Vectorizer {
        dependencies,
        lanes,
        done: FxHashMap::default(),
        steps: Default::default(),
        lane_indices: Default::default(),
    };
    let order = vectorizer.dependencies.order.clone();
    let wanted = vectorizer.wanted(root);
    for node in order {
        let new = if wanted.contains(&node) { vectorizer.convert(&node) } else { node.clone() };
        vectorizer.done.insert(node, new);
    }
    vectorizer.done.remove(root).unwrap_or_else(|| root.clone())
}

/// Whether a node is a load or a reduction, or has some below.
fn fetches(node: &UOp) -> bool {
    node.contains(Op::Load) || node.contains(Op::ReduceRange)
}

struct Vectorizer {
    dependencies: Dependencies,
    lanes: FxHashMap<u32, UOp>,
    done: FxHashMap<UOp, UOp>,
    /// By how much each index expression grows from lane to lane, and what it is in one lane: many accesses ask for one.
    steps: RefCell<FxHashMap<(UOp, UOp), Option<i64>>>,
    lane_indices: RefCell<FxHashMap<(UOp, UOp, i64), UOp>>,
}

impl Vectorizer {
    /// The vector range that a node depends on, if any; a bug if there are two.
    fn lane_of(&self, node: &UOp) -> Option<UOp> {
        let mut found = self.dependencies.get(node).iter().filter_map(|id| self.lanes.get(&id));
        let lane = found.next().cloned();
        assert!(found.next().is_none(), "bug in the compiler: a value depends on two vector ranges");
        lane
    }

    /// The nodes whose lanes somebody asks for: not those that only say where vectors of memory lie, of which loads and stores make the first
    /// lane themselves.
    fn wanted(&self, root: &UOp) -> FxHashSet<UOp> {
        let order = &self.dependencies.order;
        let mut wanted: FxHashSet<UOp> = FxHashSet::with_capacity_and_hasher(order.len(), FxBuildHasher);
        wanted.insert(root.clone());
        for node in order.iter().rev() {
            if !wanted.contains(node) {
                continue;
            }
            let plain = self.plain_index(node);
            wanted.extend(node.src().iter().filter(|operand| plain != Some(*operand)).cloned());
            if let Some([memory, _, gate @ ..]) = plain.map(UOp::src) {
                wanted.extend([memory].into_iter().chain(gate).cloned());
            }
        }
        wanted
    }

    /// The address of a load or store over lanes, if its offset is index arithmetic in memory that is the same for all lanes.
    fn plain_index<'n>(&self, node: &'n UOp) -> Option<&'n UOp> {
        let index = node.src().first().filter(|_| matches!(node.op(), Op::Load | Op::Store))?;
        let [memory, offset, ..] = index.src() else { return None };
        let is_given = memory.op() == Op::Param && !fetches(offset);
        let has_lanes = match node.op() {
            Op::Load => self.lane_of(node).is_some(),
            _ => closed_ranges(node).iter().any(|range| kind_of(range) == AxisKind::Vector),
        };
        (is_given && has_lanes).then_some(index)
    }

    fn convert(&self, node: &UOp) -> UOp {
        if is_loop_end(node) {
            return self.convert_loop_end(node);
        }
        let Some(lane) = self.lane_of(node) else {
            return with_mapped_sources(node, |operand| &self.done[operand]);
        };
        let count = lane.src()[0].as_int().unwrap_or(1) as usize;
        match node.op() {
            Op::Range => ramp(&UOp::index(0), 1, count),
            Op::Load => self.convert_load(node, &lane, count),
            Op::Running => {
                let values = node.arg().values_of_reduction();
                let in_lanes = |(number, operand): (usize, &UOp)| match number < values {
                    true => splat(&self.done[operand], count),
                    false => self.done[operand].clone(),
                };
                let src: Sources = node.src().iter().enumerate().map(in_lanes).collect();
                UOp::new(Op::Running, node.dtype().with_lanes(count), src, node.arg().clone())
            }
            Op::Stack => self.convert_terms(node, &lane, count),
            Op::DotProducts => {
                let [left, right, sums] = [0, 1, 2].map(|operand: usize| &node.src()[operand]);
                let group = left.dtype().lanes();
                let factor = |factor: &UOp| repeated(&self.done[factor], group, count);
                let src: Sources = smallvec![factor(left), factor(right), splat(&self.done[sums], count)];
                UOp::new(Op::DotProducts, node.dtype().with_lanes(count), src, Arg::None)
            }
            // Addresses are made by the loads and stores that use them.
            Op::Index => node.clone(),
            Op::LocalBuffer => {
                let filled = node.src().iter().map(|store| match self.lane_of(store) {
                    Some(_) => self.done[store].clone(),
                    // Its value became the same in all lanes, but who reads the local buffer finds a vector for each of its elements.
                    None => self.convert_store_of_lanes(store, &lane, self.kept_ranges(store)),
                });
                node.with_src(filled.collect::<Sources>())
            }
            op if op.is_elementwise() => {
                let src: Sources = node.src().iter().map(|operand| splat(&self.done[operand], count)).collect();
                if node.dtype().is_index() {
                    return self.convert_index_value(node, &lane, count, src);
                }
                let dtype = node.dtype().with_lanes(count);
                UOp::new(op, dtype, src, node.arg().clone())
            }
            op => panic!("bug in the compiler: {op} over a vector range"),
        }
    }
}
