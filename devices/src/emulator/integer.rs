//! What integer instructions and instructions on bits compute: functions of words that hold a register each.
//!
//! Arithmetic wraps. A shift by the width or more gives zeros, or copies of the sign. Whoever divides has looked at the divisor.
//!
//! Tested with the instructions (`tests/values.rs`).

use super::scalar::{Class, Type, low, signed};

/// A function of so many operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    One(fn(u64) -> u64),
    Two(fn(u64, u64) -> u64),
    Three(fn(u64, u64, u64) -> u64),
}

/// A closure over an integer type that a [`Type`] stands for, as a function of words: `$t` names the type, `$w` the one of twice its bits.
macro_rules! integer {
    ($type:expr, $t:ident, $w:ident, $kind:ident, |$($operand:ident),+| $body:expr) => {
        match ($type.class, $type.bits) {
            (Class::Signed, 16) => integer!(@ i16 i32 u16 $t $w $kind $($operand)+ => $body),
            (Class::Signed, 32) => integer!(@ i32 i64 u32 $t $w $kind $($operand)+ => $body),
            (Class::Signed, 64) => integer!(@ i64 i128 u64 $t $w $kind $($operand)+ => $body),
            (Class::Unsigned, 16) => integer!(@ u16 u32 u16 $t $w $kind $($operand)+ => $body),
            (Class::Unsigned, 32) => integer!(@ u32 u64 u32 $t $w $kind $($operand)+ => $body),
            (Class::Unsigned, 64) => integer!(@ u64 u128 u64 $t $w $kind $($operand)+ => $body),
            _ => return None,
        }
    };
    (@ $int:ident $wide:ident $raw:ident $t:ident $w:ident $kind:ident $($operand:ident)+ => $body:expr) => {
        Function::$kind(|$($operand: u64),+| {
            type $t = $int;
            type $w = $wide;
            $(let $operand = $operand as $t;)+
            ($body) as $raw as u64
        })
    };
}

