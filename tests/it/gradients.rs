//! Gradients of whole programs against plain loops and closed forms, their conventions at ties and edges, and optimizers that use them.
//!
//! The gradient of each op is judged by PyTorch's in `corpora`; nothing here differentiates the library's own values.

use warpweft::nn::{Adam, BatchNorm, Linear, Module, Optimizer, Sgd};
use warpweft::{DType, Tensor, compile, spec};

/// Distinct numbers of mixed signs, none near a tie.
fn numbers(shape: &[i64], seed: usize) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    let value = |k: usize| (((k + 1) * 7919 + seed * 104729) % 1009) as f64 / 250.0 - 2.0;
    Tensor::from_vec((0..count).map(value).collect(), shape.to_vec())
}

/// The gradient of a function by central differences; its truncation error is about `step` squared times the third derivative.
fn differences(function: &dyn Fn(&[f64]) -> f64, at: &[f64]) -> Vec<f64> {
    let step = 1e-4;
    let moved = |k: usize, by: f64| {
        let mut point = at.to_vec();
        point[k] += by;
        function(&point)
    };
    // The four-point formula: an error of the fourth order in the step.
    let slope =
        |k| (8.0 * (moved(k, step) - moved(k, -step)) - (moved(k, 2.0 * step) - moved(k, -2.0 * step))) / (12.0 * step);
    (0..at.len()).map(slope).collect()
}

#[track_caller]
fn near(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "element {k}: {got}, not {want}");
    }
}

/// A row normalised, through a matrix, tanh, a softmax, and weighted: three rows of four numbers, by loops.
fn network_in_loops(x: &[f64], matrix: &[f64], weights: &[f64]) -> f64 {
    let rows = x.chunks(4).enumerate().map(|(r, row)| {
        let mean = row.iter().sum::<f64>() / 4.0;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0;
        let normal: Vec<f64> = row.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()).collect();
        let hidden = (0..5).map(|k| (0..4).map(|j| normal[j] * matrix[j * 5 + k]).sum::<f64>().tanh());
        let shares: Vec<f64> = hidden.map(f64::exp).collect();
        let total: f64 = shares.iter().sum();
        (0..5).map(|k| shares[k] / total * weights[r * 5 + k]).sum::<f64>()
    });
    rows.sum()
}

#[test]
fn a_network_has_the_gradient_that_loops_have() {
    let (x, matrix, weights) = (numbers(&[3, 4], 1), numbers(&[4, 5], 2), numbers(&[3, 5], 3));
    let output = (x.layer_norm(&[4], None, None, 1e-5).matmul(&matrix).tanh().softmax(1) * &weights).sum(());
    let gradients = output.gradient(&[&x, &matrix]).unwrap();
    let [x, matrix, weights] = [x, matrix, weights].map(|tensor| tensor.to_vec::<f64>().unwrap());
    assert!((output.item::<f64>().unwrap() - network_in_loops(&x, &matrix, &weights)).abs() < 1e-12);
    let by_x = differences(&|x| network_in_loops(x, &matrix, &weights), &x);
    near(&gradients[0].to_vec::<f64>().unwrap(), &by_x, 1e-9);
    let by_matrix = differences(&|matrix| network_in_loops(&x, matrix, &weights), &matrix);
    near(&gradients[1].to_vec::<f64>().unwrap(), &by_matrix, 1e-9);
}

