//! Quotients and remainders that meet in one sum: `x % 8 + x // 8 * 8` is x.
//!
//! Three identities, used wherever they leave a cheaper sum: a remainder is `x - x // c * c`; a multiple of a quotient is
//! `x - x % c`; and two digits beside each other, `x % c` and `x // c % d * c`, are one, `x % (c * d)`. What a quotient looks like is not
//! assumed: it is asked of `div_mod`, so the identities hold after any rewriting of the quotient's parts.
//!
//! Each step makes the sum cheaper in [`cost`], so it ends. Tested with `div_mod`.

use super::div_mod::{as_quotient, as_remainder, divide, remainder};
use super::terms::Sum;
use crate::ir::{UOp, floor_mod};

/// Sums longer than this are not searched for pairs.
const SEARCHED_TERMS_MAX: usize = 24;

/// The sum with its quotients and remainders joined.
pub(super) fn recombine(mut sum: Sum) -> Sum {
    if sum.terms.len() > SEARCHED_TERMS_MAX {
        return sum;
    }
    // Every round makes the sum cheaper; the limit only guards against a mistake in `cost`.
    for _ in 0..4 * SEARCHED_TERMS_MAX {
        match join_once(&sum) {
            Some(joined) => sum = joined,
            None => break,
        }
    }
    sum
}

fn join_once(sum: &Sum) -> Option<Sum> {
    let divisions = sum.terms.iter().filter(|(atom, _)| as_quotient(atom).is_some() || as_remainder(atom).is_some());
    if divisions.count() == 0 {
        return None;
    }
    let before = cost(sum);
    let cheaper = |candidate: Option<Sum>| candidate.filter(|candidate| cost(candidate) < before);
    sum.terms.iter().find_map(|(atom, factor)| {
        cheaper(open_remainder(sum, atom, *factor)).or_else(|| cheaper(close_quotient(sum, atom, *factor))).or_else(
            || sum.terms.iter().find_map(|(high, times)| cheaper(join_digits(sum, (atom, *factor), (high, *times)))),
        )
    })
}

/// `m * (x % c)` as `m * x - m * c * (x // c)`.
fn open_remainder(sum: &Sum, atom: &UOp, factor: i64) -> Option<Sum> {
    let (x, c) = as_remainder(atom)?;
    let quotient = divide(&x, c)?;
    // Worth trying only where the quotient is there to cancel, or the dividend is.
    let meets = quotient.terms.iter().chain(&x.terms).any(|(other, _)| sum.factor_of(other) != 0);
    if !meets {
        return None;
    }
    let removed = factor.checked_mul(c)?.checked_neg()?;
    sum.plus(&Sum::atom(atom.clone()), factor.checked_neg()?)?.plus(&x, factor)?.plus(&quotient, removed)
}

/// `m * c * (x // c)` as `m * x - m * (x % c)`.
fn close_quotient(sum: &Sum, atom: &UOp, factor: i64) -> Option<Sum> {
    let (x, c) = as_quotient(atom)?;
    if factor % c != 0 {
        return None;
    }
    let times = factor / c;
    let low = remainder(&x, c)?;
    if !low.terms.iter().chain(&x.terms).any(|(other, _)| sum.factor_of(other) != 0) {
        return None;
    }
    sum.plus(&Sum::atom(atom.clone()), factor.checked_neg()?)?.plus(&x, times)?.plus(&low, times.checked_neg()?)
}

/// `m * (x % c) + m * c * ((x // c) % d)` as `m * (x % (c * d))`, where the second dividend may differ from `x // c` by a constant
/// and by multiples of d.
fn join_digits(sum: &Sum, low: (&UOp, i64), high: (&UOp, i64)) -> Option<Sum> {
    let (x, c) = as_remainder(low.0)?;
    let (y, d) = as_remainder(high.0)?;
    if low.0 == high.0 || high.1 != low.1.checked_mul(c)? {
        return None;
    }
    let difference = y.plus(&divide(&x, c)?, -1)?;
    if difference.terms.iter().any(|(_, factor)| factor % d != 0) {
        return None;
    }
    let shift = floor_mod(difference.constant, d).checked_mul(c)?;
    let joined = remainder(&x.shifted(shift)?, c.checked_mul(d)?)?;
    let rest = sum.plus(&Sum::atom(low.0.clone()), low.1.checked_neg()?)?;
    rest.plus(&Sum::atom(high.0.clone()), high.1.checked_neg()?)?.plus(&joined, low.1)
}

/// About how many ops the sum takes: additions, multiplications, and its divisions with the sums that they divide.
fn cost(sum: &Sum) -> usize {
    let own = |sum: &Sum| {
        let constant = (sum.constant != 0) as usize;
        sum.terms.iter().map(|(_, factor)| 1 + (*factor != 1) as usize).sum::<usize>() + constant
    };
    let divisions: usize = sum
        .terms
        .iter()
        .filter_map(|(atom, _)| as_quotient(atom).or_else(|| as_remainder(atom)))
        .map(|(dividend, _)| 1 + own(&dividend))
        .sum();
    own(sum) + divisions
}
