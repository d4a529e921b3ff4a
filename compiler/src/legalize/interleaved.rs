//! Stores of vectors in steps that lie between each other become stores of whole vectors, their lanes in turn.
//!
//! ```text
//! store y[base + 0 + {0, 2, 4, 6}], a        store y[base + {0, 1, 2, 3}], {a0, b0, a1, b1}
//! store y[base + 1 + {0, 2, 4, 6}], b   =>   store y[base + 4 + {0, 1, 2, 3}], {a2, b2, a3, b3}
//! ```
//!
//! A scatter takes a store for each lane, this one for each vector and log2(step) shuffles (two where the step is three). It is what lays the phases of a transposed convolution side by side, or the
//! halves of pairs. Copies of narrow numbers in scratch, whose pairs or fours of terms lie beside each other for a dot product, are filled so, too.
//!
//! Always: the same elements get the same values. Steps are at most four, of which all elements between are stored. Not of memory that the kernel loads, nor of stores that
//! accumulate, stand under conditions or wait for loads. A local buffer is loaded when all of its stores are done. Tested below, and in the tests crate, where the CPU agrees with the interpreter.

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp, postorder, rebuild};
use crate::kernel::ranges::{closed_ranges, open_operands};
use crate::symbolic::{linear_terms, simplify};

/// Least lanes for which shuffles are cheaper than single stores.
const LANES_MIN: usize = 4;
/// The longest step: so many vectors are shuffled with each other.
const STEP_MAX: i64 = 4;

/// What stores have in common that lie between each other: memory, lanes, step, the offset but for its constant, and loops.
#[derive(PartialEq, Eq)]
struct Family {
    buffer: UOp,
    lanes: usize,
    step: i64,
    terms: Vec<(UOp, i64)>,
    ranges: Vec<UOp>,
}

/// A store in steps: the constant of its offset, and its number.
struct Member {
    constant: i64,
    number: usize,
    base: UOp,
}

/// Bytes of an element of scratch, at most, whose stores are looked at: those of wider ones stand side by side already, or were not measured.
const SCRATCH_BYTES_MAX: usize = 2;

/// Replaces all stores that fill what lies between them.
pub fn store_between(root: &UOp) -> UOp {
    let is_narrow = |buffer: &UOp| buffer.op() == Op::LocalBuffer && buffer.dtype().bytes() <= SCRATCH_BYTES_MAX;
    if !postorder(std::slice::from_ref(root)).iter().any(is_narrow) {
        return store_to_parameters(root);
    }
    let root = rebuild(root, |node, rebuilt| match is_narrow(node) {
        true => filled_between(rebuilt.src(), &|_| true).map_or(rebuilt.clone(), |stores| rebuilt.with_src(stores)),
        false => rebuilt,
    });
    store_to_parameters(&root)
}

fn store_to_parameters(root: &UOp) -> UOp {
    let nodes = postorder(std::slice::from_ref(root));
    let loaded: FxHashSet<&UOp> = nodes
        .iter()
        .filter(|node| matches!(node.op(), Op::Load | Op::Previous | Op::Exchange))
        .map(|load| &load.src()[0].src()[0])
        .collect();
    let is_written_alone = |buffer: &UOp| buffer.op() == Op::Param && !loaded.contains(buffer);
    filled_between(root.src(), &is_written_alone).map_or_else(|| root.clone(), |stores| root.with_src(stores))
}

