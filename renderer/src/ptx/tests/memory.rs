//! Goldens of memory: loads and stores under gates, of vectors and of scattered elements, and accumulators in registers.

use expect_test::expect;
use warpweft_compiler::ir::{Arg, AxisKind, ReduceOp};
use warpweft_compiler::{DType, Op, UOp};

use super::{check, variable};
use crate::test_lists::{List, i64};

#[test]
fn loads_under_gates() {
    let mut list = List::default();
    let (out, a, mask) = (list.param(0, DType::F32, 64), list.param(1, DType::F32, 64), list.param(2, DType::BOOL, 64));
    let gate = list.load(&mask, 1, &i64(0), None);
    let value = list.load(&a, 4, &i64(8), Some(&gate));
    list.store(&out, &i64(2), Some(&gate), &value);
    let gates = list.load(&mask, 2, &i64(4), None);
    let value = list.load(&a, 2, &i64(0), Some(&gates));
    list.store(&out, &i64(0), Some(&gates), &value);
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
              ld.global.nc.u8 %rs0, [%rd5];
              setp.ne.u16 %p0, %rs0, 0;
              mov.f32 %f0, 0f00000000;
              mov.f32 %f1, 0f00000000;
              mov.f32 %f2, 0f00000000;
              mov.f32 %f3, 0f00000000;
              @%p0 ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd3+32];
              @%p0 st.global.v2.f32 [%rd1+8], {%f0, %f1};
              @%p0 st.global.v2.f32 [%rd1+16], {%f2, %f3};
              ld.global.nc.v2.u8 {%rs1, %rs2}, [%rd5+4];
              setp.ne.u16 %p1, %rs1, 0;
              setp.ne.u16 %p2, %rs2, 0;
              mov.f32 %f4, 0f00000000;
              @%p1 ld.global.nc.f32 %f4, [%rd3];
              mov.f32 %f5, 0f00000000;
              @%p2 ld.global.nc.f32 %f5, [%rd3+4];
              @%p1 st.global.f32 [%rd1], %f4;
              @%p2 st.global.f32 [%rd1+4], %f5;
        "#]],
    );
}

#[test]
fn elements_here_and_there() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F64, 64), list.param(1, DType::F64, 64));
    let n = variable(&mut list, "n");
    let offsets = list.push(Op::Ramp, DType::I64.with_lanes(2), &[&n], Arg::Number(3));
    let value = list.load(&a, 2, &offsets, None);
    let narrow = list.cast(&n, DType::I32);
    list.store(&out, &narrow, None, &value);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              ld.param.s64 %rd4, [n0];
              mad.lo.s64 %rd5, %rd4, 8, %rd3;
              ld.global.nc.f64 %fd0, [%rd5];
              ld.global.nc.f64 %fd1, [%rd5+24];
              cvt.u32.u64 %r0, %rd4;
              mad.wide.s32 %rd6, %r0, 8, %rd1;
              st.global.f64 [%rd6], %fd0;
              st.global.f64 [%rd6+8], %fd1;
        "#]],
    );
}

#[test]
fn half_floats_move_by_eight() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F16, 64), list.param(1, DType::F16, 64));
    let value = list.load(&a, 8, &i64(8), None);
    list.store(&out, &i64(0), None, &value);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.v4.b32 {%r0, %r1, %r2, %r3}, [%rd3+16];
              mov.b32 {%rs0, %rs1}, %r0;
              mov.b32 {%rs2, %rs3}, %r1;
              mov.b32 {%rs4, %rs5}, %r2;
              mov.b32 {%rs6, %rs7}, %r3;
              mov.b32 %r4, {%rs0, %rs1};
              mov.b32 %r5, {%rs2, %rs3};
              mov.b32 %r6, {%rs4, %rs5};
              mov.b32 %r7, {%rs6, %rs7};
              st.global.v4.b32 [%rd1], {%r4, %r5, %r6, %r7};
        "#]],
    );
}

#[test]
fn accumulators_are_read_where_they_stand() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 64), list.param(1, DType::F32, 64));
    let zero = UOp::float(0.0, DType::F32.with_lanes(2));
    list.add(zero.clone());
    let sum = list.accumulator(0, &zero);
    let range = list.range(0, &i64(8), AxisKind::Reduce);
    let offset = list.binary(Op::Mul, &range, &i64(2));
    let value = list.load(&a, 2, &offset, None);
    // What the register held before it is set.
    let before = list.push(Op::Lane, DType::F32, &[&sum], Arg::Number(0));
    let more = list.binary(Op::Add, &sum, &value);
    list.update(&sum, &more);
    list.store(&out, &range, None, &before);
    let end = list.end(&range);
    let total = list.finished(&sum, &end);
    let total = list.push(Op::HorizontalReduce, DType::F32, &[&total], Arg::Combine(ReduceOp::Add));
    list.store(&out, &i64(60), None, &total);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p1];
              cvta.to.global.u64 %rd3, %rd2;
              mov.f32 %f0, 0f00000000;
              mov.f32 %f1, 0f00000000;
              mov.b64 %rd4, 0;
            loop0:
                mul.lo.s64 %rd5, %rd4, 2;
                mad.lo.s64 %rd6, %rd5, 4, %rd3;
                ld.global.nc.v2.f32 {%f2, %f3}, [%rd6];
                mov.f32 %f4, %f0;
                add.rn.f32 %f5, %f0, %f2;
                add.rn.f32 %f6, %f1, %f3;
                mov.f32 %f0, %f5;
                mov.f32 %f1, %f6;
                mad.lo.s64 %rd7, %rd4, 4, %rd1;
                st.global.f32 [%rd7], %f4;
                add.s64 %rd4, %rd4, 1;
                setp.lt.s64 %p0, %rd4, 8;
                @%p0 bra loop0;
              add.rn.f32 %f7, %f0, %f1;
              st.global.f32 [%rd1+240], %f7;
        "#]],
    );
}
