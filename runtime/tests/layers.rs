//! Layers, optimizers and schedules against PyTorch (`tests/data/make_layer_cases.py`).
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::io::Read;
use std::path::Path;

use serde_json::Value;
use warpweft::nn::{
    Activation, Adam, BatchNorm, Conv, ConvTranspose, Dropout, Embedding, InstanceNorm, KeyValueCache, Lamb, Layer,
    Linear, Module, MultiHeadAttention, Muon, Named, Optimizer, RmsProp, Schedule, Sequential, clip_by_norm,
};
use warpweft::tensor::{AttentionOptions, ConvOptions, PoolOptions};
use warpweft::{DType, Tensor, Var};

fn case(name: &str) -> Value {
    let mut text = String::new();
    let file = std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/layers.json.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    all["cases"][name].take()
}

fn tensor(listed: &Value) -> Tensor {
    let numbers = listed["elements"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32);
    let shape: Vec<i64> = listed["shape"].as_array().unwrap().iter().map(|len| len.as_i64().unwrap()).collect();
    Tensor::from_vec(numbers.collect(), shape)
}

#[track_caller]
fn near(got: &Tensor, expected: &Value, what: &str) {
    let expected = tensor(expected);
    assert_eq!(got.shape().unwrap(), expected.shape().unwrap(), "{what}");
    let (got, expected) = (got.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(
            (got - expected).abs() <= 2e-5 * (1.0 + expected.abs()),
            "{what}: element {at} is {got} and should be {expected}"
        );
    }
}

fn state(case: &Value) -> Named {
    case["state"].as_object().unwrap().iter().map(|(name, listed)| (name.clone(), tensor(listed))).collect()
}

#[track_caller]
fn check(name: &str, layer: &dyn Layer) {
    let case = case(name);
    layer.load_state_dict(&state(&case)).unwrap();
    near(&layer.forward(&tensor(&case["input"])), &case["output"], name);
}

fn options(stride: &[i64], padding: &[i64], groups: i64) -> ConvOptions {
    ConvOptions::default().stride(stride.to_vec()).padding(padding.to_vec()).groups(groups)
}

#[test]
fn convolutions_of_every_rank_give_pytorchs_values() {
    check("conv1d", &Conv::new(4, 6, 3, false, options(&[2], &[1], 2)).unwrap());
    check("conv2d", &Conv::new(3, 4, [3, 1], true, options(&[1, 2], &[1, 0], 1)).unwrap());
    let dilated = ConvOptions::default().dilation(vec![1, 2, 1]);
    check("conv3d", &Conv::new(2, 3, [1, 2, 3], true, dilated).unwrap());
    let padded = options(&[2], &[1], 1).output_padding(vec![1]);
    check("conv_transpose1d", &ConvTranspose::new(3, 4, 3, true, padded).unwrap());
    check("conv_transpose2d", &ConvTranspose::new(4, 6, [2, 3], false, options(&[2, 1], &[0], 2)).unwrap());
}

#[test]
fn norms_and_sequences_give_pytorchs_values() {
    check("instance_norm", &InstanceNorm::new(3, true).unwrap());
    check("instance_norm_plain", &InstanceNorm::new(3, false).unwrap());
    let network = Sequential::new()
        .then(Linear::new(5, 6, true).unwrap())
        .then(Activation(Tensor::relu))
        .then(Dropout(0.5))
        .then(BatchNorm::new(6).unwrap())
        .then(Linear::new(6, 2, false).unwrap());
    check("sequential", &network);
    let network = Sequential::new().then(Linear::new(5, 6, true).unwrap()).then(BatchNorm::new(6).unwrap());
    let case = case("sequential_training");
    network.load_state_dict(&state(&case)).unwrap();
    near(&network.forward_training(&tensor(&case["input"])).unwrap(), &case["output"], "training");
    for (name, buffer) in network.named_buffers() {
        near(&buffer, &case["after"][&name], &name);
    }
    let table = Embedding::new(7, 3).unwrap();
    let case = self::case("embedding");
    table.load_state_dict(&state(&case)).unwrap();
    near(&table.forward(&tensor(&case["input"]).cast(DType::I32)), &case["output"], "embedding");
}

#[test]
fn dropout_drops_while_it_learns_alone() {
    let x = Tensor::ones([1000]);
    assert_eq!(Dropout(0.5).forward(&x).to_vec::<f32>().unwrap(), [1.0; 1000]);
    let dropped = Dropout(0.5).forward_training(&x).unwrap().to_vec::<f32>().unwrap();
    let zeros = dropped.iter().filter(|&&value| value == 0.0).count();
    assert!((400..600).contains(&zeros) && dropped.iter().all(|&value| value == 0.0 || value == 2.0), "{zeros}");
}

