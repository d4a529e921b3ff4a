//! Tests of running programs on the CPU.

use warpweft_compiler::Op;
use warpweft_compiler::ir::ReduceOp;

use super::held::read_stored;
use super::*;
use crate::config::Config;

fn cpu() -> Executor {
    Executor::open("CPU", &Config { threads: Some(2), ..Config::default() }).unwrap()
}

fn floats(executor: &Executor, data: &[f32]) -> UOp {
    let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    executor.from_bytes(DType::F32, data.len() as u64, &bytes).unwrap()
}

fn read(stored: &UOp) -> Vec<f32> {
    let bytes = read_stored(stored).unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn values_are_computed_once_and_found_again() {
    let executor = cpu();
    let x = floats(&executor, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape([2, 3]);
    let y = (&x * 2 + 1).reduce(ReduceOp::Add, &[1]);
    assert_eq!(read(&executor.realize(std::slice::from_ref(&y)).unwrap()[0]), [15.0, 33.0]);
    assert_eq!(executor.stats().launches, 1);
    // The node remembers; what is built on it starts from there.
    assert_eq!(read(&executor.realize(&[y.clone(), &y * 10]).unwrap()[1]), [150.0, 330.0]);
    assert_eq!((executor.stats().launches, executor.stats().kernels_compiled), (2, 2));
    executor.realize(&[y.reshape([1, 2])]).unwrap();
    assert_eq!(executor.stats().launches, 2);
}

#[test]
fn the_same_program_over_other_data_is_not_scheduled_again() {
    let executor = cpu();
    for round in 0..5 {
        let x = floats(&executor, &[round as f32, 1.0]);
        assert_eq!(read(&executor.realize(&[&x + &x * &x]).unwrap()[0]), [(round + round * round) as f32, 2.0]);
    }
    let stats = executor.stats();
    assert_eq!((stats.schedules_made, stats.schedules_found, stats.kernels_compiled), (1, 4, 1));
}

#[test]
fn a_constant_that_changes_compiles_twice_and_no_more() {
    let executor = cpu();
    let x = floats(&executor, &[1.0, 2.0, 3.0]);
    let constant = |value: f64| UOp::float(value, DType::F32);
    let step = |rate: f64, decay: f64| {
        let value = (&x * &constant(rate)).exp2() + &x * &constant(decay) + &constant(0.25);
        read(&executor.realize(&[value]).unwrap()[0])
    };
    let expected = |rate: f32, decay: f32| [1.0f32, 2.0, 3.0].map(|x| (x * rate).exp2() + x * decay + 0.25);
    let near = |got: Vec<f32>, want: [f32; 3]| got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-5);
    for (number, rate) in [0.5, 0.3, 0.125, 0.75, -1.0, 0.5].into_iter().enumerate() {
        assert!(near(step(rate, 3.0), expected(rate as f32, 3.0)), "{rate}");
        assert_eq!(executor.stats().kernels_compiled, 2.min(number as u64 + 1));
    }
    // Another one changes too: once more, and then never.
    for decay in [4.0, 5.0, 6.0, 3.0] {
        assert!(near(step(decay / 10.0, decay), expected(decay as f32 / 10.0, decay as f32)), "{decay}");
        assert_eq!(executor.stats().kernels_compiled, 3);
    }
    // What was compiled with its constants is still found.
    step(0.5, 3.0);
    assert_eq!(executor.stats().kernels_compiled, 3);
}

#[test]
fn kernels_of_many_lengths_share_code_and_each_keeps_to_its_length() {
    let executor = cpu();
    let data: Vec<f32> = (0..400).map(|k| k as f32).collect();
    let x = floats(&executor, &data);
    let of = |len: i64| x.shrink(&[(0.into(), len.into())]) * 2 + 1;
    let sum = |len: i64| x.shrink(&[(0.into(), len.into())]).reduce(ReduceOp::Add, &[0]);
    let lengths: Vec<i64> = (1..=60).map(|k| k * k % 397 + 1).collect();
    let values: Vec<UOp> = lengths.iter().flat_map(|&len| [of(len), sum(len)]).collect();
    let stored = executor.realize(&values).unwrap();
    for (&len, pair) in lengths.iter().zip(stored.chunks(2)) {
        let expected: Vec<f32> = data[..len as usize].iter().map(|x| x * 2.0 + 1.0).collect();
        assert_eq!(read(&pair[0]), expected, "{len}");
        assert_eq!(read(&pair[1]), [(len * (len - 1) / 2) as f32], "{len}");
    }
    let keys = executor.kernels.lock().unwrap();
    let programs = keys.values().map(|compiled| &compiled.program);
    let shared = programs.filter(|program| !program.numbers.is_empty() && program.entry.ends_with("_n")).count();
    assert!(shared > 40, "{shared} of {}", executor.stats().kernels_compiled);
    drop(keys);
    // A few are compiled each for its length.
    let other = cpu();
    let x = floats(&other, &data);
    let few: Vec<UOp> = (1..5).map(|k| x.shrink(&[(0.into(), (k * 40).into())]).exp2()).collect();
    other.realize(&few).unwrap();
    assert!(other.kernels.lock().unwrap().values().all(|compiled| compiled.program.numbers.is_empty()));
}

#[test]
fn memory_lives_as_long_as_a_graph_needs_it() {
    let executor = cpu();
    let in_use = || executor.allocator().stats().in_use_bytes;
    let x = floats(&executor, &[1.0; 1000]);
    let y = x.exp2().contiguous() + 1;
    let z = &y * 2;
    let stored = executor.realize(std::slice::from_ref(&y)).unwrap();
    // x and y, the temporary is free.
    assert_eq!(in_use(), 2 * 4096);
    drop((x, stored, y));
    assert_eq!(in_use(), 2 * 4096, "z needs y, and the nodes below it still hold x");
    assert_eq!(read(&executor.realize(std::slice::from_ref(&z)).unwrap()[0]), [6.0; 1000]);
    drop(z);
    assert_eq!(in_use(), 0);
}

#[test]
fn several_kernels_run_in_order() {
    let executor = cpu();
    let data: Vec<f32> = (0..64 * 48).map(|k| (k % 13) as f32 - 6.0).collect();
    let (a, b) = (floats(&executor, &data).reshape([64, 48]), floats(&executor, &data).reshape([48, 64]));
    let matmul = |a: &UOp, b: &UOp, m: i64, k: i64, n: i64| {
        let left = a.reshape([m, 1, k]).expand([m, n, k]);
        let right = b.permute(&[1, 0]).reshape([1, n, k]).expand([m, n, k]);
        (left * right).reduce(ReduceOp::Add, &[2])
    };
    let hidden = matmul(&a, &b, 64, 48, 64);
    let result = matmul(&hidden.max(0), &a, 64, 64, 48);
    let got = read(&executor.realize(&[result]).unwrap()[0]);
    let product = |a: &[f32], b: &[f32], m: usize, k: usize, n: usize| -> Vec<f32> {
        let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        (0..m * n).map(|at_index| at(at_index / n, at_index % n)).collect()
    };
    let hidden: Vec<f32> = product(&data, &data, 64, 48, 64).into_iter().map(|value: f32| value.max(0.0)).collect();
    assert_eq!(got, product(&hidden, &data, 64, 64, 48));
}

#[test]
fn fused_and_unfused_agree_and_differ_in_kernels() {
    let unfused = Executor::open("CPU", &Config { no_fuse: true, ..Config::default() }).unwrap();
    let fused = cpu();
    let run = |executor: &Executor| {
        let x = floats(executor, &(0..96).map(|k| k as f32 * 0.1).collect::<Vec<f32>>()).reshape([8, 12]);
        let mean = x.reduce(ReduceOp::Add, &[1]).reshape([8, 1]).expand([8, 12]).div(&UOp::float(12.0, DType::F32));
        let centered = &x - mean;
        let out = executor.realize(&[(&centered * &centered).reduce(ReduceOp::Add, &[1]), centered.exp2()]).unwrap();
        (read(&out[0]), read(&out[1]), executor.stats().launches)
    };
    let (a, b, c) = run(&unfused);
    let (d, e, f) = run(&fused);
    assert!(a.iter().zip(&d).all(|(a, d)| (a - d).abs() < 1e-4) && b.iter().zip(&e).all(|(b, e)| (b - e).abs() < 1e-4));
    assert_eq!((c, f), (6, 1));
}

#[test]
fn planned_memory_holds_what_memory_of_its_own_does() {
    let unplanned =
        Executor::open("CPU", &Config { no_memory_planner: true, lru_bytes: 0, ..Config::default() }).unwrap();
    let planned = Executor::open("CPU", &Config { lru_bytes: 0, ..Config::default() }).unwrap();
    let run = |executor: &Executor, seed: u64| {
        let data: Vec<f32> = (0..256).map(|k| ((k * 7 + seed) % 13) as f32 - 6.0).collect();
        let mut made = vec![floats(executor, &data), floats(executor, &data[..64])];
        let mut state = seed;
        for _ in 0..30 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = |shift: u64| made[(state >> shift) as usize % made.len()].clone();
            let (a, b) = (pick(33), pick(40));
            let whole = |x: &UOp| {
                if x.shape()[0].is(64) { x.reshape([1, 64]).expand([4, 64]).reshape([256]) } else { x.clone() }
            };
            made.push(match (state >> 50) % 4 {
                0 => (whole(&a) + whole(&b)).min(100).contiguous(),
                1 => (&a * 2).max(-100).min(100).contiguous(),
                2 => whole(&a).reshape([4, 64]).reduce(ReduceOp::Max, &[0]).contiguous(),
                _ => a.flip(&[0]).contiguous(),
            });
        }
        let values = [made[made.len() - 1].clone(), made[made.len() / 2].clone(), made[made.len() - 3].clone()];
        executor.realize(&values).unwrap().iter().map(read).collect::<Vec<_>>()
    };
    for seed in 1..9 {
        assert_eq!(run(&planned, seed), run(&unplanned, seed));
    }
    assert!(planned.allocator().stats().peak_bytes < unplanned.allocator().stats().peak_bytes);
}

