//! Periodic sets as stripes nested into each other, outermost first (the design that they come from calls one a *sett*).
//!
//! The local coordinate of a stripe is the distance from its parent's last start: `r = (z - phase) mod period`, and `z`
//! is in the periodic set if `r < on` at every level. The nested pattern thus restarts at every start of its parent. No
//! stripes: all integers.
//!
//! ```text
//! (10,5,0)         1111111111.....1111111111.....
//! (10,5,0)(2,1,1)  .11.11.11......11.11.11.......
//! ```
//!
//! Nesting is not intersection, and the order matters. Sets equal in their elements can differ in their stripes, so
//! equality of elements is [`NestedStripes::equivalent`], never `==`. Every question here is decided without enumerating a
//! common period.

use super::budget::{Answer, Budget};
use super::integer::gcd;
use super::progression::Progression;
use super::selection::Selection;
use super::strided::Strided;
use super::stripe::{Stripe, StripeError};

/// A set of integers described by nested stripes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct NestedStripes {
    stripes: Vec<Stripe>,
}

/// Counts of a level, so that a count over any range is a walk over the levels.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Elements in one run of the level's stripe.
    in_run: i128,
    /// Elements from the start of run 0 to the origin of the level's coordinate; negative or zero.
    at_origin: i128,
}

impl NestedStripes {
    /// All integers.
    #[must_use]
    pub fn all() -> Self {
        NestedStripes::default()
    }

    /// No integer.
    #[must_use]
    pub fn empty() -> Self {
        NestedStripes { stripes: vec![Stripe::lawful(0, 1, 0)] }
    }

    /// Nested stripes, outermost first.
    #[must_use]
    pub fn new(stripes: Vec<Stripe>) -> Self {
        NestedStripes { stripes }
    }

    /// Nested stripes given as `(on, off, phase)`, outermost first.
    ///
    /// # Errors
    /// If one of them is no stripe.
    pub fn from_triples(triples: &[(i64, i64, i64)]) -> Result<Self, StripeError> {
        let stripes = triples.iter().map(|&(on, off, phase)| Stripe::new(on, off, phase)).collect::<Result<_, _>>()?;
        Ok(NestedStripes { stripes })
    }

    /// The stripes, outermost first.
    #[must_use]
    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// The period of the outermost stripe; 1 without stripes.
    #[must_use]
    pub fn period(&self) -> i64 {
        self.stripes.first().map_or(1, Stripe::period)
    }

    /// Whether `z` is in the set.
    #[must_use]
    pub fn contains_element(&self, z: i64) -> bool {
        let mut local = z;
        self.stripes.iter().all(|stripe| {
            local = stripe.local(local);
            local < stripe.on()
        })
    }

    /// The levels' counts, outermost first.
    fn levels(&self) -> Vec<Level> {
        let mut levels = vec![Level { in_run: 0, at_origin: 0 }; self.stripes.len()];
        for depth in (0..self.stripes.len()).rev() {
            let stripe = self.stripes[depth];
            levels[depth].in_run = self.before(&levels, depth + 1, stripe.on().into());
            levels[depth].at_origin = self.after_run_zero(&levels, depth, -i128::from(stripe.phase()));
        }
        levels
    }

    /// Elements of the stripes from `depth` on in `0..end` of their coordinate; negative counts for a negative end.
    fn before(&self, levels: &[Level], depth: usize, end: i128) -> i128 {
        match self.stripes.get(depth) {
            None => end,
            Some(stripe) => {
                self.after_run_zero(levels, depth, end - i128::from(stripe.phase())) - levels[depth].at_origin
            }
        }
    }

    /// Elements from the start of the run at the phase to `distance` behind it.
    fn after_run_zero(&self, levels: &[Level], depth: usize, distance: i128) -> i128 {
        let stripe = self.stripes[depth];
        let period = i128::from(stripe.period());
        let (runs, rest) = (distance.div_euclid(period), distance.rem_euclid(period));
        runs * levels[depth].in_run + self.before(levels, depth + 1, rest.min(stripe.on().into()))
    }

    /// How many elements lie in `lower..upper`; 0 if the range is empty.
    #[must_use]
    pub fn count(&self, lower: i64, upper: i64) -> i128 {
        if upper <= lower {
            return 0;
        }
        let levels = self.levels();
        self.before(&levels, 0, upper.into()) - self.before(&levels, 0, lower.into())
    }

    /// The element with `n` elements between it and 0: number 0 is the first at or after 0, number -1 the last before
    /// 0. None if the set is empty, or that element is beyond 64 bits.
    #[must_use]
    pub fn nth_on(&self, n: i64) -> Option<i64> {
        self.ranked(&self.levels(), n.into())
    }

    fn ranked(&self, levels: &[Level], n: i128) -> Option<i64> {
        let mut rank = n;
        let mut position = 0;
        for (stripe, level) in self.stripes.iter().zip(levels) {
            if level.in_run == 0 {
                return None;
            }
            let from_run_zero = rank + level.at_origin;
            position +=
                i128::from(stripe.phase()) + from_run_zero.div_euclid(level.in_run) * i128::from(stripe.period());
            rank = from_run_zero.rem_euclid(level.in_run);
        }
        i64::try_from(position + rank).ok()
    }

