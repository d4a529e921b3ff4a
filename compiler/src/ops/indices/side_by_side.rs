//! The order of unsigned keys for machines of very many threads, on which one thread has but few elements: what `radix` gives, from reductions and running totals alone.
//!
//! ```text
//! word = (number << width) | key               the number of the element stands above its key
//! for each digit:
//!     counts[tile, value]                      how many words of a tile have the value: each counted by itself, over the tile
//!     starts[value, tile]                      running totals of them
//!     position = starts[digit, tile] + before  how many words of the tile before this one have its digit: counted, too
//!     words at their positions, turned by one digit, so that the next one is the lowest
//! ```
//!
//! In shorter rows an element's position is how many words of the row are less: all pairs are compared. Which it is, how long tiles and digits are, follows from what the
//! comparisons, the bytes and the launches take on the machine.
//!
//! Always: stable, the same order as `radix`. Tested against it in the test crate.

use super::radix::by_halves;
use crate::dtype::Scalar;
use crate::ir::{Dim, ReduceOp, Shape};
use crate::ops::create::positions;
use crate::ops::movement::insert_axis;
use crate::ops::padding::pad_with;
use crate::ops::reduce::along;
use crate::target::Costs;
use crate::{DType, UOp};

/// Instructions, about, that compare a word with another and count.
const COMPARED: f64 = 4.0;
/// Kernels of a pass: digits, counts, running totals by three, positions, words.
const KERNELS_OF_PASS: f64 = 7.0;
/// Bytes that a pass moves for a word: it is loaded twice, and stored in a sector by itself; its digit and its position are stored and loaded.
const BYTES_OF_PASS: f64 = 8.0 + 8.0 + 32.0 + 12.0 + 8.0;
/// Bytes that a pass moves for an entry of the table of counts: stored in a sector by itself, loaded by parts twice, stored and loaded as starts.
const BYTES_OF_ENTRY: f64 = 32.0 + 16.0;
/// Lanes of a group, which issue an instruction together.
const LANES: f64 = 32.0;

/// The numbers of the elements of each row `[rows, len]` in the order of keys of so many bits; none where the order that one thread after the other finds is as good.
pub(crate) fn order(keys: &UOp, bits: u32, costs: &Costs) -> Option<UOp> {
    let (rows, len) = (keys.shape()[0].max_value() as f64, keys.shape()[1].max_value() as f64);
    let of_pairs = compared_ns(costs, rows * len * len);
    let digits = Digits::of(bits.min(32), (rows, len), costs);
    let halves = if bits > 32 { 2.0 } else { 1.0 };
    if of_pairs <= digits.total_ns * halves {
        return Some(order_by_pairs(keys, bits));
    }
    keys.shape()[1].as_const()?;
    by_halves(keys, bits, |keys, numbers, bits| Ok(digits.order(keys, numbers, bits))).ok()
}

/// Time of so many comparisons.
fn compared_ns(costs: &Costs, comparisons: f64) -> f64 {
    comparisons * COMPARED / LANES / f64::from(costs.instructions_per_ns.max(1))
}

/// An element's position is how many come before it.
fn order_by_pairs(keys: &UOp, bits: u32) -> UOp {
    let numbers = positions(keys.shape(), 1);
    // Of a key and a number in one word no two are equal.
    let words = match bits {
        ..=32 => keys.cast(DType::U64).shl(UOp::int(32, DType::U64)).or(numbers.cast(DType::U64)),
        _ => keys.clone(),
    };
    let words = words.contiguous();
    let (rows, len) = (keys.shape()[0].clone(), keys.shape()[1].clone());
    let square = Shape::from([rows, len.clone(), len]);
    let this = insert_axis(&words, 2).expand(square.clone());
    let other = insert_axis(&words, 1).expand(square.clone());
    let is_before = match bits {
        ..=32 => other.lt(&this),
        _ => {
            let comes_first = positions(&square, 2).lt(&positions(&square, 1));
            other.lt(&this).or(&other.equals(&this).and(&comes_first))
        }
    };
    numbers.cast(DType::I32).place(&along(&is_before.cast(DType::I32), ReduceOp::Add, &[2], false), 1)
}

/// How words are taken apart, and what that takes.
struct Digits {
    /// Bits of a digit.
    bits: u32,
    /// Words of a tile.
    tile: i64,
    total_ns: f64,
}

