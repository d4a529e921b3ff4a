//! Loop nests as fusion sees them: which loops an index depends on, and how often a value is computed.
//!
//! A kernel has *outer* loops, one for each axis of its stored values that is longer than 1, known by their position; stores of
//! one kernel share their leading loops. Each reduction inside opens loops of its own, known by a number. A [`Use`] is one place
//! where a kernel asks for a node: for each axis, the loops that its index [depends](Dependence) on, and a *key*, a node that says how the
//! index is made of loops. Nodes are hash-consed, so two places with one key are one place, and asking twice at the same place counts
//! once; that memory may be written in place rests on this, so a key is no hash, of which two may be equal by chance.
//!
//! A value is computed in the innermost loop that it depends on. A reduction that depends on some of the outer loops alone is
//! computed once for each of their iterations if these can stand outside of all others. Sets of loops that some reduction needs
//! outermost are *pinned*; they always form a chain, each containing the one before:
//!
//! ```text
//! softmax of [i, j] along j:     for i { max over j'; sum over j''; for j { store } }      pinned: {i}
//! softmax of [i, j] along i:     for j { max over i'; sum over i''; for i { store } }      pinned: {j}
//! ```
//!
//! Dependence through reshapes is taken from whole groups of axes, so it may name a loop too many, never one too few.

use smallvec::{SmallVec, smallvec};

use crate::ir::{Arg, Dim, Op, Shape, UOp};

/// A set of loops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Dependence {
    /// Positions of outer loops, a bit each.
    pub(super) outer: u64,
    /// Numbers of reduction loops, ascending.
    pub(super) loops: SmallVec<[u32; 2]>,
}

impl Dependence {
    pub(super) fn join(&mut self, other: &Dependence) {
        self.outer |= other.outer;
        for &number in &other.loops {
            if let Err(at) = self.loops.binary_search(&number) {
                self.loops.insert(at, number);
            }
        }
    }
}

/// The index of one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AxisIndex {
    /// How it is made: equal for equal indices.
    pub(super) key: UOp,
    /// The loops that it names.
    pub(super) loops: Dependence,
}

/// One place where a kernel asks for a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Use {
    /// The kernel.
    pub(super) group: u32,
    /// An index for each axis of the node.
    pub(super) axes: SmallVec<[AxisIndex; 4]>,
    /// The condition under which the place exists, as padding makes them.
    pub(super) gate: AxisIndex,
}

/// How an index is made, the first part of its key.
#[derive(Clone, Copy)]
enum Making {
    OuterLoop,
    ReductionLoop,
    Flip,
    Shrink,
    Pad,
    PadGate,
    Reshape,
    Gather,
    GatherGate,
    View,
    Part,
}

/// The key of a making with its numbers or nodes, and the keys that it is made of. The makings' own parts are as many for each making,
/// or say how many they are.
fn key(how: Making, parts: impl IntoIterator<Item = UOp>, of: impl IntoIterator<Item = UOp>) -> UOp {
    UOp::sink(std::iter::once(UOp::index(how as i64)).chain(parts).chain(of))
}

impl AxisIndex {
    /// The constant 0, as of an axis of length 1.
    pub(super) fn zero() -> AxisIndex {
        AxisIndex { key: UOp::index(0), loops: Dependence::default() }
    }

    /// Whether it is the constant 0.
    pub(super) fn is_zero(&self) -> bool {
        self.key.is_const(0)
    }

    /// The index that is an outer loop.
    pub(super) fn outer(position: usize) -> AxisIndex {
        let loops = Dependence { outer: 1 << position, loops: SmallVec::new() };
        AxisIndex { key: key(Making::OuterLoop, [UOp::index(position as i64)], []), loops }
    }

    /// The index that is a reduction loop.
    pub(super) fn reduction(number: u32) -> AxisIndex {
        let loops = Dependence { outer: 0, loops: smallvec![number] };
        AxisIndex { key: key(Making::ReductionLoop, [UOp::index(number as i64)], []), loops }
    }

    /// An index made of others.
    fn made(how: Making, parts: impl IntoIterator<Item = UOp>, of: &[AxisIndex]) -> AxisIndex {
        let mut loops = Dependence::default();
        of.iter().for_each(|index| loops.join(&index.loops));
        AxisIndex { key: key(how, parts, of.iter().map(|index| index.key.clone())), loops }
    }

    /// One of the indices that an index is taken apart into.
    fn part(&self, number: usize) -> AxisIndex {
        AxisIndex::made(Making::Part, [UOp::index(number as i64)], std::slice::from_ref(self))
    }
}

