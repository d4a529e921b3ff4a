//! How many blocks run a list, and how many threads each has: the lengths of the indices that its ranges of kind `grid`, `block` and
//! `lane` name.
//!
//! Several ranges may be one index: there are as many as the longest says, and a thread does nothing in a range that is shorter than its index.
//! Always: without such ranges there is one block of one thread. Tested below.

use crate::error::CompileError;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, UOp};
use crate::target::{Feature, Target};

/// The numbers of blocks and threads of a list, along each dimension; of a symbolic length the most there can be.
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
    /// That of the ranges among some nodes.
    pub fn of(nodes: &[UOp]) -> Launch {
        let mut launch = Launch { grid: [1; 3], block: [1; 3], lanes: 1 };
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
                | AxisKind::Vector => continue,
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
            | AxisKind::Vector => None,
        }
    }
}

/// What a micro-op needs that only some machines have.
fn feature_of(node: &UOp) -> Option<Feature> {
    match (node.op(), node.arg()) {
        (Op::Barrier, _) => Some(Feature::Barrier),
        (Op::ShuffleReduce, _) => Some(Feature::Lanes),
        (Op::Scratch, Arg::Scratch(_, _, MemorySpace::Shared)) => Some(Feature::SharedMemory),
        (Op::Range, Arg::Range(range)) => match range.kind {
            AxisKind::Grid(_) => Some(Feature::Grid),
            AxisKind::Block(_) => Some(Feature::Block),
            AxisKind::Lane => Some(Feature::Lanes),
            AxisKind::Parallel
            | AxisKind::Loop
            | AxisKind::Reduce
            | AxisKind::Serial
            | AxisKind::Unroll
            | AxisKind::Vector => None,
        },
        _ => None,
    }
}

/// Whether a target has all that a list needs of threads.
///
/// # Errors
/// [`CompileError::Lacks`] with the first op that needs what is not there.
pub fn check_features(ops: &[UOp], target: &Target) -> Result<(), CompileError> {
    let lacking = ops.iter().find_map(|node| Some((node.op(), feature_of(node).filter(|found| !target.has(*found))?)));
    match lacking {
        Some((op, feature)) => Err(CompileError::Lacks { target: target.device.clone(), feature, op }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ThreadDim;

    #[test]
    fn what_a_machine_lacks_is_named() {
        let check = |node: UOp| check_features(&[node], &Target::test_avx512());
        let lacks = |feature, op| Err(CompileError::Lacks { target: "CPU".to_string(), feature, op });
        let range = |kind| UOp::range(8, 0, kind);
        let scratch = |space| UOp::new(Op::Scratch, crate::DType::F32, vec![], Arg::Scratch(0, 8, space));
        assert_eq!(check(range(AxisKind::Parallel)), Ok(()));
        assert_eq!(check(range(AxisKind::Grid(ThreadDim::Z))), lacks(Feature::Grid, Op::Range));
        assert_eq!(check(range(AxisKind::Block(ThreadDim::X))), lacks(Feature::Block, Op::Range));
        assert_eq!(check(range(AxisKind::Lane)), lacks(Feature::Lanes, Op::Range));
        assert_eq!(check(scratch(MemorySpace::Private)), Ok(()));
        assert_eq!(check(scratch(MemorySpace::Shared)), lacks(Feature::SharedMemory, Op::Scratch));
        let barrier = UOp::new(Op::Barrier, crate::DType::VOID, vec![], Arg::Number(0));
        assert_eq!(check(barrier.clone()), lacks(Feature::Barrier, Op::Barrier));
        assert_eq!(check_features(&[barrier, range(AxisKind::Lane)], &Target::gpu_model()), Ok(()));
        let error = check(scratch(MemorySpace::Shared)).unwrap_err().to_string();
        assert_eq!(error, "CPU has no shared memory between threads, which the kernel needs for `scratch`");
    }

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
        assert_eq!(launch.len_of(AxisKind::Block(ThreadDim::X)), Some(16));
        assert_eq!(launch.len_of(AxisKind::Loop), None);
        assert_eq!(Launch::of(&[]).threads(), 1);
    }
}
