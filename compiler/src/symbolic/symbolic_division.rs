//! Products of nodes that are no constants, and quotients and remainders by them: a variable, a product of variables.
//!
//! Every term is a product of *factors* with a coefficient. Factors that all terms have in common with the divisor cancel, if they
//! cannot be 0; terms that the divisor divides leave the division. What remains may be smaller than the divisor.

use smallvec::SmallVec;

use super::ranges::is_below;
use super::terms::{Sum, atom_order, is_linear, is_long};
use crate::dtype::DType;
use crate::ir::{Op, UOp, floor_div, gcd};

/// A product of nodes, in no order, with a coefficient.
struct Product {
    factors: SmallVec<[UOp; 4]>,
    coefficient: i64,
}

impl Product {
    fn of(node: &UOp, coefficient: i64) -> Option<Product> {
        let mut product = Product { factors: SmallVec::new(), coefficient };
        let mut pending: SmallVec<[UOp; 4]> = SmallVec::from_elem(node.clone(), 1);
        while let Some(node) = pending.pop() {
            if product.factors.len() > FACTORS_MAX {
                return None;
            }
            match node.as_int() {
                Some(value) => product.coefficient = product.coefficient.checked_mul(value)?,
                None if node.op() == Op::Mul => pending.extend(node.src().iter().cloned()),
                None => product.factors.push(node),
            }
        }
        Some(product)
    }

    /// The product without these factors, if it has them all.
    fn without(&self, factors: &[UOp]) -> Option<SmallVec<[UOp; 4]>> {
        let mut left = self.factors.clone();
        for factor in factors {
            let at = left.iter().position(|own| own == factor)?;
            left.remove(at);
        }
        Some(left)
    }
}

fn product_node(factors: &[UOp]) -> UOp {
    factors.iter().cloned().reduce(|product, factor| product * factor).unwrap_or_else(|| UOp::index(1))
}

fn cannot_be_zero(node: &UOp) -> bool {
    node.min_value() > 0 || node.max_value() < 0
}

/// More factors than this are left as they are written.
const FACTORS_MAX: usize = 32;

/// A product with its factors in canonical order and its constants outside; of sums, what their terms have in common is
/// outside too. Times a truth value is a choice.
pub(super) fn canonical_product(root: &UOp) -> Option<UOp> {
    let product = Product::of(root, 1)?;
    if product.factors.len() < 2 || product.factors.len() > FACTORS_MAX {
        return None;
    }
    let mut coefficient = product.coefficient;
    let mut factors: SmallVec<[UOp; 4]> = SmallVec::new();
    let mut gate: Option<UOp> = None;
    for factor in product.factors {
        if factor.op() == Op::Cast && factor.src()[0].dtype() == DType::BOOL && gate.is_none() {
            gate = Some(factor.src()[0].clone());
            continue;
        }
        let sum = Sum::of(&factor);
        let common = gcd(sum.gcd_of_factors(), sum.constant);
        if is_linear(&factor) && common > 1 {
            coefficient = coefficient.checked_mul(common)?;
            factors.push(sum.divided(common).to_uop());
        } else {
            factors.push(factor);
        }
    }
    factors.sort_by(atom_order);
    let product = Sum::of(&product_node(&factors)).times(coefficient)?.to_uop();
    Some(match gate {
        Some(gate) => gate.select(&product, &UOp::index(0)),
        None => product,
    })
}

/// `x // y` and `x % y` for a divisor y that is no constant; `None` if nothing cancels.
pub(super) fn divided_by_symbol(root: &UOp) -> Option<UOp> {
    let [x, y] = root.src() else { return None };
    if root.dtype() != DType::INDEX || y.op() == Op::Const || is_long(x) || !cannot_be_zero(y) {
        return None;
    }
    let sum = Sum::of(x);
    let divisor = Product::of(y, 1)?;
    cancel_common(root.op(), &sum, &divisor, y.min_value() > 0)
        .or_else(|| take_multiples(root.op(), &sum, &divisor, y))
        .or_else(|| {
            if is_below(x, y) {
                return Some(if root.op() == Op::IDiv { UOp::index(0) } else { x.clone() });
            }
            let (low, high) = sum.bounds()?;
            let below = (y.min_value() > 0 && low >= 0 && high < y.min_value())
                || (y.max_value() < 0 && high <= 0 && low > y.max_value());
            below.then(|| if root.op() == Op::IDiv { UOp::index(0) } else { x.clone() })
        })
}

