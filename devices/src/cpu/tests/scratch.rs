//! Scratch memory: each call has its own, and as much as its kernel needs.

use warpweft_compiler::program::Program;

use super::{buffer_of, device, grid_program, kernel, program, values_of};
use crate::device::Device;
use crate::error::DeviceError;
use crate::launch_list::{Argument, Step};

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
  %address = getelementptr float, ptr %out, i64 %i
  store float %added, ptr %address
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
