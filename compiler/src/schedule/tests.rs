//! Tests of scheduling as a whole: which programs become how many kernels, and that every schedule is legal.

use super::*;
use crate::ir::{Dim, ReduceOp};
use crate::watch::Notes;

fn param(slot: u32, shape: &[i64]) -> UOp {
    UOp::param(slot, DType::F32, shape.iter().product::<i64>() as u64).reshape(shape)
}

/// A reduction that keeps its axis, broadcast again.
fn spread(x: &UOp, op: ReduceOp, axis: usize) -> UOp {
    let mut kept: Vec<Dim> = x.shape().to_vec();
    kept[axis] = Dim::from(1);
    x.reduce(op, &[axis]).reshape(kept).expand(x.shape().clone())
}

fn softmax(x: &UOp, axis: usize) -> UOp {
    let powers = (x - spread(x, ReduceOp::Max, axis)).exp2();
    powers.div(spread(&powers, ReduceOp::Add, axis))
}

fn matmul(a: &UOp, b: &UOp) -> UOp {
    let (m, k) = (a.shape()[0].clone(), a.shape()[1].clone());
    let n = b.shape()[1].clone();
    let one = Dim::from(1);
    let left = a.reshape(vec![m.clone(), one.clone(), k.clone()]).expand(vec![m.clone(), n.clone(), k.clone()]);
    let right = b.permute(&[1, 0]).reshape(vec![one, n.clone(), k.clone()]).expand(vec![m, n, k]);
    (left * right).reduce(ReduceOp::Add, &[2])
}

#[track_caller]
fn kernels(values: &[UOp], expected: usize) -> Schedule {
    let sink = UOp::sink(values.iter().cloned());
    let mut notes = Notes::of(&[Topic::Fusion]);
    let schedule = schedule_with(&sink, ScheduleOptions::default(), &mut notes).unwrap();
    check(&schedule).unwrap();
    assert_eq!(schedule.kernels.len(), expected, "{:#?}", notes.lines);
    schedule
}

#[test]
fn elementwise_movement_and_reductions_are_one_kernel() {
    let (x, y) = (param(0, &[32, 32]), param(1, &[32, 32]));
    kernels(&[(&x * 2 + &y).max(0) * &x], 1);
    kernels(&[(x.permute(&[1, 0]).flip(&[0]) + &y).reduce(ReduceOp::Add, &[1]).sqrt() + 1], 1);
    kernels(&[x.reduce(ReduceOp::Add, &[1]) + y.reduce(ReduceOp::Max, &[1])], 1);
}

#[test]
fn reductions_that_share_outer_loops_are_one_kernel() {
    let x = param(0, &[16, 32]);
    kernels(&[softmax(&x, 1)], 1);
    kernels(&[softmax(&x, 0)], 1);
    let big = param(0, &[4096, 1024]);
    kernels(&[softmax(&big, 1)], 1);
    kernels(&[softmax(&big, 0)], 1);
    kernels(&[(&x * spread(&x, ReduceOp::Add, 1)).reduce(ReduceOp::Add, &[1])], 1);
    kernels(&[x.reduce(ReduceOp::Max, &[1]).reduce(ReduceOp::Add, &[0])], 1);
}

#[test]
fn several_outputs_share_a_kernel() {
    let x = param(0, &[16, 32]);
    let schedule = kernels(&[x.exp2(), x.reduce(ReduceOp::Add, &[1])], 1);
    assert_eq!(schedule.outputs, [1, 2]);
    let sums: Vec<UOp> = (0..3).map(|slot| param(slot, &[16, 32]).reduce(ReduceOp::Add, &[1])).collect();
    kernels(&sums, 1);
    let mean = x.reduce(ReduceOp::Add, &[1]);
    kernels(&[mean.clone(), &x - spread(&x, ReduceOp::Add, 1)], 1);
    let y = x.exp2();
    kernels(&[y.clone(), &y + 1, (&y + 1).sqrt()], 1);
}

#[test]
fn contractions_of_contractions_are_not_recomputed() {
    let (x, a, b) = (param(0, &[256, 768]), param(1, &[768, 1024]), param(2, &[1024, 512]));
    let hidden = matmul(&x, &a).max(0);
    let schedule = kernels(&[matmul(&hidden, &b)], 2);
    // The cut is after the elementwise op, not before it.
    assert!(postorder(&[schedule.kernels[0].ast.clone()]).iter().any(|node| node.op() == Op::Max));
}

