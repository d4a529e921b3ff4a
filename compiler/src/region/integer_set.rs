//! Finite sets of integers as lists of disjoint progressions, with the operations of sets.
//!
//! Unions are made disjoint by taking away what is there already, so counts are sums. The number of pieces is no normal
//! form: two equal sets can be cut differently, and equality is asked with [`IntegerSet::contains_set`] both ways.

use super::budget::{Answer, Budget, TooComplex};
use super::meet::meet;
use super::progression::{Digit, Digits, Progression};
use super::selection::Selection;
use super::strided::Strided;

/// A finite set of integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegerSet {
    pieces: Vec<Progression>,
}

impl IntegerSet {
    /// A set may not have more pieces than this.
    pub const MOST_PIECES: usize = 1 << 15;

    /// The empty set.
    #[must_use]
    pub fn empty() -> Self {
        IntegerSet::default()
    }

    /// `lower..upper`.
    #[must_use]
    pub fn range(lower: i64, upper: i64) -> Self {
        Self::from_disjoint(if lower < upper { vec![Progression::run(lower, upper - lower)] } else { Vec::new() })
    }

    /// From progressions known to be disjoint.
    #[must_use]
    pub fn from_disjoint(pieces: Vec<Progression>) -> Self {
        IntegerSet { pieces }
    }

    /// From any progressions.
    ///
    /// # Errors
    /// When the union would cost more than the budget.
    pub fn union_of(pieces: impl IntoIterator<Item = Progression>, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut pieces: Vec<Progression> = pieces.into_iter().map(|piece| piece.merged()).collect();
        pieces.sort_unstable();
        pieces.dedup();
        // The largest first: what is inside it then vanishes at once.
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.count()));
        let mut set = IntegerSet::empty();
        for piece in pieces {
            set = set.union(&IntegerSet::from_disjoint(vec![piece]), budget)?;
        }
        Ok(set)
    }

    /// The disjoint pieces.
    #[must_use]
    pub fn pieces(&self) -> &[Progression] {
        &self.pieces
    }

    /// No integer is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many integers are in the set.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.pieces.iter().map(Progression::count).sum()
    }

    /// Whether `value` is in the set.
    #[must_use]
    pub fn contains(&self, value: i64) -> bool {
        self.pieces.iter().any(|piece| piece.contains(value))
    }

    /// The smallest element.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        self.pieces.iter().map(Progression::first).min()
    }

    /// The largest element.
    #[must_use]
    pub fn last(&self) -> Option<i64> {
        self.pieces.iter().map(Progression::last).max()
    }

    /// The elements, ascending.
    #[must_use]
    pub fn elements(&self) -> Vec<i64> {
        let mut elements: Vec<i64> =
            self.pieces.iter().flat_map(|piece| piece.elements().collect::<Vec<_>>()).collect();
        elements.sort_unstable();
        elements
    }

    /// The integers in both.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn intersect(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut pieces = Vec::new();
        for left in &self.pieces {
            for right in &other.pieces {
                budget.spend(1)?;
                if left.first() <= right.last() && right.first() <= left.last() {
                    meet(left, right, budget, &mut |meeting| pieces.push(meeting.progression().merged()))?;
                    limit(&pieces)?;
                }
            }
        }
        Ok(IntegerSet { pieces })
    }

    /// The integers of this set that are not in `other`.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn subtract(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut pieces = self.pieces.clone();
        for taken in &other.pieces {
            let mut left = Vec::with_capacity(pieces.len());
            for piece in pieces {
                budget.spend(1)?;
                if piece == *taken {
                    continue;
                }
                // A piece that surely avoids `taken` stays whole, whatever their strides.
                if Strided::from(&piece).meets(&Strided::from(taken), budget) == Answer::No {
                    left.push(piece);
                    continue;
                }
                let (lower, upper) = (piece.first().min(taken.first()), piece.last().max(taken.last()) + 1);
                for outside in taken.complement(lower, upper) {
                    meet(&piece, &outside, budget, &mut |meeting| left.push(meeting.progression().merged()))?;
                }
            }
            limit(&left)?;
            pieces = left;
        }
        Ok(IntegerSet { pieces })
    }

    /// The integers in either.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn union(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let added = other.subtract(self, budget)?;
        let mut pieces = self.pieces.clone();
        pieces.extend(added.pieces);
        limit(&pieces)?;
        Ok(IntegerSet { pieces })
    }

    /// The integers of `lower..upper` that are not in the set.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn complement(&self, lower: i64, upper: i64, budget: &mut Budget) -> Result<Self, TooComplex> {
        Self::range(lower, upper).subtract(self, budget)
    }

    /// Whether every integer of `other` is in this set.
    #[must_use]
    pub fn contains_set(&self, other: &Self, budget: &mut Budget) -> Answer {
        // A piece that starts outside is quickly found.
        if other.pieces.iter().any(|piece| !self.contains(piece.first()) || !self.contains(piece.last())) {
            return Answer::No;
        }
        other.subtract(self, budget).map_or(Answer::Unknown, |rest| Answer::from_bool(rest.is_empty()))
    }

    /// Whether no integer is in both.
    #[must_use]
    pub fn disjoint(&self, other: &Self, budget: &mut Budget) -> Answer {
        for left in &self.pieces {
            let ours = Strided::from(left);
            for right in &other.pieces {
                match ours.meets(&Strided::from(right), budget) {
                    Answer::No => {}
                    Answer::Yes => return Answer::No,
                    Answer::Unknown => return Answer::Unknown,
                }
            }
        }
        Answer::Yes
    }

    /// The set `{ pivot - 1 - x }`.
    #[must_use]
    pub fn reversed(&self, pivot: i64) -> Self {
        IntegerSet { pieces: self.pieces.iter().map(|piece| piece.reversed(pivot)).collect() }
    }

    /// The ranks in `selection` of the selected integers that are in this set.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn sample(&self, selection: &Selection, budget: &mut Budget) -> Result<Self, TooComplex> {
        self.carry(selection, budget, |piece| (piece.elements(), piece.ranks()))
    }

    /// The selected integers whose ranks are in this set.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn fill(&self, selection: &Selection, budget: &mut Budget) -> Result<Self, TooComplex> {
        self.carry(selection, budget, |piece| (piece.ranks(), piece.elements()))
    }

    /// Meets the set with one side of each piece of a selection and gives what stands on the other side.
    fn carry(
        &self,
        selection: &Selection,
        budget: &mut Budget,
        sides: impl Fn(&super::selection::RankedPiece) -> (Progression, Progression),
    ) -> Result<Self, TooComplex> {
        let mut pieces = Vec::new();
        for selected in selection.pieces() {
            let (here, there) = sides(selected);
            for piece in &self.pieces {
                meet(piece, &here, budget, &mut |meeting| {
                    let moved: i64 = meeting.right_start.iter().zip(there.digits()).map(|(n, d)| n * d.stride).sum();
                    let digits: Digits = meeting
                        .steps
                        .iter()
                        .map(|s| Digit { stride: there.digits()[s.right.digit].stride * s.right.factor, size: s.size })
                        .collect();
                    pieces.push(Progression::lawful(there.first() + moved, digits).merged());
                })?;
                limit(&pieces)?;
            }
        }
        Ok(IntegerSet { pieces })
    }
}

fn limit(pieces: &[Progression]) -> Result<(), TooComplex> {
    if pieces.len() > IntegerSet::MOST_PIECES { Err(TooComplex) } else { Ok(()) }
}