#[test]
fn attention_gives_pytorchs_values_at_once_and_with_a_cache() {
    let causal = AttentionOptions::default().is_causal(true);
    for (name, layer, options) in [
        ("attention_plain", MultiHeadAttention::new(12, 3, 3, true, None).unwrap(), &causal),
        ("attention_rotary", MultiHeadAttention::new(16, 4, 2, true, Some(10_000.0)).unwrap(), &causal),
        ("attention_own", MultiHeadAttention::new(8, 2, 2, true, None).unwrap(), &AttentionOptions::default()),
    ] {
        let case = case(name);
        layer.load_state_dict(&state(&case)).unwrap();
        let x = tensor(&case["input"]);
        near(&layer.forward(&x, options), &case["output"], name);
        if !options.is_causal {
            continue;
        }
        // The first two positions together, the others one by one, at a position that is a variable.
        let [batch, positions, width]: [usize; 3] = x.shape().unwrap().try_into().unwrap();
        let cache = KeyValueCache::new(batch, layer.key_heads, positions, width / layer.heads as usize).unwrap();
        let mut rows = vec![layer.forward_cached(&x.narrow(1, 0, 2), &cache, 0).unwrap()];
        Tensor::realize_all(&[&cache.keys, &cache.values, &rows[0]]).unwrap();
        let at = Var::new("at", 0..=positions - 1).unwrap();
        for position in 2..positions {
            let row = x.narrow(1, position as i64, 1).contiguous();
            row.realize().unwrap();
            let seen = layer.forward_cached(&row, &cache, at.bind(position).unwrap()).unwrap();
            Tensor::realize_all(&[&cache.keys, &cache.values, &seen]).unwrap();
            rows.push(seen);
        }
        near(&Tensor::cat(&rows.iter().collect::<Vec<_>>(), 1), &case["output"], &format!("{name} with a cache"));
    }
}

#[test]
fn states_are_compared_before_anything_is_assigned() {
    let layer = Linear::new(3, 2, true).unwrap();
    let before = layer.weight.to_vec::<f32>().unwrap();
    let state: Named = [("weight", Tensor::ones([2, 3])), ("scale", Tensor::ones([1]))]
        .map(|(name, x)| (name.to_string(), x))
        .to_vec();
    let error = layer.load_state_dict(&state).unwrap_err().to_string();
    assert!(error.contains("missing: bias; unexpected: scale (at "), "{error}");
    assert_eq!(layer.weight.to_vec::<f32>().unwrap(), before);
    let state: Named = vec![("weight".to_string(), Tensor::ones([3, 2])), ("bias".to_string(), Tensor::ones([2]))];
    let error = layer.load_state_dict(&state).unwrap_err().to_string();
    assert!(error.contains("weight should be [2, 3] and is [3, 2]"), "{error}");
    let difference = layer.load_matching(&state).unwrap();
    assert_eq!(difference.other_shape, [("weight".to_string(), vec![2, 3], vec![3, 2])]);
    assert_eq!(
        (layer.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), layer.weight.to_vec::<f32>().unwrap()),
        (vec![1.0; 2], before)
    );
    // Of another type, and what PyTorch counts beside.
    let norm = BatchNorm::new(2).unwrap();
    let mut state = norm.state_dict();
    state[0].1 = Tensor::from_vec(vec![3.0f64, 4.0], [2]);
    state.push(("num_batches_tracked".to_string(), Tensor::scalar(3i64)));
    norm.load_state_dict(&state).unwrap();
    assert_eq!(norm.weight.to_vec::<f32>().unwrap(), [3.0, 4.0]);
    assert_eq!(
        norm.state_dict().into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["weight", "bias", "running_mean", "running_var"]
    );
}

#[track_caller]
fn steps(name: &str, make: impl FnOnce(Vec<Tensor>) -> Box<dyn Optimizer>) {
    let case = case(name);
    let steps = case["steps"].as_array().unwrap();
    let parameters: Vec<Tensor> = steps[0].as_array().unwrap().iter().map(tensor).collect();
    let factors: Vec<Tensor> = case["factors"].as_array().unwrap().iter().map(tensor).collect();
    let mut optimizer = make(parameters.clone());
    for (number, expected) in steps.iter().enumerate().skip(1) {
        let parts =
            parameters.iter().zip(&factors).map(|(p, factor)| (p * factor).sin().sum(()) + p.square().sum(()) * 0.1);
        let loss = parts.reduce(|a, b| a + b).unwrap();
        optimizer.step(&loss).unwrap();
        for (parameter, expected) in parameters.iter().zip(expected.as_array().unwrap()) {
            near(parameter, expected, &format!("{name}, step {number}"));
        }
    }
}