/// `(g * x) // (g * y)` is `x // y`, `(g * x) % (g * y)` is `g * (x % y)`, for g that is not 0.
fn cancel_common(op: Op, sum: &Sum, divisor: &Product, is_positive: bool) -> Option<UOp> {
    let terms: Vec<Product> =
        sum.terms.iter().map(|(atom, factor)| Product::of(atom, *factor)).collect::<Option<_>>()?;
    let mut common: SmallVec<[UOp; 4]> = SmallVec::new();
    if sum.constant == 0 {
        for factor in divisor.factors.iter().filter(|factor| cannot_be_zero(factor)) {
            common.push(factor.clone());
            if terms.iter().any(|term| term.without(&common).is_none()) {
                common.pop();
            }
        }
    }
    let number = gcd(sum.gcd_of_factors(), divisor.coefficient);
    // A constant beside the terms is rounded down in a quotient by a positive number; else it has to be a multiple too.
    let number = if op == Op::Mod || !is_positive { gcd(number, sum.constant) } else { number };
    if common.is_empty() && number <= 1 {
        return None;
    }
    let mut left = Sum::constant(floor_div(sum.constant, number));
    for term in &terms {
        let atom = Sum::of(&product_node(&term.without(&common)?));
        left = left.plus(&atom, term.coefficient / number)?;
    }
    let divisor = product_node(&divisor.without(&common)?) * (divisor.coefficient / number);
    let reduced = UOp::binary(op, &left.to_uop(), &divisor);
    let scale = if op == Op::Mod { product_node(&common) * number } else { UOp::index(1) };
    Some(reduced * scale)
}

/// `(q * y + r) // y` is `q + r // y`, `(q * y + r) % y` is `r % y`.
fn take_multiples(op: Op, sum: &Sum, divisor: &Product, y: &UOp) -> Option<UOp> {
    let mut outside = Sum::constant(0);
    let mut inside = Sum::constant(sum.constant);
    for (atom, factor) in &sum.terms {
        let term = Product::of(atom, *factor)?;
        match term.without(&divisor.factors) {
            Some(left) if term.coefficient % divisor.coefficient == 0 => {
                outside = outside.plus(&Sum::of(&product_node(&left)), term.coefficient / divisor.coefficient)?;
            }
            _ => inside.terms.push((atom.clone(), *factor)),
        }
    }
    if inside.terms.len() == sum.terms.len() {
        return None;
    }
    let rest = UOp::binary(op, &inside.to_uop(), y);
    Some(if op == Op::IDiv { outside.to_uop() + rest } else { rest })
}

#[cfg(test)]
mod tests {
    use crate::dtype::Scalar;
    use crate::ir::{Evaluator, UOp};
    use crate::rewrite::rewrite;
    use crate::symbolic::INDEX;

    /// `(k * a * b + m * a + n) // (d * b)` and the remainder, for all small k, m, n and d, where b is not 0.
    #[test]
    fn products_are_divided_by_multiples_of_their_factors() {
        let (a, b) = (UOp::variable("a", -1, 2), UOp::variable("b", 1, 3));
        let numbers = [-4, -3, 0, 1, 2, 5];
        for (k, m) in numbers.into_iter().flat_map(|k| numbers.map(|m| (k, m))) {
            for (n, d) in [0, 1, 6].into_iter().flat_map(|n| [-2, 1, 2, 3].map(|d| (n, d))) {
                let (x, y) = (&a * &b * k + &a * m + n, &b * d);
                for exact in [x.idiv(&y), x.modulo(&y)] {
                    let simpler = rewrite(&exact, &[&INDEX]).expect("rules come to an end");
                    let mut both = Evaluator::new(&[a.clone(), b.clone(), exact.clone(), simpler.clone()]);
                    let assignments = (-1..=2).flat_map(|a| (1..=3).map(move |b| [Scalar::Int(a), Scalar::Int(b)]));
                    for assignment in assignments {
                        let values = both.evaluate(&assignment).expect("all leaves have values");
                        assert_eq!(values[2], values[3], "{} at {assignment:?}: {}", exact.infix(), simpler.infix());
                    }
                }
            }
        }
    }
}
