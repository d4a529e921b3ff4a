//! Long sums of floats are reduced by blocks: blocks of terms, then the blocks' sums.
//!
//! Each addition to an accumulator rounds, and its error is relative to the accumulator, which grows. One accumulator over `n` terms is off by up
//! to `n` roundings of the sum of their sizes; sums of blocks by as many as a block has terms and there are blocks:
//!
//! ```text
//! for i in 0..M { sum += x[i] }     =>     for o in 0..M/B { block = 0; for i in 0..B { block += x[o * B + i] }; sum += block }
//! ```
//!
//! It comes after the loops were optimized: lanes and copies of a loop are sums of their own already, and what counts is how long the loop is
//! that each of them still walks. The last block is shorter where the length does not divide; so its loop's length names the loop around it.
//!
//! Always: no float sum of a kernel adds more than [`TERMS_MAX`] terms to one accumulator ([`PRODUCTS_MAX`] if they are products), for any
//! length, symbolic ones too. Other reductions in the same loops keep their accumulators. Tested below, and against exact sums by the test crate.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::dtype::ScalarType;
use crate::ir::{Arg, AxisKind, Combining, Op, ReduceOp, UOp, rebuild, tiles};
use crate::kernel::ranges::{
    Dependencies, NewRanges, closed_ranges, next_range_id, open_operands, range_id, substitute_ranges,
};
use crate::symbolic::simplify;

/// Terms of a block. Fewer are more exact; more hide what the outer sums cost.
const BLOCK: i64 = 128;
/// Products of a block: contractions have tiles of accumulators, which fill the registers, and the outer sums come beside them.
const BLOCK_OF_PRODUCTS: i64 = 512;
/// Terms that one accumulator may take.
pub const TERMS_MAX: i64 = 2 * BLOCK;
/// Products that one accumulator may take; each rounds once, with the addition.
pub const PRODUCTS_MAX: i64 = 2 * BLOCK_OF_PRODUCTS;
// A sum in tiles is not cut any more.
const _: () = assert!(tiles::STEPS_MAX + tiles::ROWS_MAX as u64 == PRODUCTS_MAX as u64);

/// The kernel with every long float sum in blocks.
pub fn sum_by_blocks(root: &UOp) -> UOp {
    if !root.contains(Op::ReduceRange) {
        return root.clone();
    }
    let dependencies = Dependencies::of(root);
    let mut next = next_range_id(root);
    // The block of each range that is cut: that of the shortest blocks among the sums which close it.
    let mut cut: Vec<(UOp, i64)> = Vec::new();
    let mut is_any_long = false;
    for reduction in &dependencies.order {
        let Some(block) = block_of_sum(reduction, &dependencies).filter(|block| is_long(reduction, *block)) else {
            continue;
        };
        is_any_long = true;
        for range in closed_ranges(reduction).iter().filter(|range| longest(range) > 2 * block) {
            match cut.iter_mut().find(|(known, _)| known == range) {
                Some((_, least)) => *least = block.min(*least),
                None => cut.push((range.clone(), block)),
            }
        }
    }
    if !is_any_long {
        return root.clone();
    }
    let map: FxHashMap<UOp, NewRanges> =
        cut.into_iter().map(|(range, block)| (range.clone(), in_blocks(&range, block, &mut next))).collect();
    let cut = if map.is_empty() { root.clone() } else { simplify(&substitute_ranges(root, &map)) };
    let dependencies = Dependencies::of(&cut);
    rebuild(&cut, |node, rebuilt| match block_of_sum(node, &dependencies) {
        Some(block) if is_long(node, block) => nested(&rebuilt, block),
        _ => rebuilt,
    })
}

fn longest(range: &UOp) -> i64 {
    range.src()[0].max_value().max(0)
}

/// Whether a sum adds more than two blocks to one accumulator.
fn is_long(reduction: &UOp, block: i64) -> bool {
    closed_ranges(reduction).iter().map(longest).fold(1, i64::saturating_mul) > 2 * block
}