impl Use {
    /// The place where a kernel stores a node: each axis longer than 1 is an outer loop.
    pub(super) fn of_store(group: u32, shape: &Shape) -> Use {
        let mut position = 0;
        let axes = shape.iter().map(|dim| {
            if dim.is(1) {
                return AxisIndex::zero();
            }
            position += 1;
            AxisIndex::outer(position - 1)
        });
        Use { group, axes: axes.collect(), gate: AxisIndex::zero() }
    }

    /// Every loop that the place depends on.
    pub(super) fn dependence(&self) -> Dependence {
        let mut all = self.gate.loops.clone();
        self.axes.iter().for_each(|index| all.join(&index.loops));
        all
    }

    /// The place of operand `k` of an op that is asked for here. Reductions are not handled here: they open loops.
    pub(super) fn of_operand(&self, node: &UOp, k: usize) -> Use {
        let from = node.src()[k].shape();
        if node.op().is_movement() {
            return self.moved(node, from);
        }
        match (node.op(), node.arg()) {
            (Op::Gather, Arg::Axis(axis)) => self.gathered(*axis as usize, node, k),
            // An operand of rank 0 is broadcast.
            _ if from.len() < self.axes.len() => Use { axes: SmallVec::new(), ..self.clone() },
            _ => self.clone(),
        }
    }

    fn gathered(&self, axis: usize, node: &UOp, k: usize) -> Use {
        let (start, end) = (axis, axis + node.src()[1].shape().len());
        let chosen = &self.axes[start..end];
        if k > 0 {
            return Use { axes: chosen.iter().cloned().collect(), ..self.clone() };
        }
        let row = AxisIndex::made(Making::Gather, [node.src()[1].clone()], chosen);
        // A row out of range does not exist, also of an axis of length 1, whose index is left out elsewhere.
        let gate = AxisIndex::made(Making::GatherGate, [], &[self.gate.clone(), row.clone()]);
        let axes = self.axes[..start].iter().chain([&row]).chain(&self.axes[end..]).cloned().collect();
        Use { axes, gate, ..self.clone() }
    }

    fn moved(&self, node: &UOp, from: &Shape) -> Use {
        let mut gate = self.gate.clone();
        let axes = match (node.op(), node.arg()) {
            (Op::Reshape, Arg::Shape(to)) => self.reshaped(from, to),
            (Op::Permute, Arg::Axes(order)) => {
                let mut axes = self.axes.clone();
                for (axis, &source) in order.iter().enumerate() {
                    axes[source as usize] = self.axes[axis].clone();
                }
                axes
            }
            (Op::Expand, _) => {
                let pairs = self.axes.iter().zip(from.iter());
                pairs.map(|(index, dim)| if dim.is(1) { AxisIndex::zero() } else { index.clone() }).collect()
            }
            (Op::Flip, Arg::Axes(flipped)) => {
                let mut axes = self.axes.clone();
                for &axis in flipped {
                    axes[axis as usize] =
                        AxisIndex::made(Making::Flip, [], std::slice::from_ref(&self.axes[axis as usize]));
                }
                axes
            }
            (Op::Shrink, Arg::Bounds(bounds)) => {
                let pairs = self.axes.iter().zip(bounds.iter());
                pairs.map(|(index, (start, _))| shifted(Making::Shrink, index, start)).collect()
            }
            (Op::Pad, Arg::Bounds(bounds)) => {
                let pairs = self.axes.iter().zip(bounds.iter());
                let gated: SmallVec<[AxisIndex; 4]> = std::iter::once(self.gate.clone())
                    .chain(pairs.clone().filter(|(_, (a, b))| !(a.is(0) && b.is(0))).map(|(index, _)| index.clone()))
                    .collect();
                if gated.len() > 1 {
                    let ends = bounds.iter().flat_map(|(before, after)| [before.to_uop(), after.to_uop()]);
                    let lens = from.iter().map(Dim::to_uop);
                    let rank = UOp::index(from.len() as i64);
                    gate = AxisIndex::made(Making::PadGate, std::iter::once(rank).chain(ends).chain(lens), &gated);
                }
                pairs.map(|(index, (before, _))| shifted(Making::Pad, index, before)).collect()
            }
            _ => {
                let all = AxisIndex::made(Making::View, [node.clone()], &self.axes);
                (0..from.len()).map(|axis| all.part(axis)).collect()
            }
        };
        Use { group: self.group, axes, gate }
    }

