//! How many kernels training steps become: no more than the peer that we measure ourselves against makes of the same programs.
//!
//! Only scheduled, not run. The numbers are facts about that peer's own tests; networks and sizes are those of these tests.

use warpweft::Tensor;
use warpweft::nn::{Adam, BatchNorm, Conv2d, EncoderLayer, Linear, Module, Optimizer, Sgd};
use warpweft::tensor::{ConvOptions, PoolOptions};
use warpweft_compiler::UOp;
use warpweft_compiler::ir::Arg;
use warpweft_compiler::optimize::loads_of;
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::{Notes, Silent, Topic};

/// Kernels that compute these tensors together, at most so many.
#[track_caller]
fn at_most(most: usize, values: &[Tensor]) {
    let nodes: Vec<_> = values.iter().map(|value| warpweft::compiler::graph(value).unwrap()).collect();
    let normalized = normalize(&nodes, |_| None).unwrap();
    let mut notes = Notes::of(&[Topic::Fusion]);
    let kernels = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut notes).unwrap().kernels.len();
    assert!(kernels <= most, "{kernels} kernels, the peer makes {most}: {:#?}", notes.lines);
}

fn input(shape: &[i64]) -> Tensor {
    Tensor::from_vec(vec![0.5f32; shape.iter().product::<i64>() as usize], shape.to_vec())
}

fn convolution(channels: i64, outputs: i64, size: i64, bias: bool) -> Conv2d {
    let mut layer = Conv2d::new(channels, outputs, size, ConvOptions::default()).unwrap();
    if !bias {
        layer.bias = None;
    }
    layer
}

fn parameters(layers: &[&dyn Module]) -> Vec<Tensor> {
    layers.iter().flat_map(|layer| layer.parameters()).collect()
}

/// What a step down the gradient of a loss assigns, and the loss.
fn step(optimizer: &mut dyn Optimizer, loss: &Tensor) -> Vec<Tensor> {
    let gradients = loss.gradient(&optimizer.parameters().iter().collect::<Vec<_>>()).unwrap();
    optimizer.update(&gradients).unwrap()
}

fn total(x: &Tensor) -> Tensor {
    x.reshape([-1]).sum(0)
}

/// A stack of convolutions, each with an activation.
fn stack(x: &Tensor, layers: &[Conv2d]) -> Tensor {
    layers.iter().fold(x.clone(), |x, layer| layer.forward(&x).relu())
}

#[test]
fn one_convolution_under_gradient_descent_and_adam() {
    let build = || {
        let layer = convolution(3, 32, 3, true);
        (parameters(&[&layer]), total(&stack(&input(&[2, 3, 4, 4]), &[layer])))
    };
    let (all, loss) = build();
    at_most(5, &step(&mut Sgd::new(all, 0.01, 0.0, 0.0).unwrap(), &loss));
    let (all, loss) = build();
    at_most(13, &step(&mut Adam::new(all, 0.01).unwrap(), &loss));
}

#[test]
fn two_convolutions_under_gradient_descent_and_adam() {
    let build = || {
        let layers = [convolution(3, 16, 3, false), convolution(16, 32, 3, false)];
        (parameters(&[&layers[0], &layers[1]]), total(&stack(&input(&[2, 3, 64, 64]), &layers)))
    };
    let (all, loss) = build();
    at_most(7, &step(&mut Sgd::new(all, 0.01, 0.0, 0.0).unwrap(), &loss));
    let (all, loss) = build();
    at_most(11, &step(&mut Sgd::new(all, 0.01, 0.9, 0.1).unwrap(), &loss));
    let (all, loss) = build();
    at_most(15, &step(&mut Adam::new(all, 0.01).unwrap(), &loss));
}

#[test]
fn four_convolutions_under_gradient_descent() {
    let widths = [3, 4, 8, 16, 32];
    let layers: Vec<Conv2d> = widths.windows(2).map(|pair| convolution(pair[0], pair[1], 3, false)).collect();
    let all = layers.iter().flat_map(Module::parameters).collect();
    let loss = total(&stack(&input(&[2, 3, 64, 64]), &layers));
    at_most(15, &step(&mut Sgd::new(all, 0.01, 0.0, 0.0).unwrap(), &loss));
}

