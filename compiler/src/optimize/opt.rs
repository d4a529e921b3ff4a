//! The vocabulary of the optimizer: a few substitutions on loops, each with a name, arguments, and a reason when it is refused.
//!
//! An [`Opt`] names a range by number. Splitting a range keeps its number for the outer part, so later opts can go on naming it; the
//! inner part gets a new one. Every opt keeps the kernel's values: stores write the same elements (some of them more than once,
//! see [`SplitTail`]), reductions combine the same values in another order. A list of opts is data: [`Opts`] is what a caller chooses,
//! part of the key of a kernel, and has a text form (`text`). Which opts a kernel admits is asked of `apply` and `legal_opts`.

use std::fmt;

use crate::ir::{AxisKind, ThreadDim};
use crate::target::Feature;

/// One step of optimization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// As `Split`, of a loop over outputs; the last part may go beyond the end, where nothing is loaded or stored.
    SplitMasked {
        /// Number of the range.
        range: u32,
        /// Length of the inner loop.
        len: u32,
    },
    /// What a load takes from a local buffer is computed where it is asked for instead.
    Recompute {
        /// The load's number, in the order of the kernel's graph.
        load: u32,
    },
    /// A local buffer that a load reads, which each thread fills for itself, is filled and read by the threads of a block together.
    ///
    /// Its loops keep their numbers; those along indices of threads that it depends on get the next free ones. What one of these keeps may be followed by elements that nothing
    /// uses: so the next one's begins in another bank.
    KeepShared {
        /// The load's number.
        load: u32,
        /// Elements behind what an index of threads keeps.
        pad: u32,
    },
    /// Reductions that depend on a range are kept in scratch along all of it, before what is computed from them.
    MaterializeReductions {
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
    /// What a load gives is copied to scratch memory for all of some ranges that it depends on, and read from there.
    ///
    /// The copy lies in the order of the ranges, the last consecutive; its loops get the next free numbers, in that order. It is made in the innermost loop
    /// of those that the load depends on besides: so the ranges say at which loop it is made, and a copy along all of them is made once.
    Stage {
        /// The load's number, in the order of the kernel's graph; those behind a new local buffer are counted anew.
        load: u32,
        /// Numbers of the ranges, each once.
        ranges: Vec<u32>,
    },
    /// A loop of a reduction is moved outside of some of the loops that the reduction stands in: it becomes the loop over blocks, and what they come to is
    /// combined in scratch, in an element for each iteration of those loops.
    ///
    /// The loops that fill scratch get the next free numbers, in the order given, inside of the loop of blocks, which keeps its number. What follows the
    /// reduction stays in the loops that are named. Where these are the loops that fill scratch already, the loop becomes one more of blocks, with no new numbers.
    Accumulate {
        /// Number of the range of the reduction.
        range: u32,
        /// Numbers of the loops that it moves out of, outermost first, each once.
        along: Vec<u32>,
    },
    /// Two loops, one directly in the other, are swapped: of stores, of local buffers, or of reductions.
    Reorder {
        /// Number of the outer range.
        range: u32,
        /// Number of the inner one.
        inner: u32,
    },
    /// A range is cut: what is before and behind a part of it gets loops of its own, with the next free numbers, and conditions that the cuts decide vanish.
    Peel {
        /// Number of the range, which the part keeps.
        range: u32,
        /// The first iteration of the part.
        begin: u32,
        /// The first one behind it.
        end: u32,
    },
    /// Two loops, one directly in the other wherever either stands, become one that keeps the number of the outer: where every index walks them as one.
    Merge {
        /// Number of the outer range.
        range: u32,
        /// Number of the inner one.
        inner: u32,
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
    /// Threads own parts of the memory that a loop over sources stores to where numbers in memory say: each goes over all sources, and stores those that are for rows of its own (the
    /// owner-computes rule). The loop over owners, which becomes the outermost of every store, gets the next free number.
    OwnerComputes {
        /// Number of the range over sources, whose iterations come in order.
        range: u32,
        /// Parts of the memory.
        owners: u32,
    },
    /// A range is no loop any more but an index that each thread has: of outputs, or of the fill of shared scratch; lanes also of a reduction.
    Map {
        /// Number of the range.
        range: u32,
        /// The index.
        index: ThreadIndex,
    },
    /// As `Stage`, in memory that the threads of a block share.
    ///
    /// The copy is made for all threads, so along each of their indices that the load depends on. Its loops along an index are of that index; others
    /// are loops of one thread until they are mapped.
    StageShared {
        /// The load's number.
        load: u32,
        /// Numbers of the ranges, each once.
        ranges: Vec<u32>,
    },
    /// As `StageShared`, with elements that nothing uses behind each row along the last range: so rows begin in other banks.
    StagePadded {
        /// The load's number.
        load: u32,
        /// Elements behind each row.
        pad: u32,
        /// Numbers of the ranges, each once.
        ranges: Vec<u32>,
    },
    /// As `StagePadded`, with room for two copies: one is filled for the next iteration of the loop around while the other one is read.
    StageAhead {
        /// The load's number.
        load: u32,
        /// Elements behind each row.
        pad: u32,
        /// Numbers of the ranges, each once.
        ranges: Vec<u32>,
    },
    /// Two loops, one directly in the other wherever either stands, become one that keeps the number of the outer, whatever walks them.
    Flatten {
        /// Number of the outer range.
        range: u32,
        /// Number of the inner one.
        inner: u32,
    },
    /// 16 rows, 8 columns and 16 terms of a product of half floats become matrices that the lanes of a warp multiply together. The lanes get the next
    /// free number. Or threads have the rows and columns already, as 8 indices `block x` and 4 lanes, and two each.
    MultiplyMatrices {
        /// Number of the loop over rows of outputs; or of that over the two of a thread, written out.
        rows: u32,
        /// Number of the loop over columns; or of the two of a thread.
        columns: u32,
        /// Number of the loop of the reduction.
        terms: u32,
    },
    /// The threads along an index of the block each reduce what one iteration of a reduction's loop is made of, and put it into shared memory; all
    /// reduce that. The range remains the loop over what they put there.
    Group {
        /// Number of the range.
        range: u32,
        /// The index of the block.
        dim: ThreadDim,
    },
    /// What a load gives is copied to scratch memory for all of its windows, and read from there: each element once, in however many windows it is.
    ///
    /// The copy has an axis for each pair of ranges of whose sum alone the load knows; a range that is named twice is an axis by itself. Its loops get the next
    /// free numbers, in the order of the pairs.
    Frame {
        /// The load's number, in the order of the kernel's graph.
        load: u32,
        /// Numbers of the ranges, in pairs.
        ranges: Vec<u32>,
    },
    /// As `Stage`, of what is computed from the load alone: a half float as a float, say, or a weight out of its packed bits. So that is computed once for each
    /// element, however often the copy is read.
    StageComputed {
        /// The load's number.
        load: u32,
        /// Numbers of the ranges, each once.
        ranges: Vec<u32>,
    },
    /// The innermost `terms` of a range of a sum of products become those that one instruction multiplies and adds up; factors are narrow numbers from there on. The
    /// terms get the next free number.
    Dot {
        /// Number of the range.
        range: u32,
        /// Terms of a group.
        terms: u32,
    },
    /// Up to 16 rows, 16 columns and 16 groups of terms of a sum of products of narrow numbers become tiles that one instruction multiplies and adds up. What they come to is kept in
    /// scratch, from where the loops over rows and columns take it.
    MultiplyTiles {
        /// Number of the loop over rows of results.
        rows: u32,
        /// Number of the loop, or lanes, over columns.
        columns: u32,
        /// Number of the reduction's loop over groups of terms.
        groups: u32,
        /// Number of its loop over the terms of a group.
        terms: u32,
    },
}

/// An index of threads that a range can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadIndex {
    /// Of the block in the grid.
    Grid(ThreadDim),
    /// Of the thread in its block.
    Block(ThreadDim),
    /// Of the lane in its group.
    Lane,
}

