//! Sums across the lanes of several vectors are taken together.
//!
//! ```text
//! a = {a0, a1, a2, a3}      {a0 + a2, a1 + a3, b0 + b2, b1 + b3}      {a, ., b, .}, of which lanes are taken
//! b = {b0, b1, b2, b3}  =>
//! ```
//!
//! A register tile whose lanes are terms leaves a vector for each result. Each added up alone takes log2(lanes) shuffles and as many additions. Two vectors become one of half the terms of
//! both by two shuffles and one addition: so `n` vectors of as many lanes take `3 n`, and their sums lie side by side, for one store.
//!
//! Always: only what the same loops reduce is put together, of types that add up in themselves (half floats do not). Tested below, and in the tests crate, where the CPU
//! agrees with the interpreter.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::ir::{Arg, Op, ReduceOp, Sources, UOp, postorder, substitute_nested};
use crate::kernel::ranges::{Dependencies, RangeSet, closed_ranges};

/// Least lanes for which sums are better taken together.
const LANES_MIN: usize = 4;

/// What sums have in common that are taken together: the loops that their terms were reduced in, those around, and the lanes.
#[derive(PartialEq)]
struct Family {
    loops: Vec<UOp>,
    around: RangeSet,
    dtype: crate::DType,
}

/// Takes sums across lanes together, as many as a vector has lanes.
pub fn sum_together(root: &UOp) -> UOp {
    if !root.contains(Op::HorizontalReduce) {
        return root.clone();
    }
    let dependencies = Dependencies::of(root);
    let mut families: Vec<(Family, Vec<UOp>)> = Vec::new();
    for node in &dependencies.order {
        let Some(family) = family_of(node, &dependencies) else { continue };
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, members)) => members.push(node.clone()),
            None => families.push((family, vec![node.clone()])),
        }
    }
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for (family, members) in families {
        let vectors: Vec<UOp> = members.iter().map(|sum| sum.src()[0].clone()).collect();
        // What one of them needs to be computed cannot be computed with it.
        if postorder(&vectors).iter().any(|node| members.contains(node)) {
            continue;
        }
        let mut first = 0;
        while members.len() - first > 1 {
            let count = largest_power(members.len() - first).min(family.dtype.lanes());
            let sums = sums(vectors[first..first + count].to_vec());
            map.extend(members[first..first + count].iter().cloned().zip(sums));
            first += count;
        }
    }
    if map.is_empty() { root.clone() } else { substitute_nested(root, &map) }
}

/// The largest power of two that is no more.
fn largest_power(count: usize) -> usize {
    1 << count.ilog2()
}

fn family_of(node: &UOp, dependencies: &Dependencies) -> Option<Family> {
    if (node.op(), node.arg()) != (Op::HorizontalReduce, &Arg::Combine(ReduceOp::Add)) {
        return None;
    }
    let vector = &node.src()[0];
    let (dtype, lanes) = (vector.dtype(), vector.dtype().lanes());
    // Half floats are summed up in single ones (`half_floats`).
    let is_half = dtype.is_float() && dtype.element().bytes() < 4;
    if lanes < LANES_MIN || !lanes.is_power_of_two() || is_half {
        return None;
    }
    let loops = loops_of(vector)?;
    Some(Family { loops, around: dependencies.get(vector).clone(), dtype })
}

/// The loops that all terms of a sum of reductions were reduced in.
fn loops_of(vector: &UOp) -> Option<Vec<UOp>> {
    match (vector.op(), vector.src()) {
        (Op::ReduceRange, _) => Some(closed_ranges(vector).to_vec()),
        (Op::Add, [a, b]) => loops_of(a).filter(|loops| loops_of(b).as_ref() == Some(loops)),
        _ => None,
    }
}

/// The sums of the lanes of each vector, of which there are a power of two and no more than lanes.
fn sums(mut vectors: Vec<UOp>) -> Vec<UOp> {
    let (count, lanes) = (vectors.len(), vectors[0].dtype().lanes());
    let mut half = lanes / 2;
    while half > 0 {
        let upper = vectors.split_off(vectors.len().div_ceil(2));
        vectors = match upper.is_empty() {
            true => {
                vectors.iter().map(|vector| vector + rearranged(vector, |lane| lane_of(vector, lane ^ half))).collect()
            }
            false => vectors.iter().zip(&upper).map(|(a, b)| halves(a, b, half)).collect(),
        };
        half /= 2;
    }
    (0..count).map(|number| lane_of(&vectors[0], number * lanes / count)).collect()
}

