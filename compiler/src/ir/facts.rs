//! What is known of an integer before it is computed: its least and largest value, and its remainder by some modulus.
//!
//! A [`Facts`] describes a set of integers that contains every value the node can have. It travels with each integer or bool
//! node, made from the operands' facts when the node is made. `x = remainder (mod modulus)`; modulus 1 says nothing, modulus 0
//! says that x is the constant `remainder`. Bounds saturate at the ends of `i64`: a bound at an end says nothing.
//! Tested: the laws of interval arithmetic by exhaustion over small sets (property `facts_contain`).

use super::Op;
use crate::dtype::{DType, Scalar};

/// Bounds and congruence of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// No value is less.
    pub min: i64,
    /// No value is larger.
    pub max: i64,
    /// See `remainder`.
    pub modulus: i64,
    /// Every value leaves this remainder (from 0 to modulus - 1) by the modulus.
    pub remainder: i64,
}

/// The quotient rounded to minus infinity; 0 for a divisor of 0.
pub fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

/// The remainder with the sign of the divisor; 0 for a divisor of 0.
pub fn floor_mod(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_sub(b.wrapping_mul(floor_div(a, b))) }
}

/// The greatest common divisor, never negative; of 0 and x it is |x|.
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

impl Facts {
    /// Any value of `i64`.
    pub const ANY: Facts = Facts { min: i64::MIN, max: i64::MAX, modulus: 1, remainder: 0 };

    /// Values from `min` to `max`, both included.
    pub fn between(min: i64, max: i64) -> Facts {
        if min == max { Facts::exactly(min) } else { Facts { min, max, modulus: 1, remainder: 0 } }
    }

    /// One value.
    pub fn exactly(value: i64) -> Facts {
        Facts { min: value, max: value, modulus: 0, remainder: value }
    }

