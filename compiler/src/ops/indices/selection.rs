//! The first of what would be sorted, without sorting all of it.
//!
//! | rows | how |
//! |---|---|
//! | long beside what is asked for | by blocks: the k least of all stand in the k blocks whose least elements are least, so one pass finds these |
//! | few are asked for | one by one: each is the least word (key, number) that is larger than the one before |
//! | more are asked for | by bits: the k-th least key is found two bits at a time, by counting how many keys are less, and then the elements up to it |
//! | else | all are sorted |
//!
//! Always: stable. Tested against the standard library's sort in the test crate.

use super::radix::{self, Keys, gathered};
use crate::dtype::Scalar;
use crate::ir::{Dim, ReduceOp, Shape};
use crate::ops::create::{full, positions};
use crate::ops::movement::shrink_axis;
use crate::ops::reduce::along;
use crate::ops::{Built, join};
use crate::{DType, UOp};

/// Rows so long are looked through by blocks: in shorter ones that would be more kernels than it saves work. On 2 cores the 16 largest of 277 rows of 3,026 take 0.48 ms so and
/// 0.78 one by one, of 300 rows of 1,000 0.47 and 0.30.
const LONG: i64 = 1 << 11;
/// What is left of a row by blocks, the blocks' least and the elements of those chosen, is so many times fewer, where one by one or by bits is the other way ...
const FEWER: i64 = 4;
/// ... and where sorting all is.
const FEWER_SORTED: i64 = 2;
/// Rows so long are looked through by blocks where sorting all is the other way.
const LONG_SORTED: i64 = 1 << 9;
/// So many are found one by one, where each takes a pass over the row; the passes of a search by bits do not grow. On 2 cores 20 of 300 rows of 1,000 take
/// 0.66 ms so, 24 take 0.85, and 25 by bits 0.63.
const ONE_BY_ONE: i64 = 16;
/// Bits that are found together: of three keys that may be the one looked for, how many are less is counted in one pass.
const BITS: u32 = 2;

/// How the first of rows are found.
enum Way {
    OneByOne,
    /// By blocks of so many elements.
    ByBlocks(i64),
    ByBits,
    Sorted,
}

impl Way {
    /// For `k` of rows of `len` keys of so many bits.
    fn of(k: i64, len: i64, bits: u32) -> Way {
        // Blocks, and elements of those that are chosen, are fewest together where a block is as long as this.
        let block = 1i64 << ((len / k.max(1)).max(1).ilog2() / 2);
        let left = len / block + k * block;
        let otherwise = match k {
            1..=ONE_BY_ONE if bits <= 32 => Way::OneByOne,
            1.. if bits <= 32 && 2 * k <= len && !radix::is_paired(len) => Way::ByBits,
            _ => Way::Sorted,
        };
        let (long, fewer) = match otherwise {
            Way::Sorted => (LONG_SORTED, FEWER_SORTED),
            _ => (LONG, FEWER),
        };
        if k > 0 && len >= long && fewer * left <= len { Way::ByBlocks(block) } else { otherwise }
    }
}

/// The numbers of the `k` least keys of each row, in order; `i32`.
pub(super) fn first(keys: &Keys, k: i64) -> Built {
    let Some(len) = keys.keys.shape()[1].as_const() else {
        return Ok(shrink_axis(&radix::order(keys)?, 1, 0, k));
    };
    match Way::of(k, len, keys.bits) {
        Way::OneByOne => first_one_by_one(&keys.keys, k),
        Way::ByBlocks(block) => {
            let numbers = candidates(keys, len, k, block)?;
            let among = first(&keys_at(keys, &numbers), k)?;
            Ok(gathered(&numbers, &among))
        }
        Way::ByBits => {
            let chosen = least_by_bits(keys, len, k)?.contiguous();
            let among = radix::order(&keys_at(keys, &chosen))?;
            Ok(gathered(&chosen, &among))
        }
        Way::Sorted => Ok(shrink_axis(&radix::order(keys)?, 1, 0, k)),
    }
}

/// The same numbers in the order of the row, so that of equal elements the first is found first.
fn first_by_number(keys: &Keys, len: i64, k: i64) -> Built {
    match Way::of(k, len, keys.bits) {
        Way::ByBits => least_by_bits(keys, len, k),
        Way::ByBlocks(block) => {
            let numbers = candidates(keys, len, k, block)?;
            let count = numbers.shape()[1].max_value();
            let among = first_by_number(&keys_at(keys, &numbers), count, k)?;
            Ok(gathered(&numbers, &among))
        }
        Way::OneByOne | Way::Sorted => {
            let chosen = first(keys, k)?;
            let bits = 64 - len.leading_zeros();
            let rising = radix::order(&Keys { keys: chosen.cast(DType::U32), bits })?;
            Ok(gathered(&chosen, &rising))
        }
    }
}

