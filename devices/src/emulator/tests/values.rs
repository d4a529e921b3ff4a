//! What single instructions give: a table of instructions, operands and results, each worked out from the PTX ISA.

use super::Case;

/// An instruction with its operands, as constants of its types; `32` and the like are bits of the result.
const TABLE: &[(&str, &[&str], u32, u64)] = &[
    // Integers wrap.
    ("add.s32", &["2147483647", "1"], 32, 0x8000_0000),
    ("sub.u16", &["0", "1"], 16, 0xffff),
    ("sub.s64", &["0", "1"], 64, u64::MAX),
    ("mul.lo.u32", &["0x80000001", "2"], 32, 2),
    ("mul.lo.s16", &["300", "300"], 16, 90_000 - 65_536),
    ("mul.hi.u32", &["0xFFFFFFFF", "0xFFFFFFFF"], 32, 0xffff_fffe),
    ("mul.hi.s32", &["-1", "1"], 32, 0xffff_ffff),
    ("mul.hi.u64", &["0xFFFFFFFFFFFFFFFF", "16"], 64, 15),
    ("mul.wide.s32", &["-2", "3"], 64, -6i64 as u64),
    ("mul.wide.u32", &["0xFFFFFFFF", "2"], 64, 0x1_ffff_fffe),
    ("mul.wide.s16", &["-300", "300"], 32, -90_000i32 as u32 as u64),
    ("mad.lo.s32", &["7", "-3", "1"], 32, -20i32 as u32 as u64),
    ("mad.wide.s32", &["-1", "4", "100"], 64, 96),
    ("mad.wide.u32", &["0xFFFFFFFF", "4", "8"], 64, 0x4_0000_0004),
    ("div.s32", &["-7", "2"], 32, -3i32 as u32 as u64),
    ("rem.s32", &["-7", "2"], 32, -1i32 as u32 as u64),
    ("div.u32", &["0xFFFFFFF9", "2"], 32, 0x7fff_fffc),
    ("rem.u64", &["100", "7"], 64, 2),
    ("neg.s16", &["5"], 16, 0xfffb),
    ("abs.s32", &["-5"], 32, 5),
    ("abs.s32", &["-2147483648"], 32, 0x8000_0000),
    ("min.s32", &["-1", "1"], 32, 0xffff_ffff),
    ("min.u32", &["0xFFFFFFFF", "1"], 32, 1),
    ("max.s64", &["-1", "1"], 64, 1),
    // Bits; a count of the width or more leaves zeros or signs.
    ("and.b32", &["12", "10"], 32, 8),
    ("or.b16", &["12", "10"], 16, 14),
    ("xor.b64", &["12", "10"], 64, 6),
    ("not.b16", &["0"], 16, 0xffff),
    ("shl.b32", &["1", "31"], 32, 0x8000_0000),
    ("shl.b32", &["1", "32"], 32, 0),
    ("shl.b16", &["3", "15"], 16, 0x8000),
    ("shr.u32", &["0x80000000", "31"], 32, 1),
    ("shr.s32", &["0x80000000", "31"], 32, 0xffff_ffff),
    ("shr.s16", &["0x8000", "99"], 16, 0xffff),
    ("shr.u64", &["0x8000000000000000", "64"], 64, 0),
    ("popc.b32", &["0xF0F0"], 32, 8),
    ("clz.b32", &["1"], 32, 31),
    ("clz.b64", &["0"], 32, 64),
    ("brev.b32", &["1"], 32, 0x8000_0000),
    // Floats: rounded to the nearest, subnormal numbers kept, one NaN.
    ("add.rn.f32", &["0f3F800000", "0f33800000"], 32, 0x3f80_0000), // 1 + 2^-24: a tie, to even
    ("add.rn.f32", &["0f3F800001", "0f33800000"], 32, 0x3f80_0002),
    ("add.rn.f32", &["0f00000001", "0f00000001"], 32, 2),
    ("sub.rn.f32", &["0f7F800000", "0f7F800000"], 32, 0x7fff_ffff),
    ("mul.rn.f32", &["0f00800000", "0f3F000000"], 32, 0x0040_0000),
    ("fma.rn.f32", &["0f3F800001", "0f3F800001", "0fBF800002"], 32, 0x2880_0000), // (1 + e)^2 - (1 + 2 e) = e^2 = 2^-46
    ("div.rn.f32", &["0f3F800000", "0f40400000"], 32, 0x3eaa_aaab),
    ("div.rn.f64", &["0d3FF0000000000000", "0d0000000000000000"], 64, 0x7ff0_0000_0000_0000),
    ("sqrt.rn.f32", &["0f40000000"], 32, 0x3fb5_04f3),
    ("sqrt.rn.f32", &["0fBF800000"], 32, 0x7fff_ffff),
    ("neg.f32", &["0f00000000"], 32, 0x8000_0000),
    ("abs.f64", &["0dBFF0000000000000"], 64, 0x3ff0_0000_0000_0000),
    ("copysign.f32", &["0f80000000", "0f3F800000"], 32, 0xbf80_0000), // the sign of the first
    ("min.f32", &["0f7FC00000", "0f3F800000"], 32, 0x3f80_0000),
    ("min.f32", &["0f00000000", "0f80000000"], 32, 0x8000_0000),
    ("max.f32", &["0f80000000", "0f00000000"], 32, 0),
    ("max.NaN.f32", &["0f7FC00000", "0f3F800000"], 32, 0x7fff_ffff),
    ("max.f64", &["0d3FF0000000000000", "0dBFF0000000000000"], 64, 0x3ff0_0000_0000_0000),
    // Half floats, alone and in pairs: 1 + 2^-11 is a tie, which the third factor decides.
    ("add.rn.f16", &["0x3C00", "0x1000"], 16, 0x3c00),
    ("fma.rn.f16", &["0x1000", "0x3C01", "0x3C00"], 16, 0x3c01),
    ("mul.rn.f16x2", &["0x40003C00", "0x42004200"], 32, 0x4600_4200),
    ("add.rn.bf16x2", &["0x3F803F80", "0x3F804000"], 32, 0x4000_4040),
    ("max.f16", &["0x7E00", "0x3C00"], 16, 0x3c00),
    ("neg.bf16x2", &["0x3F80BF80"], 32, 0xbf80_3f80),
    // Conversions of integers take the low bits, and extend by the sign of what they read.
    ("cvt.s64.s32", &["-1"], 64, u64::MAX),
    ("cvt.u64.u32", &["0xFFFFFFFF"], 64, 0xffff_ffff),
    ("cvt.u16.u32", &["0x12345678"], 16, 0x5678),
    // To floats, in all modes: 2^24 + 1 lies between 2^24 and 2^24 + 2.
    ("cvt.rn.f32.s32", &["16777217"], 32, 0x4b80_0000),
    ("cvt.rp.f32.s32", &["16777217"], 32, 0x4b80_0001),
    ("cvt.rz.f32.s32", &["-16777217"], 32, 0xcb80_0000),
    ("cvt.rm.f32.s32", &["-16777217"], 32, 0xcb80_0001),
    ("cvt.rn.f32.u64", &["0xFFFFFFFFFFFFFFFF"], 32, 0x5f80_0000),
    ("cvt.rn.f64.u64", &["0xFFFFFFFFFFFFFFFF"], 64, 0x43f0_0000_0000_0000),
    ("cvt.rz.f64.u64", &["0xFFFFFFFFFFFFFFFF"], 64, 0x43ef_ffff_ffff_ffff),
    ("cvt.rn.f32.f64", &["0d3FF0000010000000"], 32, 0x3f80_0000),
    ("cvt.rp.f32.f64", &["0d3FF0000010000000"], 32, 0x3f80_0001),
    ("cvt.rn.f16.f32", &["0f477FF000"], 16, 0x7c00), // 65520: a tie with infinity
    ("cvt.rz.f16.f32", &["0f477FF000"], 16, 0x7bff),
    ("cvt.rn.bf16.f32", &["0f3F808000"], 16, 0x3f80),
    ("cvt.rn.bf16.f32", &["0f7FC00000"], 16, 0x7fff),
    ("cvt.f64.f32", &["0f00000001"], 64, 0x36a0_0000_0000_0000),
    ("cvt.f32.f16", &["0x0001"], 32, 0x3380_0000),
    ("cvt.rna.tf32.f32", &["0f3F801000"], 32, 0x3f80_2000),
    ("cvt.rn.f16x2.f32", &["0f3F800000", "0f40000000"], 32, 0x3c00_4000), // the first is the upper half
    // To whole numbers: the nearest that there is; of NaN 0, or the least number of 64 bits.
    ("cvt.rzi.s32.f32", &["0fC0200000"], 32, -2i32 as u32 as u64),
    ("cvt.rni.s32.f32", &["0f40200000"], 32, 2),
    ("cvt.rmi.s32.f32", &["0fC0200000"], 32, -3i32 as u32 as u64),
    ("cvt.rpi.s32.f32", &["0f40200000"], 32, 3),
    ("cvt.rzi.s32.f32", &["0f7F800000"], 32, 0x7fff_ffff),
    ("cvt.rzi.u32.f32", &["0fBF800000"], 32, 0),
    ("cvt.rzi.s32.f32", &["0f7FC00000"], 32, 0),
    ("cvt.rzi.s64.f32", &["0f7FC00000"], 64, 1 << 63),
    ("cvt.rzi.u64.f64", &["0d43F0000000000000"], 64, u64::MAX),
    ("cvt.rzi.f32.f32", &["0fC0200000"], 32, 0xc000_0000),
    ("cvt.rmi.f64.f64", &["0dBFE0000000000000"], 64, 0xbff0_0000_0000_0000),
];

