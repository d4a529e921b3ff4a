//! The order of unsigned keys: by their digits, the lowest first, or by counting in short rows.
//!
//! ```text
//! word = (number << width) | key        the number of the element stands above its key
//! for each digit:
//!     counts[block, value]              how often each value of the digit stands in each block of a row
//!     starts[block, value]              running totals of them, by value first and by block within it
//!     position = starts[block, digit]++ for each word of a block in order (`fetch`)
//!     words at their positions, turned by one digit, so that the next one is the lowest
//! ```
//!
//! Each pass keeps the order of equal digits, so the last leaves words in the order of their keys, and equal keys in the order of their numbers. All passes
//! do the same, so they are one set of kernels, whatever the length. A few long rows are cut into blocks, which threads share.
//!
//! In short rows an element's position is how many come before it, all pairs compared.
//!
//! Always: stable, and linear in the elements but for short rows. Tested against the standard library's sort in the test crate.

use crate::dtype::Scalar;
use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::ops::Built;
use crate::ops::create::{full_like, positions};
use crate::ops::math::known;
use crate::ops::movement::insert_axis;
use crate::ops::padding::pad_with;
use crate::ops::reduce::along;
use crate::{DType, UOp};

/// Rows so short are sorted by counting pairs: 16 comparisons at once, where a digit moves one word. On 2 cores with AVX-512 60,000 numbers in rows of 64 take 0.24 ms so and 0.98 by
/// digits, of 128 0.34 and 0.85, of 192 0.47 and 0.65, of 256 0.68 and 0.58; with vectors half as long rows of 128 are about even.
const PAIRED: i64 = 128;
/// Bits of the longest digit: a table of all its values stays in the nearest cache.
const DIGIT_MAX: u32 = 11;
/// What an entry of a table costs, as to be cleared, summed and copied, beside moving an element.
const ENTRY_COST: f64 = 0.6;
/// A block has so many elements at least, of which there is one for each of so many threads.
const BLOCK_MIN: i64 = 1 << 14;
const BLOCKS_MAX: i64 = 16;
/// So many rows are work enough for threads without cutting them.
const FEW_ROWS: i64 = 16;

/// The keys of rows `[rows, len]`, of which so many low bits count.
pub(super) struct Keys {
    pub(super) keys: UOp,
    pub(super) bits: u32,
}

/// Whether rows so long are sorted by counting pairs.
pub(super) fn is_paired(len: i64) -> bool {
    len <= PAIRED
}

/// The numbers of the elements of each row in the order of their keys, equal ones in their own order; `i32`.
pub(super) fn order(keys: &Keys) -> Built {
    let len = &keys.keys.shape()[1];
    if is_paired(len.max_value()) {
        return Ok(order_by_pairs(&keys.keys));
    }
    // Machines whose threads are many find the same order otherwise (`side_by_side`).
    let order = by_halves(&keys.keys, keys.bits, order_by_digits)?;
    Ok(known(Function::Order, order, &[&keys.keys, &UOp::index(i64::from(keys.bits))]))
}

/// The order of keys of up to 64 bits, by one of at most 32 that may begin with an order: the low halves first; the order of the high ones then keeps theirs.
pub(super) fn by_halves(keys: &UOp, bits: u32, order: impl Fn(&UOp, Option<&UOp>, u32) -> Built) -> Built {
    if bits <= 32 {
        return order(keys, None, bits);
    }
    let half = |shift: i64| keys.shr(UOp::int(shift, DType::U64)).cast(DType::U32);
    let low = order(&half(0), None, 32)?;
    order(&gathered(&half(32), &low), Some(&low), bits - 32)
}

/// Elements of each row, by their numbers.
pub(super) fn gathered(x: &UOp, numbers: &UOp) -> UOp {
    let (rows, len) = (x.shape()[0].clone(), x.shape()[1].clone());
    let first = positions(numbers.shape(), 0) * len.to_uop();
    let index = first + numbers.cast(DType::INDEX);
    let count = &rows * &len;
    let dtype = if count.max_value() <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
    x.reshape([count]).gather(&index.cast(dtype), 0)
}

/// An element's position is how many come before it.
fn order_by_pairs(keys: &UOp) -> UOp {
    let keys = &keys.contiguous();
    let (rows, len) = (keys.shape()[0].clone(), keys.shape()[1].clone());
    let square = Shape::from([rows, len.clone(), len]);
    let (this, other) = (insert_axis(keys, 2).expand(square.clone()), insert_axis(keys, 1).expand(square.clone()));
    let (row, column) = (positions(&square, 1), positions(&square, 2));
    let before = other.lt(&this).or(&other.equals(&this).and(&column.lt(&row)));
    let position = along(&before.cast(DType::I32), ReduceOp::Add, &[2], false);
    positions(keys.shape(), 1).cast(DType::I32).place(&position, 1)
}

