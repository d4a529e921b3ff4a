//! The whole way of a kernel on the CPU, with programs written by hand: compile, load, launch; and what is refused.
#![allow(unsafe_code, reason = "opens devices")]

use std::sync::Arc;

use proptest::prelude::*;
use warpweft_compiler::dtype::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_compiler::target::Target;

use super::CpuDevice;
use super::loader;
use crate::buffer::{BufferSlice, RawBuffer};
use crate::device::{Device, Kernel};
use crate::error::DeviceError;
use crate::launch_list::{Argument, LaunchList, OneByOne, Step};

/// A kernel `k` over `f32` buffers of these lengths.
pub(super) fn program(source: &str, lens: &[u64]) -> Program {
    Program {
        name: "hand_written".to_string(),
        entry: "k".to_string(),
        source: source.to_string(),
        parameters: lens.iter().map(|&len| Parameter { dtype: DType::F32, len, access: Access::ReadWrite }).collect(),
        variables: Vec::new(),
        numbers: Vec::new(),
        grid: 1,
        scratch_bytes: 0,
        launch: Launch::ONE,
        shared_bytes: 0,
        estimate: Estimate::default(),
    }
}

pub(super) fn device() -> CpuDevice {
    // SAFETY: programs by hand that keep to what they state; each test orders its own.
    unsafe { CpuDevice::open(Some(2)) }
}

/// The host as if it had nothing but what every x86-64 has.
pub(super) fn target_without_vectors() -> Target {
    let (processor, features) = ("x86-64".to_string(), String::new());
    Target { processor, features, ..device().target().clone() }
}

fn kernel(program: &Program) -> Arc<dyn Kernel> {
    let device = device();
    device.load(program, &device.compile(program).unwrap()).unwrap()
}

fn buffer_of(values: &[f32]) -> RawBuffer {
    let buffer = RawBuffer::host("CPU", values.len() * 4).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    buffer.all().copy_in(0, &bytes).unwrap();
    buffer
}

fn values_of(buffer: &RawBuffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.all().copy_out(0, &mut bytes).unwrap();
    bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

const ADD_16: &str = "
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %slot1 = getelementptr ptr, ptr %buffers, i64 1
  %a = load ptr, ptr %slot1
  %slot2 = getelementptr ptr, ptr %buffers, i64 2
  %b = load ptr, ptr %slot2
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %sum = fadd <16 x float> %x, %y
  store <16 x float> %sum, ptr %out, align 4
  ret void
}";

#[test]
fn adds_sixteen_numbers() {
    let kernel = kernel(&program(ADD_16, &[16, 16, 16]));
    let a: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let (out, a, b) = (buffer_of(&[0.0; 16]), buffer_of(&a), buffer_of(&[0.5; 16]));
    kernel.launch(&[out.all(), a.all(), b.all()], &[], 1).unwrap();
    assert_eq!(values_of(&out), (0..16).map(|i| i as f32 + 0.5).collect::<Vec<_>>());
}

#[test]
fn a_launch_list_runs_as_its_kernels_one_by_one() {
    let (add, grid) = (kernel(&program(ADD_16, &[16, 16, 16])), kernel(&grid_program(16)));
    let at = |memory, offset| Argument { memory, offset, bytes: 64 };
    // c = a + b; d = c + c, beside c; d += 3 i + n; a = d + b: twice the same piece, and one written that was read.
    let steps = vec![
        Step { kernel: add.clone(), arguments: vec![at(2, 0), at(0, 0), at(1, 64)], variables: vec![] },
        Step { kernel: add.clone(), arguments: vec![at(2, 64), at(2, 0), at(2, 0)], variables: vec![] },
        Step { kernel: grid, arguments: vec![at(2, 64)], variables: vec![1] },
        Step { kernel: add, arguments: vec![at(0, 0), at(2, 64), at(1, 64)], variables: vec![] },
    ];
    let lists: [Arc<dyn LaunchList>; 2] = [device().launch_list(steps.clone()), Arc::new(OneByOne::new(steps))];
    assert!(format!("{:?}", lists[0]).starts_with("CpuLaunchList"));
    for list in lists {
        let (a, b, arena) = (buffer_of(&[1.0; 16]), buffer_of(&[0.5; 40]), buffer_of(&[9.0; 32]));
        for round in 0..3 {
            list.run(&[a.all(), b.all(), arena.all()], &[0, round], 2).unwrap();
        }
        let expected = (0..16).map(|i| {
            let step = |a: f32, round: i32| (a + 0.5) + (a + 0.5) + (3 * i + round) as f32 + 0.5;
            (0..3).fold(1.0, step)
        });
        assert_eq!(values_of(&a), expected.collect::<Vec<_>>());
    }
}

