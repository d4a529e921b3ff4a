//! Selections: some integers of a range together with their ranks, that is, their numbers among the selected ones.
//!
//! What a slice, a sample or a fill does along one dimension is a selection: element `r` of the result is the element
//! of rank `r`. Elements and ranks are kept as progressions that share their digits, so ranks are read off wherever the
//! elements of a piece are met.

use super::nested_stripes::NestedStripes;
use super::progression::{Digit, Digits, Progression};
use smallvec::SmallVec;

/// A progression of elements whose ranks form a progression, too, digit by digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPiece {
    first: i64,
    first_rank: i64,
    digits: SmallVec<[RankedDigit; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RankedDigit {
    size: i64,
    stride: i64,
    rank_stride: i64,
}

impl RankedPiece {
    /// The elements. Digits are those of [`RankedPiece::ranks`], in order.
    #[must_use]
    pub fn elements(&self) -> Progression {
        let digits: Digits = self.digits.iter().map(|d| Digit { stride: d.stride, size: d.size }).collect();
        Progression::lawful(self.first, digits)
    }

    /// The ranks. Digits are those of [`RankedPiece::elements`], in order.
    #[must_use]
    pub fn ranks(&self) -> Progression {
        let digits: Digits = self.digits.iter().map(|d| Digit { stride: d.rank_stride, size: d.size }).collect();
        Progression::lawful(self.first_rank, digits)
    }
}

/// Selected integers with their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    count: i64,
    pieces: Vec<RankedPiece>,
}

impl Selection {
    /// `start, start + step, ...`: `count` integers.
    #[must_use]
    pub fn steps(start: i64, step: i64, count: i64) -> Self {
        let mut digits = SmallVec::new();
        if count > 1 {
            digits.push(RankedDigit { size: count, stride: step, rank_stride: 1 });
        }
        let piece = RankedPiece { first: start, first_rank: 0, digits };
        Selection { count, pieces: if count > 0 { vec![piece] } else { Vec::new() } }
    }

    /// The elements of a periodic set in `lower..upper`, which must lie within [`LARGEST`](super::LARGEST) of 0.
    #[must_use]
    pub fn of_stripes(stripes: &NestedStripes, lower: i64, upper: i64) -> Self {
        let mut cutter = Cutter { count: 0, digits: SmallVec::new(), pieces: Vec::new() };
        if lower < upper {
            cutter.cut(stripes, 0, 0, (lower, upper));
        }
        Selection { count: cutter.count, pieces: cutter.pieces }
    }

    /// How many are selected.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.count
    }

    /// The pieces, disjoint in elements and in ranks.
    #[must_use]
    pub fn pieces(&self) -> &[RankedPiece] {
        &self.pieces
    }

    /// The selection leaves `0..extent` as it is.
    #[must_use]
    pub fn is_all_of(&self, extent: i64) -> bool {
        self.count == extent && *self == Selection::steps(0, 1, extent)
    }
}

/// Cuts a periodic set into pieces: at each level the run that the window enters midway, the whole runs as one digit, and the
/// run that the window leaves midway. Recurses once a stripe.
struct Cutter {
    count: i64,
    digits: SmallVec<[RankedDigit; 4]>,
    pieces: Vec<RankedPiece>,
}

impl Cutter {
    /// Cuts the stripes from `depth` on, inside `window` of their coordinate, whose zero lies at `origin`.
    fn cut(&mut self, stripes: &NestedStripes, depth: usize, origin: i64, window: (i64, i64)) {
        let (lower, upper) = window;
        let Some(stripe) = stripes.stripes().get(depth) else {
            let mut digits = self.digits.clone();
            push_merging(&mut digits, RankedDigit { size: upper - lower, stride: 1, rank_stride: 1 });
            self.pieces.push(RankedPiece { first: origin + lower, first_rank: self.count, digits });
            self.count += upper - lower;
            return;
        };
        if stripe.is_always_off() {
            return;
        }
        let mut start = stripe.last_start(lower);
        if start < lower {
            let end = stripe.on().min(upper - start);
            if lower - start < end {
                self.cut(stripes, depth + 1, origin + start, (lower - start, end));
            }
            start += stripe.period();
        }
        let whole = (upper - start - stripe.on()).div_euclid(stripe.period()) + 1;
        if whole > 0 {
            self.cut_runs(stripes, depth, origin + start, whole);
            start += whole * stripe.period();
        }
        if start < upper {
            self.cut(stripes, depth + 1, origin + start, (0, stripe.on().min(upper - start)));
        }
    }

    /// Cuts `runs` whole runs of the stripe at `depth`, the first of which starts at `origin`.
    fn cut_runs(&mut self, stripes: &NestedStripes, depth: usize, origin: i64, runs: i64) {
        let stripe = stripes.stripes()[depth];
        let inner = NestedStripes::new(stripes.stripes()[depth + 1..].to_vec());
        let in_run = i64::try_from(inner.count(0, stripe.on())).unwrap_or(0); // at most `on`
        if in_run == 0 {
            return;
        }
        let before = self.count;
        let digits = self.digits.len();
        if runs > 1 {
            self.digits.push(RankedDigit { size: runs, stride: stripe.period(), rank_stride: in_run });
        }
        self.cut(stripes, depth + 1, origin, (0, stripe.on()));
        self.digits.truncate(digits);
        self.count = before + runs * in_run;
    }
}

/// Appends an innermost digit, as part of the one outside it where both elements and ranks run on.
fn push_merging(digits: &mut SmallVec<[RankedDigit; 4]>, mut inner: RankedDigit) {
    while let Some(&outer) = digits.last() {
        let runs_on = outer.stride == inner.stride * inner.size && outer.rank_stride == inner.rank_stride * inner.size;
        if !runs_on {
            break;
        }
        digits.pop();
        inner.size *= outer.size;
    }
    if inner.size > 1 {
        digits.push(inner);
    }
}
