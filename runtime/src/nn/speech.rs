//! Encoders of speech of the family of Whisper (Radford et al., 2022): sound as a log-mel spectrogram, two convolutions, and attention.
//!
//! Weights have the names that Hugging Face's files give them (`model.encoder.layers.0.self_attn.q_proj.weight`). The spectrogram is Whisper's: frames of 400
//! samples every 160, of sound at 16,000 samples a second, through triangles that are even on Slaney's mel scale.
//!
//! Tests: `runtime/tests/models.rs`, against the `transformers` package on the same weights.

use std::panic::Location;

use warpweft_compiler::DType;

use super::module::{Module, Named, below};
use super::{Conv, LayerNorm, Linear, MultiHeadAttention};
use crate::tensor::{AttentionOptions, CallError, ConvOptions, Length, PadMode, Result, Tensor, within};

/// Samples in a second.
pub const SAMPLE_RATE: i64 = 16_000;
/// Samples of a frame.
const FRAME: i64 = 400;
/// Samples between the beginnings of frames.
const STEP: i64 = 160;
/// Frequencies of a frame's spectrum.
const BINS: i64 = FRAME / 2 + 1;

/// Sizes of an encoder of speech, by the names of its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeechSizes {
    /// `num_mel_bins`.
    pub bands: i64,
    /// `d_model`.
    pub width: i64,
    /// `encoder_layers`.
    pub layers: i64,
    /// `encoder_attention_heads`.
    pub heads: i64,
    /// `encoder_ffn_dim`.
    pub inner: i64,
    /// `max_source_positions`: half as many as there are frames.
    pub positions: i64,
}

impl SpeechSizes {
    /// Those of whisper-tiny, which hears 30 seconds.
    pub const TINY: SpeechSizes =
        SpeechSizes { bands: 80, width: 384, layers: 4, heads: 6, inner: 1536, positions: 1500 };

    /// Samples of the sound that it hears.
    pub fn samples(&self) -> i64 {
        self.positions * 2 * STEP
    }
}

/// Slaney's mel scale: even below 1,000 Hz, logarithmic above.
fn hertz_of(mel: f64) -> f64 {
    if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp() }
}

/// The other way round.
fn mel_of(hertz: f64) -> f64 {
    if hertz < 1000.0 { hertz * 3.0 / 200.0 } else { 15.0 + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln() }
}

/// A triangle over frequencies for each band, of equal areas: [bands, bins].
fn triangles(bands: i64) -> Vec<f64> {
    let most = mel_of(SAMPLE_RATE as f64 / 2.0);
    let edge = |number: i64| hertz_of(most * number as f64 / (bands + 1) as f64);
    let weight = |band: i64, bin: i64| {
        let [left, middle, right] = [edge(band), edge(band + 1), edge(band + 2)];
        let hertz = bin as f64 * SAMPLE_RATE as f64 / FRAME as f64;
        let height = ((hertz - left) / (middle - left)).min((right - hertz) / (right - middle)).max(0.0);
        height * 2.0 / (right - left)
    };
    (0..bands).flat_map(|band| (0..BINS).map(move |bin| weight(band, bin))).collect()
}

/// Cosines and sines of each frequency, each times Hann's window: [frame, 2 bins].
fn waves() -> Vec<f64> {
    let turn = |k: i64| k as f64 / FRAME as f64 * std::f64::consts::TAU;
    let window = |at: i64| 0.5 - 0.5 * turn(at).cos();
    let row = |at: i64| {
        // Whole turns are taken off, so that no digits are lost.
        let angles = (0..BINS).map(move |bin| turn(at * bin % FRAME));
        let both = angles.clone().map(f64::cos).chain(angles.map(f64::sin));
        both.map(move |wave| wave * window(at))
    };
    (0..FRAME).flat_map(row).collect()
}

