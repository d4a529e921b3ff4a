//! Questions about symbolic lengths that views ask: are two equal, does one divide another.
//!
//! Every expression that a view keeps has passed [`simplified`], which asks the symbolic engine, so structural equality
//! decides most of what is asked. An answer of "no" or `None` may mean "not proven"; callers then keep two views instead of one.
//! Not here: what the rules of simplification are (`symbolic`).

use smallvec::SmallVec;

use crate::ir::{Dim, Op, UOp};
use crate::symbolic::simplify;

/// The length in its simplest form.
pub(super) fn simplified(dim: Dim) -> Dim {
    match dim {
        Dim::Const(_) => dim,
        Dim::Expr(expr) => Dim::from(simplify(&expr)),
    }
}

/// Whether two lengths are known to be equal, whatever the variables are.
pub(super) fn same(a: &Dim, b: &Dim) -> bool {
    if a == b {
        return true;
    }
    match (a, b) {
        (Dim::Const(_), Dim::Const(_)) => false,
        (_, _) => {
            let (a, b) = (simplified(a.clone()), simplified(b.clone()));
            a == b || Factors::of(&a) == Factors::of(&b)
        }
    }
}

/// The quotient, if it is known to leave no remainder; `None` for a divisor of 0.
pub(super) fn divide_exactly(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (_, Dim::Const(0)) => None,
        (Dim::Const(0), _) => Some(Dim::Const(0)),
        (Dim::Const(a), Dim::Const(b)) => (a % b == 0).then(|| Dim::Const(a / b)),
        (_, Dim::Const(1)) => Some(a.clone()),
        (_, _) => Factors::of(&simplified(a.clone())).divided_by(Factors::of(&simplified(b.clone()))),
    }
}

/// A product taken apart: a number times expressions, in the order of their structural hashes.
#[derive(PartialEq, Eq)]
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
            let place = self.expressions.iter().position(|own| own == expr)?;
            self.expressions.remove(place);
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
}
