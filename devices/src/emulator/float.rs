//! What floating-point instructions compute: functions of words that hold a register each.
//!
//! Arithmetic is rounded to the nearest, and subnormal numbers are kept. A result that is no number is the NaN that the machine gives (`0x7fffffff` of `f32`,
//! `0x7fff` of half floats), whatever the operands were.
//!
//! Approximate instructions give any value that the manual allows: the exact one moved by a part of the stated error that follows from the operand's bits. So a program
//! that needs more than is promised is seen to. The errors are those of the PTX ISA, chapter "Floating Point Instructions":
//!
//! | instruction (`.approx.f32`) | error |
//! |---|---|
//! | `ex2` | 2^-22 of the value |
//! | `lg2` | 2^-22 between 0.5 and 2, else 2^-22 of the value |
//! | `rcp`, `sqrt` | 2^-23 of the value |
//! | `rsqrt` | 2^-22.9 of the value |
//! | `div`, `div.full` | 2 units in the last place |
//! | `sin`, `cos` | 2^-20.5 where the operand is within two turns, else 2^-14.7 |
//! | `tanh` | 2^-11 of the value |
//!
//! Tested with the instructions (`tests/values.rs`).

use super::integer::Function;
use super::rounding::{BF16, F16, Format, Mode, round, sum_to_odd, value_of};
use super::scalar::{Class, Type};

pub(super) fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(super) fn of_single(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

fn of_double(value: f64) -> u64 {
    if value.is_nan() { 0x7fff_ffff_ffff_ffff } else { value.to_bits() }
}

/// A closure on floats as a function of words, of `f32` and `f64`.
macro_rules! float {
    ($t:expr, $kind:ident, |$($operand:ident),+| $body:expr) => {
        match $t.bits {
            32 => Function::$kind(|$($operand: u64),+| {
                $(let $operand = single($operand);)+
                of_single($body)
            }),
            64 => Function::$kind(|$($operand: u64),+| {
                $(let $operand = f64::from_bits($operand);)+
                of_double($body)
            }),
            _ => return None,
        }
    };
}

#[allow(clippy::useless_conversion, reason = "one text for both types")]
/// Arithmetic on one type.
pub(super) fn arithmetic(name: &str, t: Type) -> Option<Function> {
    if t.bits == 16 {
        return halves(name, t);
    }
    Some(match name {
        "add" | "add.rn" => float!(t, Two, |a, b| a + b),
        "sub" | "sub.rn" => float!(t, Two, |a, b| a - b),
        "mul" | "mul.rn" => float!(t, Two, |a, b| a * b),
        "div.rn" => float!(t, Two, |a, b| a / b),
        "fma.rn" | "mad.rn" => float!(t, Three, |a, b, c| a.mul_add(b, c)),
        "sqrt.rn" => float!(t, One, |a| a.sqrt()),
        "rcp.rn" => float!(t, One, |a| 1.0 / a),
        "min" => float!(t, Two, |a, b| extreme(a.into(), b.into(), false) as _),
        "max" => float!(t, Two, |a, b| extreme(a.into(), b.into(), true) as _),
        "min.NaN" if t.bits == 32 => float!(t, Two, |a, b| extreme_or_nan(a.into(), b.into(), false) as _),
        "max.NaN" if t.bits == 32 => float!(t, Two, |a, b| extreme_or_nan(a.into(), b.into(), true) as _),
        "neg" if t.bits == 32 => Function::One(|a| a ^ 1 << 31),
        "neg" => Function::One(|a| a ^ 1 << 63),
        "abs" if t.bits == 32 => Function::One(|a| a & !(1 << 31)),
        "abs" => Function::One(|a| a & !(1 << 63)),
        "copysign" if t.bits == 32 => Function::Two(|a, b| a & 0x8000_0000 | b & 0x7fff_ffff),
        "copysign" => Function::Two(|a, b| a & 1 << 63 | b & !(1 << 63)),
        _ if t.bits == 32 => return approximate(name),
        _ => return None,
    })
}

/// The number of two that is larger or smaller; -0 is smaller than 0.
fn extreme(a: f64, b: f64, is_max: bool) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() == is_max {
                b
            } else {
                a
            }
        }
        _ if (a > b) == is_max => a,
        _ => b,
    }
}

