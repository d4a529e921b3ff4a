//! What splits leave over, of loops of known and of symbolic lengths.

use super::*;
use crate::DType;
use crate::ir::Dim;
use crate::ir::ReduceOp;
use crate::pipeline::{LowerOptions, lower_kernel};
use crate::watch::Silent;

/// Lanes of what the stores of a kernel store, in order.
fn stored_lanes(value: UOp, room: u64) -> Vec<usize> {
    let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, room), value], Arg::None);
    let options = LowerOptions::default();
    let linear = lower_kernel(&UOp::sink([store]), &Target::test_avx512(), &options, &mut Silent).unwrap();
    let stores = linear.ops.iter().filter(|node| node.op() == Op::Store);
    stores.map(|node| node.src()[1].dtype().lanes()).collect()
}

#[test]
fn what_does_not_fill_the_lanes_of_a_symbolic_loop_is_stored_one_by_one() {
    let part = |n: UOp| UOp::param(1, DType::F32, 512).shrink(&[(Dim::from(0), Dim::from(n))]).exp2();
    assert_eq!(stored_lanes(part(UOp::variable("n", 1, 512)), 512), [16, 1]);
    assert_eq!(stored_lanes(part(UOp::variable("n", 16, 512)), 512), [16]);
    assert_eq!(stored_lanes(part(UOp::variable("n", 1, 32) * 16), 512), [16]);
}

#[test]
fn symbolic_loops_are_shared_out_and_those_beside_them_become_vectors() {
    let n = UOp::variable("n", 1, 600);
    let x = UOp::param(1, DType::F32, 600 * 200)
        .reshape([600, 200])
        .shrink(&[(Dim::from(0), Dim::from(&n)), (Dim::from(0), Dim::from(200))]);
    let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 600 * 200), x.exp2()], Arg::None);
    let target = Target::test_avx512();
    let linear = lower_kernel(&UOp::sink([store]), &target, &LowerOptions::default(), &mut Silent).unwrap();
    assert_eq!(linear.grid, 600);
    let stored = linear.ops.iter().filter(|node| node.op() == Op::Store).map(|node| node.src()[1].dtype().lanes());
    assert!(stored.into_iter().all(|lanes| lanes > 1));
}

#[test]
fn what_is_left_of_a_reduction_has_inner_loops_of_its_own() {
    // A reduction over 40, which leaves 8 of 16 lanes, of a reduction that depends on it.
    let inner = UOp::param(1, DType::F32, 40 * 7).reshape([7, 40]).exp2().reduce(ReduceOp::Add, &[0]);
    let value = inner.max(0).reduce(ReduceOp::Add, &[0]).reshape([1]);
    let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 1), value], Arg::None);
    // The check of the list, which every kernel passes, finds a loop that stands twice.
    assert!(lower_kernel(&UOp::sink([store]), &Target::test_avx512(), &LowerOptions::default(), &mut Silent).is_ok());
}
