//! Goldens of what threads do together: matrices and reductions of a warp, and shared memory of a block.

use expect_test::expect;
use warpweft_compiler::ir::{Arg, AxisKind, MemorySpace, ReduceOp, ThreadDim};
use warpweft_compiler::{DType, Op, UOp};

use super::{check, hopper};
use crate::test_lists::{List, i64, source};

#[test]
fn matrices_are_pairs_of_halves_in_registers() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 128), list.param(1, DType::BF16, 512));
    let b = list.param(2, DType::BF16, 64);
    let lane = list.range(0, &i64(32), AxisKind::Lane);
    let offset = list.binary(Op::Mul, &lane, &i64(8));
    let left = list.load(&a, 8, &offset, None);
    let offset = list.binary(Op::Mul, &lane, &i64(2));
    let [low, high] = [0, 1].map(|part| {
        let at = list.binary(Op::Add, &offset, &i64(part));
        list.load(&b, 1, &at, None)
    });
    let right = list.push(Op::Stack, DType::BF16.with_lanes(4), &[&low, &high, &high, &low], Arg::None);
    let sums = UOp::float(0.0, DType::F32.with_lanes(4));
    list.add(sums.clone());
    let sums = list.push(Op::MultiplyMatrices, sums.dtype(), &[&left, &right, &sums], Arg::None);
    let offset = list.binary(Op::Mul, &lane, &i64(4));
    list.store(&out, &offset, None, &sums);
    list.end(&lane);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              ld.param.u64 %rd4, [p2];
              cvta.to.global.u64 %rd5, %rd4;
              mov.u32 %r0, %tid.x;
              and.b32 %r1, %r0, 31;
              cvt.u64.u32 %rd6, %r1;
                mul.lo.s64 %rd7, %rd6, 8;
                mad.lo.s64 %rd8, %rd7, 2, %rd3;
                ld.global.nc.v4.b32 {%r2, %r3, %r4, %r5}, [%rd8];
                mov.b32 {%rs0, %rs1}, %r2;
                mov.b32 {%rs2, %rs3}, %r3;
                mov.b32 {%rs4, %rs5}, %r4;
                mov.b32 {%rs6, %rs7}, %r5;
                mul.lo.s64 %rd9, %rd6, 2;
                add.s64 %rd10, %rd9, 0;
                mad.lo.s64 %rd11, %rd9, 2, %rd5;
                ld.global.nc.b16 %rs8, [%rd11];
                ld.global.nc.b16 %rs9, [%rd11+2];
                mov.b32 %r6, {%rs0, %rs1};
                mov.b32 %r7, {%rs2, %rs3};
                mov.b32 %r8, {%rs4, %rs5};
                mov.b32 %r9, {%rs6, %rs7};
                mov.b32 %r10, {%rs8, %rs9};
                mov.b32 %r11, {%rs9, %rs8};
                mov.f32 %f0, 0f00000000;
                mov.f32 %f1, 0f00000000;
                mov.f32 %f2, 0f00000000;
                mov.f32 %f3, 0f00000000;
                mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r6, %r7, %r8, %r9}, {%r10, %r11}, {%f0, %f1, %f2, %f3};
                mul.lo.s64 %rd12, %rd6, 4;
                mad.lo.s64 %rd13, %rd12, 4, %rd1;
                st.global.v4.f32 [%rd13], {%f4, %f5, %f6, %f7};
        "#]],
    );
}

#[test]
fn lanes_combine_what_they_have() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F64, 64), list.param(1, DType::F64, 64));
    let block = list.range(0, &i64(4), AxisKind::Block(ThreadDim::X));
    let lane = list.range(1, &i64(2), AxisKind::Lane);
    let value = list.load(&a, 1, &lane, None);
    let end = list.end(&lane);
    let total = list.push(Op::ShuffleReduce, DType::F64, &[&value, &end], Arg::Combine(ReduceOp::Max));
    let first = list.range(2, &i64(1), AxisKind::Lane);
    list.store(&out, &block, None, &total);
    list.end(&first);
    list.end(&block);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              mov.u32 %r0, %tid.x;
              shr.u32 %r1, %r0, 1;
              cvt.u64.u32 %rd4, %r1;
                mov.u32 %r2, %tid.x;
                and.b32 %r3, %r2, 1;
                cvt.u64.u32 %rd5, %r3;
                  mad.lo.s64 %rd6, %rd5, 8, %rd3;
                  ld.global.nc.f64 %fd0, [%rd6];
                mov.u32 %r4, %laneid;
                and.b32 %r5, %r4, -2;
                mov.b32 %r6, 3;
                shl.b32 %r7, %r6, %r5;
                mov.b64 {%r8, %r9}, %fd0;
                shfl.sync.bfly.b32 %r10, %r8, 1, 31, %r7;
                shfl.sync.bfly.b32 %r11, %r9, 1, 31, %r7;
                mov.b64 %fd1, {%r10, %r11};
                max.f64 %fd2, %fd0, %fd1;
                setp.nan.f64 %p0, %fd0, %fd1;
                selp.f64 %fd3, 0d7FF8000000000000, %fd2, %p0;
                mov.u32 %r12, %tid.x;
                and.b32 %r13, %r12, 1;
                cvt.u64.u32 %rd7, %r13;
                setp.ge.s64 %p1, %rd7, 1;
                @%p1 bra end2;
                  mad.lo.s64 %rd8, %rd4, 8, %rd1;
                  st.global.f64 [%rd8], %fd3;
              end2:
        "#]],
    );
}

