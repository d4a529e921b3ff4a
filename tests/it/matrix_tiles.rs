//! Products of half floats by matrices that the lanes of a warp multiply together: chosen by hand for GPUs, on the interpreter of linear lists and as PTX on the emulator,
//! against sums worked out in `f64` with what their rounding admits; and what is refused.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Op, ReduceOp, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opts, apply_list, choose, text::parse_list, text::print_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::target::{Costs, Target};
use warpweft_compiler::watch::Silent;
use warpweft_tests::assembler::{NO_PTXAS, PTXAS};
use warpweft_tests::kernels::{Random, compare, kernel_of, random_inputs, reference, run_on};
use warpweft_tests::{guarded, lists};

/// Whether operands lie transposed in memory.
#[derive(Clone, Copy, Default)]
struct Turned {
    left: bool,
    right: bool,
}

fn matrix(slot: u32, dtype: DType, [rows, columns]: [i64; 2], is_turned: bool) -> UOp {
    let x = UOp::param(slot, dtype, (rows * columns) as u64);
    if is_turned { x.reshape([columns, rows]).permute(&[1, 0]) } else { x.reshape([rows, columns]) }
}

/// As a tensor program has it: factors in `f32`, where their products are exact.
fn product(dtype: DType, [rows, terms, columns]: [i64; 3], turned: Turned) -> UOp {
    let all = [rows, columns, terms];
    let a = matrix(1, dtype, [rows, terms], turned.left).reshape([rows, 1, terms]).expand(all);
    let b = matrix(2, dtype, [terms, columns], turned.right).permute(&[1, 0]).reshape([1, columns, terms]).expand(all);
    (a.cast(DType::F32) * b.cast(DType::F32)).reduce(ReduceOp::Add, &[2]).reshape([rows, columns])
}

/// A machine of so few multiprocessors that any number of blocks is enough.
fn small_gpu() -> Target {
    let costs = Costs { few_results: 1, cores: 1, ..Costs::gpu_model() };
    Target { costs, ..Target::gpu_model() }
}

fn by_hand(ast: &UOp, target: &Target) -> (String, Linear) {
    let choice = choose(&loops_of(ast, &mut Silent), target);
    let list = print_list(&choice.applied);
    let linear = lower_kernel(ast, target, &LowerOptions::by_hand_unless(false), &mut Silent);
    (format!("{list}; {:#?}", choice.reasons), linear.unwrap_or_else(|error| panic!("{list}: {error}")))
}

fn count(linear: &Linear, op: Op) -> usize {
    linear.ops.iter().filter(|node| node.op() == op).count()
}

