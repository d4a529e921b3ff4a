//! The choice by hand for GPUs: which threads share what, and that values stay what they are. Kernels run on the interpreter of linear lists, in two orders of threads, and as
//! PTX on the emulator, which watches for races; both against the unoptimised kernel.

mod products;
mod programs;
mod reductions;
mod windows;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::choose;
use warpweft_compiler::optimize::text::print_list;
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::target::{Costs, Target};
use warpweft_compiler::watch::Silent;
use warpweft_tests::kernels::kernel_of;
use warpweft_tests::opt_lists;

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
    let costs = Costs { few_results: 1, cores: 1, ..Costs::gpu_model() };
    Target { costs, ..Target::gpu_model() }
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
