//! Running sums, products, extremes and log-sums, and what is put at positions that an index names, against plain loops over `f64`: short lines
//! and long ones, which go by blocks, along every axis, with numbers that are no numbers, and their gradients.

use warpweft::tensor::ScatterReduce;
use warpweft::{DType, Tensor, Var, compile, spec};

/// Numbers from -2 to 2 that look drawn.
fn drawn(count: usize) -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1 << 22) as f64 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// A state made of the one before and the next element, along the middle of [outer, n, inner]; what each step gives.
fn along(x: &[f64], [outer, n, inner]: [usize; 3], step: impl Fn(f64, f64) -> f64, start: f64) -> Vec<f64> {
    let mut result = vec![0.0; x.len()];
    for line in 0..outer * inner {
        let begin = line / inner * n * inner + line % inner;
        let mut state = start;
        for at in (0..n).map(|k| begin + k * inner) {
            state = step(state, x[at]);
            result[at] = state;
        }
    }
    result
}

#[track_caller]
fn near(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got == want || got.is_nan() && want.is_nan();
        assert!(
            same || (got - want).abs() <= tolerance * want.abs().max(1.0),
            "{what}: element {k}: {got}, not {want}"
        );
    }
}

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn log_sum(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY { top } else { top + ((a - top).exp() + (b - top).exp()).ln() }
}

const LAYOUTS: [[usize; 3]; 8] =
    [[1, 1, 1], [1, 33, 1], [5, 70, 1], [1, 70, 37], [3, 40, 16], [2, 257, 3], [1, 70_001, 1], [2, 65_536, 1]];

#[test]
fn running_values_are_those_of_a_loop() {
    for layout @ [outer, n, inner] in LAYOUTS {
        let data = drawn(outer * n * inner);
        let x = Tensor::from_vec(data.clone(), [outer as i64, n as i64, inner as i64]);
        let check = |what: &str, got: Tensor, want: Vec<f64>, tolerance: f64| {
            near(&format!("{what} of {layout:?}"), &got.to_vec::<f64>().unwrap(), &want, tolerance);
        };
        check("cumsum", x.cumsum(1), along(&data, layout, |sum, x| sum + x, 0.0), 1e-11);
        check("cummax", x.cummax(1), along(&data, layout, larger, f64::NEG_INFINITY), 0.0);
        check("cummin", x.cummin(1), along(&data, layout, |a, b| -larger(-a, -b), f64::INFINITY), 0.0);
        check("logcumsumexp", x.logcumsumexp(1), along(&data, layout, log_sum, f64::NEG_INFINITY), 1e-12);
        let factors: Vec<f64> = data.iter().map(|x| 1.0 + x / 100.0).collect();
        let product = Tensor::from_vec(factors.clone(), [outer as i64, n as i64, inner as i64]).cumprod(1);
        check("cumprod", product, along(&factors, layout, |product, x| product * x, 1.0), 1e-9);
    }
}

#[test]
fn sums_of_floats_are_as_exact_as_their_type() {
    for n in [5_000usize, 100_000] {
        let data: Vec<f32> = drawn(n).iter().map(|x| *x as f32 + 3.0).collect();
        let wide: Vec<f64> = data.iter().map(|x| *x as f64).collect();
        let got = Tensor::from_vec(data, [n as i64]).cumsum(0).to_vec::<f32>().unwrap();
        let want = along(&wide, [1, n, 1], |sum, x| sum + x, 0.0);
        for (got, want) in got.iter().zip(&want) {
            assert!((*got as f64 - want).abs() <= 4.0 * f32::EPSILON as f64 * want.abs(), "{got}, not {want}");
        }
    }
}

#[test]
fn numbers_that_are_none_go_on() {
    let nan = f64::NAN;
    let x = Tensor::from_vec(vec![1.0, nan, 3.0, f64::INFINITY], [4]);
    near("cummax", &x.cummax(0).to_vec::<f64>().unwrap(), &[1.0, nan, nan, nan], 0.0);
    near("cumsum", &x.cumsum(0).to_vec::<f64>().unwrap(), &[1.0, nan, nan, nan], 0.0);
    let none = f64::NEG_INFINITY;
    let far: Vec<f64> = [none; 40].iter().copied().chain([-2000.0, none, -2000.0, 5.0, 1000.0]).collect();
    let want = along(&far, [1, far.len(), 1], log_sum, none);
    let got = Tensor::from_vec(far.clone(), [far.len() as i64]).logcumsumexp(0).to_vec::<f64>().unwrap();
    near("logcumsumexp", &got, &want, 1e-12);
}