/// Of each run of twice as many lanes, the sum of both halves: of the first vector, then of the second.
fn halves(a: &UOp, b: &UOp, half: usize) -> UOp {
    let part = |shift: usize| {
        rearranged(a, |lane| match lane & half {
            0 => lane_of(a, lane + shift),
            _ => lane_of(b, lane + shift - half),
        })
    };
    part(0) + part(half)
}

fn rearranged(like: &UOp, lane: impl Fn(usize) -> UOp) -> UOp {
    let lanes: Sources = (0..like.dtype().lanes()).map(lane).collect();
    UOp::new(Op::Stack, like.dtype(), lanes, Arg::None)
}

fn lane_of(vector: &UOp, number: usize) -> UOp {
    UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::AxisKind;

    /// A reduction of vectors whose terms are loaded from a parameter.
    fn reduced(slot: u32, dtype: DType, range: &UOp) -> UOp {
        let offset = range * dtype.lanes() as i64;
        let index = UOp::new(Op::Index, dtype, smallvec![UOp::param(slot, dtype.element(), 640), offset], Arg::None);
        let load = UOp::new(Op::Load, dtype, smallvec![index], Arg::None);
        UOp::new(Op::ReduceRange, dtype, smallvec![load, range.clone()], Arg::Combine(ReduceOp::Add))
    }

    fn across(vector: &UOp) -> UOp {
        UOp::new(Op::HorizontalReduce, vector.dtype().element(), smallvec![vector.clone()], Arg::Combine(ReduceOp::Add))
    }

    /// The lanes of vectors that a scalar made of stacks and sums is the sum of.
    fn terms(scalar: &UOp, vectors: &[UOp]) -> Vec<(usize, i64)> {
        let Arg::Number(lane) = scalar.arg() else { panic!("a lane") };
        let vector = &scalar.src()[0];
        if let Some(number) = vectors.iter().position(|known| known == vector) {
            return vec![(number, *lane)];
        }
        match vector.op() {
            Op::Stack => terms(&vector.src()[*lane as usize], vectors),
            _ => vector.src().iter().flat_map(|part| terms(&lane_of(part, *lane as usize), vectors)).collect(),
        }
    }

    #[test]
    fn each_sum_has_all_lanes_of_its_vector() {
        let range = UOp::range(10, 0, AxisKind::Reduce);
        for (count, lanes) in [(2usize, 4usize), (4, 4), (2, 16), (8, 16), (16, 16), (8, 8)] {
            let vectors: Vec<UOp> =
                (0..count).map(|slot| reduced(slot as u32, DType::F32.with_lanes(lanes), &range)).collect();
            for (number, sum) in sums(vectors.clone()).iter().enumerate() {
                let mut found = terms(sum, &vectors);
                found.sort_unstable();
                assert_eq!(found, (0..lanes as i64).map(|lane| (number, lane)).collect::<Vec<_>>());
            }
        }
    }

    /// Sums across lanes that are left alone.
    fn alone(vectors: &[UOp]) -> usize {
        let root = sum_together(&UOp::sink(vectors.iter().map(across)));
        postorder(&[root]).iter().filter(|node| node.op() == Op::HorizontalReduce).count()
    }

    #[test]
    fn only_sums_of_the_same_loops_are_taken_together() {
        let [range, other] = [0, 1].map(|id| UOp::range(10, id, AxisKind::Reduce));
        let wide = DType::F32.with_lanes(16);
        let same = |count: u32, dtype: DType| (0..count).map(|slot| reduced(slot, dtype, &range)).collect::<Vec<_>>();
        assert_eq!(alone(&same(25, wide)), 1);
        assert_eq!(alone(&same(1, wide)), 1);
        assert_eq!(alone(&same(4, DType::BF16.with_lanes(16))), 4, "each rounds to half floats");
        assert_eq!(alone(&[reduced(0, wide, &range), reduced(1, wide, &other)]), 2);
        let of_both = |slot: u32| reduced(slot, wide, &range) + reduced(slot + 1, wide, &other);
        assert_eq!(alone(&[of_both(0), of_both(2)]), 2);
        // What needs a sum cannot be taken together with it.
        let first = reduced(0, wide, &range);
        let scaled =
            UOp::new(Op::Splat, wide, smallvec![across(&first)], Arg::None) * &reduced(1, wide, &range).src()[0];
        let second = UOp::new(Op::ReduceRange, wide, smallvec![scaled, range.clone()], Arg::Combine(ReduceOp::Add));
        assert_eq!(alone(&[first, second]), 2);
    }
}
