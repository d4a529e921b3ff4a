//! A residual network and an encoder of speech against PyTorch and `transformers` on the same weights (`tests/data/weights/make_models.py`).
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use warpweft::nn::{Module, Named, Optimizer, ResNet, Sgd, SpeechEncoder, SpeechSizes, log_mel};
use warpweft::tensor::ClassOptions;
use warpweft::{Tensor, formats};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/weights").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(data(name)).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn tensor(listed: &Value) -> Tensor {
    let elements = numbers(&listed["elements"]).into_iter().map(|value| value as f32).collect();
    Tensor::from_vec(elements, numbers(&listed["shape"]).into_iter().map(|len| len as i64).collect::<Vec<i64>>())
}

#[track_caller]
fn near(got: &Tensor, expected: &[f64], most: f64) {
    let got = got.to_vec::<f32>().unwrap();
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs() / (1.0 + b.abs())).fold(0.0, f64::max);
    assert!(worst < most, "off by {worst}");
}

#[test]
fn a_residual_network_learns_as_pytorchs_does() {
    let case = json("resnet.json");
    let network = ResNet::new(1, &[4, 6], 2, 5).unwrap();
    let state: Named =
        case["state"].as_object().unwrap().iter().map(|(name, listed)| (name.clone(), tensor(listed))).collect();
    network.load_state_dict(&state).unwrap();
    let images = tensor(&case["images"]);
    near(&network.forward(&images), &numbers(&case["before"]), 1e-5);
    let classes: Vec<i32> = numbers(&case["targets"]).into_iter().map(|class| class as i32).collect();
    let targets = Tensor::from_vec(classes, [6]);
    let mut optimizer = Sgd::new(network.parameters(), 0.1, 0.0, 0.0).unwrap();
    let loss = network.forward_training(&images).unwrap().cross_entropy(&targets, &ClassOptions::default());
    optimizer.step(&loss).unwrap();
    near(&loss, &[case["loss"].as_f64().unwrap()], 1e-5);
    near(&network.forward(&images), &numbers(&case["after"]), 1e-4);
    near(&network.stages[1][0].first_norm.mean, &numbers(&case["running_mean"]), 1e-5);
}

/// The sound that the script makes.
fn sound() -> Tensor {
    let sample = |at: i32| {
        let (time, turn) = (f64::from(at) / 16000.0, std::f64::consts::TAU);
        let tones = 0.4 * time * (turn * 440.0 * time).sin() + 0.1 * (turn * 3000.0 * time * time).sin();
        if at == 9000 { 0.9 } else { tones as f32 }
    };
    Tensor::from_vec((0..16000).map(sample).collect(), [16000])
}

const SIZES: SpeechSizes = SpeechSizes { bands: 20, width: 24, layers: 2, heads: 3, inner: 40, positions: 50 };

#[test]
fn sound_becomes_the_spectrogram_and_states_of_transformers() {
    let expected = json("whisper/expected.json");
    let spectrogram = log_mel(&sound(), SIZES.bands);
    for (band, wanted) in numbers(&expected["bands"]).iter().zip(expected["features"].as_array().unwrap()) {
        near(&spectrogram.get(*band as i64), &numbers(wanted), 1e-4);
    }
    let weights = formats::load(data("whisper/model.safetensors")).unwrap();
    let encoder = SpeechEncoder::new(&SIZES, |name, _| weights.tensor(name)).unwrap();
    let states = encoder.forward(&spectrogram.unsqueeze(0));
    for (row, wanted) in numbers(&expected["rows"]).iter().zip(expected["states"].as_array().unwrap()) {
        near(&states.get(0).get(*row as i64), &numbers(wanted), 1e-4);
    }
    let mut names: Vec<String> = encoder.named_parameters().into_iter().map(|(name, _)| name).collect();
    let mut held: Vec<String> = weights.into_iter().map(|(name, _)| name).collect();
    names.sort();
    held.sort();
    assert_eq!(names, held);
}

#[test]
fn what_an_encoder_of_speech_cannot_hear_is_named() {
    let encoder = SpeechEncoder::random(&SIZES).unwrap();
    let error = encoder.forward(&Tensor::zeros([1, 20, 90])).shape().unwrap_err().to_string();
    assert!(error.contains("a spectrogram must be [batch, 20, 100], not [1, 20, 90]"), "{error}");
    let error = log_mel(&Tensor::zeros([2, 900]), 20).shape().unwrap_err().to_string();
    assert!(error.contains("samples must be [count], more than 400"), "{error}");
    // Sines as Whisper's own, where no weights are given.
    let weights = formats::load(data("whisper/model.safetensors")).unwrap();
    let rows = weights.tensor("model.encoder.embed_positions.weight").unwrap().to_vec::<f32>().unwrap();
    near(&encoder.positions, &rows.into_iter().map(f64::from).collect::<Vec<_>>(), 1e-5);
}