#[test]
fn two_users_of_one_contraction_share_its_kernel() {
    let (x, a, b) = (param(0, &[256, 256]), param(1, &[256, 256]), param(2, &[256, 256]));
    let hidden = matmul(&x, &a);
    kernels(&[matmul(&hidden.max(0), &b), matmul(&hidden.exp2(), &b)], 3);
}

#[test]
fn two_contractions_are_two_kernels_wherever_they_meet() {
    let (x, a, b) = (param(0, &[256, 256]), param(1, &[256, 256]), param(2, &[256, 256]));
    let (gate, up) = (matmul(&x, &a), matmul(&x, &b));
    // One value of two, results of their own, and both.
    kernels(&[gate.exp2() * &up], 2);
    kernels(&[gate.clone(), up.clone()], 2);
    kernels(&[gate.clone(), gate.exp2() * &up], 2);
    kernels(&[gate.clone(), up.clone(), gate.exp2() * &up], 2);
    kernels(&[matmul(&x, &a) + matmul(&param(3, &[256, 256]), &b)], 2);
    let (x, a, b) = (param(0, &[16, 32]), param(1, &[32, 32]), param(2, &[32, 32]));
    kernels(&[matmul(&x, &a).exp2(), matmul(&x, &b)], 2);
    kernels(&[matmul(&x, &a).exp2() * matmul(&x, &b)], 2);
    // Tiny ones are not worth a launch.
    let (x, a, b) = (param(0, &[4, 8]), param(1, &[8, 8]), param(2, &[8, 8]));
    kernels(&[matmul(&x, &a).exp2(), matmul(&x, &b)], 1);
    kernels(&[matmul(&x, &a).exp2() * matmul(&x, &b)], 1);
    // Small ones that feed each other stay together.
    let (q, k, v) = (param(0, &[16, 32]), param(1, &[32, 16]), param(2, &[16, 32]));
    kernels(&[matmul(&matmul(&q, &k).exp2(), &v)], 1);
}

#[test]
fn contiguous_is_kept_and_what_lies_in_memory_is_not_copied() {
    let x = param(0, &[16, 16]);
    kernels(&[x.exp2().contiguous().reduce(ReduceOp::Add, &[1])], 2);
    kernels(&[x.permute(&[1, 0]).contiguous()], 1);
    let schedule = kernels(&[x.contiguous(), x.reshape([256])], 0);
    assert_eq!(schedule.outputs, [0, 0]);
}

#[test]
fn big_reductions_run_in_two_stages() {
    kernels(&[param(0, &[1 << 24]).reduce(ReduceOp::Add, &[0])], 2);
    // A mean of everything is not recomputed by every thread.
    let x = param(0, &[1024, 1024]);
    let all = x.reduce(ReduceOp::Add, &[0, 1]).reshape([1, 1]).expand([1024, 1024]);
    kernels(&[&x - all], 3);
}

#[test]
fn without_fusion_each_op_is_a_kernel() {
    let x = param(0, &[16, 32]);
    let sink = UOp::sink([softmax(&x, 1)]);
    let unfused =
        schedule_with(&sink, ScheduleOptions { fuse: false, ..ScheduleOptions::default() }, &mut Silent).unwrap();
    check(&unfused).unwrap();
    assert_eq!(unfused.kernels.len(), 5);
}

#[test]
fn long_chains_are_cut_and_take_linear_time() {
    let chain = |len: usize| {
        let mut value = param(0, &[64]);
        for step in 0..len {
            value = if step % 3 == 0 { &value * &value + &value } else { value.max(step as i64 % 5) };
        }
        value
    };
    let short = kernels(&[chain(100)], 1);
    assert_eq!(short.kernels[0].buffers.len(), 2);
    let sink = UOp::sink([chain(100_000)]);
    let schedule = schedule(&sink).unwrap();
    let count = schedule.kernels.len();
    assert!((400..600).contains(&count), "{count} kernels");
}

#[test]
fn decisions_have_reasons() {
    let mut notes = Notes::of(&[Topic::Fusion]);
    let (x, a, b) = (param(0, &[256, 768]), param(1, &[768, 1024]), param(2, &[1024, 512]));
    let sink = UOp::sink([matmul(&matmul(&x, &a), &b)]);
    schedule_with(&sink, ScheduleOptions::default(), &mut notes).unwrap();
    assert_eq!(notes.lines.len(), 2, "{:#?}", notes.lines);
    assert!(
        notes.lines[1].starts_with("reduce add over 2 of [256, 1024, 768]: stored: its kernel holds a big contraction"),
        "{:#?}",
        notes.lines
    );
}

