//! What is known of an integer before it is computed: its least and largest value, and its remainder by some modulus.
//!
//! A [`Facts`] describes a set of integers that contains every value the node can have. It travels with each integer or bool
//! node, made from the operands' facts when the node is made. `x = remainder (mod modulus)`; modulus 1 says nothing, modulus 0
//! says that x is the constant `remainder`.
//!
//! Arithmetic on them is exact (`exact_facts`), and only its outcome is put into the type, so what wraps is seen: then bounds are those of the
//! type. Code generation relies on that: a signed result with other bounds did not wrap. Of `u64`, which `i64` does not hold, nothing is
//! known but constants.
//! Tests: `facts_tests`, every op on every integer type against the interpreter's arithmetic.

use super::Op;
use super::exact_facts::{self, Exact};
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

macro_rules! floor_division {
    ($($visible:vis $type:ty: $div:ident $remainder:ident;)*) => { $(
        /// The quotient rounded to minus infinity; 0 for a divisor of 0.
        $visible fn $div(a: $type, b: $type) -> $type {
            if b == 0 {
                return 0;
            }
            let quotient = a.wrapping_div(b);
            if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
        }

        /// The remainder with the sign of the divisor; 0 for a divisor of 0.
        $visible fn $remainder(a: $type, b: $type) -> $type {
            if b == 0 { 0 } else { a.wrapping_sub(b.wrapping_mul($div(a, b))) }
        }
    )* };
}

floor_division! {
    pub i64: floor_div floor_mod;
    pub(super) i128: wide_floor_div wide_floor_mod;
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

    pub(super) fn with_congruence(self, modulus: i64, remainder: i64) -> Facts {
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
        let exact = |of: Exact| of.narrowed(dtype);
        match (op, src) {
            (Op::Add, [a, b]) if dtype.is_bool() => Facts::between(a.min.max(b.min), a.max.max(b.max)),
            (Op::Mul, [a, b]) if dtype.is_bool() => Facts::between(a.min.min(b.min), a.max.min(b.max)),
            (Op::Add, [a, b]) => exact(a.exact().add(b.exact())),
            (Op::Sub, [a, b]) => exact(a.exact().add(b.exact().negated())),
            (Op::Neg, [a]) => exact(a.exact().negated()),
            (Op::Mul, [a, b]) => exact(a.exact().times(b.exact())),
            // Bools: (a and b) or c.
            (Op::MulAdd, [a, b, c]) if dtype.is_bool() => {
                Facts::between(a.min.min(b.min).max(c.min), a.max.min(b.max).max(c.max))
            }
            (Op::MulAdd, [a, b, c]) => exact(a.exact().times(b.exact()).add(c.exact())),
            (Op::IDiv, [a, b]) => exact(a.exact().floor_div(b.exact())),
            (Op::Mod, [a, b]) => exact(a.exact().floor_mod(b.exact())),
            (Op::CDiv, [a, b]) => exact(a.exact().trunc_div(b.exact())),
            (Op::CMod, [a, b]) => exact(a.exact().trunc_mod(b.exact())),
            (Op::Shl, [a, b]) => exact(a.exact().shifted_left(b.exact())),
            (Op::Shr, [a, b]) => exact(a.exact().shifted_right(b.exact())),
            (Op::Max, [a, b]) => Facts::between(a.min.max(b.min), a.max.max(b.max)).joined_congruence(*a, *b),
            (Op::Min, [a, b]) => Facts::between(a.min.min(b.min), a.max.min(b.max)).joined_congruence(*a, *b),
            (Op::Lt, [a, b]) => Facts::between((a.max < b.min) as i64, (a.min < b.max) as i64),
            (Op::Eq, [a, b]) => a.equal(*b),
            (Op::Ne, [a, b]) => a.equal(*b).negated(),
            (Op::Not, [a]) if dtype.is_bool() => a.negated(),
            (Op::Not, [a]) => exact(Facts::between(!a.max, !a.min).exact()),
            (Op::And, [a, b]) => a.bit_and(*b, dtype),
            (Op::Or, [a, b]) => a.bit_or(*b, dtype),
            (Op::Xor, [a, b]) => exact(a.bit_xor(*b, dtype).exact()),
            (Op::Where, [cond, a, b]) => match cond.as_const() {
                Some(0) => *b,
                Some(_) => *a,
                None => Facts::between(a.min.min(b.min), a.max.max(b.max)).joined_congruence(*a, *b),
            },
            (Op::Cast, [a]) if dtype.is_bool() => a.equal(Facts::exactly(0)).negated(),
            (Op::Cast | Op::Trunc | Op::Bind, [a, ..]) => exact(a.exact()),
            _ => Facts::of_dtype(dtype),
        }
    }

    /// Of base, base + step, ... for so many lanes.
    pub(super) fn of_ramp(base: Facts, step: i64, dtype: DType) -> Facts {
        let last = Facts::exactly(step).exact().times(Facts::exactly(dtype.lanes() as i64 - 1).exact());
        let ends = (last.min.min(0), last.max.max(0));
        base.exact().add(Exact::between(ends.0, ends.1)).narrowed(dtype.element())
    }

    fn exact(self) -> Exact {
        Exact {
            min: self.min.into(),
            max: self.max.into(),
            modulus: self.modulus.into(),
            remainder: self.remainder.into(),
        }
    }

    fn joined_congruence(self, a: Facts, b: Facts) -> Facts {
        let difference = a.remainder as i128 - b.remainder as i128;
        let modulus = exact_facts::gcd(exact_facts::gcd(a.modulus.into(), b.modulus.into()), difference);
        match i64::try_from(modulus) {
            Ok(modulus) => self.with_congruence(modulus, a.remainder),
            Err(_) => self.with_congruence(1, 0),
        }
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
}

/// The least number of the form 2^n - 1 that is not below `value`.
fn all_ones(value: i64) -> i64 {
    if value <= 0 { 0 } else { i64::MAX >> (value.leading_zeros() - 1) }
}