/// The stores as stores of whole vectors, if some of those into memory that is meant become such.
fn filled_between(stores: &[UOp], is_meant: &dyn Fn(&UOp) -> bool) -> Option<Sources> {
    let mut families: Vec<(Family, Vec<Member>)> = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        if let Some((family, member)) = in_steps(store, number)
            && is_meant(&family.buffer)
        {
            match families.iter_mut().find(|(known, _)| *known == family) {
                Some((_, members)) => members.push(member),
                None => families.push((family, vec![member])),
            }
        }
    }
    let mut new: Vec<Option<UOp>> = stores.iter().cloned().map(Some).collect();
    for (family, mut members) in families {
        members.sort_by_key(|member| member.constant);
        let count = family.step as usize;
        let mut first = 0;
        while first + count <= members.len() {
            let between = &members[first..first + count];
            // One element may be stored twice, where the last part of a loop overlaps the one before.
            if between.windows(2).any(|pair| pair[1].constant != pair[0].constant + 1) {
                first += 1;
                continue;
            }
            let values: Vec<UOp> = between.iter().map(|member| stores[member.number].src()[1].clone()).collect();
            for (position, (member, value)) in between.iter().zip(interleaved(&values)).enumerate() {
                let distance = (position * family.lanes) as i64;
                new[member.number] = Some(whole_store(&family, &between[0].base, distance, value));
            }
            first += count;
        }
    }
    let new: Sources = new.into_iter().flatten().collect();
    (new[..] != *stores).then_some(new)
}

fn in_steps(store: &UOp, number: usize) -> Option<(Family, Member)> {
    let ([index, value], Op::Store) = (open_operands(store), store.op()) else { return None };
    let [buffer, offset] = index.src() else { return None };
    let (Op::Ramp, Arg::Number(step), Op::Param | Op::Scratch) = (offset.op(), offset.arg(), buffer.op()) else {
        return None;
    };
    let (lanes, step) = (value.dtype().lanes(), *step);
    let is_short = (2..=STEP_MAX).contains(&step);
    let accumulates = *store.arg() != Arg::None;
    if lanes < LANES_MIN || !lanes.is_power_of_two() || !is_short || accumulates {
        return None;
    }
    let base = offset.src()[0].clone();
    let (terms, constant) = linear_terms(&base);
    let family = Family { buffer: buffer.clone(), lanes, step, terms, ranges: closed_ranges(store).to_vec() };
    Some((family, Member { constant, number, base }))
}

/// A store of neighbours, so far behind the first.
fn whole_store(family: &Family, base: &UOp, distance: i64, value: UOp) -> UOp {
    let offset = simplify(&(base + UOp::index(distance)));
    let index = UOp::new(Op::Index, value.dtype(), smallvec![family.buffer.clone(), offset], Arg::None);
    let src: Sources = [index, value].into_iter().chain(family.ranges.iter().cloned()).collect();
    UOp::new(Op::Store, crate::DType::VOID, src, Arg::None)
}

/// The first lanes of all vectors, then the second ones, and so on, as so many vectors.
fn interleaved(vectors: &[UOp]) -> Vec<UOp> {
    let [first, _, ..] = vectors else { return vectors.to_vec() };
    let lanes = first.dtype().lanes();
    if !vectors.len().is_power_of_two() {
        let element = |number: usize| lane_of(&vectors[number % vectors.len()], number / vectors.len());
        let whole = |from: usize| (from..from + lanes).map(element).collect::<Sources>();
        let begins = (0..vectors.len()).map(|number| number * lanes);
        return begins.map(|from| UOp::new(Op::Stack, first.dtype(), whole(from), Arg::None)).collect();
    }
    let every_other = |from: usize| interleaved(&vectors.iter().skip(from).step_by(2).cloned().collect::<Vec<_>>());
    let in_turn = |(a, b): (UOp, UOp)| {
        [0, lanes / 2].map(|from| {
            let lane = |number: usize| lane_of(if number.is_multiple_of(2) { &a } else { &b }, from + number / 2);
            UOp::new(Op::Stack, a.dtype(), (0..lanes).map(lane).collect::<Sources>(), Arg::None)
        })
    };
    every_other(0).into_iter().zip(every_other(1)).flat_map(in_turn).collect()
}

