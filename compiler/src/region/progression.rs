//! Progressions: finite sets `offset + d0*s0 + d1*s1 + ...` with `0 <= dk < nk`.
//!
//! What always holds: digits stand outermost first, each has a size of at least 2, and each stride is larger than all
//! that the digits inside it can add up to. So every element has one representation, elements ascend as digits do, and
//! a question about one progression is a walk over its digits, whatever their sizes.

use super::integer::LARGEST;
use smallvec::SmallVec;
use std::fmt;

/// One digit: `size` steps of `stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digit {
    /// Distance of neighbours.
    pub stride: i64,
    /// How many values the digit has.
    pub size: i64,
}

/// The digits of a progression, outermost first.
pub type Digits = SmallVec<[Digit; 4]>;

/// A finite, non-empty set of integers with digits that never carry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Progression {
    offset: i64,
    digits: Digits,
}

impl Progression {
    /// One integer.
    #[must_use]
    pub fn point(value: i64) -> Self {
        Progression { offset: value, digits: Digits::new() }
    }

    /// The integers from `start`, `length` of them; `length` must be positive.
    #[must_use]
    pub fn run(start: i64, length: i64) -> Self {
        Self::steps(start, 1, length)
    }

    /// `start, start + stride, ...`: `size` of them; both must be positive.
    #[must_use]
    pub fn steps(start: i64, stride: i64, size: i64) -> Self {
        debug_assert!(stride > 0 && size > 0, "{size} steps of {stride}");
        let mut digits = Digits::new();
        if size > 1 {
            digits.push(Digit { stride, size });
        }
        Progression { offset: start, digits }
    }

    /// From digits that keep the law of this module, or none if they break it or pass [`LARGEST`].
    #[must_use]
    pub fn new(offset: i64, digits: Digits) -> Option<Self> {
        let mut reach = 0i64;
        for digit in digits.iter().rev() {
            if digit.stride <= reach || digit.size < 2 {
                return None;
            }
            reach = (digit.size - 1).checked_mul(digit.stride)?.checked_add(reach)?;
        }
        (reach <= LARGEST && offset.abs() <= LARGEST).then_some(Progression { offset, digits })
    }

    /// From digits that are known to keep the law.
    pub(super) fn lawful(offset: i64, digits: Digits) -> Self {
        debug_assert!(Self::new(offset, digits.clone()).is_some(), "unlawful digits {digits:?} at {offset}");
        Progression { offset, digits }
    }

    /// The smallest element.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.offset
    }

    /// The largest element.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.offset + self.reach()
    }

    /// Largest minus smallest element.
    #[must_use]
    pub fn reach(&self) -> i64 {
        self.digits.iter().map(|digit| (digit.size - 1) * digit.stride).sum()
    }

    /// The digits, outermost first.
    #[must_use]
    pub fn digits(&self) -> &[Digit] {
        &self.digits
    }

    /// How many elements; never above its reach plus one.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.digits.iter().map(|digit| digit.size).product()
    }

    /// Whether `value` is an element.
    #[must_use]
    pub fn contains(&self, value: i64) -> bool {
        self.locate(value).is_some()
    }

    /// The digits' values at an element.
    #[must_use]
    pub fn locate(&self, value: i64) -> Option<SmallVec<[i64; 4]>> {
        let mut rest = value.checked_sub(self.offset).filter(|&rest| rest >= 0)?;
        let mut values = SmallVec::new();
        for digit in &self.digits {
            let step = (rest / digit.stride).min(digit.size - 1);
            rest -= step * digit.stride;
            values.push(step);
        }
        (rest == 0).then_some(values)
    }

    /// The same set with as few digits as possible: a run of runs that abut is one run.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut digits = Digits::new();
        for digit in &self.digits {
            match digits.last_mut() {
                Some(outer) if outer.stride == digit.stride * digit.size => {
                    *outer = Digit { stride: digit.stride, size: outer.size * digit.size };
                }
                _ => digits.push(*digit),
            }
        }
        Progression { offset: self.offset, digits }
    }

    /// All elements moved by `distance`.
    #[must_use]
    pub fn shifted(&self, distance: i64) -> Self {
        Progression { offset: self.offset + distance, digits: self.digits.clone() }
    }

    /// The set `{ pivot - 1 - x }`.
    #[must_use]
    pub fn reversed(&self, pivot: i64) -> Self {
        Progression { offset: pivot - 1 - self.last(), digits: self.digits.clone() }
    }

    /// All elements times a positive factor.
    #[must_use]
    pub fn scaled(&self, factor: i64) -> Self {
        let digits =
            self.digits.iter().map(|digit| Digit { stride: digit.stride * factor, size: digit.size }).collect();
        Progression { offset: self.offset * factor, digits }
    }

    /// Disjoint progressions that hold all of `lower..upper` but this set; the set must lie within.
    #[must_use]
    pub fn complement(&self, lower: i64, upper: i64) -> Vec<Self> {
        debug_assert!(lower <= self.first() && self.last() < upper, "{self} is not in {lower}..{upper}");
        let mut pieces = Vec::with_capacity(self.digits.len() + 2);
        if lower < self.first() {
            pieces.push(Self::run(lower, self.first() - lower));
        }
        if self.last() + 1 < upper {
            pieces.push(Self::run(self.last() + 1, upper - self.last() - 1));
        }
        // After each step but the last of a digit there is a gap, from the end of what the inner digits reach.
        let mut inner_reach = self.reach();
        for (position, digit) in self.digits.iter().enumerate() {
            inner_reach -= (digit.size - 1) * digit.stride;
            let gap = digit.stride - inner_reach - 1;
            if gap == 0 {
                continue;
            }
            let mut digits: Digits = self.digits[..position].iter().copied().collect();
            if digit.size > 2 {
                digits.push(Digit { stride: digit.stride, size: digit.size - 1 });
            }
            if gap > 1 {
                digits.push(Digit { stride: 1, size: gap });
            }
            pieces.push(Self::lawful(self.offset + inner_reach + 1, digits));
        }
        pieces
    }

    /// The elements in ascending order.
    pub fn elements(&self) -> impl Iterator<Item = i64> + '_ {
        (0..self.count()).map(|rank| {
            let mut rest = rank;
            let mut value = self.offset;
            for digit in self.digits.iter().rev() {
                value += rest % digit.size * digit.stride;
                rest /= digit.size;
            }
            value
        })
    }
}

impl fmt::Display for Progression {
    /// `5 + 4*12 + 1*3` is 5, 6, 7, 17, 18, 19, ...: `size*stride` for each digit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.offset)?;
        self.digits.iter().try_for_each(|digit| write!(f, " + {}*{}", digit.size, digit.stride))
    }
}
