//! Kernels as the CPU runs them against the interpreter.

use warpweft_compiler::DType;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Op, ReduceOp};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_tests::guarded;
use warpweft_tests::kernels::{Generator, check_kernel, kernel_of};

/// How many kernels are made, if the environment does not say.
fn seeds(otherwise: u64) -> u64 {
    std::env::var("KERNEL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(otherwise)
}

/// A soak tries more.
#[test]
fn random_kernels_on_the_emulator_of_gpus() {
    for seed in 0..seeds(12) {
        let mut generator = Generator::new(seed, 1);
        if seed % 2 == 1 {
            generator = generator.keeping();
        }
        let ast = kernel_of(&[generator.graph(2 + seed as usize % 7)]);
        for device in guarded::gpus() {
            let name = device.name();
            check_kernel(device, &ast, seed).unwrap_or_else(|message| panic!("seed {seed} on {name}: {message}"));
        }
    }
}

#[test]
fn random_kernels_agree_with_the_interpreter() {
    let device = guarded::cpu();
    let (seeds, mut lists) = (seeds(150), 0);
    for seed in 0..seeds {
        let mut generator = Generator::new(seed, 1);
        let ast = kernel_of(&[generator.graph(2 + seed as usize % 8)]);
        lists += check_kernel(&*device, &ast, seed).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
    assert!(lists as u64 * 10 >= seeds * 3 * 9, "{lists} lists of {seeds} kernels were run, of three for each");
}

#[test]
fn random_kernels_that_keep_values_agree_with_the_interpreter() {
    let device = guarded::cpu();
    let (seeds, mut lists) = (seeds(100), 0);
    for seed in 0..seeds {
        let mut generator = Generator::new(seed, 1).keeping();
        let ast = kernel_of(&[generator.graph(2 + seed as usize % 6)]);
        lists += check_kernel(&*device, &ast, seed).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
    assert!(lists as u64 * 10 >= seeds * 3 * 9, "{lists} lists of {seeds} kernels were run, of three for each");
}

/// Processors that lack what this machine may have: no kernel for them uses it, and they compute the same.
#[test]
fn random_kernels_agree_on_lesser_processors() {
    for (target, has, lacks) in [(Target::test_avx2(), "vfmadd", "zmm"), (Target::test_sse2(), "mulps", "ymm")] {
        let Some(device) = guarded::lesser_cpu(&target) else { continue };
        for seed in 0..seeds(40) {
            let mut generator = Generator::new(seed, 1);
            let ast = kernel_of(&[generator.graph(2 + seed as usize % 8)]);
            check_kernel(&*device, &ast, seed).unwrap_or_else(|message| panic!("{lacks}, seed {seed}: {message}"));
        }
        for ast in [kernel_of(&[attention(2, 37, 16)]), kernel_of(&[matmul(37, 33, 50)])] {
            check_kernel(&*device, &ast, 1).unwrap_or_else(|message| panic!("{lacks}: {message}"));
            let linear = lower_kernel(&ast, &target, &LowerOptions::default(), &mut Silent).expect("a list");
            let program = warpweft_renderer::render(&linear, &target).expect("a program");
            let code = device.disassemble(&device.compile(&program).expect("it compiles")).expect("its instructions");
            assert!(code.contains(has) && !code.contains(lacks), "{code}");
        }
    }
}

/// softmax(q k^T) v with the scores and their exponentials kept a row at a time.
fn attention(heads: i64, len: i64, width: i64) -> UOp {
    let input = |slot: u32| UOp::param(slot, DType::F32, (heads * len * width) as u64).reshape([heads, len, width]);
    let four = [heads, len, len, width];
    let q = input(1).reshape([heads, len, 1, width]).expand(four);
    let k = input(2).reshape([heads, 1, len, width]).expand(four);
    let scores = (q * k).reduce(ReduceOp::Add, &[3]).materialize(&[2]);
    let spread = |x: UOp| x.reshape([heads, len, 1]).expand([heads, len, len]);
    let powers = (&scores - spread(scores.reduce(ReduceOp::Max, &[2]))).exp2().materialize(&[2]);
    let weights = powers.div(spread(powers.reduce(ReduceOp::Add, &[2])));
    let v = input(3).reshape([heads, 1, len, width]).expand(four);
    (weights.reshape([heads, len, len, 1]).expand(four) * v).reduce(ReduceOp::Add, &[2])
}

#[test]
fn attention_as_one_kernel_agrees() {
    let device = guarded::cpu();
    for (heads, len, width) in [(1, 1, 1), (2, 3, 5), (8, 16, 8), (3, 37, 64), (2, 128, 64), (1, 20, 130)] {
        check_kernel(&*device, &kernel_of(&[attention(heads, len, width)]), 1)
            .unwrap_or_else(|message| panic!("{heads} x {len} x {width}: {message}"));
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
    let device = guarded::cpu();
    for (m, k, n) in [(1, 1, 1), (3, 5, 7), (16, 16, 16), (100, 64, 130), (65, 33, 17), (8, 128, 64), (37, 100, 1)] {
        check_kernel(&*device, &kernel_of(&[matmul(m, k, n)]), 1)
            .unwrap_or_else(|message| panic!("{m} x {k} x {n}: {message}"));
    }
}

#[test]
fn transposes_of_every_width_agree() {
    let device = guarded::cpu();
    for (dtype, sizes) in [
        (DType::F32, [(16, 16), (64, 48), (200, 130), (17, 300), (7, 5), (128, 256)]),
        (DType::F64, [(8, 8), (64, 64), (9, 100), (65, 31), (4, 4), (130, 70)]),
        (DType::I8, [(64, 64), (128, 200), (63, 65), (3, 500), (256, 64), (64, 1)]),
    ] {
        for (rows, columns) in sizes {
            let x = UOp::param(1, dtype, (rows * columns) as u64).reshape([rows, columns]);
            let ast = kernel_of(&[x.permute(&[1, 0]) + UOp::int(1, dtype)]);
            check_kernel(&*device, &ast, 1).unwrap_or_else(|message| panic!("{dtype} {rows} x {columns}: {message}"));
        }
    }
}

/// A kernel that stores each value to the param of that slot.
fn storing(values: &[(u32, UOp)]) -> UOp {
    UOp::sink(values.iter().map(|(slot, value)| {
        let len = value.shape().numel().as_const().unwrap_or(0) as u64;
        UOp::new(Op::Store, DType::VOID, vec![UOp::param(*slot, value.dtype(), len), value.clone()], Arg::None)
    }))
}

#[test]
fn an_element_is_read_before_it_is_replaced() {
    let device = guarded::cpu();
    for shape in [[1, 1], [3, 5], [16, 16], [7, 33], [2, 100], [64, 48]] {
        let len = (shape[0] * shape[1]) as u64;
        let x = |slot: u32| UOp::param(slot, DType::F32, len).reshape(shape);
        let rows = |value: UOp| value.reduce(ReduceOp::Add, &[1]).reshape([shape[0], 1]).expand(shape);
        for (name, ast) in [
            ("swapped", storing(&[(0, x(1)), (1, x(0))])),
            ("turned around", storing(&[(0, x(1)), (1, x(2)), (2, x(0))])),
            ("replaced by what is new", storing(&[(0, x(2) + 1), (1, x(0) * 2)])),
            ("replaced, and its row summed elsewhere", storing(&[(0, x(0) * 2 + 1), (1, x(0) * rows(x(2)))])),
        ] {
            check_kernel(&*device, &ast, 1).unwrap_or_else(|message| panic!("{shape:?} {name}: {message}"));
        }
    }
}

#[test]
fn a_transpose_gathers_nothing() {
    let x = UOp::param(1, DType::F32, 256 * 512).reshape([256, 512]);
    let source = |value: UOp| {
        let target = Target::test_avx512();
        let linear =
            lower_kernel(&kernel_of(&[value]), &target, &LowerOptions::default(), &mut Silent).expect("a kernel");
        warpweft_renderer::render(&linear, &target).expect("a program").source
    };
    assert!(!source(x.permute(&[1, 0]).contiguous()).contains("gather"));
    let column = |step: i64| {
        let rows = x.reshape([256 * 512]).shrink(&[(0.into(), (step * 1000).into())]).reshape([1000, step]);
        source(rows.shrink(&[(0.into(), 1000.into()), (1.into(), 2.into())]).contiguous())
    };
    assert!(!column(3).contains("gather") && !column(8).contains("gather"), "chosen from whole vectors");
    assert!(column(20).contains("gather"), "one strided column alone is gathered");
}
