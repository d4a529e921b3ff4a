//! A range cut where conditions on it are decided: its ends are peeled off, and what is left in the middle has no gates.
//!
//! ```text
//! for x in 0..28 { s[x] = load p[x + k - 1] where 0 < x + k < 29 }      k in 0..3
//!
//! for x in 0..26 { s[x + 1] = load p[x + k] }                           the middle
//! s[0] = load p[k - 1] where 0 < k; s[27] = load p[k + 26] where k < 2  the ends
//! ```
//!
//! The opt takes any two iterations to cut at; `cuts` finds those where something is decided. What becomes of the conditions is the simplifier's business,
//! which knows the bounds of the three parts.
//!
//! Always: each element is stored once, by the part that its index falls into; the middle keeps the range's number. Refused for reductions, for what
//! accumulates in memory, for updates in place at quotients of the range, and on targets with blocks of threads where the last part overlaps. Tested by filetests, and by random lists of opts on random kernels.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::split::{loops_inside, with_number};
use crate::ir::{AxisKind, Op, Sources, UOp, postorder, rebuild};
use crate::kernel::accumulate::accumulated_ranges;
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{
    Dependencies, NewRanges, RangeSet, closed_ranges, is_loop_end, next_range_id, range_id, substitute_ranges,
};
use crate::optimize::opt::Reason;
use crate::symbolic::simplify;
use crate::target::Target;

/// A range as its part from `begin` to `end`, and what is before and behind apart.
///
/// # Errors
/// Why not.
pub(crate) fn peel(root: &UOp, range: &UOp, begin: u32, end: u32, target: &Target) -> Result<UOp, Reason> {
    if range.as_range().is_none_or(|arg| arg.kind != AxisKind::Loop) {
        return Err("only a loop over outputs, or one that fills scratch, can be cut".into());
    }
    let len = range.src()[0].as_int().ok_or("the length is not a constant")?;
    let (begin, end) = (i64::from(begin), i64::from(end));
    if begin >= end || end > len || end - begin == len {
        return Err("the part is empty, all of the range, or not in it".into());
    }
    let closes = |node: &&UOp| is_loop_end(node) && closed_ranges(node).contains(range);
    let dependencies = Dependencies::of(root);
    let mut closing = dependencies.order.iter().filter(closes);
    if closing.any(|node| node.op() == Op::ReduceRange || accumulated_ranges(node).next().is_some()) {
        return Err("a reduction would be cut".into());
    }
    if replaces_by_digits(root, range, &dependencies) {
        return Err("what is read and replaced lies at quotients and remainders of the range".into());
    }
    if target.blocks.is_some() && overlaps(root, range, &dependencies) {
        return Err("the last part overlaps the one before it: two threads would store one element".into());
    }
    let mut cut = Cut { range, next: next_range_id(root), parts: [(begin, end), (0, begin), (end, len)] };
    // A local buffer by what it is made of: copies of one are cut alike.
    let mut done: FxHashMap<UOp, Sources> = FxHashMap::default();
    let new = rebuild(root, |node, rebuilt| {
        if !matches!(node.op(), Op::LocalBuffer | Op::Sink) || !node.src().iter().any(|store| closes(&store)) {
            return rebuilt;
        }
        let stores = done.entry(rebuilt.clone()).or_insert_with(|| cut.stores(rebuilt.src()));
        rebuilt.with_src(stores.clone())
    });
    Ok(without_true_gates(&simplify(&new)))
}

/// Whether the last iteration begins earlier and stores again what the one before it did. Once they are apart, nothing shows that any more.
fn overlaps(root: &UOp, range: &UOp, dependencies: &Dependencies) -> bool {
    let is_earlier = |node: &UOp| node.op() == Op::Min && dependencies.get(node).contains(range_id(range));
    root.src().iter().any(|store| postorder(&store.src()[0].src()[1..2]).iter().any(is_earlier))
}

/// Whether memory that the kernel reads and replaces is taken by quotients or remainders of the range: of a part that begins later nothing shows
/// that its elements are others (`linearize::effects`).
fn replaces_by_digits(root: &UOp, range: &UOp, dependencies: &Dependencies) -> bool {
    let replaced = memory_in_place(root);
    let is_digit =
        |node: &UOp| matches!(node.op(), Op::IDiv | Op::Mod) && dependencies.get(node).contains(range_id(range));
    let is_replaced = |node: &&UOp| node.op() == Op::Index && replaced.contains(&node.src()[0]);
    let mut offsets = dependencies.order.iter().filter(is_replaced).map(|index| &index.src()[1]);
    offsets.any(|offset| postorder(std::slice::from_ref(offset)).iter().any(is_digit))
}

/// The kernel with loads that are always there as loads without a condition.
fn without_true_gates(root: &UOp) -> UOp {
    rebuild(root, |node, rebuilt| {
        let is_true = node.op() == Op::Index && rebuilt.src().get(2).is_some_and(|gate| gate.as_int() == Some(1));
        if is_true { rebuilt.with_src(rebuilt.src()[..2].iter().cloned().collect::<Sources>()) } else { rebuilt }
    })
}

/// A range with the parts that it is cut into, the one that keeps its number first.
struct Cut<'r> {
    range: &'r UOp,
    next: u32,
    parts: [(i64, i64); 3],
}

impl Cut<'_> {
    /// The stores, each that closes the range as one for each part.
    fn stores(&mut self, stores: &[UOp]) -> Sources {
        let (cut, kept): (Vec<UOp>, Vec<UOp>) =
            stores.iter().cloned().partition(|store| closed_ranges(store).contains(self.range));
        let parts = self.parts;
        let filled = parts.iter().enumerate().filter(|(_, (begin, end))| begin < end);
        let filled: Vec<UOp> =
            filled.flat_map(|(number, (begin, end))| self.part(&cut, *begin, end - begin, number == 0)).collect();
        filled.into_iter().chain(kept).collect()
    }

    fn part(&mut self, stores: &[UOp], begin: i64, len: i64, keeps_numbers: bool) -> Vec<UOp> {
        let id = if keeps_numbers { range_id(self.range) } else { self.fresh() };
        let rest = UOp::range(len, id, AxisKind::Loop);
        let new = match len {
            1 => NewRanges { value: UOp::index(begin), ranges: smallvec![] },
            _ => NewRanges { value: UOp::index(begin) + &rest, ranges: smallvec![rest] },
        };
        let sink = UOp::sink(stores.iter().cloned());
        let mut map: FxHashMap<UOp, NewRanges> = [(self.range.clone(), new)].into_iter().collect();
        if !keeps_numbers {
            for other in self.loops_inside(&sink) {
                let fresh = with_number(&other, self.fresh());
                map.insert(other, NewRanges { value: fresh.clone(), ranges: smallvec![fresh] });
            }
        }
        substitute_ranges(&sink, &map).src().to_vec()
    }

    /// Loops that stand in the range, and so in each part are others.
    fn loops_inside(&self, sink: &UOp) -> Vec<UOp> {
        let behind = |store: &UOp| closed_ranges(store).rsplit(|other| other == self.range).next().map(<[UOp]>::to_vec);
        let own = sink.src().iter().filter_map(behind).flatten().collect();
        let mut around = RangeSet::default();
        around.insert(range_id(self.range));
        loops_inside(&Dependencies::of(sink), own, around)
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