fn keys_at(keys: &Keys, numbers: &UOp) -> Keys {
    Keys { keys: gathered(&keys.keys, numbers), bits: keys.bits }
}

/// The numbers of all elements of the blocks whose least elements are least, of equal ones the earlier, and of what stands behind the last whole block; they rise.
fn candidates(keys: &Keys, len: i64, k: i64, block: i64) -> Built {
    let rows = keys.keys.shape()[0].clone();
    let whole = len / block;
    let cut = Shape::from([rows.clone(), whole.into(), block.into()]);
    let inside = shrink_axis(&keys.keys, 1, 0, whole * block).reshape(cut);
    let least = along(&inside, ReduceOp::Min, &[2], false);
    let chosen = first_by_number(&Keys { keys: least, bits: keys.bits }, whole, k)?;
    let candidates = Shape::from([rows.clone(), k.into(), block.into()]);
    let starts = chosen.reshape([rows.clone(), k.into(), 1.into()]).expand(candidates.clone());
    let numbers = starts * UOp::int(block, DType::I32) + positions(&candidates, 2).cast(DType::I32);
    let mut numbers = numbers.reshape([rows.clone(), (k * block).into()]);
    let rest = len - whole * block;
    if rest > 0 {
        let behind = positions(&Shape::from([rows, rest.into()]), 1).cast(DType::I32);
        numbers = join::cat(&[numbers, behind + UOp::int(whole * block, DType::I32)], 1)?;
    }
    Ok(numbers.contiguous())
}

/// The numbers of the `k` least keys of each row as they rise: those below the k-th least, and the first of those that are equal to it.
///
/// ```text
/// kth                                               the k-th least key
/// counts[i] = (keys up to i below kth, and equal to it)   one running total of both, in halves of a word
/// taken(i) = below + min(equal, k - all below)      how many of the elements up to i are taken: it rises with i
/// number of the j-th = the least i with taken(i) > j      a binary search
/// ```
fn least_by_bits(keys: &Keys, len: i64, k: i64) -> Built {
    let keys = &Keys { keys: keys.keys.contiguous(), bits: keys.bits };
    let rows = keys.keys.shape()[0].clone();
    let kth = kth_least(keys, k)?.expand(keys.keys.shape().clone());
    let (word, half) = if len < 1 << 16 { (DType::U32, 16) } else { (DType::U64, 32) };
    let constant = |value: u64| UOp::constant(Scalar::UInt(value).cast(word), word);
    let is_below = keys.keys.lt(&kth);
    let one = is_below.select(&constant(1 << half), &keys.keys.equals(&kth).cast(word));
    let counts = one.scan(ReduceOp::Add, 1);
    let mask = constant((1 << half) - 1);
    let all_below = shrink_axis(&counts, 1, len - 1, len).shr(constant(half));
    let found = Shape::from([rows, k.into()]);
    let rest = (constant(k as u64) - all_below).expand(found.clone());
    let wanted = positions(&found, 1).cast(word);
    let mut number = full(&found, Scalar::Int(0), DType::I32)?;
    let mut step = len.max(1).ilog2();
    loop {
        // All before `number` are too few.
        let next = &number + UOp::int(1 << step, DType::I32);
        let is_there = next.lt(UOp::int(len + 1, DType::I32));
        let there = gathered(&counts, &is_there.select(&next - UOp::int(1, DType::I32), UOp::int(0, DType::I32)));
        let equal = there.and(&mask);
        let taken = there.shr(constant(half)) + equal.lt(&rest).select(&equal, &rest);
        let is_before = is_there.and(wanted.lt(taken).not());
        number = is_before.select(&next, &number);
        if step == 0 {
            return Ok(number);
        }
        step -= 1;
    }
}

/// The `k`-th least key of each row `[rows, 1]`: the largest below which there are less than `k`.
fn kth_least(keys: &Keys, k: i64) -> Built {
    let keys_of = |value: u64| UOp::constant(Scalar::UInt(value).cast(keys.keys.dtype()), keys.keys.dtype());
    let shape = Shape::from([keys.keys.shape()[0].clone(), Dim::Const(1)]);
    let mut least = full(&shape, Scalar::UInt(0), keys.keys.dtype())?;
    let mut shift = keys.bits.next_multiple_of(BITS);
    while shift > 0 {
        shift -= BITS;
        let mut steps = full(&shape, Scalar::UInt(0), keys.keys.dtype())?;
        for step in 1..1u64 << BITS {
            let bound = &least + keys_of(step << shift);
            let is_less = keys.keys.lt(bound.expand(keys.keys.shape().clone()));
            let count = along(&is_less.cast(DType::I32), ReduceOp::Add, &[1], true);
            steps = steps + count.lt(UOp::int(k, DType::I32)).cast(keys.keys.dtype());
        }
        least = least + steps * keys_of(1 << shift);
    }
    Ok(least)
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
