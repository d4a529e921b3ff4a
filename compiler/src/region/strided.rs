//! Strided sets: `offset + d0*s0 + d1*s1 + ...` with any strides, zero, negative and overlapping ones too.
//!
//! Two questions, both decided by range, then by gcd, then exactly: do two sets share an element, and does one reach an
//! element in two ways. Exactly means the bounded linear Diophantine equation `sum a_k x_k = c, 0 <= x_k <= u_k`,
//! searched from the largest coefficient down; a branch dies when what is left cannot reach `c` or `c` is no multiple
//! of what divides the rest, and the last two terms are solved in closed form. Terms of one coefficient, and
//! coefficients that count on where a smaller one ends, are one term: that is why tiles of arrays of any size cost the
//! same few steps.

use super::budget::{Answer, Budget, TooComplex};
use super::integer::LARGEST;
use super::integer_set::IntegerSet;
use super::progression::{Digit, Digits, Progression};
use smallvec::SmallVec;

/// A set of integers reached by strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    offset: i64,
    digits: Digits,
}

/// `coefficient * x` with `0 <= x <= bound`; both positive.
#[derive(Clone, Copy, Debug)]
struct Term {
    coefficient: i128,
    bound: i128,
}

type Terms = SmallVec<[Term; 8]>;

impl From<&Progression> for Strided {
    fn from(set: &Progression) -> Self {
        Strided { offset: set.first(), digits: set.digits().into() }
    }
}

impl Strided {
    /// The addresses of a strided view, `(size, stride)` a dimension; none if a size is 0.
    #[must_use]
    pub fn view(offset: i64, dims: &[(i64, i64)]) -> Option<Self> {
        if dims.iter().any(|&(size, _)| size <= 0) {
            return None;
        }
        let digits = dims.iter().filter(|dim| dim.0 > 1).map(|&(size, stride)| Digit { stride, size }).collect();
        Some(Strided { offset, digits })
    }

    /// A progression repeated `times` times, every `stride`, from `distance` on.
    #[must_use]
    pub(super) fn spread(set: &Progression, distance: i64, stride: i64, times: i64) -> Self {
        let mut spread = Strided::from(set);
        spread.offset += distance;
        if times > 1 {
            spread.digits.push(Digit { stride, size: times });
        }
        spread
    }

    /// Smallest and largest element.
    #[must_use]
    pub fn range(&self) -> (i128, i128) {
        let (mut lower, mut upper) = (i128::from(self.offset), i128::from(self.offset));
        for digit in &self.digits {
            let reach = i128::from(digit.stride) * i128::from(digit.size - 1);
            if reach < 0 {
                lower = lower.saturating_add(reach);
            } else {
                upper = upper.saturating_add(reach);
            }
        }
        (lower, upper)
    }

    /// Elements are small enough for the sums of the search to fit in 128 bits with room to spare.
    fn is_exact(&self) -> bool {
        let (lower, upper) = self.range();
        lower >= -4 * i128::from(LARGEST) && upper <= 4 * i128::from(LARGEST)
    }