#[test]
fn derivatives_can_be_taken_again() {
    let x = numbers(&[3], 1);
    let first = (x.tanh() * x.exp()).sum(()).gradient(&[&x]).unwrap().remove(0);
    let second = first.sum(()).gradient(&[&x]).unwrap().remove(0);
    let third = second.sum(()).gradient(&[&x]).unwrap().remove(0);
    let points = x.to_vec::<f64>().unwrap();
    // With t = tanh x and s = 1 - t^2: s' = -2 t s, and each derivative of (a) exp(x) is (a + a') exp(x).
    let closed = |f: fn(f64, f64) -> f64| -> Vec<f64> {
        points.iter().map(|x| f(x.tanh(), 1.0 - x.tanh().powi(2)) * x.exp()).collect()
    };
    near(&first.to_vec::<f64>().unwrap(), &closed(|t, s| t + s), 1e-12);
    near(&second.to_vec::<f64>().unwrap(), &closed(|t, s| t + 2.0 * s - 2.0 * t * s), 1e-12);
    let third_closed = closed(|t, s| t + 3.0 * s - 6.0 * t * s - 2.0 * s * s + 4.0 * t * t * s);
    near(&third.to_vec::<f64>().unwrap(), &third_closed, 1e-12);
}

#[test]
fn conventions_at_ties_and_edges() {
    let gradient = |x: &Tensor, y: Tensor| y.sum(()).gradient(&[x]).unwrap()[0].to_vec::<f32>().unwrap();
    let x = Tensor::from_vec(vec![2f32, 2.0, 1.0], [3]);
    assert_eq!(gradient(&x, x.max(0)), [1.0, 0.0, 0.0]);
    assert_eq!(gradient(&x, x.max(())), [0.5, 0.5, 0.0]);
    assert_eq!(gradient(&x, x.maximum(2.0)), [0.5, 0.5, 0.0]);
    let zeros = Tensor::from_vec(vec![0f32, 0.0, 3.0], [3]);
    assert_eq!(gradient(&zeros, zeros.prod(0)), [0.0, 0.0, 0.0]);
    assert_eq!(gradient(&zeros.get(1..3), zeros.get(1..3).prod(0)), [3.0, 0.0]);
    assert_eq!(gradient(&zeros, zeros.abs()), [0.0, 0.0, 1.0]);
    assert_eq!(gradient(&zeros, zeros.relu()), [0.0, 0.0, 1.0]);
    assert_eq!(gradient(&zeros, zeros.sqrt())[0], f32::INFINITY);
    assert_eq!(gradient(&zeros, zeros.pow(&Tensor::from_vec(vec![0f32, 1.0, 2.0], [3]))), [0.0, 1.0, 6.0]);
    assert_eq!(gradient(&zeros, zeros.round() + zeros.detach() * 2.0), [0.0, 0.0, 0.0]);
}

#[test]
fn what_was_read_can_be_differentiated_and_what_was_realized_is_a_leaf() {
    let x = numbers(&[3], 1);
    let squares = x.square();
    let loss = squares.sum(());
    loss.item::<f64>().unwrap();
    squares.to_vec::<f64>().unwrap();
    assert!(loss.gradient(&[&x]).is_ok());
    squares.realize().unwrap();
    let later = squares.exp().sum(());
    assert!(later.gradient(&[&squares]).is_ok());
    assert!(later.gradient(&[&x]).unwrap_err().to_string().contains("realised in between"));
}

#[test]
fn a_long_chain_is_differentiated_in_linear_time() {
    let x = numbers(&[2], 1);
    let mut y = x.clone();
    for step in 0..20_000 {
        y = if step % 2 == 0 { y * 1.0001 } else { y + 0.5 };
    }
    let gradient = y.sum(()).gradient(&[&x]).unwrap();
    assert_eq!(gradient[0].shape().unwrap(), [2]);
}

/// Fits y = 3 x - 1.
fn fits(optimizer: impl FnOnce(Vec<Tensor>) -> Box<dyn Optimizer>) {
    let layer = Linear::new(1, 1, true).unwrap();
    let mut optimizer = optimizer(layer.parameters());
    let x = Tensor::from_vec((0..16).map(|k| k as f32 / 8.0 - 1.0).collect(), [16, 1]);
    let y = &x * 3.0 - 1.0;
    let mut last = f32::INFINITY;
    for _ in 0..120 {
        let loss = (layer.forward(&x) - &y).square().mean(());
        optimizer.step(&loss).unwrap();
        last = loss.item::<f32>().unwrap();
    }
    assert!(last < 1e-3, "loss {last}");
    assert!((layer.weight.item::<f32>().unwrap() - 3.0).abs() < 0.1);
}