#[test]
fn equal_programs_give_equal_schedules() {
    let x = param(0, &[64, 64]);
    let build = || UOp::sink([softmax(&x, 1), matmul(&x, &x).exp2(), x.reduce(ReduceOp::Add, &[0])]);
    assert_eq!(schedule(&build()).unwrap(), schedule(&build()).unwrap());
}

#[test]
fn updates_are_done_in_place_and_together() {
    // A step of gradient descent with momentum: two memories of one shape, one kernel.
    let (weight, velocity, gradient) = (param(0, &[64, 32]), param(1, &[64, 32]), param(2, &[64, 32]));
    let moved = velocity.write(&[], &(&velocity * &UOp::float(0.5, DType::F32) + &gradient));
    let stepped = weight.write(&[], &(&weight - &moved));
    let schedule = kernels(&[moved, stepped], 1);
    assert_eq!(schedule.outputs, [1, 0], "both lie in the memory that they were given in");
    assert!(schedule.buffers.iter().all(|buffer| matches!(buffer.role, BufferRole::Param(_))), "nothing is copied");
    let (a, b) = (param(0, &[64]), param(1, &[64]));
    let schedule = kernels(&[a.write(&[], &(&a + 1)), b.write(&[], &(&b + 2))], 1);
    assert_eq!(schedule.kernels[0].buffers.len(), 2);
}

#[test]
fn writes_to_other_elements_share_a_kernel() {
    let x = param(0, &[64]);
    let part = |from: i64| (Op::Shrink, Arg::Bounds([(Dim::from(from), Dim::from(from + 16))].into()));
    let first = x.write(&[part(0)], &param(1, &[16]));
    let second = first.write(&[part(16)], &param(2, &[16]));
    kernels(&[second], 1);
    let over = first.write(&[part(8)], &param(2, &[16]));
    kernels(&[over], 2);
}

#[test]
fn a_copy_of_what_nobody_asks_for_is_written_to_without_copying() {
    let part = |from: i64| (Op::Shrink, Arg::Bounds([(Dim::from(from), Dim::from(from + 8))].into()));
    let memory_of = |values: &[UOp]| {
        let schedule = schedule(&UOp::sink(values.iter().cloned())).unwrap();
        schedule.buffers.iter().filter(|buffer| !matches!(buffer.role, BufferRole::Param(_))).count()
    };
    let given = param(0, &[64]);
    let x = (&given + 1).contiguous();
    let first = x.contiguous().write(&[part(0)], &param(1, &[8]));
    // What is read of the old contents is read before.
    let second = first.contiguous().write(&[part(16)], &first.through(&[part(4)]));
    assert_eq!(memory_of(std::slice::from_ref(&second)), 1);
    assert_eq!(memory_of(&[first.clone(), second]), 2);
    let other = first.contiguous().write(&[part(32)], &param(1, &[8]));
    assert_eq!(memory_of(&[other.clone(), first.contiguous().write(&[part(40)], &param(1, &[8]))]), 2);
    assert_eq!(
        memory_of(&[given.contiguous().write(&[part(0)], &param(1, &[8]))]),
        1,
        "the program's own memory alone"
    );
    // What is written to memory that was given stays there.
    let kept = given.write(&[part(0)], &param(1, &[8]));
    let both = [kept.contiguous().write(&[part(16)], &param(1, &[8])), kept.write(&[part(32)], &param(1, &[8]))];
    let made = schedule(&UOp::sink(both)).unwrap();
    let roles: Vec<BufferRole> = made.outputs.iter().map(|output| made.buffers[*output].role).collect();
    assert!(matches!(roles[..], [BufferRole::Output(0), BufferRole::Param(0)]), "{roles:?}");
    // A part of a part is one write.
    let row = x.through(&[part(8)]).contiguous();
    let within = (Op::Shrink, Arg::Bounds([(Dim::from(2), Dim::from(5))].into()));
    let nested = x.contiguous().write(&[part(8)], &row.write(&[within], &param(1, &[3])));
    assert_eq!(memory_of(&[nested]), 1);
}

