//! How much work a question may cost, and the three answers it can have.
//!
//! A budget counts steps of a search, never time, so that the same question has the same answer on every machine.

/// The answer to a question that may be too hard to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Certainly.
    Yes,
    /// Certainly not.
    No,
    /// The budget ran out first: callers must assume whichever is unsafe.
    Unknown,
}

impl Answer {
    /// `Yes` or `No`.
    #[must_use]
    pub fn from_bool(value: bool) -> Self {
        if value { Answer::Yes } else { Answer::No }
    }

    /// True unless the answer is a certain no: what a caller must assume of aliasing.
    #[must_use]
    pub fn may_be(self) -> bool {
        self != Answer::No
    }

    /// The certain answer, or none.
    #[must_use]
    pub fn known(self) -> Option<bool> {
        match self {
            Answer::Yes => Some(true),
            Answer::No => Some(false),
            Answer::Unknown => None,
        }
    }
}

/// The budget was spent, or a set would need too many pieces: the question stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the set is too complex: its analysis was stopped at its budget of steps")]
pub struct TooComplex;

/// Steps that a search may still take.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Steps that an operation on sets gets when its caller names no number: some milliseconds at worst.
    pub const SET_STEPS: u64 = 1 << 20;
    /// Steps that the exact test of two strided views gets.
    pub const SEARCH_STEPS: u64 = 100_000;

    /// A budget of so many steps.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        Budget { left: steps }
    }

    /// The usual budget of an operation on sets.
    #[must_use]
    pub fn for_sets() -> Self {
        Budget::new(Self::SET_STEPS)
    }

    /// The usual budget of a search for one common element.
    #[must_use]
    pub fn for_search() -> Self {
        Budget::new(Self::SEARCH_STEPS)
    }

    /// Takes `steps` away, or says that they are not there.
    ///
    /// # Errors
    /// When fewer than `steps` are left; then none are left.
    pub fn spend(&mut self, steps: u64) -> Result<(), TooComplex> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(TooComplex)
            }
        }
    }

    /// Steps not yet spent.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}
