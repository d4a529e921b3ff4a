//! The choice by hand for GPUs: which threads share what, and that values stay what they are. Kernels run on the interpreter of linear lists, in two orders of threads, and as
//! PTX on the emulator, which watches for races; both against the unoptimised kernel.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Combiner, Dim, Op, ReduceOp, Shape, StridedArg, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{choose, text::print_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::program::Parameter;
use warpweft_compiler::target::{Costs, Target};
use warpweft_compiler::watch::Silent;
use warpweft_devices::{BufferSlice, RawBuffer};
use warpweft_tests::assembler::{NO_PTXAS, PTXAS};
use warpweft_tests::kernels::{Random, kernel_of, matmul};
use warpweft_tests::{guarded, opt_lists};

/// The list chosen by hand; the kernel that it makes keeps its values.
#[track_caller]
fn chosen(ast: &UOp, target: &Target) -> (String, Linear) {
    chosen_for(ast, None, target)
}

/// As [`chosen`], with a value of the variable `n`.
#[track_caller]
fn chosen_for(ast: &UOp, n: Option<i64>, target: &Target) -> (String, Linear) {
    let choice = choose(&loops_of(ast, &mut Silent), target);
    let list = print_list(&choice.applied);
    opt_lists::check_list(ast, n, &list, target).unwrap_or_else(|why| panic!("{list}: {why}\n{:#?}", choice.reasons));
    let by_hand = LowerOptions::by_hand_unless(false);
    let linear = lower_kernel(ast, target, &by_hand, &mut Silent).unwrap_or_else(|error| panic!("{list}: {error}"));
    (format!("{list}; {:#?}", choice.reasons), linear)
}

fn count(linear: &Linear, op: Op) -> usize {
    linear.ops.iter().filter(|node| node.op() == op).count()
}

fn matrix(slot: u32, rows: i64, columns: i64) -> UOp {
    UOp::param(slot, DType::F32, (rows * columns) as u64).reshape([rows, columns])
}

fn row_sums(rows: i64, columns: i64) -> UOp {
    kernel_of(&[matrix(1, rows, columns).reduce(ReduceOp::Add, &[1]).reshape([rows])])
}

fn wide(value: &UOp, rows: i64, columns: i64) -> UOp {
    value.reshape([rows, 1]).expand([rows, columns])
}

fn softmax(rows: i64, columns: i64) -> UOp {
    let x = matrix(1, rows, columns);
    let shifted = (&x - wide(&x.reduce(ReduceOp::Max, &[1]), rows, columns)).exp2();
    kernel_of(&[shifted.div(wide(&shifted.reduce(ReduceOp::Add, &[1]), rows, columns))])
}

/// A machine of so few multiprocessors that any number of blocks is enough.
fn small_gpu() -> Target {
    let costs = Costs { few_results: 1, ..Costs::gpu_model() };
    Target { costs, ..Target::gpu_model() }
}

#[test]
fn long_rows_have_a_block_each() {
    let (list, linear) = chosen(&row_sums(3, 4096), &small_gpu());
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.threads()), ([3, 1, 1], 256), "{list}");
    assert_eq!((count(&linear, Op::ShuffleReduce), count(&linear, Op::Barrier)), (1, 1), "{list}");
    let widest = linear.ops.iter().filter(|node| node.op() == Op::Load).map(|node| node.dtype().lanes()).max();
    assert_eq!(widest, Some(4), "{list}");
    // Too few for all multiprocessors: as many threads as there is work for.
    let (list, linear) = chosen(&row_sums(2, 8192), &Target::gpu_model());
    assert_eq!(linear.launch().threads(), 1024, "{list}");
}

#[test]
fn short_rows_have_a_warp_each() {
    let (list, linear) = chosen(&row_sums(64, 128), &small_gpu());
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block, launch.lanes), ([8, 1, 1], [1, 8, 1], 32), "{list}");
    assert_eq!((count(&linear, Op::ShuffleReduce), count(&linear, Op::Barrier)), (1, 0), "{list}");
}

#[test]
fn what_threads_do_not_divide_is_done_under_a_mask() {
    for columns in [33, 100, 1000, 1009] {
        let (list, linear) = chosen(&row_sums(4, columns), &small_gpu());
        // What a split leaves over is shared as well.
        assert_eq!(count(&linear, Op::ShuffleReduce), 2, "{columns}: {list}");
        let (list, linear) = chosen(&softmax(3, columns), &small_gpu());
        assert!(count(&linear, Op::ShuffleReduce) >= 2, "{columns}: {list}");
    }
}

