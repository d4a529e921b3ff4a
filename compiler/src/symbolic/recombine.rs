//! Quotients and remainders that meet in one sum: `x % 8 + x // 8 * 8` is x.
//!
//! Three identities, used wherever they leave a cheaper sum: a remainder is `x - x // c * c`; a multiple of a quotient is
//! `x - x % c`; and two digits beside each other, `x % c` and `x // c % d * c`, are one, `x % (c * d)`. What a quotient looks like is not
//! assumed: it is asked of `div_mod`, so the identities hold after any rewriting of the quotient's parts.
//!
//! Each step makes the sum cheaper in [`cost`], so it ends. Tested with `div_mod`.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::div_mod::{as_quotient, as_remainder, divide, divisor_of, remainder};
use super::terms::Sum;
use crate::dtype::DType;
use crate::ir::{Op, UOp};

/// Sums longer than this are not searched for pairs.
const SEARCHED_TERMS_MAX: usize = 24;

/// How deep dividends of dividends are recombined while a candidate is weighed.
const DEPTH: usize = 2;

/// Divisions that the cost of a sum looks into, and how deep they are nested.
const WEIGHED_DIVISIONS_MAX: usize = 64;
const NESTED_MAX: usize = 24;

/// The sum with its quotients and remainders joined.
pub(super) fn recombine(sum: Sum) -> Sum {
    recombine_to(sum, DEPTH)
}

fn recombine_to(mut sum: Sum, depth: usize) -> Sum {
    if sum.terms.len() > SEARCHED_TERMS_MAX {
        return sum;
    }
    // Every round makes the sum cheaper; the limit only guards against a mistake in `cost`.
    for _ in 0..4 * SEARCHED_TERMS_MAX {
        match join_once(&sum, depth) {
            Some(joined) => sum = joined,
            None => break,
        }
    }
    sum
}

fn join_once(sum: &Sum, depth: usize) -> Option<Sum> {
    let joins = |atom: &UOp| matches!(atom.op(), Op::IDiv | Op::Mod | Op::Where);
    if !sum.terms.iter().any(|(atom, _)| joins(atom)) {
        return None;
    }
    let before = cost(sum);
    let cheaper = |candidate: Option<Sum>| candidate.filter(|candidate| cost(candidate) < before);
    sum.terms.iter().find_map(|(atom, factor)| {
        let digits = |(high, times): &(UOp, i64)| cheaper(join_digits(sum, (atom, *factor), (high, *times), depth));
        cheaper(open_remainder(sum, atom, *factor))
            .or_else(|| cheaper(close_quotient(sum, atom, *factor)))
            .or_else(|| sum.terms.iter().find_map(digits))
            .or_else(|| sum.terms.iter().find_map(|other| cheaper(join_choices(sum, (atom, *factor), other))))
    })
}

/// `m * (x % c)` as `m * x - m * c * (x // c)`, where the quotient goes away: else its digits are better kept apart, since their bounds
/// do not depend on each other.
fn open_remainder(sum: &Sum, atom: &UOp, factor: i64) -> Option<Sum> {
    let (x, c) = as_remainder(atom)?;
    let quotient = divide(&x, c)?;
    let scale = factor.checked_mul(c)?;
    let cancels = |(other, times): &(UOp, i64)| {
        as_quotient(other).is_none() || times.checked_mul(scale).is_some_and(|scaled| sum.factor_of(other) == scaled)
    };
    if !quotient.terms.iter().all(cancels) {
        return None;
    }
    let removed = scale.checked_neg()?;
    sum.plus(&Sum::atom(atom.clone()), factor.checked_neg()?)?.plus(&x, factor)?.plus(&quotient, removed)
}

/// `m * c * (x // c)` as `m * x - m * (x % c)`, where `x` or the remainder goes away: else its digits are better kept apart, since bounds and multiples of a difference of both are
/// not seen.
fn close_quotient(sum: &Sum, atom: &UOp, factor: i64) -> Option<Sum> {
    if factor % divisor_of(atom, Op::IDiv)? != 0 {
        return None;
    }
    let (x, c) = as_quotient(atom)?;
    let times = factor / c;
    let low = remainder(&x, c)?;
    let goes_away = |part: &Sum, times: i64| {
        let cancels = |(other, factor): &(UOp, i64)| factor.checked_mul(times) == Some(sum.factor_of(other));
        !part.terms.is_empty() && part.terms.iter().all(cancels)
    };
    if !goes_away(&low, times) && !goes_away(&x, times.checked_neg()?) {
        return None;
    }
    sum.plus(&Sum::atom(atom.clone()), factor.checked_neg()?)?.plus(&x, times)?.plus(&low, times.checked_neg()?)
}

/// `m * (x % c) + m * c * (y % d)` as `m * (z % (c * d))`, where `z = x + c * (y - x // c)`: then z // c is y, and z % c is x % c. That holds
/// for any y; it pays where y has the parts of `x // c`, which cancel.
fn join_digits(sum: &Sum, low: (&UOp, i64), high: (&UOp, i64), depth: usize) -> Option<Sum> {
    let (c, d) = (divisor_of(low.0, Op::Mod)?, divisor_of(high.0, Op::Mod)?);
    if low.0 == high.0 || high.1 != low.1.checked_mul(c)? {
        return None;
    }
    let ((x, _), (y, _)) = (as_remainder(low.0)?, as_remainder(high.0)?);
    let z = x.plus(&y.plus(&divide(&x, c)?, -1)?, c)?;
    let z = if depth > 0 { recombine_to(z, depth - 1) } else { z };
    let joined = remainder(&z, c.checked_mul(d)?)?;
    let rest = sum.plus(&Sum::atom(low.0.clone()), low.1.checked_neg()?)?;
    rest.plus(&Sum::atom(high.0.clone()), high.1.checked_neg()?)?.plus(&joined, low.1)
}

