//! Index sums as terms with coefficients: `i * 4 + j - 3` is the terms (i, 4) and (j, 1) and the constant -3.
//!
//! A *term* is an *atom* (a node that is no sum and no multiple) times a coefficient that is not 0. A [`Sum`] lists each atom
//! once, in the order of [`atom_order`], so that equal sums are equal lists. The *canonical node* of a sum is the chain
//! `((a * 4 + b) + c * -1) + 7`: terms in order, the constant last, no `sub`, no `neg`. Rules work on sums and on canonical
//! nodes; how few ops a sum can be written with is decided once, at the end (`shape`).
//!
//! Always: atoms are of dtype `Index`, whose arithmetic does not wrap; where a coefficient would leave `i64`, the node stays
//! an atom. Tested: terms have the value of the node they are of (`rewrite_keeps_value` of the test crate).

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::dtype::DType;
use crate::ir::{Arg, Facts, Op, UOp, gcd, postorder_until};

/// Longer sums are left as they are written: a sum is built term by term, so canonical order costs the square of its length.
const TERMS_MAX: usize = 64;

/// Atoms with integer coefficients, and a constant.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) terms: SmallVec<[(UOp, i64); 6]>,
    pub(super) constant: i64,
}

/// The sum that an expression is: atoms with integer coefficients, in canonical order, and the constant.
///
/// Looks through additions, subtractions, negations and multiplications by constants of dtype `Index`; anything else is an atom.
pub fn linear_terms(expr: &UOp) -> (Vec<(UOp, i64)>, i64) {
    let sum = Sum::of(expr);
    (sum.terms.into_vec(), sum.constant)
}

/// Orders atoms the same way in every process: leaves first, by number or name; then by op and content.
pub(super) fn atom_order(a: &UOp, b: &UOp) -> Ordering {
    let rank = |node: &UOp| match node.op() {
        Op::Variable | Op::Bind => 0,
        Op::Range => 1,
        op if op.class() == crate::ir::Class::Leaf => 2,
        _ => 3,
    };
    rank(a)
        .cmp(&rank(b))
        .then_with(|| match (a.arg(), b.arg()) {
            (Arg::Variable(a), Arg::Variable(b)) => a.name.cmp(&b.name),
            (Arg::Range(a), Arg::Range(b)) => a.id.cmp(&b.id),
            _ => a.op().cmp(&b.op()),
        })
        .then_with(|| a.structural_hash().cmp(&b.structural_hash()))
}

/// The operand and factor of a node that is a multiple of another, or its negative.
fn as_multiple(node: &UOp) -> Option<(&UOp, i64)> {
    match (node.op(), node.src()) {
        (Op::Neg, [a]) => Some((a, -1)),
        (Op::Mul, [a, b]) => match (a.as_int(), b.as_int()) {
            (_, Some(factor)) => Some((a, factor)),
            (Some(factor), None) => Some((b, factor)),
            (None, None) => None,
        },
        _ => None,
    }
}

pub(super) fn is_linear(node: &UOp) -> bool {
    node.dtype() == DType::INDEX && (matches!(node.op(), Op::Add | Op::Sub) || as_multiple(node).is_some())
}

impl Sum {
    /// A constant.
    pub(super) fn constant(constant: i64) -> Sum {
        Sum { terms: SmallVec::new(), constant }
    }

    /// One atom.
    pub(super) fn atom(atom: UOp) -> Sum {
        match atom.as_int() {
            Some(value) => Sum::constant(value),
            None => Sum { terms: smallvec![(atom, 1)], constant: 0 },
        }
    }

    /// The sum that a node is.
    pub(super) fn of(node: &UOp) -> Sum {
        if !is_linear(node) {
            return Sum::atom(node.clone());
        }
        Sum::of_canonical(node).or_else(|| Sum::collect(node)).unwrap_or_else(|| Sum::atom(node.clone()))
    }