fn extreme_or_nan(a: f64, b: f64, is_max: bool) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { extreme(a, b, is_max) }
}

#[allow(clippy::redundant_pattern_matching, reason = "one text for all tests")]
/// Comparisons; those with a `u` also hold where an operand is NaN, which is in no order with anything.
pub(super) fn compare(test: &str, t: Type) -> Option<Function> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    macro_rules! orders {
        ($($order:pat_param)|+) => {
            match (t.class, t.bits) {
                (Class::Float, 32) => orders!(single, $($order)|+),
                (Class::Float, 64) => orders!(f64::from_bits, $($order)|+),
                (Class::Float, 16) => orders!(half, $($order)|+),
                (Class::Brain, 16) => orders!(brain, $($order)|+),
                _ => return None,
            }
        };
        ($value:path, $($order:pat_param)|+) => {
            Function::Two(|a, b| u64::from(matches!($value(a).partial_cmp(&$value(b)), $($order)|+)))
        };
    }
    Some(match test {
        "eq" => orders!(Some(Equal)),
        "ne" => orders!(Some(Less) | Some(Greater)),
        "lt" => orders!(Some(Less)),
        "le" => orders!(Some(Less) | Some(Equal)),
        "gt" => orders!(Some(Greater)),
        "ge" => orders!(Some(Greater) | Some(Equal)),
        "equ" => orders!(Some(Equal) | None),
        "neu" => orders!(Some(Less) | Some(Greater) | None),
        "ltu" => orders!(Some(Less) | None),
        "leu" => orders!(Some(Less) | Some(Equal) | None),
        "gtu" => orders!(Some(Greater) | None),
        "geu" => orders!(Some(Greater) | Some(Equal) | None),
        "num" => orders!(Some(_)),
        "nan" => orders!(None),
        _ => return None,
    })
}

fn half(bits: u64) -> f64 {
    value_of(bits, F16)
}

fn brain(bits: u64) -> f64 {
    value_of(bits, BF16)
}

/// A closure on the exact values of half floats, one or a pair of them, as a function of words; the result is rounded once.
macro_rules! half {
    ($t:expr, $kind:ident, |$($operand:ident),+| $body:expr) => {
        match ($t.class, $t.lanes) {
            (Class::Float, 1) => half!(@ F16 $kind $($operand)+ => $body),
            (Class::Float, _) => half!(@@ F16 $kind $($operand)+ => $body),
            (_, 1) => half!(@ BF16 $kind $($operand)+ => $body),
            (_, _) => half!(@@ BF16 $kind $($operand)+ => $body),
        }
    };
    (@ $format:ident $kind:ident $($operand:ident)+ => $body:expr) => {
        Function::$kind(|$($operand: u64),+| {
            $(let $operand = value_of($operand & 0xffff, $format);)+
            round($body, $format, Mode::NearestEven)
        })
    };
    (@@ $format:ident $kind:ident $($operand:ident)+ => $body:expr) => {
        Function::$kind(|$($operand: u64),+| {
            let one = |$($operand: u64),+| {
                $(let $operand = value_of($operand & 0xffff, $format);)+
                round($body, $format, Mode::NearestEven)
            };
            one($($operand),+) | one($($operand >> 16),+) << 16
        })
    };
}

/// Arithmetic on half floats: a product of two is exact in `f64`, and a sum is rounded to odd before it is rounded to its format.
fn halves(name: &str, t: Type) -> Option<Function> {
    Some(match name {
        "add" | "add.rn" => half!(t, Two, |a, b| sum_to_odd(a, b)),
        "sub" | "sub.rn" => half!(t, Two, |a, b| sum_to_odd(a, -b)),
        "mul" | "mul.rn" => half!(t, Two, |a, b| a * b),
        "fma.rn" => half!(t, Three, |a, b, c| sum_to_odd(a * b, c)),
        "min" => half!(t, Two, |a, b| extreme(a, b, false)),
        "max" => half!(t, Two, |a, b| extreme(a, b, true)),
        "min.NaN" => half!(t, Two, |a, b| extreme_or_nan(a, b, false)),
        "max.NaN" => half!(t, Two, |a, b| extreme_or_nan(a, b, true)),
        "neg" if t.lanes == 1 => Function::One(|a| a ^ 0x8000),
        "neg" => Function::One(|a| a ^ 0x8000_8000),
        "abs" if t.lanes == 1 => Function::One(|a| a & 0x7fff),
        "abs" => Function::One(|a| a & 0x7fff_7fff),
        _ => return None,
    })
}