#[test]
fn what_was_decided_for_a_write_is_told() {
    let told = |values: &[UOp]| {
        let mut notes = Notes::of(&[Topic::Fusion]);
        schedule_with(&UOp::sink(values.iter().cloned()), ScheduleOptions::default(), &mut notes).unwrap();
        notes.lines.into_iter().filter(|line| line.starts_with("write")).collect::<Vec<String>>().join("; ")
    };
    let x = param(0, &[8]);
    let double = x.write(&[], &(&x * 2));
    assert_eq!(told(std::slice::from_ref(&double)), "write [8]: written in place");
    assert!(told(&[x.clone(), double.clone()]).contains("copied: its old contents are asked for"));
    let part = |from: i64| (Op::Shrink, Arg::Bounds([(Dim::from(from), Dim::from(from + 7))].into()));
    let shifted = x.write(&[part(1)], &x.through(&[part(0)]));
    assert!(told(&[shifted]).contains("through a temporary: its value is another view of the same elements"));
    assert!(told(&[&double - &x]).contains("after a copy of the old elements"));
}

#[test]
fn what_is_scheduled_depends_on_the_costs_of_the_target() {
    let kernels = |len: i64, rows: i64, costs: Costs| {
        let x = UOp::param(0, DType::F32, (len * rows) as u64).reshape([rows, len]);
        let options = ScheduleOptions { costs, ..ScheduleOptions::default() };
        schedule_with(&UOp::sink([x.reduce(ReduceOp::Add, &[1])]), options, &mut Silent).unwrap().kernels.len()
    };
    // A long row is cut in two stages, unless that is said to pay for longer ones alone.
    assert_eq!(kernels(1 << 20, 1, Costs::cpu()), 2);
    assert_eq!(kernels(1 << 20, 1, Costs { inputs_of_two_stages: 1 << 21, ..Costs::cpu() }), 1);
    // 128 rows are enough for the threads of a CPU, and too few for the multiprocessors of a GPU.
    assert_eq!(kernels(1 << 13, 128, Costs::cpu()), 1);
    assert_eq!(kernels(1 << 13, 128, Costs::gpu_model()), 2);
}

#[test]
fn a_value_from_before_very_many_writes_goes_through_a_temporary() {
    // More writes than are looked at one by one.
    let memory = UOp::param(0, DType::F32, 256);
    let cut = |k: i64| (Op::Shrink, Arg::Bounds([(Dim::from(k), Dim::from(k + 1))].into()));
    let one = UOp::float(1.0, DType::F32).reshape([1]);
    let written = (0..100).fold(memory.clone(), |version, k| version.write(&[cut(k)], &one));
    let sink = UOp::sink([written.write(&[], &memory.flip(&[0]))]);
    let mut notes = Notes::of(&[Topic::Fusion]);
    let schedule = schedule_with(&sink, ScheduleOptions::default(), &mut notes).unwrap();
    check(&schedule).unwrap();
    let told = "through a temporary: its value is another view of the same elements";
    assert_eq!(notes.lines.iter().filter(|line| line.contains(told)).count(), 1, "{:#?}", notes.lines);
}

#[test]
fn who_is_the_last_to_need_much_goes_first() {
    // Of three blocks, each [64, 4096], two products are asked for: with the block's columns and with its rows.
    let (x, rows, columns) = (param(0, &[192, 4096]), param(1, &[4096, 32]), param(2, &[192, 32]));
    let block = |number: i64| {
        let begin = Dim::from(64 * number);
        let part =
            |x: &UOp| x.shrink(&[(begin.clone(), Dim::from(64 * number + 64)), (Dim::from(0), x.shape()[1].clone())]);
        (softmax(&part(&x), 1).contiguous(), part(&columns))
    };
    let blocks: Vec<(UOp, UOp)> = (0..3).map(block).collect();
    let by_rows = blocks.iter().map(|(block, _)| matmul(block, &rows));
    let by_columns = blocks.iter().map(|(block, columns)| matmul(&block.permute(&[1, 0]), columns));
    let outputs: Vec<UOp> = by_rows.chain(by_columns).collect();
    let schedule = schedule_with(&UOp::sink(outputs), ScheduleOptions::default(), &mut Silent).unwrap();
    check(&schedule).unwrap();
    let is_temporary = |buffer: &usize| schedule.buffers[*buffer].role == BufferRole::Temporary;
    let named = |buffer: usize| {
        let uses = schedule.kernels.iter().map(|kernel| kernel.buffers.contains(&buffer));
        uses.enumerate().filter(|(_, is_named)| *is_named).map(|(number, _)| number).collect::<Vec<usize>>()
    };
    let lives: Vec<Vec<usize>> = (0..schedule.buffers.len()).filter(|buffer| is_temporary(buffer)).map(named).collect();
    // Each is stored, and loaded by the two kernels that follow.
    assert_eq!(lives, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
}
