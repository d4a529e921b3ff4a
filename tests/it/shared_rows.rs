//! Rows whose values the threads of a block keep in shared memory: on the emulator of GPUs, which watches for races and for what nothing has written.
//!
//! Values against the same in `f64`, in place and through views too; and faults planted in the text of a kernel, each of which must be reported.

use warpweft::{Result, Tensor};
use warpweft_compiler::DType;
use warpweft_compiler::ir::{ReduceOp, UOp};
use warpweft_compiler::optimize::{choose, text::print_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::program::Program;
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_tests::kernels::kernel_of;

use crate::thread_opts::emulate;

/// Numbers within -3 and 3 that look drawn.
fn drawn(count: i64) -> Vec<f32> {
    (0..count).map(|index| ((index * 7919 + 13) % 6007) as f32 / 1001.0 - 3.0).collect()
}

fn softmax(row: &[f32]) -> Vec<f64> {
    let powers: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[track_caller]
fn near(what: &str, found: &[f32], want: impl Iterator<Item = f64>) {
    let want: Vec<f64> = want.collect();
    assert_eq!(found.len(), want.len(), "{what}");
    for (index, (found, want)) in found.iter().zip(want).enumerate() {
        assert!((f64::from(*found) - want).abs() <= 1e-5 * want, "{what}, {index}: {found}, not {want}");
    }
}

#[test]
fn rows_that_are_kept_have_their_values_in_place_and_elsewhere() -> Result<()> {
    for (rows, columns) in [(1, 70), (3, 1009), (2, 4096), (40, 129), (1, 5003)] {
        let data = drawn(rows * columns);
        let x = Tensor::from_vec(data.clone(), [rows, columns]).to("PTX");
        let want = || data.chunks(columns as usize).flat_map(softmax);
        near("elsewhere", &x.softmax(1).to_vec::<f32>()?, want());
        x.assign(x.softmax(1))?;
        near("in place", &x.to_vec::<f32>()?, want());
        let turned = Tensor::from_vec(data.clone(), [rows, columns]).to("PTX");
        turned.assign(turned.flip(1).softmax(1))?;
        let reversed = data.chunks(columns as usize).flat_map(|row| softmax(row).into_iter().rev());
        near("turned round", &turned.to_vec::<f32>()?, reversed);
    }
    Ok(())
}

/// A softmax of rows whose exponentials are kept.
fn kept_softmax(rows: i64, columns: i64) -> UOp {
    let whole = [rows, columns];
    let x = UOp::param(1, DType::F32, (rows * columns) as u64).reshape(whole);
    let row = |value: &UOp| value.reshape([rows, 1]).expand(whole);
    let shifted = (&x - row(&x.reduce(ReduceOp::Max, &[1]))).exp2().materialize(&[1]);
    kernel_of(&[shifted.div(row(&shifted.reduce(ReduceOp::Add, &[1])))])
}

fn program(kernel: &UOp, list: &str) -> Program {
    let (target, options) = (Target::gpu_model(), LowerOptions { opts: list.parse().expect("opts") });
    let linear = lower_kernel(kernel, &target, &options, &mut Silent).expect(list);
    warpweft_renderer::render(&linear, &target).expect("a GPU has it all")
}

/// As it is chosen by hand.
fn by_hand(kernel: &UOp) -> Program {
    let list = print_list(&choose(&loops_of(kernel, &mut Silent), &Target::gpu_model()).applied);
    assert!(list.contains("keep_shared"), "{list}");
    program(kernel, &list)
}

/// What the emulator says of a kernel, of which one line of text is another.
fn with_line(program: &Program, number: usize, line: &str) -> String {
    let mut lines: Vec<&str> = program.source.lines().collect();
    lines[number] = line;
    let changed = Program { source: lines.join("\n"), ..program.clone() };
    emulate(&changed).expect_err(line).to_string()
}

#[test]
fn each_barrier_around_a_row_that_is_kept_is_needed() {
    // Each thread keeps a part of the row, and all of them add up all of it; then comes the next row.
    let list = "keep_shared(l2), split(r3, 8), split(r1, 8), block(r5, x), block(r6, x)";
    let program = program(&kept_softmax(3, 40), list);
    assert_eq!(emulate(&program), Ok(()));
    let lines = program.source.lines().enumerate();
    let barriers: Vec<usize> = lines.filter(|(_, line)| line.contains("bar.sync")).map(|(number, _)| number).collect();
    assert_eq!(barriers.len(), 2, "{}", program.source);
    for number in barriers {
        let error = with_line(&program, number, "");
        assert!(error.ends_with("a race") || error.ends_with("nothing has written"), "{error}");
    }
}

#[test]
fn the_last_part_of_a_row_that_is_kept_ends_with_the_row() {
    let program = by_hand(&kept_softmax(2, 1009));
    assert_eq!(emulate(&program), Ok(()));
    let is_bound = |line: &str| line.contains("setp.lt") && line.ends_with(", 1009;");
    let lines = program.source.lines().enumerate();
    let bounds: Vec<(usize, &str)> = lines.filter(|(_, line)| is_bound(line)).collect();
    // Where the row is kept, and where it is stored: in several turns, of which the last may go beyond it.
    assert!(bounds.len() >= 2, "{}", program.source);
    for (number, line) in bounds {
        let error = with_line(&program, number, &line.replace(", 1009;", ", 1024;"));
        assert!(error.contains("failed at line"), "{error}");
    }
}
