//! Precise goldens of small kernels, each a list written by hand: modules, memory, loops and threads here, arithmetic and casts beside. The test crate has ptxas read the
//! same text, where there is one.

mod arithmetic;
mod casts;

use expect_test::{Expect, expect};
use warpweft_compiler::ir::{Arg, AxisKind, MemorySpace, ReduceOp, ThreadDim, VariableArg};
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use crate::test_lists::{List, i64, source};

fn hopper() -> Target {
    Target::nvidia("sm_90").expect("a known architecture")
}

/// Renders a list whose buffers are written by their first slot alone, and compares what the entry does.
#[track_caller]
fn check(list: List, golden: Expect) {
    golden.assert_eq(&body(&source(list, &hopper())));
}

/// The instructions of the entry, without declarations of registers and what is the same in every kernel.
fn body(source: &str) -> String {
    let start = source.find("{\n").expect("the entry begins");
    let end = source.rfind("  ret;").expect("the entry returns");
    source[start..end].lines().filter(|line| !line.starts_with("  .reg ")).map(|line| format!("{line}\n")).collect()
}

/// Stores `make`'s result over two loaded operands.
fn check_two(dtype: DType, make: impl FnOnce(&mut List, &UOp, &UOp) -> UOp, golden: Expect) {
    let mut list = List::default();
    let (a, b) = (list.param(1, dtype.element(), 64), list.param(2, dtype.element(), 64));
    let (x, y) = (list.load(&a, dtype.lanes(), &i64(0), None), list.load(&b, dtype.lanes(), &i64(0), None));
    let value = make(&mut list, &x, &y);
    let out = list.param(0, value.dtype().element(), 64);
    list.store(&out, &i64(0), None, &value);
    check(list, golden);
}

fn variable(list: &mut List, name: &str) -> UOp {
    let arg = VariableArg { name: name.to_string(), min: 0, max: 16 };
    list.add(UOp::new(Op::Variable, DType::I64, Vec::new(), Arg::Variable(arg.into())))
}

#[test]
fn a_whole_module() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 1024), list.param(1, DType::F32, 1024));
    let n = variable(&mut list, "n");
    let items = list.range(0, &i64(300), AxisKind::Parallel);
    let inner = list.range(1, &n, AxisKind::Loop);
    let row = list.binary(Op::Mul, &items, &i64(256));
    let column = list.binary(Op::Mul, &inner, &i64(4));
    let offset = list.binary(Op::Add, &row, &column);
    let value = list.load(&a, 4, &offset, None);
    let two = UOp::float(2.0, DType::F32.with_lanes(4));
    let value = list.push(Op::MulAdd, two.dtype(), &[&value, &two, &value], Arg::None);
    list.store(&out, &offset, None, &value);
    list.end(&inner);
    list.end(&items);
    expect![[r#"
        // test: 3 x 1 x 1 blocks of 128 x 1 x 1 threads
        .version 6.0
        .target sm_70
        .address_size 64

        .visible .entry test(
          .param .u64 .ptr .global .align 16 p0,
          .param .u64 .ptr .global .align 16 p1,
          .param .s64 n0
        )
        .reqntid 128, 1, 1
        {
          .reg .pred %p<3>;
          .reg .b32 %r<2>;
          .reg .b64 %rd<13>;
          .reg .f32 %f<8>;
          ld.param.u64 %rd0, [p0];
          cvta.to.global.u64 %rd1, %rd0;
          ld.param.u64 %rd2, [p1];
          cvta.to.global.u64 %rd3, %rd2;
          ld.param.s64 %rd4, [n0];
          mov.u32 %r0, %ctaid.x;
          mov.u32 %r1, %tid.x;
          cvt.u64.u32 %rd5, %r1;
          mad.wide.u32 %rd6, %r0, 128, %rd5;
          setp.ge.s64 %p0, %rd6, 300;
          @%p0 bra end0;
            setp.lt.s64 %p1, %rd4, 1;
            @%p1 bra end1;
            mov.b64 %rd7, 0;
          loop1:
              mul.lo.s64 %rd8, %rd6, 256;
              mul.lo.s64 %rd9, %rd7, 4;
              add.s64 %rd10, %rd8, %rd9;
              mad.lo.s64 %rd11, %rd10, 4, %rd3;
              ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd11];
              fma.rn.f32 %f4, %f0, 0f40000000, %f0;
              fma.rn.f32 %f5, %f1, 0f40000000, %f1;
              fma.rn.f32 %f6, %f2, 0f40000000, %f2;
              fma.rn.f32 %f7, %f3, 0f40000000, %f3;
              mad.lo.s64 %rd12, %rd10, 4, %rd1;
              st.global.v4.f32 [%rd12], {%f4, %f5, %f6, %f7};
              add.s64 %rd7, %rd7, 1;
              setp.lt.s64 %p2, %rd7, %rd4;
              @%p2 bra loop1;
          end1:
        end0:
          ret;
        }
    "#]]
    .assert_eq(&source(list, &hopper()));
}

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

#[test]
fn matrices_are_pairs_of_halves_in_registers() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 128), list.param(1, DType::BF16, 512));
    let b = list.param(2, DType::BF16, 64);
    let lane = list.range(0, &i64(32), AxisKind::Lane);
    let place = list.binary(Op::Mul, &lane, &i64(8));
    let left = list.load(&a, 8, &place, None);
    let place = list.binary(Op::Mul, &lane, &i64(2));
    let [low, high] = [0, 1].map(|part| {
        let at = list.binary(Op::Add, &place, &i64(part));
        list.load(&b, 1, &at, None)
    });
    let right = list.push(Op::Stack, DType::BF16.with_lanes(4), &[&low, &high, &high, &low], Arg::None);
    let sums = UOp::float(0.0, DType::F32.with_lanes(4));
    list.add(sums.clone());
    let sums = list.push(Op::MultiplyMatrices, sums.dtype(), &[&left, &right, &sums], Arg::None);
    let place = list.binary(Op::Mul, &lane, &i64(4));
    list.store(&out, &place, None, &sums);
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
