//! Ops over lengths that are variables, beside the same ops over numbers; and a network with dropout that trains with batches of any length.

use warpweft::nn::{Adam, Linear, Module, Optimizer};
use warpweft::tensor::{
    Beyond, ConvOptions, Index, PadMode, PoolOptions, Resize, SampleMode, ScatterReduce, manual_seed,
};
use warpweft::{DType, Dim, Result, Tensor, Var, compile, spec};

/// Numbers that differ, between -1 and 1.
fn numbers(count: i64) -> Vec<f32> {
    (0..count).map(|k| ((k * 37 + 11) % 101) as f32 / 50.5 - 1.0).collect()
}

fn at(start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<Index> {
    vec![Index::Range { start, stop, step }, Index::Rest]
}

/// What is done to a tensor [n, 6] in which n is a variable or a number.
type Case = (&'static str, fn(&Tensor, Dim) -> Tensor);

// tidy: table
const CASES: &[Case] = &[
    ("roll", |x, _| x.roll(2, 0)),
    ("roll back", |x, _| x.roll([-1, 1], [0, 1])),
    ("diag", |x, _| x.narrow(1, 0, 1).squeeze(1).diag(0)),
    ("diag beside", |x, _| x.narrow(1, 0, 1).squeeze(1).diag(-2)),
    ("diagonal", |x, _| x.matmul(&x.t()).diagonal(0, 0, 1)),
    ("reversed", |x, _| x.get(at(None, None, -1))),
    ("stepped", |x, _| x.get(at(None, None, 2))),
    ("stepped from", |x, _| x.get(at(Some(1), None, 3))),
    ("stepped back", |x, _| x.get(at(None, None, -2))),
    ("cumsum", |x, _| x.cumsum(0)),
    ("cummax", |x, _| x.cummax(0)),
    ("diff", |x, _| x.diff(0)),
    ("sort", |x, _| x.sort(0, true).map_or_else(|_| Tensor::zeros([0]), |found| found.0)),
    ("argsort of rows", |x, _| x.argsort(1, false)),
    ("topk", |x, _| x.topk(2, 0, true).map_or_else(|_| Tensor::zeros([0]), |found| found.0)),
    ("gather", |x, n| x.gather(&(Tensor::iota(n).unsqueeze(1) % 2), 0)),
    ("index", |x, _| x.index(&[1], &[&Tensor::from_vec(vec![0i32, 5, -1], [3])])),
    ("index_select", |x, n| x.index_select(0, &(Tensor::iota(n) % 3))),
    ("scatter", |x, n| {
        x.scatter_reduce(
            0,
            &(Tensor::iota(n).unsqueeze(1) % 3).expand(x.dims().unwrap_or_default()),
            x,
            ScatterReduce::Sum,
            true,
        )
    }),
    ("scatter a part", |x, n| x.scatter(0, &(Tensor::iota(n).unsqueeze(1) % 2), &(x * 2.0))),
    ("conv", |x, _| x.unsqueeze(1).conv(&Tensor::from_vec(numbers(6), [2, 1, 3]), None, &ConvOptions::default())),
    ("max_pool", |x, _| x.unsqueeze(1).max_pool(&PoolOptions::default().kernel([1, 2]))),
    ("avg_pool", |x, _| x.unsqueeze(1).avg_pool(&PoolOptions::default().kernel([1, 3]))),
    ("interpolate", |x, _| x.unsqueeze(1).interpolate([4], Resize::Linear { align_corners: false })),
    ("nearest", |x, _| x.unsqueeze(1).interpolate([9], Resize::Nearest)),
    ("reflected", |x, _| x.pad_by(&[(1, 2), (0, 0)], PadMode::Reflect)),
    ("around", |x, _| x.pad_by(&[(2, 1), (0, 0)], PadMode::Circular)),
    ("edges", |x, _| x.pad_by(&[(3, 1), (0, 0)], PadMode::Replicate)),
    ("count_nonzero", |x, _| x.gt(0.0).count_nonzero(0)),
    ("logsumexp", |x, _| x.logsumexp(0)),
    ("searchsorted", |x, _| Tensor::from_vec(vec![-0.5f32, 0.0, 0.5], [3]).searchsorted(x, false)),
    ("searched", |x, _| sorted_column(x).searchsorted(&Tensor::from_vec(vec![-0.5f32, 0.1, 2.0], [3]), true)),
    ("median", |x, _| x.median(0).map_or_else(|_| Tensor::zeros([0]), |found| found.0)),
    ("index of the median", |x, _| x.median(0).map_or_else(|_| Tensor::zeros([0]), |found| found.1)),
    ("quantile", |x, _| x.quantile(&[0.0, 0.3, 1.0], 0)),
    ("trapezoid", |x, _| x.trapezoid(0.5, 0)),
    ("roll around", |x, _| x.roll(25, 0)),
    ("roll back around", |x, _| x.roll(-13, 0)),
    ("diagonal beside", |x, _| x.matmul(&x.t()).diagonal(2, 0, 1)),
    ("diagonal below", |x, _| x.matmul(&x.t()).diagonal(-3, 0, 1)),
    ("diagonal of many rows", |x, _| Tensor::cat(&[x, x], 0).diagonal(1, 0, 1)),
    ("cubic", |x, n| x.reshape((1, 1, n, 6)).interpolate_cubic([5, 4], false)),
    ("cubic from corners", |x, n| x.reshape((1, 1, n, 6)).interpolate_cubic([5, 4], true)),
    ("area", |x, n| x.reshape((1, 1, n, 6)).interpolate_area([3, 4])),
    ("channels from pixels", |x, n| Tensor::cat(&[x, x], 0).reshape((1, 1, n * 2, 6)).pixel_unshuffle(2)),
    ("grid", |x, n| {
        let grid = x.narrow(1, 0, 4).reshape((n.clone(), 1, 2, 2));
        x.reshape((n, 1, 2, 3)).grid_sample(&grid, SampleMode::Linear, Beyond::Zeros, false)
    }),
    ("cubic grid", |x, n| {
        let grid = x.narrow(1, 0, 4).reshape((n.clone(), 2, 1, 2));
        x.reshape((n, 1, 2, 3)).grid_sample(&grid, SampleMode::Cubic, Beyond::Border, true)
    }),
    ("affine grid", |x, n| x.reshape((n, 2, 3)).affine_grid([2, 2], false)),
    ("transform", |x, _| x.fft(None, 1).0),
    ("transform of the variable", |x, _| x.fft(None, 0).0),
    ("its imaginary part", |x, _| x.fft(Some(&x.square()), 0).1),
    ("transformed back", |x, _| x.ifft(Some(&x.square()), 0).1),
    ("half of a transform", |x, _| x.rfft(0).1),
    ("made of its half", |x, n| {
        let (re, im) = x.rfft(0);
        Tensor::irfft(&re.square(), &im, 0, n)
    }),
    ("transform of both", |x, _| {
        let (re, im) = x.rfft(1);
        re.fft(Some(&im), 0).0
    }),
    ("cdist", |x, _| x.cdist(x, 2.0)),
];

fn sorted_column(x: &Tensor) -> Tensor {
    x.narrow(1, 0, 1).squeeze(1).sort(0, false).map_or_else(|_| Tensor::zeros([0]), |found| found.0)
}

#[test]
fn ops_give_what_they_give_for_numbers() {
    let variable = Var::new("n", 4..=9).unwrap();
    for n in [4i64, 7, 9] {
        let dim: Dim = variable.bind(n).unwrap();
        let symbolic = Tensor::from_vec(numbers(n * 6), (dim.clone(), 6));
        let plain = Tensor::from_vec(numbers(n * 6), [n, 6]);
        for (name, function) in CASES {
            let (found, wanted) = (function(&symbolic, dim.clone()), function(&plain, n.into()));
            let values = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
            let found_values = values(&found).unwrap_or_else(|error| panic!("{name}: {error}"));
            let wanted_values = values(&wanted).unwrap();
            assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{name}, n = {n}");
            let far = found_values.iter().zip(&wanted_values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-5, "{name}, n = {n}: {found_values:?} is not {wanted_values:?}");
        }
    }
}

#[test]
fn gradients_are_those_for_numbers() {
    let variable = Var::new("n", 4..=9).unwrap();
    let n = 6;
    let dim: Dim = variable.bind(n).unwrap();
    for name in [
        "roll",
        "reversed",
        "stepped",
        "stepped back",
        "diag",
        "cumsum",
        "conv",
        "max_pool",
        "interpolate",
        "reflected",
        "index",
        "sort",
        "topk",
        "gather",
        "scatter",
        "median",
        "quantile",
        "trapezoid",
        "roll around",
        "diagonal beside",
        "diagonal of many rows",
        "cubic",
        "cubic from corners",
        "area",
        "channels from pixels",
        "grid",
        "its imaginary part",
        "transformed back",
        "half of a transform",
        "made of its half",
    ] {
        let (_, function) = CASES.iter().find(|case| case.0 == name).unwrap();
        let slope = |x: &Tensor, n: Dim| {
            x.realize().unwrap();
            let loss = function(x, n).square().sum(());
            loss.gradient(&[x]).unwrap().remove(0).to_vec::<f32>().unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let found = slope(&Tensor::from_vec(numbers(n * 6), (dim.clone(), 6)), dim.clone());
        let wanted = slope(&Tensor::from_vec(numbers(n * 6), [n, 6]), n.into());
        let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-4, "{name}: {found:?} is not {wanted:?}");
    }
}

/// A tensor made of [n, n + 3] numbers, one of its diagonals, and where in these numbers (of rows so long) the diagonal's k-th element lies.
type Diagonal = (&'static str, fn(&Tensor, Dim) -> Tensor, fn(usize, usize) -> usize);

// tidy: table
const DIAGONALS: &[Diagonal] = &[
    ("main one", |x, _| x.diagonal(0, 0, 1), |k, row| k * row + k),
    ("beside", |x, _| x.diagonal(2, 0, 1), |k, row| k * row + k + 2),
    ("below", |x, _| x.diagonal(-3, 0, 1), |k, row| (k + 3) * row + k),
    ("of columns", |x, _| x.t().diagonal(1, 0, 1), |k, row| (k + 1) * row + k),
    ("of a part", |x, n| x.narrow(1, 3, n).diagonal(1, 0, 1), |k, row| k * row + k + 4),
    ("reversed", |x, n| x.narrow(1, 0, n).diagonal(0, 0, 1).flip(0), |k, row| (row - 4 - k) * (row + 1)),
    ("of a batch", |x, n| x.narrow(1, 0, n).unsqueeze(0).diagonal(0, -2, -1).squeeze(0), |k, row| k * row + k),
    ("a part of one", |x, _| x.diagonal(0, 0, 1).narrow(0, 1, 3), |k, row| (k + 1) * (row + 1)),
];

#[test]
fn diagonals_of_any_length_are_written_through() {
    let variable = Var::new("n", 5..=9).unwrap();
    for n in [5i64, 8, 9] {
        let dim: Dim = variable.bind(n).unwrap();
        for (name, diagonal, index) in DIAGONALS {
            let row = n as usize + 3;
            let mut wanted = numbers(n * (n + 3));
            let x = Tensor::from_vec(wanted.clone(), (dim.clone(), &dim + 3));
            let part = diagonal(&x, dim.clone());
            let count = part.numel().unwrap();
            assert!(part.shares_storage_with(&x), "{name}: a copy");
            let shown: Vec<f32> = (0..count).map(|k| wanted[index(k, row)]).collect();
            assert_eq!(part.to_vec::<f32>().unwrap(), shown, "{name}, n = {n}");
            let slope = part.square().sum(()).gradient(&[&x]).unwrap().remove(0).to_vec::<f32>().unwrap();
            let mut steepest = vec![0.0; wanted.len()];
            (0..count).for_each(|k| steepest[index(k, row)] = 2.0 * wanted[index(k, row)]);
            assert_eq!(slope, steepest, "{name}, n = {n}");
            part.assign(&part * 2.0 + 1.0).unwrap();
            (0..count).for_each(|k| wanted[index(k, row)] = wanted[index(k, row)] * 2.0 + 1.0);
            assert_eq!(x.to_vec::<f32>().unwrap(), wanted, "{name}, n = {n}");
        }
    }
}

#[test]
fn random_numbers_of_any_count_are_the_first_of_the_most() {
    let variable = Var::new("n", 1..=50).unwrap();
    let mut rows = Vec::new();
    for n in [50, 20] {
        manual_seed(5);
        let x = Tensor::rand((variable.bind(n).unwrap(), 3));
        assert_eq!(x.shape().unwrap(), [n as usize, 3]);
        rows.push(x.to_vec::<f32>().unwrap());
    }
    assert_eq!(rows[0][..60], rows[1][..]);
    assert!(rows[1].iter().all(|value| (0.0..1.0).contains(value)));
    let normal = Tensor::randn((variable.bind(40).unwrap(), 50)).to_vec::<f32>().unwrap();
    let mean = normal.iter().sum::<f32>() / normal.len() as f32;
    assert!(normal.len() == 2000 && mean.abs() < 0.1, "{mean}");
}

#[test]
fn a_network_with_dropout_trains_with_batches_of_any_length() {
    manual_seed(1);
    let batch = Var::new("batch", 1..=16).unwrap();
    let (first, last) = (Linear::new(4, 16, true).unwrap(), Linear::new(16, 1, true).unwrap());
    let parameters = [first.parameters(), last.parameters()].concat();
    let mut optimizer = Adam::new(parameters, 0.02).unwrap();
    let specs = [spec(DType::F32, (&batch, 4)), spec(DType::F32, (&batch, 1))];
    let step = compile(specs, |[x, y]| -> Result<[Tensor; 1]> {
        let hidden = first.forward(&x).relu().dropout(0.1);
        let loss = (last.forward(&hidden) - y).square().mean(());
        optimizer.step(&loss)?;
        Ok([loss])
    });
    let step = step.unwrap();
    let mut losses = Vec::new();
    for number in 0..60 {
        let n = [16i64, 3, 9, 1][number % 4];
        let x = Tensor::from_vec(numbers(n * 4 + number as i64)[number..].to_vec(), [n, 4]);
        let y = x.sum_keepdim(1);
        losses.push(step.call([&x, &y]).unwrap()[0].item::<f32>().unwrap());
    }
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    assert!(mean(&losses[48..]) < 0.3 * mean(&losses[..12]), "{losses:?}");
}
