//! Dot products that no instruction of the target takes are written out: each term's factors in the type of the sums, multiplied and added.
//!
//! ```text
//! dot_products [a: bf16x8, b: bf16x8, sums: f32x4]     =>     sums + f32(odd lanes of a) * f32(odd lanes of b) + f32(even ..) * f32(even ..)
//! ```
//!
//! An instruction takes a whole register of the machine, or a half or quarter of one that is a register of an older one. What is longer is cut in halves first. Where the target takes
//! the kind but not so few lanes (a single sum, or what a loop leaves over), and where it has no such instruction, products are written out.
//!
//! It comes before half floats become `f32` (`decompose`), whose rules then take the casts. Always: afterwards a dot product is one instruction. Tested below and, as values, by random
//! lists of opts for machines with and without the instructions.

use smallvec::smallvec;

use crate::dtype::Scalar;
use crate::ir::{Arg, DotKind, Op, Sources, UOp, rebuild};
use crate::target::{Language, Target};

/// The kernel with dot products that the target takes.
pub fn write_out_dots(root: &UOp, target: &Target) -> UOp {
    // The interpreter has every op.
    if !root.contains(Op::DotProducts) || target.language == Language::Text {
        return root.clone();
    }
    rebuild(root, |_, rebuilt| if rebuilt.op() == Op::DotProducts { for_target(&rebuilt, target) } else { rebuilt })
}

fn for_target(dots: &UOp, target: &Target) -> UOp {
    let [left, right, sums] = [0, 1, 2].map(|operand: usize| &dots.src()[operand]);
    let (lanes, group) = (dots.dtype().lanes(), left.dtype().lanes() / dots.dtype().lanes());
    let kind = DotKind::of(left.dtype(), right.dtype(), sums.dtype());
    let taken = kind.filter(|kind| group == kind.group() && target.takes_dot(*kind));
    let bytes = lanes * dots.dtype().bytes();
    if taken.is_some() && bytes > target.vector_bytes as usize && lanes.is_multiple_of(2) {
        return in_halves(dots, target);
    }
    if taken.is_some() && Target::DOT_BYTES.contains(&bytes) {
        return dots.clone();
    }
    let term = |number: usize| {
        let of = |factor: &UOp| part(factor, (0..lanes).map(|lane| lane * group + number)).cast(dots.dtype());
        of(left) * of(right)
    };
    let products = (1..group).rev().map(term).reduce(|sum, product| sum + product);
    // The last one stays by itself beside a sum of nothing: an accumulator takes it as one multiply-add.
    let products = products.map_or_else(|| term(0), |rest| rest + term(0));
    let is_nothing = sums.as_scalar().is_some_and(|value| value == Scalar::zero(sums.dtype().element()));
    if is_nothing { products } else { sums + products }
}

/// As two of half the lanes.
fn in_halves(dots: &UOp, target: &Target) -> UOp {
    let half = dots.dtype().lanes() / 2;
    let halves = [0, 1].map(|number: usize| {
        let src: Sources = dots
            .src()
            .iter()
            .map(|operand| {
                let lanes = operand.dtype().lanes() / 2;
                part(operand, number * lanes..(number + 1) * lanes)
            })
            .collect();
        let dtype = dots.dtype().element().with_lanes(half);
        for_target(&UOp::new(Op::DotProducts, dtype, src, Arg::None), target)
    });
    let lanes = halves.iter().flat_map(|vector| (0..half).map(move |lane| lane_of(vector, lane)));
    UOp::new(Op::Stack, dots.dtype(), lanes.collect::<Sources>(), Arg::None)
}

/// Some lanes of a vector, as a vector of their own.
fn part(vector: &UOp, lanes: impl ExactSizeIterator<Item = usize>) -> UOp {
    let element = vector.dtype().element();
    if let Some(value) = vector.as_scalar() {
        return UOp::constant(value, element.with_lanes(lanes.len()));
    }
    let mut lanes: Sources = lanes.map(|lane| lane_of(vector, lane)).collect();
    if lanes.len() == 1 {
        return lanes.swap_remove(0);
    }
    UOp::new(Op::Stack, element.with_lanes(lanes.len()), lanes, Arg::None)
}

fn lane_of(vector: &UOp, lane: usize) -> UOp {
    match vector.op() {
        _ if vector.dtype().lanes() == 1 => vector.clone(),
        Op::Stack => vector.src()[lane].clone(),
        Op::Splat => vector.src()[0].clone(),
        _ => UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(lane as i64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::postorder;

    /// A dot product of so many lanes of what nothing is known of, with the count of ops of each kind that a target makes of it.
    fn made(kind: DotKind, lanes: usize, group: usize, target: &Target) -> [usize; 2] {
        let vector = |slot: u32, dtype: DType| {
            let index =
                UOp::new(Op::Index, dtype, vec![UOp::param(slot, dtype.element(), 64), UOp::index(0)], Arg::None);
            UOp::new(Op::Load, dtype, vec![index], Arg::None)
        };
        let [left, right] = kind.factors();
        let sums = vector(2, kind.sums().with_lanes(lanes));
        let src = vec![vector(0, left.with_lanes(lanes * group)), vector(1, right.with_lanes(lanes * group)), sums];
        let dots = UOp::new(Op::DotProducts, kind.sums().with_lanes(lanes), src, Arg::None);
        let nodes = postorder(&[write_out_dots(&dots, target)]);
        [Op::DotProducts, Op::Mul].map(|op| nodes.iter().filter(|node| node.op() == op).count())
    }

    #[test]
    fn what_the_machine_takes_stays_and_what_is_longer_is_halved() {
        let target = Target::test_vnni();
        assert_eq!(made(DotKind::Bf16, 16, 2, &target), [1, 0]);
        assert_eq!(made(DotKind::Bytes, 8, 4, &target), [1, 0]);
        assert_eq!(made(DotKind::I16, 64, 2, &target), [4, 0]);
        assert_eq!(made(DotKind::I16, 16, 2, &Target::test_avx2()), [2, 0]);
    }

    #[test]
    fn what_no_instruction_takes_is_written_out() {
        let target = Target::test_vnni();
        assert_eq!(made(DotKind::Bf16, 1, 2, &target), [0, 2]);
        assert_eq!(made(DotKind::Bytes, 2, 4, &target), [0, 4]);
        assert_eq!(made(DotKind::I16, 8, 1, &target), [0, 1]);
        assert_eq!(made(DotKind::Bf16, 16, 2, &Target::test_avx2()), [0, 2]);
        assert_eq!(made(DotKind::Bytes, 8, 4, &Target::test_avx2()), [0, 4]);
    }
}
