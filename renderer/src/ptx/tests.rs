//! Precise goldens of small kernels, each a list written by hand: a whole module here, and beside it memory, what threads do together, arithmetic and casts. The test crate has ptxas read the
//! same text, where there is one.

mod arithmetic;
mod casts;
mod memory;
mod together;

use expect_test::{Expect, expect};
use warpweft_compiler::ir::{Arg, AxisKind, VariableArg};
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
