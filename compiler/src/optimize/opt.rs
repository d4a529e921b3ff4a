//! The vocabulary of the optimizer: a few substitutions on loops, each with a name, an argument, and a reason when it is refused.
//!
//! An [`Opt`] names a range by number. Splitting a range keeps its number for the outer part, so later opts can go on naming it; the
//! inner part gets a new one. Every opt keeps the kernel's values: stores write the same elements (some of them more than once,
//! see [`SplitTail`]), folds combine the same values in another order.

use std::fmt;

/// One step of optimization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opt {
    /// The innermost `lanes` of a range become the lanes of a vector.
    Vectorize {
        /// Number of the range.
        range: u32,
        /// Lanes of the vector.
        lanes: u32,
    },
    /// The innermost `times` of a range become straight-line code: of an output range a register tile, of a reduce range
    /// independent accumulators.
    Upcast {
        /// Number of the range.
        range: u32,
        /// Copies of the body.
        times: u32,
    },
    /// A range becomes two nested loops, the inner of length `len`.
    Split {
        /// Number of the range.
        range: u32,
        /// Length of the inner loop.
        len: u32,
    },
    /// Folds that depend on a range are kept in scratch along all of it, before what is computed from them.
    KeepFolds {
        /// Number of the range.
        range: u32,
    },
    /// Loads that step through memory along a range are copied, so that they lie side by side.
    Pack {
        /// Number of the range along which copies are consecutive.
        lane: u32,
        /// Number of the other range for all of which they are made.
        row: u32,
    },
    /// A range becomes the outermost loop.
    Outermost {
        /// Number of the range.
        range: u32,
    },
    /// A range, which must be the outermost loop of every store, is shared out among threads.
    Thread {
        /// Number of the range.
        range: u32,
    },
    /// As `Thread`, of two adjacent outermost loops at once.
    ThreadPair {
        /// Number of the outermost range.
        range: u32,
        /// Number of the next one.
        inner: u32,
    },
}

/// How the last, incomplete part of a split range is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitTail {
    /// The length divides: there is none.
    None,
    /// An output range: the last part begins earlier and overlaps the one before, so some elements are written twice, with
    /// the same value.
    Overlap,
    /// What is left over is done on its own: of a reduce range it is folded apart and combined; of an output range it is stored by
    /// stores of its own, where a kernel loads what it replaces and nothing may be stored twice, or where a symbolic length may be less
    /// than the part.
    Apart,
}

/// Why an opt cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{opt} refused: {reason}")]
pub struct Refused {
    /// The opt.
    pub opt: Opt,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opt::Vectorize { range, lanes } => write!(f, "vectorize(r{range}, {lanes})"),
            Opt::Upcast { range, times } => write!(f, "upcast(r{range}, {times})"),
            Opt::Split { range, len } => write!(f, "split(r{range}, {len})"),
            Opt::KeepFolds { range } => write!(f, "keep(r{range})"),
            Opt::Pack { lane, row } => write!(f, "pack(r{lane}, r{row})"),
            Opt::Outermost { range } => write!(f, "outermost(r{range})"),
            Opt::Thread { range } => write!(f, "thread(r{range})"),
            Opt::ThreadPair { range, inner } => write!(f, "thread(r{range}, r{inner})"),
        }
    }
}