    /// As [`Sum::of`], with the canonical node of the sum: most often the node itself.
    pub(super) fn with_canonical_node(node: &UOp) -> (UOp, Sum) {
        if let Some(sum) = Sum::of_canonical(node) {
            return (node.clone(), sum);
        }
        let sum = Sum::of(node);
        (sum.to_uop(), sum)
    }

    /// The sum of a canonical node, read off its chain; `None` if the node is not canonical.
    fn of_canonical(node: &UOp) -> Option<Sum> {
        let mut sum = Sum::default();
        let mut chain = node;
        if node.op() == Op::Add
            && let Some(constant) = node.src()[1].as_int()
        {
            sum.constant = constant;
            chain = &node.src()[0];
        }
        loop {
            let (rest, term) = match chain.op() {
                Op::Add => (Some(&chain.src()[0]), &chain.src()[1]),
                _ => (None, chain),
            };
            let (atom, factor) = as_multiple(term).unwrap_or((term, 1));
            let in_order = sum.terms.last().is_none_or(|(last, _)| atom_order(atom, last).is_lt());
            if is_linear(atom) || atom.op() == Op::Const || factor == 0 || !in_order || sum.terms.len() > TERMS_MAX {
                return None;
            }
            sum.terms.push((atom.clone(), factor));
            match rest {
                Some(rest) => chain = rest,
                None => break,
            }
        }
        sum.terms.reverse();
        Some(sum)
    }

    /// Walks the sum from the top, the coefficient of each node being known when all its users are done. `None` on overflow.
    fn collect(root: &UOp) -> Option<Sum> {
        let mut atoms: FxHashMap<UOp, i64> = FxHashMap::default();
        let mut order: Vec<UOp> = Vec::new();
        let mut constant: i64 = 0;
        let mut coefficients: FxHashMap<UOp, i64> = FxHashMap::default();
        coefficients.insert(root.clone(), 1);
        for node in postorder_until(std::slice::from_ref(root), |node| !is_linear(node)).into_iter().rev() {
            let Some(&factor) = coefficients.get(&node) else { continue };
            if let Some(value) = node.as_int() {
                constant = constant.checked_add(value.checked_mul(factor)?)?;
            } else if !is_linear(&node) {
                if atoms.insert(node.clone(), factor).is_none() {
                    order.push(node);
                }
            } else {
                let (first, second) = match (node.op(), as_multiple(&node)) {
                    (_, Some((operand, multiple))) => ((operand, factor.checked_mul(multiple)?), None),
                    (Op::Sub, None) => ((&node.src()[0], factor), Some((&node.src()[1], factor.checked_neg()?))),
                    (_, None) => ((&node.src()[0], factor), Some((&node.src()[1], factor))),
                };
                for (operand, factor) in [Some(first), second].into_iter().flatten() {
                    let known = coefficients.entry(operand.clone()).or_insert(0);
                    *known = known.checked_add(factor)?;
                }
            }
        }
        let mut terms: SmallVec<[(UOp, i64); 6]> =
            order.into_iter().map(|atom| (atom.clone(), atoms[&atom])).filter(|(_, factor)| *factor != 0).collect();
        terms.sort_by(|a, b| atom_order(&a.0, &b.0));
        Some(Sum { terms, constant })
    }

    /// The coefficient of an atom, 0 if it does not occur.
    pub(super) fn factor_of(&self, atom: &UOp) -> i64 {
        self.terms.iter().find(|(known, _)| known == atom).map_or(0, |(_, factor)| *factor)
    }

