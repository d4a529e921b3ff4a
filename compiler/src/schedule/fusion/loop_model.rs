//! Loop nests as fusion sees them: which loops a value depends on, and how often it is computed.
//!
//! A kernel has *outer* loops, one for each axis of its stored values that is longer than 1, known by their position; stores of
//! one kernel share their leading loops. Each reduction inside opens loops of its own, known by a number.
//!
//! A value is computed in the innermost loop that it depends on. A reduction that depends on some of the outer loops alone is
//! computed once for each of their iterations if these can stand outside of all others. Sets of loops that some reduction needs
//! outermost are *pinned*; they always form a chain, each containing the one before:
//!
//! ```text
//! softmax of [i, j] along j:     for i { max over j'; sum over j''; for j { store } }      pinned: {i}
//! softmax of [i, j] along i:     for j { max over i'; sum over i''; for i { store } }      pinned: {j}
//! ```

use smallvec::SmallVec;

use crate::ir::{Dim, Shape};

/// A set of loops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Dependence {
    /// Positions of outer loops, a bit each.
    pub(super) outer: u64,
    /// Numbers of reduction loops, ascending.
    pub(super) loops: SmallVec<[u32; 2]>,
}

impl Dependence {
    pub(super) fn join(&mut self, other: &Dependence) {
        self.outer |= other.outer;
        for &number in &other.loops {
            if let Err(at) = self.loops.binary_search(&number) {
                self.loops.insert(at, number);
            }
        }
    }
}

/// A loop inside of a kernel: of a reduction, or of a value that is kept.
#[derive(Clone, Debug)]
pub(super) struct ReductionLoop {
    /// Iterations.
    pub(super) len: f64,
    /// Every loop that it runs inside of.
    pub(super) within: Dependence,
    /// Whether it fills scratch memory, instead of reducing.
    pub(super) keeps: bool,
    /// Whether it is one over blocks, which stands outside of loops over what the reduction comes to.
    pub(super) is_of_blocks: bool,
}

/// The outer loops of one kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct OuterLoops {
    /// Length of each, by position: the axes of the stored value of highest rank.
    pub(super) lens: SmallVec<[Dim; 4]>,
    /// Sets of positions that must be able to stand outermost: a chain, smallest first.
    pub(super) pins: SmallVec<[u64; 4]>,
}

impl OuterLoops {
    /// The outer loops of a kernel that stores one value.
    pub(super) fn of_store(shape: &Shape) -> OuterLoops {
        OuterLoops { lens: shape.iter().filter(|dim| !dim.is(1)).cloned().collect(), pins: SmallVec::new() }
    }

    fn all(&self) -> u64 {
        leading(self.lens.len())
    }

    /// Iterations of a set of loops.
    pub(super) fn count(&self, set: u64) -> f64 {
        (0..self.lens.len()).filter(|&k| set >> k & 1 == 1).map(|k| self.lens[k].max_value() as f64).product()
    }

    /// The loops that are open around a value that depends on `set`: all that stand outside of the innermost of it.
    pub(super) fn open_around(&self, set: u64) -> u64 {
        if set == 0 {
            return 0;
        }
        let mut below = 0;
        for pin in self.pins.iter().copied().chain([self.all()]) {
            if set & !pin == 0 {
                // Between two pins loops stand in the order of their axes.
                let last = 63 - (set & !below).leading_zeros() as usize;
                return below | (pin & leading(last + 1));
            }
            below = pin;
        }
        self.all()
    }

    /// Iterations of the loops around a value that depends on `set`, once that is pinned.
    pub(super) fn count_pinned(&self, set: u64) -> f64 {
        let mut pinned = self.clone();
        pinned.pin(set);
        pinned.count(pinned.open_around(set))
    }

    /// Whether `set` holds the loop over the last axis.
    pub(super) fn names_last(&self, set: u64) -> bool {
        !self.lens.is_empty() && set >> (self.lens.len() - 1) & 1 == 1
    }

    /// Whether `set` can stand outermost beside all that is pinned.
    pub(super) fn can_pin(&self, set: u64) -> bool {
        self.pins.iter().all(|&pin| set & !pin == 0 || pin & !set == 0)
    }

    /// Makes `set` stand outermost. The caller asked [`OuterLoops::can_pin`].
    pub(super) fn pin(&mut self, set: u64) {
        if set == 0 || set == self.all() {
            return;
        }
        let at = self.pins.iter().position(|&pin| pin.count_ones() >= set.count_ones()).unwrap_or(self.pins.len());
        if self.pins.get(at) != Some(&set) {
            self.pins.insert(at, set);
        }
    }

    /// The loops of two kernels as one, or why that cannot be.
    pub(super) fn joined(&self, other: &OuterLoops) -> Result<OuterLoops, &'static str> {
        let (long, short) = if self.lens.len() >= other.lens.len() { (self, other) } else { (other, self) };
        if long.lens[..short.lens.len()] != short.lens[..] {
            return Err("their outer loops differ in length");
        }
        let mut joined = long.clone();
        for pin in short.pins.iter().copied().chain([short.all()]) {
            if !joined.can_pin(pin) {
                return Err("their reductions need the outer loops in different orders");
            }
            joined.pin(pin);
        }
        Ok(joined)
    }
}

/// The first `count` positions.
pub(super) fn leading(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outer(lens: &[i64]) -> OuterLoops {
        OuterLoops::of_store(&lens.into())
    }

    #[test]
    fn values_are_computed_in_the_innermost_loop_that_they_need() {
        let mut loops = outer(&[2, 3, 5]);
        assert_eq!(loops.open_around(0b001), 0b001);
        assert_eq!(loops.open_around(0b100), 0b111);
        assert!(loops.can_pin(0b100));
        loops.pin(0b100);
        assert_eq!(loops.open_around(0b100), 0b100);
        assert_eq!(loops.open_around(0b001), 0b101);
        assert_eq!(loops.count(0b101), 10.0);
        assert!(!loops.can_pin(0b010), "two sets of which neither holds the other cannot both stand outermost");
    }

    #[test]
    fn kernels_join_along_their_leading_loops() {
        let mut softmax = outer(&[16, 32]);
        softmax.pin(0b01);
        assert_eq!(outer(&[16]).joined(&softmax).unwrap().pins[..], [0b01]);
        assert!(outer(&[32]).joined(&softmax).is_err());
        let mut other = outer(&[16, 32]);
        other.pin(0b10);
        assert!(other.joined(&softmax).is_err());
    }
}
