//! What a kernel may take at most: scratch and shared memory, straight-line code, accumulators, lanes, blocks and threads.
//!
//! Every opt passes these checks in `apply`, whoever asks for it, so no list of opts makes a kernel that a target cannot hold or a code
//! generator would sit over for minutes. A limit is not advice: what pays is the business of the choice by hand, and of search.

use super::opt::{Limit, Opt, Reason, ThreadIndex};
use crate::ir::{AxisKind, MemorySpace, Op, ThreadDim, TileKind, UOp, tiles};
use crate::kernel::local_buffers::scratch_bytes;
use crate::kernel::ranges::{Dependencies, all_ranges, closed_ranges, range_id};
use crate::lower::loops::ranges_by_id;
use crate::program::Launch;
use crate::target::{Feature, Target};
use crate::verify;

/// Nodes that a kernel may have once its tiles are straight-line code; those of the choice by hand have some hundreds.
const CODE_NODES_MAX: u64 = 1 << 14;

/// Tiles that a reduction may sum: the registers but two, for a tile of each factor.
const TILES_SUMMED_MAX: u64 = tiles::REGISTERS as u64 - 2;

/// What can be told before an opt is applied.
pub(super) fn check_request(root: &UOp, opt: &Opt, target: &Target) -> Result<(), Reason> {
    match opt {
        Opt::Vectorize { lanes, .. } => {
            if !lanes.is_power_of_two() {
                return Err("a vector has a power of two of lanes".into());
            }
            at_most(Limit::Lanes, u64::from(*lanes), lanes_max(root, target))
        }
        Opt::Thread { .. } | Opt::ThreadPair { .. } => at_most(Limit::Threads, 2, u64::from(target.threads)),
        Opt::OwnerComputes { owners, .. } => at_most(Limit::Threads, u64::from(*owners), u64::from(target.threads)),
        Opt::Map { index: ThreadIndex::Grid(_), .. } => needs(Feature::Grid, target),
        Opt::Map { index: ThreadIndex::Block(_), .. } => needs(Feature::Block, target),
        Opt::Map { index: ThreadIndex::Lane, .. } => needs(Feature::Lanes, target),
        Opt::MultiplyMatrices { .. } => needs(Feature::Lanes, target).and_then(|()| needs(Feature::Matrices, target)),
        Opt::MultiplyTiles { .. } => match TileKind::ALL.into_iter().any(|kind| target.tiles.has(kind)) {
            true => Ok(()),
            false => Err(Reason::Lacks(Feature::Tiles(TileKind::Bf16))),
        },
        Opt::StagePadded { .. } | Opt::StageAhead { .. } => needs(Feature::SharedMemory, target),
        Opt::StageShared { .. } | Opt::KeepShared { .. } => needs(Feature::SharedMemory, target),
        Opt::Group { .. } => needs(Feature::SharedMemory, target).and_then(|()| needs(Feature::Barrier, target)),
        _ => Ok(()),
    }
}

/// Lanes that fill a vector register with the smallest elements that a kernel loads or stores.
pub(super) fn lanes_max(root: &UOp, target: &Target) -> u64 {
    let nodes = crate::ir::postorder(std::slice::from_ref(root));
    let accesses = nodes.iter().filter(|node| node.op() == Op::Index);
    let smallest = accesses.map(|index| index.dtype().element().bytes()).min().unwrap_or(1);
    u64::from(target.vector_bytes) / smallest.max(1) as u64
}

/// What an opt made of a kernel, if the target holds it.
pub(super) fn check_result(before: &UOp, after: &UOp, target: &Target) -> Result<(), Reason> {
    let measured = Measured::of(after);
    if measured.code > CODE_NODES_MAX {
        // A kernel that is longer by itself may still become vectors.
        let grown = Measured::of(before).code;
        at_most(Limit::Code, measured.code, CODE_NODES_MAX.max(grown.saturating_add(grown / 8)))?;
    }
    at_most(Limit::Registers, measured.accumulators, u64::from(target.vector_registers))?;
    at_most(Limit::Tiles, measured.tiles, TILES_SUMMED_MAX)?;
    at_most(Limit::Scratch, scratch_bytes(after, MemorySpace::Private), target.scratch_bytes)?;
    check_threads(after, target)
}