#[test]
#[should_panic(expected = "launch list: memory 0 has 191 bytes of 192")]
fn a_launch_list_refuses_memory_that_is_too_short() {
    let add = kernel(&program(ADD_16, &[16, 16, 16]));
    let at = |offset| Argument { memory: 0, offset, bytes: 64 };
    let steps = vec![Step { kernel: add, arguments: vec![at(0), at(64), at(128)], variables: vec![] }];
    let short = RawBuffer::host("CPU", 191).unwrap();
    let _ = device().launch_list(steps).run(&[short.all()], &[], 1);
}

#[test]
fn a_launch_list_is_not_made_of_arguments_that_do_not_fit_their_kernel() {
    let list = |bytes, arguments: usize, variables| {
        let arguments = vec![Argument { memory: 0, offset: 0, bytes }; arguments];
        let step = Step { kernel: kernel(&program(ADD_16, &[16, 16, 16])), arguments, variables };
        format!("{:?}", device().launch_list(vec![step]))
    };
    assert!(list(64, 3, vec![]).starts_with("CpuLaunchList"));
    for wrong in [list(63, 3, vec![]), list(64, 2, vec![]), list(64, 3, vec![0])] {
        // Launched one by one, the kernel says what does not fit.
        assert!(wrong.starts_with("OneByOne"), "{wrong}");
    }
}

/// out[i] = out[i] + 3 * i + variables[0], for the items of a share.
const GRID: &str = "
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %out = load ptr, ptr %buffers
  %v = load i64, ptr %variables
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %scaled = mul i64 %i, 3
  %shifted = add i64 %scaled, %v
  %float = sitofp i64 %shifted to float
  %place = getelementptr float, ptr %out, i64 %i
  %old = load float, ptr %place
  %new = fadd float %old, %float
  store float %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}";

fn grid_program(items: u64) -> Program {
    let mut program = program(GRID, &[items]);
    program.variables = vec!["n".to_string()];
    program.grid = items;
    program.estimate.operations = 1e9; // claimed, so that threads are used
    program
}

#[test]
fn a_grid_is_done_once_with_any_number_of_threads() {
    let kernel = kernel(&grid_program(1000));
    for threads in [1, 2, 3, 8] {
        let out = buffer_of(&[0.25; 1000]);
        kernel.launch(&[out.all()], &[7], threads).unwrap();
        assert_eq!(values_of(&out), (0..1000).map(|i| (3 * i + 7) as f32 + 0.25).collect::<Vec<_>>(), "{threads}");
    }
}

#[test]
fn numbers_stand_behind_the_variables_of_each_call() {
    let source = GRID.replace("ptr %variables\n", "ptr %behind\n").replace(
        "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\nentry:",
        "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\nentry:\n  \
         %behind = getelementptr i64, ptr %variables, i64 1",
    );
    let with = |numbers: &[i64]| {
        let mut program = grid_program(4);
        (program.source, program.numbers) = (source.clone(), numbers.to_vec());
        kernel(&program)
    };
    let many: Vec<i64> = (5..40).collect();
    for numbers in [&[5, 9][..], &[6], &many] {
        let expected: Vec<f32> = (0..4).map(|i| (3 * i + numbers[0]) as f32).collect();
        let out = buffer_of(&[0.0; 4]);
        with(numbers).launch(&[out.all()], &[100], 1).unwrap();
        assert_eq!(values_of(&out), expected);
        let argument = Argument { memory: 0, offset: 0, bytes: 16 };
        let step = |numbers| Step { kernel: with(numbers), arguments: vec![argument], variables: vec![0] };
        let list = device().launch_list(vec![step(&[0, 7]), step(numbers)]);
        assert!(format!("{list:?}").starts_with("CpuLaunchList"));
        let out = buffer_of(&[0.0; 4]);
        list.run(&[out.all()], &[100], 1).unwrap();
        assert_eq!(values_of(&out), expected.iter().zip(0..).map(|(x, i)| x + (3 * i) as f32).collect::<Vec<_>>());
    }
}

#[test]
fn slices_start_where_they_say() {
    let kernel = kernel(&grid_program(4));
    let out = buffer_of(&[0.0; 8]);
    kernel.launch(&[out.slice(12, 16).unwrap()], &[1], 1).unwrap();
    assert_eq!(values_of(&out), [0.0, 0.0, 0.0, 1.0, 4.0, 7.0, 10.0, 0.0]);
}

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
  %place = getelementptr [4 x float], ptr @table, i64 0, i64 %i
  %entry = load float, ptr %place
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
  %place = getelementptr float, ptr %in, i64 %i
  %x = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %place, i32 4, <16 x i1> %mask, <16 x float> zeroinitializer)
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
fn many_threads_compile_and_launch_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            scope.spawn(move || {
                let items = 500 + thread;
                let kernel = kernel(&grid_program(items));
                for round in 0..50 {
                    let out = buffer_of(&vec![0.0; items as usize]);
                    kernel.launch(&[out.all()], &[round], 2).unwrap();
                    assert_eq!(values_of(&out)[7], (21 + round) as f32);
                }
            });
        }
    });
}

