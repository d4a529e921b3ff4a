//! Precise goldens of small kernels, each a list written by hand. The test crate has LLVM read the same text.

mod arithmetic;
mod memory;

use expect_test::{Expect, expect};
use warpweft_compiler::ir::{Arg, AxisKind, MemorySpace, ReduceOp, VariableArg};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::program::Estimate;
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use crate::test_lists::{List, i64, source};

/// Renders a list whose buffers are written by their first slot alone, and compares the body.
#[track_caller]
fn check(list: List, golden: Expect) {
    golden.assert_eq(body(&source(list, &Target::test_avx512())));
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

#[test]
fn lists_of_threads_are_refused_with_what_the_processor_lacks() {
    use warpweft_compiler::error::CompileError;
    use warpweft_compiler::ir::ThreadDim;
    use warpweft_compiler::target::Feature;
    let refused = |node: UOp| {
        let linear = Linear {
            name: "test".into(),
            parameters: Vec::new(),
            variables: Vec::new(),
            grid: 1,
            ops: vec![node],
            estimate: Estimate::default(),
        };
        match crate::render(&linear, &Target::test_avx512()).expect_err("no CPU has this") {
            CompileError::Lacks { feature, .. } => feature,
            error => panic!("{error}"),
        }
    };
    let range = |kind| UOp::range(8, 0, kind);
    assert_eq!(refused(range(AxisKind::Grid(ThreadDim::X))), Feature::Grid);
    assert_eq!(refused(range(AxisKind::Block(ThreadDim::Y))), Feature::Block);
    assert_eq!(refused(range(AxisKind::Lane)), Feature::Lanes);
    let scratch = Arg::Scratch(0, 8, MemorySpace::Shared);
    assert_eq!(refused(UOp::new(Op::Scratch, DType::F32, vec![], scratch)), Feature::SharedMemory);
    assert_eq!(refused(UOp::new(Op::Barrier, DType::VOID, vec![], Arg::Number(0))), Feature::Barrier);
    let end = UOp::new(Op::EndRange, DType::VOID, vec![range(AxisKind::Lane)], Arg::None);
    let src = vec![UOp::float(1.0, DType::F32), end];
    assert_eq!(refused(UOp::new(Op::ShuffleReduce, DType::F32, src, Arg::Combine(ReduceOp::Add))), Feature::Lanes);
}

/// The instructions of the body, without what is the same in every kernel.
fn body(source: &str) -> &str {
    let start = source.find("entry:\n").expect("the body has an entry");
    let end = source.find("  ret void").expect("the body returns");
    &source[start..end]
}

#[test]
fn a_whole_module() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 1024), list.param(1, DType::F32, 1024));
    let n = list.add(UOp::new(
        Op::Variable,
        DType::I64,
        Vec::new(),
        Arg::Variable(VariableArg { name: "n".to_string(), min: 1, max: 16 }.into()),
    ));
    let items = list.range(0, &i64(4), AxisKind::Parallel);
    let inner = list.range(1, &n, AxisKind::Loop);
    let row = list.binary(Op::Mul, &items, &i64(256));
    let column = list.binary(Op::Mul, &inner, &i64(16));
    let offset = list.binary(Op::Add, &row, &column);
    let value = list.load(&a, 16, &offset, None);
    let two = UOp::float(2.0, DType::F32.with_lanes(16));
    let value = list.push(Op::MulAdd, two.dtype(), &[&value, &two, &value], Arg::None);
    list.store(&out, &offset, None, &value);
    list.end(&inner);
    list.end(&items);
    expect![[r#"
        ; test: 4 work items
        target triple = "x86_64-unknown-linux-gnu"

        define internal void @test.body(ptr noalias writeonly %p0, ptr noalias readonly %p1, i64 %var.n, i64 %begin, i64 %end) #0 {
        entry:
          %r0.runs = icmp slt i64 %begin, %end
          br i1 %r0.runs, label %loop0, label %loop0.end
        loop0:
            %r0 = phi i64 [ %begin, %entry ], [ %r0.next, %loop1.end ]
            br label %loop1
          loop1:
              %r1 = phi i64 [ 0, %loop0 ], [ %r1.next, %loop1 ]
              %mul1 = mul nuw nsw i64 %r0, 256
              %mul2 = mul nuw nsw i64 %r1, 16
              %add3 = add nuw nsw i64 %mul1, %mul2
              %index4 = getelementptr inbounds float, ptr %p1, i64 %add3
              %load5 = load <16 x float>, ptr %index4, align 4
              %muladd6 = call <16 x float> @llvm.fma.v16f32(<16 x float> %load5, <16 x float> splat (float 2.0), <16 x float> %load5)
              %index7 = getelementptr inbounds float, ptr %p0, i64 %add3
              store <16 x float> %muladd6, ptr %index7, align 4
              %r1.next = add nuw nsw i64 %r1, 1
              %r1.more = icmp slt i64 %r1.next, %var.n
              br i1 %r1.more, label %loop1, label %loop1.end, !prof !0
          loop1.end:
            %r0.next = add nuw nsw i64 %r0, 1
            %r0.more = icmp slt i64 %r0.next, %end
            br i1 %r0.more, label %loop0, label %loop0.end
        loop0.end:
          ret void
        }

        define void @test(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) #0 {
          %buffers.0 = getelementptr inbounds ptr, ptr %buffers, i64 0
          %p0 = load ptr, ptr %buffers.0, align 8
          %buffers.1 = getelementptr inbounds ptr, ptr %buffers, i64 1
          %p1 = load ptr, ptr %buffers.1, align 8
          %variables.0 = getelementptr inbounds i64, ptr %variables, i64 0
          %var.n = load i64, ptr %variables.0, align 8
          tail call void @test.body(ptr %p0, ptr %p1, i64 %var.n, i64 %begin, i64 %end)
          ret void
        }

        attributes #0 = { nounwind "target-cpu"="x86-64-v4" "prefer-vector-width"="512" }
        !0 = !{!"branch_weights", i32 15, i32 1}
    "#]].assert_eq(&source(list, &Target::test_avx512()));
}