fn lane_of(vector: &UOp, number: usize) -> UOp {
    match vector.op() {
        Op::Splat | Op::Stack => vector.src()[if vector.op() == Op::Splat { 0 } else { number }].clone(),
        _ => UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number as i64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{AxisKind, ReduceOp};

    fn store(constant: i64, step: i64, lanes: usize) -> UOp {
        let range = UOp::range(100, 0, AxisKind::Loop);
        let base = simplify(&(&range * 64 + constant));
        let dtype = DType::F32.with_lanes(lanes);
        let ramp = UOp::new(Op::Ramp, DType::INDEX.with_lanes(lanes), smallvec![base], Arg::Number(step));
        let index = UOp::new(Op::Index, dtype, smallvec![UOp::param(0, DType::F32, 6400), ramp], Arg::None);
        let from = UOp::new(
            Op::Index,
            dtype,
            smallvec![UOp::param(1, DType::F32, 6400), &range * 64 + constant * 100],
            Arg::None,
        );
        let load = UOp::new(Op::Load, dtype, smallvec![from], Arg::None);
        UOp::new(Op::Store, DType::VOID, smallvec![index, load, range], Arg::None)
    }

    /// The offsets that a store fills behind the loop's, each with the number of the load whose lane it is, and that lane.
    fn offsets(root: &UOp) -> Vec<(i64, i64, i64)> {
        let of_store = |store: &UOp| {
            let first = linear_terms(&store.src()[0].src()[1]).1;
            let lane = |(number, lane): (usize, &UOp)| {
                let (mut lane, mut inner) = (lane.clone(), 0);
                while lane.op() == Op::Lane {
                    let Arg::Number(number) = lane.arg() else { panic!("a lane") };
                    inner = *number;
                    let vector = lane.src()[0].clone();
                    lane = if vector.op() == Op::Stack { vector.src()[inner as usize].clone() } else { vector };
                }
                (first + number as i64, linear_terms(&lane.src()[0].src()[1]).1 / 100, inner)
            };
            store.src()[1].src().iter().enumerate().map(lane).collect::<Vec<_>>()
        };
        let mut offsets: Vec<_> = root.src().iter().flat_map(of_store).collect();
        offsets.sort_unstable();
        offsets
    }

    #[test]
    fn each_offset_gets_its_lane() {
        for (step, lanes) in [(2i64, 4usize), (2, 16), (3, 4), (3, 16), (4, 4), (4, 8)] {
            let root = UOp::sink((0..step).rev().map(|constant| store(constant + 5, step, lanes)));
            let wanted: Vec<_> =
                (0..step * lanes as i64).map(|offset| (offset + 5, offset % step + 5, offset / step)).collect();
            assert_eq!(offsets(&store_between(&root)), wanted, "{step} {lanes}");
        }
    }

    #[test]
    fn what_leaves_gaps_stays() {
        for constants in [vec![0], vec![0, 2], vec![1, 4], vec![0, 0]] {
            let root = UOp::sink(constants.iter().map(|constant| store(*constant, 2, 8)));
            assert_eq!(store_between(&root), root, "{constants:?}");
        }
        for (step, lanes) in [(5, 8), (8, 8), (2, 2)] {
            let root = UOp::sink((0..step).map(|constant| store(constant, step, lanes)));
            assert_eq!(store_between(&root), root, "{step} {lanes}");
        }
        // What is added to what is there.
        let adds = |constant: i64| {
            let store = store(constant, 2, 8);
            let src: Sources = store.src().iter().cloned().collect();
            UOp::new(Op::Store, store.dtype(), src, Arg::Combine(ReduceOp::Add))
        };
        let root = UOp::sink([adds(0), adds(1)]);
        assert_eq!(store_between(&root), root);
        // What the kernel reads itself.
        let [a, b] = [store(0, 2, 8), store(1, 2, 8)];
        let index = a.src()[0].with_src([a.src()[0].src()[0].clone(), UOp::index(0)].into_iter().collect::<Sources>());
        let read = UOp::new(Op::Load, a.src()[1].dtype(), smallvec![index], Arg::None);
        let src = [b.src()[0].clone(), &b.src()[1] + read, b.src()[2].clone()];
        let root = UOp::sink([a, b.with_src(src.into_iter().collect::<Sources>())]);
        assert_eq!(store_between(&root), root);
    }
}
