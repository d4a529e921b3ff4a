//! Compilation takes time by the nodes that it is given: programs of four times the size take about four times the steps.
//!
//! A step is a comparison or a hash of a node, of which walks, tables and searches are made (`ir::steps`); nothing is timed. Each program is
//! scheduled, and each of its kernels lowered, as often as they differ. What takes n log n stays below the bound; one pass that looks at
//! all nodes, users or parts for each of them does not: it takes four times as many steps for each of four times as many.

use std::collections::HashSet;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, UOp, steps};
use warpweft_compiler::ops::join::cat;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::schedule;
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

/// Steps for four times the size, in steps for the size: four, and something for what n log n adds.
const GROWTH_MAX: f64 = 5.5;

fn lower(kernel: &UOp) {
    lower_kernel(kernel, &Target::test_avx512(), &LowerOptions::default(), &mut Silent).expect("the kernel is lowered");
}

/// Schedules a program and lowers its kernels.
fn compile(values: Vec<UOp>) {
    let schedule = schedule(&UOp::sink(values)).expect("the program is scheduled");
    let mut made: HashSet<&UOp> = HashSet::new();
    schedule.kernels.iter().filter(|kernel| made.insert(&kernel.ast)).for_each(|kernel| lower(&kernel.ast));
}

fn input(slot: u32, len: u64) -> UOp {
    UOp::param(slot, DType::F32, len)
}

fn store(slot: u32, value: &UOp) -> UOp {
    let target = input(slot, value.shape().numel().max_value() as u64);
    UOp::new(Op::Store, DType::VOID, vec![target, value.clone()], Arg::None)
}

/// How the steps of a program grow with its size.
#[track_caller]
fn check(name: &str, size: usize, work: impl Fn(usize)) {
    let count = |size: usize| {
        let before = steps();
        work(size);
        (steps() - before) as f64
    };
    // Tables of rules are made once, by whoever is first.
    work(2);
    let (small, large) = (count(size), count(4 * size));
    assert!(small > 0.0, "{name}: no step was counted");
    let growth = large / small;
    assert!(growth < GROWTH_MAX, "{name}: {size} took {small} steps, four times as many {growth:.1} times the steps");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "steps are counted in debug builds")]
fn programs_of_many_values_take_linear_work() {
    check("a chain of ops", 150, |n| {
        let op = |x: UOp, k: usize| match k % 3 {
            0 => x * (k as i64 + 2),
            1 => x.max(k as i64),
            _ => &x + &x.exp2(),
        };
        compile(vec![(0..n).fold(input(0, 64), op)]);
    });
    check("many outputs of one value", 60, |n| compile((0..n).map(|k| input(0, 64) * (k as i64 + 2)).collect()));
    check("many outputs of one reduction", 60, |n| {
        let sum = input(0, 64).reduce(ReduceOp::Add, &[0]).reshape([1]).expand([64]);
        compile((0..n).map(|k| &sum * (k as i64 + 2)).collect());
    });
    check("many lengths", 25, |n| {
        let part = |k: usize| input(0, 4096).shrink(&[(Dim::from(0), Dim::from(k + 1_001))]) * 2;
        compile((0..n).map(part).collect());
    });
    check("many variables", 250, |n| {
        let part = |k: usize| {
            let len = Dim::from(UOp::variable(&format!("n{k}"), 1, 64));
            input(0, 64).shrink(&[(Dim::from(0), len)]) * 2
        };
        compile((0..n).map(part).collect());
    });
    check("many parts joined", 250, |n| {
        let parts: Vec<UOp> = (0..n).map(|k| input(k as u32, 1 + k as u64 % 5)).collect();
        compile(vec![cat(&parts, 0).expect("parts of one type")]);
    });
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "steps are counted in debug builds")]
fn kernels_of_many_parts_take_linear_work() {
    check("many stores", 130, |n| {
        lower(&UOp::sink((0..n).map(|k| store(k as u32 + 1, &(input(0, 64) * (k as i64 + 2))))))
    });
    check("many loops in a row", 15, |n| {
        let sum = |k: usize| (input(0, 64) * (k as i64 + 2)).reduce(ReduceOp::Add, &[0]);
        lower(&UOp::sink([store(1, &(1..n).fold(sum(0), |total, k| total.max(&sum(k))))]));
    });
    check("many terms", 130, |n| {
        let shifted = |k: usize| input(0, 4096).shrink(&[(Dim::from(k), Dim::from(k + 64))]);
        lower(&UOp::sink([store(1, &(1..n).fold(shifted(0), |total, k| total + shifted(k)))]));
    });
    check("many gates", 25, |n| {
        let padded = |k: usize| input(0, 64).pad(&[(Dim::from(k), Dim::from(4 * n - k))]);
        lower(&UOp::sink([store(1, &(1..n).fold(padded(0), |total, k| total + padded(k)))]));
    });
}