#[test]
fn normalised_convolutions() {
    let (layer, norm) = (convolution(3, 32, 3, true), BatchNorm::new(32).unwrap());
    at_most(4, &[norm.forward_training(&layer.forward(&input(&[1, 3, 8, 8]))).unwrap().relu()]);
    let (x, norm) = (input(&[2, 16, 8, 8]), BatchNorm::new(16).unwrap());
    let y = norm.forward_training(&x).unwrap().relu();
    let gradients = total(&y).gradient(&[&x, &norm.weight, &norm.bias]).unwrap();
    at_most(10, &gradients.into_iter().chain([y]).collect::<Vec<_>>());
}

#[test]
fn softmax_and_its_gradient() {
    let x = input(&[4, 12, 64, 64]);
    at_most(4, &total(&x.softmax(-1)).gradient(&[&x]).unwrap());
    at_most(3, &total(&x.logsumexp(3)).gradient(&[&x]).unwrap());
}

/// Two pairs of convolutions with norms and pooling, and a linear layer, for images of digits.
#[test]
fn a_network_for_digits_under_adam() {
    let sizes = [(1, 32, 5), (32, 32, 5), (32, 64, 3), (64, 64, 3)];
    let layers = sizes.map(|(channels, outputs, size)| convolution(channels, outputs, size, true));
    let norms = [BatchNorm::new(32).unwrap(), BatchNorm::new(64).unwrap()];
    let last = Linear::new(576, 10, true).unwrap();
    let mut x = input(&[32, 1, 28, 28]);
    for (pair, norm) in layers.chunks(2).zip(&norms) {
        let pooled = PoolOptions::default().kernel(vec![2, 2]);
        x = norm.forward_training(&stack(&x, pair)).unwrap().max_pool(&pooled);
    }
    let loss = total(&last.forward(&x.reshape([32, 576]))) * (1.0 / 320.0);
    let convolutions = layers.iter().flat_map(Module::parameters);
    let all = convolutions.chain(norms.iter().flat_map(Module::parameters)).chain(last.parameters()).collect();
    at_most(103, &step(&mut Adam::new(all, 0.01).unwrap(), &loss));
}

/// Forward and backward of one block; the peer makes 14 kernels of the forward pass alone (a block of the same ops, without biases).
#[test]
fn a_transformer_block() {
    let block = EncoderLayer::new(64, 4, 128).unwrap();
    let x = input(&[2, 16, 64]);
    let y = block.forward(&x);
    at_most(14, &[y.clone()]);
    let parameters = block.parameters();
    let targets: Vec<&Tensor> = parameters.iter().chain([&x]).collect();
    at_most(42, &total(&(&y * &y)).gradient(&targets).unwrap());
}

#[test]
fn the_index_of_an_extreme_of_a_few_long_rows_reads_them_once() {
    for (shape, axis) in [(vec![1 << 20], 0), (vec![1, 1 << 20], 1), (vec![3, 1 << 20], 1), (vec![1 << 20, 4], 0)] {
        for index in [input(&shape).argmax(Some(axis), false), input(&shape).exp().argmin(Some(axis), false)] {
            let normalized = normalize(&[warpweft::compiler::graph(&index).unwrap()], |_| None).unwrap();
            let mut notes = Notes::of(&[Topic::Fusion]);
            let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut notes).unwrap();
            assert_eq!(schedule.kernels.len(), 2, "{shape:?}: {:#?}", notes.lines);
            let elements: u64 = shape.iter().product::<i64>() as u64;
            let loads = schedule.kernels.iter().flat_map(|kernel| loads_of(&loops_of(&kernel.ast, &mut Silent)));
            let of_rows =
                |load: &UOp| matches!(load.src()[0].src()[0].arg(), Arg::Param(param) if param.len == elements);
            assert_eq!(loads.filter(of_rows).count(), 1, "{shape:?}: {:#?}", notes.lines);
            let bytes: f64 = schedule.kernels.iter().map(|kernel| moved_bytes(&kernel.ast)).sum();
            assert!(bytes < 4.1 * elements as f64, "{shape:?}: {bytes} bytes move");
        }
    }
    // What no number of parts divides leaves a rest, which the second kernel reads.
    at_most(2, &[input(&[1_000_003]).argmax(Some(0), false)]);
}

/// Bytes that a kernel loads and stores, without opts.
fn moved_bytes(ast: &UOp) -> f64 {
    let options = LowerOptions::by_hand_unless(true);
    lower_kernel(ast, &Target::test_avx512(), &options, &mut Silent).unwrap().estimate.bytes_accessed
}
