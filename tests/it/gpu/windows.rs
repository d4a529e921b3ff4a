//! Windows that overlap, and memory that is turned around. And that no choice by hand spills registers, of whatever kernel.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, Shape, StridedArg, UOp};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_tests::assembler::{NO_PTXAS, PTXAS};
use warpweft_tests::kernels::{kernel_of, matmul};

use super::{chosen, count, kept_softmax, matrix, row_sums, small_gpu, softmax};

#[test]
fn odd_sides_are_turned_around_in_shared_memory() {
    let turned = |dtype: DType, rows: i64, columns: i64| {
        let x = UOp::param(1, dtype, (rows * columns) as u64).reshape([rows, columns]).permute(&[1, 0]);
        chosen(&kernel_of(&[&x + &x]), &small_gpu())
    };
    for (dtype, rows, columns) in
        [(DType::F32, 33, 70), (DType::F16, 45, 31), (DType::F64, 64, 35), (DType::I32, 100, 99)]
    {
        let (list, linear) = turned(dtype, rows, columns);
        assert!(list.contains("stage_padded"), "{dtype} {rows} {columns}: {list}");
        assert_eq!((count(&linear, Op::Barrier), linear.launch().threads()), (1, 256), "{list}");
    }
    // Squares of vectors are turned around in registers, and of a short side there is little.
    for (rows, columns) in [(64, 64), (7, 1001)] {
        assert!(!turned(DType::F32, rows, columns).0.contains("stage"), "{rows} {columns}");
    }
}

/// 4 x 64 channels of 100 x 100 positions from 3 channels, windows of 7 x 7 in steps of two.
fn stem() -> UOp {
    let all = [4, 64, 100, 100, 3, 7, 7];
    let shape = Shape::from(vec![4i64, 100, 100, 3, 7, 7]);
    let strides = Shape::from(vec![3 * 206 * 206i64, 2 * 206, 2, 206 * 206, 206, 1]);
    let windows = StridedArg { shape, strides, offset: Dim::Const(0) };
    let x = UOp::param(1, DType::F32, 4 * 3 * 206 * 206);
    let windows = UOp::new(Op::AsStrided, DType::F32, vec![x], Arg::Strided(windows.into()));
    let filters = UOp::param(2, DType::F32, 64 * 3 * 49).reshape([1, 64, 1, 1, 3, 7, 7]).expand(all);
    let value = windows.reshape([4, 1, 100, 100, 3, 7, 7]).expand(all) * filters;
    kernel_of(&[value.reduce(ReduceOp::Add, &[4, 5, 6]).reshape([4, 64, 100, 100])])
}

#[test]
fn no_choice_by_hand_spills() {
    let Some(ptxas) = &*PTXAS else { return println!("{NO_PTXAS}") };
    let column_sums = kernel_of(&[matrix(1, 4096, 4096).reduce(ReduceOp::Add, &[0]).reshape([4096])]);
    let real_softmax = kernel_of(&[kept_softmax(&matrix(1, 4096, 1024))]);
    let odd_softmax = kernel_of(&[kept_softmax(&matrix(1, 4096, 1023))]);
    let kernels = [
        ("a product", matmul(4096, 4096, 4096)),
        ("a small product", matmul(512, 512, 512)),
        ("a product that no tile divides", matmul(1000, 1000, 1000)),
        ("a large product of odd sides", matmul(4097, 4097, 4097)),
        ("sums of rows", row_sums(4096, 4096)),
        ("a softmax", softmax(4096, 1024)),
        ("a softmax that keeps its row", real_softmax),
        ("a softmax of an odd length", odd_softmax),
        ("sums of columns", column_sums),
        ("a convolution of three channels", stem()),
    ];
    for target in Target::NVIDIA.into_iter().filter_map(Target::nvidia) {
        for (name, ast) in &kernels {
            let linear = lower_kernel(ast, &target, &LowerOptions::by_hand_unless(false), &mut Silent).expect(name);
            let program = warpweft_renderer::render(&linear, &target).expect(name);
            let takes =
                ptxas.assemble(&program.source, &target.processor).unwrap_or_else(|why| panic!("{name}: {why}"));
            println!("{} {name}: {takes:?}", target.processor);
            assert_eq!((takes.spill_store_bytes, takes.spill_load_bytes), (0, 0), "{name} for {}", target.processor);
        }
    }
}

/// Windows of 3 x 3 of an image for each channel, with a weight for each position and channel.
fn depthwise(channels: i64, [rows, columns]: [i64; 2]) -> UOp {
    let (wide, tall) = (columns + 2, rows + 2);
    let shape = Shape::from(vec![channels, rows, columns, 3, 3]);
    let strides = Shape::from(vec![wide * tall, wide, 1, wide, 1]);
    let windows = StridedArg { shape: shape.clone(), strides, offset: Dim::Const(0) };
    let x = UOp::param(1, DType::F32, (channels * wide * tall) as u64);
    let windows = UOp::new(Op::AsStrided, DType::F32, vec![x], Arg::Strided(windows.into()));
    let weights = UOp::param(2, DType::F32, (channels * 9) as u64).reshape([channels, 1, 1, 3, 3]).expand(shape);
    kernel_of(&[(windows * weights).reduce(ReduceOp::Add, &[3, 4]).reshape([channels, rows, columns])])
}

#[test]
fn threads_have_rows_of_windows_that_overlap() {
    let (list, linear) = chosen(&depthwise(600, [16, 40]), &small_gpu());
    assert!(list.contains("upcast(r1, 8)") && !list.contains("vectorize"), "{list}");
    // Ten rows of three positions, and nine weights, each loaded once.
    assert_eq!(count(&linear, Op::Load), 39, "{list}");
    // Too few for that: each thread has fewer rows, or one.
    let (list, _) = chosen(&depthwise(3, [16, 40]), &Target::gpu_model());
    assert!(!list.contains("upcast") && !list.contains("vectorize"), "{list}");
}
