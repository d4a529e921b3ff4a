//! Products of matrices, and convolutions that are such: tiles in shared memory and in registers, masks beyond their ends, and no conflicts of banks.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, Shape, StridedArg, UOp};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::Parameter;
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_devices::{BufferSlice, RawBuffer};
use warpweft_tests::guarded;
use warpweft_tests::kernels::{Random, kernel_of, matmul};

use super::{chosen, count, matrix, small_gpu};

#[test]
fn products_of_few_rows_read_the_other_operand_once() {
    for (rows, terms, columns) in [(16, 256, 4096), (16, 250, 1024), (6, 64, 4099), (3, 96, 33)] {
        let (list, linear) = chosen(&matmul(rows, terms, columns), &small_gpu());
        if rows == 16 {
            assert!(list.contains("upcast(r0, 16)"), "{list}");
            assert!(linear.launch().threads() >= 64, "{list}");
        }
    }
    // As few multiprocessors as there are make blocks of fewer rows.
    let (list, _) = chosen(&matmul(16, 256, 256), &Target::gpu_model());
    assert!(!list.contains("upcast(r0, 16)"), "{list}");
}

#[test]
fn products_of_matrices_go_by_tiles_in_shared_memory() {
    // Sides of tiles, and bytes of both copies.
    for (side, threads, terms) in [(32, 64, 16), (64, 256, 32), (128, 256, 16)] {
        let (list, linear) = chosen(&matmul(side, terms, side), &small_gpu());
        let launch = linear.launch();
        assert_eq!((launch.blocks(), launch.threads()), (1, threads), "{list}");
        let slice = if side == 32 { 8 } else { 16 };
        // Two copies of each, where there is more than one slice; threads meet before one is read, and then the other one is filled.
        let copies = if terms == slice as i64 { 1 } else { 2 };
        assert_eq!(linear.shared().bytes, copies * 2 * side as u64 * slice * 4, "{list}");
        assert_eq!((count(&linear, Op::Barrier), list.contains("stage_ahead")), (1, copies == 2), "{list}");
    }
    // Where most of a tile would be empty there is none.
    let (list, _) = chosen(&matmul(33, 16, 32), &small_gpu());
    assert!(!list.contains("stage_"), "{list}");
}

#[test]
fn sides_and_terms_that_tiles_do_not_divide_are_masked() {
    // The last tile of rows, of columns, the last slice of terms; then all of them, and of odd lengths.
    for [rows, terms, columns] in
        [[30, 16, 32], [32, 16, 28], [64, 13, 64], [60, 44, 120], [61, 47, 63], [125, 31, 127]]
    {
        let (list, linear) = chosen(&matmul(rows, terms, columns), &small_gpu());
        assert!(list.contains("stage_") && list.contains("split_masked"), "{list}");
        assert!(linear.shared().bytes > 0, "{list}");
    }
    // What is no product of two loads is no zero by itself beyond the end.
    let all = [30, 30, 23];
    let a = matrix(1, 30, 23).reshape([30, 1, 23]).expand(all);
    let b = matrix(2, 23, 30).permute(&[1, 0]).reshape([1, 30, 23]).expand(all);
    let value = |a: UOp, b: UOp| kernel_of(&[(a * b).reduce(ReduceOp::Add, &[2]).reshape([30, 30])]);
    let (list, _) = chosen(&value((&a + 1).exp2(), b.exp2()), &small_gpu());
    assert!(list.contains("split_masked") && list.contains("stage_ahead"), "{list}");
    let largest = kernel_of(&[(a * b).reduce(ReduceOp::Max, &[2]).reshape([30, 30])]);
    let (list, _) = chosen(&largest, &small_gpu());
    assert!(list.contains("split_masked") && list.contains("stage_ahead"), "{list}");
}

#[test]
fn products_of_any_sides_keep_their_values() {
    let mut random = Random::new(20);
    for _ in 0..8 {
        let [rows, terms, columns] = [(); 3].map(|()| 20 + random.below(80) as i64);
        chosen(&matmul(rows, terms, columns), &small_gpu());
    }
}