#[test]
fn all_loops_of_a_softmax_are_shared_by_the_threads_of_its_row() {
    let (list, linear) = chosen(&softmax(4, 1024), &small_gpu());
    // Two rows of four warps in a block.
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block, launch.lanes), ([2, 1, 1], [4, 2, 1], 32), "{list}");
    assert_eq!(count(&linear, Op::ShuffleReduce), 2, "{list}");
}

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

/// As a schedule has it: what the sum and the quotient need is kept.
fn kept_softmax(x: &UOp) -> UOp {
    let row = |value: &UOp| {
        let kept = value.reshape([x.shape()[0].clone(), Dim::from(1)]);
        kept.expand(x.shape().clone())
    };
    let shifted = (x - row(&x.reduce(ReduceOp::Max, &[1]))).exp2().materialize(&[1]);
    shifted.div(row(&shifted.reduce(ReduceOp::Add, &[1])))
}

fn stored(value: UOp, room: u64) -> UOp {
    UOp::sink([UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, room), value], Arg::None)])
}

#[test]
fn what_is_kept_of_a_row_is_computed_by_the_threads_that_share_it() {
    for columns in [64, 1000, 1009, 1024] {
        let ast = kernel_of(&[kept_softmax(&matrix(1, 4, columns))]);
        let (list, linear) = chosen(&ast, &small_gpu());
        assert!(list.contains("keep_shared") && count(&linear, Op::ShuffleReduce) >= 2, "{list}");
        assert_eq!(count(&linear, Op::LocalBuffer), 0, "{list}");
    }
}

#[test]
fn rows_of_symbolic_number_and_length_are_shared() {
    for (n, axis) in [(1, 0), (5, 0), (6, 0), (1, 1), (31, 1), (63, 1), (64, 1), (300, 1)] {
        let most = if axis == 0 { 6 } else { 300 };
        let len = Dim::from(UOp::variable("n", 1, most));
        let (whole, dims) = match axis {
            0 => ([6, 300], [len, Dim::from(300)]),
            _ => ([3, 300], [Dim::from(3), len]),
        };
        let x = matrix(1, whole[0], whole[1]).shrink(&dims.map(|dim| (Dim::from(0), dim)));
        let values = [(kept_softmax(&x), whole[0] * whole[1]), (x.reduce(ReduceOp::Add, &[1]), whole[0])];
        for (value, room) in values.map(|(value, room)| (value, room as u64)) {
            let (list, linear) = chosen_for(&stored(value, room), Some(n), &small_gpu());
            assert!(count(&linear, Op::ShuffleReduce) >= 1, "{list}");
            assert!(linear.launch().threads() >= 32, "{list}");
        }
    }
}

#[test]
fn lengths_without_divisors_have_whole_blocks() {
    let x = UOp::param(1, DType::F32, 1009);
    let (list, linear) = chosen(&kernel_of(&[x.exp2()]), &small_gpu());
    assert_eq!((linear.launch().threads(), linear.launch().blocks()), (256, 4), "{list}");
    for n in [1, 255, 256, 1009] {
        let part = x.shrink(&[(Dim::from(0), Dim::from(UOp::variable("n", 1, 1009)))]);
        let (list, linear) = chosen_for(&stored(part.exp2(), 1009), Some(n), &small_gpu());
        assert_eq!(linear.launch().threads(), 256, "{list}");
    }
    // Few of them are shared out among multiprocessors, by whole warps.
    let (list, linear) = chosen(&kernel_of(&[x.exp2()]), &Target::gpu_model());
    assert_eq!((linear.launch().threads(), linear.launch().blocks()), (32, 32), "{list}");
}

#[test]
fn columns_are_summed_by_warps_that_have_a_part_of_the_rows_each() {
    let ast = kernel_of(&[matrix(1, 200, 64).reduce(ReduceOp::Add, &[0]).reshape([64])]);
    let (list, linear) = chosen(&ast, &Target::gpu_model());
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block), ([2, 1, 1], [32, 8, 1]), "{list}");
    assert!(count(&linear, Op::Barrier) >= 1, "{list}");
}

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
fn what_all_blocks_compute_is_stored_by_the_first_of_them() {
    // Means, and sums of squares around them in parts.
    let (rows, parts, terms) = (4, 5, 3000);
    let mean = matrix(3, rows, parts).reduce(ReduceOp::Add, &[1]).reshape([rows]);
    let whole = [rows, parts, terms];
    let x = UOp::param(2, DType::F32, (rows * parts * terms) as u64).reshape(whole);
    let around = x - mean.reshape([rows, 1, 1]).expand(whole);
    let squares = (&around * &around).reduce(ReduceOp::Add, &[2]).reshape([rows, parts]);
    let (list, linear) = chosen(&kernel_of(&[mean, squares]), &small_gpu());
    assert_eq!(linear.launch().blocks(), 20, "{list}");
    // Sums that nothing else needs are not computed by all.
    let (x, y) = (matrix(2, 4, 3000), UOp::param(3, DType::F32, 4 * 5 * 3000).reshape(whole));
    let sums = [x.reduce(ReduceOp::Add, &[1]).reshape([4]), y.reduce(ReduceOp::Add, &[2]).reshape([4, 5])];
    let ast = kernel_of(&sums);
    let (list, linear) = chosen(&ast, &small_gpu());
    assert!(linear.launch().blocks() <= 4, "{list}");
    let grid = |range: u32| opt_lists::check_list(&ast, None, &format!("grid(r{range}, x)"), &small_gpu());
    let is_refused = |why: String| why.contains("each block would compute what it stores");
    assert!((0..4).any(|range| grid(range).is_err_and(is_refused)));
}