fn needs(feature: Feature, target: &Target) -> Result<(), Reason> {
    if target.has(feature) { Ok(()) } else { Err(Reason::Lacks(feature)) }
}

/// Bytes of memory that the threads of a block may share.
pub(super) fn shared_bytes(target: &Target) -> u64 {
    target.blocks.as_ref().map_or(0, |blocks| blocks.shared_bytes)
}

/// Whether the target has the blocks and threads that a kernel runs in, and these may share what they do.
fn check_threads(root: &UOp, target: &Target) -> Result<(), Reason> {
    let launch = Launch::of(&all_ranges(root));
    if let Some(blocks) = &target.blocks {
        for dim in ThreadDim::ALL.map(|dim| dim as usize) {
            at_most(Limit::Grid, launch.grid[dim], blocks.grid_max[dim])?;
            // Lanes are the nearest neighbours along the first dimension.
            let lanes = if dim == ThreadDim::X as usize { launch.lanes } else { 1 };
            at_most(Limit::Block, launch.block[dim].saturating_mul(lanes), blocks.block_max[dim])?;
        }
        at_most(Limit::Warp, launch.lanes, blocks.lanes)?;
        at_most(Limit::BlockThreads, launch.threads(), blocks.threads_max)?;
        at_most(Limit::Shared, scratch_bytes(root, MemorySpace::Shared), blocks.shared_bytes)?;
    }
    verify::threads::problem(root).map_or(Ok(()), |(_, message)| Err(message.into()))
}

/// An error if more is needed than there may be.
pub(super) fn at_most(limit: Limit, needed: u64, most: u64) -> Result<(), Reason> {
    if needed > most { Err(Reason::Limit { limit, needed, most }) } else { Ok(()) }
}

/// A kernel's size once its tiles are expanded.
struct Measured {
    /// Nodes, each as often as it is there.
    code: u64,
    /// The most that one reduction takes.
    accumulators: u64,
    /// The most tiles that one reduction sums.
    tiles: u64,
}

impl Measured {
    fn of(root: &UOp) -> Measured {
        let nodes = crate::ir::postorder(std::slice::from_ref(root));
        let is_repeated = |kind: AxisKind| matches!(kind, AxisKind::Unroll | AxisKind::Dot);
        if !nodes.iter().any(|node| node.as_range().is_some_and(|arg| is_repeated(arg.kind))) {
            return Measured { code: nodes.len() as u64, accumulators: 1, tiles: 1 };
        }
        let dependencies = Dependencies::of(root);
        let ranges = ranges_by_id(root);
        let is = |range: &UOp, kind: AxisKind| range.as_range().is_some_and(|arg| arg.kind == kind);
        let of_kind = |kind: AxisKind| {
            let copied = ranges.values().filter(|range| is(range, kind));
            let mut found: Vec<(u32, u64)> =
                copied.map(|range| (range_id(range), range.src()[0].max_value().max(1) as u64)).collect();
            found.sort_unstable();
            found
        };
        // Terms that are added up have an accumulator together.
        let (unrolled, terms) = (of_kind(AxisKind::Unroll), of_kind(AxisKind::Dot));
        let mut measured = Measured { code: 0, accumulators: 0, tiles: 0 };
        for node in &dependencies.order {
            let set = dependencies.get(node);
            let closed = closed_ranges(node);
            let stands_in = |id: u32| set.contains(id) || closed.iter().any(|range| range_id(range) == id);
            let times = |ranges: &[(u32, u64)]| {
                let around = ranges.iter().filter(|(id, _)| stands_in(*id));
                around.fold(1u64, |product, (_, len)| product.saturating_mul(*len))
            };
            let copies = times(&unrolled);
            measured.code = measured.code.saturating_add(copies.saturating_mul(times(&terms)));
            // A reduction over lanes and copies alone has no loop to accumulate in.
            if node.op() == Op::MultiplyTiles {
                measured.tiles = measured.tiles.max(copies);
            }
            if node.op() == Op::ReduceRange && closed.iter().any(|range| is(range, AxisKind::Reduce)) {
                measured.accumulators = measured.accumulators.max(copies);
            }
        }
        measured
    }
}