    /// The value, if there is but one.
    pub fn as_const(self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Whether `value` is possible.
    pub fn contains(self, value: i64) -> bool {
        let congruent = match self.modulus {
            0 => value == self.remainder,
            modulus => (value as i128 - self.remainder as i128).rem_euclid(modulus as i128) == 0,
        };
        self.min <= value && value <= self.max && congruent
    }

    fn with_congruence(self, modulus: i64, remainder: i64) -> Facts {
        if self.min == self.max {
            return Facts::exactly(self.min);
        }
        match modulus {
            0 => Facts { modulus: 1, remainder: 0, ..self },
            modulus => Facts { modulus, remainder: floor_mod(remainder, modulus), ..self },
        }
    }

    /// The facts of a constant.
    pub fn of_scalar(value: Scalar, dtype: DType) -> Facts {
        if dtype.is_float() { Facts::ANY } else { Facts::exactly(value.to_i64()) }
    }

    /// What is known of any value of a type.
    pub fn of_dtype(dtype: DType) -> Facts {
        match dtype.integer_bounds() {
            Some((min, max)) if dtype != DType::U64 => Facts::between(min, max),
            _ => Facts::ANY,
        }
    }

    /// What is known of an op's result from what is known of its operands. `operand` is the dtype of the operands.
    pub fn of_op(op: Op, dtype: DType, operand: DType, src: &[Facts]) -> Facts {
        if dtype.is_float()
            || (operand.is_float() && !op.is_comparison())
            || dtype == DType::U64
            || operand == DType::U64
        {
            return Facts::of_dtype(dtype);
        }
        if operand.is_float() {
            return Facts::between(0, 1);
        }
        let facts = match (op, src) {
            (Op::Add, [a, b]) if dtype.is_bool() => Facts::between(a.min.max(b.min), a.max.max(b.max)),
            (Op::Mul, [a, b]) if dtype.is_bool() => Facts::between(a.min.min(b.min), a.max.min(b.max)),
            (Op::Add, [a, b]) => a.add(*b),
            (Op::Sub, [a, b]) => a.add(b.times(Facts::exactly(-1))),
            (Op::Neg, [a]) => a.times(Facts::exactly(-1)),
            (Op::Mul, [a, b]) => a.times(*b),
            (Op::MulAdd, [a, b, c]) => a.times(*b).add(*c),
            (Op::IDiv, [a, b]) => a.floor_div(*b),
            (Op::Mod, [a, b]) => a.floor_mod(*b),
            (Op::CDiv, [a, b]) => a.trunc_div(*b),
            (Op::CMod, [a, b]) => a.trunc_mod(*b),
            (Op::Max, [a, b]) => Facts::between(a.min.max(b.min), a.max.max(b.max)).joined_congruence(*a, *b),
            (Op::Min, [a, b]) => Facts::between(a.min.min(b.min), a.max.min(b.max)).joined_congruence(*a, *b),
            (Op::Lt, [a, b]) => Facts::between((a.max < b.min) as i64, (a.min < b.max) as i64),
            (Op::Eq, [a, b]) => a.equal(*b),
            (Op::Ne, [a, b]) => a.equal(*b).negated(),
            (Op::Not, [a]) if dtype.is_bool() => a.negated(),
            (Op::Not, [a]) => Facts::between(!a.max, !a.min),
            (Op::And, [a, b]) => a.bit_and(*b, dtype),
            (Op::Or, [a, b]) => a.bit_or(*b, dtype),
            (Op::Xor, [a, b]) => a.bit_xor(*b, dtype),
            (Op::Shl, [a, b]) => a.shift_left(*b),
            (Op::Shr, [a, b]) => a.shift_right(*b),
            (Op::Where, [cond, a, b]) => match cond.as_const() {
                Some(0) => *b,
                Some(_) => *a,
                None => Facts::between(a.min.min(b.min), a.max.max(b.max)).joined_congruence(*a, *b),
            },
            (Op::Cast, [a]) if dtype.is_bool() => a.equal(Facts::exactly(0)).negated(),
            (Op::Cast | Op::Trunc | Op::Bind, [a, ..]) => *a,
            _ => return Facts::of_dtype(dtype),
        };
        // Indices are mathematical; but an i64 wraps just where these bounds saturate.
        let can_wrap =
            matches!(op, Op::Add | Op::Sub | Op::Neg | Op::Mul | Op::MulAdd | Op::Shl | Op::IDiv | Op::CDiv | Op::Cast);
        if dtype == DType::I64 && can_wrap && (facts.min == i64::MIN || facts.max == i64::MAX) {
            return Facts::ANY;
        }
        facts.wrapped_to(dtype)
    }

    /// The same if every value fits the type, else anything of the type: arithmetic wraps.
    fn wrapped_to(self, dtype: DType) -> Facts {
        let any = Facts::of_dtype(dtype);
        if self.min < any.min || self.max > any.max { any } else { self }
    }

    fn joined_congruence(self, a: Facts, b: Facts) -> Facts {
        let modulus = gcd(gcd(a.modulus, b.modulus), a.remainder.wrapping_sub(b.remainder));
        self.with_congruence(modulus, a.remainder)
    }

    fn add(self, other: Facts) -> Facts {
        let bounds = Facts::between(self.min.saturating_add(other.min), self.max.saturating_add(other.max));
        match self.remainder.checked_add(other.remainder) {
            Some(remainder) => bounds.with_congruence(gcd(self.modulus, other.modulus), remainder),
            None => bounds,
        }
    }

    fn times(self, other: Facts) -> Facts {
        let products = [
            self.min.saturating_mul(other.min),
            self.min.saturating_mul(other.max),
            self.max.saturating_mul(other.min),
            self.max.saturating_mul(other.max),
        ];
        let low = products.iter().copied().fold(i64::MAX, i64::min);
        let high = products.iter().copied().fold(i64::MIN, i64::max);
        let bounds = Facts::between(low, high);
        // (m x + r)(n y + s) = r s + multiples of m n, m s and n r.
        let parts = (
            self.modulus.checked_mul(other.modulus),
            self.modulus.checked_mul(other.remainder),
            other.modulus.checked_mul(self.remainder),
            self.remainder.checked_mul(other.remainder),
        );
        match parts {
            (Some(both), Some(left), Some(right), Some(rest)) => {
                bounds.with_congruence(gcd(gcd(both, left), right), rest)
            }
            _ => bounds,
        }
    }

    fn corners(self, other: Facts, divide: impl Fn(i64, i64) -> i64) -> Facts {
        let quotients = [
            divide(self.min, other.min),
            divide(self.min, other.max),
            divide(self.max, other.min),
            divide(self.max, other.max),
        ];
        let low = quotients.iter().copied().fold(i64::MAX, i64::min);
        let high = quotients.iter().copied().fold(i64::MIN, i64::max);
        Facts::between(low, high)
    }

    fn has_zero(self) -> bool {
        self.min <= 0 && self.max >= 0
    }

    /// |a / b| <= |a| for every integer divisor, rounded to minus infinity at worst one below.
    fn divided_by_anything(self, below: i64) -> Facts {
        let reach = self.max.saturating_abs().max(self.min.saturating_abs());
        let low = if self.min >= 0 && below == 0 { 0 } else { reach.saturating_neg() };
        Facts::between(low.min(reach.saturating_neg()), reach)
    }

    fn floor_div(self, other: Facts) -> Facts {
        if other.has_zero() {
            // Positive divisors and 0 (which gives 0) keep the sign.
            if other.min >= 0 {
                return Facts::between(self.min.min(0), self.max.max(0));
            }
            return self.divided_by_anything(1);
        }
        let bounds = self.corners(other, floor_div);
        match other.as_const() {
            Some(divisor) if divisor > 0 && self.modulus % divisor == 0 && self.modulus > 0 => {
                bounds.with_congruence(self.modulus / divisor, floor_div(self.remainder, divisor))
            }
            _ => bounds,
        }
    }

    fn floor_mod(self, other: Facts) -> Facts {
        if other.has_zero() {
            return Facts::between(other.min.saturating_add(1).min(0), other.max.saturating_sub(1).max(0));
        }
        if let Some(divisor) = other.as_const() {
            if floor_div(self.min, divisor) == floor_div(self.max, divisor) {
                let (first, last) = (floor_mod(self.min, divisor), floor_mod(self.max, divisor));
                // The quotient is the same for all, so all go down by as much; that may be more than i64 holds.
                let down = self.min as i128 - first as i128;
                let remainder = (self.remainder as i128 - down).rem_euclid(self.modulus.max(1) as i128) as i64;
                return Facts::between(first, last).with_congruence(self.modulus, remainder);
            }
            let modulus = gcd(self.modulus, divisor);
            let bounds = if divisor > 0 { Facts::between(0, divisor - 1) } else { Facts::between(divisor + 1, 0) };
            let remainder = floor_mod(self.remainder, modulus.max(1));
            // Values step by the modulus, so the ends that no value reaches are cut off.
            let tight = if divisor > 0 && modulus > 1 {
                Facts::between(remainder, divisor - modulus + remainder)
            } else {
                bounds
            };
            return tight.with_congruence(modulus, remainder);
        }
        match other.min > 0 {
            true if self.min >= 0 => Facts::between(0, (other.max - 1).min(self.max)),
            true => Facts::between(0, other.max - 1),
            false => Facts::between(other.min + 1, 0),
        }
    }

    fn trunc_div(self, other: Facts) -> Facts {
        if other.has_zero() {
            if other.min >= 0 {
                return Facts::between(self.min.min(0), self.max.max(0));
            }
            return self.divided_by_anything(0);
        }
        let bounds = self.corners(other, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) });
        if self.has_zero() { Facts::between(bounds.min.min(0), bounds.max.max(0)) } else { bounds }
    }

    fn trunc_mod(self, other: Facts) -> Facts {
        let reach = other.max.saturating_abs().max(other.min.saturating_abs()).saturating_sub(1).max(0);
        if let Some(divisor) = other.as_const() {
            let reach_divisor = divisor.saturating_abs();
            if self.min > reach_divisor.saturating_neg() && self.max < reach_divisor {
                return self;
            }
            if reach_divisor > 0 && self.min >= 0 {
                return self.floor_mod(Facts::exactly(reach_divisor));
            }
        }
        Facts::between(
            if self.min >= 0 { 0 } else { self.min.max(-reach) },
            if self.max <= 0 { 0 } else { self.max.min(reach) },
        )
    }

    fn equal(self, other: Facts) -> Facts {
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => return Facts::exactly((a == b) as i64),
            (_, Some(b)) if !self.contains(b) => return Facts::exactly(0),
            (Some(a), _) if !other.contains(a) => return Facts::exactly(0),
            _ => {}
        }
        if self.max < other.min || other.max < self.min { Facts::exactly(0) } else { Facts::between(0, 1) }
    }

    fn negated(self) -> Facts {
        Facts::between(1 - self.max, 1 - self.min)
    }

    fn bit_and(self, other: Facts, dtype: DType) -> Facts {
        if dtype.is_bool() {
            return Facts::between(self.min & other.min, self.max & other.max);
        }
        match (self.min >= 0, other.min >= 0) {
            (true, true) => Facts::between(0, self.max.min(other.max)),
            (true, false) => Facts::between(0, self.max),
            (false, true) => Facts::between(0, other.max),
            (false, false) => Facts::of_dtype(dtype),
        }
    }

    fn bit_or(self, other: Facts, dtype: DType) -> Facts {
        if dtype.is_bool() {
            return Facts::between(self.min | other.min, self.max | other.max);
        }
        if self.min >= 0 && other.min >= 0 {
            return Facts::between(self.min.max(other.min), all_ones(self.max.max(other.max)));
        }
        Facts::of_dtype(dtype)
    }

    fn bit_xor(self, other: Facts, dtype: DType) -> Facts {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return Facts::exactly(a ^ b);
        }
        if other.as_const() == Some(-1) {
            return Facts::between(!self.max, !self.min);
        }
        if self.min >= 0 && other.min >= 0 {
            return Facts::between(0, all_ones(self.max.max(other.max)));
        }
        Facts::of_dtype(dtype)
    }

    fn shift_left(self, other: Facts) -> Facts {
        match other.as_const() {
            Some(bits @ 0..=62) => self.times(Facts::exactly(1 << bits)),
            _ if self.min >= 0 && other.min >= 0 && other.max <= 62 => {
                self.times(Facts::between(1 << other.min, 1 << other.max))
            }
            _ => Facts::ANY,
        }
    }

    fn shift_right(self, other: Facts) -> Facts {
        if other.min < 0 {
            return Facts::between(self.min.min(0), self.max.max(0));
        }
        self.corners(other, |a, b| if b > 63 { if a < 0 { -1 } else { 0 } } else { a >> b })
    }
}

