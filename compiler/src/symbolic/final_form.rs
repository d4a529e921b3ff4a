//! How a canonical expression is written with few operations. This runs once, after the rules.
//!
//! A sum of n terms takes n - 1 additions or subtractions, one for its constant, and a multiplication for each coefficient but 1 and -1;
//! terms of one coefficient share it. What the whole expression computes anyway is free: a sum is made of other sums of the
//! expression where that costs less ([`super::sharing`]), a quotient takes back the terms that the rules took out
//! (`i * 2 + (i + j) // 3` is `(i * 7 + j) // 3`), a comparison asks a sum that exists.
//!
//! Always: the value stays, and the rules bring the result back to the form that this started from, so simplifying twice is
//! simplifying once. Not here: whether an operation is cheap on a machine (`kernel` lowers divisions).

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::{SmallVec, smallvec};

use super::div_mod::as_remainder;
use super::given::as_max_or_min;
use super::sharing::{SumTable, merge_quotients, share_comparisons};
use super::terms::{Sum, is_linear, is_long};
use super::valid::clauses;
use crate::dtype::DType;
use crate::ir::{Op, UOp, postorder, with_mapped_sources};

/// The expression with few operations.
pub(super) fn with_few_ops(canonical: &UOp) -> UOp {
    let mut root = canonical.clone();
    let mut nodes = postorder(std::slice::from_ref(&root));
    if !nodes.iter().any(may_change) {
        return root;
    }
    let has = |op: Op| nodes.iter().any(|node| node.op() == op);
    let (compares, divides) = (has(Op::Lt), has(Op::IDiv));
    if compares {
        root = share_comparisons(&root);
    }
    if divides {
        root = merge_quotients(&root);
    }
    if root != *canonical {
        nodes = postorder(std::slice::from_ref(&root));
    }
    let done = FxHashMap::with_capacity_and_hasher(nodes.len(), FxBuildHasher);
    let mut writer = Writer { table: SumTable::of(&root, &nodes), done, sums: FxHashMap::default() };
    for node in nodes {
        let new = writer.write(&node);
        writer.done.insert(node, new);
    }
    writer.done.remove(&root).unwrap_or(root)
}

/// Whether a node is one of those that [`Writer::write`] may write otherwise than it stands.
fn may_change(node: &UOp) -> bool {
    let is_of_index = || node.src().first().is_some_and(|operand| operand.dtype() == DType::INDEX);
    match node.op() {
        Op::IDiv | Op::Mod | Op::Lt | Op::Eq | Op::Ne => is_of_index(),
        Op::Where => true,
        _ => is_linear(node),
    }
}

struct Writer {
    table: SumTable,
    /// Canonical nodes as written.
    done: FxHashMap<UOp, UOp>,
    /// The same by canonical node of a sum that is none of the expression's own.
    sums: FxHashMap<UOp, UOp>,
}

impl Writer {
    fn write(&mut self, node: &UOp) -> UOp {
        if is_linear(node) {
            // Parts of a longer sum are written with it.
            return if self.table.is_part(node) || is_long(node) {
                self.as_it_stands(node)
            } else {
                self.write_sum(node)
            };
        }
        match (node.op(), node.src()) {
            (Op::IDiv | Op::Mod, [a, c]) if c.op() == Op::Const && a.dtype() == DType::INDEX => self.division(node, a),
            (Op::Lt | Op::Eq | Op::Ne, [a, b]) if a.dtype() == DType::INDEX => self.comparison(node, a, b),
            (Op::Where, [cond, x, y]) => self.choice(node, cond, x, y),
            _ => self.as_it_stands(node),
        }
    }

