//! Mixed precision against PyTorch's `autocast` and `GradScaler` on the same weights (`tests/data/weights/make_models.py`).
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use serde_json::Value;
use warpweft::nn::{Activation, Adam, Layer, LayerNorm, Linear, LossScaler, Module, Named, Optimizer, Sequential, Sgd};
use warpweft::tensor::{ClassOptions, autocast};
use warpweft::{DType, Function, Tensor, compile, spec};

fn case() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/weights/precision.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn tensor(listed: &Value) -> Tensor {
    let elements = numbers(&listed["elements"]).into_iter().map(|value| value as f32).collect();
    Tensor::from_vec(elements, numbers(&listed["shape"]).into_iter().map(|len| len as i64).collect::<Vec<i64>>())
}

fn network(case: &Value) -> Sequential {
    let network = Sequential::new()
        .then(Linear::new(6, 16, true).unwrap())
        .then(Activation(Tensor::relu))
        .then(LayerNorm::new(16, 1e-5).unwrap())
        .then(Linear::new(16, 3, true).unwrap());
    let state: Named =
        case["state"].as_object().unwrap().iter().map(|(name, listed)| (name.clone(), tensor(listed))).collect();
    network.load_state_dict(&state).unwrap();
    network
}

/// A step of training, compiled once.
fn step(network: &Sequential, scaler: &mut LossScaler, optimizer: &mut Adam) -> Function<2, 1> {
    compile([spec(DType::F32, [8, 6]), spec(DType::I32, [8])], |[inputs, targets]| -> warpweft::Result<[Tensor; 1]> {
        let loss = autocast(DType::F16, || {
            network.forward_training(&inputs).map(|logits| logits.cross_entropy(&targets, &ClassOptions::default()))
        })??;
        scaler.step(optimizer, &loss)?;
        Ok([loss])
    })
    .unwrap()
}

#[test]
fn steps_with_half_floats_are_those_of_pytorch() {
    let case = case();
    let network = network(&case);
    let mut optimizer = Adam::new(network.parameters(), 0.01).unwrap();
    let mut scaler = LossScaler::with(&network.parameters(), 1024.0, 2.0, 0.5, 2).unwrap();
    let factor = scaler.factor().clone();
    let step = step(&network, &mut scaler, &mut optimizer);
    let weight = || network.named_parameters()[0].1.to_vec::<f32>().unwrap();
    let mut before = weight();
    for (at, wanted) in case["steps"].as_array().unwrap().iter().enumerate() {
        let targets = numbers(&wanted["targets"]).into_iter().map(|class| class as i32).collect();
        let [loss] = step.call([&tensor(&wanted["inputs"]), &Tensor::from_vec(targets, [8])]).unwrap();
        let loss = f64::from(loss.item::<f32>().unwrap());
        match wanted["loss"].as_f64() {
            Some(wanted) => assert!((loss - wanted).abs() < 3e-3, "step {at}: {loss} {wanted}"),
            None => assert!(!loss.is_finite(), "step {at}: {loss}"),
        }
        assert_eq!(f64::from(factor.item::<f32>().unwrap()), wanted["factor"].as_f64().unwrap(), "step {at}");
        let now = weight();
        let worst =
            now.iter().zip(numbers(&wanted["weight"])).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        assert!(worst < 2e-3, "step {at}: off by {worst}");
        assert_eq!(now == before, wanted["loss"].is_null(), "step {at}: a step that is left out changes nothing");
        before = now;
    }
}

#[test]
fn small_gradients_are_kept_by_the_factor() {
    // A gradient of about 1e-8, which half floats do not have.
    let x = Tensor::from_vec(vec![1e-4f32; 4], [1, 4]);
    let weight = Tensor::from_vec(vec![0.5f32; 4], [4, 1]);
    weight.realize().unwrap();
    let loss = || autocast(DType::F16, || x.matmul(&weight).cast(DType::F32).sum(()) * 1e-4).unwrap();
    let gradient = loss().gradient(&[&weight]).unwrap()[0].to_vec::<f32>().unwrap();
    assert!(gradient.iter().any(|value| (value / 1e-8 - 1.0).abs() > 0.1), "{gradient:?}");
    let optimizer = Sgd::new(vec![weight.clone()], 0.1, 0.0, 0.0).unwrap();
    let scaler = LossScaler::new(optimizer.parameters()).unwrap();
    let (gradients, finite) = scaler.gradients(&loss(), &optimizer).unwrap();
    assert!(finite.to_vec::<bool>().unwrap()[0]);
    let gradient = gradients[0].to_vec::<f32>().unwrap();
    assert!(gradient.iter().all(|value| (value / 1e-8 - 1.0).abs() < 2e-3), "{gradient:?}");
}

/// An optimizer that hides what it keeps.
struct Hiding(Vec<Tensor>, Tensor);

impl Optimizer for Hiding {
    fn parameters(&self) -> &[Tensor] {
        &self.0
    }

    fn update(&mut self, gradients: &[Tensor]) -> warpweft::Result<Vec<Tensor>> {
        self.1.assign(&self.1 + 1.0)?;
        self.0[0].assign((&self.0[0] - &gradients[0]).detach())?;
        Ok(vec![self.0[0].clone(), self.1.clone()])
    }
}

#[test]
fn types_hold_inside_alone_and_mistakes_are_named() {
    let (x, w) = (Tensor::ones([2, 2]), Tensor::ones([2, 2]));
    let inside = autocast(DType::BF16, || (x.matmul(&w), x.matmul(&w).softmax(1), &x + 1.0)).unwrap();
    let types = [inside.0.dtype(), inside.1.dtype(), inside.2.dtype()].map(|dtype| dtype.unwrap());
    assert_eq!(types, [DType::BF16, DType::F32, DType::F32]);
    assert_eq!(x.matmul(&w).dtype().unwrap(), DType::F32);
    let error = autocast(DType::F32, || ()).unwrap_err().to_string();
    assert!(error.contains("products can be made of f16 or bf16, not of f32"), "{error}");
    let error = LossScaler::with(&[], 0.0, 2.0, 0.5, 1).unwrap_err().to_string();
    assert!(error.contains("the factor and the interval must be above 0"), "{error}");
    let parameter = Tensor::ones([1]);
    parameter.realize().unwrap();
    let mut hiding = Hiding(vec![parameter.clone()], Tensor::zeros([1]));
    let error = LossScaler::new(&[]).unwrap().step(&mut hiding, &(&parameter * 2.0).sum(())).unwrap_err().to_string();
    assert!(error.contains("changes a tensor that its `state` does not name"), "{error}");
}
