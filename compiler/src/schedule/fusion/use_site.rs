//! Use sites: where a kernel asks for a node, and what movement ops make of that.
//!
//! A [`Use`] says for each axis which loops its index [depends](Dependence) on, and how the index is made of loops: a *key*. Keys are
//! hash-consed nodes, so two sites with one key are one site, and asking twice at the same site counts once; that memory
//! may be written in place rests on this, so a key is no hash, of which two may be equal by chance.
//!
//! Dependence through reshapes is taken from whole groups of axes, so it may name a loop too many, never one too few.

use smallvec::{SmallVec, smallvec};

use super::loop_model::Dependence;
use crate::ir::{Arg, Dim, Op, Shape, UOp};

/// The index of one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AxisIndex {
    /// How it is made: equal for equal indices.
    pub(super) key: UOp,
    /// The loops that it names.
    pub(super) loops: Dependence,
    /// Whether a tensor says what it is, at least in part; the key says so, too.
    pub(super) is_gathered: bool,
    /// Whether padding shifted it, or the condition is of padding, at least in part; the key says so, too.
    pub(super) is_padded: bool,
}

/// One site where a kernel asks for a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Use {
    /// The kernel.
    pub(super) group: u32,
    /// An index for each axis of the node.
    pub(super) axes: SmallVec<[AxisIndex; 4]>,
    /// The condition under which the site exists, as padding makes them.
    pub(super) gate: AxisIndex,
    /// The part of its iterations that are not padding, in shares of [`WHOLE`]. The condition says what it is.
    pub(super) share: u32,
}

/// All iterations.
pub(super) const WHOLE: u32 = 1 << 16;

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
    Fetch,
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
        AxisIndex { key: UOp::index(0), loops: Dependence::default(), is_gathered: false, is_padded: false }
    }

    /// Whether it is the constant 0.
    pub(super) fn is_zero(&self) -> bool {
        self.key.is_const(0)
    }

    /// The index that is an outer loop.
    pub(super) fn outer(position: usize) -> AxisIndex {
        let loops = Dependence { outer: 1 << position, loops: SmallVec::new() };
        AxisIndex { loops, ..AxisIndex::made(Making::OuterLoop, [UOp::index(position as i64)], &[]) }
    }

    /// The index that is a reduction loop.
    pub(super) fn reduction(number: u32) -> AxisIndex {
        let loops = Dependence { outer: 0, loops: smallvec![number] };
        AxisIndex { loops, ..AxisIndex::made(Making::ReductionLoop, [UOp::index(number as i64)], &[]) }
    }

    /// An index made of others.
    fn made(how: Making, parts: impl IntoIterator<Item = UOp>, of: &[AxisIndex]) -> AxisIndex {
        let mut loops = Dependence::default();
        of.iter().for_each(|index| loops.join(&index.loops));
        let is_gathered = matches!(how, Making::Gather | Making::GatherGate | Making::Fetch);
        let is_padded = matches!(how, Making::Pad | Making::PadGate);
        AxisIndex {
            key: key(how, parts, of.iter().map(|index| index.key.clone())),
            loops,
            is_gathered: is_gathered || of.iter().any(|index| index.is_gathered),
            is_padded: is_padded || of.iter().any(|index| index.is_padded),
        }
    }

    /// Whether it names an element wherever loops are, so that nothing needs to ask.
    pub(super) fn always_exists(&self) -> bool {
        !self.is_gathered && !self.is_padded
    }

    /// One of the indices that an index is taken apart into.
    fn part(&self, number: usize) -> AxisIndex {
        AxisIndex::made(Making::Part, [UOp::index(number as i64)], std::slice::from_ref(self))
    }
}

impl Use {
    /// The site where a kernel stores a node: each axis longer than 1 is an outer loop.
    pub(super) fn of_store(group: u32, shape: &Shape) -> Use {
        let mut position = 0;
        let axes = shape.iter().map(|dim| {
            if dim.is(1) {
                return AxisIndex::zero();
            }
            position += 1;
            AxisIndex::outer(position - 1)
        });
        Use { group, axes: axes.collect(), gate: AxisIndex::zero(), share: WHOLE }
    }

    /// Every loop that the site depends on.
    pub(super) fn dependence(&self) -> Dependence {
        let mut all = self.gate.loops.clone();
        self.axes.iter().for_each(|index| all.join(&index.loops));
        all
    }

    /// The site of operand `k` of an op that is asked for here. Reductions are not handled here: they open loops.
    pub(super) fn of_operand(&self, node: &UOp, k: usize) -> Use {
        let from = node.src()[k].shape();
        if node.op().is_movement() {
            return self.moved(node, from);
        }
        match (node.op(), node.arg()) {
            (Op::Gather, Arg::Axis(axis)) => self.gathered(*axis as usize, node, k),
            (Op::Fetch, Arg::Scatter(_, axis)) if k == 0 => {
                // All of a line is asked for.
                let mut axes = self.axes.clone();
                let axis = *axis as usize;
                axes[axis] = AxisIndex::made(Making::Fetch, [node.clone()], &self.axes[axis..=axis]);
                Use { axes, ..self.clone() }
            }
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
        let mut share = self.share;
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
                    share = share_within(share, from, node.shape());
                }
                pairs.map(|(index, (before, _))| shifted(Making::Pad, index, before)).collect()
            }
            _ => {
                let all = AxisIndex::made(Making::View, [node.clone()], &self.axes);
                (0..from.len()).map(|axis| all.part(axis)).collect()
            }
        };
        Use { group: self.group, axes, gate, share }
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

/// What is left of a share where axes are padded. Loops are cut where padding begins (`by_hand/cuts`), so that it costs next to nothing.
fn share_within(share: u32, from: &Shape, to: &Shape) -> u32 {
    let axes = from.iter().zip(to.iter()).filter_map(|(from, to)| Some((from.as_const()?, to.as_const()?)));
    let share = axes.fold(share as f64, |share, (from, to)| share * from as f64 / to.max(1) as f64);
    (share as u32).max(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn indices_move_with_movement_ops() {
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
    fn padding_takes_its_share() {
        let x = UOp::param(0, DType::F32, 8).exp2();
        let padded = x.pad(&[(0.into(), 24.into())]).reshape([4, 8]);
        let below = Use::of_store(0, &[4, 8].into()).of_operand(&padded, 0);
        assert_eq!(below.share, WHOLE);
        assert_eq!(below.of_operand(&padded.src()[0], 0).share, WHOLE / 4);
    }

    #[test]
    fn keys_tell_sites_apart() {
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
