//! The first of what would be sorted, without sorting all of it.
//!
//! | rows | how |
//! |---|---|
//! | long beside what is asked for | by blocks: the k least of all stand in the k blocks whose least elements are least, so one pass finds these |
//! | few are asked for | one by one: each is the least word (key, number) that is larger than the one before |
//! | else | all are sorted |
//!
//! Always: stable. Tested against the standard library's sort in the test crate.

use super::radix::{self, Keys, gathered};
use crate::dtype::Scalar;
use crate::ir::{ReduceOp, Shape};
use crate::ops::create::positions;
use crate::ops::movement::shrink_axis;
use crate::ops::reduce::along;
use crate::ops::{Built, join};
use crate::{DType, UOp};

/// Rows so long are looked through by blocks: in shorter ones that would be more kernels than it saves work. On 2 cores the 16 largest of 277 rows of 3,026 take 0.48 ms so and
/// 0.78 one by one, of 300 rows of 1,000 0.47 and 0.30.
const LONG: i64 = 1 << 11;
/// What is left of a row by blocks, the blocks' least and the elements of those chosen, is so many times fewer, where one by one is the other way ...
const FEWER: i64 = 4;
/// ... and where sorting all is.
const FEWER_SORTED: i64 = 2;
/// Rows so long are looked through by blocks where sorting all is the other way.
const LONG_SORTED: i64 = 1 << 9;
/// So many are found one by one: 24 of 277 rows of 3,026 in 0.9 ms, where sorting takes 6. More would compile for half a second and longer.
const ONE_BY_ONE: i64 = 24;

/// The numbers of the `k` least keys of each row, in order; `i32`.
pub(super) fn first(keys: &Keys, k: i64) -> Built {
    let Some(len) = keys.keys.shape()[1].as_const() else {
        return Ok(shrink_axis(&radix::order(keys)?, 1, 0, k));
    };
    // Blocks, and elements of those that are chosen, are fewest together where a block is as long as this.
    let block = 1i64 << ((len / k.max(1)).max(1).ilog2() / 2);
    let is_one_by_one = (1..=ONE_BY_ONE).contains(&k) && keys.bits <= 32;
    let (long, fewer) = if is_one_by_one { (LONG, FEWER) } else { (LONG_SORTED, FEWER_SORTED) };
    if k > 0 && len >= long && fewer * (len / block + k * block) <= len {
        return first_by_blocks(keys, len, k, block);
    }
    if is_one_by_one {
        return first_one_by_one(&keys.keys, k);
    }
    Ok(shrink_axis(&radix::order(keys)?, 1, 0, k))
}

/// The blocks whose least elements are least, of equal ones the earlier, and what stands behind the last whole block.
fn first_by_blocks(keys: &Keys, len: i64, k: i64, block: i64) -> Built {
    let rows = keys.keys.shape()[0].clone();
    let with = |keys: UOp, bits: u32| Keys { keys, bits };
    let whole = len / block;
    let cut = Shape::from([rows.clone(), whole.into(), block.into()]);
    let inside = shrink_axis(&keys.keys, 1, 0, whole * block).reshape(cut);
    let least = along(&inside, ReduceOp::Min, &[2], false);
    let chosen = first(&with(least, keys.bits), k)?;
    // In the order of the row, so that of equal elements the first is found first.
    let rising = radix::order(&with(chosen.cast(DType::U32), 64 - whole.leading_zeros()))?;
    let chosen = gathered(&chosen, &rising);
    let candidates = Shape::from([rows.clone(), k.into(), block.into()]);
    let starts = chosen.reshape([rows.clone(), k.into(), 1.into()]).expand(candidates.clone());
    let numbers = starts * UOp::int(block, DType::I32) + positions(&candidates, 2).cast(DType::I32);
    let mut numbers = numbers.reshape([rows.clone(), (k * block).into()]);
    let rest = len - whole * block;
    if rest > 0 {
        let behind = positions(&Shape::from([rows, rest.into()]), 1).cast(DType::I32);
        numbers = join::cat(&[numbers, behind + UOp::int(whole * block, DType::I32)], 1)?;
    }
    let numbers = numbers.contiguous();
    let among = first(&with(gathered(&keys.keys, &numbers), keys.bits), k)?;
    Ok(gathered(&numbers, &among))
}

/// Words of a key and a number are all different, so each is the least that is larger than the one before.
fn first_one_by_one(keys: &UOp, k: i64) -> Built {
    let shift = UOp::int(32, DType::U64);
    let words = keys.cast(DType::U64).shl(&shift).or(&positions(keys.shape(), 1).cast(DType::U64));
    let none = UOp::constant(Scalar::UInt(u64::MAX), DType::U64);
    let least = |words: &UOp| along(words, ReduceOp::Min, &[1], true);
    let mut found = vec![least(&words)];
    while (found.len() as i64) < k {
        let before = found[found.len() - 1].expand(words.shape().clone());
        found.push(least(&before.lt(&words).select(&words, &none)));
    }
    Ok(join::cat(&found, 1)?.cast(DType::U32).cast(DType::I32))
}
