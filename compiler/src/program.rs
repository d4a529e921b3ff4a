//! What a renderer gives and a device takes: one kernel as text, with the facts needed to launch it.
//!
//! A [`Program`] is plain data, and so is a [`Launch`]. The renderer writes `source`; a device compiles and launches it and looks at nothing else
//! of the compiler. The calling convention of a CPU kernel is
//!
//! ```text
//! void entry(ptr buffers, ptr variables, ptr scratch, i64 begin, i64 end)
//! ```
//!
//! `buffers[k]` points at the memory of parameter k, `variables[k]` is the value of variable k, behind them the program's `numbers`, and `begin..end` is the share
//! of the kernel's outermost parallel loop (`grid` items in all) that this call must do: any partition of `0..grid` into calls,
//! on any threads, in any order, does the whole work. `scratch` points at `scratch_bytes` bytes, aligned to [`SCRATCH_ALIGNMENT`], that
//! are this call's alone while it runs; what is in them is of no meaning before and after. Where `scratch_bytes` is 0 it is not looked at.
//!
//! That of a GPU kernel is
//!
//! ```text
//! .visible .entry entry(.param .u64 p0, .param .u64 p1, .., .param .s64 n0, .param .s64 n1, ..)
//! ```
//!
//! `pk` is the address of the memory of parameter k, on the device and a multiple of [`BUFFER_ALIGNMENT`], and `nk` the value of variable k, in the order of
//! `parameters` and `variables`. One launch does the whole work: `launch.grid` blocks of `launch.block_threads()` threads, with `shared_bytes` bytes of dynamic shared
//! memory. The kernel declares its private memory and, where that is no more than every kernel may have, its shared memory itself; `grid` and `scratch_bytes` are not
//! looked at.

use crate::dtype::DType;
use crate::ir::{AxisKind, UOp};

/// The number of the calling convention: part of the key of stored objects, so that code of another convention is never called.
pub const CALLING_CONVENTION: u32 = 3;

/// Bytes to which scratch memory is aligned, and each piece of it: a line of the cache, and the widest vector.
pub const SCRATCH_ALIGNMENT: u64 = 64;

/// Bytes to which the buffers are aligned that a GPU kernel is given: the most that a thread loads at once.
pub const BUFFER_ALIGNMENT: u64 = 16;

/// How a kernel uses one of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only loaded from.
    Read,
    /// Only stored to.
    Write,
    /// Both loaded from and stored to.
    ReadWrite,
}

/// One buffer parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Type of one element.
    pub dtype: DType,
    /// Elements that the kernel may touch, counted from the pointer that it is given.
    pub len: u64,
    /// Whether the kernel reads or writes it.
    pub access: Access,
}

/// What a kernel costs, for the lines of `DEBUG=2` and for deciding how many threads to use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Arithmetic operations on elements, a fused multiply-add counted twice.
    pub operations: f64,
    /// Bytes that must move to and from memory at least once: each buffer counted once.
    pub bytes_unique: f64,
    /// Bytes loaded and stored by instructions, repeats counted.
    pub bytes_accessed: f64,
}

/// A kernel as text, ready for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Readable name, as in `r_1024_64`; not unique.
    pub name: String,
    /// Symbol of the entry point in `source`.
    pub entry: String,
    /// The kernel in the language of its target.
    pub source: String,
    /// The buffers, in calling order.
    pub parameters: Vec<Parameter>,
    /// Names of the integer variables, in calling order.
    pub variables: Vec<String>,
    /// The values of more variables, which stand behind those in each call: what kernels of one text differ in.
    pub numbers: Vec<i64>,
    /// Items of the outermost parallel loop; 1 when there is none. The most there can be where variables decide: a share past the
    /// last item does nothing.
    pub grid: u64,
    /// Bytes of scratch memory that each call of the entry point needs for itself.
    pub scratch_bytes: u64,
    /// The blocks of a GPU kernel and their threads; of a CPU's, one of each.
    pub launch: Launch,
    /// Bytes of dynamic shared memory that a GPU kernel is launched with.
    pub shared_bytes: u64,
    /// Cost of the whole kernel.
    pub estimate: Estimate,
}

