//! Quotients and remainders of index sums by constants.
//!
//! [`divide`] and [`remainder`] take a sum and a divisor c > 0 and give sums, in which at most one atom is a new division. They
//! use, in this order: what is a multiple of c leaves the division; a sum whose values lie in one *period*, from q * c to
//! q * c + c - 1, needs none; a common divisor cancels; *low digits*, terms that together stay below a divisor g of c
//! while the others are multiples of g, are cut off. Quotients of quotients are one.
//!
//! Canonical: coefficients inside are smaller than the divisor; divisors are positive (`x // -c` is `-x // c`, `x % -c` is `-(-x % c)`);
//! a quotient stands outside of a remainder (`x % 12 // 4` is `x // 4 % 3`). Each step makes the divisor or the number of terms smaller,
//! so the recursion is as deep as c has divisors. A division by c alone is replaced by another division by c only if that is less by its
//! [`Measure`]: digits that are cut off here may be joined again to a division of another sum, and two such would turn into each
//! other without end.
//!
//! Tested: on every instance of a small domain (`rules/small` of the test crate, as all rules of integers are), and on positions of
//! views of views (`rewrite_keeps_value` there).

use smallvec::SmallVec;

use super::recombine::{Measure, recombine};
use super::terms::Sum;
use crate::dtype::DType;
use crate::ir::{Op, UOp, floor_div, floor_mod, gcd};

/// The parts of `x = divisor * quotient + remainder`, with the remainder in one period of it.
struct Split {
    quotient: Sum,
    remainder: Sum,
}

/// `x // c`. `None` if arithmetic on coefficients overflows.
pub(super) fn divide(x: &Sum, c: i64) -> Option<Sum> {
    if c == 1 {
        return Some(x.clone());
    }
    if let Some(split) = split_in_one_period(x, c) {
        return Some(split.quotient);
    }
    let (outside, inside) = extract_multiples(x, c);
    if !outside.terms.is_empty() || outside.constant != 0 {
        return divide(&inside, c)?.plus(&outside, 1);
    }
    if let Some((merged, divisor)) = merge_nested(x, c) {
        return divide(&merged, divisor);
    }
    let common = gcd(x.gcd_of_factors(), c);
    if common > 1 {
        return divide(&floor_scaled(x, common), c / common);
    }
    if let [(atom, 1)] = x.terms.as_slice()
        && x.constant == 0
        && let Some((inner, modulus)) = as_remainder(atom)
        && modulus % c == 0
    {
        return remainder(&divide(&inner, c)?, modulus / c);
    }
    for digit in digit_sizes(x, c) {
        if let Some(split) = split_in_one_period(x, digit) {
            return divide(&split.quotient, c / digit);
        }
    }
    Some(Sum::atom(x.to_uop().idiv(c)))
}

/// `x % c`. `None` if arithmetic on coefficients overflows.
pub(super) fn remainder(x: &Sum, c: i64) -> Option<Sum> {
    if c == 1 {
        return Some(Sum::constant(0));
    }
    if let Some(split) = split_in_one_period(x, c) {
        return Some(split.remainder);
    }
    let x = &open_remainders(x, c)?;
    let mut x = extract_multiples(x, c).1;
    for (_, factor) in &mut x.terms {
        // Half a period is the same in both directions.
        if factor.checked_mul(-2) == Some(c) {
            *factor = -*factor;
        }
    }
    let x = &x;
    if let Some(split) = split_in_one_period(x, c) {
        return Some(split.remainder);
    }
    let common = gcd(x.gcd_of_factors(), c);
    if common > 1 {
        let low = floor_mod(x.constant, common);
        return remainder(&floor_scaled(x, common), c / common)?.times(common)?.shifted(low);
    }
    for digit in digit_sizes(x, c) {
        if let Some(split) = split_in_one_period(x, digit) {
            return remainder(&split.quotient, c / digit)?.times(digit)?.plus(&split.remainder, 1);
        }
    }
    Some(Sum::atom(x.to_uop().modulo(c)))
}

/// The divisor of a quotient (`Op::IDiv`) or remainder (`Op::Mod`) by a positive constant.
pub(super) fn divisor_of(atom: &UOp, op: Op) -> Option<i64> {
    if atom.op() != op || atom.dtype() != DType::INDEX {
        return None;
    }
    atom.src()[1].as_int().filter(|divisor| *divisor > 0)
}

/// The dividend and divisor of a remainder by a positive constant.
pub(super) fn as_remainder(atom: &UOp) -> Option<(Sum, i64)> {
    by_constant(atom, Op::Mod)
}

/// The dividend and divisor of a quotient by a positive constant.
pub(super) fn as_quotient(atom: &UOp) -> Option<(Sum, i64)> {
    by_constant(atom, Op::IDiv)
}

fn by_constant(atom: &UOp, op: Op) -> Option<(Sum, i64)> {
    let divisor = divisor_of(atom, op)?;
    Some((Sum::of(&atom.src()[0]), divisor))
}

/// `x = c * quotient + remainder` where 0 <= remainder < c always, if coefficients can be cut so.
///
/// Each coefficient f becomes `f mod c` or `f mod c - c`; the one of smaller size gives the narrowest range. Where both have one
/// size, both are tried, for at most three such terms.
fn split_in_one_period(x: &Sum, c: i64) -> Option<Split> {
    let ties = x.terms.iter().filter(|(_, factor)| is_tie(*factor, c)).count().min(3);
    // A single term may fit either way.
    let choices = if x.terms.len() == 1 { 2 } else { 1 << ties };
    (0..choices).find_map(|choice| split_with(x, c, choice, x.terms.len() == 1))
}