/// Comparisons and whether they hold.
const COMPARISONS: &[(&str, &[&str], bool)] = &[
    ("setp.lt.s32", &["-1", "0"], true),
    ("setp.lt.u32", &["0xFFFFFFFF", "0"], false),
    ("setp.ge.s64", &["0", "0"], true),
    ("setp.ne.b16", &["1", "2"], true),
    ("setp.lt.f32", &["0f3F800000", "0f40000000"], true),
    ("setp.le.f32", &["0f7FC00000", "0f40000000"], false),
    ("setp.ne.f32", &["0f7FC00000", "0f40000000"], false),
    ("setp.neu.f32", &["0f7FC00000", "0f40000000"], true),
    ("setp.ltu.f32", &["0f7FC00000", "0f40000000"], true),
    ("setp.nan.f64", &["0d7FF8000000000000", "0d0000000000000000"], true),
    ("setp.num.f32", &["0f3F800000", "0f40000000"], true),
    ("setp.eq.f32", &["0f00000000", "0f80000000"], true),
    ("testp.subnormal.f32", &["0f00000001"], true),
    ("testp.finite.f32", &["0f7F800000"], false),
];

/// The register of the result, and how it is stored to the first buffer.
fn result(instruction: &str, bits: u32) -> (&'static str, &'static str) {
    let is_float =
        instruction.split('.').find_map(|part| part.strip_prefix('f')).is_some_and(|bits| bits.parse::<u32>().is_ok());
    let kind = match instruction.split('.').next() {
        Some("cvt") => {
            let to = instruction.split('.').rev().nth(1).unwrap_or_default();
            matches!(to, "f32" | "f64")
        }
        _ => is_float,
    };
    match (bits, kind) {
        (16, _) => ("%rs0", "st.global.b16"),
        (32, true) => ("%f0", "st.global.f32"),
        (32, false) => ("%r0", "st.global.b32"),
        (_, true) => ("%fd0", "st.global.f64"),
        (_, false) => ("%rd9", "st.global.b64"),
    }
}