/// The least number of the form 2^n - 1 that is not below `value`.
fn all_ones(value: i64) -> i64 {
    if value <= 0 { 0 } else { i64::MAX >> (value.leading_zeros() - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(op: Op, a: i64, b: i64) -> i64 {
        match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::IDiv => floor_div(a, b),
            Op::Mod => floor_mod(a, b),
            Op::CDiv => a.checked_div(b).unwrap_or(0),
            Op::CMod => a.checked_rem(b).unwrap_or(0),
            Op::Max => a.max(b),
            Op::Min => a.min(b),
            Op::Lt => (a < b) as i64,
            Op::Eq => (a == b) as i64,
            Op::Ne => (a != b) as i64,
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::Shr => a >> b.clamp(0, 63),
            op => unreachable!("{op} is not in the list below"),
        }
    }

    #[test]
    fn facts_contain_every_result() {
        let ops = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::IDiv,
            Op::Mod,
            Op::CDiv,
            Op::CMod,
            Op::Max,
            Op::Min,
            Op::Lt,
            Op::Eq,
            Op::Ne,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::Shr,
        ];
        let sets: Vec<Facts> = (-7..=7)
            .flat_map(|low| (low..=7).map(move |high| Facts::between(low, high)))
            .chain([
                Facts { min: -6, max: 9, modulus: 3, remainder: 0 },
                Facts { min: 1, max: 13, modulus: 4, remainder: 1 },
            ])
            .collect();
        for op in ops {
            for a in &sets {
                for b in sets.iter().filter(|b| op != Op::Shr || b.min >= 0) {
                    let dtype = if op.is_comparison() { DType::BOOL } else { DType::INDEX };
                    let facts = Facts::of_op(op, dtype, DType::INDEX, &[*a, *b]);
                    for x in (a.min..=a.max).filter(|x| a.contains(*x)) {
                        for y in (b.min..=b.max).filter(|y| b.contains(*y)) {
                            let result = value(op, x, y);
                            assert!(facts.contains(result), "{op} {x} {y} = {result} not in {facts:?} of {a:?} {b:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn wrapping_types_know_nothing_past_their_ends() {
        let near = Facts::between(100, 120);
        assert_eq!(Facts::of_op(Op::Add, DType::I8, DType::I8, &[near, near]), Facts::between(-128, 127));
    }
}