    /// `a < x & x < b ? x - a : 0` is `x < b ? max(x - a, 0) : 0`, if nothing else needs the conditions.
    fn choice(&mut self, node: &UOp, cond: &UOp, x: &UOp, y: &UOp) -> UOp {
        if cond.op() != Op::And || self.table.uses_of_atom(cond) > 1 {
            return self.as_it_stands(node);
        }
        let parts = clauses(cond);
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| self.table.uses_of_atom(part) <= 1) {
            let Some(clamped) = as_max_or_min(part, x, y) else { continue };
            let written: Vec<UOp> = parts.iter().map(|part| self.done.get(part).unwrap_or(part).clone()).collect();
            let others = written.into_iter().enumerate().filter(|(other, _)| *other != number).map(|(_, part)| part);
            let Some(rest) = others.reduce(|chain, part| chain & part) else { continue };
            let (x, y) = (&self.done[x], &self.done[y]);
            return rest.select(UOp::binary(clamped.op(), x, y), y);
        }
        self.as_it_stands(node)
    }

    fn as_it_stands(&self, node: &UOp) -> UOp {
        with_mapped_sources(node, |operand| &self.done[operand])
    }

    /// `-x // c` is `x // -c`.
    fn division(&mut self, node: &UOp, dividend: &UOp) -> UOp {
        let sum = Sum::of(dividend);
        let negative = sum.constant == 0 && sum.terms.iter().all(|(_, factor)| *factor < 0);
        let divisor = node.src()[1].as_int().and_then(i64::checked_neg);
        if node.op() == Op::IDiv
            && negative
            && let (Some(divisor), Some(positive)) = (divisor, sum.times(-1))
        {
            return self.sum(&positive).idiv(divisor);
        }
        self.as_it_stands(node)
    }

    /// A difference beside 0 is a comparison of its two sides.
    fn comparison(&mut self, node: &UOp, a: &UOp, b: &UOp) -> UOp {
        let (sum, zero_first) = match (a.as_int(), b.as_int()) {
            (_, Some(0)) => (Sum::of(a), false),
            (Some(0), _) => (Sum::of(b), true),
            _ => return self.as_it_stands(node),
        };
        // A constant is most often on the other side; where the rules left it with the terms, it goes where it is positive.
        let constant = sum.constant;
        let (positive, negative): (SmallVec<_>, SmallVec<_>) =
            sum.terms.into_iter().partition(|(_, factor)| *factor > 0);
        if positive.is_empty() || negative.is_empty() || self.table.is_shared(if zero_first { b } else { a }) {
            return self.as_it_stands(node);
        }
        let left = Sum { terms: positive, constant: constant.max(0) };
        let right = Sum { terms: negative, constant: constant.min(0) }.times(-1);
        let Some(right) = right else { return self.as_it_stands(node) };
        let (left, right) = (self.sum(&left), self.sum(&right));
        if zero_first { UOp::binary(node.op(), &right, &left) } else { UOp::binary(node.op(), &left, &right) }
    }

    /// A remainder and its coefficient as they take the fewest operations: `4 * (2 * x % 5)` is `8 * x % 20`, `-(-x % c)` is `x % -c`.
    ///
    /// A negative coefficient costs nothing unless the term stands alone.
    fn remainder_term(&mut self, atom: &UOp, factor: i64, alone: bool) -> Option<(UOp, i64)> {
        if self.table.uses_of_atom(atom) > 1 {
            return None;
        }
        let (dividend, divisor) = as_remainder(atom)?;
        let cost_of = |factor: i64| (factor.abs() != 1 || alone && factor == -1) as usize;
        let mut best = (own_cost(&dividend) + cost_of(factor), None);
        for scale in [-1, factor.abs(), -factor.abs()] {
            let mut scaled = dividend.times(scale)?;
            let divisor = divisor.checked_mul(scale)?;
            for (_, own) in
                scaled.terms.iter_mut().filter(|(_, own)| *own < 0 && own.checked_mul(2) == Some(-divisor.abs()))
            {
                *own = -*own;
            }
            let cost = own_cost(&scaled) + cost_of(factor / scale);
            if cost < best.0 {
                best = (cost, Some((scaled, divisor, factor / scale)));
            }
        }
        let (dividend, divisor, factor) = best.1?;
        Some((self.sum(&dividend).modulo(divisor), factor))
    }

    fn write_sum(&mut self, node: &UOp) -> UOp {
        let (key, sum) = Sum::with_canonical_node(node);
        self.sum_of(key, &sum)
    }

    /// A sum of canonical atoms, as written.
    fn sum(&mut self, sum: &Sum) -> UOp {
        self.sum_of(sum.to_uop(), sum)
    }

    /// As [`Writer::sum`], of a sum with its canonical node.
    fn sum_of(&mut self, key: UOp, sum: &Sum) -> UOp {
        if let Some(done) = self.sums.get(&key) {
            return done.clone();
        }
        let mut rest = sum.clone();
        let mut parts: SmallVec<[(UOp, i64); 6]> = SmallVec::new();
        while let Some((part, times, left)) = self.table.best_part(&key, &rest, parts.len()) {
            parts.push((self.sum(&part), times));
            rest = left;
        }
        for (atom, factor) in &rest.terms {
            let alone = rest.terms.len() == 1 && rest.constant == 0 && parts.is_empty();
            let term = self.remainder_term(atom, *factor, alone);
            parts.push(term.unwrap_or_else(|| (self.done.get(atom).unwrap_or(atom).clone(), *factor)));
        }
        let node = write_parts(&parts, rest.constant);
        self.sums.insert(key, node.clone());
        node
    }
}

