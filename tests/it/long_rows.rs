//! Reductions that need two passes over rows too long for the nearest cache, which blocks make one: against the same in `f64`, for rows and columns,
//! lengths that divide into blocks and that do not, and what is infinite; and their gradients in closed form.

use warpweft::tensor::{ClassOptions, Literal};
use warpweft::{Dim, Result, Tensor, Var, compile, spec};
use warpweft_compiler::DType;

/// Numbers within -3 and 3 that look drawn.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 6.0
    };
    (0..count).map(|_| next()).collect()
}

#[track_caller]
fn near(what: &str, found: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (index, (found, want)) in found.iter().zip(want).enumerate() {
        let (found, scale) = (*found as f64, want.abs().max(1e-30));
        let same = found == *want || found.is_nan() && want.is_nan();
        assert!(same || (found - want).abs() <= tolerance * scale, "{what}, {index}: {found}, not {want}");
    }
}

/// The rows along an axis of [rows, columns].
fn lines(data: &[f32], columns: usize, axis: i64) -> Vec<Vec<f64>> {
    let row = |row: &[f32]| row.iter().map(|x| *x as f64).collect::<Vec<f64>>();
    match axis {
        1 => data.chunks(columns).map(row).collect(),
        _ => {
            (0..columns).map(|column| data.iter().skip(column).step_by(columns).map(|x| *x as f64).collect()).collect()
        }
    }
}

fn log_sum_exp(line: &[f64]) -> f64 {
    let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most.is_infinite() { most } else { line.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most }
}

#[test]
fn exponentials_of_long_rows() -> Result<()> {
    for (rows, columns, axis) in [(3, 16_385, 1), (2, 50_257, 1), (20_000, 3, 0), (16_640, 40, 0)] {
        let data = drawn(rows * columns, 7);
        let x = Tensor::from_vec(data.clone(), [rows as i64, columns as i64]);
        let lines = lines(&data, columns, axis);
        let logs: Vec<f64> = lines.iter().map(|line| log_sum_exp(line)).collect();
        near("logsumexp", &x.logsumexp(axis).to_vec::<f32>()?, &logs, 1e-6);
        let line = axis == 1;
        let of = |index: usize| logs[if line { index / columns } else { index % columns }];
        let shares: Vec<f64> = data.iter().enumerate().map(|(index, x)| (*x as f64 - of(index)).exp()).collect();
        near("softmax", &x.softmax(axis).to_vec::<f32>()?, &shares, 3e-6);
        let scores: Vec<f64> = data.iter().enumerate().map(|(index, x)| *x as f64 - of(index)).collect();
        near("log_softmax", &x.log_softmax(axis).to_vec::<f32>()?, &scores, 1e-6);
        let [gradient] = &x.logsumexp(axis).sum(()).gradient(&[&x])?[..] else { panic!("one gradient") };
        near("gradient", &gradient.to_vec::<f32>()?, &shares, 3e-6);
    }
    Ok(())
}

#[test]
fn what_is_infinite_in_long_rows() -> Result<()> {
    const COLUMNS: usize = 20_001;
    let mut data = drawn(5 * COLUMNS, 3);
    let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
    data[..COLUMNS].fill(low);
    data[COLUMNS + 5] = high;
    data[2 * COLUMNS..2 * COLUMNS + 9_000].fill(low);
    data[3 * COLUMNS + 20_000] = f32::NAN;
    let x = Tensor::from_vec(data.clone(), [5, COLUMNS as i64]);
    let want: Vec<f64> =
        (0..5).map(|row| if row == 3 { f64::NAN } else { log_sum_exp(&lines(&data, COLUMNS, 1)[row]) }).collect();
    near("logsumexp", &x.logsumexp(1).to_vec::<f32>()?, &want, 1e-6);
    let shares = x.softmax(1).to_vec::<f32>()?;
    let row = |row: usize| &shares[row * COLUMNS..(row + 1) * COLUMNS];
    assert!([0, 3].iter().all(|&k| row(k).iter().all(|share| share.is_nan())));
    assert!(row(1)[5].is_nan());
    assert!(row(2)[..9_000].iter().all(|share| *share == 0.0));
    assert!((row(2).iter().map(|share| *share as f64).sum::<f64>() - 1.0).abs() < 1e-5);
    Ok(())
}

#[test]
fn cross_entropy_over_many_classes() -> Result<()> {
    const CLASSES: usize = 30_000;
    let data = drawn(4 * CLASSES, 11);
    let classes = [0i32, 29_999, 1_024, 7];
    let logits = Tensor::from_vec(data.clone(), [4, CLASSES as i64]);
    let loss = logits.cross_entropy(&Tensor::from_vec(classes.to_vec(), [4]), &ClassOptions::default());
    let rows = lines(&data, CLASSES, 1);
    let losses = rows.iter().zip(classes).map(|(row, class)| log_sum_exp(row) - row[class as usize]);
    near("loss", &[loss.item::<f32>()?], &[losses.sum::<f64>() / 4.0], 1e-6);
    let [gradient] = &loss.gradient(&[&logits])?[..] else { panic!("one gradient") };
    let want: Vec<f64> = (rows.iter().zip(classes))
        .flat_map(|(row, class)| {
            let log = log_sum_exp(row);
            let one = move |index: usize| if index == class as usize { 1.0 } else { 0.0 };
            row.iter().enumerate().map(move |(index, x)| ((x - log).exp() - one(index)) / 4.0).collect::<Vec<f64>>()
        })
        .collect();
    near("gradient", &gradient.to_vec::<f32>()?, &want, 1e-5);
    Ok(())
}