/// A value as near to the exact one as is promised, and no nearer than it must be: which error it has follows from the operands.
fn off(exact: f64, operands: u64, error: f64) -> u64 {
    if !exact.is_finite() || exact == 0.0 {
        return of_single(exact as f32);
    }
    let mixed = (operands ^ operands >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Between -1 and 1; rounding to `f32` adds up to half a unit in the last place, which the error must also hold.
    let part = (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    let unit = (exact.abs() * 2f64.powi(-24)).max(f64::from(f32::from_bits(1)) / 2.0);
    of_single((exact + part * (error - unit).max(0.0)) as f32)
}

fn approximate(name: &str) -> Option<Function> {
    macro_rules! approximation {
        (|$a:ident| $exact:expr, |$value:ident| $error:expr) => {
            Function::One(|bits| {
                let $a = f64::from(single(bits));
                let $value: f64 = $exact;
                off($value, bits, $error)
            })
        };
    }
    const TURNS: f64 = 2.0 * std::f64::consts::TAU;
    const NEAR: f64 = 6.743_495_761_743_16e-7; // 2^-20.5
    const FAR: f64 = 3.757_162_114_948_63e-5; // 2^-14.7
    Some(match name {
        "ex2.approx" => approximation!(|a| a.exp2(), |value| value * 2f64.powi(-22)),
        "lg2.approx" => Function::One(|bits| {
            let a = f64::from(single(bits));
            let value = a.log2();
            off(value, bits, if (0.5..=2.0).contains(&a) { 2f64.powi(-22) } else { value.abs() * 2f64.powi(-22) })
        }),
        "rcp.approx" => approximation!(|a| 1.0 / a, |value| value.abs() * 2f64.powi(-23)),
        "sqrt.approx" => approximation!(|a| a.sqrt(), |value| value * 2f64.powi(-23)),
        "rsqrt.approx" => approximation!(|a| 1.0 / a.sqrt(), |value| value * 1.277e-7),
        "sin.approx" => Function::One(|bits| {
            let a = f64::from(single(bits));
            off(a.sin(), bits, if a.abs() <= TURNS { NEAR } else { FAR })
        }),
        "cos.approx" => Function::One(|bits| {
            let a = f64::from(single(bits));
            off(a.cos(), bits, if a.abs() <= TURNS { NEAR } else { FAR })
        }),
        "tanh.approx" => approximation!(|a| a.tanh(), |value| value.abs() * 2f64.powi(-11)),
        "div.approx" | "div.full" => Function::Two(|a, b| {
            let value = f64::from(single(a)) / f64::from(single(b));
            off(value, a ^ b << 32, value.abs() * 2f64.powi(-23))
        }),
        _ => return None,
    })
}

/// What `testp` asks.
pub(super) fn property(name: &str, t: Type) -> Option<Function> {
    macro_rules! property {
        (|$a:ident| $body:expr) => {
            match t.bits {
                32 => Function::One(|a| {
                    let $a = single(a);
                    u64::from($body)
                }),
                _ => Function::One(|a| {
                    let $a = f64::from_bits(a);
                    u64::from($body)
                }),
            }
        };
    }
    Some(match name {
        "finite" => property!(|a| a.is_finite()),
        "infinite" => property!(|a| a.is_infinite()),
        "number" => property!(|a| !a.is_nan()),
        "notanumber" => property!(|a| a.is_nan()),
        "normal" => property!(|a| a.is_normal()),
        "subnormal" => property!(|a| a.is_subnormal()),
        _ => return None,
    })
}

/// The format of half floats of a type.
pub(super) fn format_of(t: Type) -> Option<Format> {
    match (t.class, t.bits) {
        (Class::Float, 16) => Some(F16),
        (Class::Brain, 16) => Some(BF16),
        _ => None,
    }
}
