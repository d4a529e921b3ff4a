//! Goldens of elementwise ops of every kind of type.

use expect_test::{Expect, expect};
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::Arg;
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use super::{body, check, check_two, hopper, variable};
use crate::test_lists::{List, i64, source};

/// What stands between the loads of two operands and the store of a result, of each op in turn.
fn check_ops(dtype: DType, ops: &[Op], golden: Expect) {
    let mut text = String::new();
    for op in ops {
        let mut list = List::default();
        let (a, b) = (list.param(1, dtype, 64), list.param(2, dtype, 64));
        let (x, y) = (list.load(&a, 1, &i64(0), None), list.load(&b, 1, &i64(0), None));
        let src: Vec<UOp> = [&x, &y, &x].into_iter().take(op.arity()).cloned().collect();
        let result = if op.is_comparison() { DType::BOOL } else { dtype };
        let value = list.add(UOp::new(*op, result, src, Arg::None));
        let out = list.param(0, result, 64);
        list.store(&out, &i64(0), None, &value);
        let body = body(&source(list, &hopper()));
        let lines: Vec<&str> = body.lines().collect();
        let first = lines.iter().rposition(|line| line.contains("ld.global")).expect("it is loaded") + 1;
        let first = if dtype.is_bool() { first + 1 } else { first };
        let last = lines.iter().rposition(|line| line.contains("ld.param")).expect("a result is stored");
        text += &format!("{op}\n{}\n", lines[first..last].join("\n"));
    }
    golden.assert_eq(&text);
}