#[test]
fn optimizers_take_pytorchs_steps() {
    steps("adamw", |p| Box::new(Adam::with(p, 0.05, (0.8, 0.9), 1e-6, 0.1).unwrap()));
    steps("rmsprop", |p| Box::new(RmsProp::new(p, 0.02, 0.0, 0.0).unwrap()));
    steps("rmsprop_momentum", |p| Box::new(RmsProp::with(p, 0.02, 0.9, 1e-6, 0.8, 0.1).unwrap()));
    steps("lamb", |p| Box::new(Lamb::new(p, 0.05, (0.8, 0.9), 1e-6, 0.1).unwrap()));
    steps("muon", |p| Box::new(Muon::new(p, 0.05, 0.9, 0.1).unwrap()));
    let error = Muon::new(vec![Tensor::ones([3])], 0.1, 0.9, 0.0).unwrap_err().to_string();
    assert!(error.contains("its parameters are matrices, not [3]"), "{error}");
    assert!(
        RmsProp::new(Vec::new(), -1.0, 0.0, 0.0).is_err() && Lamb::new(Vec::new(), 1.0, (1.0, 0.9), 1e-6, 0.0).is_err()
    );
}

#[test]
fn gradients_are_clipped_by_their_common_norm() {
    for name in ["clip", "clip_none"] {
        let case = case(name);
        let gradients: Vec<Tensor> = case["gradients"].as_array().unwrap().iter().map(tensor).collect();
        let (clipped, norm) = clip_by_norm(&gradients, case["most"].as_f64().unwrap()).unwrap();
        assert!((f64::from(norm.item::<f32>().unwrap()) - case["norm"].as_f64().unwrap()).abs() < 1e-5);
        for (clipped, expected) in clipped.iter().zip(case["clipped"].as_array().unwrap()) {
            near(clipped, expected, name);
        }
    }
}

#[test]
fn schedules_give_pytorchs_rates() {
    let case = case("schedules");
    for (name, schedule) in [
        ("steps", Schedule::Steps { rate: 0.5, every: 3, factor: 0.5 }),
        ("exponential", Schedule::Exponential { rate: 0.5, factor: 0.9 }),
        ("cosine", Schedule::Cosine { rate: 0.5, least: 0.1, steps: 11 }),
        ("linear", Schedule::Linear { rate: 0.5, last: 0.1, steps: 6 }),
        ("warmup", Schedule::Exponential { rate: 0.5, factor: 0.9 }.after_warmup(4)),
    ] {
        for (step, expected) in case[name].as_array().unwrap().iter().enumerate() {
            let (rate, expected) = (schedule.at(step as u64), expected.as_f64().unwrap());
            assert!((rate - expected).abs() < 1e-12, "{name}: step {step} has {rate} and should have {expected}");
        }
    }
    let optimizer = RmsProp::new(vec![Tensor::ones([2])], 1.0, 0.0, 0.0).unwrap();
    Schedule::Cosine { rate: 0.5, least: 0.25, steps: 2 }.set(optimizer.rate(), 2).unwrap();
    assert_eq!(optimizer.rate().item::<f32>().unwrap(), 0.25);
}

/// The numbers are PyTorch's (`F.avg_pool2d` and `F.max_pool2d` of 1 to 6 in two rows).
#[test]
fn the_only_window_of_ceil_mode_may_be_longer_than_the_image() {
    let x = Tensor::from_vec((1..7).map(|k| k as f32).collect::<Vec<_>>(), [1, 1, 2, 3]);
    let pool =
        |kernel: [i64; 2], stride: i64| PoolOptions::default().kernel(kernel).stride([stride, stride]).ceil_mode(true);
    let whole = pool([5, 5], 5);
    let padded = whole.clone().padding([1, 1]);
    for (name, got, want) in [
        ("mean", x.avg_pool(&whole), 3.5),
        ("largest", x.max_pool(&whole), 6.0),
        ("where the largest is", x.max_pool_indices(&whole).cast(DType::F32), 5.0),
        ("mean with padding", x.avg_pool(&padded), 1.05),
        ("mean beside padding", x.avg_pool(&padded.count_include_pad(false)), 3.5),
        ("mean of windows of 3 x 4", x.avg_pool(&pool([3, 4], 2)), 3.5),
    ] {
        assert_eq!(got.shape().unwrap(), [1usize; 4], "{name}");
        assert_eq!(got.to_vec::<f32>().unwrap(), [want], "{name}");
    }
    let error = x.avg_pool(&pool([5, 5], 2)).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("a window of 5 (5 with dilation) does not fit the padded length 2"), "{error}");
}