/// Runs a kernel as a list and as PTX, and compares both with the sums worked out.
#[track_caller]
fn check(ast: &UOp, target: &Target) -> (String, Linear) {
    let (list, linear) = by_hand(ast, target);
    assert!(count(&linear, Op::MultiplyMatrices) > 0, "{list}");
    let inputs = random_inputs(ast, &mut Random::new(7));
    let wanted = reference(ast, &inputs).expect("a kernel of floats");
    let as_list = lists::run_kernel(ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    compare(&wanted, &as_list).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    for device in guarded::gpus() {
        let name = device.name();
        let as_ptx = run_on(device, ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: on {name}: {why}"));
        compare(&wanted, &as_ptx).unwrap_or_else(|why| panic!("{list}: on {name}: {why}"));
    }
    (list, linear)
}

#[test]
fn products_of_half_floats_are_multiplied_as_matrices() {
    for dtype in [DType::F16, DType::BF16] {
        let (list, linear) = check(&kernel_of(&[product(dtype, [32, 48, 64], Turned::default())]), &small_gpu());
        assert_eq!((linear.launch().lanes, linear.launch().threads() % 32), (32, 0), "{list}");
        assert!(count(&linear, Op::LoadMatrices) > 0, "{list}");
        assert!(linear.shared().bytes > 0 && count(&linear, Op::Barrier) > 0, "{list}");
    }
}

#[test]
fn operands_may_lie_either_way_and_what_follows_stays_in_the_kernel() {
    for (left, right) in [(true, false), (false, true), (true, true)] {
        let value = product(DType::F16, [64, 32, 64], Turned { left, right });
        let bias = UOp::param(3, DType::F32, 64).reshape([1, 64]).expand([64, 64]);
        let half = (value + bias).max(0).cast(DType::F16);
        check(&kernel_of(&[half]), &small_gpu());
    }
}

#[test]
fn tiles_are_of_every_size() {
    for (side, threads) in [([64, 64], 128), ([128, 128], 256), ([128, 256], 256)] {
        let ast = kernel_of(&[product(DType::BF16, [side[0], 32, side[1]], Turned::default())]);
        let (list, linear) = check(&ast, &small_gpu());
        assert_eq!((linear.launch().blocks(), linear.launch().threads()), (1, threads), "{list}");
    }
}

#[test]
fn few_rows_or_columns_are_one_tile() {
    for [rows, columns] in [[2, 64], [5, 96], [16, 90], [17, 64], [31, 96], [64, 3], [90, 16], [96, 20]] {
        for turned in [Turned::default(), Turned { left: false, right: true }] {
            let ast = kernel_of(&[product(DType::BF16, [rows, 64, columns], turned)]);
            let (list, linear) = check(&ast, &small_gpu());
            assert!(count(&linear, Op::MultiplyMatrices) > 0, "{list}");
            let launch = linear.launch();
            assert_eq!(launch.grid.iter().filter(|blocks| **blocks > 1).count(), 1, "{rows} {columns}: {list}");
        }
    }
}

#[test]
fn sides_and_terms_that_tiles_do_not_divide_are_masked() {
    for [rows, terms, columns] in [[30, 32, 32], [32, 16, 28], [64, 40, 60], [61, 47, 63], [120, 30, 250]] {
        let ast = kernel_of(&[product(DType::F16, [rows, terms, columns], Turned::default())]);
        let (list, _) = check(&ast, &small_gpu());
        assert!(list.contains("split_masked"), "{list}");
    }
    check(&kernel_of(&[product(DType::BF16, [31, 30, 29], Turned { left: true, right: true })]), &small_gpu());
}

#[test]
fn no_tile_of_matrices_spills() {
    let Some(ptxas) = &*PTXAS else { return println!("{NO_PTXAS}") };
    for target in Target::NVIDIA.into_iter().filter_map(Target::nvidia) {
        for side in [512, 1024, 4096, 1000, 4097] {
            let ast = kernel_of(&[product(DType::BF16, [side; 3], Turned::default())]);
            let (list, linear) = by_hand(&ast, &target);
            assert!(count(&linear, Op::MultiplyMatrices) > 0, "{list}");
            let program = warpweft_renderer::render(&linear, &target).expect("a GPU has it all");
            let takes =
                ptxas.assemble(&program.source, &target.processor).unwrap_or_else(|why| panic!("{list}: {why}"));
            println!("{} {side}: {takes:?}", target.processor);
            assert_eq!((takes.spill_store_bytes, takes.spill_load_bytes), (0, 0), "{side} for {}", target.processor);
        }
    }
}

#[test]
fn what_is_no_product_of_half_floats_is_refused() {
    let refused = |value: UOp, list: &str, target: &Target| {
        let kernel = loops_of(&kernel_of(&[value]), &mut Silent);
        match apply_list(&kernel, &parse_list(list).expect("opts"), target) {
            Err(refused) => refused.reason.to_string(),
            Ok(choice) => panic!("{}", print_list(&choice.applied)),
        }
    };
    let halves = || product(DType::F16, [16, 16, 8], Turned::default());
    let gpu = Target::gpu_model();
    let matrices = "multiply_matrices(r0, r1, r2)";
    assert_eq!(refused(halves(), matrices, &Target::test_avx512()), "this target has no lanes that exchange values");
    let is_tile = "a tile has loops of 16 rows and 8 columns of outputs, and one of a reduction of 16 terms";
    assert_eq!(refused(halves(), "multiply_matrices(r1, r0, r2)", &gpu), is_tile);
    assert_eq!(refused(product(DType::F16, [16, 32, 8], Turned::default()), matrices, &gpu), is_tile);
    let single = product(DType::F32, [16, 16, 8], Turned::default());
    assert_eq!(refused(single, matrices, &gpu), "the factors are no half floats");
    let last = format!("{matrices}, split(r0, 2)");
    assert_eq!(refused(halves(), &last, &gpu), "matrices are multiplied already, which comes last");
}

/// A product whose left factor is of another type than the right one.
fn mixed(left: DType, right: DType, [rows, terms, columns]: [i64; 3]) -> UOp {
    let all = [rows, columns, terms];
    let a = matrix(1, left, [rows, terms], false).reshape([rows, 1, terms]).expand(all);
    let b = matrix(2, right, [terms, columns], false).permute(&[1, 0]).reshape([1, columns, terms]).expand(all);
    (a.cast(DType::F32) * b.cast(DType::F32)).reduce(ReduceOp::Add, &[2]).reshape([rows, columns])
}

/// Runs a kernel with these opts as a list and as PTX, and compares both with the sums worked out; how many products of matrices it has.
#[track_caller]
fn check_list(ast: &UOp, list: &str) -> usize {
    let target = small_gpu();
    let options = LowerOptions { opts: Opts::List(parse_list(list).expect("opts")) };
    let linear = lower_kernel(ast, &target, &options, &mut Silent).unwrap_or_else(|error| panic!("{list}: {error}"));
    let inputs = random_inputs(ast, &mut Random::new(11));
    let wanted = reference(ast, &inputs).expect("a kernel of floats");
    let as_list = lists::run_kernel(ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    compare(&wanted, &as_list).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    for gpu in guarded::gpus() {
        let found = run_on(gpu, ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list} on {}: {why}", gpu.name()));
        compare(&wanted, &found).unwrap_or_else(|why| panic!("{list} on {}: {why}", gpu.name()));
    }
    count(&linear, Op::MultiplyMatrices)
}

/// Each thread gets two rows and two columns of a tile of 16 by 8.
const OF_THREADS: &str =
    "split(r0, 8), upcast(r0, 2), block(r3, x), split(r1, 2), lane(r1), upcast(r5, 2), multiply_matrices(r4, r6, r2)";

#[test]
fn threads_that_have_the_elements_of_a_tile_multiply_it_in_place() {
    for dtype in [DType::F16, DType::BF16] {
        assert_eq!(check_list(&kernel_of(&[product(dtype, [16, 16, 8], Turned::default())]), OF_THREADS), 1);
    }
    // From shared memory, where all lanes load together.
    let staged = "stage_padded(l0, 8, r0, r2), split(r0, 8), upcast(r0, 2), block(r5, x), split(r1, 2), lane(r1), upcast(r7, 2), multiply_matrices(r6, r8, r2)";
    assert_eq!(check_list(&kernel_of(&[product(DType::F16, [16, 16, 8], Turned::default())]), staged), 1);
}

#[test]
fn a_factor_in_f32_is_a_sum_of_half_floats() {
    let product = || mixed(DType::F32, DType::BF16, [16, 16, 8]);
    assert_eq!(check_list(&kernel_of(&[product()]), OF_THREADS), 3);
    // What is rounded to half floats afterwards needs less.
    assert_eq!(check_list(&kernel_of(&[product().cast(DType::BF16)]), OF_THREADS), 2);
    let swapped = mixed(DType::BF16, DType::F32, [16, 16, 8]);
    assert_eq!(check_list(&kernel_of(&[swapped]), OF_THREADS), 3);
}
