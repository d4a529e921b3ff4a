//! Sums of lengths in which what cancels is gone: `(start + len) - start` is `len`, whatever expressions these are.
//!
//! The shapes of parts and of padded tensors are such sums, so this keeps them short and lets equal lengths look equal. An *atom* is a
//! node that is no sum, difference or multiple by a number.
//! Not here: all else that makes an expression shorter (`symbolic`, which stands above). Tests: below.

use smallvec::SmallVec;

use super::dim::Dim;
use super::op::Op;
use super::uop::UOp;

/// Sums of more atoms are left as they are written.
const ATOMS_MAX: usize = 16;

/// Atoms with factors, in the order in which they are met, and a number.
struct Sum {
    terms: SmallVec<[(UOp, i64); 4]>,
    number: i64,
    /// Atoms and numbers met so far, repeats counted.
    met: usize,
}

impl Sum {
    fn add(&mut self, node: &UOp, factor: i64) -> Option<()> {
        let mut pending: SmallVec<[(UOp, i64); 8]> = SmallVec::from_elem((node.clone(), factor), 1);
        while let Some((node, factor)) = pending.pop() {
            match (node.op(), node.src()) {
                (Op::Add, [a, b]) => pending.extend([(b.clone(), factor), (a.clone(), factor)]),
                (Op::Sub, [a, b]) => pending.extend([(b.clone(), factor.checked_neg()?), (a.clone(), factor)]),
                (Op::Mul, [a, b]) if b.as_int().is_some() => {
                    pending.push((a.clone(), factor.checked_mul(b.as_int()?)?));
                }
                _ => self.add_atom(node, factor)?,
            }
        }
        Some(())
    }

    fn add_atom(&mut self, atom: UOp, factor: i64) -> Option<()> {
        self.met += 1;
        if let Some(value) = atom.as_int() {
            self.number = self.number.checked_add(value.checked_mul(factor)?)?;
        } else if let Some((_, known)) = self.terms.iter_mut().find(|(known, _)| *known == atom) {
            *known = known.checked_add(factor)?;
        } else {
            self.terms.push((atom, factor));
        }
        (self.met <= ATOMS_MAX).then_some(())
    }

    /// The sum as an expression: what is added first, what is subtracted after it, the number last.
    fn to_dim(&self) -> Dim {
        let times = |atom: &UOp, factor: i64| if factor == 1 { atom.clone() } else { atom * factor };
        let (added, taken): (Vec<_>, Vec<_>) =
            self.terms.iter().filter(|(_, factor)| *factor != 0).partition(|(_, factor)| *factor > 0);
        let mut total = added.into_iter().map(|(atom, factor)| times(atom, *factor)).reduce(|sum, term| sum + term);
        for (atom, factor) in taken {
            let term = times(atom, factor.saturating_neg());
            total = Some(total.unwrap_or_else(|| UOp::index(0)) - term);
        }
        match (total, self.number) {
            (None, number) => Dim::Const(number),
            (Some(total), 0) => Dim::from(total),
            (Some(total), number) if number < 0 => Dim::from(total - number.saturating_neg()),
            (Some(total), number) => Dim::from(total + number),
        }
    }
}

/// `a + factor b`, if terms of it cancel or join; `None` if it is best written as it is.
pub(super) fn joined(a: &Dim, b: &Dim, factor: i64) -> Option<Dim> {
    let mut sum = Sum { terms: SmallVec::new(), number: 0, met: 0 };
    sum.add(&a.to_uop(), 1)?;
    sum.add(&b.to_uop(), factor)?;
    let left = sum.terms.iter().filter(|(_, factor)| *factor != 0).count() + usize::from(sum.number != 0);
    (left < sum.met).then(|| sum.to_dim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cancels_is_gone_and_all_else_stays_as_it_is_written() {
        let [n, m] = ["n", "m"].map(|name| Dim::from(UOp::variable(name, 1, 9)));
        assert_eq!((&n - 1 + 1) - (&n - 1), Dim::Const(1));
        assert_eq!((&m + &n) - &m, n);
        assert_eq!(&(&n * 2 + 3) - &(&n + 5), &n - 2);
        assert_eq!((&n - 2).to_string(), "(n - 2)");
        assert_eq!((&n * 2 + &m).to_string(), "((n * 2) + m)");
        assert_eq!(&m - &(&n + &m), Dim::Const(0) - &n);
        assert_eq!((&n * &m + 1) - &n * &m, Dim::Const(1));
    }
}
