//! The common elements of two progressions, and where in each of them they lie.
//!
//! This is the one kernel of all operations on sets: an intersection asks for the elements; a slice or a sample asks in
//! addition for their ranks in the filter; a reshape asks for the coordinates in the new grid, whose flat numbers are a
//! progression as well. So a result ([`Meeting`]) says of each digit which digit of either side it steps, and by how
//! much.
//!
//! How: both sides are walked from their outermost digits. Equal strides meet in at most two ways, however many steps
//! they have. A stride that is a multiple of the other cuts the other's digit in two. Strides that do not divide each
//! other are cut at their least common multiple, or stepped one by one where that is shorter, or, for two plain
//! arithmetic progressions, solved in closed form. The work depends on the quotients of strides, not on sizes, as long
//! as strides divide a common multiple that both sides reach; all of it is paid from a budget.
//!
//! Tested below and by the properties of the tests crate, against lists of integers.

use super::budget::{Budget, TooComplex};
use super::integer::{ceil_div, gcd, inverse_modulo, lcm, multiply_modulo};
use super::progression::{Digit, Digits, Progression};
use crate::ir::floor_div;
use smallvec::SmallVec;

/// What one step of a common digit is on one side: `factor` steps of that side's digit number `digit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the digit, as in [`Progression::digits`].
    pub digit: usize,
    /// Steps of it for one common step; positive.
    pub factor: i64,
}

/// A digit of common elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Distance of neighbours.
    pub stride: i64,
    /// How many values the digit has, at least 2.
    pub size: i64,
    /// What it is on the left.
    pub left: Share,
    /// What it is on the right.
    pub right: Share,
}

/// Common elements that form one progression. Meetings of one pair are disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The smallest element.
    pub first: i64,
    /// The digits of the elements, outermost first; they keep the law of progressions.
    pub steps: SmallVec<[Step; 4]>,
    /// The value of each left digit at the smallest element.
    pub left_start: SmallVec<[i64; 6]>,
    /// The value of each right digit at the smallest element.
    pub right_start: SmallVec<[i64; 6]>,
}

impl Meeting {
    /// The common elements themselves.
    #[must_use]
    pub fn progression(&self) -> Progression {
        let digits: Digits = self.steps.iter().map(|step| Digit { stride: step.stride, size: step.size }).collect();
        Progression::lawful(self.first, digits)
    }
}

/// Finds all common elements of two progressions.
///
/// # Errors
/// When the budget is spent; some meetings may have been given to `emit` by then.
pub fn meet(
    left: &Progression,
    right: &Progression,
    budget: &mut Budget,
    emit: &mut dyn FnMut(Meeting),
) -> Result<(), TooComplex> {
    let mut search = Search { budget, emit, path: SmallVec::new() };
    search.walk(Side::whole(left), Side::whole(right))
}

/// What is left to walk of a digit: steps of `stride`, each `factor` steps of the side's digit `digit`.
#[derive(Clone, Copy, Debug)]
struct Lane {
    stride: i64,
    size: i64,
    share: Share,
}

/// One side of the search: the part of a progression that starts at `offset` (digit values `start`) and steps `lanes`.
#[derive(Clone, Debug)]
struct Side {
    offset: i64,
    start: SmallVec<[i64; 6]>,
    lanes: SmallVec<[Lane; 6]>,
}

impl Side {
    fn whole(set: &Progression) -> Self {
        let lane =
            |(digit, d): (usize, &Digit)| Lane { stride: d.stride, size: d.size, share: Share { digit, factor: 1 } };
        Side {
            offset: set.first(),
            start: set.digits().iter().map(|_| 0).collect(),
            lanes: set.digits().iter().enumerate().map(lane).collect(),
        }
    }

    fn reach(&self) -> i64 {
        self.lanes.iter().map(|lane| (lane.size - 1) * lane.stride).sum()
    }

    fn inner_reach(&self) -> i64 {
        self.lanes[1..].iter().map(|lane| (lane.size - 1) * lane.stride).sum()
    }

    /// Keeps `size` values of the outermost lane, from `from` on; a single value is no lane any more.
    fn keep(&mut self, from: i64, size: i64) {
        let lane = self.lanes[0];
        self.offset += from * lane.stride;
        self.start[lane.share.digit] += from * lane.share.factor;
        if size == 1 {
            self.lanes.remove(0);
        } else {
            self.lanes[0].size = size;
        }
    }

    /// The side with its outermost lane at one value.
    fn at(&self, value: i64) -> Self {
        let mut side = self.clone();
        side.keep(value, 1);
        side
    }

