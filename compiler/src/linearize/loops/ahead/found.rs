//! The loop of which copies are made ahead: it fills scratches that have room for two, and reads them. And what of its body fills.
//!
//! Tested with what is made of it ([`super`]).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Arg, AxisKind, MemorySpace, Op, UOp};
use crate::linearize::barriers::length_of_step;

/// A loop that fills scratches and reads them.
pub(super) struct Found {
    /// Where it begins and ends.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) scratches: FxHashSet<UOp>,
}

impl Found {
    /// Numbers of the scratches.
    pub(super) fn numbers(&self) -> FxHashSet<u32> {
        let number = |scratch: &UOp| match scratch.arg() {
            Arg::Scratch(number, ..) => Some(*number),
            _ => None,
        };
        self.scratches.iter().filter_map(number).collect()
    }

    fn holds(&self, index: &UOp) -> bool {
        index.op() == Op::Index && self.scratches.contains(&index.src()[0])
    }
}

/// Elements of a half of a scratch, where the second one is not used.
pub(super) fn half_of(scratch: &UOp, list: &[UOp]) -> Option<i64> {
    let Arg::Scratch(_, len, MemorySpace::Shared) = *scratch.arg() else { return None };
    let half = i64::try_from(len / 2).ok().filter(|half| len % 2 == 0 && *half > 0)?;
    let indices = || list.iter().filter(|node| node.op() == Op::Index && node.src()[0] == *scratch);
    let is_in_half = |index: &UOp| {
        let offset = &index.src()[1];
        offset.dtype().lanes() == 1
            && offset.min_value() >= 0
            && offset.max_value() + (index.dtype().lanes() as i64) <= half
    };
    (indices().next().is_some() && indices().all(is_in_half)).then_some(half)
}

/// The outermost loop whose iterations fill and read scratches that have room for two.
pub(super) fn find(list: &[UOp]) -> Option<Found> {
    let mut open: Vec<usize> = Vec::new();
    let scratches = list.iter().filter(|node| node.op() == Op::Scratch);
    let with_room: FxHashSet<&UOp> = scratches.filter(|scratch| half_of(scratch, list).is_some()).collect();
    // The loop that holds all accesses of each scratch.
    let mut homes: FxHashMap<UOp, Vec<usize>> = FxHashMap::default();
    for (position, node) in list.iter().enumerate() {
        match node.op() {
            Op::Range => open.push(position),
            Op::EndRange => drop(open.pop()),
            Op::Index if with_room.contains(&node.src()[0]) => {
                let home = homes.entry(node.src()[0].clone()).or_insert_with(|| open.clone());
                let shared = home.iter().zip(&open).take_while(|(a, b)| a == b).count();
                home.truncate(shared);
            }
            _ => {}
        }
    }
    let is_loop = |position: &usize| list[*position].as_range().is_some_and(|arg| !arg.kind.is_thread_index());
    let begin = homes.values().filter_map(|home| home.last().copied().filter(is_loop)).min()?;
    let is_alone = |home: &[usize]| home.last() == Some(&begin) && home.iter().filter(|at| is_loop(at)).count() == 1;
    let scratches: FxHashSet<UOp> =
        homes.into_iter().filter(|(_, home)| is_alone(home)).map(|(scratch, _)| scratch).collect();
    let kind = list[begin].as_range()?.kind;
    let is_counted = list[begin].src()[0].as_int().is_some_and(|len| len >= 2);
    let end = begin + length_of_step(&list[begin..]) - 1;
    let fits = matches!(kind, AxisKind::Loop | AxisKind::Reduce) && is_counted && !scratches.is_empty();
    fits.then_some(Found { begin, end, scratches })
}

/// The body of a loop, taken apart.
pub(super) struct Body<'l> {
    /// What the steps that fill need of the loop's own ops.
    pub(super) needs: Vec<&'l UOp>,
    pub(super) fills: Vec<&'l [UOp]>,
    pub(super) others: Vec<&'l [UOp]>,
}

/// What of the body fills, what that needs, and the rest; nothing where what fills cannot be taken out.
pub(super) fn take_apart<'l>(list: &'l [UOp], found: &Found) -> Option<Body<'l>> {
    let (mut fills, mut others) = (Vec::new(), Vec::new());
    let mut at = found.begin + 1;
    while at < found.end {
        let step = &list[at..at + length_of_step(&list[at..])];
        at += step.len();
        let stores = |node: &UOp| node.op() == Op::Store && found.holds(&node.src()[0]);
        let is_fill = step.iter().any(stores);
        let is_plain = |node: &UOp| match node.op() {
            Op::Store => stores(node),
            Op::Load => node.src()[0].src()[0].op() == Op::Param,
            Op::Exchange | Op::Previous | Op::Accumulator | Op::Update | Op::Barrier => false,
            Op::ShuffleReduce | Op::LoadMatrices | Op::MultiplyMatrices => false,
            _ => true,
        };
        if is_fill && !step.iter().all(is_plain) {
            return None;
        }
        if is_fill { fills.push(step) } else { others.push(step) }
    }
    let mut wanted: FxHashSet<&UOp> = fills.iter().flat_map(|step| step.iter()).flat_map(UOp::src).collect();
    let mut needs = Vec::new();
    for step in others.iter().rev() {
        let [node] = step else {
            // A value of a loop beside them.
            if step.iter().any(|node| node.op() != Op::Range && wanted.contains(node)) {
                return None;
            }
            continue;
        };
        if wanted.contains(node) {
            if matches!(node.op(), Op::Load | Op::Accumulator | Op::Final | Op::ShuffleReduce) {
                return None;
            }
            wanted.extend(node.src());
            needs.push(node);
        }
    }
    needs.reverse();
    (!fills.is_empty()).then_some(Body { needs, fills, others })
}
