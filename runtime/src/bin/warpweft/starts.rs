//! The bench cases `encoder_cold` and `encoder_warm`: how long it takes from the start of a process to the first result of a
//! transformer encoder, with an empty cache folder and with one that a run before has filled.
//!
//! The encoder has the sizes of all-MiniLM-L6-v2 behind its embeddings: 6 layers of width 384 with 12 heads and an inner width of 1536, over
//! 8 sentences of 128 positions. The process measured is this program, started as a child; it says when it had the result, how long
//! it took to make the weights, and how long a second run took, which is what remains when everything is ready.

use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::{Deserialize, Serialize};
use warpweft::nn::{EncoderLayer, LayerNorm, Linear};
use warpweft::{Tensor, registry};

use crate::bench::{Bench, Failure, duration};

/// Sizes of an encoder.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Sizes {
    #[arg(long, default_value_t = 6)]
    layers: usize,
    #[arg(long, default_value_t = 384)]
    width: i64,
    #[arg(long, default_value_t = 12)]
    heads: i64,
    #[arg(long, default_value_t = 1536)]
    inner: i64,
    #[arg(long, default_value_t = 8)]
    batch: i64,
    #[arg(long, default_value_t = 128)]
    positions: i64,
}

/// Those of all-MiniLM-L6-v2.
pub(crate) const MINILM: Sizes = Sizes { layers: 6, width: 384, heads: 12, inner: 1536, batch: 8, positions: 128 };

/// What a child tells.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    /// Seconds since 1970 when the first result was there.
    result_at: f64,
    /// Seconds that making the weights took.
    weights: f64,
    /// Seconds from the weights to the first result.
    first: f64,
    /// Seconds of a second run.
    second: f64,
    schedules_made: u64,
    schedules_from_disk: u64,
    lowered: u64,
    compiled: u64,
    from_disk: u64,
    sum: f32,
}

/// Seeded numbers between -bound and bound.
struct Numbers(u64);

impl Numbers {
    fn tensor(&mut self, shape: &[i64], bound: f32) -> Tensor {
        let count: i64 = shape.iter().product();
        let mut next = || {
            // The generator of Knuth's MMIX.
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * bound
        };
        Tensor::from_vec((0..count).map(|_| next()).collect::<Vec<f32>>(), shape.to_vec())
    }

    fn linear(&mut self, inputs: i64, outputs: i64) -> Linear {
        let bound = 1.0 / (inputs as f32).sqrt();
        Linear { weight: self.tensor(&[outputs, inputs], bound), bias: Some(self.tensor(&[outputs], bound)) }
    }

    fn norm(&mut self, width: i64) -> LayerNorm {
        let (weight, bias) = (self.tensor(&[width], 1.0), self.tensor(&[width], 0.1));
        LayerNorm { shape: vec![width], weight, bias, eps: 1e-12 }
    }
}

/// The encoder's layers and an input.
pub(crate) fn encoder(sizes: Sizes) -> (Vec<EncoderLayer>, Tensor) {
    let Sizes { layers, width, heads, inner, batch, positions } = sizes;
    let mut numbers = Numbers(1);
    let layers = (0..layers).map(|_| EncoderLayer {
        query: numbers.linear(width, width),
        key: numbers.linear(width, width),
        value: numbers.linear(width, width),
        output: numbers.linear(width, width),
        attention_norm: numbers.norm(width),
        inner: numbers.linear(width, inner),
        outer: numbers.linear(inner, width),
        norm: numbers.norm(width),
        heads,
    });
    let layers = layers.collect();
    (layers, numbers.tensor(&[batch, positions, width], 1.0))
}

/// What the layers make of an input.
pub(crate) fn encoded(layers: &[EncoderLayer], x: &Tensor) -> Tensor {
    layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
}

/// Runs the encoder and tells about it: the command that the cases start.
pub(crate) fn child(sizes: Sizes) -> Result<(), Failure> {
    let started = Instant::now();
    let (layers, x) = encoder(sizes);
    let weights = started.elapsed();
    let sum = encoded(&layers, &x).abs().mean(()).item::<f32>()?;
    let (first, result_at) = (started.elapsed() - weights, SystemTime::now().duration_since(UNIX_EPOCH)?);
    let again = Instant::now();
    let other = x.flip(0).contiguous();
    other.realize()?;
    encoded(&layers, &other).abs().mean(()).item::<f32>()?;
    let second = again.elapsed();
    let stats = registry::executor(None)?.stats();
    let start = Start {
        result_at: result_at.as_secs_f64(),
        weights: weights.as_secs_f64(),
        first: first.as_secs_f64(),
        second: second.as_secs_f64(),
        schedules_made: stats.schedules_made,
        schedules_from_disk: stats.schedules_from_disk,
        lowered: stats.kernels_lowered,
        compiled: stats.kernels_compiled,
        from_disk: stats.kernels_from_disk,
        sum,
    };
    println!("{}", serde_json::to_string(&start)?);
    Ok(())
}

/// Starts the encoder with this cache folder; seconds from the start to the result, and what it told.
fn start(folder: &Path) -> Result<(f64, Start), Failure> {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let output =
        Command::new(std::env::current_exe()?).arg("encoder-start").env("WARPWEFT_CACHE_DIR", folder).output()?;
    if !output.status.success() {
        return Err(format!("the encoder failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let told: Start = serde_json::from_slice(&output.stdout)?;
    Ok((told.result_at - begin, told))
}

/// Times starts, each in a process of its own: the median of some.
pub(crate) fn run(arguments: &Bench, name: &str) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
    let is_cold = name == "encoder_cold";
    let rounds = if is_cold { 3 } else { 7 };
    let mut starts = Vec::new();
    if !is_cold {
        start(&folder)?;
    }
    for _ in 0..rounds {
        if is_cold {
            remove(&folder)?;
        }
        starts.push(start(&folder)?);
    }
    remove(&folder)?;
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (total, told) = &starts[starts.len() / 2];
    let beyond = (total - told.weights - told.second).max(0.0);
    if arguments.json {
        let line = serde_json::json!({
            "peer": "warpweft", "case": name, "median_s": total, "min_s": starts[0].0, "beyond_s": beyond, "weights_s": told.weights,
            "run_s": told.second, "kernels_compiled": told.compiled, "kernels_from_disk": told.from_disk,
        });
        println!("{line}");
    } else {
        println!(
            "{name:<22} median {:>11} min {:>11} beyond weights and run {:>11} (weights {}, run {}; {} kernels compiled, {} from disk)",
            duration(*total),
            duration(starts[0].0),
            duration(beyond),
            duration(told.weights),
            duration(told.second),
            told.compiled,
            told.from_disk,
        );
    }
    Ok(())
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
