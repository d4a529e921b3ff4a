//! Goldens of casts and bitcasts between every kind of type.

use expect_test::{Expect, expect};
use warpweft_compiler::ir::Arg;
use warpweft_compiler::{DType, Op};

use super::{body, check_two, hopper};
use crate::test_lists::{List, i64, source};

/// The casts from a type to others, each in a line or some.
fn check_casts(from: DType, to: &[DType], golden: Expect) {
    let mut list = List::default();
    let a = list.param(0, from, 64);
    let x = list.load(&a, 1, &i64(0), None);
    for dtype in to {
        list.cast(&x, *dtype);
    }
    let body = body(&source(list, &hopper()));
    let start = body.find("ld.global").expect("it is loaded");
    golden.assert_eq(&body[start..]);
}

#[test]
fn casts_between_all_kinds() {
    use warpweft_compiler::DType as D;
    check_casts(
        DType::BOOL,
        &[D::I8, D::F16, D::F32, D::I64],
        expect![[r#"
        ld.global.u8 %rs0, [%rd1];
          setp.ne.u16 %p0, %rs0, 0;
          selp.b16 %rs1, 1, 0, %p0;
          selp.b16 %rs2, 0x3C00, 0, %p0;
          selp.f32 %f0, 0f3F800000, 0f00000000, %p0;
          selp.b64 %rd2, 1, 0, %p0;
    "#]],
    );
    check_casts(
        DType::I8,
        &[D::U8, D::U16, D::I32, D::U64, D::F32, D::BOOL],
        expect![[r#"
        ld.global.s8 %rs0, [%rd1];
          cvt.u16.u8 %rs1, %rs0;
          cvt.s32.s16 %r0, %rs0;
          cvt.s64.s16 %rd2, %rs0;
          cvt.rn.f32.s16 %f0, %rs0;
          setp.ne.s16 %p0, %rs0, 0;
    "#]],
    );
    check_casts(
        DType::U8,
        &[D::I8, D::I16, D::U32, D::I64, D::F64],
        expect![[r#"
        ld.global.u8 %rs0, [%rd1];
          cvt.s16.s8 %rs1, %rs0;
          cvt.u32.u16 %r0, %rs0;
          cvt.u64.u16 %rd2, %rs0;
          cvt.rn.f64.u16 %fd0, %rs0;
    "#]],
    );
    check_casts(
        DType::I64,
        &[D::I8, D::U16, D::I32, D::U64, D::F32, D::BOOL],
        expect![[r#"
        ld.global.b64 %rd2, [%rd1];
          cvt.u16.u64 %rs0, %rd2;
          cvt.s16.s8 %rs1, %rs0;
          cvt.u16.u64 %rs2, %rd2;
          cvt.u32.u64 %r0, %rd2;
          cvt.rn.f32.s64 %f0, %rd2;
          setp.ne.s64 %p0, %rd2, 0;
    "#]],
    );
    check_casts(
        DType::U32,
        &[D::I32, D::I64, D::U8, D::F64],
        expect![[r#"
        ld.global.b32 %r0, [%rd1];
          cvt.u64.u32 %rd2, %r0;
          cvt.u16.u32 %rs0, %r0;
          cvt.u16.u8 %rs1, %rs0;
          cvt.rn.f64.u32 %fd0, %r0;
    "#]],
    );
}

#[test]
fn casts_of_floats() {
    use warpweft_compiler::DType as D;
    check_casts(
        DType::F32,
        &[D::F64, D::F16, D::BF16, D::I32, D::U8, D::U64, D::BOOL],
        expect![[r#"
        ld.global.f32 %f0, [%rd1];
          cvt.f64.f32 %fd0, %f0;
          cvt.rn.f16.f32 %rs0, %f0;
          cvt.rn.bf16.f32 %rs1, %f0;
          cvt.rzi.s64.f32 %rd2, %f0;
          setp.nan.f32 %p0, %f0, %f0;
          selp.b64 %rd3, 0, %rd2, %p0;
          cvt.u32.u64 %r0, %rd3;
          cvt.rzi.s64.f32 %rd4, %f0;
          setp.nan.f32 %p1, %f0, %f0;
          selp.b64 %rd5, 0, %rd4, %p1;
          cvt.u16.u64 %rs2, %rd5;
          cvt.u16.u8 %rs3, %rs2;
          cvt.rzi.s64.f32 %rd6, %f0;
          setp.nan.f32 %p2, %f0, %f0;
          selp.b64 %rd7, 0, %rd6, %p2;
          cvt.rzi.u64.f32 %rd8, %f0;
          setp.ge.f32 %p3, %f0, 0f00000000;
          selp.b64 %rd9, %rd8, %rd7, %p3;
          setp.neu.f32 %p4, %f0, 0f00000000;
    "#]],
    );
    check_casts(
        DType::F64,
        &[D::F32, D::I64],
        expect![[r#"
        ld.global.f64 %fd0, [%rd1];
          cvt.rn.f32.f64 %f0, %fd0;
          cvt.rzi.s64.f64 %rd2, %fd0;
          setp.nan.f64 %p0, %fd0, %fd0;
          selp.b64 %rd3, 0, %rd2, %p0;
    "#]],
    );
    check_casts(
        DType::F16,
        &[D::F32, D::F64],
        expect![[r#"
        ld.global.b16 %rs0, [%rd1];
          cvt.f32.f16 %f0, %rs0;
          cvt.f64.f16 %fd0, %rs0;
    "#]],
    );
    check_casts(
        DType::BF16,
        &[D::F32],
        expect![[r#"
        ld.global.b16 %rs0, [%rd1];
          mov.b16 %rs1, 0;
          mov.b32 %f0, {%rs1, %rs0};
    "#]],
    );
}

#[test]
fn bits_move_between_kinds() {
    check_two(
        DType::F32,
        |list, x, _| list.push(Op::Bitcast, DType::U32, &[x], Arg::None),
        expect![[r#"
            {
              ld.param.u64 %rd0, [p1];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.f32 %f0, [%rd1];
              ld.global.nc.f32 %f1, [%rd3];
              mov.b32 %r0, %f0;
              ld.param.u64 %rd4, [p0];
              cvta.to.global.u64 %rd5, %rd4;
              st.global.b32 [%rd5], %r0;
        "#]],
    );
    check_two(
        DType::I8,
        |list, x, _| list.push(Op::Bitcast, DType::U8, &[x], Arg::None),
        expect![[r#"
            {
              ld.param.u64 %rd0, [p1];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.s8 %rs0, [%rd1];
              ld.global.nc.s8 %rs1, [%rd3];
              cvt.u16.u8 %rs2, %rs0;
              ld.param.u64 %rd4, [p0];
              cvta.to.global.u64 %rd5, %rd4;
              st.global.b8 [%rd5], %rs2;
        "#]],
    );
}