#[test]
fn constants_empty_values_and_plain_memory() {
    let executor = cpu();
    let x = floats(&executor, &[1.0, 2.0]);
    let values = [
        UOp::float(2.5, DType::F32).reshape([1]).expand([3]),
        x.shrink(&[(1.into(), 1.into())]),
        x.clone(),
        x.flip(&[0]),
        UOp::int(7, DType::F32),
    ];
    let got: Vec<Vec<f32>> = executor.realize(&values).unwrap().iter().map(read).collect();
    assert_eq!(got, [vec![2.5; 3], vec![], vec![1.0, 2.0], vec![2.0, 1.0], vec![7.0]]);
}

#[test]
fn mistakes_are_errors() {
    let executor = cpu();
    let error = executor.from_bytes(DType::F32, 3, &[0; 8]).unwrap_err();
    assert_eq!(error.to_string(), "8 bytes of data for 3 elements of f32, which are 12 bytes");
    let foreign = UOp::buffer(u64::MAX, DType::F32, 4, &"CPU".into());
    assert_eq!(executor.realize(&[&foreign + 1]).unwrap_err(), ExecuteError::NoMemory);
    let elsewhere = UOp::buffer(u64::MAX - 1, DType::F32, 4, &"TPU".into());
    let x = floats(&executor, &[0.0; 4]);
    let error = executor.realize(&[&elsewhere + &x]).unwrap_err();
    assert_eq!(error.to_string(), "a program uses memory of CPU and of TPU; move one tensor to the other device first");
    assert!(Executor::open("abacus", &Config::default()).unwrap_err().to_string().contains("devices that are here"));
}

