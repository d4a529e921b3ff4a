//! Division of integers, and the remainder of floats.
//!
//! By a constant, of what is not negative: the upper half of a product and a shift, as Granlund and Montgomery do it ("Division by Invariant Integers
//! using Multiplication", 1994); both are exact for numbers below half of the type's. Otherwise the machine divides, by 1 where PTX would have no answer. Quotients and
//! remainders that round to minus infinity, and powers of two, have become other ops before.
//!
//! PTX has no remainder of floats: it is a long division in a loop, whose every step is exact.

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::{DType, Op, UOp};

use super::Writer;
use super::registers::{self, Kind, arithmetic, width};

impl Writer<'_> {
    /// The quotient or remainder toward zero; 0 by 0.
    pub(super) fn division(&mut self, node: &UOp, dividend: &str, divisor: &str) -> String {
        let dtype = node.dtype().element();
        let (a, b) = (&node.src()[0], &node.src()[1]);
        let (kind, bits) = (Kind::of(dtype), width(dtype));
        // Numbers that are not negative divide faster without a sign.
        let unsigned = dtype.is_unsigned() || (a.min_value() >= 0 && b.min_value() >= 0);
        let is_small = a.min_value() >= 0 && (bits == 64 || a.max_value() < 1 << (bits - 1));
        if let Some(constant) = b.as_int().filter(|value| *value >= 3 && is_small && bits >= 32) {
            return self.division_by_constant(node, dividend, constant as u64);
        }
        let sign = if unsigned { "u" } else { "s" };
        let is_quotient = node.op() == Op::CDiv;
        let instruction = format!("{}.{sign}{bits}", if is_quotient { "div" } else { "rem" });
        let may_be_zero = b.facts().contains(0);
        // Of bytes, the quotient fits the register.
        let may_overflow = !unsigned && dtype.bits() == bits && b.facts().contains(-1);
        let equal = format!("setp.eq.{}", arithmetic(dtype));
        let by_zero = may_be_zero.then(|| self.compute(Kind::Predicate, &equal, &[divisor, "0"]));
        let by_minus_one = may_overflow.then(|| self.compute(Kind::Predicate, &equal, &[divisor, "-1"]));
        let special = match (&by_zero, &by_minus_one) {
            (Some(a), Some(b)) => Some(self.compute(Kind::Predicate, "or.pred", &[a, b])),
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        };
        let select = format!("selp.{}", kind.plain());
        let safe = special.map(|special| self.compute(kind, &select, &["1", divisor, &special]));
        let mut result = self.compute(kind, &instruction, &[dividend, safe.as_deref().unwrap_or(divisor)]);
        if is_quotient {
            if let Some(by_minus_one) = by_minus_one {
                let negated = self.compute(kind, &format!("neg.s{bits}"), &[dividend]);
                result = self.compute(kind, &select, &[&negated, &result, &by_minus_one]);
            }
            if let Some(by_zero) = by_zero {
                result = self.compute(kind, &select, &["0", &result, &by_zero]);
            }
        }
        // Every number is a multiple of 1: where the divisor was replaced, the remainder is 0 already.
        if is_quotient { self.wrapped(dtype, result) } else { result }
    }

    /// Of numbers below half of what the type's bits hold.
    fn division_by_constant(&mut self, node: &UOp, dividend: &str, divisor: u64) -> String {
        let dtype = node.dtype().element();
        let (kind, bits) = (Kind::of(dtype), width(dtype));
        let (factor, shift) = reciprocal(divisor, bits);
        let high = self.compute(kind, &format!("mul.hi.u{bits}"), &[dividend, &format!("0x{factor:X}")]);
        let quotient = match shift {
            0 => high,
            _ => self.compute(kind, &format!("shr.u{bits}"), &[&high, &shift.to_string()]),
        };
        if node.op() == Op::CDiv {
            return quotient;
        }
        let multiple = self.compute(kind, &format!("mul.lo.{}", arithmetic(dtype)), &[&quotient, &divisor.to_string()]);
        self.compute(kind, &format!("sub.{}", arithmetic(dtype)), &[dividend, &multiple])
    }

    /// C's `fmod`: the divisor is doubled as long as it fits, then subtracted wherever it does while it is halved again.
    pub(super) fn float_remainder(&mut self, dtype: DType, a: &str, b: &str) -> String {
        let (kind, float) = (Kind::of(dtype), arithmetic(dtype));
        let constant = |value: f64| registers::constant(Scalar::from_f64(value, dtype), dtype);
        let label = format!("fmod{}", self.next_label());
        let result = self.compute(kind, &format!("mov.{float}"), &[&constant(f64::NAN)]);
        let left = self.compute(kind, &format!("abs.{float}"), &[a]);
        let size = self.compute(kind, &format!("abs.{float}"), &[b]);
        let finite = self.compute(Kind::Predicate, &format!("setp.lt.{float}"), &[&left, &constant(f64::INFINITY)]);
        let divides = self.compute(Kind::Predicate, &format!("setp.gt.{float}"), &[&size, &constant(0.0)]);
        let defined = self.compute(Kind::Predicate, "and.pred", &[&finite, &divides]);
        self.line(&format!("@!{defined} bra {label}_end;"));
        let step = self.compute(kind, &format!("mov.{float}"), &[&size]);
        let small = self.compute(Kind::Predicate, &format!("setp.lt.{float}"), &[&left, &size]);
        self.line(&format!("@{small} bra {label}_sign;"));
        let half_left = self.compute(kind, &format!("mul.rn.{float}"), &[&left, &constant(0.5)]);
        self.label(&format!("{label}_up"));
        let more = self.compute(Kind::Predicate, &format!("setp.gt.{float}"), &[&step, &half_left]);
        self.line(&format!("@{more} bra {label}_down;"));
        self.line(&format!("mul.rn.{float} {step}, {step}, {};", constant(2.0)));
        self.line(&format!("bra {label}_up;"));
        self.label(&format!("{label}_down"));
        let fits = self.compute(Kind::Predicate, &format!("setp.ge.{float}"), &[&left, &step]);
        let taken = self.compute(kind, &format!("sub.rn.{float}"), &[&left, &step]);
        self.line(&format!("selp.{float} {left}, {taken}, {left}, {fits};"));
        self.line(&format!("mul.rn.{float} {step}, {step}, {};", constant(0.5)));
        let again = self.compute(Kind::Predicate, &format!("setp.ge.{float}"), &[&step, &size]);
        self.line(&format!("@{again} bra {label}_down;"));
        self.label(&format!("{label}_sign"));
        self.line(&format!("copysign.{float} {result}, {a}, {left};"));
        self.label(&format!("{label}_end"));
        result
    }
}