    /// Terms with positive coefficients that reach the elements from the smallest on; strides of 0 reach nothing new.
    fn terms(&self) -> impl Iterator<Item = Term> + '_ {
        self.digits
            .iter()
            .filter(|digit| digit.stride != 0)
            .map(|digit| Term { coefficient: i128::from(digit.stride).abs(), bound: i128::from(digit.size - 1) })
    }

    /// Whether some integer is in both.
    #[must_use]
    pub fn meets(&self, other: &Self, budget: &mut Budget) -> Answer {
        let ((ours, our_end), (theirs, their_end)) = (self.range(), other.range());
        if !(self.is_exact() && other.is_exact()) {
            return Answer::Unknown;
        }
        if our_end < theirs || their_end < ours {
            return Answer::No;
        }
        // ours + sum a x = theirs + sum b y; with y counted down from its bound all terms stand on one side.
        let terms = merged(self.terms().chain(other.terms()).collect());
        solvable(&terms, their_end - ours, budget)
    }

    /// Whether two different digit values reach one element.
    #[must_use]
    pub fn overlaps_itself(&self, budget: &mut Budget) -> Answer {
        if self.digits.iter().any(|digit| digit.stride == 0) {
            return Answer::Yes;
        }
        if !self.is_exact() {
            return Answer::Unknown;
        }
        let mut terms: Terms = self.terms().collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.coefficient));
        let reaches: i128 = terms.iter().map(|term| term.coefficient * term.bound).sum();
        let nested = terms.iter().try_fold(reaches, |reach, term| {
            let inner = reach - term.coefficient * term.bound;
            (term.coefficient > inner).then_some(inner)
        });
        if nested.is_some() {
            return Answer::No;
        }
        // Differences of two digit values: the first that is not zero may be taken positive, those before it are zero.
        let mut answer = Answer::No;
        for (position, first) in terms.iter().enumerate() {
            let rest = terms[position + 1..].iter().map(|t| Term { coefficient: t.coefficient, bound: 2 * t.bound });
            let below: i128 = terms[position + 1..].iter().map(|t| t.coefficient * t.bound).sum();
            // first * (1 + x) + sum b (y - bound) = 0, mirrored so that every term is positive.
            let mut all: Terms = rest.collect();
            if first.bound > 1 {
                all.push(Term { coefficient: first.coefficient, bound: first.bound - 1 });
            }
            match solvable(&merged(all), below - first.coefficient, budget) {
                Answer::Yes => return Answer::Yes,
                Answer::Unknown => answer = Answer::Unknown,
                Answer::No => {}
            }
        }
        answer
    }

    /// The set as disjoint progressions.
    ///
    /// # Errors
    /// When strides overlap in so many ways that it would cost more than the budget.
    pub fn to_set(&self, budget: &mut Budget) -> Result<IntegerSet, TooComplex> {
        let (lower, upper) = self.range();
        if lower < -i128::from(LARGEST) || upper > i128::from(LARGEST) {
            return Err(TooComplex);
        }
        let terms = merged(self.terms().collect());
        let narrow = |value: i128| i64::try_from(value).map_err(|_| TooComplex);
        let mut digits = Digits::new();
        for term in &terms {
            digits.push(Digit { stride: narrow(term.coefficient)?, size: narrow(term.bound)? + 1 });
        }
        let offset = narrow(lower)?;
        // Outer digits that fall between inner ones are stepped one by one.
        let mut inner = 0;
        while Progression::new(0, digits[inner..].into()).is_none() {
            inner += 1;
        }
        let core = Progression::lawful(offset, digits[inner..].into());
        let ways =
            digits[..inner].iter().try_fold(1i64, |ways, digit| ways.checked_mul(digit.size)).ok_or(TooComplex)?;
        budget.spend(ways.unsigned_abs())?;
        let pieces = (0..ways).map(|way| {
            let mut rest = way;
            let mut distance = 0;
            for digit in &digits[..inner] {
                distance += rest % digit.size * digit.stride;
                rest /= digit.size;
            }
            core.shifted(distance)
        });
        if inner == 0 { Ok(IntegerSet::from_disjoint(vec![core])) } else { IntegerSet::union_of(pieces, budget) }
    }
}

/// Sorts terms by descending coefficient and joins those that together reach what one term reaches.
fn merged(mut terms: Terms) -> Terms {
    terms.retain(|term| term.bound > 0);
    terms.sort_by_key(|term| term.coefficient);
    let mut joined = Terms::new();
    for term in terms {
        match joined.last_mut() {
            // The larger coefficient is q times the smaller, which counts up to q - 1 at least: no gap stays.
            Some(small)
                if term.coefficient % small.coefficient == 0
                    && term.coefficient / small.coefficient <= small.bound + 1 =>
            {
                small.bound += term.bound * (term.coefficient / small.coefficient);
            }
            _ => joined.push(term),
        }
    }
    joined.reverse();
    joined
}

