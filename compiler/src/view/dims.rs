//! Questions about symbolic lengths that views and ops ask: are two equal, does one divide another, is one at most another.
//!
//! Every expression that a view keeps has passed [`simplified`], which asks the symbolic engine, so structural equality
//! decides most of what is asked. An answer of "no" or `None` may mean "not proven": views then stay apart, ops refuse.
//! A variable with a value counts as the variable: what is shown holds for every value, so that one kernel serves them all.
//! Not here: what the rules of simplification are (`symbolic`).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::polynomial::Polynomial;
use crate::ir::{Dim, Op, Shape, UOp, substitute};
use crate::symbolic::{linear_terms, proven_bounds, simplify};

/// The length in its simplest form.
pub(crate) fn simplified(dim: Dim) -> Dim {
    match dim {
        Dim::Const(_) => dim,
        Dim::Expr(expr) => Dim::from(simplify(&expr)),
    }
}

/// Whether two lengths are known to be equal, whatever the variables are.
pub(crate) fn same(a: &Dim, b: &Dim) -> bool {
    if a == b {
        return true;
    }
    match (a, b) {
        (Dim::Const(_), Dim::Const(_)) => false,
        (_, _) => {
            let (a, b) = (simplified(without_values(a)), simplified(without_values(b)));
            a == b || ratio(&a, &b) == Some(1) || simplified(&a - &b).is(0)
        }
    }
}

/// Whether `a <= b` is known, whatever the variables are.
pub(crate) fn at_most(a: &Dim, b: &Dim) -> bool {
    match &without_values(b) - &without_values(a) {
        Dim::Const(distance) => distance >= 0,
        Dim::Expr(distance) => {
            let number = || Polynomial::of(&Dim::Expr(distance.clone()))?.as_const();
            proven_bounds(&distance).0 >= 0 || number().is_some_and(|number| number >= 0) || is_at_least_0(&distance)
        }
    }
}

/// Whether a sum with quotients cannot be negative.
///
/// Bounds of the terms alone do not show that `n - (n + 1) // 2` is not: its least quotient goes with its least n. So the sum is
/// multiplied by each divisor, and its quotient taken for what it is at worst: of `x // c`, c times is from `x - c + 1` to `x`.
fn is_at_least_0(sum: &UOp) -> bool {
    // An integer is 0 or more if it is more than -1; after multiplying, if it is more than -scale.
    let (mut sum, mut scale) = (simplify(sum), 1i64);
    for _ in 0..QUOTIENTS_MAX {
        let (terms, constant) = linear_terms(&sum);
        let divided = |term: &UOp| match (term.op(), term.src()) {
            (Op::IDiv, [x, c]) => c.as_int().filter(|c| *c > 0).map(|c| (x.clone(), c)),
            _ => None,
        };
        let quotient = terms.iter().find_map(|(term, factor)| divided(term).map(|(x, c)| (term, *factor, x, c)));
        let Some((found, factor, x, c)) = quotient else { break };
        let (Some(next), Some(constant)) = (scale.checked_mul(c), constant.checked_mul(c)) else { return false };
        let worst = if factor < 0 { x } else { x - (c - 1) };
        let others = terms.iter().filter(|(term, _)| term != found);
        let others = others.fold(UOp::index(constant), |total, (term, factor)| total + term * *factor * c);
        (sum, scale) = (simplify(&(others + worst * factor)), next);
    }
    scale > 1 && proven_bounds(&sum).0 > -scale
}

/// Sums of more quotients are left alone.
const QUOTIENTS_MAX: usize = 8;

/// The expression over variables alone, whatever values are bound to them.
fn without_values(dim: &Dim) -> Dim {
    let Dim::Expr(expr) = dim else { return dim.clone() };
    let map: FxHashMap<UOp, UOp> =
        dim.bindings().into_iter().map(|binding| (binding.clone(), binding.src()[0].clone())).collect();
    if map.is_empty() { dim.clone() } else { Dim::from(substitute(expr, &map)) }
}

/// The quotient, if it is known to leave no remainder; `None` for a divisor of 0.
pub(crate) fn divide_exactly(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (_, Dim::Const(0)) => None,
        (Dim::Const(0), _) => Some(Dim::Const(0)),
        (Dim::Const(a), Dim::Const(b)) => (a % b == 0).then(|| Dim::Const(a / b)),
        (_, Dim::Const(1)) => Some(a.clone()),
        (_, _) => Factors::of(&simplified(a.clone())).divided_by(Factors::of(&simplified(b.clone()))),
    }
}

/// The number that `a` is `b` times, if that is known, whatever the variables are.
pub(crate) fn ratio(a: &Dim, b: &Dim) -> Option<i64> {
    Polynomial::of(&without_values(a))?.ratio(&Polynomial::of(&without_values(b))?)
}