    fn reshaped(&self, from: &Shape, to: &Shape) -> SmallVec<[AxisIndex; 4]> {
        let mut axes: SmallVec<[AxisIndex; 4]> = smallvec![AxisIndex::zero(); from.len()];
        for (old, new) in reshape_groups(from, to) {
            if let ([old], [new]) = (&old[..], &new[..]) {
                axes[*old] = self.axes[*new].clone();
                continue;
            }
            let part: SmallVec<[AxisIndex; 4]> = new.iter().map(|&axis| self.axes[axis].clone()).collect();
            let lens = new.iter().map(|&axis| &to[axis]).chain(old.iter().map(|&axis| &from[axis]));
            let count = UOp::index(lens.clone().count() as i64);
            let flat = AxisIndex::made(Making::Reshape, std::iter::once(count).chain(lens.map(Dim::to_uop)), &part);
            for (number, &axis) in old.iter().enumerate() {
                axes[axis] = flat.part(number);
            }
        }
        axes
    }
}

fn shifted(how: Making, index: &AxisIndex, by: &Dim) -> AxisIndex {
    if by.is(0) { index.clone() } else { AxisIndex::made(how, [by.to_uop()], std::slice::from_ref(index)) }
}

type AxisList = SmallVec<[usize; 4]>;

/// Axes of `from` and `to`, longer than 1, in groups of equal products: a reshape moves elements only within a group.
fn reshape_groups(from: &Shape, to: &Shape) -> Vec<(AxisList, AxisList)> {
    let real = |shape: &Shape| -> AxisList { (0..shape.len()).filter(|&axis| !shape[axis].is(1)).collect() };
    let (old, new) = (real(from), real(to));
    let mut groups: Vec<(AxisList, AxisList)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let (i_start, j_start) = (i, j);
        if from[old[i]] == to[new[j]] {
            (i, j) = (i + 1, j + 1);
        } else {
            let (mut a, mut b) = (from[old[i]].max_value() as i128, to[new[j]].max_value() as i128);
            (i, j) = (i + 1, j + 1);
            while a != b {
                let grow_old = if a < b { i < old.len() } else { j >= new.len() };
                match (grow_old, i < old.len(), j < new.len()) {
                    (true, true, _) => {
                        a = a.saturating_mul(from[old[i]].max_value() as i128);
                        i += 1;
                    }
                    (_, _, true) => {
                        b = b.saturating_mul(to[new[j]].max_value() as i128);
                        j += 1;
                    }
                    _ => break,
                }
            }
        }
        groups.push((old[i_start..i].iter().copied().collect(), new[j_start..j].iter().copied().collect()));
    }
    // What is left on one side joins the last group: lengths were symbolic and did not add up.
    if let Some((last_old, last_new)) = groups.last_mut() {
        last_old.extend(old[i..].iter().copied());
        last_new.extend(new[j..].iter().copied());
    }
    groups
}

/// A loop inside of a kernel: of a reduction, or of a value that is kept.
#[derive(Clone, Debug)]
pub(super) struct ReductionLoop {
    /// Iterations.
    pub(super) len: f64,
    /// Every loop that it runs inside of.
    pub(super) within: Dependence,
    /// Whether it fills scratch memory, instead of reducing.
    pub(super) keeps: bool,
    /// Whether it is one over blocks, which stands outside of loops over what the reduction comes to.
    pub(super) is_of_blocks: bool,
}

/// The outer loops of one kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct OuterLoops {
    /// Length of each, by position: the axes of the stored value of highest rank.
    pub(super) lens: SmallVec<[Dim; 4]>,
    /// Sets of positions that must be able to stand outermost: a chain, smallest first.
    pub(super) pins: SmallVec<[u64; 4]>,
}

impl OuterLoops {
    /// The outer loops of a kernel that stores one value.
    pub(super) fn of_store(shape: &Shape) -> OuterLoops {
        OuterLoops { lens: shape.iter().filter(|dim| !dim.is(1)).cloned().collect(), pins: SmallVec::new() }
    }

    fn all(&self) -> u64 {
        leading(self.lens.len())
    }

    /// Iterations of a set of loops.
    pub(super) fn count(&self, set: u64) -> f64 {
        (0..self.lens.len()).filter(|&k| set >> k & 1 == 1).map(|k| self.lens[k].max_value() as f64).product()
    }

    /// The loops that are open around a value that depends on `set`: all that stand outside of the innermost of it.
    pub(super) fn open_around(&self, set: u64) -> u64 {
        if set == 0 {
            return 0;
        }
        let mut below = 0;
        for pin in self.pins.iter().copied().chain([self.all()]) {
            if set & !pin == 0 {
                // Between two pins loops stand in the order of their axes.
                let last = 63 - (set & !below).leading_zeros() as usize;
                return below | (pin & leading(last + 1));
            }
            below = pin;
        }
        self.all()
    }