impl ThreadIndex {
    /// The kind that the range becomes.
    pub fn kind(self) -> AxisKind {
        match self {
            ThreadIndex::Grid(dim) => AxisKind::Grid(dim),
            ThreadIndex::Block(dim) => AxisKind::Block(dim),
            ThreadIndex::Lane => AxisKind::Lane,
        }
    }
}

/// Which opts a kernel gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Opts {
    /// None: loops stay as they are, no vectors, tiles or threads.
    None,
    /// Those that the model of the target chooses.
    #[default]
    ByHand,
    /// These, one after the other.
    List(Vec<Opt>),
}

/// How the last, incomplete part of a split range is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitTail {
    /// The length divides: there is none.
    None,
    /// An output range: the last part begins earlier and overlaps the one before, so some elements are written twice, with
    /// the same value.
    Overlap,
    /// What is left over is done on its own: of a reduce range it is reduced apart and combined; of an output range it is stored by
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
    pub reason: Reason,
}

/// What is in the way of an opt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It names a range that the kernel does not have, or no longer.
    #[error("the kernel has no r{0}")]
    NoRange(u32),
    /// Its loops are not those that the opt is for, or values would not stay what they are.
    #[error("{0}")]
    Kernel(&'static str),
    /// The target has no such thing.
    #[error("this target has no {0}")]
    Lacks(Feature),
    /// The kernel would pass a limit of the target or of this compiler.
    #[error("{limit}: {needed} needed, the limit is {most}")]
    Limit {
        /// Of what there would be too much.
        limit: Limit,
        /// How much there would be.
        needed: u64,
        /// How much there may be.
        most: u64,
    },
}

impl From<&'static str> for Reason {
    fn from(reason: &'static str) -> Reason {
        Reason::Kernel(reason)
    }
}

/// What there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Bytes of scratch memory.
    Scratch,
    /// Nodes of a kernel after its tiles became straight-line code.
    Code,
    /// Accumulators of one reduction.
    Registers,
    /// Tiles that one reduction sums, beside those that it multiplies.
    Tiles,
    /// Products of tiles of floats that are added to one tile.
    Steps,
    /// Lanes of a vector.
    Lanes,
    /// Threads.
    Threads,
    /// Blocks along a dimension of the grid.
    Grid,
    /// Threads along a dimension of a block, the lanes among them.
    Block,
    /// Threads of a block.
    BlockThreads,
    /// Lanes of a warp.
    Warp,
    /// Bytes of memory that the threads of a block share.
    Shared,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Scratch => "bytes of scratch memory",
            Limit::Code => "nodes of straight-line code",
            Limit::Registers => "accumulators of one reduction",
            Limit::Tiles => "tiles that one reduction sums",
            Limit::Steps => "products of tiles that are added to one",
            Limit::Lanes => "lanes of a vector",
            Limit::Threads => "threads",
            Limit::Grid => "blocks along a dimension of the grid",
            Limit::Block => "threads along a dimension of a block",
            Limit::BlockThreads => "threads of a block",
            Limit::Warp => "lanes of a warp",
            Limit::Shared => "bytes of shared memory",
        })
    }
}