#[test]
fn every_type_goes_through_a_warp() {
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::F16 && *dtype != DType::BF16) {
        let mut list = List::default();
        let (out, a) = (list.param(0, dtype, 64), list.param(1, dtype, 64));
        let lane = list.range(1, &i64(32), AxisKind::Lane);
        let value = list.load(&a, 1, &lane, None);
        let end = list.end(&lane);
        let total = list.push(Op::ShuffleReduce, dtype, &[&value, &end], Arg::Combine(ReduceOp::Min));
        list.store(&out, &i64(0), None, &total);
        let text = source(list, &hopper());
        let words = dtype.bytes().div_ceil(4);
        assert_eq!(text.matches("shfl.sync.bfly.b32").count(), 5 * words, "{text}");
        assert_eq!(text.matches(", 31, -1;").count(), 5 * words, "{text}");
    }
}

#[test]
fn threads_of_a_block_share_memory() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 4096), list.param(1, DType::F32, 4096));
    let tile = list.add(UOp::new(Op::Scratch, DType::F32, vec![], Arg::Scratch(3, 64, MemorySpace::Shared)));
    let own = list.add(UOp::new(Op::Scratch, DType::I16, vec![], Arg::Scratch(4, 2, MemorySpace::Private)));
    let grid = list.range(0, &i64(7), AxisKind::Grid(ThreadDim::Y));
    let thread = list.range(1, &i64(64), AxisKind::Block(ThreadDim::Z));
    let value = list.load(&a, 1, &thread, None);
    list.store(&tile, &thread, None, &value);
    list.store(&own, &i64(1), None, &UOp::int(-3, DType::I16));
    list.end(&thread);
    list.push(Op::Barrier, DType::VOID, &[], Arg::Number(0));
    let first = list.range(2, &i64(1), AxisKind::Block(ThreadDim::Z));
    let value = list.load(&tile, 4, &i64(4), None);
    list.store(&out, &i64(0), None, &value);
    list.end(&first);
    list.end(&grid);
    check(
        list,
        expect![[r#"
            {
              .local .align 64 .b8 local4[4];
              .shared .align 64 .b8 shared3[256];
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              mov.u64 %rd4, shared3;
              mov.u64 %rd5, local4;
              mov.u32 %r0, %ctaid.y;
              cvt.u64.u32 %rd6, %r0;
                mov.u32 %r1, %tid.z;
                cvt.u64.u32 %rd7, %r1;
                  mad.lo.s64 %rd8, %rd7, 4, %rd3;
                  mad.lo.s64 %rd9, %rd7, 4, %rd4;
                  cp.async.ca.shared.global [%rd9], [%rd8], 4;
                  mov.b16 %rs0, -3;
                  st.local.b16 [%rd5+2], %rs0;
                cp.async.wait_all;
                bar.sync 0;
                mov.u32 %r2, %tid.z;
                cvt.u64.u32 %rd10, %r2;
                setp.ge.s64 %p0, %rd10, 1;
                @%p0 bra end2;
                  ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%rd4+16];
                  st.global.v4.f32 [%rd1], {%f0, %f1, %f2, %f3};
              end2:
        "#]],
    );
}

#[test]
fn much_shared_memory_is_given_at_launch() {
    let mut list = List::default();
    let out = list.param(0, DType::F32, 64);
    let shared = |number| UOp::new(Op::Scratch, DType::F32, vec![], Arg::Scratch(number, 8192, MemorySpace::Shared));
    let (first, second) = (list.add(shared(0)), list.add(shared(1)));
    let (x, y) = (list.load(&first, 1, &i64(1), None), list.load(&second, 1, &i64(1), None));
    let sum = list.binary(Op::Add, &x, &y);
    list.store(&out, &i64(0), None, &sum);
    let text = source(list, &hopper());
    assert!(text.contains(".extern .shared .align 64 .b8 shared[];\n\n.visible .entry"), "{text}");
    assert!(
        text.contains("ld.shared.f32 %f0, [%rd2+4];") && text.contains("ld.shared.f32 %f1, [%rd3+32772];"),
        "{text}"
    );
}