#[allow(dead_code, clippy::unnecessary_cast, reason = "one text for all types, which not every instruction names")]
/// Instructions on one type of integers whose results have that type.
pub(super) fn arithmetic(name: &str, t: Type) -> Option<Function> {
    Some(match name {
        "add" => integer!(t, T, W, Two, |a, b| a.wrapping_add(b)),
        "sub" => integer!(t, T, W, Two, |a, b| a.wrapping_sub(b)),
        "mul.lo" => integer!(t, T, W, Two, |a, b| a.wrapping_mul(b)),
        "mad.lo" => integer!(t, T, W, Three, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "mul.hi" => integer!(t, T, W, Two, |a, b| ((a as W * b as W) >> T::BITS) as T),
        "mad.hi" => integer!(t, T, W, Three, |a, b, c| (((a as W * b as W) >> T::BITS) as T).wrapping_add(c)),
        "div" => integer!(t, T, W, Two, |a, b| a.checked_div(b).unwrap_or(T::MAX)),
        "rem" => integer!(t, T, W, Two, |a, b| a.checked_rem(b).unwrap_or(a)),
        "min" => integer!(t, T, W, Two, |a, b| a.min(b)),
        "max" => integer!(t, T, W, Two, |a, b| a.max(b)),
        "neg" if t.class == Class::Signed => integer!(t, T, W, One, |a| (0 as T).wrapping_sub(a)),
        "abs" if t.class == Class::Signed => integer!(t, T, W, One, |a| (a as W).abs_of() as T),
        "sad" => integer!(t, T, W, Three, |a, b, c| (a.max(b).wrapping_sub(a.min(b))).wrapping_add(c)),
        _ => return None,
    })
}

/// The size of a number without its sign, of types that have none too.
trait AbsOf {
    fn abs_of(self) -> Self;
}

macro_rules! abs_of {
    ($($signed:ident)+; $($unsigned:ident)+) => {
        $(impl AbsOf for $signed { fn abs_of(self) -> Self { self.wrapping_abs() } })+
        $(impl AbsOf for $unsigned { fn abs_of(self) -> Self { self } })+
    };
}

abs_of!(i32 i64 i128; u32 u64 u128);

/// Products of twice the bits, alone and with a sum of that width.
pub(super) fn wide(name: &str, t: Type) -> Option<Function> {
    if t.bits > 32 {
        return None;
    }
    Some(match (name, t.class, t.bits) {
        ("mul.wide", Class::Signed, 32) => Function::Two(|a, b| (a as i32 as i64 * b as i32 as i64) as u64),
        ("mul.wide", Class::Unsigned, 32) => Function::Two(|a, b| low(a, 32) * low(b, 32)),
        ("mul.wide", Class::Signed, 16) => Function::Two(|a, b| low((signed(a, 16) * signed(b, 16)) as u64, 32)),
        ("mul.wide", Class::Unsigned, 16) => Function::Two(|a, b| low(a, 16) * low(b, 16)),
        ("mad.wide", Class::Signed, 32) => {
            Function::Three(|a, b, c| ((a as i32 as i64 * b as i32 as i64) as u64).wrapping_add(c))
        }
        ("mad.wide", Class::Unsigned, 32) => Function::Three(|a, b, c| (low(a, 32) * low(b, 32)).wrapping_add(c)),
        ("mad.wide", Class::Signed, 16) => {
            Function::Three(|a, b, c| low(((signed(a, 16) * signed(b, 16)) as u64).wrapping_add(c), 32))
        }
        ("mad.wide", Class::Unsigned, 16) => {
            Function::Three(|a, b, c| low((low(a, 16) * low(b, 16)).wrapping_add(c), 32))
        }
        _ => return None,
    })
}

/// A function of words cut to a width.
macro_rules! bits {
    ($t:expr, $kind:ident, $width:ident, |$($operand:ident),+| $body:expr) => {
        match $t.width() {
            1 => bits!(@ 1 $kind $width $($operand)+ => $body),
            16 => bits!(@ 16 $kind $width $($operand)+ => $body),
            32 => bits!(@ 32 $kind $width $($operand)+ => $body),
            64 => bits!(@ 64 $kind $width $($operand)+ => $body),
            _ => return None,
        }
    };
    (@ $bits:literal $kind:ident $width:ident $($operand:ident)+ => $body:expr) => {
        Function::$kind(|$($operand: u64),+| {
            const $width: u32 = $bits;
            low($body, $width)
        })
    };
}

/// Instructions on bits and predicates.
pub(super) fn on_bits(name: &str, t: Type) -> Option<Function> {
    let is_shift_type = t.bits >= 16 && t.lanes == 1;
    Some(match name {
        "and" => Function::Two(|a, b| a & b),
        "or" => Function::Two(|a, b| a | b),
        "xor" => Function::Two(|a, b| a ^ b),
        "not" => bits!(t, One, WIDTH, |a| !a),
        "cnot" => bits!(t, One, WIDTH, |a| u64::from(low(a, WIDTH) == 0)),
        "shl" if is_shift_type => bits!(t, Two, WIDTH, |a, n| shift_left(a, n, WIDTH)),
        "shr" if is_shift_type && t.class == Class::Signed => {
            bits!(t, Two, WIDTH, |a, n| (signed(a, WIDTH) >> low(n, 32).min(63)) as u64)
        }
        "shr" if is_shift_type => bits!(t, Two, WIDTH, |a, n| shift_right(low(a, WIDTH), n, WIDTH)),
        "selp" => Function::Three(|a, b, p| if p != 0 { a } else { b }),
        _ => return None,
    })
}

fn shift_left(a: u64, count: u64, width: u32) -> u64 {
    let count = low(count, 32);
    if count >= u64::from(width) { 0 } else { a << count }
}

fn shift_right(a: u64, count: u64, width: u32) -> u64 {
    let count = low(count, 32);
    if count >= u64::from(width) { 0 } else { a >> count }
}

#[allow(dead_code, clippy::unnecessary_cast, reason = "as above")]
/// Comparisons of integers, and of bits for being equal.
pub(super) fn compare(test: &str, t: Type) -> Option<Function> {
    if t.class == Class::Bits {
        return Some(match test {
            "eq" => Function::Two(|a, b| u64::from(a == b)),
            "ne" => Function::Two(|a, b| u64::from(a != b)),
            _ => return None,
        });
    }
    Some(match test {
        "eq" => integer!(t, T, W, Two, |a, b| a == b),
        "ne" => integer!(t, T, W, Two, |a, b| a != b),
        "lt" => integer!(t, T, W, Two, |a, b| a < b),
        "le" => integer!(t, T, W, Two, |a, b| a <= b),
        "gt" => integer!(t, T, W, Two, |a, b| a > b),
        "ge" => integer!(t, T, W, Two, |a, b| a >= b),
        "lo" if t.class == Class::Unsigned => integer!(t, T, W, Two, |a, b| a < b),
        "ls" if t.class == Class::Unsigned => integer!(t, T, W, Two, |a, b| a <= b),
        "hi" if t.class == Class::Unsigned => integer!(t, T, W, Two, |a, b| a > b),
        "hs" if t.class == Class::Unsigned => integer!(t, T, W, Two, |a, b| a >= b),
        _ => return None,
    })
}

/// Counts and orders of bits: results of 32 bits, but for `brev`.
pub(super) fn counts(name: &str, t: Type) -> Option<(Function, Type)> {
    let function = match (name, t.bits) {
        ("popc", 32 | 64) => Function::One(|a| u64::from(a.count_ones())),
        ("clz", 32) => Function::One(|a| u64::from((a as u32).leading_zeros())),
        ("clz", 64) => Function::One(|a| u64::from(a.leading_zeros())),
        ("brev", 32) => return Some((Function::One(|a| u64::from((a as u32).reverse_bits())), t)),
        ("brev", 64) => return Some((Function::One(u64::reverse_bits), t)),
        _ => return None,
    };
    Some((function, Type::U32))
}
