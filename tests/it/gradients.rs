//! Gradients against differences of values in `f64`, their conventions at ties and edges, and optimizers that use them.

use warpweft::nn::{Adam, BatchNorm, Linear, Module, Optimizer, Sgd};
use warpweft::tensor::{ConvOptions, PoolOptions, ScatterReduce};
use warpweft::{DType, Tensor};

/// Distinct numbers of mixed signs, none near a tie.
fn numbers(shape: &[i64], seed: usize) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    let value = |k: usize| (((k + 1) * 7919 + seed * 104729) % 1009) as f64 / 250.0 - 2.0;
    Tensor::from_vec((0..count).map(value).collect(), shape.to_vec())
}

/// The gradient of a weighted sum of the outputs against central differences, for each input element.
#[track_caller]
fn check(name: &str, inputs: &[Tensor], build: impl Fn(&[Tensor]) -> Tensor) {
    let weighted = |inputs: &[Tensor]| -> Tensor {
        let output = build(inputs);
        let shape: Vec<i64> = output.shape().unwrap().iter().map(|&len| len as i64).collect();
        (output * numbers(&shape, 5)).sum(())
    };
    let gradients = weighted(inputs).gradient(&inputs.iter().collect::<Vec<_>>()).unwrap();
    let step = 1e-5;
    for (k, gradient) in gradients.iter().enumerate() {
        let base = inputs[k].to_vec::<f64>().unwrap();
        let shape = inputs[k].dims().unwrap();
        for (at, got) in gradient.to_vec::<f64>().unwrap().into_iter().enumerate() {
            let moved = |by: f64| {
                let mut data = base.clone();
                data[at] += by;
                let mut inputs = inputs.to_vec();
                inputs[k] = Tensor::from_vec(data, shape.clone());
                weighted(&inputs).item::<f64>().unwrap()
            };
            let want = (moved(step) - moved(-step)) / (2.0 * step);
            assert!(
                (got - want).abs() <= 1e-6 * want.abs().max(1.0),
                "{name}: input {k}, element {at}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn functions() {
    let x = numbers(&[2, 3], 1);
    check("exp log", &[x.clone()], |x| (x[0].exp() + 1.0).log());
    check("trigonometry", &[x.clone()], |x| x[0].sin() * x[0].cos() + (x[0].clone() * 0.3).tan());
    check("inverse", &[x.clone()], |x| (&x[0] * 0.4).asin() + (&x[0] * 0.4).acos() * 2.0 + x[0].atan());
    check("hyperbolic", &[x.clone()], |x| x[0].sinh() + x[0].cosh() * 2.0 + x[0].tanh());
    check("inverse hyperbolic", &[x.clone()], |x| x[0].asinh() + (x[0].abs() + 1.5).acosh() + (&x[0] * 0.3).atanh());
    check("erf", &[x.clone()], |x| x[0].erf() + x[0].gelu() + x[0].gelu_tanh());
    check("activations", &[x.clone()], |x| x[0].silu() + x[0].mish() + x[0].softplus() + x[0].selu() + x[0].softsign());
    check("pieces", &[x.clone()], |x| {
        x[0].relu() + x[0].hardswish() + x[0].elu(0.7) + x[0].celu(0.7) + x[0].leaky_relu(0.1)
    });
    check("logs", &[x.clone()], |x| {
        x[0].abs().log1p() + x[0].expm1() + x[0].square().sqrt() + (x[0].abs() + 0.1).log10()
    });
    let y = numbers(&[3], 2);
    check("pow", &[x.abs() + 0.1, y.clone()], |x| x[0].pow(&x[1]));
    check("division", &[x.clone(), y.clone()], |x| &x[0] / &x[1] + x[0].fmod(&x[1]) + x[0].atan2(&x[1]));
    check("choice", &[x, y], |x| x[0].maximum(&x[1]) * x[0].minimum(&x[1]) + x[0].gt(&x[1]).where_(&x[0], x[1].exp()));
}

#[test]
fn reductions_and_movement() {
    let x = numbers(&[2, 3, 4], 3);
    check("sums", &[x.clone()], |x| x[0].sum([0, 2]) + x[0].mean([0, 2]) + x[0].var([0, 2], 1, false).sqrt());
    check("products", &[x.clone()], |x| x[0].prod(1) + x[0].max(1) * x[0].min(1));
    check("softmax", &[x.clone()], |x| x[0].softmax(1) + x[0].log_softmax(-1) + x[0].logsumexp_keepdim(2));
    check("scans", &[x.clone()], |x| x[0].cumsum(1) + x[0].cumprod(2) + x[0].logcumsumexp(0));
    check("movement", &[x.clone()], |x| {
        x[0].permute([2, 0, 1]).flip([0]).reshape([4, 6]).get((1..3, ..)).pad(&[(1, 0), (0, 2)])
    });
    check("windows", &[x.clone()], |x| x[0].unfold(2, 3, 1).sum(0) * 2.0);
    check("diagonal", &[x.clone()], |x| x[0].diagonal(1, 1, 2).roll([1], [0]));
    check("sort", &[x.clone()], |x| x[0].sort(1, true).unwrap().0);
    let index = Tensor::from_vec(vec![2i64, 0, 2, 1, 1, 0], [2, 3]);
    let (picked, places) = (index.clone(), index.clone());
    check("gather", &[numbers(&[2, 3], 4)], move |x| x[0].gather(&index, 1) + x[0].index(&[1], &[&picked]).sum(1));
    check("scatter", &[numbers(&[2, 3], 4), numbers(&[2, 3], 6)], move |x| {
        x[0].scatter(1, &places, &x[1]) + x[0].scatter_reduce(1, &places, &x[1], ScatterReduce::Sum, true)
    });
    check("einsum", &[numbers(&[2, 3], 1), numbers(&[3, 4], 2)], |x| Tensor::einsum("ij,jk->ki", &[&x[0], &x[1]]));
    check("setitem", &[x, numbers(&[3, 2], 7)], |x| x[0].with((0, .., 1..3), &x[1]));
}

#[test]
fn convolution_and_pooling() {
    let (image, weight, bias) = (numbers(&[2, 4, 6, 5], 1), numbers(&[4, 2, 3, 2], 2), numbers(&[4], 3));
    for (stride, padding, dilation) in [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 0, 1)] {
        let options = ConvOptions {
            stride: vec![stride],
            padding: vec![padding],
            dilation: vec![dilation],
            groups: 2,
            ..ConvOptions::default()
        };
        check("conv", &[image.clone(), weight.clone(), bias.clone()], |x| x[0].conv(&x[1], Some(&x[2]), &options));
    }
    let options = ConvOptions { stride: vec![2], padding: vec![1], output_padding: vec![1], ..ConvOptions::default() };
    check("conv_transpose", &[numbers(&[1, 2, 3, 3], 4), numbers(&[2, 3, 3, 3], 5)], |x| {
        x[0].conv_transpose(&x[1], None, &options)
    });
    let overlapping = PoolOptions { kernel: vec![3], stride: vec![2], padding: vec![1], ..PoolOptions::default() };
    check("max_pool", &[image.clone()], |x| x[0].max_pool(&overlapping));
    check("avg_pool", &[image.clone()], |x| {
        x[0].avg_pool(&PoolOptions { count_include_pad: false, ..overlapping.clone() })
    });
    check("norms", &[image, bias], |x| {
        x[0].group_norm(2, Some(&x[1]), None, 1e-5) + x[0].layer_norm(&[5], None, None, 1e-5)
    });
}

#[test]
fn derivatives_can_be_taken_again() {
    let x = numbers(&[3], 1);
    check("second", &[x], |x| (x[0].tanh() * x[0].exp()).sum(()).gradient(&[&x[0]]).unwrap().remove(0));
}

#[test]
fn conventions_at_ties_and_edges() {
    let gradient = |x: &Tensor, y: Tensor| y.sum(()).gradient(&[x]).unwrap()[0].to_vec::<f32>().unwrap();
    let x = Tensor::from_vec(vec![2f32, 2.0, 1.0], [3]);
    assert_eq!(gradient(&x, x.max(0)), [0.5, 0.5, 0.0]);
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
    for (running, mean) in norm.mean.to_vec::<f32>().unwrap().iter().zip(mean) {
        assert!((running - 0.1 * mean).abs() < 1e-6);
    }
    assert!(norm.variance.realize().is_ok() && norm.forward(&x).shape().is_ok());
}