#[test]
fn states_are_shared_through_memory() {
    let x = matrix(1, 4, 256);
    let places = UOp::iota(256).cast(DType::I32).reshape([1, 256]).expand([4, 256]);
    let ast = kernel_of(&UOp::reduce_states(Combiner::ArgMaxFirst, &[x, places], &[1])[1..]);
    let (list, linear) = chosen(&ast, &small_gpu());
    assert_eq!((linear.launch().threads() % 32, count(&linear, Op::ShuffleReduce)), (0, 0), "{list}");
    assert!(count(&linear, Op::Barrier) >= 1, "{list}");
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
fn a_convolution_goes_by_tiles_of_channels_and_places() {
    // 32 channels of 6 x 32 places from 16 channels, windows of 3 x 3, nothing beyond the edge.
    let all = [32, 4, 30, 16, 3, 3];
    let shape = Shape::from(vec![4i64, 30, 16, 3, 3]);
    let windows = StridedArg { shape, strides: Shape::from(vec![32i64, 1, 192, 32, 1]), offset: Dim::Const(0) };
    let x = UOp::param(1, DType::F32, 16 * 6 * 32);
    let windows = UOp::new(Op::AsStrided, DType::F32, vec![x], Arg::Strided(windows.into()));
    let filters = UOp::param(2, DType::F32, 32 * 16 * 9).reshape([32, 1, 1, 16, 3, 3]).expand(all);
    let value = (windows.reshape([1, 4, 30, 16, 3, 3]).expand(all) * filters).reduce(ReduceOp::Add, &[3, 4, 5]);
    let (list, linear) = chosen(&kernel_of(&[value.reshape([32, 4, 30])]), &small_gpu());
    assert!(list.contains("stage_shared") && linear.shared().bytes > 0, "{list}");
    // Filters of all places of the window at once, as they lie in memory.
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

/// 4 x 64 channels of 100 x 100 places from 3 channels, windows of 7 x 7 in steps of two.
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

/// Windows of 3 x 3 of an image for each channel, with a weight for each place and channel.
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
    // Ten rows of three places, and nine weights, each loaded once.
    assert_eq!(count(&linear, Op::Load), 39, "{list}");
    // Too few for that: each thread has fewer rows, or one.
    let (list, _) = chosen(&depthwise(3, [16, 40]), &Target::gpu_model());
    assert!(!list.contains("upcast") && !list.contains("vectorize"), "{list}");
}

#[test]
fn fewer_threads_have_a_row_where_that_leaves_enough() {
    let costs = Costs { threads: 64, few_results: 1, ..Costs::gpu_model() };
    let target = Target { costs, ..Target::gpu_model() };
    // One warp, which needs no shared memory; two vectors of each thread, where more threads would have none.
    for (rows, columns, threads) in [(64, 1000, 32), (64, 768, 32), (64, 5120, 256)] {
        let (list, linear) = chosen(&row_sums(rows, columns), &target);
        let launch = linear.launch();
        let of_row = launch.threads() / launch.block[1].max(1);
        assert_eq!(of_row, threads, "{rows} {columns}: {list}");
    }
}

#[test]
fn turns_of_loops_are_several_iterations() {
    let (list, linear) = chosen(&row_sums(3, 8192), &small_gpu());
    let loads: Vec<usize> =
        linear.ops.iter().filter(|node| node.op() == Op::Load).map(|node| node.dtype().lanes()).collect();
    // Eight vectors of each thread, all of which are asked for at once; then what each warp has.
    assert_eq!(loads.iter().filter(|lanes| **lanes == 4).count(), 8, "{list}");
}