/// How words are taken apart.
struct Digits {
    /// Bits of a digit.
    bits: u32,
    passes: u32,
}

impl Digits {
    /// The bits for which all passes cost least; numbers below `len` must have room above all digits.
    fn of(key_bits: u32, len: i64) -> Digits {
        let number_bits = 64 - (len - 1).max(1).leading_zeros();
        let with = |bits: u32| Digits { bits, passes: key_bits.div_ceil(bits) };
        let fits = |digits: &Digits| digits.bits * digits.passes + number_bits <= 64;
        let cost = |digits: &Digits| f64::from(digits.passes) * (len as f64 + ENTRY_COST * f64::from(1 << digits.bits));
        let all = (1..=DIGIT_MAX.min(key_bits)).map(with).filter(fits);
        all.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(with(1))
    }

    /// The bits below the number of an element.
    fn width(&self) -> u32 {
        self.bits * self.passes
    }
}

/// Elements of `numbers` (the numbers 0, 1, ... where there are none) in the order of keys of at most 32 bits.
fn order_by_digits(keys: &UOp, numbers: Option<&UOp>, bits: u32) -> Built {
    let (rows, len) = (keys.shape()[0].clone(), keys.shape()[1].clone());
    let digits = Digits::of(bits, len.max_value());
    let constant = |value: u64| UOp::constant(Scalar::UInt(value).cast(DType::U64), DType::U64);
    let number = numbers.cloned().unwrap_or_else(|| positions(keys.shape(), 1)).cast(DType::U64);
    let key = keys.cast(DType::U64);
    let words = number.shl(constant(u64::from(digits.width()))).or(&key);
    let blocks = blocks(&rows, &len);
    let block = len.as_const().map(|len| (len - 1) / blocks + 1);
    // What fills up the last block comes last: it has the largest key, and stands behind all that do.
    let last = Scalar::UInt((1 << digits.width()) - 1);
    let mut words = match block {
        Some(block) if blocks * block != len.max_value() => {
            pad_with(&words, &[(0, 0), (0, blocks * block - len.max_value())], last)
        }
        _ => words,
    }
    .contiguous();
    let cut = Shape::from([rows.clone(), blocks.into(), block.map_or(len.clone(), Dim::from)]);
    for pass in 1..=digits.passes {
        let mask = constant((1 << digits.bits) - 1);
        let digit = words.and(&mask).cast(DType::I32).reshape(cut.clone());
        let position = destinations(&digit, 1 << digits.bits).reshape(words.shape().clone());
        if pass == digits.passes {
            // Turned once more the number would be the lowest.
            let turned = words.shr(constant(u64::from(digits.bits)));
            let mask = constant((1 << (64 - digits.width())) - 1);
            let order = turned.and(&mask).cast(DType::I32).place(&position, 1);
            return Ok(order.shrink(&[(0.into(), rows), (0.into(), len)]));
        }
        let turn = u64::from(digits.bits);
        words = words.shr(constant(turn)).or(&words.shl(constant(64 - turn))).place(&position, 1);
    }
    Ok(positions(keys.shape(), 1).cast(DType::I32))
}

/// Into how many blocks each row is cut.
fn blocks(rows: &Dim, len: &Dim) -> i64 {
    match (rows.as_const(), len.as_const()) {
        (Some(rows), Some(len)) if rows < FEW_ROWS => (len / BLOCK_MIN).clamp(1, BLOCKS_MAX),
        _ => 1,
    }
}

/// Where each element of rows in blocks goes that digits below `values` sort.
fn destinations(digit: &UOp, values: i64) -> UOp {
    let (rows, blocks) = (digit.shape()[0].clone(), digit.shape()[1].clone());
    let ones = full_like(digit, 1);
    let zeros = UOp::int(0, DType::I32).reshape([1, 1, 1]).expand([rows.clone(), blocks.clone(), values.into()]);
    let counts = zeros.scatter(digit, &ones, Some(ReduceOp::Add), 2);
    // By value first, and by block within it.
    let line = counts.permute(&[0, 2, 1]).reshape([rows.clone(), &blocks * &Dim::from(values)]);
    let before = line.scan(ReduceOp::Add, 1) - &line;
    let starts = before.reshape([rows, values.into(), blocks]).permute(&[0, 2, 1]);
    starts.fetch(digit, &ones, Some(ReduceOp::Add), 2)
}
