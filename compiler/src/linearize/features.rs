//! What a list needs that only some machines have: threads of blocks, and what they share. A target that lacks it refuses the list with a typed error.
//!
//! Tested below, and by the renderer for CPUs.

use crate::error::CompileError;
use crate::ir::{Arg, AxisKind, DotKind, MemorySpace, Op, TileKind, UOp};
use crate::target::{Feature, Target};

/// What a micro-op needs that only some machines have.
fn feature_of(node: &UOp) -> Option<Feature> {
    match (node.op(), node.arg()) {
        (Op::Barrier, _) => Some(Feature::Barrier),
        (Op::ShuffleReduce, _) => Some(Feature::Lanes),
        (Op::LoadMatrices | Op::MultiplyMatrices, _) => Some(Feature::Matrices),
        (Op::DotProducts, _) => {
            let [left, right, sums] = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
            DotKind::of(left, right, sums).map(Feature::Dot)
        }
        (Op::MultiplyTiles, _) => {
            let [left, right, sums] = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
            TileKind::of(left, right, sums).map(Feature::Tiles)
        }
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
            | AxisKind::Vector
            | AxisKind::Dot => None,
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
        let ones =
            |dtype: crate::DType, lanes| UOp::constant(crate::dtype::Scalar::one(dtype), dtype.with_lanes(lanes));
        let [bytes, signed, sums] =
            [ones(crate::DType::U8, 16), ones(crate::DType::I8, 16), ones(crate::DType::I32, 4)];
        let dots = UOp::new(Op::DotProducts, sums.dtype(), vec![bytes, signed, sums], Arg::None);
        assert_eq!(check(dots.clone()), lacks(Feature::Dot(DotKind::Bytes), Op::DotProducts));
        assert_eq!(check_features(&[dots], &Target::test_vnni()), Ok(()));
        let tile = |kind: TileKind| {
            let [a, b] = kind.factors().map(|factor| ones(factor, 4 * kind.group()));
            let sums = ones(kind.sums(), 4);
            UOp::new(Op::MultiplyTiles, sums.dtype(), vec![a, b, sums], Arg::Number(2))
        };
        assert_eq!(check(tile(TileKind::Bf16)), lacks(Feature::Tiles(TileKind::Bf16), Op::MultiplyTiles));
        assert_eq!(check_features(&[tile(TileKind::SignedBytes)], &Target::test_amx()), Ok(()));
        let lacking = check_features(&[tile(TileKind::F16)], &Target::test_amx());
        assert_eq!(lacking, lacks(Feature::Tiles(TileKind::F16), Op::MultiplyTiles));
        assert_eq!(check_features(&[tile(TileKind::F16)], &Target::test_amx_f16()), Ok(()));
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
}
