//! Random programs: every schedule is legal, and its kernels one after the other compute what the program says.
//!
//! Programs are built from numbers: square matrices under elementwise ops, movement, row and column reductions (spread again),
//! matmuls, gathers, `contiguous`, writes, and several outputs. Where only legality is asked, matrices are large, since cost decides and small ones
//! are all fused; where values are, they are small and hold small integers, so that every order of summation gives the same.

use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::*;
use crate::ir::interpret::{Value, interpret, interpret_kernel};
use crate::ir::{Dim, ReduceOp, postorder};

/// One step: which op, and which earlier values it takes.
type Step = (u8, prop::sample::Index, prop::sample::Index);

fn spread(x: &UOp, op: ReduceOp, axis: usize) -> UOp {
    let mut kept: Vec<Dim> = x.shape().to_vec();
    kept[axis] = Dim::from(1);
    x.reduce(op, &[axis]).reshape(kept).expand(x.shape().clone())
}

fn step(n: i64, (kind, a, b): &Step, values: &[UOp]) -> UOp {
    let (x, y) = (a.get(values), b.get(values));
    match kind % 25 {
        0 | 1 => x + y,
        2 => x.max(y),
        3 => x - y,
        4 => x.min(3).max(-3),
        5 => x.permute(&[1, 0]),
        6 => x.flip(&[0]),
        7 => spread(x, ReduceOp::Max, 1),
        8 => spread(x, ReduceOp::Min, 0),
        9 => x - spread(x, ReduceOp::Max, 1),
        10 => spread(&x.min(2).max(-2), ReduceOp::Add, 1).min(9),
        11 => {
            let left = x.min(1).max(-1).reshape([n, 1, n]).expand([n, n, n]);
            let right = y.min(1).max(-1).permute(&[1, 0]).reshape([1, n, n]).expand([n, n, n]);
            (left * right).reduce(ReduceOp::Add, &[2])
        }
        12 => x.contiguous(),
        13 => {
            let part = [(Dim::from(1), Dim::from(n - 1)), (Dim::from(0), Dim::from(n - 2))];
            x.shrink(&part).pad(&[(Dim::from(2), Dim::from(0)), (Dim::from(1), Dim::from(1))])
        }
        14 => x.gather(&y.cast(DType::I32).reduce(ReduceOp::Max, &[1]), 0),
        15 => spread(&spread(x, ReduceOp::Max, 1), ReduceOp::Max, 0) - y,
        16 => x.write(&[], y),
        17 => x.write(&[(Op::Permute, Arg::Axes([1, 0].into_iter().collect()))], &(y + 1)),
        18 => {
            let rows = |from: i64| Arg::Bounds([(Dim::from(from), Dim::from(from + 2)), (0.into(), n.into())].into());
            let part = y.through(&[(Op::Shrink, rows(0))]);
            x.write(&[(Op::Shrink, rows(1))], &(part + 1))
        }
        19 => {
            let cut = |from: i64, to: i64| Arg::Bounds([(0.into(), n.into()), (Dim::from(from), Dim::from(to))].into());
            x.write(&[(Op::Shrink, cut(n / 2, n))], &y.through(&[(Op::Shrink, cut(0, n / 2))]))
        }
        // A copy with a column replaced, and with a part of a part of it.
        20 | 21 => {
            let cut = Arg::Bounds([(0.into(), n.into()), (Dim::from(1), Dim::from(2))].into());
            x.contiguous().write(&[(Op::Shrink, cut.clone())], &y.through(&[(Op::Shrink, cut)]))
        }
        22 => {
            let cut = |from: i64, to: i64| Arg::Bounds([(Dim::from(from), Dim::from(to)), (0.into(), n.into())].into());
            let (rows, row) = ([(Op::Shrink, cut(1, n))], [(Op::Shrink, cut(1, 2))]);
            let part = if kind % 2 == 0 { x } else { y }.through(&rows).contiguous();
            x.contiguous().write(&rows, &part.write(&row, &y.through(&row)))
        }
        // What is scattered into a matrix, and where to, is made of the matrix.
        _ => {
            let (index, source) = if kind % 2 == 0 { (x, y) } else { (y, x) };
            x.scatter(&index.cast(DType::I32), &(source.min(2).max(-2) + 1), Some(ReduceOp::Add), 0)
        }
    }
}

