//! Random numbers from counters: the same key gives the same numbers on every device, in any order.
//!
//! Threefry-2x32 with 20 rounds (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011) enciphers the position of each
//! element under a key of two words. Half of the elements take the first word of their block's cipher, half the second. Where a length is a variable, elements are
//! those of the largest length.

use super::create::positions;
use super::math::{cos, log};
use super::movement::shrink_axis;
use super::shapes::{check_size, settled};
use super::{Built, fail};
use crate::ir::{Dim, Shape};
use crate::{DType, UOp};

/// Amounts by which a word is rotated after each of eight rounds.
const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// What keeps a key of zeros from enciphering zeros to zeros.
const PARITY: i64 = 0x1BD1_1BDA;

/// Two words enciphered under a key; all `u32`.
pub fn threefry(words: [UOp; 2], key: [UOp; 2]) -> [UOp; 2] {
    let [mut x, mut y] = words;
    let third = key[0].xor(&key[1]).xor(UOp::int(PARITY, DType::U32));
    let keys = [key[0].clone(), key[1].clone(), third];
    (x, y) = (x + &keys[0], y + &keys[1]);
    for round in 0..5 {
        for bits in ROTATIONS[round % 2] {
            x = x + &y;
            y = y.shl(bits).or(&y.shr(32 - bits)).xor(&x);
        }
        x = x + &keys[(round + 1) % 3];
        y = y + &keys[(round + 2) % 3] + UOp::int(round as i64 + 1, DType::U32);
    }
    [x, y]
}

/// Uniform bits, `u32`, in a shape: `state` is a tensor of three words, the key and what tells this draw from others under it.
pub fn random_bits(shape: &Shape, state: &UOp) -> Built {
    check_size(shape)?;
    if state.dtype() != DType::U32 || *state.shape() != Shape::from([3]) {
        fail!("the state must be 3 words of u32, not {} {}", state.dtype(), state.shape());
    }
    let Some(count) = shape.numel().as_const() else {
        // Numbers for the largest lengths, of which those are computed that are there.
        let most: Shape = shape.iter().map(|length| length.max_value()).collect();
        let bounds: Vec<(Dim, Dim)> = shape.iter().map(|length| (Dim::Const(0), length.clone())).collect();
        return Ok(settled(random_bits(&most, state)?.shrink(&bounds)));
    };
    if count > 1 << 32 {
        fail!("{count} numbers of one draw: at most 2^32 can be told apart");
    }
    let blocks = (count + 1) / 2;
    let line = Shape::from([blocks]);
    let word = |k: i64| shrink_axis(state, 0, k, k + 1).expand(line.clone());
    let counter = positions(&line, 0).cast(DType::U32);
    let [first, second] = threefry([counter, word(2)], [word(0), word(1)]);
    let both = super::join::cat(&[first, second], 0)?;
    Ok(shrink_axis(&both, 0, 0, count).reshape(shape.clone()))
}

/// Uniform in [0, 1), with as many random bits as the type's significand has, up to 32.
pub fn uniform(shape: &Shape, state: &UOp, dtype: DType) -> Built {
    if !dtype.is_float() {
        fail!("uniform numbers in [0, 1) are floats, not {dtype}");
    }
    let bits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F64 => 32,
        _ => 24,
    };
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let random = random_bits(shape, state)?.shr(32 - bits);
    Ok((random.cast(wide) * UOp::float((-(bits as f64)).exp2(), wide)).cast(dtype))
}

/// Normal with mean 0 and variance 1, by Box and Muller.
pub fn normal(shape: &Shape, state: &UOp, dtype: DType) -> Built {
    if !dtype.is_float() {
        fail!("normal numbers are floats, not {dtype}");
    }
    check_size(shape)?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let pair: Shape = std::iter::once(2.into()).chain(shape.iter().cloned()).collect();
    let numbers = uniform(&pair, state, wide)?;
    let part = |k: i64| shrink_axis(&numbers, 0, k, k + 1).reshape(shape.clone());
    // 1 - u is never 0, whose logarithm does not exist.
    let radius = (log(&(UOp::float(1.0, wide) - part(0))) * UOp::float(-2.0, wide)).sqrt();
    let angle = part(1) * UOp::float(std::f64::consts::TAU, wide);
    Ok((radius * cos(&angle)).cast(dtype))
}

/// Integers from `low` up to but without `high`.
pub fn integers(shape: &Shape, state: &UOp, low: i64, high: i64, dtype: DType) -> Built {
    let span = high.checked_sub(low).unwrap_or(i64::MAX);
    if !(1..=1 << 32).contains(&span) {
        fail!("there must be 1 to 2^32 integers from {low} up to {high}");
    }
    if !dtype.is_integer() {
        fail!("random integers are not {dtype}");
    }
    // The high half of bits * span is spread over 0..span as evenly as 32 bits allow.
    let wide = random_bits(shape, state)?.cast(DType::U64) * UOp::int(span, DType::U64);
    Ok((wide.shr(32).cast(DType::I64) + UOp::int(low, DType::I64)).cast(dtype))
}