fn variance(line: &[f64]) -> f64 {
    let mean = line.iter().sum::<f64>() / line.len() as f64;
    line.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (line.len() - 1) as f64
}

#[test]
fn variances_of_long_rows_keep_their_digits_beside_a_large_mean() -> Result<()> {
    for (rows, columns, axis) in [(2, 4_097, 1), (3, 50_257, 1), (4_160, 37, 0), (5_003, 2, 0)] {
        for mean in [0.0, 1000.0, 100_000.0] {
            let data: Vec<f32> = drawn(rows * columns, 5).iter().map(|x| x + mean).collect();
            let x = Tensor::from_vec(data.clone(), [rows as i64, columns as i64]);
            let want: Vec<f64> = lines(&data, columns, axis).iter().map(|line| variance(line)).collect();
            near("var", &x.var(axis, 1, false).to_vec::<f32>()?, &want, 2e-6);
        }
        let equal = Tensor::full([rows as i64, columns as i64], Literal::from(0.1f32));
        assert!(equal.var(axis, 1, false).to_vec::<f32>()?.iter().all(|x| *x == 0.0));
    }
    Ok(())
}

#[test]
fn variance_of_everything_and_its_gradient() -> Result<()> {
    let shape = [3i64, 70, 50, 30];
    let data = drawn(shape.iter().product::<i64>() as usize, 9);
    let x = Tensor::from_vec(data.clone(), shape);
    let all: Vec<f64> = data.iter().map(|x| *x as f64).collect();
    near("all", &[x.var((), 1, false).item::<f32>()?], &[variance(&all)], 2e-6);
    let by_channel: Vec<f64> = (0..70)
        .map(|channel| {
            let of = |batch: usize| &all[(batch * 70 + channel) * 1500..(batch * 70 + channel + 1) * 1500];
            variance(&[of(0), of(1), of(2)].concat())
        })
        .collect();
    near("by channel", &x.var([0, 2, 3], 1, false).to_vec::<f32>()?, &by_channel, 2e-6);
    let [gradient] = &x.var((), 1, false).gradient(&[&x])?[..] else { panic!("one gradient") };
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let want: Vec<f64> = all.iter().map(|x| 2.0 * (x - mean) / (all.len() - 1) as f64).collect();
    let largest = want.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (found, want) in gradient.to_vec::<f32>()?.iter().zip(&want) {
        assert!((*found as f64 - want).abs() < 1e-5 * largest, "{found}, not {want}");
    }
    Ok(())
}

#[test]
fn statistics_of_long_rows_are_one_kernel() -> Result<()> {
    let kernels = |f: fn(&Tensor) -> Tensor| -> Result<usize> {
        let function = compile([spec(DType::F32, [128, 32_768])], |[x]| [f(&x)])?;
        Ok(function.kernels())
    };
    assert_eq!(kernels(|x| x.logsumexp(1))?, 1);
    assert_eq!(kernels(|x| x.var(1, 1, false))?, 1);
    assert_eq!(kernels(|x| x.argmax(Some(1), false))?, 1);
    assert_eq!(kernels(|x| x.softmax(1))?, 1);
    Ok(())
}

#[test]
fn statistics_of_rows_of_any_length_are_one_kernel() -> Result<()> {
    let n = Var::new("n", 1..=40_000).unwrap();
    type Statistic = fn(&Tensor) -> Tensor;
    let functions: [(&str, Statistic); 3] =
        [("logsumexp", |x| x.logsumexp(1)), ("var", |x| x.var(1, 1, false)), ("softmax", |x| x.softmax(1))];
    for (name, function) in functions {
        let compiled = compile([spec(DType::F32, (128, &n))], |[x]| [function(&x)])?;
        assert_eq!(compiled.kernels(), 1, "{name}");
        for len in [2usize, 1023, 1024, 1025, 20_000] {
            let data = drawn(3 * len, 7);
            let of = |len: Dim| Tensor::from_vec(data.clone(), (3, len));
            let (found, want) = (function(&of(n.bind(len as i64).unwrap())), function(&of(len.into())));
            let want: Vec<f64> = want.to_vec::<f32>()?.iter().map(|x| *x as f64).collect();
            near(name, &found.to_vec::<f32>()?, &want, 4e-6);
        }
    }
    Ok(())
}

#[test]
fn attention_over_many_keys_is_one_kernel() -> Result<()> {
    let shape = [8i64, 4096, 64];
    let inputs = [(); 3].map(|()| spec(DType::F32, shape));
    let attention = compile(inputs, |[q, k, v]| [q.attention(&k, &v, &Default::default())])?;
    assert_eq!(attention.kernels(), 1);
    Ok(())
}