impl Digits {
    /// Those that take least.
    fn of(key_bits: u32, (rows, len): (f64, f64), costs: &Costs) -> Digits {
        let with = |bits: u32, tile: i64| {
            let (values, words) = (f64::from(1 << bits), rows * len);
            let moved = BYTES_OF_PASS + values / tile as f64 * BYTES_OF_ENTRY;
            let bytes_ns = words * moved / f64::from(costs.memory_bytes_per_ns.max(1));
            let of_pass = bytes_ns + compared_ns(costs, words * (values + tile as f64));
            let launches = KERNELS_OF_PASS * f64::from(costs.launch_ns);
            Digits { bits, tile, total_ns: f64::from(key_bits.div_ceil(bits)) * (of_pass + launches) }
        };
        // A number has 31 bits at most, and stands above all digits.
        let all = (1..=8).flat_map(|bits| (4..=8).map(move |tile| with(bits, 1 << tile)));
        all.filter(|digits| key_bits.div_ceil(digits.bits) * digits.bits <= 33)
            .min_by(|a, b| a.total_ns.total_cmp(&b.total_ns))
            .unwrap_or(with(1, 32))
    }

    /// Elements of `numbers` (the numbers 0, 1, ... where there are none) in the order of keys of so many bits.
    fn order(&self, keys: &UOp, numbers: Option<&UOp>, bits: u32) -> UOp {
        let (rows, len) = (keys.shape()[0].clone(), keys.shape()[1].max_value());
        let constant = |value: u64| UOp::constant(Scalar::UInt(value).cast(DType::U64), DType::U64);
        let passes = bits.div_ceil(self.bits);
        let width = passes * self.bits;
        let number = numbers.cloned().unwrap_or_else(|| positions(keys.shape(), 1)).cast(DType::U64);
        let words = number.shl(constant(u64::from(width))).or(keys.cast(DType::U64));
        let tiles = (len - 1) / self.tile + 1;
        // What fills up the last tile comes last: it has the largest key, and stands behind all that do.
        let last = Scalar::UInt((1 << width) - 1);
        let mut words = match tiles * self.tile - len {
            0 => words,
            missing => pad_with(&words, &[(0, 0), (0, missing)], last),
        }
        .contiguous();
        let turn = u64::from(self.bits);
        for pass in 1..=passes {
            let position = self.destinations(&words);
            if pass == passes {
                // Turned once more the number would be the lowest.
                let number = words.shr(constant(turn)).and(constant((1 << (64 - width)) - 1));
                let order = number.cast(DType::I32).place(&position, 1);
                return order.shrink(&[(0.into(), rows), (0.into(), len.into())]);
            }
            words = words.shr(constant(turn)).or(words.shl(constant(64 - turn))).place(&position, 1);
        }
        words
    }

    /// Where each word of rows of whole tiles goes that its lowest digit sorts.
    fn destinations(&self, words: &UOp) -> UOp {
        let (rows, len) = (words.shape()[0].clone(), words.shape()[1].max_value());
        let (values, tile, tiles) = (1i64 << self.bits, self.tile, len / self.tile);
        let mask = UOp::int(values - 1, DType::I32);
        let digit = words.cast(DType::U32).bitcast(DType::I32).and(&mask);
        let digit = digit.reshape([rows.clone(), tiles.into(), tile.into()]).contiguous();
        let among = |count: i64| Shape::from([rows.clone(), tiles.into(), count.into(), tile.into()]);
        let count = |holds: &UOp| along(&holds.cast(DType::I32), ReduceOp::Add, &[3], false);
        let of_tile = |shape: &Shape| insert_axis(&digit, 2).expand(shape.clone());
        let shape = among(values);
        let counts = count(&of_tile(&shape).equals(&positions(&shape, 2).cast(DType::I32)));
        let line = counts.permute(&[0, 2, 1]).reshape([rows.clone(), (values * tiles).into()]).contiguous();
        let starts = (line.scan(ReduceOp::Add, 1) - &line).contiguous();
        let shape = among(tile);
        let own = insert_axis(&digit, 3).expand(shape.clone());
        let is_before = of_tile(&shape).equals(&own).and(&positions(&shape, 3).lt(&positions(&shape, 2)));
        let entries = &rows * &Dim::from(values * tiles);
        let row = positions(digit.shape(), 0) * (values * tiles);
        // What was loaded is seen to be below the number of values once more: so the table is read without a condition.
        let entry = row + digit.and(mask).cast(DType::INDEX) * tiles + positions(digit.shape(), 1);
        let dtype = if entries.max_value() <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
        let start = starts.reshape([entries]).gather(&entry.cast(dtype), 0);
        (start + count(&is_before)).reshape(words.shape().clone())
    }
}
