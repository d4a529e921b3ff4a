//! The bench cases `minilm_8x128` and `minilm_1x32`: sentences to embeddings by all-MiniLM-L6-v2, as the script does that times other libraries.
//!
//! With `--model DIR` by its weights, else by random ones of the same sizes: times are the same. The function is compiled once and called.

use std::path::Path;

use warpweft::nn::{SentenceEncoder, SentenceSizes};
use warpweft::{DType, Tensor, compile, formats, spec};

use crate::bench::{Bench, Cost, Failure, Times, time};

/// The cases: `minilm` stands for both.
pub(crate) const NAMES: &[&str] = &["minilm_8x128", "minilm_1x32"];

/// Sentences and positions of a case.
fn shape(name: &str) -> [i64; 2] {
    if name == "minilm_8x128" { [8, 128] } else { [1, 32] }
}

/// Multiply-adds of the matrices and of attention, counted as two operations.
fn flops(sizes: &SentenceSizes, [sentences, positions]: [i64; 2]) -> f64 {
    let (width, inner) = (sizes.width as f64, sizes.inner as f64);
    let rows = (sentences * positions) as f64;
    let layer = 4.0 * width * width + 2.0 * width * inner + 2.0 * positions as f64 * width;
    2.0 * rows * layer * sizes.layers as f64
}

fn encoder(sizes: &SentenceSizes, model: Option<&Path>) -> Result<SentenceEncoder, Failure> {
    if let Some(folder) = model {
        let weights = formats::load(folder.join("model.safetensors"))?;
        weights.load(|_| ())?;
        return Ok(SentenceEncoder::new(sizes, |name| weights.tensor(name))?);
    }
    let mut seed = 0u64;
    let made = SentenceEncoder::new(sizes, |name| {
        let (width, inner) = (sizes.width, sizes.inner);
        let shape = match name {
            "embeddings.word_embeddings.weight" => vec![sizes.vocabulary, width],
            "embeddings.position_embeddings.weight" => vec![sizes.positions, width],
            "embeddings.token_type_embeddings.weight" => vec![sizes.types, width],
            _ if name.ends_with("intermediate.dense.weight") => vec![inner, width],
            _ if name.ends_with("intermediate.dense.bias") => vec![inner],
            _ if name.contains("attention") && name.ends_with(".weight") && !name.contains("LayerNorm") => {
                vec![width, width]
            }
            _ if name.ends_with("output.dense.weight") => vec![width, inner],
            _ => vec![width],
        };
        let count = shape.iter().product::<i64>();
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * 0.05
        };
        Ok(Tensor::from_vec((0..count).map(next).collect::<Vec<f32>>(), shape))
    });
    Ok(made?)
}

/// Times one case.
pub(crate) fn run(arguments: &Bench, name: &str) -> Result<(Cost, Times), Failure> {
    let sizes = SentenceSizes::MINILM;
    let encoder = encoder(&sizes, arguments.model.as_deref())?;
    let shape = shape(name);
    let count = (shape[0] * shape[1]) as i32;
    let tokens = Tensor::from_vec((0..count).map(|k| 1000 + k * 37 % 20000).collect(), shape);
    // The last fifth of each sentence is padding.
    let is_word = |k: i32| f32::from(u8::from(i64::from(k) % shape[1] < shape[1] * 4 / 5));
    let mask = Tensor::from_vec((0..count).map(is_word).collect(), shape);
    let mut function = None;
    let times = time(arguments.seconds, || {
        let traced = match function.take() {
            Some(traced) => traced,
            None => compile([spec(DType::I32, shape), spec(DType::F32, shape)], |[tokens, mask]| {
                Ok([encoder.forward(&tokens, &mask)])
            })?,
        };
        let [embeddings] = traced.call([&tokens, &mask])?;
        function = Some(traced);
        embeddings.realize()?;
        Ok(())
    })?;
    Ok((Cost { flops: flops(&sizes, shape), bytes: 0.0 }, times))
}