#[test]
fn a_convolution_goes_by_tiles_of_channels_and_positions() {
    // 32 channels of 6 x 32 positions from 16 channels, windows of 3 x 3, nothing beyond the edge.
    let all = [32, 4, 30, 16, 3, 3];
    let shape = Shape::from(vec![4i64, 30, 16, 3, 3]);
    let windows = StridedArg { shape, strides: Shape::from(vec![32i64, 1, 192, 32, 1]), offset: Dim::Const(0) };
    let x = UOp::param(1, DType::F32, 16 * 6 * 32);
    let windows = UOp::new(Op::AsStrided, DType::F32, vec![x], Arg::Strided(windows.into()));
    let filters = UOp::param(2, DType::F32, 32 * 16 * 9).reshape([32, 1, 1, 16, 3, 3]).expand(all);
    let value = (windows.reshape([1, 4, 30, 16, 3, 3]).expand(all) * filters).reduce(ReduceOp::Add, &[3, 4, 5]);
    let (list, linear) = chosen(&kernel_of(&[value.reshape([32, 4, 30])]), &small_gpu());
    assert!(list.contains("stage_shared") && linear.shared().bytes > 0, "{list}");
    // Filters of all positions of the window at once, as they lie in memory.
    assert!(list.contains("flatten"), "{list}");
}

#[test]
fn neighbours_along_the_terms_are_loaded_at_once() {
    let (list, linear) = chosen(&matmul(64, 32, 64), &small_gpu());
    let is_shared = |load: &UOp| matches!(load.src()[0].src()[0].arg(), Arg::Scratch(..));
    let loads = linear.ops.iter().filter(|node| node.op() == Op::Load && is_shared(node));
    let lanes: Vec<usize> = loads.map(|load| load.dtype().lanes()).collect();
    assert_eq!(lanes, [4; 8], "{list}");
    // Four vectors of sums, of four terms each.
    assert_eq!(count(&linear, Op::MulAdd), 16, "{list}");
}

#[test]
fn operands_are_copied_along_what_is_consecutive_in_memory() {
    let turned = |slot: u32, rows: i64, columns: i64| matrix(slot, columns, rows).permute(&[1, 0]);
    let product = |a: UOp, b: UOp| {
        let all = [64, 64, 32];
        let (a, b) = (a.reshape([64, 1, 32]).expand(all), b.permute(&[1, 0]).reshape([1, 64, 32]).expand(all));
        (a * b).reduce(ReduceOp::Add, &[2]).reshape([64, 64])
    };
    for (a, b) in [
        (turned(1, 64, 32), matrix(2, 32, 64)),
        (matrix(1, 64, 32), turned(2, 32, 64)),
        (turned(1, 64, 32), turned(2, 32, 64)),
    ] {
        let bias = UOp::param(3, DType::F32, 64).reshape([1, 64]).expand([64, 64]);
        let (list, linear) = chosen(&kernel_of(&[(product(a, b) + bias).max(0)]), &small_gpu());
        assert_eq!((linear.launch().threads(), linear.shared().bytes), (256, 2 * 2 * 64 * 16 * 4), "{list}");
    }
}

/// A line for each access of shared memory: steps of the banks, and how few would do.
fn bank_steps(ast: &UOp, target: &Target) -> Vec<(u64, u64, String)> {
    let linear = lower_kernel(ast, target, &LowerOptions::by_hand_unless(false), &mut Silent).expect("a kernel");
    let program = warpweft_renderer::render(&linear, target).expect("a GPU has it all");
    let device = guarded::open("PTX", Some(2)).expect("it is always there");
    let kernel = device.load(&program, &device.compile(&program).expect("PTX")).expect("PTX");
    let bytes = |parameter: &Parameter| parameter.len as usize * parameter.dtype.bytes();
    let memory = program.parameters.iter().map(|parameter| device.allocate(bytes(parameter)).expect("memory"));
    let memory: Vec<RawBuffer> = memory.collect();
    let slices: Vec<BufferSlice<'_>> = memory.iter().map(RawBuffer::all).collect();
    kernel.count_memory();
    kernel.launch(&slices, &[], 2).expect("arguments that fit");
    device.finish().expect("no fault");
    let table = kernel.memory_report().expect("it counts");
    let shared = table.lines().filter(|line| line.contains("steps of banks"));
    let numbers = shared.map(|line| {
        let words: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        (words[1], words[2], line.to_string())
    });
    numbers.collect()
}

#[test]
fn tiles_lie_in_shared_memory_without_conflicts_of_banks() {
    for side in [32, 64, 128] {
        let steps = bank_steps(&matmul(side, 32, side), &small_gpu());
        assert!(steps.len() >= 4, "{steps:?}");
        for (taken, least, line) in steps {
            assert!(taken <= least, "a side of {side}: {line}");
        }
    }
}