/// Half floats have no constants: they are moved to registers before.
fn in_registers(instruction: &str, operands: &[&str]) -> (String, Vec<String>) {
    let (mut moves, mut registers) = (String::new(), Vec::new());
    for (number, operand) in operands.iter().enumerate() {
        let register = match instruction.rsplit('.').next() {
            Some("f16" | "bf16") => ("b16", format!("%rs{}", number + 8)),
            Some("f16x2" | "bf16x2") => ("b32", format!("%r{}", number + 8)),
            _ => ("", operand.to_string()),
        };
        if !register.0.is_empty() {
            moves += &format!("mov.{} {}, {operand};\n", register.0, register.1);
        }
        registers.push(register.1);
    }
    (moves, registers)
}

#[test]
fn instructions_give_what_the_manual_says() {
    for (instruction, operands, bits, expected) in TABLE {
        let (register, store) = result(instruction, *bits);
        let (moves, operands) = in_registers(instruction, operands);
        let body = format!("{moves}{instruction} {register}, {};\n{store} [%rd0], {register};", operands.join(", "));
        let memory = Case::new(&body).run();
        let found = u64::from(memory[0]) | u64::from(memory[1]) << 32;
        assert_eq!(found, *expected, "{instruction} {operands:?}: {found:#x}, not {expected:#x}");
    }
}

#[test]
fn comparisons_hold_as_the_manual_says() {
    for (instruction, operands, expected) in COMPARISONS {
        let body = format!(
            "{instruction} %p0, {};\nselp.b32 %r0, 1, 0, %p0;\nst.global.b32 [%rd0], %r0;",
            operands.join(", ")
        );
        assert_eq!(Case::new(&body).run()[0] == 1, *expected, "{instruction} {operands:?}");
    }
}

