//! The whole way of a kernel on the CPU, with programs written by hand: compile, load, launch. Launch lists, scratch memory, what sources may have and what is refused have files of their own.
#![allow(unsafe_code, reason = "opens devices")]

mod launch_lists;
mod refused;
mod scratch;
mod sources;

use std::sync::Arc;

use warpweft_compiler::dtype::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_compiler::target::Target;

use super::CpuDevice;
use super::kernel::CpuKernel;
use crate::buffer::{BufferSlice, RawBuffer};
use crate::device::{Device, Kernel};

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
  %address = getelementptr float, ptr %out, i64 %i
  %old = load float, ptr %address
  %new = fadd float %old, %float
  store float %new, ptr %address
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
fn kernels_of_one_text_share_its_code_and_keep_their_numbers() {
    let of = |items: u64, number: i64| {
        let mut program = grid_program(items);
        (program.variables, program.numbers) = (Vec::new(), vec![number]);
        program
    };
    let first = kernel(&of(4, 7));
    let other = first.for_program(&of(6, 1)).expect("the CPU shares code");
    let entry = |kernel: &Arc<dyn Kernel>| {
        let kernel: &dyn std::any::Any = &**kernel;
        kernel.downcast_ref::<CpuKernel>().map(|kernel| kernel.entry() as usize)
    };
    assert!(entry(&first).is_some() && entry(&first) == entry(&other));
    // The code stays as long as one of them.
    drop(first);
    let out = buffer_of(&[0.0; 6]);
    other.launch(&[out.all()], &[], 1).unwrap();
    assert_eq!(values_of(&out), [1.0, 4.0, 7.0, 10.0, 13.0, 16.0]);
}

#[test]
fn slices_start_where_they_say() {
    let kernel = kernel(&grid_program(4));
    let out = buffer_of(&[0.0; 8]);
    kernel.launch(&[out.slice(12, 16).unwrap()], &[1], 1).unwrap();
    assert_eq!(values_of(&out), [0.0, 0.0, 0.0, 1.0, 4.0, 7.0, 10.0, 0.0]);
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
