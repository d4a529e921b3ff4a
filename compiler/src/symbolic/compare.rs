//! Comparisons. Of indices, `<` always stands between a sum and a constant: `sum < c` if the sum's first coefficient is
//! positive, else `c < sum`; `!(a < b)` is written as the other comparison. Of other types, only what is true when arithmetic wraps.

use smallvec::SmallVec;

use super::div_mod::as_quotient;
use super::integer::out_of_order;
use super::terms::{Sum, is_long};
use crate::dtype::DType;
use crate::ir::{Op, UOp, floor_div, gcd};
use crate::rules;

rules! {
    /// Comparisons, of integers and bools; a few hold for floats too.
    pub COMPARE |root| for root.dtype().is_bool() && root.shape().is_empty() =>
    "less-than-itself":   [x]        x.lt(x)                  => false;
    "differs-itself":     [x]        x.differs(x)             => false, if !x.dtype().is_float();
    "equals-itself":      [x]        x.equals(x)              => true, if !x.dtype().is_float();
    "not-differs":        [x, y]     !x.differs(y)            => x.equals(y);
    "not-equals":         [x, y]     !x.equals(y)             => x.differs(y);
    "not-less":           [x, y]     !x.lt(y)                 => y.lt(x + 1), if x.dtype() == DType::INDEX;
    "less-of-sums":       [x, y]     x.lt(y)                  => canonical_less(x, y), if x.dtype() == DType::INDEX;
    "differs-of-sums":    [x, y]     x.differs(y)             => canonical_equality(Op::Ne, x, y), if x.dtype() == DType::INDEX;
    "equals-of-sums":     [x, y]     x.equals(y)              => canonical_equality(Op::Eq, x, y), if x.dtype() == DType::INDEX;
    "bool-differs-false": [x]        x.differs(false)         => x, if x.dtype().is_bool();
    "bool-differs-true":  [x]        x.differs(true)          => !x, if x.dtype().is_bool();
    "bool-equals-true":   [x]        x.equals(true)           => x, if x.dtype().is_bool();
    "bool-equals-false":  [x]        x.equals(false)          => !x, if x.dtype().is_bool();
    "bool-less-true":     [x]        x.lt(true)               => !x, if x.dtype().is_bool();
    "cast-bool-differs":  [x, c]     x.cast_any().differs(c)  => cast_bool_is(x, c).map(|same| !same);
    "cast-bool-equals":   [x, c]     x.cast_any().equals(c)   => cast_bool_is(x, c);
    "bool-of-integer":    [x]        x.cast(DType::BOOL)      => x.differs(0), if x.dtype().is_integer();
    "order-differs":      [x, y]     x.differs(y)             => y.differs(x), if out_of_order(root);
    "order-equals":       [x, y]     x.equals(y)              => y.equals(x), if out_of_order(root);
}

/// Whether the bool x, as a number, is c.
fn cast_bool_is(x: &UOp, c: &UOp) -> Option<UOp> {
    if !x.dtype().is_bool() {
        return None;
    }
    Some(match c.as_int() {
        Some(1) => x.clone(),
        Some(0) => !x,
        Some(_) => UOp::bool(false),
        None => return None,
    })
}

/// `terms < limit` for `a < b`; `None` on overflow or if a side is long.
fn difference(a: &UOp, b: &UOp) -> Option<(Sum, i64)> {
    if is_long(a) || is_long(b) {
        return None;
    }
    let difference = Sum::of(a).plus(&Sum::of(b), -1)?;
    Some((difference.without_constant(), difference.constant.checked_neg()?))
}

fn ceil_div(a: i64, b: i64) -> Option<i64> {
    floor_div(a.checked_neg()?, b).checked_neg()
}

/// `a < b` of indices: a sum beside a constant, or true or false. `None` on overflow, or if a side is long.
pub(super) fn canonical_less(a: &UOp, b: &UOp) -> Option<UOp> {
    let (mut terms, mut limit) = difference(a, b)?;
    while let Some((fewer, next)) = reduce_less(&terms, limit) {
        (terms, limit) = (fewer, next);
    }
    if terms.terms.is_empty() {
        return Some(UOp::bool(0 < limit));
    }
    if let Some((low, high)) = terms.bounds()
        && (high < limit || low >= limit)
    {
        return Some(UOp::bool(high < limit));
    }
    if let [(atom, factor)] = terms.terms.as_slice()
        && let (Op::Cast, [truth]) = (atom.op(), atom.src())
        && truth.dtype() == DType::BOOL
    {
        // A truth value lies on one side of the limit, its opposite on the other.
        return Some(if *factor > 0 { !truth } else { truth.clone() });
    }
    if terms.terms[0].1 > 0 {
        return Some(terms.to_uop().lt(limit));
    }
    Some(UOp::index(limit.checked_neg()?).lt(terms.times(-1)?.to_uop()))
}