#[test]
fn the_same_program_gives_the_same_object() {
    let program = grid_program(10);
    assert_eq!(device().compile(&program).unwrap(), device().compile(&program).unwrap());
}

#[test]
fn errors_of_the_source_name_the_line() {
    let source = "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\n  %x = fadd float 1.0, %y\n  ret void\n}";
    let error = device().compile(&program(source, &[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `hand_written` is not valid LLVM IR: use of undefined value '%y'\n  line 2: %x = fadd float 1.0, %y"
    );
    // Valid by its grammar, but not by its sense.
    let source = "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\n  br label %next\nnext:\n  %x = phi i64 [ 0, %next ]\n  ret void\n}";
    assert!(matches!(device().compile(&program(source, &[])), Err(DeviceError::Program { line: None, .. })));
}

#[test]
fn a_wrong_entry_point_is_refused_before_it_can_be_called() {
    for (source, said) in [
        ("define void @other() {\n  ret void\n}", "the source defines no function `k`"),
        ("declare void @k(ptr, ptr, i64, i64)", "the source defines no function `k`"),
        (
            "define i64 @k(ptr %a, ptr %b, i64 %c, i64 %d) {\n  ret i64 0\n}",
            "`k` must be `void (ptr, ptr, ptr, i64, i64)`",
        ),
        ("define void @k(ptr %a, ptr %b, i64 %c) {\n  ret void\n}", "`k` must be `void (ptr, ptr, ptr, i64, i64)`"),
        (
            "define void @k(ptr %a, ptr %b, ptr %s, i32 %c, i64 %d) {\n  ret void\n}",
            "`k` must be `void (ptr, ptr, ptr, i64, i64)`",
        ),
    ] {
        let error = device().compile(&program(source, &[])).unwrap_err().to_string();
        assert!(error.ends_with(said), "{error}");
    }
}

#[test]
fn unknown_functions_and_state_are_refused_by_name() {
    let refused = |body: &str| {
        let source = format!(
            "@state = global i64 7\ndeclare void @system(ptr)\n
             define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{\n  {body}\n  ret void\n}}"
        );
        let program = program(&source, &[]);
        device().load(&program, &device().compile(&program).unwrap()).unwrap_err().to_string()
    };
    assert!(refused("call void @system(ptr %buffers)").contains("section .data is writable"));
    let source = "declare void @system(ptr)\ndefine void @k(ptr %a, ptr %b, ptr %s, i64 %c, i64 %d) {\n  call void @system(ptr %a)\n  ret void\n}";
    let program = program(source, &[]);
    let error = device().load(&program, &device().compile(&program).unwrap()).unwrap_err();
    assert!(error.to_string().contains("it calls `system`, which kernels cannot"), "{error}");
}

#[test]
fn a_machine_without_code_generator_is_named() {
    let mut target = device().target().clone();
    target.triple = "sparc-unknown-none".to_string();
    // SAFETY: nothing is launched.
    let error = unsafe { CpuDevice::for_target(target) }.unwrap_err();
    assert!(matches!(&error, DeviceError::CompilerMissing { triple, .. } if triple == "sparc-unknown-none"));
    assert!(error.to_string().contains("libllvm22"), "{error}");
}

#[test]
fn disassembly_shows_the_entry_and_its_return() {
    let text = device().disassemble(&device().compile(&program(ADD_16, &[16, 16, 16])).unwrap()).unwrap();
    assert!(text.starts_with("k:\n     0: "), "{text}");
    assert!(text.trim_end().ends_with("ret") || text.contains(" ret"), "{text}");
    assert!(text.contains("vaddps") || text.contains("addps") || text.contains("fadd"), "{text}");
    assert!(device().disassemble(b"nothing").is_err());
}

#[test]
fn launching_with_wrong_arguments_is_a_mistake_of_the_caller() {
    let kernel = kernel(&program(ADD_16, &[16, 16, 16]));
    let (long, short) = (buffer_of(&[0.0; 16]), buffer_of(&[0.0; 15]));
    let panics = |buffers: &[BufferSlice<'_>], variables: &[i64]| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kernel.launch(buffers, variables, 1))).is_err()
    };
    assert!(!panics(&[long.all(), long.all(), long.all()], &[]));
    assert!(panics(&[long.all(), long.all()], &[]));
    assert!(panics(&[long.all(), long.all(), short.all()], &[]));
    assert!(panics(&[long.all(), long.all(), long.all()], &[1]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A damaged object is refused or loaded, but reading it never goes out of bounds or panics. It is not called.
    #[test]
    fn damaged_objects_do_no_harm_to_the_loader(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static OBJECT: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let object = OBJECT.get_or_init(|| device().compile(&grid_program(9)).unwrap());
        let mut damaged = object.clone();
        for (index, value) in flips {
            let at = index.index(damaged.len());
            damaged[at] = value;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(object.len()));
        }
        if damaged != *object {
            let _ = loader::load(&damaged, "k");
            let _ = device().disassemble(&damaged);
        } else {
            prop_assert!(loader::load(&damaged, "k").is_ok());
        }
    }
}

/// Fills scratch memory with the item's number, then adds it up into the item's element.
const SCRATCH: &str = "
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %out = load ptr, ptr %buffers
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %items, label %done
items:
  %i = phi i64 [ %begin, %entry ], [ %next, %stored ]
  %number = sitofp i64 %i to float
  br label %fill
fill:
  %k = phi i64 [ 0, %items ], [ %k1, %fill ]
  %p = getelementptr float, ptr %scratch, i64 %k
  store volatile float %number, ptr %p
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, 16384
  br i1 %more, label %fill, label %sum
sum:
  %n = phi i64 [ 0, %fill ], [ %n1, %sum ]
  %total = phi float [ 0.0, %fill ], [ %added, %sum ]
  %q = getelementptr float, ptr %scratch, i64 %n
  %x = load volatile float, ptr %q
  %added = fadd float %total, %x
  %n1 = add i64 %n, 1
  %again = icmp slt i64 %n1, 16384
  br i1 %again, label %sum, label %stored
stored:
  %place = getelementptr float, ptr %out, i64 %i
  store float %added, ptr %place
  %next = add i64 %i, 1
  %left = icmp slt i64 %next, %end
  br i1 %left, label %items, label %done
done:
  ret void
}";

fn scratch_program(items: u64) -> Program {
    let mut program = program(SCRATCH, &[items]);
    program.grid = items;
    program.scratch_bytes = 4 * 16384;
    program.estimate.operations = 1e9; // claimed, so that threads are used
    program
}

#[test]
fn calls_at_the_same_time_have_scratch_memory_of_their_own() {
    let kernel = kernel(&scratch_program(40));
    let expected: Vec<f32> = (0..40).map(|item| (item * 16384) as f32).collect();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (kernel, expected) = (&kernel, &expected);
            // A stack that is shorter than the scratch memory.
            let thread = std::thread::Builder::new().stack_size(32 << 10);
            let run = move || {
                let out = buffer_of(&[0.0; 40]);
                for threads in [1, 2, 4] {
                    kernel.launch(&[out.all()], &[], threads).unwrap();
                    assert_eq!(&values_of(&out), expected, "caller {caller}, {threads} threads");
                }
            };
            thread.spawn_scoped(scope, run).unwrap();
        }
    });
}