/// Two choices by one condition as one: `(p ? a : 0) + (p ? 0 : b)` is `p ? a : b`.
fn join_choices(sum: &Sum, first: (&UOp, i64), second: &(UOp, i64)) -> Option<Sum> {
    let ([p, a, b], [q, c, d]) = (first.0.src(), second.0.src()) else { return None };
    if first.0.op() != Op::Where || second.0.op() != Op::Where || first.0 == &second.0 || p != q {
        return None;
    }
    let together = |x: &UOp, y: &UOp| Sum::of(x).times(first.1)?.plus(&Sum::of(y), second.1);
    let (yes, no) = (together(a, c)?, together(b, d)?);
    let choice = if yes == no { yes } else { Sum::atom(p.select(yes.to_uop(), no.to_uop())) };
    let rest = sum.plus(&Sum::atom(first.0.clone()), first.1.checked_neg()?)?;
    rest.plus(&Sum::atom(second.0.clone()), second.1.checked_neg()?)?.plus(&choice, 1)
}

/// Operations of a sum by itself, its atoms being given: additions and multiplications.
fn own_cost(sum: &Sum) -> usize {
    let factors = sum.terms.iter().map(|(_, factor)| 1 + (*factor != 1) as usize);
    factors.sum::<usize>() + (sum.constant != 0) as usize
}

/// About how many ops the sum takes: additions, multiplications, and each division below it once, and once each
/// sum that is divided.
fn cost(sum: &Sum) -> usize {
    let mut total = own_cost(sum);
    // Apart, since a dividend may be a division itself.
    let (mut seen, mut dividends): (SmallVec<[UOp; 8]>, SmallVec<[UOp; 8]>) = Default::default();
    let mut pending: SmallVec<[UOp; 8]> = sum.terms.iter().map(|(atom, _)| atom.clone()).collect();
    while let Some(atom) = pending.pop() {
        if seen.len() >= WEIGHED_DIVISIONS_MAX || seen.contains(&atom) {
            continue;
        }
        if let Some((dividend, _)) = as_quotient(&atom).or_else(|| as_remainder(&atom)) {
            total += 1;
            let node = &atom.src()[0];
            if !dividends.contains(node) {
                dividends.push(node.clone());
                total += own_cost(&dividend);
                pending.extend(dividend.terms.into_iter().map(|(atom, _)| atom));
            }
            seen.push(atom);
        } else if atom.op() == Op::Where && atom.dtype() == DType::INDEX {
            total += 1;
            for branch in &atom.src()[1..] {
                let branch = Sum::of(branch);
                total += own_cost(&branch).saturating_sub(!branch.terms.is_empty() as usize);
                pending.extend(branch.terms.into_iter().map(|(atom, _)| atom));
            }
            seen.push(atom);
        }
    }
    total
}

/// What goes down when a division becomes another one by the same number: operations, then what is divided by, then the size of coefficients and constants.
///
/// Unlike in [`cost`], what stands several times counts each time. So whatever lowers a part lowers the whole, and no rewriting of
/// a part (such as the first terms of a sum, which are a node too) can undo the rewriting of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Measure {
    operations: u64,
    divisors: u64,
    sizes: u64,
}

impl Measure {
    pub(super) fn of(sum: &Sum) -> Measure {
        Measure::of_sum(sum, &mut FxHashMap::default(), NESTED_MAX)
    }

    fn plus(self, other: Measure) -> Measure {
        Measure {
            operations: self.operations.saturating_add(other.operations),
            divisors: self.divisors.saturating_add(other.divisors),
            sizes: self.sizes.saturating_add(other.sizes),
        }
    }

    fn of_sum(sum: &Sum, known: &mut FxHashMap<UOp, Measure>, depth: usize) -> Measure {
        // Of two numbers of one size the positive one is less.
        let size = |number: i64| number.unsigned_abs().saturating_mul(2).saturating_add((number < 0) as u64);
        let sizes = sum.terms.iter().map(|(_, factor)| size(*factor)).fold(size(sum.constant), u64::saturating_add);
        let own = Measure { operations: own_cost(sum) as u64, divisors: 0, sizes };
        sum.terms.iter().fold(own, |total, (atom, _)| total.plus(Measure::of_atom(atom, known, depth)))
    }

    fn of_atom(atom: &UOp, known: &mut FxHashMap<UOp, Measure>, depth: usize) -> Measure {
        if let Some(measure) = known.get(atom) {
            return *measure;
        }
        if depth == 0 || known.len() >= WEIGHED_DIVISIONS_MAX {
            return Measure::default();
        }
        let own = |divisor: i64| Measure { operations: 1, divisors: divisor.unsigned_abs(), sizes: 0 };
        let measure = if let Some((dividend, divisor)) = as_quotient(atom).or_else(|| as_remainder(atom)) {
            own(divisor).plus(Measure::of_sum(&dividend, known, depth - 1))
        } else if atom.op() == Op::Where && atom.dtype() == DType::INDEX {
            let branches = atom.src()[1..].iter().map(Sum::of);
            branches.fold(own(0), |total, branch| total.plus(Measure::of_sum(&branch, known, depth - 1)))
        } else {
            return Measure::default();
        };
        known.insert(atom.clone(), measure);
        measure
    }
}
