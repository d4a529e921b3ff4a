//! A decoder against the package `transformers` on the same weights (`tests/data/weights/make_models.py`): at once, token by token, and from GGUF files.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use warpweft::formats::{self, gguf};
use warpweft::nn::{Decoder, DecoderSizes, Generator, Module, stretched};
use warpweft::{Tensor, registry};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/weights/decoder")
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("expected.json")).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn tokens(expected: &Value) -> Vec<i32> {
    numbers(&expected["tokens"]).into_iter().map(|id| id as i32).collect()
}

#[track_caller]
fn near(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(worst < 2e-5, "off by {worst}");
}

/// As `config.json` says; the example reads it.
fn sizes() -> DecoderSizes {
    DecoderSizes {
        layers: 2,
        width: 32,
        heads: 4,
        key_heads: 2,
        inner: 64,
        vocabulary: 268,
        positions: 128,
        eps: 1e-5,
        rotary_base: 10_000.0,
        rotary_divisors: stretched(8, 10_000.0, 8.0, [1.0, 4.0], 32.0),
        is_tied: false,
    }
}

fn decoder() -> Decoder {
    let weights = formats::load(folder().join("model.safetensors")).unwrap();
    Decoder::new(&sizes(), |name, _| weights.tensor(name)).unwrap()
}

#[test]
fn a_decoder_gives_the_logits_of_transformers() {
    let (expected, decoder) = (expected(), decoder());
    let (divisors, wanted) = (&decoder.sizes.rotary_divisors, numbers(&expected["divisors"]));
    assert!(divisors.iter().zip(&wanted).all(|(a, b)| (a / b - 1.0).abs() < 1e-6), "{divisors:?} {wanted:?}");
    let tokens = tokens(&expected);
    let logits = decoder.forward(&Tensor::from_vec(tokens.clone(), [1, tokens.len() as i64]));
    for (row, wanted) in numbers(&expected["rows"]).iter().zip(expected["logits"].as_array().unwrap()) {
        near(&logits.get(0).get(*row as i64).to_vec::<f32>().unwrap(), &numbers(wanted));
    }
    let names: Vec<String> = decoder.named_parameters().into_iter().map(|(name, _)| name).collect();
    let mut held: Vec<String> =
        formats::load(folder().join("model.safetensors")).unwrap().into_iter().map(|(name, _)| name).collect();
    held.sort();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, held);
}

#[test]
fn a_text_grows_by_one_program_for_all_positions() {
    let (expected, decoder) = (expected(), decoder());
    let (tokens, rows) = (tokens(&expected), numbers(&expected["rows"]));
    let wanted = |at: usize| numbers(&expected["logits"][at]);
    let mut text = Generator::new(&decoder, tokens.len() as i64).unwrap();
    let made = registry::executor(None).unwrap().stats().schedules_made;
    // Pieces of every kind: one token, a few, some of a chunk, more than one.
    near(&text.feed(&tokens[..1]).unwrap(), &wanted(0));
    near(&text.feed(&tokens[1..=5]).unwrap(), &wanted(1));
    near(&text.feed(&tokens[6..]).unwrap(), &wanted(2));
    assert_eq!((rows[1], text.len(), text.room()), (5.0, tokens.len() as i64, 0));
    assert_eq!(registry::executor(None).unwrap().stats().schedules_made, made, "nothing is made by a call");
    // Taken back, and read again one by one.
    text.truncate(1);
    for (at, &token) in tokens.iter().enumerate().skip(1) {
        let logits = text.feed(&[token]).unwrap();
        if let Some(row) = rows.iter().position(|&row| row == at as f64) {
            near(&logits, &wanted(row));
        }
    }
    let error = text.feed(&[1]).unwrap_err().to_string();
    assert!(error.contains("1 tokens, and there is room for 0"), "{error}");
    let error = Generator::new(&decoder, 129).unwrap_err().to_string();
    assert!(error.contains("129 positions: the decoder knows 1 to 128"), "{error}");
}

#[test]
fn a_quantised_file_gives_the_logits_of_its_values() {
    let (expected, file) = (expected(), gguf::load(folder().join("Q8_0.gguf")).unwrap());
    let decoder = Decoder::of_gguf(&file).unwrap();
    assert_eq!(
        DecoderSizes { rotary_divisors: Vec::new(), ..decoder.sizes.clone() },
        DecoderSizes {
            rotary_divisors: Vec::new(),
            // A float of 32 bits in the file.
            eps: f64::from(1e-5f32),
            ..sizes()
        }
    );
    let tokens = tokens(&expected);
    let logits = decoder.forward(&Tensor::from_vec(tokens.clone(), [1, tokens.len() as i64]));
    near(&logits.get(0).get(tokens.len() as i64 - 1).to_vec::<f32>().unwrap(), &numbers(&expected["gguf"]["Q8_0"]));
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let refused = |sizes: DecoderSizes| Decoder::random(&sizes).unwrap_err().to_string();
    let error = refused(DecoderSizes { heads: 5, ..sizes() });
    assert!(error.contains("5 heads must share a width of 32 in even parts"), "{error}");
    let error = refused(DecoderSizes { key_heads: 3, ..sizes() });
    assert!(error.contains("4 heads cannot share 3 key heads in equal groups"), "{error}");
    let weights = formats::load(folder().join("model.safetensors")).unwrap();
    let other = DecoderSizes { inner: 60, ..sizes() };
    let error = Decoder::new(&other, |name, _| weights.tensor(name)).unwrap_err().to_string();
    assert!(
        error.contains("`model.layers.0.mlp.gate_proj.weight` has the shape [64, 32], and the sizes say [60, 32]"),
        "{error}"
    );
}