/// How many blocks run a kernel, and how many threads each has: the lengths of the indices that ranges of kind `grid`, `block` and `lane` name.
///
/// Several ranges may be one index: there are as many as the longest says, of a symbolic length the most there can be. Without such ranges there is one block
/// of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u64; 3],
    /// Groups of lanes of a block along x, y, z: threads, where there are no lanes.
    pub block: [u64; 3],
    /// Lanes of a group.
    pub lanes: u64,
}

impl Launch {
    /// One thread.
    pub const ONE: Launch = Launch { grid: [1; 3], block: [1; 3], lanes: 1 };

    /// That of the ranges among some nodes.
    pub fn of(nodes: &[UOp]) -> Launch {
        let mut launch = Launch::ONE;
        for node in nodes {
            let Some(range) = node.as_range() else { continue };
            let len = node.src()[0].max_value().max(1) as u64;
            let most = match range.kind {
                AxisKind::Grid(dim) => &mut launch.grid[dim as usize],
                AxisKind::Block(dim) => &mut launch.block[dim as usize],
                AxisKind::Lane => &mut launch.lanes,
                AxisKind::Parallel
                | AxisKind::Loop
                | AxisKind::Reduce
                | AxisKind::Serial
                | AxisKind::Unroll
                | AxisKind::Vector
                | AxisKind::Dot => continue,
            };
            *most = len.max(*most);
        }
        launch
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |product, len| product.saturating_mul(*len))
    }

    /// Threads of one block.
    pub fn threads(&self) -> u64 {
        self.block.iter().fold(self.lanes, |product, len| product.saturating_mul(*len))
    }

    /// Whether groups of 32 threads have the numbers of lanes that multiply matrices: 32 lanes, or 8 groups `block x` of 4.
    pub fn multiplies_matrices(&self) -> bool {
        [(32, self.block[0]), (4, 8)].contains(&(self.lanes, self.block[0]))
    }

    /// Threads of one block along x, y, z: lanes count along x.
    pub fn block_threads(&self) -> [u64; 3] {
        let [x, y, z] = self.block;
        [x.saturating_mul(self.lanes), y, z]
    }

    /// How many there are of the index that a kind of range is; none of loops.
    pub fn len_of(&self, kind: AxisKind) -> Option<u64> {
        match kind {
            AxisKind::Grid(dim) => Some(self.grid[dim as usize]),
            AxisKind::Block(dim) => Some(self.block[dim as usize]),
            AxisKind::Lane => Some(self.lanes),
            AxisKind::Parallel
            | AxisKind::Loop
            | AxisKind::Reduce
            | AxisKind::Serial
            | AxisKind::Unroll
            | AxisKind::Vector
            | AxisKind::Dot => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ThreadDim;

    #[test]
    fn the_longest_range_of_an_index_counts() {
        let ranges = [
            UOp::range(7, 0, AxisKind::Grid(ThreadDim::Y)),
            UOp::range(16, 1, AxisKind::Block(ThreadDim::X)),
            UOp::range(1, 2, AxisKind::Block(ThreadDim::X)),
            UOp::range(4, 3, AxisKind::Lane),
            UOp::range(100, 4, AxisKind::Loop),
        ];
        let launch = Launch::of(&ranges);
        assert_eq!(launch, Launch { grid: [1, 7, 1], block: [16, 1, 1], lanes: 4 });
        assert_eq!((launch.blocks(), launch.threads()), (7, 64));
        assert_eq!(launch.block_threads(), [64, 1, 1]);
        assert_eq!(launch.len_of(AxisKind::Block(ThreadDim::X)), Some(16));
        assert_eq!(launch.len_of(AxisKind::Loop), None);
        assert_eq!(Launch::of(&[]), Launch::ONE);
    }
}