    /// Drops the steps of the outermost lane whose blocks lie outside `lower..=upper`; false if none is left.
    fn clip(&mut self, lower: i64, upper: i64) -> bool {
        let Some(&lane) = self.lanes.first() else { return true };
        let from = ceil_div(lower - self.inner_reach() - self.offset, lane.stride).max(0);
        let to = floor_div(upper - self.offset, lane.stride).min(lane.size - 1);
        if from > to {
            return false;
        }
        self.keep(from, to - from + 1);
        true
    }

    /// Cuts the outermost lane at every `quotient` steps: the whole groups as two lanes, and what is left over.
    fn split(&self, quotient: i64) -> (Self, Option<Self>) {
        let lane = self.lanes[0];
        let (groups, rest) = (lane.size / quotient, lane.size % quotient);
        debug_assert!(groups > 0 && quotient > 1, "cannot split {lane:?} by {quotient}");
        let mut whole = self.clone();
        whole.lanes[0].size = quotient;
        if groups > 1 {
            let share = Share { digit: lane.share.digit, factor: lane.share.factor * quotient };
            whole.lanes.insert(0, Lane { stride: lane.stride * quotient, size: groups, share });
        }
        let rest = (rest > 0).then(|| {
            let mut side = self.clone();
            side.keep(groups * quotient, rest);
            side
        });
        (whole, rest)
    }
}

struct Search<'a> {
    budget: &'a mut Budget,
    emit: &'a mut dyn FnMut(Meeting),
    path: SmallVec<[Step; 4]>,
}