#[test]
fn approximations_are_off_by_no_more_than_is_stated_and_not_exact() {
    let near = |instruction: &str, operand: f32, exact: f64, error: f64| {
        let body = format!("{instruction} %f0, 0f{:08X};\nst.global.f32 [%rd0], %f0;", operand.to_bits());
        let found = f64::from(f32::from_bits(Case::new(&body).run()[0]));
        assert!((found - exact).abs() <= error, "{instruction} {operand}: {found}, not {exact}");
        found == f64::from(exact as f32)
    };
    let mut exact = 0;
    for step in 1..40 {
        let x = step as f32 * 0.37;
        let a = f64::from(x);
        exact += usize::from(near("ex2.approx.f32", x, a.exp2(), a.exp2() * 2f64.powi(-22)));
        exact += usize::from(near("lg2.approx.f32", x, a.log2(), a.log2().abs().max(1.0) * 2f64.powi(-22)));
        exact += usize::from(near("sin.approx.f32", x, a.sin(), 2f64.powf(-14.7)));
        exact += usize::from(near("rcp.approx.f32", x, 1.0 / a, 2f64.powi(-23) / a));
        exact += usize::from(near("sqrt.approx.f32", x, a.sqrt(), a.sqrt() * 2f64.powi(-23)));
        exact += usize::from(near("tanh.approx.f32", x, a.tanh(), 2f64.powi(-11)));
    }
    assert!(exact < 200, "{exact} of 234 are the nearest number");
    let of = |instruction: &str, bits: u32| {
        Case::new(&format!("{instruction} %f0, 0f{bits:08X};\nst.global.f32 [%rd0], %f0;")).run()[0]
    };
    assert_eq!(of("ex2.approx.f32", 0xff80_0000), 0);
    assert_eq!(of("lg2.approx.f32", 0), 0xff80_0000);
    assert_eq!(of("rcp.approx.f32", 0x8000_0000), 0xff80_0000);
    assert_eq!(of("sqrt.approx.f32", 0xbf80_0000), 0x7fff_ffff);
}

#[test]
fn bytes_are_extended_as_they_are_loaded_and_converted() {
    let body = "
        mov.b32 %r0, 0x0000FF80;
        st.global.b32 [%rd0], %r0;
        ld.global.s8 %rs0, [%rd0];
        ld.global.u8 %rs1, [%rd0+1];
        ld.global.s8 %r1, [%rd0];
        cvt.s16.s8 %rs2, %rs1;
        cvt.u16.u8 %rs3, %rs0;
        st.global.b16 [%rd0+4], %rs0;
        st.global.b16 [%rd0+6], %rs1;
        st.global.b32 [%rd0+8], %r1;
        st.global.b16 [%rd0+12], %rs2;
        st.global.b16 [%rd0+14], %rs3;
        st.global.b8 [%rd0+16], %rs0;
        st.global.v2.b8 [%rd0+18], {%rs1, %rs0};";
    let expected = [0x0000_ff80, 0x00ff_ff80, 0xffff_ff80, 0x0080_ffff, 0x80ff_0080];
    assert_eq!(Case::new(body).run()[..5], expected);
}

#[test]
fn vectors_and_parts_of_registers() {
    let body = "
        mov.b32 %r0, 0x00020001;
        mov.b32 {%rs0, %rs1}, %r0;
        mov.b32 %r1, {%rs1, %rs0};
        mov.b64 %rd9, {%r0, %r1};
        mov.b64 {%r2, %r3}, %rd9;
        st.global.v4.b32 [%rd0+16], {%r0, %r1, %r2, %r3};
        ld.global.v2.u64 {%rd10, %rd11}, [%rd0+16];
        st.global.u64 [%rd0], %rd11;
        mov.b32 %f0, {%rs0, %rs1};
        st.global.f32 [%rd0+8], %f0;";
    let [a, b] = [0x0002_0001, 0x0001_0002];
    assert_eq!(Case::new(body).run()[..8], [a, b, a, 0, a, b, a, b]);
}

#[test]
fn guards_branches_and_loops() {
    let body = "
        mov.u32 %r0, 0;
        mov.u32 %r1, 0;
      again:
        add.u32 %r0, %r0, 1;
        setp.eq.u32 %p0, %r0, 3;
        @%p0 add.u32 %r1, %r1, 100;
        @!%p0 add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r0, 5;
        @%p1 bra again;
        bra.uni end;
        st.global.b32 [%rd0+4096], %r0;
      end:
        st.global.v2.b32 [%rd0], {%r0, %r1};";
    assert_eq!(Case::new(body).run()[..2], [5, 104]);
}

#[test]
fn atomic_accesses_combine() {
    let body = "
        mov.u32 %r0, 10;
        st.global.b32 [%rd0], %r0;
        atom.global.add.u32 %r1, [%rd0], 5;
        atom.global.cas.b32 %r2, [%rd0], 15, 7;
        atom.global.max.s32 %r3, [%rd0], -1;
        red.global.add.u32 [%rd0], 1;
        atom.global.exch.b32 %r4, [%rd0], 99;
        st.global.v4.b32 [%rd0+16], {%r1, %r2, %r3, %r4};";
    let memory = Case::new(body).run();
    assert_eq!((memory[0], &memory[4..8]), (99, &[10, 15, 7, 8][..]));
}