    /// Iterations of the loops around a value that depends on `set`, once that is pinned.
    pub(super) fn count_pinned(&self, set: u64) -> f64 {
        let mut pinned = self.clone();
        pinned.pin(set);
        pinned.count(pinned.open_around(set))
    }

    /// Whether `set` holds the loop over the last axis.
    pub(super) fn names_last(&self, set: u64) -> bool {
        !self.lens.is_empty() && set >> (self.lens.len() - 1) & 1 == 1
    }

    /// Whether `set` can stand outermost beside all that is pinned.
    pub(super) fn can_pin(&self, set: u64) -> bool {
        self.pins.iter().all(|&pin| set & !pin == 0 || pin & !set == 0)
    }

    /// Makes `set` stand outermost. The caller asked [`OuterLoops::can_pin`].
    pub(super) fn pin(&mut self, set: u64) {
        if set == 0 || set == self.all() {
            return;
        }
        let at = self.pins.iter().position(|&pin| pin.count_ones() >= set.count_ones()).unwrap_or(self.pins.len());
        if self.pins.get(at) != Some(&set) {
            self.pins.insert(at, set);
        }
    }

    /// The loops of two kernels as one, or why that cannot be.
    pub(super) fn joined(&self, other: &OuterLoops) -> Result<OuterLoops, &'static str> {
        let (long, short) = if self.lens.len() >= other.lens.len() { (self, other) } else { (other, self) };
        if long.lens[..short.lens.len()] != short.lens[..] {
            return Err("their outer loops differ in length");
        }
        let mut joined = long.clone();
        for pin in short.pins.iter().copied().chain([short.all()]) {
            if !joined.can_pin(pin) {
                return Err("their reductions need the outer loops in different orders");
            }
            joined.pin(pin);
        }
        Ok(joined)
    }
}

/// The first `count` positions.
pub(super) fn leading(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn outer(lens: &[i64]) -> OuterLoops {
        OuterLoops::of_store(&lens.into())
    }

    #[test]
    fn values_are_computed_in_the_innermost_loop_that_they_need() {
        let mut loops = outer(&[2, 3, 5]);
        assert_eq!(loops.open_around(0b001), 0b001);
        assert_eq!(loops.open_around(0b100), 0b111);
        assert!(loops.can_pin(0b100));
        loops.pin(0b100);
        assert_eq!(loops.open_around(0b100), 0b100);
        assert_eq!(loops.open_around(0b001), 0b101);
        assert_eq!(loops.count(0b101), 10.0);
        assert!(!loops.can_pin(0b010), "two sets of which neither holds the other cannot both stand outermost");
    }

    #[test]
    fn kernels_join_along_their_leading_loops() {
        let mut softmax = outer(&[16, 32]);
        softmax.pin(0b01);
        assert_eq!(outer(&[16]).joined(&softmax).unwrap().pins[..], [0b01]);
        assert!(outer(&[32]).joined(&softmax).is_err());
        let mut other = outer(&[16, 32]);
        other.pin(0b10);
        assert!(other.joined(&softmax).is_err());
    }

    #[test]
    fn places_move_with_movement_ops() {
        let x = UOp::param(0, DType::F32, 192).reshape([4, 8, 6]);
        let at_store = Use::of_store(0, &[6, 32].into());
        let moved = x.permute(&[2, 0, 1]).reshape([6, 32]);
        let below = at_store.of_operand(&moved, 0);
        assert_eq!(below.axes[0].loops.outer, 0b01);
        assert_eq!(below.axes[1].loops.outer, 0b10);
        let base = below.of_operand(&moved.src()[0], 0);
        assert_eq!(base.axes.iter().map(|index| index.loops.outer).collect::<Vec<_>>(), [0b10, 0b10, 0b01]);
        assert_ne!(base.axes[0].key, base.axes[1].key);
    }

    #[test]
    fn keys_tell_places_apart() {
        let x = UOp::param(0, DType::F32, 8).exp2();
        let store = Use::of_store(0, &[8].into());
        let flipped = store.of_operand(&x.flip(&[0]), 0);
        let again = store.of_operand(&x.flip(&[0]), 0);
        assert_ne!(flipped, store);
        assert_eq!(flipped, again);
        let shape: Shape = [1, 8].into();
        assert_eq!(Use::of_store(0, &shape).of_operand(&x.reshape(shape), 0), store);
    }
}