/// Terms of one coefficient, to be added and to be subtracted.
#[derive(Default)]
struct Group {
    plus: SmallVec<[UOp; 4]>,
    minus: SmallVec<[UOp; 4]>,
}

/// The sum of terms and a constant.
fn write_parts(parts: &[(UOp, i64)], constant: i64) -> UOp {
    let mut sizes: SmallVec<[i64; 6]> = SmallVec::new();
    let mut groups: SmallVec<[Group; 6]> = SmallVec::new();
    for (node, factor) in parts {
        let size = factor.saturating_abs();
        let at = sizes.iter().position(|known| *known == size).unwrap_or_else(|| {
            sizes.push(size);
            groups.push(Group::default());
            sizes.len() - 1
        });
        let side = if *factor > 0 { &mut groups[at].plus } else { &mut groups[at].minus };
        side.push(node.clone());
    }
    let mut total = Group::default();
    for (size, group) in sizes.into_iter().zip(groups) {
        match size {
            1 => {
                total.plus.extend(group.plus);
                total.minus.extend(group.minus);
            }
            _ if group.plus.is_empty() => total.minus.push(added(&group.minus) * size),
            _ => total.plus.push(difference(group) * size),
        }
    }
    if total.plus.is_empty() && constant == 0 {
        return negative(total);
    }
    if total.plus.is_empty() {
        return UOp::index(constant) - added(&total.minus);
    }
    let node = difference(total);
    if constant == 0 { node } else { node + constant }
}

/// Minus all of these: through a coefficient, where there is one.
fn negative(total: Group) -> UOp {
    let scaled = total.minus.iter().position(|node| node.op() == Op::Mul && node.src()[1].as_int().is_some());
    let Some(at) = scaled else {
        return if total.minus.is_empty() { UOp::index(0) } else { added(&total.minus).negate() };
    };
    let mut minus = total.minus;
    let multiple = minus.remove(at);
    let factor = multiple.src()[1].as_int().unwrap_or(1);
    let first = &multiple.src()[0] * -factor;
    if minus.is_empty() { first } else { first - added(&minus) }
}

fn added(nodes: &[UOp]) -> UOp {
    let mut nodes = nodes.iter().cloned();
    let first = nodes.next().unwrap_or_else(|| UOp::index(0));
    nodes.fold(first, |sum, node| sum + node)
}

fn difference(group: Group) -> UOp {
    let sum = added(&group.plus);
    group.minus.iter().fold(sum, |sum, node| sum - node)
}

/// The additions, subtractions and multiplications of a sum that shares nothing.
pub(super) fn own_cost(sum: &Sum) -> usize {
    let mut sizes: SmallVec<[i64; 8]> = smallvec![1];
    for (_, factor) in &sum.terms {
        if !sizes.contains(&factor.saturating_abs()) {
            sizes.push(factor.saturating_abs());
        }
    }
    let all_negative = sum.constant == 0 && sizes.len() == 1 && sum.terms.iter().all(|(_, factor)| *factor < 0);
    let additions = (sum.terms.len() + (sum.constant != 0) as usize).saturating_sub(1);
    additions + sizes.len() - 1 + (all_negative && !sum.terms.is_empty()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;
    use crate::ir::evaluate;

    /// Terms that go back into a quotient leave a constant beside those that are compared.
    #[test]
    fn a_constant_beside_compared_terms_stays() {
        let (x, y) = (UOp::variable("x", -9, 9), UOp::variable("y", -5, 5));
        let terms = &(&x * 3) - &(&y * 2);
        for constant in [-14, -1, 1, 14] {
            let sum = &terms + constant;
            for expr in [sum.lt(0), UOp::index(0).lt(&sum), sum.equals(0), UOp::binary(Op::Ne, &sum, &UOp::index(0))] {
                let written = with_few_ops(&expr);
                for (at_x, at_y) in (-9..=9).flat_map(|x| (-5..=5).map(move |y| (x, y))) {
                    let number = |leaf: &UOp| Some(Scalar::Int(if *leaf == x { at_x } else { at_y }));
                    assert_eq!(
                        evaluate(&written, number),
                        evaluate(&expr, number),
                        "{} at {at_x}, {at_y}",
                        expr.infix()
                    );
                }
            }
        }
    }
}