#[test]
fn floats_round_where_it_is_written() {
    let ops = [Op::Neg, Op::Sqrt, Op::Trunc, Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Lt, Op::Ne, Op::MulAdd];
    check_ops(
        DType::F32,
        &ops,
        expect![[r#"
        neg
          neg.f32 %f2, %f0;
        sqrt
          sqrt.rn.f32 %f2, %f0;
        trunc
          cvt.rzi.f32.f32 %f2, %f0;
        add
          add.rn.f32 %f2, %f0, %f1;
        sub
          sub.rn.f32 %f2, %f0, %f1;
        mul
          mul.rn.f32 %f2, %f0, %f1;
        div
          div.rn.f32 %f2, %f0, %f1;
        max
          max.NaN.f32 %f2, %f0, %f1;
        lt
          setp.lt.f32 %p0, %f0, %f1;
        ne
          setp.neu.f32 %p0, %f0, %f1;
        muladd
          fma.rn.f32 %f2, %f0, %f1, %f0;
    "#]],
    );
    check_ops(
        DType::F64,
        &[Op::Add, Op::Min, Op::Eq, Op::MulAdd, Op::Trunc],
        expect![[r#"
        add
          add.rn.f64 %fd2, %fd0, %fd1;
        min
          min.f64 %fd2, %fd0, %fd1;
          setp.nan.f64 %p0, %fd0, %fd1;
          selp.f64 %fd3, 0d7FF8000000000000, %fd2, %p0;
        eq
          setp.eq.f64 %p0, %fd0, %fd1;
        muladd
          fma.rn.f64 %fd2, %fd0, %fd1, %fd0;
        trunc
          cvt.rzi.f64.f64 %fd2, %fd0;
    "#]],
    );
}

#[test]
fn extremes_of_machines_without_their_instruction() {
    let mut list = List::default();
    let a = list.param(1, DType::F32, 64);
    let x = list.load(&a, 1, &i64(0), None);
    let value = list.binary(Op::Max, &x, &x);
    let out = list.param(0, DType::F32, 64);
    list.store(&out, &i64(0), None, &value);
    let text = source(list, &Target { processor: "sm_75".to_string(), ..hopper() });
    assert!(text.contains(".version 6.0\n.target sm_70\n") && !text.contains("NaN"), "{text}");
    assert!(text.contains("setp.nan.f32"), "{text}");
}

#[test]
fn integers_wrap_in_their_width() {
    let ops = [Op::Neg, Op::Not, Op::Add, Op::Mul, Op::Min, Op::Lt, Op::Xor, Op::Shl, Op::Shr, Op::MulAdd];
    check_ops(
        DType::I32,
        &ops,
        expect![[r#"
        neg
          neg.s32 %r2, %r0;
        not
          not.b32 %r2, %r0;
        add
          add.s32 %r2, %r0, %r1;
        mul
          mul.lo.s32 %r2, %r0, %r1;
        min
          min.s32 %r2, %r0, %r1;
        lt
          setp.lt.s32 %p0, %r0, %r1;
        xor
          xor.b32 %r2, %r0, %r1;
        shl
          shl.b32 %r2, %r0, %r1;
        shr
          shr.s32 %r2, %r0, %r1;
        muladd
          mad.lo.s32 %r2, %r0, %r1, %r0;
    "#]],
    );
}

#[test]
fn bytes_are_extended_again() {
    check_ops(
        DType::U8,
        &[Op::Neg, Op::Not, Op::Sub, Op::Shl, Op::Shr, Op::Max],
        expect![[r#"
        neg
          neg.s16 %rs2, %rs0;
          cvt.u16.u8 %rs3, %rs2;
        not
          not.b16 %rs2, %rs0;
          cvt.u16.u8 %rs3, %rs2;
        sub
          sub.u16 %rs2, %rs0, %rs1;
          cvt.u16.u8 %rs3, %rs2;
        shl
          cvt.u32.u16 %r0, %rs1;
          shl.b16 %rs2, %rs0, %r0;
          cvt.u16.u8 %rs3, %rs2;
        shr
          cvt.u32.u16 %r0, %rs1;
          shr.u16 %rs2, %rs0, %r0;
        max
          max.u16 %rs2, %rs0, %rs1;
    "#]],
    );
    check_ops(
        DType::I8,
        &[Op::Not, Op::Mul, Op::Shl, Op::CDiv],
        expect![[r#"
        not
          not.b16 %rs2, %rs0;
        mul
          mul.lo.s16 %rs2, %rs0, %rs1;
          cvt.s16.s8 %rs3, %rs2;
        shl
          cvt.u32.u16 %r0, %rs1;
          shl.b16 %rs2, %rs0, %r0;
          cvt.s16.s8 %rs3, %rs2;
        cdiv
          setp.eq.s16 %p0, %rs1, 0;
          selp.b16 %rs2, 1, %rs1, %p0;
          div.s16 %rs3, %rs0, %rs2;
          selp.b16 %rs4, 0, %rs3, %p0;
          cvt.s16.s8 %rs5, %rs4;
    "#]],
    );
    check_ops(
        DType::I64,
        &[Op::And, Op::Sub, Op::Shl, Op::Shr, Op::Ne],
        expect![[r#"
        and
          and.b64 %rd6, %rd4, %rd5;
        sub
          sub.s64 %rd6, %rd4, %rd5;
        shl
          min.u64 %rd6, %rd5, 64;
          cvt.u32.u64 %r0, %rd6;
          shl.b64 %rd7, %rd4, %r0;
        shr
          min.u64 %rd6, %rd5, 64;
          cvt.u32.u64 %r0, %rd6;
          shr.s64 %rd7, %rd4, %r0;
        ne
          setp.ne.s64 %p0, %rd4, %rd5;
    "#]],
    );
}

#[test]
fn bools_are_predicates() {
    check_ops(
        DType::BOOL,
        &[Op::Not, Op::Add, Op::Mul, Op::Lt, Op::Eq, Op::Xor],
        expect![[r#"
        not
          not.pred %p2, %p0;
        add
          or.pred %p2, %p0, %p1;
        mul
          and.pred %p2, %p0, %p1;
        lt
          not.pred %p2, %p0;
          and.pred %p3, %p2, %p1;
        eq
          xor.pred %p2, %p0, %p1;
          not.pred %p3, %p2;
        xor
          xor.pred %p2, %p0, %p1;
    "#]],
    );
    check_two(
        DType::BOOL,
        |list, x, y| {
            list.push(Op::Where, DType::BOOL, &[x, y, &UOp::constant(Scalar::Bool(true), DType::BOOL)], Arg::None)
        },
        expect![[r#"
            {
              ld.param.u64 %rd0, [p1];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.u8 %rs0, [%rd1];
              setp.ne.u16 %p0, %rs0, 0;
              ld.global.nc.u8 %rs1, [%rd3];
              setp.ne.u16 %p1, %rs1, 0;
              mov.pred %p2, 1;
              and.pred %p3, %p0, %p1;
              not.pred %p4, %p0;
              and.pred %p5, %p4, %p2;
              or.pred %p6, %p3, %p5;
              ld.param.u64 %rd4, [p0];
              cvta.to.global.u64 %rd5, %rd4;
              selp.b16 %rs2, 1, 0, %p6;
              st.global.b8 [%rd5], %rs2;
        "#]],
    );
}

#[test]
fn division_has_an_answer_for_every_divisor() {
    check_ops(
        DType::I32,
        &[Op::CDiv, Op::CMod],
        expect![[r#"
        cdiv
          setp.eq.s32 %p0, %r1, 0;
          setp.eq.s32 %p1, %r1, -1;
          or.pred %p2, %p0, %p1;
          selp.b32 %r2, 1, %r1, %p2;
          div.s32 %r3, %r0, %r2;
          neg.s32 %r4, %r0;
          selp.b32 %r5, %r4, %r3, %p1;
          selp.b32 %r6, 0, %r5, %p0;
        cmod
          setp.eq.s32 %p0, %r1, 0;
          setp.eq.s32 %p1, %r1, -1;
          or.pred %p2, %p0, %p1;
          selp.b32 %r2, 1, %r1, %p2;
          rem.s32 %r3, %r0, %r2;
    "#]],
    );
    check_ops(
        DType::U64,
        &[Op::CDiv],
        expect![[r#"
        cdiv
          setp.eq.u64 %p0, %rd5, 0;
          selp.b64 %rd6, 1, %rd5, %p0;
          div.u64 %rd7, %rd4, %rd6;
          selp.b64 %rd8, 0, %rd7, %p0;
    "#]],
    );
}

#[test]
fn division_by_a_constant_is_a_product() {
    let mut list = List::default();
    let out = list.param(0, DType::I64, 64);
    let n = variable(&mut list, "rows left");
    let (quotient, rest) = (list.binary(Op::CDiv, &n, &i64(10)), list.binary(Op::CMod, &n, &i64(10)));
    list.store(&out, &quotient, None, &rest);
    check(
        list,
        expect![[r#"
            {
              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.s64 %rd2, [n0];
              mul.hi.u64 %rd3, %rd2, 0xCCCCCCCCCCCCCCCD;
              shr.u64 %rd4, %rd3, 3;
              mul.hi.u64 %rd5, %rd2, 0xCCCCCCCCCCCCCCCD;
              shr.u64 %rd6, %rd5, 3;
              mul.lo.s64 %rd7, %rd6, 10;
              sub.s64 %rd8, %rd2, %rd7;
              mad.lo.s64 %rd9, %rd4, 8, %rd1;
              st.global.b64 [%rd9], %rd8;
        "#]],
    );
}

#[test]
fn the_remainder_of_floats_is_a_loop() {
    check_two(
        DType::F32,
        |list, x, y| list.binary(Op::CMod, x, y),
        expect![[r#"
            {
              ld.param.u64 %rd0, [p1];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.f32 %f0, [%rd1];
              ld.global.nc.f32 %f1, [%rd3];
              mov.f32 %f2, 0f7FC00000;
              abs.f32 %f3, %f0;
              abs.f32 %f4, %f1;
              setp.lt.f32 %p0, %f3, 0f7F800000;
              setp.gt.f32 %p1, %f4, 0f00000000;
              and.pred %p2, %p0, %p1;
              @!%p2 bra fmod1_end;
              mov.f32 %f5, %f4;
              setp.lt.f32 %p3, %f3, %f4;
              @%p3 bra fmod1_sign;
              mul.rn.f32 %f6, %f3, 0f3F000000;
            fmod1_up:
              setp.gt.f32 %p4, %f5, %f6;
              @%p4 bra fmod1_down;
              mul.rn.f32 %f5, %f5, 0f40000000;
              bra fmod1_up;
            fmod1_down:
              setp.ge.f32 %p5, %f3, %f5;
              sub.rn.f32 %f7, %f3, %f5;
              selp.f32 %f3, %f7, %f3, %p5;
              mul.rn.f32 %f5, %f5, 0f3F000000;
              setp.ge.f32 %p6, %f5, %f4;
              @%p6 bra fmod1_down;
            fmod1_sign:
              copysign.f32 %f2, %f0, %f3;
            fmod1_end:
              ld.param.u64 %rd4, [p0];
              cvta.to.global.u64 %rd5, %rd4;
              st.global.f32 [%rd5], %f2;
        "#]],
    );
}

#[test]
fn shifts_by_any_count() {
    check_two(
        DType::I64,
        |list, x, _| list.binary(Op::Shl, x, &i64(70)),
        expect![[r#"
            {
              ld.param.u64 %rd0, [p1];
              cvta.to.global.u64 %rd1, %rd0;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd3, %rd2;
              ld.global.nc.b64 %rd4, [%rd1];
              ld.global.nc.b64 %rd5, [%rd3];
              shl.b64 %rd6, %rd4, 64;
              ld.param.u64 %rd7, [p0];
              cvta.to.global.u64 %rd8, %rd7;
              st.global.b64 [%rd8], %rd6;
        "#]],
    );
}
