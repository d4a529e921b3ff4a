//! Lengths written out as sums of products, so that two of them can be compared whatever form they have: `2 (w + 2)` is `2 w + 4`.
//!
//! What is no sum, difference or product of others is an unknown: a variable, a quotient. A polynomial that would get long is not written out, and nothing
//! is known of it. Tested below.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::ir::{Dim, Op, UOp, postorder};

/// Products that a sum may have: strides of views have a handful.
const TERMS_MAX: usize = 64;

/// Unknowns by their structural hashes, in order; each as often as it is multiplied.
type Product = SmallVec<[u64; 4]>;

/// The number before each product of unknowns, none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polynomial(BTreeMap<Product, i64>);

impl Polynomial {
    /// A length written out; `None` if that is too long, or a number of it too large.
    pub(crate) fn of(dim: &Dim) -> Option<Polynomial> {
        let root = match dim {
            Dim::Const(number) => return Some(Polynomial::number(*number)),
            Dim::Expr(expr) => expr,
        };
        let mut done: rustc_hash::FxHashMap<UOp, Option<Polynomial>> = Default::default();
        for node in postorder(std::slice::from_ref(root)) {
            let operand = |number: usize| done[&node.src()[number]].clone();
            let found = match (node.as_int(), node.op()) {
                (Some(number), _) => Some(Polynomial::number(number)),
                (None, Op::Add) => operand(0).zip(operand(1)).and_then(|(a, b)| a.plus(&b, 1)),
                (None, Op::Sub) => operand(0).zip(operand(1)).and_then(|(a, b)| a.plus(&b, -1)),
                (None, Op::Mul) => operand(0).zip(operand(1)).and_then(|(a, b)| a.times(&b)),
                (None, _) => Some(Polynomial(BTreeMap::from([(smallvec![node.structural_hash()], 1)]))),
            };
            done.insert(node, found);
        }
        done.remove(root)?
    }

    fn number(number: i64) -> Polynomial {
        Polynomial(if number == 0 { BTreeMap::new() } else { BTreeMap::from([(Product::new(), number)]) })
    }

    fn plus(mut self, other: &Polynomial, factor: i64) -> Option<Polynomial> {
        for (product, number) in &other.0 {
            let sum = self.0.entry(product.clone()).or_default();
            *sum = sum.checked_add(number.checked_mul(factor)?)?;
        }
        self.0.retain(|_, number| *number != 0);
        (self.0.len() <= TERMS_MAX).then_some(self)
    }

    fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        let mut all = Polynomial::default();
        for (a, first) in &self.0 {
            for (b, second) in &other.0 {
                let mut product: Product = a.iter().chain(b).copied().collect();
                product.sort_unstable();
                all = all.plus(&Polynomial(BTreeMap::from([(product, first.checked_mul(*second)?)])), 1)?;
            }
        }
        Some(all)
    }

    /// The number that it is whatever the unknowns are.
    pub(crate) fn as_const(&self) -> Option<i64> {
        match self.0.first_key_value() {
            None => Some(0),
            Some((product, number)) => (self.0.len() == 1 && product.is_empty()).then_some(*number),
        }
    }

    /// The number that this is the given one times, if there is one.
    pub(crate) fn ratio(&self, other: &Polynomial) -> Option<i64> {
        let ((product, number), (_, divisor)) = (self.0.first_key_value()?, other.0.first_key_value()?);
        let ratio = if number % divisor == 0 { number / divisor } else { return None };
        let is_multiple = self.0.len() == other.0.len()
            && other.0.iter().all(|(product, number)| self.0.get(product).copied() == number.checked_mul(ratio));
        debug_assert!(!is_multiple || other.0.contains_key(product));
        is_multiple.then_some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> [Dim; 2] {
        ["h", "w"].map(|name| Dim::from(UOp::variable(name, 1, 99)))
    }

    #[test]
    fn what_is_equal_is_written_out_as_the_same() {
        let [h, w] = variables();
        let written = |dim: &Dim| Polynomial::of(dim).unwrap();
        let product = &(&h + 2) * &(&w + 3);
        assert_eq!(written(&product), written(&(&(&(&w * &h) + &(&h * 3)) + &(&(&w * 2) + 6))));
        assert_ne!(written(&product), written(&(&(&h + 3) * &(&w + 2))));
        assert_eq!(written(&(&product - &product)), Polynomial::default());
        // A quotient is an unknown of its own.
        assert_ne!(written(&h.floor_div(&2.into())), written(&h));
    }

    #[test]
    fn multiples_are_found() {
        let [h, w] = variables();
        let ratio = |a: &Dim, b: &Dim| Polynomial::of(a).unwrap().ratio(&Polynomial::of(b).unwrap());
        let row = &w + 2;
        assert_eq!(ratio(&(&(&w * 6) + 12), &row), Some(6));
        assert_eq!(ratio(&row, &(&(&w * 6) + 12)), None);
        assert_eq!(ratio(&(&(&w * 6) + 11), &row), None);
        assert_eq!(ratio(&(&row * &h), &row), None);
        assert_eq!(ratio(&Dim::Const(12), &Dim::Const(4)), Some(3));
        assert_eq!(ratio(&Dim::Const(0), &row), None);
    }

    #[test]
    fn long_and_large_ones_are_not_written_out() {
        let sum = (0..9).fold(Dim::Const(1), |sum, n| &sum + &Dim::from(UOp::variable(&format!("n{n}"), 1, 9)));
        assert!(Polynomial::of(&(&sum * &sum)).is_some());
        assert!(Polynomial::of(&(&(&sum * &sum) * &sum)).is_none());
        let [h, _] = variables();
        assert!(Polynomial::of(&(&(&h * (i64::MAX / 2)) * 3)).is_none());
    }
}