#[test]
fn a_long_chain_runs() {
    let executor = cpu();
    let mut value = floats(&executor, &[1.0; 16]);
    for step in 0..2000 {
        value = if step % 2 == 0 { &value + 1 } else { &value * &UOp::float(0.5, DType::F32) };
    }
    let got = read(&executor.realize(&[value]).unwrap()[0]);
    assert!(got.iter().all(|value| (value - 1.0).abs() < 1e-5), "{got:?}");
    assert!(executor.stats().launches > 3);
}

#[test]
fn threads_run_programs_of_their_own() {
    let executor = cpu();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let executor = &executor;
            scope.spawn(move || {
                for round in 0..20 {
                    let x = floats(executor, &[thread as f32, round as f32]);
                    assert_eq!(
                        read(&executor.realize(&[&x + &x]).unwrap()[0]),
                        [thread as f32 * 2.0, round as f32 * 2.0]
                    );
                }
            });
        }
    });
}

#[test]
fn any_row_column_or_tile_is_copied_out_by_one_kernel() {
    let executor = cpu();
    let (rows, columns) = (40i64, 48i64);
    let data: Vec<f32> = (0..rows * columns).map(|k| k as f32).collect();
    let x = floats(&executor, &data).reshape([rows, columns]);
    let part = |rows: (i64, i64), columns: (i64, i64)| {
        let bounds: Vec<_> = [rows, columns].map(|(start, end)| (start.into(), end.into())).to_vec();
        x.shrink(&bounds).contiguous()
    };
    let at = |i: i64, j: i64| (i * columns + j) as f32;
    let copied = |value: UOp| read(&executor.realize(&[value]).unwrap()[0]);
    for i in 0..rows {
        let wanted: Vec<f32> = (0..columns).map(|j| at(i, j)).collect();
        assert_eq!(copied(part((i, i + 1), (0, columns))), wanted);
    }
    assert_eq!(executor.stats().kernels_compiled, 1);
    for j in 0..columns {
        let wanted: Vec<f32> = (0..rows).map(|i| at(i, j)).collect();
        assert_eq!(copied(part((0, rows), (j, j + 1)).reshape([rows])), wanted);
    }
    assert_eq!(executor.stats().kernels_compiled, 2);
    for (i, j) in [(0, 0), (3, 17), (rows - 4, columns - 5), (11, 1)] {
        let wanted: Vec<f32> = (0..20).map(|k| at(i + k / 5, j + k % 5)).collect();
        assert_eq!(copied(part((i, i + 4), (j, j + 5))), wanted);
    }
    assert_eq!(executor.stats().kernels_compiled, 3);
}

