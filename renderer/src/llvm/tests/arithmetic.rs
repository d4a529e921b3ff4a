//! Goldens of arithmetic and of conversions, where LLVM's own instructions leave something open.

use super::*;

#[test]
fn larger_of_floats_keeps_nan() {
    check_two(
        DType::F32,
        |list, a, b| list.binary(Op::Max, a, b),
        expect![[r#"
            entry:
              %load1 = load float, ptr %p1, align 4
              %load2 = load float, ptr %p2, align 4
              %max3.more = fcmp ogt float %load1, %load2
              %max3.chosen = select i1 %max3.more, float %load1, float %load2
              %max3.second = fcmp ogt float %load2, %load1
              %max3.other = select i1 %max3.second, float %load2, float %load1
              %max3.chosen_bits = bitcast float %max3.chosen to i32
              %max3.other_bits = bitcast float %max3.other to i32
              %max3.both = and i32 %max3.chosen_bits, %max3.other_bits
              %max3.odd = fcmp uno float %load1, %load2
              %max3.odd_bits = sext i1 %max3.odd to i32
              %max3.found = or i32 %max3.both, %max3.odd_bits
              %max3 = bitcast i32 %max3.found to float
              store float %max3, ptr %p0, align 4
        "#]],
    );
    // A constant is a number: the machine's instruction gives its second operand when that is NaN.
    check_two(
        DType::F32.with_lanes(8),
        |list, a, _| list.binary(Op::Min, a, &UOp::float(6.0, a.dtype())),
        expect![[r#"
            entry:
              %load1 = load <8 x float>, ptr %p1, align 4
              %load2 = load <8 x float>, ptr %p2, align 4
              %min3.less = fcmp olt <8 x float> splat (float 6.0), %load1
              %min3 = select <8 x i1> %min3.less, <8 x float> splat (float 6.0), <8 x float> %load1
              store <8 x float> %min3, ptr %p0, align 4
        "#]],
    );
}

#[test]
// tidy: table
fn division_has_an_answer_for_every_divisor() {
    check_two(
        DType::I32,
        |list, a, b| list.binary(Op::CDiv, a, b),
        expect![[r#"
            entry:
              %load1 = load i32, ptr %p1, align 4
              %load2 = load i32, ptr %p2, align 4
              %cdiv3.by_zero = icmp eq i32 %load2, 0
              %cdiv3.by_minus_one = icmp eq i32 %load2, -1
              %cdiv3.special = or i1 %cdiv3.by_zero, %cdiv3.by_minus_one
              %cdiv3.safe = select i1 %cdiv3.special, i32 1, i32 %load2
              %cdiv3.plain = sdiv i32 %load1, %cdiv3.safe
              %cdiv3.minus = sub i32 0, %load1
              %cdiv3.signed = select i1 %cdiv3.by_minus_one, i32 %cdiv3.minus, i32 %cdiv3.plain
              %cdiv3 = select i1 %cdiv3.by_zero, i32 0, i32 %cdiv3.signed
              store i32 %cdiv3, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::I32,
        |list, a, b| list.binary(Op::CMod, a, b),
        expect![[r#"
            entry:
              %load1 = load i32, ptr %p1, align 4
              %load2 = load i32, ptr %p2, align 4
              %cmod3.by_zero = icmp eq i32 %load2, 0
              %cmod3.by_minus_one = icmp eq i32 %load2, -1
              %cmod3.special = or i1 %cmod3.by_zero, %cmod3.by_minus_one
              %cmod3.safe = select i1 %cmod3.special, i32 1, i32 %load2
              %cmod3 = srem i32 %load1, %cmod3.safe
              store i32 %cmod3, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::U8,
        |list, a, b| list.binary(Op::CDiv, a, b),
        expect![[r#"
            entry:
              %load1 = load i8, ptr %p1, align 1
              %load2 = load i8, ptr %p2, align 1
              %cdiv3.by_zero = icmp eq i8 %load2, 0
              %cdiv3.safe = select i1 %cdiv3.by_zero, i8 1, i8 %load2
              %cdiv3.plain = udiv i8 %load1, %cdiv3.safe
              %cdiv3 = select i1 %cdiv3.by_zero, i8 0, i8 %cdiv3.plain
              store i8 %cdiv3, ptr %p0, align 1
        "#]],
    );
    check_two(
        DType::I64,
        |list, a, _| list.binary(Op::CDiv, a, &i64(10)),
        expect![[r#"
            entry:
              %load1 = load i64, ptr %p1, align 8
              %load2 = load i64, ptr %p2, align 8
              %cdiv3 = sdiv i64 %load1, 10
              store i64 %cdiv3, ptr %p0, align 8
        "#]],
    );
    check_two(
        DType::F64,
        |list, a, b| list.binary(Op::CMod, a, b),
        expect![[r#"
            entry:
              %load1 = load double, ptr %p1, align 8
              %load2 = load double, ptr %p2, align 8
              %cmod3 = frem double %load1, %load2
              store double %cmod3, ptr %p0, align 8
        "#]],
    );
}

#[test]
fn shifts_have_a_value_for_every_count() {
    check_two(
        DType::I32,
        |list, a, b| list.binary(Op::Shr, a, b),
        expect![[r#"
            entry:
              %load1 = load i32, ptr %p1, align 4
              %load2 = load i32, ptr %p2, align 4
              %shr3.count = call i32 @llvm.umin.i32(i32 %load2, i32 31)
              %shr3 = ashr i32 %load1, %shr3.count
              store i32 %shr3, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::U16,
        |list, a, b| list.binary(Op::Shl, a, b),
        expect![[r#"
            entry:
              %load1 = load i16, ptr %p1, align 2
              %load2 = load i16, ptr %p2, align 2
              %shl3.fits = icmp ult i16 %load2, 16
              %shl3.shifted = shl i16 %load1, %load2
              %shl3 = select i1 %shl3.fits, i16 %shl3.shifted, i16 0
              store i16 %shl3, ptr %p0, align 2
        "#]],
    );
    check_two(
        DType::U32,
        |list, a, _| list.binary(Op::Shr, a, &UOp::int(31, DType::U32)),
        expect![[r#"
            entry:
              %load1 = load i32, ptr %p1, align 4
              %load2 = load i32, ptr %p2, align 4
              %shr3 = lshr i32 %load1, 31
              store i32 %shr3, ptr %p0, align 4
        "#]],
    );
}

#[test]
fn floats_become_integers_without_undefined_behaviour() {
    check_two(
        DType::F32.with_lanes(16),
        |list, a, _| list.cast(a, DType::I32.with_lanes(16)),
        expect![[r#"
            entry:
              %load1 = load <16 x float>, ptr %p1, align 4
              %load2 = load <16 x float>, ptr %p2, align 4
              %cast3.i32.above = fcmp oge <16 x float> %load1, splat (float -2147483648.0)
              %cast3.i32.below = fcmp olt <16 x float> %load1, splat (float 2147483648.0)
              %cast3.i32.fits = and <16 x i1> %cast3.i32.above, %cast3.i32.below
              %cast3.i32.safe = select <16 x i1> %cast3.i32.fits, <16 x float> %load1, <16 x float> zeroinitializer
              %cast3.i32.whole = fptosi <16 x float> %cast3.i32.safe to <16 x i32>
              store <16 x i32> %cast3.i32.whole, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::F16,
        |list, a, _| list.cast(a, DType::I8),
        expect![[r#"
            entry:
              %load1 = load half, ptr %p1, align 2
              %load2 = load half, ptr %p2, align 2
              %cast3.f32 = fpext half %load1 to float
              %cast3.i32.above = fcmp oge float %cast3.f32, -2147483648.0
              %cast3.i32.below = fcmp olt float %cast3.f32, 2147483648.0
              %cast3.i32.fits = and i1 %cast3.i32.above, %cast3.i32.below
              %cast3.i32.safe = select i1 %cast3.i32.fits, float %cast3.f32, float 0.0
              %cast3.i32.whole = fptosi float %cast3.i32.safe to i32
              %cast3 = trunc i32 %cast3.i32.whole to i8
              store i8 %cast3, ptr %p0, align 1
        "#]],
    );
    check_two(
        DType::F64,
        |list, a, _| list.cast(a, DType::U64),
        expect![[r#"
            entry:
              %load1 = load double, ptr %p1, align 8
              %load2 = load double, ptr %p2, align 8
              %cast3.signed.above = fcmp oge double %load1, -9.223372036854776e18
              %cast3.signed.below = fcmp olt double %load1, 9.223372036854776e18
              %cast3.signed.fits = and i1 %cast3.signed.above, %cast3.signed.below
              %cast3.signed.safe = select i1 %cast3.signed.fits, double %load1, double 0.0
              %cast3.signed.whole = fptosi double %cast3.signed.safe to i64
              %cast3.signed.large = fcmp oge double %load1, 9.223372036854776e18
              %cast3.signed.capped = select i1 %cast3.signed.large, i64 9223372036854775807, i64 %cast3.signed.whole
              %cast3.signed.small = fcmp ole double %load1, -9.223372036854776e18
              %cast3.signed.bounded = select i1 %cast3.signed.small, i64 -9223372036854775808, i64 %cast3.signed.capped
              %cast3.unsigned.above = fcmp ogt double %load1, -1.0
              %cast3.unsigned.below = fcmp olt double %load1, 1.8446744073709552e19
              %cast3.unsigned.fits = and i1 %cast3.unsigned.above, %cast3.unsigned.below
              %cast3.unsigned.safe = select i1 %cast3.unsigned.fits, double %load1, double 0.0
              %cast3.unsigned.whole = fptoui double %cast3.unsigned.safe to i64
              %cast3.unsigned.large = fcmp oge double %load1, 1.8446744073709552e19
              %cast3.unsigned.capped = select i1 %cast3.unsigned.large, i64 18446744073709551615, i64 %cast3.unsigned.whole
              %cast3.positive = fcmp oge double %load1, 0.0
              %cast3 = select i1 %cast3.positive, i64 %cast3.unsigned.capped, i64 %cast3.signed.bounded
              store i64 %cast3, ptr %p0, align 8
        "#]],
    );
}

#[test]
fn casts_between_the_other_types() {
    let through = |types: &'static [DType]| {
        move |list: &mut List, a: &UOp, _: &UOp| types.iter().fold(a.clone(), |value, &dtype| list.cast(&value, dtype))
    };
    check_two(
        DType::I8,
        through(&[DType::U32, DType::I32, DType::F32, DType::BOOL, DType::F64]),
        expect![[r#"
            entry:
              %load1 = load i8, ptr %p1, align 1
              %load2 = load i8, ptr %p2, align 1
              %cast3 = sext i8 %load1 to i32
              %cast5 = sitofp i32 %cast3 to float
              %cast6 = fcmp une float %cast5, 0.0
              %cast7 = uitofp i1 %cast6 to double
              store double %cast7, ptr %p0, align 8
        "#]],
    );
    let to_half = |list: &mut List, a: &UOp, _: &UOp| {
        let bits = list.push(Op::Bitcast, DType::U16, &[a], Arg::None);
        let bits = list.cast(&bits, DType::U32);
        list.push(Op::Bitcast, DType::F32, &[&bits], Arg::None)
    };
    check_two(
        DType::BF16,
        to_half,
        expect![[r#"
        entry:
          %load1 = load i16, ptr %p1, align 2
          %load2 = load i16, ptr %p2, align 2
          %cast4 = zext i16 %load1 to i32
          %bitcast5 = bitcast i32 %cast4 to float
          store float %bitcast5, ptr %p0, align 4
    "#]],
    );
    check_two(
        DType::U64,
        through(&[DType::F32, DType::F64]),
        expect![[r#"
            entry:
              %load1 = load i64, ptr %p1, align 8
              %load2 = load i64, ptr %p2, align 8
              %cast3 = uitofp i64 %load1 to float
              %cast4 = fpext float %cast3 to double
              store double %cast4, ptr %p0, align 8
        "#]],
    );
    let bits = |list: &mut List, a: &UOp, _: &UOp| {
        let bits = list.push(Op::Bitcast, DType::U32, &[a], Arg::None);
        let bits = list.push(Op::Bitcast, DType::I32, &[&bits], Arg::None);
        list.push(Op::Bitcast, DType::F32, &[&bits], Arg::None)
    };
    check_two(
        DType::F32,
        bits,
        expect![[r#"
            entry:
              %load1 = load float, ptr %p1, align 4
              %load2 = load float, ptr %p2, align 4
              %bitcast3 = bitcast float %load1 to i32
              %bitcast5 = bitcast i32 %bitcast3 to float
              store float %bitcast5, ptr %p0, align 4
        "#]],
    );
}