/// The terms of a block, if the node is a sum of floats over loops.
fn block_of_sum(node: &UOp, dependencies: &Dependencies) -> Option<i64> {
    let is_sum = match node.arg() {
        Arg::Combine(op) => *op == ReduceOp::Add,
        Arg::CombineState(component) => component.combiner.is_rounded(),
        _ => false,
    };
    if node.op() != Op::ReduceRange || !is_sum || !matches!(node.dtype().scalar(), ScalarType::F32 | ScalarType::F64) {
        return None;
    }
    // Terms of a group stay with each other, and each of them is added.
    let is_loop =
        |range: &UOp| range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Reduce | AxisKind::Dot));
    let value = &node.src()[0];
    let is_contraction = value.op() == Op::Mul && {
        let [a, b] = [0, 1].map(|k| dependencies.get(&value.src()[k]));
        a.iter().any(|id| !b.contains(id)) && b.iter().any(|id| !a.contains(id))
    };
    // Of matrices 16 products are added at once.
    let is_contraction =
        is_contraction || matches!(value.op(), Op::MultiplyMatrices | Op::DotProducts | Op::MultiplyTiles);
    let block = if is_contraction { BLOCK_OF_PRODUCTS } else { BLOCK };
    let is_group = |range: &&UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Dot);
    let group: i64 = closed_ranges(node).iter().filter(is_group).map(longest).product();
    closed_ranges(node).iter().all(is_loop).then_some(block / group.max(1))
}

/// A range as nested ranges of at most two blocks each; the outermost keeps its number.
fn in_blocks(range: &UOp, block: i64, next: &mut u32) -> NewRanges {
    // Lengths of the blocks, and how many of them (of elements, to begin with) there are at each level, innermost first.
    let mut blocks: Vec<i64> = Vec::new();
    let mut counts: Vec<UOp> = vec![range.src()[0].clone()];
    while let Some(count) = counts.last().filter(|count| count.max_value() > 2 * block) {
        let part = count.as_int().map_or(block, |count| part_of(count, block));
        counts.push(simplify(&(count + (part - 1)).idiv(part)));
        blocks.push(part);
    }
    let outermost = UOp::range(counts.pop().unwrap_or_else(|| UOp::index(1)), range_id(range), AxisKind::Reduce);
    let mut new = NewRanges { value: outermost.clone(), ranges: smallvec![outermost] };
    for (part, count) in blocks.into_iter().zip(counts).rev() {
        let begin = &new.value * part;
        let whole = simplify(&count.modulo(part)).is_const(0);
        let len = if whole { UOp::index(part) } else { (&count - &begin).min(part) };
        let inner = UOp::range(len, *next, AxisKind::Reduce);
        *next += 1;
        new.value = begin + &inner;
        new.ranges.push(inner);
    }
    new
}

/// The length of the blocks of so many terms: one that divides, if there is one not much shorter.
fn part_of(count: i64, block: i64) -> i64 {
    (block / 2..=block).rev().find(|part| count % part == 0).unwrap_or(block)
}