/// The log-mel spectrogram of samples `[count]` between -1 and 1: [bands, count / 160], about -1 to 1.
#[track_caller]
pub fn log_mel(samples: &Tensor, bands: impl Length) -> Tensor {
    let bands = bands.length();
    let count = match samples.shape() {
        Ok(shape) if shape.len() == 1 && shape[0] as i64 > FRAME && (1..=1024).contains(&bands) => shape[0] as i64,
        Ok(shape) => {
            let message =
                format!("samples must be [count], more than {FRAME}, for 1 to 1024 bands; not {shape:?} for {bands}");
            return Tensor::refused("log_mel", message);
        }
        Err(error) => return Tensor::from_error(error),
    };
    let mirrored = samples.cast(DType::F64).pad_by(&[(FRAME / 2, FRAME / 2)], PadMode::Reflect);
    let frames = mirrored.unfold(0, FRAME, STEP).narrow(0, 0, count / STEP);
    let waves = frames.matmul(&Tensor::from_vec(waves(), [FRAME, 2 * BINS]));
    let power = waves.narrow(1, 0, BINS).square() + waves.narrow(1, BINS, BINS).square();
    let mel = Tensor::from_vec(triangles(bands), [bands, BINS]).matmul(&power.transpose(0, 1));
    let log = mel.clamp_min(1e-10).log10();
    // Nothing is more than 80 dB below the loudest.
    let floored = log.maximum(log.max(()) - 8.0);
    ((floored + 4.0) / 4.0).cast(DType::F32)
}

/// Attention and two matrices, each behind a norm and added to what it was made from.
#[derive(Clone, Debug)]
pub struct SpeechLayer {
    /// Before attention.
    pub attention_norm: LayerNorm,
    /// Attention; keys have no bias.
    pub attention: MultiHeadAttention,
    /// Before the matrices.
    pub norm: LayerNorm,
    /// To the inner width.
    pub inner: Linear,
    /// Back from it.
    pub outer: Linear,
}

impl SpeechLayer {
    /// What the layer makes of x [batch, positions, width].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        let x = x + self.attention.forward(&self.attention_norm.forward(x), &AttentionOptions::default());
        &x + self.outer.forward(&self.inner.forward(&self.norm.forward(&x)).gelu())
    }
}

/// An encoder of speech.
#[derive(Clone, Debug)]
pub struct SpeechEncoder {
    /// Its sizes.
    pub sizes: SpeechSizes,
    /// From bands to the width.
    pub first: Conv,
    /// Halves the number of positions.
    pub second: Conv,
    /// A row for each position.
    pub positions: Tensor,
    /// In their order.
    pub layers: Vec<SpeechLayer>,
    /// Of what the last gives.
    pub norm: LayerNorm,
}

impl SpeechEncoder {
    /// An encoder of tensors that `weight` gives for each name and shape.
    ///
    /// # Errors
    /// The closure's, or if a tensor has another shape than these sizes say.
    #[track_caller]
    pub fn new(sizes: &SpeechSizes, mut weight: impl FnMut(&str, &[i64]) -> Result<Tensor>) -> Result<SpeechEncoder> {
        let mut of = |name: &str, shape: &[i64]| -> Result<Tensor> {
            let name = format!("model.encoder.{name}");
            let tensor = weight(&name, shape)?;
            let found: Vec<i64> = tensor.shape()?.into_iter().map(|len| len as i64).collect();
            if found == shape {
                return Ok(tensor);
            }
            let message = format!("`{name}` has the shape {found:?}, and the sizes say {shape:?}");
            Err(CallError::new("SpeechEncoder", &[], message, std::panic::Location::caller()).into())
        };
        let SpeechSizes { bands, width, layers, positions, .. } = *sizes;
        let mut conv = |name: &str, inputs: i64, stride: i64| -> Result<Conv> {
            let options = ConvOptions::default().stride([stride]).padding([1]);
            let weight = of(&format!("{name}.weight"), &[width, inputs, 3])?;
            Ok(Conv { weight, bias: Some(of(&format!("{name}.bias"), &[width])?), options })
        };
        let (first, second) = (conv("conv1", bands, 1)?, conv("conv2", width, 2)?);
        let rows = of("embed_positions.weight", &[positions, width])?;
        let layers = (0..layers).map(|number| layer(sizes, number, &mut of)).collect::<Result<Vec<SpeechLayer>>>()?;
        let norm = norm("layer_norm", width, &mut of)?;
        Ok(SpeechEncoder { sizes: *sizes, first, second, positions: rows, layers, norm })
    }