/// The factor and shift of a division by a constant that is no power of two: the quotient of `a` is the upper half of `a * factor`, shifted right.
///
/// With 2^s < divisor < 2^(s + 1), factor = (2^(bits + s) + e) / divisor for an e below the divisor. So a * factor / 2^(bits + s) is above a / divisor by
/// a * e / (divisor * 2^(bits + s)), less than 1 / divisor for a below 2^(bits - 1): too little to reach the next integer.
fn reciprocal(divisor: u64, bits: u32) -> (u64, u32) {
    let shift = divisor.ilog2();
    let power = 1u128 << (bits + shift);
    (power.div_ceil(divisor as u128) as u64, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotient(a: u64, divisor: u64, bits: u32) -> u64 {
        let (factor, shift) = reciprocal(divisor, bits);
        assert!(bits == 64 || factor < 1 << bits);
        ((a as u128 * factor as u128) >> bits) as u64 >> shift
    }

    #[test]
    fn products_and_shifts_divide() {
        let divisors = (3..2000).chain([0x7fff_ffff, 0x7fff_fffe, 0x4000_0001, 0x5555_5555]);
        for divisor in divisors.filter(|divisor: &u64| !divisor.is_power_of_two()) {
            for bits in [32, 64] {
                let most = (1u64 << (bits - 1)) - 1;
                let multiple = most / divisor * divisor;
                for a in [0, 1, divisor - 1, divisor, divisor + 1, multiple - 1, multiple, most / 2, most - 1, most] {
                    assert_eq!(quotient(a, divisor, bits), a / divisor, "{a} by {divisor} in {bits} bits");
                }
            }
        }
    }
}