#[test]
fn texts_of_kernels_are_dropped_unless_somebody_asked_for_them() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["CPU", "INTERPRETER", "PTX"] {
        // Compiled; then another's, from disk.
        for _ in 0..2 {
            let config = Config { cache_folder: Some(folder.path().to_path_buf()), ..Config::default() };
            let executor = Executor::open(device, &config).unwrap();
            let x = floats(&executor, &[1.0, 2.0, 3.0, 4.0]);
            executor.realize(&[(&x * 3).contiguous() + 1, x.reduce(ReduceOp::Max, &[0])]).unwrap();
            let kernels = executor.kernels.lock().unwrap();
            let plans = executor.plans.lock().unwrap();
            let launched = plans.values().flat_map(|plan| plan.kernels.iter().map(|launch| &launch.kernel));
            let texts: Vec<&str> = kernels.values().chain(launched).map(|made| &*made.program.source).collect();
            assert!(texts.len() >= 2 && texts.iter().all(|text| text.is_empty()), "{device}: {texts:?}");
        }
    }
}

#[test]
fn graphs_made_by_hand_are_refused_and_read_nothing_that_is_not_theirs() {
    let executor = cpu();
    let x = floats(&executor, &[1.0; 8]);
    let Arg::Buffer(buffer) = x.arg().clone() else { panic!("no buffer") };
    let longer = |id: u64, len: u64| {
        let node = UOp::buffer(buffer.id + id, DType::F32, len, &buffer.device);
        node.hold(Arc::new(memory_of(&x).unwrap().clone()));
        node.shrink(&[((len as i64 - 8).into(), (len as i64).into())]) + &x
    };
    let param =
        |slot, len: i64| UOp::param(slot, DType::F32, len as u64).shrink(&[((len - 8).into(), len.into())]) + &x;
    let load = |from: UOp| {
        let index = UOp::new(Op::Index, DType::F32, vec![from, UOp::index(1 << 30)], Arg::None);
        UOp::new(Op::Load, DType::F32, vec![index], Arg::None).reshape([1]).expand([8]) + &x
    };
    let range = UOp::range(1 << 30, 0, warpweft_compiler::ir::AxisKind::Loop);
    let graphs = [
        longer(1 << 40, 1 << 20),
        longer(1 << 41, 1 << 61),
        param(0, 1 << 30),
        param(7, 8),
        UOp::param(3, DType::F32, 8) + 1,
        load(UOp::param(0, DType::F32, 8)),
        load(x.clone()),
        x.gather(&range.cast(DType::I64).reshape([1]), 0),
    ];
    for (number, graph) in graphs.iter().enumerate() {
        for _ in 0..2 {
            let outcome = executor.realize(std::slice::from_ref(graph));
            assert!(outcome.is_err(), "{number}: {outcome:?}");
        }
    }
    assert_eq!(read(&executor.realize(&[&x + 1]).unwrap()[0]), [2.0; 8]);
}