/// Whether `sum a_k x_k = target` has a solution within bounds, for merged terms.
fn solvable(terms: &[Term], target: i128, budget: &mut Budget) -> Answer {
    // What the terms from a position on can reach, and what divides all of them.
    let mut rest: SmallVec<[(i128, i128); 9]> = SmallVec::from_elem((0, 0), terms.len() + 1);
    for (position, term) in terms.iter().enumerate().rev() {
        let (reach, divisor) = rest[position + 1];
        rest[position] = (reach + term.coefficient * term.bound, gcd_wide(term.coefficient, divisor));
    }
    match search(terms, &rest, target, budget) {
        Ok(found) => Answer::from_bool(found),
        Err(TooComplex) => Answer::Unknown,
    }
}

/// Recurses once a term.
fn search(terms: &[Term], rest: &[(i128, i128)], target: i128, budget: &mut Budget) -> Result<bool, TooComplex> {
    budget.spend(1)?;
    let (reach, divisor) = rest[0];
    if target < 0 || target > reach || (divisor != 0 && target % divisor != 0) {
        return Ok(false);
    }
    let Some(term) = terms.first() else { return Ok(target == 0) };
    let (inner_reach, inner_divisor) = rest[1];
    let lowest = ceil_wide(target - inner_reach, term.coefficient).max(0);
    let highest = target.div_euclid(term.coefficient).min(term.bound);
    if inner_divisor == 0 {
        return Ok(lowest <= highest && target % term.coefficient == 0);
    }
    // The rest is a multiple of its divisor, so x is known modulo `period`.
    let common = gcd_wide(term.coefficient, inner_divisor);
    let period = inner_divisor / common;
    let residue = (target / common).rem_euclid(period) * inverse_wide(term.coefficient / common, period) % period;
    let first = lowest + (residue - lowest).rem_euclid(period);
    if terms.len() == 2 {
        // One term is left, and every multiple of its coefficient within reach will do: the bounds above are all.
        return Ok(first <= highest);
    }
    let mut value = first;
    while value <= highest {
        if search(&terms[1..], &rest[1..], target - value * term.coefficient, budget)? {
            return Ok(true);
        }
        value += period;
    }
    Ok(false)
}

fn gcd_wide(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn ceil_wide(a: i128, b: i128) -> i128 {
    -((-a).div_euclid(b))
}

/// The inverse of `a` modulo `m` for coprime positive numbers; 0 for `m` 1.
fn inverse_wide(a: i128, m: i128) -> i128 {
    let (mut r0, mut r1, mut t0, mut t1) = (m, a.rem_euclid(m), 0i128, 1i128);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1, t0, t1) = (r1, r0 - q * r1, t1, t0 - q * t1);
    }
    t0.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps that a question takes, and its answer.
    fn steps(a: &[(i64, i64)], b: (i64, &[(i64, i64)])) -> (u64, Answer) {
        let mut budget = Budget::for_search();
        let (a, b) = (Strided::view(0, a).expect("not empty"), Strided::view(b.0, b.1).expect("not empty"));
        let answer = a.meets(&b, &mut budget);
        (Budget::SEARCH_STEPS - budget.left(), answer)
    }

    #[test]
    fn work_does_not_grow_with_the_array() {
        let ask = |n: i64| {
            let tile = [(n / 4, 4 * n), (2, n), (n / 4, 4), (2, 1)];
            [
                steps(&tile, (2 * n, &tile)),
                steps(&tile, (n + 1, &tile)),
                steps(&[(n, 1)], (5, &[(n, n)])),
                steps(&[(n, n + 1)], (5, &[(n, n)])),
                steps(&[(n, n + 1)], (6, &[(3, n), (n - 6, 1)])),
                steps(&[(n, n + 1)], (n - 1, &[(n, n - 1)])),
            ]
        };
        let small = ask(64);
        assert_eq!(
            small.map(|(_, answer)| answer),
            [Answer::No, Answer::Yes, Answer::Yes, Answer::Yes, Answer::No, Answer::No]
        );
        assert_eq!(small, ask(65_536));
        assert!(small.iter().all(|&(steps, _)| steps <= 20), "{small:?}");
    }
}
