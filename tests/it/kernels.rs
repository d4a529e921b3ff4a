//! Kernels as the CPU runs them against the interpreter.

use warpweft_compiler::DType;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::ReduceOp;
use warpweft_tests::kernels::{Generator, check_kernel, kernel_of};

#[test]
fn random_kernels_agree_with_the_interpreter() {
    let device = warpweft_devices::open("CPU", Some(2)).expect("the CPU is always there");
    for seed in 0..std::env::var("KERNEL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(150) {
        let mut generator = Generator::new(seed, 1);
        let ast = kernel_of(&[generator.graph(2 + seed as usize % 8)]);
        check_kernel(&*device, &ast, seed).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
}

fn matmul(m: i64, k: i64, n: i64) -> UOp {
    let a = UOp::param(1, DType::F32, (m * k) as u64).reshape([m, 1, k]).expand([m, n, k]);
    let b =
        UOp::param(2, DType::F32, (k * n) as u64).reshape([k, n]).permute(&[1, 0]).reshape([1, n, k]).expand([m, n, k]);
    (a * b).reduce(ReduceOp::Add, &[2])
}

#[test]
fn matrix_products_of_awkward_sizes_agree() {
    let device = warpweft_devices::open("CPU", Some(2)).expect("the CPU is always there");
    for (m, k, n) in [(1, 1, 1), (3, 5, 7), (16, 16, 16), (100, 64, 130), (65, 33, 17), (8, 128, 64), (37, 100, 1)] {
        check_kernel(&*device, &kernel_of(&[matmul(m, k, n)]), 1)
            .unwrap_or_else(|message| panic!("{m} x {k} x {n}: {message}"));
    }
}
