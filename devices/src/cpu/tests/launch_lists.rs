//! Launch lists: they do what their kernels do one by one, and are refused where arguments or memory do not fit.

use std::sync::Arc;

use super::{ADD_16, GRID, buffer_of, device, grid_program, kernel, program, values_of};
use crate::buffer::RawBuffer;
use crate::device::Device;
use crate::launch_list::{Argument, LaunchList, OneByOne, Step};

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