#[test]
fn loops_carry_what_they_update() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 8), list.param(1, DType::F32, 64));
    let n = list.add(UOp::new(
        Op::Variable,
        DType::I64,
        Vec::new(),
        Arg::Variable(VariableArg { name: "rows left".to_string(), min: 0, max: 8 }.into()),
    ));
    let zero = UOp::float(0.0, DType::F32);
    let total = list.accumulator(0, &zero);
    let outer = list.range(0, &i64(8), AxisKind::Reduce);
    let row = list.accumulator(1, &zero);
    let inner = list.range(1, &n, AxisKind::Reduce);
    let start = list.binary(Op::Mul, &outer, &i64(8));
    let offset = list.binary(Op::Add, &start, &inner);
    let value = list.load(&a, 1, &offset, None);
    let sum = list.binary(Op::Add, &row, &value);
    list.update(&row, &sum);
    let end = list.end(&inner);
    let row = list.finished(&row, &end);
    let larger = list.binary(Op::Max, &total, &row);
    list.update(&total, &larger);
    let end = list.end(&outer);
    let total = list.finished(&total, &end);
    list.store(&out, &i64(0), None, &total);
    check(
        list,
        expect![[r#"
            entry:
              br label %loop0
            loop0:
                %r0 = phi i64 [ 0, %entry ], [ %r0.next, %loop1.end ]
                %acc0.r0 = phi float [ 0.0, %entry ], [ %max6, %loop1.end ]
                %r1.runs = icmp slt i64 0, %"var.rows left"
                br i1 %r1.runs, label %loop1, label %loop1.end
              loop1:
                  %r1 = phi i64 [ 0, %loop0 ], [ %r1.next, %loop1 ]
                  %acc1.r1 = phi float [ 0.0, %loop0 ], [ %add5, %loop1 ]
                  %mul1 = mul nuw nsw i64 %r0, 8
                  %add2 = add nuw nsw i64 %mul1, %r1
                  %index3 = getelementptr inbounds float, ptr %p1, i64 %add2
                  %load4 = load float, ptr %index3, align 4
                  %add5 = fadd float %acc1.r1, %load4
                  %r1.next = add nuw nsw i64 %r1, 1
                  %r1.more = icmp slt i64 %r1.next, %"var.rows left"
                  br i1 %r1.more, label %loop1, label %loop1.end, !prof !0
              loop1.end:
                %acc1.r1.end = phi float [ 0.0, %loop0 ], [ %add5, %loop1 ]
                %max6.more = fcmp ogt float %acc0.r0, %acc1.r1.end
                %max6.chosen = select i1 %max6.more, float %acc0.r0, float %acc1.r1.end
                %max6.second = fcmp ogt float %acc1.r1.end, %acc0.r0
                %max6.other = select i1 %max6.second, float %acc1.r1.end, float %acc0.r0
                %max6.chosen_bits = bitcast float %max6.chosen to i32
                %max6.other_bits = bitcast float %max6.other to i32
                %max6.both = and i32 %max6.chosen_bits, %max6.other_bits
                %max6.odd = fcmp uno float %acc0.r0, %acc1.r1.end
                %max6.odd_bits = sext i1 %max6.odd to i32
                %max6.found = or i32 %max6.both, %max6.odd_bits
                %max6 = bitcast i32 %max6.found to float
                %r0.next = add nuw nsw i64 %r0, 1
                %r0.more = icmp slt i64 %r0.next, 8
                br i1 %r0.more, label %loop0, label %loop0.end, !prof !0
            loop0.end:
              store float %max6, ptr %p0, align 4
        "#]],
    );
}

#[test]
// tidy: table
fn lanes_are_spread_moved_and_combined() {
    let horizontal = |combine| {
        move |list: &mut List, a: &UOp, _: &UOp| {
            list.push(Op::HorizontalReduce, a.dtype().element(), &[a], Arg::Combine(combine))
        }
    };
    check_two(
        DType::F32.with_lanes(8),
        horizontal(ReduceOp::Add),
        expect![[r#"
            entry:
              %load1 = load <8 x float>, ptr %p1, align 4
              %load2 = load <8 x float>, ptr %p2, align 4
              %horizontal_reduce3 = call reassoc float @llvm.vector.reduce.fadd.v8f32(float -0.0, <8 x float> %load1)
              store float %horizontal_reduce3, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::F32.with_lanes(8),
        horizontal(ReduceOp::Max),
        expect![[r#"
            entry:
              %load1 = load <8 x float>, ptr %p1, align 4
              %load2 = load <8 x float>, ptr %p2, align 4
              %horizontal_reduce3.odd = fcmp uno <8 x float> %load1, %load1
              %horizontal_reduce3.any_odd = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %horizontal_reduce3.odd)
              %horizontal_reduce3.extreme = call nnan nsz float @llvm.vector.reduce.fmax.v8f32(<8 x float> %load1)
              %horizontal_reduce3.bits = bitcast <8 x float> %load1 to <8 x i32>
              %horizontal_reduce3.zeros = icmp eq <8 x i32> %horizontal_reduce3.bits, splat (i32 0)
              %horizontal_reduce3.any_zero = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %horizontal_reduce3.zeros)
              %horizontal_reduce3.zero = select i1 %horizontal_reduce3.any_zero, float 0.0, float -0.0
              %horizontal_reduce3.is_zero = fcmp oeq float %horizontal_reduce3.extreme, 0.0
              %horizontal_reduce3.signed = select i1 %horizontal_reduce3.is_zero, float %horizontal_reduce3.zero, float %horizontal_reduce3.extreme
              %horizontal_reduce3 = select i1 %horizontal_reduce3.any_odd, float 0x7FF8000000000000, float %horizontal_reduce3.signed
              store float %horizontal_reduce3, ptr %p0, align 4
        "#]],
    );
    check_two(
        DType::U8.with_lanes(8),
        horizontal(ReduceOp::Min),
        expect![[r#"
            entry:
              %load1 = load <8 x i8>, ptr %p1, align 1
              %load2 = load <8 x i8>, ptr %p2, align 1
              %horizontal_reduce3 = call i8 @llvm.vector.reduce.umin.v8i8(<8 x i8> %load1)
              store i8 %horizontal_reduce3, ptr %p0, align 1
        "#]],
    );
    let three = |list: &mut List, a: &UOp, b: &UOp| {
        let c = list.binary(Op::Add, a, b);
        let lanes = [(a, 0), (b, 0), (&c, 0), (a, 1), (b, 1), (&c, 1), (a, 2), (b, 2)];
        let lanes = lanes.map(|(vector, lane)| list.push(Op::Lane, DType::F32, &[vector], Arg::Number(lane)));
        list.push(Op::Stack, DType::F32.with_lanes(8), &lanes.each_ref(), Arg::None)
    };
    check_two(
        DType::F32.with_lanes(8),
        three,
        expect![[r#"
        entry:
          %load1 = load <8 x float>, ptr %p1, align 4
          %load2 = load <8 x float>, ptr %p2, align 4
          %add3 = fadd <8 x float> %load1, %load2
          %lane4 = extractelement <8 x float> %load1, i64 0
          %lane5 = extractelement <8 x float> %load2, i64 0
          %lane6 = extractelement <8 x float> %add3, i64 0
          %lane7 = extractelement <8 x float> %load1, i64 1
          %lane8 = extractelement <8 x float> %load2, i64 1
          %lane9 = extractelement <8 x float> %add3, i64 1
          %lane10 = extractelement <8 x float> %load1, i64 2
          %lane11 = extractelement <8 x float> %load2, i64 2
          %stack12.of2 = shufflevector <8 x float> %load1, <8 x float> %load2, <8 x i32> <i32 0, i32 8, i32 poison, i32 1, i32 9, i32 poison, i32 2, i32 10>
          %stack12 = shufflevector <8 x float> %stack12.of2, <8 x float> %add3, <8 x i32> <i32 0, i32 1, i32 8, i32 3, i32 4, i32 9, i32 6, i32 7>
          store <8 x float> %stack12, ptr %p0, align 4
    "#]],
    );
    let swap = |list: &mut List, a: &UOp, b: &UOp| {
        let lane = |list: &mut List, vector: &UOp, lane| list.push(Op::Lane, DType::F32, &[vector], Arg::Number(lane));
        let (second, first) = (lane(list, a, 1), lane(list, b, 0));
        let pair = list.push(Op::Stack, DType::F32.with_lanes(2), &[&second, &first], Arg::None);
        let sum = list.binary(Op::Add, &second, &first);
        let other = list.push(Op::Stack, DType::F32.with_lanes(2), &[&sum, &first], Arg::None);
        let spread = list.splat(&sum, 2);
        let total = list.binary(Op::Mul, &pair, &other);
        list.binary(Op::Sub, &total, &spread)
    };
    check_two(
        DType::F32.with_lanes(2),
        swap,
        expect![[r#"
            entry:
              %load1 = load <2 x float>, ptr %p1, align 4
              %load2 = load <2 x float>, ptr %p2, align 4
              %lane3 = extractelement <2 x float> %load1, i64 1
              %lane4 = extractelement <2 x float> %load2, i64 0
              %stack5 = shufflevector <2 x float> %load1, <2 x float> %load2, <2 x i32> <i32 1, i32 2>
              %add6 = fadd float %lane3, %lane4
              %stack7.to0 = insertelement <2 x float> poison, float %add6, i64 0
              %stack7 = insertelement <2 x float> %stack7.to0, float %lane4, i64 1
              %splat8.first = insertelement <2 x float> poison, float %add6, i64 0
              %splat8 = shufflevector <2 x float> %splat8.first, <2 x float> poison, <2 x i32> zeroinitializer
              %mul9 = fmul <2 x float> %stack5, %stack7
              %sub10 = fsub <2 x float> %mul9, %splat8
              store <2 x float> %sub10, ptr %p0, align 4
        "#]],
    );
}

/// A list with a loop over rows and one over columns, where a value of each column is multiplied with two constants and put in its place; for a machine without a register.
fn many_constants(make: impl FnOnce(&mut List, [&UOp; 2], &UOp) -> UOp) -> String {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 64), list.param(1, DType::F32, 64));
    let rows = list.range(0, &i64(4), AxisKind::Loop);
    let row = list.binary(Op::Mul, &rows, &i64(16));
    let first = list.index(&out, 1, &row, None);
    let columns = list.range(1, &i64(8), AxisKind::Loop);
    let offset = list.binary(Op::Add, &row, &columns);
    let mut value = make(&mut list, [&a, &first], &offset);
    for constant in 2..4 {
        value = list.binary(Op::Mul, &value, &UOp::float(f64::from(constant), DType::F32));
    }
    list.store(&out, &offset, None, &value);
    list.end(&columns);
    list.end(&rows);
    source(list, &Target { vector_registers: 0, ..Target::test_avx512() })
}

#[test]
fn a_body_with_more_constants_than_registers_is_a_function() {
    let text = many_constants(|list, [a, _], offset| {
        let gate = list.binary(Op::Lt, offset, &i64(50));
        list.load(a, 1, offset, Some(&gate))
    });
    expect![[r#"
        ; test: 1 work items
        target triple = "x86_64-unknown-linux-gnu"

        define internal void @test.part0(i64 %r1, i64 %mul1, ptr noalias readonly %p1, ptr noalias writeonly %p0) #1 {
        loop1:
              %add3 = add nuw nsw i64 %mul1, %r1
              %lt4 = icmp slt i64 %add3, 50
              %index5 = getelementptr float, ptr %p1, i64 %add3
              br i1 %lt4, label %load6.do, label %load6.end
            load6.do:
              %load6.value = load float, ptr %index5, align 4
              br label %load6.end
            load6.end:
              %load6 = phi float [ 0.0, %loop1 ], [ %load6.value, %load6.do ]
              %mul7 = fmul float %load6, 2.0
              %mul8 = fmul float %mul7, 3.0
              %index9 = getelementptr inbounds float, ptr %p0, i64 %add3
              store float %mul8, ptr %index9, align 4
          ret void
        }

        define internal void @test.body(ptr noalias writeonly %p0, ptr noalias readonly %p1, i64 %begin, i64 %end) #0 {
        entry:
          br label %loop0
        loop0:
            %r0 = phi i64 [ 0, %entry ], [ %r0.next, %loop1.end ]
            %mul1 = mul nuw nsw i64 %r0, 16
            %index2 = getelementptr inbounds float, ptr %p0, i64 %mul1
            br label %loop1
          loop1:
              %r1 = phi i64 [ 0, %loop0 ], [ %r1.next, %loop1 ]
              call void @test.part0(i64 %r1, i64 %mul1, ptr %p1, ptr %p0)
              %r1.next = add nuw nsw i64 %r1, 1
              %r1.more = icmp slt i64 %r1.next, 8
              br i1 %r1.more, label %loop1, label %loop1.end, !prof !0
          loop1.end:
            %r0.next = add nuw nsw i64 %r0, 1
            %r0.more = icmp slt i64 %r0.next, 4
            br i1 %r0.more, label %loop0, label %loop0.end, !prof !1
        loop0.end:
          ret void
        }

        define void @test(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) #0 {
          %buffers.0 = getelementptr inbounds ptr, ptr %buffers, i64 0
          %p0 = load ptr, ptr %buffers.0, align 8
          %buffers.1 = getelementptr inbounds ptr, ptr %buffers, i64 1
          %p1 = load ptr, ptr %buffers.1, align 8
          tail call void @test.body(ptr %p0, ptr %p1, i64 %begin, i64 %end)
          ret void
        }

        attributes #0 = { nounwind "target-cpu"="x86-64-v4" "prefer-vector-width"="512" }
        attributes #1 = { nounwind noinline "target-cpu"="x86-64-v4" "prefer-vector-width"="512" }
        !0 = !{!"branch_weights", i32 7, i32 1}
        !1 = !{!"branch_weights", i32 3, i32 1}
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_function_of_a_body_that_takes_an_address_promises_nothing_of_buffers() {
    // What is loaded there has been stored through the buffer itself in an iteration before.
    let text = many_constants(|list, [_, first], _| list.push(Op::Load, DType::F32, &[first], Arg::None));
    assert!(text.contains("@test.part0(i64 %r1, i64 %mul1, ptr %index2, ptr %p0) #1"), "{text}");
}
