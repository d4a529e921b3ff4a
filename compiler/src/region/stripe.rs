//! Stripes: the integers `z` with `(z - phase) mod (on + off) < on`, for all integers, mod towards minus infinity.
//!
//! ```text
//! on 3, off 2, phase 1:   .111..111..111..111.
//! ```

use super::integer::{LARGEST, ceil_div};
use crate::ir::floor_div;

/// Why three numbers are no stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StripeError {
    /// `on` or `off` is negative.
    #[error("a stripe with on {on} and off {off}: neither may be negative")]
    Negative {
        /// Length of the runs.
        on: i64,
        /// Length of the gaps.
        off: i64,
    },
    /// Neither runs nor gaps.
    #[error(
        "a stripe with on 0 and off 0 has no period: write (0, 1, 0) for the empty set, (1, 0, 0) for all integers"
    )]
    NoPeriod,
    /// The period is beyond the largest extent.
    #[error("a stripe of on {on} and off {off} is too long: its period may be at most {LARGEST}")]
    TooLong {
        /// Length of the runs.
        on: i64,
        /// Length of the gaps.
        off: i64,
    },
}

/// Runs of `on` integers, one every `period`, one of them starting at `phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stripe {
    on: i64,
    off: i64,
    phase: i64,
}

impl Stripe {
    /// A stripe; its phase is brought into `0..period`.
    ///
    /// # Errors
    /// If `on` or `off` is negative, both are zero, or the period is above [`LARGEST`].
    pub fn new(on: i64, off: i64, phase: i64) -> Result<Self, StripeError> {
        if on < 0 || off < 0 {
            return Err(StripeError::Negative { on, off });
        }
        match on.checked_add(off) {
            Some(0) => Err(StripeError::NoPeriod),
            Some(period) if period <= LARGEST => Ok(Stripe { on, off, phase: phase.rem_euclid(period) }),
            _ => Err(StripeError::TooLong { on, off }),
        }
    }

    /// From numbers known to make a stripe.
    pub(super) fn lawful(on: i64, off: i64, phase: i64) -> Self {
        debug_assert!(on >= 0 && off >= 0 && on + off > 0, "({on}, {off}, {phase}) is no stripe");
        Stripe { on, off, phase: phase.rem_euclid(on + off) }
    }

    /// Length of each run.
    #[must_use]
    pub fn on(&self) -> i64 {
        self.on
    }

    /// Length of each gap.
    #[must_use]
    pub fn off(&self) -> i64 {
        self.off
    }

    /// Where a run starts, in `0..period`.
    #[must_use]
    pub fn phase(&self) -> i64 {
        self.phase
    }

    /// Distance of neighbouring runs.
    #[must_use]
    pub fn period(&self) -> i64 {
        self.on + self.off
    }

    /// All integers are in it.
    #[must_use]
    pub fn is_always_on(&self) -> bool {
        self.off == 0
    }

    /// No integer is in it.
    #[must_use]
    pub fn is_always_off(&self) -> bool {
        self.on == 0
    }

    /// The distance of `z` from the last start at or before it, in `0..period`.
    #[must_use]
    pub fn local(&self, z: i64) -> i64 {
        (z.rem_euclid(self.period()) - self.phase).rem_euclid(self.period())
    }

    /// Whether `z` is in the set.
    #[must_use]
    pub fn contains(&self, z: i64) -> bool {
        self.local(z) < self.on
    }

    /// The first start at or after `z`.
    #[must_use]
    pub fn first_start(&self, z: i64) -> i64 {
        self.phase + ceil_div(z - self.phase, self.period()) * self.period()
    }

    /// The last start at or before `z`.
    #[must_use]
    pub fn last_start(&self, z: i64) -> i64 {
        self.phase + floor_div(z - self.phase, self.period()) * self.period()
    }

    /// Every integer that is not in the set.
    #[must_use]
    pub fn complement(&self) -> Self {
        Self::lawful(self.off, self.on, self.phase + self.on)
    }
}