#[test]
fn log_sums_of_long_lines_are_as_exact_as_their_type() {
    let n = 8192;
    // Around 0; of any size; growing, so that each sum is relative to another number; falling, so that most powers are nothing.
    let shapes: [&dyn Fn(usize, f64) -> f64; 4] =
        [&|_, x| x, &|_, x| x * 400.0, &|k, x| k as f64 * 0.01 + x, &|k, _| 3000.0 - k as f64];
    for shape in shapes {
        let data: Vec<f32> = drawn(2 * n).iter().enumerate().map(|(k, x)| shape(k % n, *x) as f32).collect();
        let wide: Vec<f64> = data.iter().map(|x| *x as f64).collect();
        for (layout, shape) in [([2, n, 1], [2, n as i64]), ([1, 2, n], [2, n as i64])] {
            let axis = if layout[2] == 1 { 1 } else { 0 };
            let got = Tensor::from_vec(data.clone(), shape).logcumsumexp(axis).to_vec::<f32>().unwrap();
            for (got, want) in got.iter().zip(along(&wide, layout, log_sum, f64::NEG_INFINITY)) {
                assert!(
                    (*got as f64 - want).abs() <= 2.0 * f32::EPSILON as f64 * want.abs().max(0.01),
                    "{got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn a_running_log_sum_is_one_kernel_of_any_length() {
    for shape in [[256i64, 8192], [1, 40_000], [5, 1]] {
        let function = compile([spec(DType::F32, shape)], |[x]| [x.logcumsumexp(1)]).unwrap();
        assert_eq!(function.kernels(), 1, "{shape:?}");
    }
    let lines = Var::new("n", 1..=500).unwrap();
    for n in [1usize, 2, 77, 500] {
        let data = drawn(3 * n);
        let dims = (3, lines.bind(n as i64).unwrap());
        for device in ["CPU", "INTERPRETER"] {
            let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
            let x = Tensor::from_bytes(Some(device), DType::F64, dims.clone(), &bytes);
            let got = x.logcumsumexp(1).to_vec::<f64>().unwrap();
            near(device, &got, &along(&data, [3, n, 1], log_sum, f64::NEG_INFINITY), 1e-12);
        }
    }
}

#[test]
fn gradients_of_running_log_sums_are_shares_of_what_follows() {
    let n = 40;
    let weights = drawn(2 * n)[n..].to_vec();
    let mut data = drawn(n);
    // Nothing has a share of the first two, and the eighth element none of anything.
    (data[0], data[1], data[7]) = (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY);
    for far in [0.0, 900.0, -900.0] {
        let moved: Vec<f64> = data.iter().enumerate().map(|(k, x)| x + if k % 3 == 0 { far } else { 0.0 }).collect();
        let sums = along(&moved, [1, n, 1], log_sum, f64::NEG_INFINITY);
        let share = |i: usize, j: usize| if sums[j] == f64::NEG_INFINITY { 0.0 } else { (moved[i] - sums[j]).exp() };
        let want: Vec<f64> = (0..n).map(|i| (i..n).map(|j| weights[j] * share(i, j)).sum()).collect();
        let x = Tensor::from_vec(moved.clone(), [n as i64]);
        let loss = (x.logcumsumexp(0) * Tensor::from_vec(weights.clone(), [n as i64])).sum(());
        near("logcumsumexp", &loss.gradient(&[&x]).unwrap()[0].to_vec::<f64>().unwrap(), &want, 1e-11);
    }
}

#[test]
fn gradients_of_running_values_are_those_of_loops() {
    let n = 40;
    let (data, weights) = (drawn(n), drawn(2 * n)[n..].to_vec());
    let (x, w) = (Tensor::from_vec(data.clone(), [n as i64]), Tensor::from_vec(weights.clone(), [n as i64]));
    let gradient = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| -> Vec<f64> {
        (f(x) * &w).sum(()).gradient(&[x]).unwrap()[0].to_vec::<f64>().unwrap()
    };
    let later = |i: usize| weights[i..].iter().sum::<f64>();
    near("cumsum", &gradient(&|x| x.cumsum(0), &x), &(0..n).map(later).collect::<Vec<_>>(), 1e-12);
    // The product of all up to j but element i, with two zeros among them.
    let mut zeros = data.clone();
    (zeros[7], zeros[20]) = (0.0, 0.0);
    let others = |i: usize, j: usize| (0..=j).filter(|k| *k != i).map(|k| zeros[k]).product::<f64>();
    let want: Vec<f64> = (0..n).map(|i| (i..n).map(|j| weights[j] * others(i, j)).sum()).collect();
    near("cumprod", &gradient(&|x| x.cumprod(0), &Tensor::from_vec(zeros.clone(), [n as i64])), &want, 1e-9);
    // The latest of equal ones.
    let steps = Tensor::from_vec(vec![1.0, 3.0, 3.0, 2.0, 5.0], [5]);
    let by = Tensor::from_vec(vec![1.0, 10.0, 100.0, 1000.0, 1e4], [5]);
    let got = (steps.cummax(0) * by).sum(()).gradient(&[&steps]).unwrap()[0].to_vec::<f64>().unwrap();
    assert_eq!(got, [1.0, 10.0, 1100.0, 0.0, 1e4]);
}

#[test]
fn what_is_put_somewhere_is_put_in_order() {
    for (rows, inner, count) in [(5usize, 1usize, 40usize), (7, 33, 20), (1000, 1, 70_000), (3, 128, 1)] {
        let (base, source) = (drawn(rows * inner), drawn(count * inner));
        // Some positions are named often, every second one never.
        let named: Vec<i64> = (0..count as i64).map(|i| (i * 7919 + 3) % rows as i64 / 2 * 2).collect();
        let shape = |n: usize| [n as i64, inner as i64];
        let x = Tensor::from_vec(base.clone(), shape(rows));
        let s = Tensor::from_vec(source.clone(), shape(count));
        let index = Tensor::from_vec(named.clone(), [count as i64, 1]).expand([count as i64, inner as i64]);
        let put = |start: Vec<f64>, step: &dyn Fn(f64, f64) -> f64| {
            let mut result = start;
            for (at, value) in source.iter().enumerate() {
                let element = &mut result[named[at / inner] as usize * inner + at % inner];
                *element = step(*element, *value);
            }
            result
        };
        let same = |what: &str, got: Tensor, want: Vec<f64>| {
            near(what, &got.to_vec::<f64>().unwrap(), &want, 1e-11);
        };
        let combined = |reduce, own| x.scatter_reduce(0, &index, &s, reduce, own);
        same("replaced", x.scatter(0, &index, &s), put(base.clone(), &|_, new| new));
        same("added", combined(ScatterReduce::Sum, true), put(base.clone(), &|a, b| a + b));
        same("largest", combined(ScatterReduce::Amax, true), put(base.clone(), &f64::max));
        let counts = |own: f64| {
            let mut counts = vec![own; rows * inner];
            named.iter().for_each(|row| (0..inner).for_each(|k| counts[*row as usize * inner + k] += 1.0));
            counts
        };
        let sums = put(base.clone(), &|a, b| a + b);
        let means = sums.iter().zip(counts(1.0)).map(|(sum, count)| sum / count).collect();
        same("mean", combined(ScatterReduce::Mean, true), means);
        let alone = put(vec![0.0; rows * inner], &|a, b| a + b);
        let alone = alone.iter().zip(counts(0.0)).zip(&base).map(|((sum, n), x)| if n == 0.0 { *x } else { sum / n });
        same("mean of the sources", combined(ScatterReduce::Mean, false), alone.collect());
    }
}

#[test]
fn gradients_of_what_is_put_go_where_it_came_from() {
    let (x, s) = (Tensor::from_vec(vec![1.0, 2.0, 3.0], [3]), Tensor::from_vec(vec![5.0, 3.0, 7.0, 0.0], [4]));
    let index = Tensor::from_vec(vec![0i64, 2, 0, 1], [4]);
    let w = Tensor::from_vec(vec![1.0, 10.0, 100.0], [3]);
    let gradients = |y: Tensor| -> [Vec<f64>; 2] {
        let both = (y * &w).sum(()).gradient(&[&x, &s]).unwrap();
        [both[0].to_vec().unwrap(), both[1].to_vec().unwrap()]
    };
    let reduced = |reduce| x.scatter_reduce(0, &index, &s, reduce, true);
    // The last of two for one position stays.
    assert_eq!(gradients(x.scatter(0, &index, &s)), [vec![0.0; 3], vec![0.0, 100.0, 1.0, 10.0]]);
    assert_eq!(gradients(reduced(ScatterReduce::Sum)), [vec![1.0, 10.0, 100.0], vec![1.0, 100.0, 1.0, 10.0]]);
    assert_eq!(gradients(reduced(ScatterReduce::Prod)), [vec![35.0, 0.0, 300.0], vec![7.0, 300.0, 5.0, 20.0]]);
    // 3 and 3 share.
    assert_eq!(gradients(reduced(ScatterReduce::Amax)), [vec![0.0, 10.0, 50.0], vec![0.0, 50.0, 1.0, 0.0]]);
}
