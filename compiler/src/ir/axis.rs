//! What a loop is: of which kind, and where among the threads of a machine with blocks its iterations are.
//!
//! Tested with the text form of graphs, which names both.

/// One of the three directions in which a grid has blocks, and a block has threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ThreadDim {
    /// The first: of a block, neighbours along it are neighbours in a warp.
    X,
    /// The second.
    Y,
    /// The third.
    Z,
}

impl ThreadDim {
    /// All three, in order.
    pub const ALL: [ThreadDim; 3] = [ThreadDim::X, ThreadDim::Y, ThreadDim::Z];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ThreadDim::X => "x",
            ThreadDim::Y => "y",
            ThreadDim::Z => "z",
        }
    }
}

/// What a loop becomes on the machine.
///
/// `Grid`, `Block` and `Lane` ranges are no loops there: they are the index of the block in the grid, of the thread in the block, of the lane in its
/// group. Each thread runs the one iteration that bears its index, and none if the range is shorter. Several ranges of a kernel may be one index. Lanes
/// count fastest: the thread of a block is `((block_z * Y + block_y) * X + block_x) * lanes + lane`, so a group of lanes lies in one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisKind {
    /// Shared out among threads; always outermost.
    Parallel,
    /// An ordinary loop over outputs.
    Loop,
    /// An ordinary loop that a reduction closes.
    Reduce,
    /// A loop whose iterations come one after the other, in order: each may need what the one before it left.
    Serial,
    /// Repeated in straight-line code.
    Unroll,
    /// The lanes of vectors.
    Vector,
    /// Terms of a reduction that one instruction multiplies and adds up ([`super::dots`]).
    Dot,
    /// The index of a block in the grid: blocks run in any order and share nothing but parameters.
    Grid(ThreadDim),
    /// The index of a thread in its block: threads of a block share scratch memory and meet at barriers.
    Block(ThreadDim),
    /// The index of a lane in its group of threads, which exchange values without memory.
    Lane,
}

impl AxisKind {
    /// Every kind.
    pub const ALL: [AxisKind; 14] = [
        AxisKind::Parallel,
        AxisKind::Grid(ThreadDim::X),
        AxisKind::Grid(ThreadDim::Y),
        AxisKind::Grid(ThreadDim::Z),
        AxisKind::Block(ThreadDim::X),
        AxisKind::Block(ThreadDim::Y),
        AxisKind::Block(ThreadDim::Z),
        AxisKind::Lane,
        AxisKind::Loop,
        AxisKind::Reduce,
        AxisKind::Serial,
        AxisKind::Unroll,
        AxisKind::Vector,
        AxisKind::Dot,
    ];

    /// Whether it is an index that each thread has, and no loop.
    pub fn is_thread_index(self) -> bool {
        matches!(self, AxisKind::Grid(_) | AxisKind::Block(_) | AxisKind::Lane)
    }

    /// Whether it tells threads of one block from each other.
    pub fn is_within_block(self) -> bool {
        matches!(self, AxisKind::Block(_) | AxisKind::Lane)
    }

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            AxisKind::Parallel => "parallel",
            AxisKind::Grid(ThreadDim::X) => "grid_x",
            AxisKind::Grid(ThreadDim::Y) => "grid_y",
            AxisKind::Grid(ThreadDim::Z) => "grid_z",
            AxisKind::Block(ThreadDim::X) => "block_x",
            AxisKind::Block(ThreadDim::Y) => "block_y",
            AxisKind::Block(ThreadDim::Z) => "block_z",
            AxisKind::Lane => "lane",
            AxisKind::Loop => "loop",
            AxisKind::Reduce => "reduce",
            AxisKind::Serial => "serial",
            AxisKind::Unroll => "unroll",
            AxisKind::Vector => "vector",
            AxisKind::Dot => "dot",
        }
    }
}
