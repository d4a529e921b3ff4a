//! Arithmetic on what is known of integers, without the limits of any type.
//!
//! [`Exact`] is [`Facts`](super::Facts) in `i128`: sums, products and quotients of two 64-bit numbers fit. So each function says what
//! holds of the mathematical result, and [`Exact::narrowed`] alone knows that the types of programs wrap.
//! Tests: `facts_tests`.

use super::facts::{Facts, wide_floor_div as floor_div, wide_floor_mod as floor_mod};
use crate::dtype::DType;

/// Bounds and congruence, as in [`Facts`](super::Facts).
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) min: i128,
    pub(super) max: i128,
    pub(super) modulus: i128,
    pub(super) remainder: i128,
}

/// The greatest common divisor, never negative.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Exact {
    pub(super) fn between(min: i128, max: i128) -> Exact {
        if min == max { Exact::exactly(min) } else { Exact { min, max, modulus: 1, remainder: 0 } }
    }

    fn exactly(value: i128) -> Exact {
        Exact { min: value, max: value, modulus: 0, remainder: value }
    }

    fn as_const(self) -> Option<i128> {
        (self.min == self.max).then_some(self.min)
    }

    fn with_congruence(self, modulus: i128, remainder: i128) -> Exact {
        match modulus {
            _ if self.min == self.max => Exact::exactly(self.min),
            0 => Exact { modulus: 1, remainder: 0, ..self },
            modulus => Exact { modulus, remainder: remainder.rem_euclid(modulus), ..self },
        }
    }

    /// In a type: the same if every value fits, else any value of the type. Wrapping adds a multiple of a power of two, so of a congruence what it
    /// says by powers of two is left.
    pub(super) fn narrowed(self, dtype: DType) -> Facts {
        let any = Facts::of_dtype(dtype);
        let (low, high) = (any.min as i128, any.max as i128);
        let bits = 8 * dtype.element().bytes() as u32;
        if low <= self.min && self.max <= high {
            let Ok(modulus) = i64::try_from(self.modulus) else {
                return Facts::between(self.min as i64, self.max as i64);
            };
            return Facts::between(self.min as i64, self.max as i64).with_congruence(modulus, self.remainder as i64);
        }
        if self.modulus == 0 || dtype.is_bool() {
            return any;
        }
        let power = self.modulus.trailing_zeros().min(bits).min(62);
        let modulus = 1i128 << power;
        any.with_congruence(modulus as i64, self.remainder.rem_euclid(modulus) as i64)
    }

    pub(super) fn add(self, other: Exact) -> Exact {
        let bounds = Exact::between(self.min + other.min, self.max + other.max);
        bounds.with_congruence(gcd(self.modulus, other.modulus), self.remainder + other.remainder)
    }

    pub(super) fn negated(self) -> Exact {
        Exact::between(-self.max, -self.min).with_congruence(self.modulus, -self.remainder)
    }

    pub(super) fn times(self, other: Exact) -> Exact {
        let bounds = self.corners(other, |a, b| a * b);
        // (m x + r)(n y + s) = r s + multiples of m n, m s and n r.
        let (m, r, n, s) = (self.modulus, self.remainder, other.modulus, other.remainder);
        bounds.with_congruence(gcd(gcd(m * n, m * s), n * r), r * s)
    }

    /// Bounds of a function that is monotonic in each operand.
    fn corners(self, other: Exact, function: impl Fn(i128, i128) -> i128) -> Exact {
        let ends = [(self.min, other.min), (self.min, other.max), (self.max, other.min), (self.max, other.max)];
        let values = ends.map(|(a, b)| function(a, b));
        let low = values.iter().copied().fold(values[0], i128::min);
        let high = values.iter().copied().fold(values[0], i128::max);
        Exact::between(low, high)
    }

    fn has_zero(self) -> bool {
        self.min <= 0 && self.max >= 0
    }

    /// How far from 0 a value may lie.
    fn reach(self) -> i128 {
        self.max.abs().max(self.min.abs())
    }

    /// A quotient by a divisor that may be 0, which gives 0.
    fn divided_by_zero_too(self, other: Exact) -> Exact {
        if other.min >= 0 {
            // Other divisors keep the sign.
            return Exact::between(self.min.min(0), self.max.max(0));
        }
        Exact::between(-self.reach(), self.reach())
    }

    pub(super) fn floor_div(self, other: Exact) -> Exact {
        if other.has_zero() {
            return self.divided_by_zero_too(other);
        }
        let bounds = self.corners(other, floor_div);
        match other.as_const() {
            Some(divisor) if divisor > 0 && self.modulus > 0 && self.modulus % divisor == 0 => {
                bounds.with_congruence(self.modulus / divisor, floor_div(self.remainder, divisor))
            }
            _ => bounds,
        }
    }

    pub(super) fn floor_mod(self, other: Exact) -> Exact {
        if other.has_zero() {
            return Exact::between((other.min + 1).min(0), (other.max - 1).max(0));
        }
        if let Some(divisor) = other.as_const() {
            if floor_div(self.min, divisor) == floor_div(self.max, divisor) {
                // The quotient is the same for all, so all go down by as much.
                let first = floor_mod(self.min, divisor);
                let down = self.min - first;
                return Exact::between(first, self.max - down).with_congruence(self.modulus, self.remainder - down);
            }
            let modulus = gcd(self.modulus, divisor);
            let remainder = self.remainder.rem_euclid(modulus);
            // Values step by the modulus, so the ends that no value reaches are cut off.
            let bounds = match divisor > 0 {
                true => Exact::between(remainder, divisor - modulus + remainder),
                false => Exact::between(divisor + 1, 0),
            };
            return bounds.with_congruence(modulus, remainder);
        }
        match other.min > 0 {
            true if self.min >= 0 => Exact::between(0, (other.max - 1).min(self.max)),
            true => Exact::between(0, other.max - 1),
            false => Exact::between(other.min + 1, 0),
        }
    }

    pub(super) fn trunc_div(self, other: Exact) -> Exact {
        if other.has_zero() {
            return self.divided_by_zero_too(other);
        }
        let bounds = self.corners(other, |a, b| a / b);
        // Between its ends a dividend may be smaller than the divisor.
        if self.has_zero() { Exact::between(bounds.min.min(0), bounds.max.max(0)) } else { bounds }
    }

    pub(super) fn trunc_mod(self, other: Exact) -> Exact {
        if let Some(divisor) = other.as_const().map(i128::abs).filter(|divisor| *divisor > 0) {
            if -divisor < self.min && self.max < divisor {
                return self;
            }
            if self.min >= 0 {
                return self.floor_mod(Exact::exactly(divisor));
            }
        }
        let reach = (other.reach() - 1).max(0);
        Exact::between(
            if self.min >= 0 { 0 } else { self.min.max(-reach) },
            if self.max <= 0 { 0 } else { self.max.min(reach) },
        )
    }

    /// Times a power of two; 0 where the count is negative or no smaller than the width of the type, which wrapping gives anyway.
    pub(super) fn shifted_left(self, other: Exact) -> Exact {
        if self.as_const() == Some(0) {
            return self;
        }
        if other.min < 0 || other.max > 63 {
            // More than any type holds.
            return Exact::between(i128::MIN, i128::MAX);
        }
        self.times(match other.as_const() {
            Some(count) => Exact::exactly(1 << count),
            None => Exact::between(1 << other.min, 1 << other.max),
        })
    }

    /// By a count beyond the width, negative ones among them, the sign is all that is left.
    pub(super) fn shifted_right(self, other: Exact) -> Exact {
        if other.min < 0 {
            return Exact::between(self.min.min(0), self.max.max(0));
        }
        self.corners(other, |a, count| a >> count.min(127))
    }
}