#[test]
fn optimizers_learn() {
    fits(|parameters| Box::new(Sgd::new(parameters, 0.1, 0.5, 0.0).unwrap()));
    fits(|parameters| Box::new(Adam::new(parameters, 0.15).unwrap()));
    assert!(Sgd::new(Vec::new(), -0.1, 0.0, 0.0).unwrap_err().to_string().contains("learning rate -0.1"));
    assert!(Adam::with(Vec::new(), 0.1, (1.0, 0.9), 1e-8, 0.0).is_err());
}

#[test]
fn running_statistics_follow_the_batches() {
    let norm = BatchNorm::new(2).unwrap();
    let x = numbers(&[8, 2, 3], 1).cast(DType::F32);
    let y = norm.forward_training(&x).unwrap();
    assert!(y.mean(()).item::<f32>().unwrap().abs() < 1e-5);
    let mean = x.mean([0, 2]).to_vec::<f32>().unwrap();
    let running = norm.mean.to_vec::<f32>().unwrap();
    assert_eq!((running.len(), mean.len()), (2, 2));
    for (running, mean) in running.iter().zip(mean) {
        assert!((running - 0.1 * mean).abs() < 1e-6);
    }
    assert!(norm.variance.realize().is_ok() && norm.forward(&x).shape().is_ok());
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).to_vec::<f64>().unwrap()
}

#[test]
fn constants_are_parameters_each_by_itself() {
    let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]);
    let made = [
        Tensor::zeros([3]),
        Tensor::zeros([3]),
        Tensor::ones([3]),
        Tensor::full([3], 2.0),
        Tensor::full([3], 2.0),
        x.zeros_like(),
        Tensor::linspace(0.0, 1.0, 3),
        Tensor::scalar(4f32),
        Tensor::zeros([3]) + 1.0,
    ];
    // The k-th counts k + 1 times, so that one taken for another shows.
    let mut loss = Tensor::zeros([0i64; 0]);
    for (k, constant) in made.iter().enumerate() {
        loss = loss + (&x * constant * (k as f32 + 1.0)).sum(());
    }
    let found = loss.gradient(&made.iter().collect::<Vec<_>>()).unwrap();
    for (k, found) in found.iter().enumerate() {
        let each = [1.0, 2.0, 3.0].map(|x| x * (k as f64 + 1.0));
        let want = if k == 7 { vec![each.iter().sum()] } else { each.to_vec() };
        assert_eq!(floats(found), want, "{k}");
    }
    // An empty one, a matrix for columns, in half precision, and one that nobody uses.
    let (none, bias, half) = (Tensor::zeros([0, 2]), Tensor::zeros([1, 2]), Tensor::ones_of([2], DType::F16));
    let loss = (Tensor::ones([4, 2]) + &bias).sum(()) + (half.cast(DType::F32) * 3.0).sum(()) + none.sum(());
    let found = loss.gradient(&[&none, &bias, &half, &Tensor::zeros([2])]).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(floats).collect();
    assert_eq!(found, [vec![], vec![4.0, 4.0], vec![3.0, 3.0], vec![0.0, 0.0]]);
}

#[test]
fn a_constant_in_memory_is_the_parameter_that_it_was() {
    let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]);
    let (first, second) = (Tensor::zeros([3]), Tensor::zeros([3]));
    let computed = &x * 2.0;
    let loss = (&x * &first + &first + &second * 5.0 + &computed).sum(());
    Tensor::realize_all(&[&first, &second, &computed]).unwrap();
    let found = loss.gradient(&[&first, &second, &computed, &x]).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(floats).collect();
    assert_eq!(found, [vec![2.0, 3.0, 4.0], vec![5.0; 3], vec![1.0; 3], vec![2.0; 3]]);
    // Each has memory of its own.
    first.add_assign(1.0).unwrap();
    assert_eq!((floats(&first), floats(&second)), (vec![1.0; 3], vec![0.0; 3]));
    assert_eq!(loss.item::<f32>().unwrap(), 12.0);
}

