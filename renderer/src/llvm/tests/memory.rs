//! Goldens of memory: accesses under gates, and scratch.

use expect_test::expect;
use warpweft_compiler::ir::{Arg, AxisKind, MemorySpace};
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use super::check;
use crate::test_lists::{List, i64, source};

#[test]
fn gates_become_branches_and_masks() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::BOOL, 64), list.param(1, DType::BOOL, 64));
    let r = list.range(0, &i64(4), AxisKind::Loop);
    let inside = list.binary(Op::Lt, &r, &i64(3));
    let scalar = list.load(&a, 1, &r, Some(&inside));
    list.store(&out, &r, Some(&inside), &scalar);
    let offsets = list.push(Op::Ramp, DType::I64.with_lanes(4), &[&r], Arg::Number(3));
    let gate = list.binary(Op::Lt, &offsets, &UOp::int(9, offsets.dtype()));
    let consecutive = list.load(&a, 4, &r, Some(&gate));
    list.store(&out, &r, Some(&gate), &consecutive);
    let gathered = list.load(&a, 4, &offsets, None);
    list.store(&out, &offsets, Some(&gate), &gathered);
    list.end(&r);
    check(
        list,
        expect![[r#"
            entry:
              br label %loop0
            loop0:
                %r0 = phi i64 [ 0, %entry ], [ %r0.next, %store5.end ]
                %lt1 = icmp slt i64 %r0, 3
                %index2 = getelementptr i8, ptr %p1, i64 %r0
                br i1 %lt1, label %load3.do, label %load3.end
              load3.do:
                %load3.value.byte = load i8, ptr %index2, align 1
                %load3.value = icmp ne i8 %load3.value.byte, 0
                br label %load3.end
              load3.end:
                %load3 = phi i1 [ false, %loop0 ], [ %load3.value, %load3.do ]
                %index4 = getelementptr i8, ptr %p0, i64 %r0
                br i1 %lt1, label %store5.do, label %store5.end
              store5.do:
                %store5.byte = zext i1 %load3 to i8
                store i8 %store5.byte, ptr %index4, align 1
                br label %store5.end
              store5.end:
                %ramp6.base.first = insertelement <4 x i64> poison, i64 %r0, i64 0
                %ramp6.base = shufflevector <4 x i64> %ramp6.base.first, <4 x i64> poison, <4 x i32> zeroinitializer
                %ramp6 = add <4 x i64> %ramp6.base, <i64 0, i64 3, i64 6, i64 9>
                %lt7 = icmp slt <4 x i64> %ramp6, splat (i64 9)
                %index8 = getelementptr i8, ptr %p1, i64 %r0
                %load9.byte = call <4 x i8> @llvm.masked.load.v4i8.p0(ptr align 1 %index8, <4 x i1> %lt7, <4 x i8> zeroinitializer)
                %load9 = icmp ne <4 x i8> %load9.byte, zeroinitializer
                %index10 = getelementptr i8, ptr %p0, i64 %r0
                %store11.byte = zext <4 x i1> %load9 to <4 x i8>
                call void @llvm.masked.store.v4i8.p0(<4 x i8> %store11.byte, ptr align 1 %index10, <4 x i1> %lt7)
                %index12 = getelementptr inbounds i8, ptr %p1, <4 x i64> %ramp6
                %load13.byte = call <4 x i8> @llvm.masked.gather.v4i8.v4p0(<4 x ptr> align 1 %index12, <4 x i1> splat (i1 true), <4 x i8> zeroinitializer)
                %load13 = icmp ne <4 x i8> %load13.byte, zeroinitializer
                %index14 = getelementptr i8, ptr %p0, <4 x i64> %ramp6
                %store15.byte = zext <4 x i1> %load13 to <4 x i8>
                call void @llvm.masked.scatter.v4i8.v4p0(<4 x i8> %store15.byte, <4 x ptr> align 1 %index14, <4 x i1> %lt7)
                %r0.next = add nuw nsw i64 %r0, 1
                %r0.more = icmp slt i64 %r0.next, 4
                br i1 %r0.more, label %loop0, label %loop0.end, !prof !0
            loop0.end:
        "#]],
    );
}

#[test]
fn each_scratch_has_memory_of_its_own() {
    let mut list = List::default();
    let out = list.param(0, DType::F32, 64);
    for number in [4, 1] {
        let scratch = list.push(Op::Scratch, DType::F32, &[], Arg::Scratch(number, 3, MemorySpace::Private));
        list.store(&scratch, &i64(0), None, &UOp::float(0.5, DType::F32));
        let value = list.load(&scratch, 1, &i64(0), None);
        list.store(&out, &i64(number as i64), None, &value);
    }
    let source = source(list, &Target::test_avx512());
    let scratches = "ptr noalias align 64 dereferenceable(12) %s4, ptr noalias align 64 dereferenceable(12) %s1";
    assert!(source.contains(&format!("(ptr noalias writeonly %p0, {scratches}, i64 %begin, i64 %end)")), "{source}");
    assert!(source.contains("%s4 = getelementptr inbounds i8, ptr %scratch, i64 0\n"), "{source}");
    assert!(source.contains("%s1 = getelementptr inbounds i8, ptr %scratch, i64 64\n"), "{source}");
    assert!(!source.contains("alloca"), "{source}");
}

#[test]
fn scratch_is_an_argument_of_the_body() {
    let mut list = List::default();
    let out = list.param(0, DType::F32, 64);
    let r = list.range(0, &UOp::int(64, DType::U32), AxisKind::Loop);
    let scratch = list.push(Op::Scratch, DType::F32, &[], Arg::Scratch(0, 64, MemorySpace::Private));
    list.store(&scratch, &r, None, &UOp::float(0.1, DType::F32));
    let value = list.load(&scratch, 1, &r, None);
    list.store(&out, &r, None, &value);
    list.end(&r);
    check(
        list,
        expect![[r#"
            entry:
              br label %loop0
            loop0:
                %r0 = phi i32 [ 0, %entry ], [ %r0.next, %loop0 ]
                %index1.offset = zext i32 %r0 to i64
                %index1 = getelementptr inbounds float, ptr %s0, i64 %index1.offset
                store float 0.10000000149011612, ptr %index1, align 4
                %load3 = load float, ptr %index1, align 4
                %index4.offset = zext i32 %r0 to i64
                %index4 = getelementptr inbounds float, ptr %p0, i64 %index4.offset
                store float %load3, ptr %index4, align 4
                %r0.next = add nuw nsw i32 %r0, 1
                %r0.more = icmp slt i32 %r0.next, 64
                br i1 %r0.more, label %loop0, label %loop0.end, !prof !0
            loop0.end:
        "#]],
    );
}

#[test]
fn lines_are_asked_for_behind_an_address() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 64), list.param(1, DType::F32, 4096));
    let r = list.range(0, &i64(4), AxisKind::Loop);
    let offset = list.binary(Op::Mul, &r, &i64(1024));
    let index = list.index(&a, 8, &offset, None);
    list.push(Op::Prefetch, DType::VOID, &[&index], Arg::Number(65_536));
    let loaded = list.load(&a, 8, &offset, None);
    list.store(&out, &r, None, &loaded);
    list.end(&r);
    check(
        list,
        expect![[r#"
        entry:
          br label %loop0
        loop0:
            %r0 = phi i64 [ 0, %entry ], [ %r0.next, %loop0 ]
            %mul1 = mul nuw nsw i64 %r0, 1024
            %index2 = getelementptr inbounds float, ptr %p1, i64 %mul1
            %prefetch3 = getelementptr i8, ptr %index2, i64 65536
            call void @llvm.prefetch.p0(ptr %prefetch3, i32 0, i32 3, i32 1)
            %load4 = load <8 x float>, ptr %index2, align 4
            %index5 = getelementptr inbounds float, ptr %p0, i64 %r0
            store <8 x float> %load4, ptr %index5, align 4
            %r0.next = add nuw nsw i64 %r0, 1
            %r0.more = icmp slt i64 %r0.next, 4
            br i1 %r0.more, label %loop0, label %loop0.end, !prof !0
        loop0.end:
    "#]],
    );
}

#[test]
fn elements_that_are_not_there_are_zeros_without_an_instruction_for_gathers() {
    let mut list = List::default();
    let (out, a) = (list.param(0, DType::F32, 64), list.param(1, DType::F32, 64));
    let r = list.range(0, &i64(4), AxisKind::Loop);
    let offsets = list.push(Op::Ramp, DType::I64.with_lanes(4), &[&r], Arg::Number(3));
    let gate = list.binary(Op::Lt, &offsets, &UOp::int(9, offsets.dtype()));
    let gathered = list.load(&a, 4, &offsets, Some(&gate));
    list.store(&out, &r, None, &gathered);
    list.end(&r);
    let written = |target: &Target| source(List(list.0.clone()), target);
    let source = written(&Target::test_avx2());
    for line in [
        "%load4.places = select <4 x i1> %lt2, <4 x ptr> %index3, <4 x ptr> %load4.instead",
        "@llvm.masked.gather.v4f32.v4p0(<4 x ptr> align 4 %load4.places, <4 x i1> splat (i1 true), <4 x float> zeroinitializer)",
        "%load4 = select <4 x i1> %lt2, <4 x float> %load4.found, <4 x float> zeroinitializer",
    ] {
        assert!(source.contains(line), "{line}: {source}");
    }
    assert!(
        written(&Target::test_avx512())
            .contains("<4 x ptr> align 4 %index3, <4 x i1> %lt2, <4 x float> zeroinitializer)")
    );
}