    /// One of random weights, of the deviation that keeps sums at 1, with sines for positions.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn random(sizes: &SpeechSizes) -> Result<SpeechEncoder> {
        let _call = within(Location::caller());
        SpeechEncoder::new(sizes, |name, shape| {
            let fan: i64 = shape[1..].iter().product();
            let made = match name {
                _ if name.ends_with("embed_positions.weight") => {
                    Tensor::from_vec(sines(shape[0], shape[1]), shape.to_vec())
                }
                _ if name.ends_with("norm.weight") => Tensor::ones(shape.to_vec()),
                _ if name.ends_with(".bias") => Tensor::zeros(shape.to_vec()),
                _ => Tensor::randn(shape.to_vec()) / (fan as f64).sqrt(),
            };
            made.realize()?;
            Ok(made)
        })
    }

    /// What is heard at each position [batch, positions, width], of spectrograms [batch, bands, 2 positions] ([`log_mel`]).
    #[track_caller]
    pub fn forward(&self, spectrogram: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        let SpeechSizes { bands, positions, .. } = self.sizes;
        match spectrogram.shape() {
            Ok(shape) if shape.len() == 3 && shape[1..] == [bands as usize, 2 * positions as usize] => {}
            Ok(shape) => {
                let message = format!("a spectrogram must be [batch, {bands}, {}], not {shape:?}", 2 * positions);
                return Tensor::refused("SpeechEncoder", message);
            }
            Err(error) => return Tensor::from_error(error),
        }
        let x = self.second.forward(&self.first.forward(spectrogram).gelu()).gelu();
        let x = x.transpose(1, 2) + &self.positions;
        self.norm.forward(&self.layers.iter().fold(x, |x, layer| layer.forward(&x)))
    }
}

/// Sines and cosines of falling speeds: a row for each position.
fn sines(positions: i64, width: i64) -> Vec<f32> {
    let half = width / 2;
    let speed = |pair: i64| (-(10_000f64.ln()) * pair as f64 / (half - 1).max(1) as f64).exp();
    let row = |at: i64| {
        let angles = (0..half).map(move |pair| at as f64 * speed(pair));
        angles.clone().map(f64::sin).chain(angles.map(f64::cos)).map(|value| value as f32)
    };
    (0..positions).flat_map(row).collect()
}

fn norm(name: &str, width: i64, of: &mut impl FnMut(&str, &[i64]) -> Result<Tensor>) -> Result<LayerNorm> {
    let mut part = |part: &str| of(&format!("{name}.{part}"), &[width]);
    Ok(LayerNorm { shape: vec![width], weight: part("weight")?, bias: part("bias")?, eps: 1e-5 })
}

/// The layer of that number.
fn layer(sizes: &SpeechSizes, number: i64, of: &mut impl FnMut(&str, &[i64]) -> Result<Tensor>) -> Result<SpeechLayer> {
    let SpeechSizes { width, heads, inner, .. } = *sizes;
    let name = |part: &str| format!("layers.{number}.{part}");
    let attention_norm = norm(&name("self_attn_layer_norm"), width, of)?;
    let last = norm(&name("final_layer_norm"), width, of)?;
    let mut linear = |part: &str, inputs: i64, outputs: i64, has_bias: bool| -> Result<Linear> {
        let weight = of(&name(&format!("{part}.weight")), &[outputs, inputs])?;
        let bias = if has_bias { Some(of(&name(&format!("{part}.bias")), &[outputs])?) } else { None };
        Ok(Linear { weight, bias })
    };
    let attention = MultiHeadAttention {
        query: linear("self_attn.q_proj", width, width, true)?,
        key: linear("self_attn.k_proj", width, width, false)?,
        value: linear("self_attn.v_proj", width, width, true)?,
        output: linear("self_attn.out_proj", width, width, true)?,
        heads,
        key_heads: heads,
        rotary: None,
        rotary_divisors: None,
    };
    let (inner, outer) = (linear("fc1", width, inner, true)?, linear("fc2", inner, width, true)?);
    Ok(SpeechLayer { attention_norm, attention, norm: last, inner, outer })
}

impl Module for SpeechEncoder {
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    fn named_parameters(&self) -> Named {
        let mut named: Named = below("model.encoder.conv1", self.first.named_parameters()).collect();
        named.extend(below("model.encoder.conv2", self.second.named_parameters()));
        named.push(("model.encoder.embed_positions.weight".to_string(), self.positions.clone()));
        for (number, layer) in self.layers.iter().enumerate() {
            let parts: [(&str, &dyn Module); 8] = [
                ("self_attn.q_proj", &layer.attention.query),
                ("self_attn.k_proj", &layer.attention.key),
                ("self_attn.v_proj", &layer.attention.value),
                ("self_attn.out_proj", &layer.attention.output),
                ("self_attn_layer_norm", &layer.attention_norm),
                ("fc1", &layer.inner),
                ("fc2", &layer.outer),
                ("final_layer_norm", &layer.norm),
            ];
            let prefix = format!("model.encoder.layers.{number}");
            named.extend(
                parts.into_iter().flat_map(|(name, part)| below(&format!("{prefix}.{name}"), part.named_parameters())),
            );
        }
        named.extend(below("model.encoder.layer_norm", self.norm.named_parameters()));
        named
    }
}