    /// The first element at or after `from`. None if the set is empty, or that element is beyond 64 bits.
    #[must_use]
    pub fn next_on(&self, from: i64) -> Option<i64> {
        let levels = self.levels();
        self.ranked(&levels, self.before(&levels, 0, from.into()))
    }

    /// No integer is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count(0, self.period()) == 0
    }

    /// Every integer is in the set.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.count(0, self.period()) == i128::from(self.period())
    }

    /// The set `{ pivot - 1 - z }`.
    #[must_use]
    pub fn reverse(&self, pivot: i64) -> Self {
        let mut pivot = pivot;
        let reversed = self.stripes.iter().map(|stripe| {
            // The end of a run is where the mirrored run starts.
            let start = pivot.rem_euclid(stripe.period()) - stripe.phase() - stripe.on();
            pivot = stripe.on();
            Stripe::lawful(stripe.on(), stripe.off(), start)
        });
        NestedStripes { stripes: reversed.collect() }
    }

    /// The set moved by `distance`.
    #[must_use]
    pub fn shifted(&self, distance: i64) -> Self {
        let mut stripes = self.stripes.clone();
        if let Some(outer) = stripes.first_mut() {
            *outer = Stripe::lawful(outer.on(), outer.off(), outer.phase() + distance.rem_euclid(outer.period()));
        }
        NestedStripes { stripes }
    }

    /// Disjoint periodic sets that hold all other integers, at most one a stripe.
    #[must_use]
    pub fn complement(&self) -> Vec<Self> {
        let outside = |depth: usize| {
            let stripe = self.stripes[depth];
            let mut stripes = self.stripes[..depth].to_vec();
            stripes.push(stripe.complement());
            NestedStripes { stripes }
        };
        let pieces = (0..self.stripes.len()).filter(|&depth| !self.stripes[depth].is_always_on());
        pieces.map(outside).collect()
    }

    /// Whether no integer is in both. Exact for all periods: two runs meet if and only if they meet modulo the greatest
    /// common divisor of the periods, and that is a bounded search.
    #[must_use]
    pub fn disjoint(&self, other: &Self) -> Answer {
        let divisor = gcd(self.period(), other.period());
        // Elements of one period each, which may lie at most this many divisors apart.
        let turns = self.period().max(other.period()) / divisor + 1;
        let ours = Selection::of_stripes(self, 0, self.period());
        let theirs = Selection::of_stripes(other, 0, other.period());
        let mut budget = Budget::for_sets();
        for piece in ours.pieces() {
            let spread = Strided::spread(&piece.elements(), -turns * divisor, divisor, 2 * turns + 1);
            for other in theirs.pieces() {
                match spread.meets(&Strided::from(&other.elements()), &mut budget) {
                    Answer::No => {}
                    Answer::Yes => return Answer::No,
                    Answer::Unknown => return Answer::Unknown,
                }
            }
        }
        Answer::Yes
    }

    /// Whether every integer of `other` is in this set: whether `other` avoids each piece of the complement.
    #[must_use]
    pub fn contains(&self, other: &Self) -> Answer {
        let mut answer = Answer::Yes;
        for piece in self.complement() {
            match piece.disjoint(other) {
                Answer::Yes => {}
                Answer::No => return Answer::No,
                Answer::Unknown => answer = Answer::Unknown,
            }
        }
        answer
    }

    /// Whether both hold the same integers.
    #[must_use]
    pub fn equivalent(&self, other: &Self) -> Answer {
        match self.contains(other) {
            Answer::Yes => other.contains(self),
            answer => answer,
        }
    }

    /// The elements in `lower..upper` as disjoint progressions.
    #[must_use]
    pub fn pieces(&self, lower: i64, upper: i64) -> Vec<Progression> {
        Selection::of_stripes(self, lower, upper).pieces().iter().map(|piece| piece.elements().merged()).collect()
    }

    /// The elements in `lower..upper`, ascending.
    #[must_use]
    pub fn elements(&self, lower: i64, upper: i64) -> Vec<i64> {
        let mut elements: Vec<i64> =
            self.pieces(lower, upper).iter().flat_map(|p| p.elements().collect::<Vec<_>>()).collect();
        elements.sort_unstable();
        elements
    }
}

impl Progression {
    /// The periodic set that repeats this set every `period`, which must be longer than the set reaches.
    #[must_use]
    pub fn to_nested_stripes(&self, period: i64) -> NestedStripes {
        let set = self.merged();
        let mut inner_reach = set.reach();
        debug_assert!(inner_reach < period, "{self} does not fit a period of {period}");
        let mut stripes = vec![Stripe::lawful(inner_reach + 1, period - inner_reach - 1, set.first())];
        for digit in set.digits() {
            inner_reach -= (digit.size - 1) * digit.stride;
            // Runs that abut are a stripe of their own all the same: what is nested inside restarts at each.
            if digit.stride > 1 {
                stripes.push(Stripe::lawful(inner_reach + 1, digit.stride - inner_reach - 1, 0));
            }
        }
        NestedStripes::new(stripes)
    }
}