#[test]
fn an_optimizer_takes_constants_before_and_after_their_use() {
    let (x, y) =
        (Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [4, 1]), Tensor::from_vec(vec![3f32, 5.0, 7.0, 9.0], [4, 1]));
    let (weight, bias) = (Tensor::zeros([1, 1]), Tensor::zeros([1]));
    let loss = || (x.linear(&weight, Some(&bias)) - &y).square().mean(());
    let before = loss();
    let mut optimizer = Sgd::new(vec![weight.clone(), bias.clone()], 0.1, 0.0, 0.0).unwrap();
    optimizer.step(&before).unwrap();
    // By hand: twice the mean of x y, and of y, times the rate.
    near(&floats(&weight), &[3.5], 1e-6);
    near(&floats(&bias), &[1.2], 1e-6);
    for _ in 0..300 {
        optimizer.step(&loss()).unwrap();
    }
    near(&floats(&weight), &[2.0], 1e-2);
    near(&floats(&bias), &[1.0], 1e-2);
}

#[test]
fn functions_read_and_assign_constants_of_the_outside() {
    let (weight, count) = (Tensor::zeros([2]), Tensor::zeros([1]));
    let step = compile([spec(DType::F32, [2])], |[x]| {
        let inside = Tensor::zeros([2]);
        let loss = ((&x * &weight + &inside * 3.0) - 1.0).square().sum(());
        let gradients = loss.gradient(&[&weight, &inside])?;
        weight.assign((&weight - &gradients[0] * 0.25).detach())?;
        count.add_assign(1.0)?;
        Ok([loss, gradients[1].clone()])
    })
    .unwrap();
    let x = Tensor::ones([2]);
    let [loss, inside] = step.call([&x]).unwrap();
    assert_eq!((floats(&loss), floats(&inside), floats(&weight)), (vec![2.0], vec![-6.0; 2], vec![0.5; 2]));
    let [loss, _] = step.call([&x]).unwrap();
    assert_eq!((floats(&loss), floats(&count)), (vec![0.5], vec![2.0]));
}

#[test]
fn exponents_that_are_constants_can_be_differentiated_by() {
    let x = Tensor::from_vec(vec![1f32, 2.0, 4.0], [3]);
    for exponent in [0.0, 0.5, 2.0, -1.0, 1.7] {
        let power = Tensor::scalar(exponent as f32);
        let value = x.pow(&power);
        let plain = x.pow(exponent);
        assert_eq!(floats(&value), floats(&plain));
        let found = value.sum(()).gradient(&[&x, &power]).unwrap();
        assert_eq!(floats(&found[0]), floats(&plain.sum(()).gradient(&[&x]).unwrap()[0]));
        let want: f64 = [1.0f64, 2.0, 4.0].iter().map(|x| x.powf(exponent) * x.ln()).sum();
        near(&floats(&found[1]), &[want], 1e-5);
    }
}

#[test]
fn distinct_operands_have_gradients_of_their_own() {
    let x = numbers(&[4], 1);
    // Of what is computed on the way, too: one of both depends on the other.
    let product = &x * 2.0;
    let (a, b) = (product.distinct(), (&product.distinct() + 1.0).distinct());
    let output = (&a * &b * &b).sum(());
    let found = output.gradient(&[&a, &b, &x]).unwrap();
    let [by_a, by_b, by_x] = [0, 1, 2].map(|k: usize| found[k].to_vec::<f64>().unwrap());
    for (k, x) in x.to_vec::<f64>().unwrap().into_iter().enumerate() {
        let (a, b) = (2.0 * x, 2.0 * x + 1.0);
        near(&[by_a[k], by_b[k], by_x[k]], &[b * b, 2.0 * a * b, 2.0 * b * b + 4.0 * a * b], 1e-12);
    }
}