/// A distance in row-major order over these lengths as steps along each axis, none of them back; `None` if that is not known.
///
/// ```text
/// 3 w over [h, w] = [3, 0]    w + 1 over [h, w] = [1, 1]    w + 1 over [h] = [w + 1]
/// ```
///
/// Who walks so must not reach the end of an axis, or the steps would carry.
pub(crate) fn steps_along(distance: &Dim, lens: &Shape) -> Option<SmallVec<[Dim; 6]>> {
    let mut steps: SmallVec<[Dim; 6]> = SmallVec::from_elem(Dim::Const(0), lens.len());
    if distance.is(0) {
        return Some(steps);
    }
    let units = lens.row_major_strides();
    let axes: SmallVec<[usize; 6]> = (0..lens.len()).filter(|&axis| !same(&lens[axis], &Dim::Const(1))).collect();
    let along_one = |distance: &Dim| {
        let counted = |&axis: &usize| Some((axis, ratio(distance, &units[axis]).filter(|count| *count > 0)?));
        axes.iter().find_map(counted)
    };
    let along_two = || {
        let mut longer = axes.iter().filter(|&&axis| at_most(&units[axis], distance));
        longer.find_map(|&first| Some((first, along_one(&(distance - &units[first]))?)))
    };
    if let Some((axis, count)) = along_one(distance) {
        steps[axis] = Dim::Const(count);
    } else if let Some((first, (axis, count))) = along_two() {
        steps[first] = Dim::Const(1);
        steps[axis] = &steps[axis] + &Dim::Const(count);
    } else {
        let innermost = *axes.last().filter(|_| distance.min_value() > 0)?;
        steps[innermost] = distance.clone();
    }
    Some(steps)
}

/// A product taken apart: a number times expressions, in the order of their structural hashes.
struct Factors {
    number: i64,
    expressions: SmallVec<[UOp; 4]>,
}

impl Factors {
    fn of(dim: &Dim) -> Factors {
        let mut factors = Factors { number: 1, expressions: SmallVec::new() };
        let mut pending: SmallVec<[UOp; 8]> = SmallVec::new();
        match dim {
            Dim::Const(value) => factors.number = *value,
            Dim::Expr(expr) => pending.push(expr.clone()),
        }
        while let Some(expr) = pending.pop() {
            match (expr.as_int(), expr.op()) {
                (Some(value), _) => factors.number = factors.number.saturating_mul(value),
                (None, Op::Mul) => pending.extend(expr.src().iter().cloned()),
                (None, _) => factors.expressions.push(expr),
            }
        }
        factors.expressions.sort_by_key(UOp::structural_hash);
        factors
    }

    fn divided_by(mut self, divisor: Factors) -> Option<Dim> {
        for expr in &divisor.expressions {
            let position = self.expressions.iter().position(|own| own == expr)?;
            self.expressions.remove(position);
        }
        if divisor.number == 0 || self.number % divisor.number != 0 {
            return None;
        }
        let number = Dim::Const(self.number / divisor.number);
        Some(self.expressions.into_iter().fold(number, |product, expr| &Dim::from(expr) * &product))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_divide_by_their_factors() {
        let n = Dim::from(UOp::variable("n", 1, 9));
        let m = Dim::from(UOp::variable("m", 1, 9));
        let product = &(&n * &Dim::Const(12)) * &m;
        assert_eq!(divide_exactly(&product, &m), Some(&n * &Dim::Const(12)));
        assert_eq!(divide_exactly(&product, &(&m * &n)), Some(Dim::Const(12)));
        assert_eq!(divide_exactly(&product, &Dim::Const(5)), None);
        assert_eq!(divide_exactly(&n, &m), None);
        assert_eq!(divide_exactly(&Dim::Const(6), &Dim::Const(0)), None);
        assert!(same(&(&n * &m), &(&m * &n)));
        assert!(!same(&n, &m));
    }

    #[test]
    fn what_is_shown_holds_for_every_value() {
        let variable = UOp::variable("n", 1, 9);
        let (n, seven) = (Dim::from(&variable), Dim::from(variable.bind(7)));
        assert!(same(&n, &seven) && same(&(&n * 2 + 2), &((&seven + 1) * 2)));
        assert!(!same(&seven, &Dim::Const(7)));
        assert!(at_most(&seven, &Dim::Const(9)) && !at_most(&seven, &Dim::Const(8)));
        assert!(at_most(&((&n + 1) / 2), &n) && at_most(&(&n / 2 + &n / 3), &n) && at_most(&(&n / 4 * 3), &n));
        assert!(!at_most(&((&n + 3) / 2), &n) && !at_most(&n, &(&n / 2 * 2)) && at_most(&n, &(&n / 2 * 2 + 1)));
        assert!(at_most(&n, &(&seven + 1)) && at_most(&Dim::Const(1), &n) && !at_most(&(&n + 1), &n));
    }
}