fn is_tie(factor: i64, c: i64) -> bool {
    let low = floor_mod(factor, c);
    low != 0 && low == c - low
}

fn split_with(x: &Sum, c: i64, choice: u32, single: bool) -> Option<Split> {
    let mut quotient = Sum::constant(floor_div(x.constant, c));
    let mut remainder = Sum::constant(floor_mod(x.constant, c));
    let mut ties = 0;
    for (atom, factor) in &x.terms {
        let low = floor_mod(*factor, c);
        let mut take_negative = low > c - low;
        if single {
            take_negative ^= choice == 1;
        } else if is_tie(*factor, c) {
            take_negative = ties < 3 && choice >> ties & 1 == 1;
            ties += 1;
        }
        let rest = if take_negative && low != 0 { low - c } else { low };
        if rest != 0 {
            remainder.terms.push((atom.clone(), rest));
        }
        // Exact, since `rest` differs from the factor by a multiple of c.
        let times = factor.checked_sub(rest)? / c;
        if times != 0 {
            quotient.terms.push((atom.clone(), times));
        }
    }
    let (low, high) = remainder.bounds()?;
    let period = floor_div(low, c);
    if period != floor_div(high, c) {
        return None;
    }
    remainder.constant = remainder.constant.checked_sub(period.checked_mul(c)?)?;
    quotient.constant = quotient.constant.checked_add(period)?;
    Some(Split { quotient, remainder })
}

/// `x = c * outside + inside`, each coefficient inside being smaller than c and of its sign outside, the constant from 0 to c - 1.
///
/// The sign stays so that a numerator that cannot be negative does not become one that can.
fn extract_multiples(x: &Sum, c: i64) -> (Sum, Sum) {
    let mut outside = Sum::constant(floor_div(x.constant, c));
    let mut inside = Sum::constant(floor_mod(x.constant, c));
    for (atom, factor) in &x.terms {
        if factor / c != 0 {
            outside.terms.push((atom.clone(), factor / c));
        }
        if factor % c != 0 {
            inside.terms.push((atom.clone(), factor % c));
        }
    }
    (outside, inside)
}

/// `(y // a + rest) // c` is `(y + a * rest) // (a * c)`.
fn merge_nested(x: &Sum, c: i64) -> Option<(Sum, i64)> {
    for (atom, factor) in &x.terms {
        if *factor == 1
            && let Some((inner, divisor)) = as_quotient(atom)
        {
            let rest = x.plus(&Sum::atom(atom.clone()), -1)?;
            let product = divisor.checked_mul(c)?;
            return Some((inner.plus(&rest, divisor)?, product));
        }
    }
    None
}

/// Terms divided by a divisor that they have in common, the constant rounded down.
fn floor_scaled(x: &Sum, common: i64) -> Sum {
    let terms = x.terms.iter().map(|(atom, factor)| (atom.clone(), factor / common)).collect();
    Sum { terms, constant: floor_div(x.constant, common) }
}

/// The divisors of c that some term is a multiple of, larger ones first.
fn digit_sizes(x: &Sum, c: i64) -> SmallVec<[i64; 6]> {
    let mut sizes: SmallVec<[i64; 6]> = SmallVec::new();
    for (_, factor) in &x.terms {
        let common = gcd(*factor, c);
        if common > 1 && common < c && !sizes.contains(&common) {
            sizes.push(common);
        }
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Remainders inside that change nothing by c: `(u % 12 * f + v) % c` is `(u * f + v) % c` if `12 * f` is a multiple of c.
fn open_remainders(x: &Sum, c: i64) -> Option<Sum> {
    let mut result = x.clone();
    for (atom, factor) in &x.terms {
        if let Some((inner, modulus)) = as_remainder(atom)
            && modulus.checked_mul(*factor)? % c == 0
        {
            result = result.plus(&Sum::atom(atom.clone()), factor.checked_neg()?)?.plus(&inner, *factor)?;
        }
    }
    Some(result)
}

/// `x // y` and `x % y` of dtype `Index`, the divisor being a constant that is not 0.
pub(super) fn canonical_division(root: &UOp) -> Option<UOp> {
    if root.dtype() != DType::INDEX {
        return None;
    }
    let divisor = root.src()[1].as_int().filter(|divisor| *divisor != 0 && *divisor != i64::MIN)?;
    let dividend = Sum::of(&root.src()[0]);
    let negative = divisor < 0;
    let x = if negative { dividend.times(-1)? } else { dividend };
    let sum = match root.op() {
        Op::IDiv => divide(&x, divisor.abs())?,
        Op::Mod if negative => remainder(&x, divisor.abs())?.times(-1)?,
        Op::Mod => remainder(&x, divisor)?,
        _ => return None,
    };
    let sum = recombine(sum);
    let is_same_division = |atom: &UOp| atom.op() == root.op() && atom.src()[1] == root.src()[1];
    if let [(atom, 1)] = sum.terms.as_slice()
        && sum.constant == 0
        && is_same_division(atom)
        && Measure::of(&sum) >= Measure::of(&Sum::atom(root.clone()))
    {
        return None;
    }
    Some(sum.to_uop())
}