impl Search<'_> {
    /// Recurses once a digit, so as deep as there are digits.
    fn walk(&mut self, mut left: Side, mut right: Side) -> Result<(), TooComplex> {
        self.budget.spend(1)?;
        loop {
            let lanes = left.lanes.len() + right.lanes.len();
            if !left.clip(right.offset, right.offset + right.reach())
                || !right.clip(left.offset, left.offset + left.reach())
            {
                return Ok(());
            }
            if left.lanes.len() + right.lanes.len() == lanes {
                break;
            }
        }
        let (Some(&a), Some(&b)) = (left.lanes.first(), right.lanes.first()) else {
            self.arrive(left, right);
            return Ok(());
        };
        if a.stride == b.stride {
            return self.align(&left, &right);
        }
        let (few_left, few_right) = (a.size <= 2, b.size <= 2);
        if a.stride % b.stride == 0 && !few_left && b.size >= a.stride / b.stride {
            let (whole, rest) = right.split(a.stride / b.stride);
            self.walk(left.clone(), whole)?;
            return rest.map_or(Ok(()), |rest| self.walk(left, rest));
        }
        if b.stride % a.stride == 0 && !few_right && a.size >= b.stride / a.stride {
            let (whole, rest) = left.split(b.stride / a.stride);
            self.walk(whole, right.clone())?;
            return rest.map_or(Ok(()), |rest| self.walk(rest, right));
        }
        if left.lanes.len() == 1 && right.lanes.len() == 1 {
            self.solve(left, right);
            return Ok(());
        }
        if let Some(multiple) = lcm(a.stride, b.stride) {
            let (quotient_left, quotient_right) = (multiple / a.stride, multiple / b.stride);
            if quotient_left > 1 && quotient_right > 1 && a.size / 2 >= quotient_left && b.size / 2 >= quotient_right {
                return self.split_both(&left, &right, quotient_left, quotient_right);
            }
        }
        if a.size <= b.size {
            (0..a.size).try_for_each(|value| self.walk(left.at(value), right.clone()))
        } else {
            (0..b.size).try_for_each(|value| self.walk(left.clone(), right.at(value)))
        }
    }

    fn split_both(&mut self, left: &Side, right: &Side, by_left: i64, by_right: i64) -> Result<(), TooComplex> {
        let (left_whole, left_rest) = left.split(by_left);
        let (right_whole, right_rest) = right.split(by_right);
        for a in std::iter::once(left_whole).chain(left_rest) {
            for b in std::iter::once(right_whole.clone()).chain(right_rest.clone()) {
                self.walk(a.clone(), b)?;
            }
        }
        Ok(())
    }

    /// Outermost lanes of one stride: block `i` of the left meets block `i - shift` of the right, for one or two
    /// shifts.
    fn align(&mut self, left: &Side, right: &Side) -> Result<(), TooComplex> {
        let (a, b) = (left.lanes[0], right.lanes[0]);
        let distance = right.offset - left.offset;
        let lowest = ceil_div(distance - left.inner_reach(), a.stride);
        let highest = floor_div(distance + right.inner_reach(), a.stride);
        for shift in lowest..=highest {
            let (from, to) = (shift.max(0), (a.size - 1).min(b.size - 1 + shift));
            if from > to {
                continue;
            }
            let size = to - from + 1;
            if size > 1 {
                self.path.push(Step { stride: a.stride, size, left: a.share, right: b.share });
            }
            let result = self.walk(left.at(from), right.at(from - shift));
            if size > 1 {
                self.path.pop();
            }
            result?;
        }
        Ok(())
    }

    /// One lane each, of strides that do not divide each other: the Chinese remainder theorem.
    fn solve(&mut self, left: Side, right: Side) {
        let (a, b) = (left.lanes[0], right.lanes[0]);
        let distance = right.offset - left.offset;
        let divisor = gcd(a.stride, b.stride);
        if distance % divisor != 0 {
            return;
        }
        let (by_left, by_right) = (b.stride / divisor, a.stride / divisor);
        // i * a.stride = distance modulo b.stride, so i is known modulo by_left.
        let residue = multiply_modulo(distance / divisor, inverse_modulo(by_right, by_left), by_left);
        let from = ceil_div(distance, a.stride).max(0);
        let first = from + (residue - from).rem_euclid(by_left);
        let end = floor_div(distance + (b.size - 1) * b.stride, a.stride).min(a.size - 1);
        if first > end {
            return;
        }
        let size = (end - first) / by_left + 1;
        let first_right = (first * a.stride - distance) / b.stride;
        if size > 1 {
            self.path.push(Step {
                stride: a.stride * by_left,
                size,
                left: Share { digit: a.share.digit, factor: a.share.factor * by_left },
                right: Share { digit: b.share.digit, factor: b.share.factor * by_right },
            });
        }
        self.arrive(left.at(first), right.at(first_right));
        if size > 1 {
            self.path.pop();
        }
    }

    /// One side is a single element: a meeting if the other side has it.
    fn arrive(&mut self, left: Side, right: Side) {
        let (point, mut other, point_is_left) =
            if left.lanes.is_empty() { (left, right, true) } else { (right, left, false) };
        let mut rest = point.offset - other.offset;
        if rest < 0 {
            return;
        }
        for lane in &other.lanes {
            let value = (rest / lane.stride).min(lane.size - 1);
            rest -= value * lane.stride;
            other.start[lane.share.digit] += value * lane.share.factor;
        }
        if rest != 0 {
            return;
        }
        let (left_start, right_start) =
            if point_is_left { (point.start, other.start) } else { (other.start, point.start) };
        (self.emit)(Meeting { first: point.offset, steps: self.path.clone(), left_start, right_start });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Digits with random quotients of neighbouring strides.
    fn progression() -> impl Strategy<Value = Progression> {
        (0i64..200, proptest::collection::vec((2i64..6, 1i64..5), 0..4)).prop_map(|(first, parts)| {
            let mut digits = Digits::new();
            let mut stride = 1;
            for (size, gap) in parts {
                stride *= gap;
                digits.insert(0, Digit { stride, size });
                stride *= size;
            }
            Progression::new(first, digits).expect("each stride is past what is inside it")
        })
    }

    fn value(set: &Progression, digits: &[i64]) -> i64 {
        set.first() + set.digits().iter().zip(digits).map(|(digit, value)| digit.stride * value).sum::<i64>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn finds_every_common_element_once(left in progression(), right in progression()) {
            let mut found = Vec::new();
            let mut check = Ok(());
            meet(&left, &right, &mut Budget::for_sets(), &mut |meeting| {
                let elements: Vec<i64> = meeting.progression().elements().collect();
                // The starts are the first element on both sides, and the steps of both sides are the common steps.
                let starts = (value(&left, &meeting.left_start), value(&right, &meeting.right_start));
                let steps = meeting.steps.iter().all(|step| {
                    left.digits()[step.left.digit].stride * step.left.factor == step.stride
                        && right.digits()[step.right.digit].stride * step.right.factor == step.stride
                });
                if starts != (meeting.first, meeting.first) || !steps {
                    check = Err(meeting);
                }
                found.extend(elements);
            }).expect("within budget");
            prop_assert_eq!(check, Ok(()));
            found.sort_unstable();
            let expected: Vec<i64> = left.elements().filter(|&element| right.contains(element)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn complement_holds_the_rest_once(set in progression()) {
            let (lower, upper) = (-3, set.last() + 5);
            let mut rest: Vec<i64> =
                set.complement(lower, upper).iter().flat_map(|piece| piece.elements().collect::<Vec<_>>()).collect();
            rest.sort_unstable();
            prop_assert_eq!(rest, (lower..upper).filter(|&z| !set.contains(z)).collect::<Vec<_>>());
        }
    }
}