/// A reduction over several loops as reductions inside of each other, each over no more terms than a block has, or over one loop.
fn nested(reduction: &UOp, block: i64) -> UOp {
    let Some(combining) = Combining::of(reduction) else { return reduction.clone() };
    let close = |state: &[UOp], ranges: &mut Vec<UOp>| {
        let ranges: Vec<UOp> = std::mem::take(ranges).into_iter().rev().collect();
        combining.reduce_ranges(state, &ranges)
    };
    let mut state: SmallVec<[UOp; 3]> = open_operands(reduction).iter().cloned().collect();
    let mut ranges: Vec<UOp> = Vec::new();
    let mut terms: i64 = 1;
    for range in closed_ranges(reduction).iter().rev() {
        if !ranges.is_empty() && longest(range).saturating_mul(terms) > block {
            state = close(&state, &mut ranges);
            terms = 1;
        }
        terms = terms.saturating_mul(longest(range));
        ranges.push(range.clone());
    }
    close(&state, &mut ranges).swap_remove(combining.number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Dim, postorder};
    use crate::lower::tensors::lower_to_loops;
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::target::Target;
    use crate::watch::Silent;

    fn kernel(value: UOp) -> UOp {
        let len = value.shape().iter().map(|dim| dim.max_value() as u64).product();
        UOp::sink([UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, value.dtype(), len), value], Arg::None)])
    }

    /// Most terms that any reduction of the kernel adds to an accumulator.
    fn terms(kernel: &UOp) -> i64 {
        let reductions =
            postorder(std::slice::from_ref(kernel)).into_iter().filter(|node| node.op() == Op::ReduceRange);
        reductions.map(|reduction| closed_ranges(&reduction).iter().map(longest).product()).max().unwrap_or(0)
    }

    #[test]
    fn no_accumulator_takes_many_terms() {
        for shape in [vec![257], vec![1 << 20], vec![1_000_003], vec![100, 300], vec![3, 3, 64], vec![7, 1 << 40]] {
            let axes: Vec<usize> = (0..shape.len()).collect();
            let len = shape.iter().product::<i64>();
            let blocked = |dtype| {
                let sum = UOp::param(1, dtype, len as u64).reshape(shape.clone()).reduce(ReduceOp::Add, &axes);
                terms(&sum_by_blocks(&lower_to_loops(&kernel(sum))))
            };
            assert!(blocked(DType::F32) <= TERMS_MAX && blocked(DType::F64) <= TERMS_MAX, "{shape:?}");
            assert_eq!(blocked(DType::I32), len, "sums of integers are exact in any order");
        }
    }

    #[test]
    fn contractions_have_longer_blocks() {
        let matmul = |k: i64| {
            let a = UOp::param(1, DType::F32, (8 * k) as u64).reshape([8, 1, k]).expand([8, 8, k]);
            let b = UOp::param(2, DType::F32, (8 * k) as u64).reshape([1, 8, k]).expand([8, 8, k]);
            terms(&sum_by_blocks(&lower_to_loops(&kernel((a * b).reduce(ReduceOp::Add, &[2])))))
        };
        assert_eq!([512, 1024, 4096, 999_983].map(matmul), [512, 1024, 512, PRODUCTS_MAX.min(512)]);
    }

    #[test]
    fn short_sums_and_extremes_are_left_alone() {
        let x = UOp::param(1, DType::F32, 1 << 16).reshape([256, 256]);
        for value in [x.reduce(ReduceOp::Add, &[1]), x.reduce(ReduceOp::Max, &[0, 1])] {
            let kernel = lower_to_loops(&kernel(value));
            assert_eq!(sum_by_blocks(&kernel), kernel);
        }
    }

    #[test]
    fn every_length_makes_a_list_that_is_well_formed() {
        let n = UOp::variable("n", 1, 100_000);
        let part = UOp::param(1, DType::F32, 100_000).shrink(&[(Dim::from(0), Dim::from(n))]);
        // The sum of something that no loop changes has loops all the same.
        let constant = UOp::float(0.1, DType::F32).reshape([1]).expand([40_001]);
        let both = |x: UOp| x.reduce(ReduceOp::Add, &[0]) + x.reduce(ReduceOp::Max, &[0]);
        let odd = UOp::param(1, DType::F32, 70_001);
        let values = [part.reduce(ReduceOp::Add, &[0]), constant.reduce(ReduceOp::Add, &[0]), both(odd)];
        for value in values {
            for no_opt in [true, false] {
                let ast = kernel(value.reshape([1]));
                // The checks of passes and of the list find a loop that stands in the wrong loop.
                let options = LowerOptions::by_hand_unless(no_opt);
                assert!(lower_kernel(&ast, &Target::test_avx512(), &options, &mut Silent).is_ok());
            }
        }
    }
}