    /// This plus `factor` times the other. `None` on overflow.
    pub(super) fn plus(&self, other: &Sum, factor: i64) -> Option<Sum> {
        let mut terms: SmallVec<[(UOp, i64); 6]> = SmallVec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) if a.0 == b.0 => Ordering::Equal,
                // Two atoms with one structural hash are all but impossible, and then stand beside each other in any order.
                (Some(a), Some(b)) => atom_order(&a.0, &b.0).then(Ordering::Less),
            };
            let (mut atom, mut total) = (None, 0i64);
            if order.is_le()
                && let Some((node, own)) = left.next()
            {
                (atom, total) = (Some(node), *own);
            }
            if order.is_ge()
                && let Some((node, own)) = right.next()
            {
                (atom, total) = (Some(node), total.checked_add(own.checked_mul(factor)?)?);
            }
            if let Some(node) = atom
                && total != 0
            {
                terms.push((node.clone(), total));
            }
        }
        let constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        Some(Sum { terms, constant })
    }

    /// This times a number. `None` on overflow.
    pub(super) fn times(&self, factor: i64) -> Option<Sum> {
        Sum::default().plus(self, factor)
    }

    /// Coefficients and constant divided by a number that divides them all.
    pub(super) fn divided(&self, by: i64) -> Sum {
        let terms = self.terms.iter().map(|(atom, factor)| (atom.clone(), factor / by)).collect();
        Sum { terms, constant: self.constant / by }
    }

    /// This plus a number. `None` on overflow.
    pub(super) fn shifted(mut self, by: i64) -> Option<Sum> {
        self.constant = self.constant.checked_add(by)?;
        Some(self)
    }

    /// Without the constant.
    pub(super) fn without_constant(&self) -> Sum {
        Sum { terms: self.terms.clone(), constant: 0 }
    }

    /// The greatest common divisor of the coefficients, 0 without terms.
    pub(super) fn gcd_of_factors(&self) -> i64 {
        self.terms.iter().fold(0, |known, (_, factor)| gcd(known, *factor))
    }

    /// Bounds of the value; `None` if they leave `i64`, or if an atom's do.
    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (self.constant, self.constant);
        for (atom, factor) in &self.terms {
            let facts = atom.facts();
            if facts.min == i64::MIN || facts.max == i64::MAX {
                return None;
            }
            let ends = (facts.min.checked_mul(*factor)?, facts.max.checked_mul(*factor)?);
            low = low.checked_add(ends.0.min(ends.1))?;
            high = high.checked_add(ends.0.max(ends.1))?;
        }
        Some((low, high))
    }

    /// What is known of the value.
    pub(super) fn facts(&self) -> Facts {
        self.terms.iter().fold(Facts::exactly(self.constant), |known, (atom, factor)| {
            let of = |op, a, b| Facts::of_op(op, DType::INDEX, DType::INDEX, &[a, b]);
            of(Op::Add, known, of(Op::Mul, atom.facts(), Facts::exactly(*factor)))
        })
    }

    /// The canonical node.
    pub(super) fn to_uop(&self) -> UOp {
        let mut node: Option<UOp> = None;
        for (atom, factor) in &self.terms {
            let term = if *factor == 1 { atom.clone() } else { atom * *factor };
            node = Some(match node {
                Some(node) => node + term,
                None => term,
            });
        }
        match node {
            Some(node) if self.constant == 0 => node,
            Some(node) => node + self.constant,
            None => UOp::index(self.constant),
        }
    }
}

/// Whether a chain of additions is too long to be put in order.
pub(super) fn is_long(node: &UOp) -> bool {
    let mut terms = 0;
    let mut pending: SmallVec<[&UOp; 8]> = smallvec![node];
    while let Some(node) = pending.pop() {
        if is_linear(node) {
            pending.extend(node.src());
        } else {
            terms += 1;
            if terms > TERMS_MAX {
                return true;
            }
        }
    }
    false
}

/// The canonical node of a sum; `None` if the node is that already, or the sum is long.
pub(super) fn canonical_sum(root: &UOp) -> Option<UOp> {
    if !is_linear(root) || is_long(root) {
        return None;
    }
    let canonical = Sum::of_canonical(root);
    let sum = match &canonical {
        Some(sum) => sum.clone(),
        None => Sum::collect(root)?,
    };
    let joined = super::recombine::recombine(sum);
    if canonical.is_some_and(|canonical| canonical == joined) { None } else { Some(joined.to_uop()) }
}
