//! Reductions that threads share: who has which part of a row, and that values stay what they are.

use warpweft_compiler::DType;
use warpweft_compiler::cost_model::roofline::roofline;
use warpweft_compiler::ir::{Combiner, Dim, Op, ReduceOp, UOp};
use warpweft_compiler::target::{Costs, Target};
use warpweft_tests::kernels::kernel_of;
use warpweft_tests::opt_lists;

use super::{chosen, chosen_for, count, kept_softmax, matrix, row_sums, small_gpu, softmax, stored};

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
    // Of more than the machine has threads for a thread has several, which it asks for at once.
    let machine = small_gpu();
    let few_threads = Target { costs: Costs { threads: 64, ..machine.costs }, ..machine };
    let (list, linear) = chosen(&kernel_of(&[UOp::param(1, DType::F32, 5003).exp2()]), &few_threads);
    assert_eq!((linear.launch().threads(), linear.launch().blocks()), (256, 5), "{list}");
    // Few of them are shared out among multiprocessors, by whole warps.
    let (list, linear) = chosen(&kernel_of(&[x.exp2()]), &Target::gpu_model());
    assert_eq!((linear.launch().threads(), linear.launch().blocks()), (32, 32), "{list}");
}

#[test]
fn columns_are_summed_by_warps_that_have_a_part_of_the_rows_each() {
    let ast = kernel_of(&[matrix(1, 200, 64).reduce(ReduceOp::Add, &[0]).reshape([64])]);
    let (list, linear) = chosen(&ast, &small_gpu());
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block), ([2, 1, 1], [32, 16, 1]), "{list}");
    assert!(count(&linear, Op::Barrier) >= 1, "{list}");
    // Where that leaves multiprocessors without a block, a warp has the columns of a sector in several rows.
    let (list, linear) = chosen(&ast, &Target::gpu_model());
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block), ([8, 1, 1], [8, 16, 1]), "{list}");
    let ast = kernel_of(&[matrix(1, 4096, 1024).reduce(ReduceOp::Add, &[0]).reshape([1024])]);
    let (list, linear) = chosen(&ast, &Target::gpu_model());
    let times = roofline(&linear, &Target::gpu_model());
    assert!(times.least_ns() < 1.2 * times.of_any_kernel_ns() && times.busy > 0.9, "{list}: {times:?}");
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
    let positions = UOp::iota(256).cast(DType::I32).reshape([1, 256]).expand([4, 256]);
    let ast = kernel_of(&UOp::reduce_states(Combiner::ArgMaxFirst, &[x, positions], &[1])[1..]);
    let (list, linear) = chosen(&ast, &small_gpu());
    assert_eq!((linear.launch().threads() % 32, count(&linear, Op::ShuffleReduce)), (0, 0), "{list}");
    assert!(count(&linear, Op::Barrier) >= 1, "{list}");
}

#[test]
fn fewer_threads_have_a_row_where_that_leaves_enough() {
    let costs = Costs { threads: 64, few_results: 1, cores: 1, ..Costs::gpu_model() };
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
