//! What a source may have: calls of the mathematics library, constants, masks, copies, tables of jumps, half floats. And what becomes of it: the same object each time, and its text.

use super::{ADD_16, buffer_of, device, grid_program, kernel, program, target_without_vectors, values_of};
use crate::buffer::RawBuffer;
use crate::cpu::CpuDevice;
use crate::device::Device;

#[test]
fn a_call_of_the_mathematics_library_and_constants_work() {
    let source = "
@table = private unnamed_addr constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0], align 16
declare float @fmodf(float, float)
declare float @llvm.exp.f32(float)
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %x = load float, ptr %out
  %i = fptosi float %x to i64
  %address = getelementptr [4 x float], ptr @table, i64 0, i64 %i
  %entry = load float, ptr %address
  %p1 = getelementptr float, ptr %out, i64 1
  store float %entry, ptr %p1
  %m = call float @fmodf(float 7.5, float %x)
  %p2 = getelementptr float, ptr %out, i64 2
  store float %m, ptr %p2
  %e = call float @llvm.exp.f32(float %x)
  %p3 = getelementptr float, ptr %out, i64 3
  store float %e, ptr %p3
  %p4 = getelementptr float, ptr %out, i64 4
  %v = load <4 x float>, ptr @table
  %w = fadd <4 x float> %v, <float 0.5, float 0.25, float 0.125, float 1.5>
  store <4 x float> %w, ptr %p4, align 4
  ret void
}";
    let kernel = kernel(&program(source, &[8]));
    let out = buffer_of(&[2.0; 8]);
    kernel.launch(&[out.all()], &[], 1).unwrap();
    assert_eq!(values_of(&out), [2.0, 4.0, 1.5, 2f32.exp(), 1.5, 2.25, 4.125, 9.5]);
}

#[test]
fn vectors_with_masks_sum_what_the_mask_lets_through() {
    // The sum of `variables[0]` numbers, 16 at a time, the last ones masked.
    let source = "
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare float @llvm.vector.reduce.fadd.v16f32(float, <16 x float>)
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %out = load ptr, ptr %buffers
  %slot1 = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %slot1
  %n = load i64, ptr %variables
  %n1 = insertelement <16 x i64> poison, i64 %n, i64 0
  %ns = shufflevector <16 x i64> %n1, <16 x i64> poison, <16 x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %acc = phi <16 x float> [ zeroinitializer, %entry ], [ %sum, %loop ]
  %i1 = insertelement <16 x i64> poison, i64 %i, i64 0
  %is = shufflevector <16 x i64> %i1, <16 x i64> poison, <16 x i32> zeroinitializer
  %lanes = add <16 x i64> %is, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %mask = icmp slt <16 x i64> %lanes, %ns
  %address = getelementptr float, ptr %in, i64 %i
  %x = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %address, i32 4, <16 x i1> %mask, <16 x float> zeroinitializer)
  %sum = fadd <16 x float> %acc, %x
  %next = add i64 %i, 16
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %total = call reassoc float @llvm.vector.reduce.fadd.v16f32(float 0.0, <16 x float> %sum)
  store float %total, ptr %out
  ret void
}";
    let mut program = program(source, &[1, 50]);
    program.variables = vec!["n".to_string()];
    let kernel = kernel(&program);
    let (out, input) = (buffer_of(&[0.0]), buffer_of(&(1..=50).map(|i| i as f32).collect::<Vec<_>>()));
    for n in [1i64, 15, 16, 17, 33, 50] {
        kernel.launch(&[out.all(), input.all()], &[n], 1).unwrap();
        assert_eq!(values_of(&out)[0], (n * (n + 1) / 2) as f32, "{n}");
    }
}

#[test]
fn large_copies_and_switches_load() {
    // memset through the C library, and a table of jumps in the constants.
    let arms: String = (0..12).map(|i| format!("    i64 {i}, label %a{i}\n")).collect();
    let blocks: String = (0..12).map(|i| format!("a{i}:\n  call void @llvm.memset.p0.i64(ptr %out, i8 {i}, i64 %n, i1 false)\n  store volatile i8 {}, ptr %out\n  ret void\n", i * 3)).collect();
    let source = format!(
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{
  %out = load ptr, ptr %buffers
  %n = load i64, ptr %variables
  %slot = getelementptr i64, ptr %variables, i64 1
  %arm = load i64, ptr %slot
  switch i64 %arm, label %other [
{arms}  ]
{blocks}other:
  ret void
}}"
    );
    let mut program = program(&source, &[64]);
    program.variables = vec!["n".to_string(), "arm".to_string()];
    let kernel = kernel(&program);
    for arm in 0..12u8 {
        let out = RawBuffer::host("CPU", 256).unwrap();
        kernel.launch(&[out.all()], &[200, i64::from(arm)], 1).unwrap();
        let mut bytes = [0; 256];
        out.all().copy_out(0, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[199], bytes[200]), (arm * 3, arm, arm, 0));
    }
}

#[test]
fn half_floats_convert_on_a_machine_without_instructions_for_them() {
    // SAFETY: as in `device`; every host has what this target says.
    let device = unsafe { CpuDevice::for_target(target_without_vectors()) }.unwrap();
    let source = "
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %x = load float, ptr %out
  %h = fptrunc float %x to half
  %y = fpext half %h to float
  %b = fptrunc float %x to bfloat
  %z = fpext bfloat %b to float
  %s = fadd float %y, %z
  store float %s, ptr %out
  ret void
}";
    let program = program(source, &[1]);
    let kernel = device.load(&program, &device.compile(&program).unwrap()).unwrap();
    let out = buffer_of(&[1.0 + 2f32.powi(-9)]);
    kernel.launch(&[out.all()], &[], 1).unwrap();
    assert_eq!(values_of(&out), [2.0 + 2f32.powi(-9)]); // exact as a half, rounded to 1 as a bfloat
}

#[test]
fn the_same_program_gives_the_same_object() {
    let program = grid_program(10);
    assert_eq!(device().compile(&program).unwrap(), device().compile(&program).unwrap());
}

#[test]
fn disassembly_shows_the_entry_and_its_return() {
    let text = device().disassemble(&device().compile(&program(ADD_16, &[16, 16, 16])).unwrap()).unwrap();
    assert!(text.starts_with("k:\n     0: "), "{text}");
    assert!(text.trim_end().ends_with("ret") || text.contains(" ret"), "{text}");
    assert!(text.contains("vaddps") || text.contains("addps") || text.contains("fadd"), "{text}");
    assert!(device().disassemble(b"nothing").is_err());
}
