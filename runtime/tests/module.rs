//! `#[derive(Module)]`: names, state dictionaries and buffers of structs of layers, tensors and lists.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use warpweft::Tensor;
use warpweft::nn::{BatchNorm, Linear, Module};

#[derive(Module)]
struct Block {
    #[module(name = "fc")]
    linear: Linear,
    norm: BatchNorm,
    scale: Tensor,
    #[module(buffer)]
    seen: Tensor,
    heads: i64,
}

#[derive(Module)]
struct Network<M: Module> {
    blocks: Vec<Block>,
    shortcut: Option<(Linear, BatchNorm)>,
    last: M,
    #[module(skip)]
    classes: [&'static str; 2],
}

#[derive(Module)]
struct Pair(Linear, [Tensor; 2]);

fn block() -> Block {
    Block {
        linear: Linear::new(2, 3, false).unwrap(),
        norm: BatchNorm::new(3).unwrap(),
        scale: Tensor::ones([3]),
        seen: Tensor::zeros([1]),
        heads: 2,
    }
}

fn network(has_shortcut: bool) -> Network<Pair> {
    let shortcut = (Linear::new(2, 3, true).unwrap(), BatchNorm::new(3).unwrap());
    Network {
        blocks: vec![block(), block()],
        shortcut: has_shortcut.then_some(shortcut),
        last: Pair(Linear::new(3, 2, true).unwrap(), [Tensor::ones([1]), Tensor::zeros([2])]),
        classes: ["a", "b"],
    }
}

fn names(named: Vec<(String, Tensor)>) -> Vec<String> {
    named.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn names_are_those_of_fields() {
    let network = network(true);
    let block =
        |at: usize| ["fc.weight", "norm.weight", "norm.bias", "scale"].map(|name| format!("blocks.{at}.{name}"));
    let others = ["shortcut.0.weight", "shortcut.0.bias", "shortcut.1.weight", "shortcut.1.bias"];
    let last = ["last.0.weight", "last.0.bias", "last.1.0", "last.1.1"];
    let expected = [&block(0)[..], &block(1), &others.map(String::from), &last.map(String::from)].concat();
    assert_eq!(names(network.named_parameters()), expected);
    assert_eq!(network.parameters().len(), expected.len());
    let seen = ["norm.running_mean", "norm.running_var", "seen"];
    let mut expected: Vec<String> = (0..2).flat_map(|at| seen.map(|name| format!("blocks.{at}.{name}"))).collect();
    expected.extend(["shortcut.1.running_mean", "shortcut.1.running_var"].map(String::from));
    assert_eq!(names(network.named_buffers()), expected);
    assert_eq!((network.blocks[0].heads, network.classes.len()), (2, 2));
}

#[test]
fn states_go_from_one_to_another() {
    let (one, other) = (network(true), network(true));
    one.blocks[1].seen.assign(Tensor::full([1], 5.0)).unwrap();
    other.load_state_dict(&one.state_dict()).unwrap();
    assert_eq!(other.blocks[1].seen.to_vec::<f32>().unwrap(), [5.0]);
    let weights = |network: &Network<Pair>| network.last.0.weight.to_vec::<f32>().unwrap();
    assert_eq!(weights(&one), weights(&other));
    let error = network(false).load_state_dict(&one.state_dict()).unwrap_err().to_string();
    assert!(error.contains("unexpected: shortcut.0.weight, shortcut.0.bias"), "{error}");
}