/// A sink of some values of a program over `n` by `n` matrices.
fn program(n: i64, steps: &[Step], outputs: &[prop::sample::Index]) -> UOp {
    let input = |slot: u32| UOp::param(slot, DType::F32, (n * n) as u64).reshape([n, n]);
    let mut values = vec![input(0), input(1)];
    for one in steps {
        let value = step(n, one, &values);
        values.push(value);
    }
    let last = values.len() - 1;
    UOp::sink(outputs.iter().map(|output| output.get(&values).clone()).chain([values[last].clone()]))
}

fn steps(len: usize) -> impl Strategy<Value = (Vec<Step>, Vec<prop::sample::Index>)> {
    let step = (any::<u8>(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (prop::collection::vec(step, 1..len), prop::collection::vec(any::<prop::sample::Index>(), 0..4))
}

/// What the kernels of a schedule leave in the buffers of its outputs.
fn run(schedule: &Schedule, inputs: &[Value]) -> Vec<Value> {
    let mut memory: FxHashMap<usize, Value> = inputs.iter().cloned().enumerate().collect();
    for kernel in &schedule.kernels {
        let leaf = |node: &UOp| match node.arg() {
            Arg::Param(param) => memory.get(&kernel.buffers[param.slot as usize]).cloned(),
            Arg::Variable(variable) => kernel.offsets.value(&variable.name, |_| None).map(Value::index),
            _ => None,
        };
        let stored = interpret_kernel(&kernel.ast, &leaf).unwrap();
        for (slot, value) in stored {
            let len = value.len() as i64;
            let flat = Value::from_bytes(value.dtype(), vec![len], &value.to_bytes()).unwrap();
            memory.insert(kernel.buffers[slot as usize], flat);
        }
    }
    schedule.outputs.iter().map(|output| memory[output].clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_of_large_programs_are_legal((steps, outputs) in steps(40), n in prop::sample::select(vec![64i64, 512])) {
        let sink = program(n, &steps, &outputs);
        let made = schedule(&sink).unwrap();
        prop_assert_eq!(check(&made), Ok(()));
        prop_assert_eq!(schedule(&sink).unwrap(), made);
    }

    #[test]
    fn kernels_compute_what_the_program_says((steps, outputs) in steps(12), fuse in any::<bool>()) {
        let n = 4;
        let sink = program(n, &steps, &outputs);
        let made = schedule_with(&sink, ScheduleOptions { fuse, ..ScheduleOptions::default() }, &mut Silent).unwrap();
        prop_assert_eq!(check(&made), Ok(()));
        let input = |seed: i64| -> Value {
            let bytes: Vec<u8> = (0..n * n).flat_map(|k| (((k * 7 + seed * 3) % 5 - 2) as f32).to_le_bytes()).collect();
            Value::from_bytes(DType::F32, vec![n * n], &bytes).unwrap()
        };
        let inputs = [input(1), input(2)];
        let leaf = |node: &UOp| match node.arg() {
            Arg::Param(param) => inputs.get(param.slot as usize).cloned(),
            _ => None,
        };
        let wanted = interpret(sink.src(), &leaf).unwrap();
        let params = made.buffers.iter().filter(|buffer| matches!(buffer.role, BufferRole::Param(_))).count();
        let got = run(&made, &inputs[..params]);
        for (got, wanted) in got.iter().zip(&wanted) {
            prop_assert_eq!(got.to_bytes(), wanted.to_bytes(), "{:?}", postorder(sink.src()));
        }
    }
}