#[test]
fn launch_lists_give_each_launch_the_scratch_memory_that_it_needs() {
    let argument = Argument { memory: 0, offset: 0, bytes: 16 };
    let step = |program: &Program, variables| Step { kernel: kernel(program), arguments: vec![argument], variables };
    let list = device().launch_list(vec![step(&grid_program(4), vec![0]), step(&scratch_program(4), vec![])]);
    let out = buffer_of(&[0.0; 4]);
    list.run(&[out.all()], &[1], 2).unwrap();
    assert_eq!(values_of(&out), [0.0, 16384.0, 32768.0, 49152.0]);
}

#[test]
fn more_scratch_memory_than_there_is_is_an_error() {
    let mut program = scratch_program(4);
    program.scratch_bytes = 1 << 60;
    let out = buffer_of(&[0.0; 4]);
    let error = DeviceError::OutOfMemory { device: "CPU".to_string(), bytes: 1 << 60 };
    assert_eq!(kernel(&program).launch(&[out.all()], &[], 2), Err(error.clone()));
    let argument = Argument { memory: 0, offset: 0, bytes: 16 };
    let list =
        device().launch_list(vec![Step { kernel: kernel(&program), arguments: vec![argument], variables: vec![] }]);
    assert_eq!(list.run(&[out.all()], &[], 2), Err(error));
    // The thread goes on with what fits.
    kernel(&scratch_program(4)).launch(&[out.all()], &[], 1).unwrap();
    assert_eq!(values_of(&out)[3], 49152.0);
}