/// One step toward fewer or smaller terms of `terms < limit`.
fn reduce_less(terms: &Sum, limit: i64) -> Option<(Sum, i64)> {
    let common = terms.gcd_of_factors();
    if common > 1 {
        return Some((terms.divided(common), ceil_div(limit, common)?));
    }
    // Low digits: the terms that are no multiples of g do not reach the next multiple of it.
    let mut sizes: SmallVec<[i64; 6]> = terms.terms.iter().map(|(_, factor)| factor.saturating_abs()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    for size in sizes.into_iter().filter(|size| *size > 1) {
        let (high, low) = split_multiples(terms, size);
        if let Some((least, most)) = low.bounds() {
            let ends = (ceil_div(limit.checked_sub(least)?, size)?, ceil_div(limit.checked_sub(most)?, size)?);
            if ends.0 == ends.1 {
                return Some((high.divided(size), ends.0));
            }
        }
    }
    if let Some(counted) = count_off_ends(terms, limit) {
        return Some(counted);
    }
    if let [(atom, factor)] = terms.terms.as_slice()
        && let Some((dividend, divisor)) = as_quotient(atom)
    {
        // y // d < k is y < k * d; -(y // d) < k is y // d >= 1 - k, so y >= d * (1 - k), so -y < d * (k - 1) + 1.
        let (sum, limit) = match factor {
            1 => (dividend, limit.checked_mul(divisor)?),
            _ => (dividend.times(-1)?, divisor.checked_mul(limit.checked_sub(1)?)?.checked_add(1)?),
        };
        return Some((sum.without_constant(), limit.checked_sub(sum.constant)?));
    }
    None
}

/// Where only one corner of the terms' box is on one side of the limit, each step away from the corner counts the same: coefficients
/// become 1 and -1.
fn count_off_ends(terms: &Sum, limit: i64) -> Option<(Sum, i64)> {
    let (low, high) = terms.bounds()?;
    let least = terms.terms.iter().map(|(_, factor)| factor.saturating_abs()).min()?;
    if terms.terms.iter().all(|(_, factor)| factor.abs() == 1) {
        return None;
    }
    let signs = terms.terms.iter().map(|(atom, factor)| (atom.clone(), factor.signum())).collect();
    let signs = Sum { terms: signs, constant: 0 };
    let (first, last) = signs.bounds()?;
    match () {
        // Only the lowest corner is below the limit; only the highest one is not.
        () if low < limit && limit.checked_sub(low)? <= least => Some((signs, first.checked_add(1)?)),
        () if high >= limit && high.checked_sub(limit)? < least => Some((signs, last)),
        () => None,
    }
}

/// The terms that are multiples of a number, and the others.
fn split_multiples(terms: &Sum, size: i64) -> (Sum, Sum) {
    let (high, low) = terms.terms.iter().cloned().partition(|(_, factor)| factor % size == 0);
    (Sum { terms: high, constant: 0 }, Sum { terms: low, constant: 0 })
}

fn canonical_equality(op: Op, a: &UOp, b: &UOp) -> Option<UOp> {
    let (terms, limit) = difference(a, b)?;
    let known = |equal: bool| Some(UOp::bool(equal == (op == Op::Eq)));
    let common = terms.gcd_of_factors();
    if common == 0 {
        return known(limit == 0);
    }
    if limit % common != 0 || terms.bounds().is_some_and(|(low, high)| limit < low || limit > high) {
        return known(false);
    }
    if !terms.facts().contains(limit) {
        return known(false);
    }
    let sign = terms.terms[0].1.signum();
    debug_assert!(gcd(common, limit) == common, "the limit is a multiple of what the terms have in common");
    let sum = terms.divided(common.checked_mul(sign)?);
    Some(UOp::binary(op, &sum.to_uop(), &UOp::index(limit / (common * sign))))
}
