//! Periodic sets of integers as the elements of one period: what unions, intersections and differences of nested stripes are.
//!
//! A periodic set is a finite set in `0..period` that repeats. Operations on two of them first repeat both to the
//! least common multiple of their periods, so a result has as many pieces as the strides force on it.

use super::budget::{Budget, TooComplex};
use super::integer::lcm;
use super::integer_set::IntegerSet;
use super::nested_stripes::NestedStripes;
use super::progression::{Digit, Digits, Progression};

/// A set of integers that repeats every `period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicSet {
    period: i64,
    elements: IntegerSet,
}

impl From<&NestedStripes> for PeriodicSet {
    fn from(stripes: &NestedStripes) -> Self {
        let elements = IntegerSet::from_disjoint(stripes.pieces(0, stripes.period()));
        PeriodicSet { period: stripes.period(), elements }
    }
}

impl PeriodicSet {
    /// The union of sets of nested stripes; of none, no integers.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn union_of(nested: &[NestedStripes], budget: &mut Budget) -> Result<Self, TooComplex> {
        let empty = PeriodicSet { period: 1, elements: IntegerSet::empty() };
        nested.iter().try_fold(empty, |union, stripes| union.union(&PeriodicSet::from(stripes), budget))
    }

    /// The period; not always the shortest.
    #[must_use]
    pub fn period(&self) -> i64 {
        self.period
    }

    /// The elements in `0..period`.
    #[must_use]
    pub fn elements(&self) -> &IntegerSet {
        &self.elements
    }

    /// The integers in both.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn intersect(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let (period, ours, theirs) = self.aligned(other)?;
        Ok(PeriodicSet { period, elements: ours.intersect(&theirs, budget)? })
    }

    /// The integers of this set that are not in `other`.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn subtract(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let (period, ours, theirs) = self.aligned(other)?;
        Ok(PeriodicSet { period, elements: ours.subtract(&theirs, budget)? })
    }

    /// The integers in either.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn union(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let (period, ours, theirs) = self.aligned(other)?;
        Ok(PeriodicSet { period, elements: ours.union(&theirs, budget)? })
    }

    /// All other integers.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn complement(&self, budget: &mut Budget) -> Result<Self, TooComplex> {
        Ok(PeriodicSet { period: self.period, elements: self.elements.complement(0, self.period, budget)? })
    }

    /// The set as disjoint sets of nested stripes, one a piece.
    #[must_use]
    pub fn to_nested_stripes(&self) -> Vec<NestedStripes> {
        self.elements.pieces().iter().map(|piece| piece.to_nested_stripes(self.period)).collect()
    }

    /// Both sets over a common period.
    fn aligned(&self, other: &Self) -> Result<(i64, IntegerSet, IntegerSet), TooComplex> {
        let period = lcm(self.period, other.period).ok_or(TooComplex)?;
        Ok((period, self.repeated(period), other.repeated(period)))
    }

    fn repeated(&self, period: i64) -> IntegerSet {
        let times = period / self.period;
        if times == 1 {
            return self.elements.clone();
        }
        let repeat = |piece: &Progression| {
            let outer = Digit { stride: self.period, size: times };
            let digits: Digits = std::iter::once(outer).chain(piece.digits().iter().copied()).collect();
            Progression::lawful(piece.first(), digits).merged()
        };
        IntegerSet::from_disjoint(self.elements.pieces().iter().map(repeat).collect())
    }
}
