//! A network that takes a batch of any size: the size is a variable, and one compiled program serves all sizes up to its bound.
//!
//! Each batch is compared with the first rows of the largest, computed with plain numbers.
#![allow(clippy::print_stdout, reason = "this program is for reading")]

use std::time::Instant;

use warpweft::nn::Linear;
use warpweft::tensor::manual_seed;
use warpweft::{Result, Tensor, Var, registry};

const PIXELS: i64 = 64;
const BATCH_MAX: i64 = 256;

struct Network {
    first: Linear,
    second: Linear,
}

impl Network {
    fn new() -> Result<Network> {
        Ok(Network { first: Linear::new(PIXELS, 128, true)?, second: Linear::new(128, 10, true)? })
    }

    /// Probabilities of the ten digits for images [count, pixels].
    fn forward(&self, images: &Tensor) -> Tensor {
        self.second.forward(&self.first.forward(images).relu()).softmax(1)
    }
}

fn pixels(count: i64) -> Vec<f32> {
    (0..count * PIXELS).map(|k| ((k * 2_654_435_761) % 1000) as f32 / 1000.0).collect()
}

fn main() -> Result<()> {
    manual_seed(5);
    let network = Network::new()?;
    let batch = Var::new("batch", 1..=BATCH_MAX)?;
    let single = network.forward(&Tensor::from_vec(pixels(BATCH_MAX), [BATCH_MAX, PIXELS])).to_vec::<f32>()?;
    let before = registry::executor(None)?.stats();
    let mut most = 0f32;
    let started = Instant::now();
    for count in 1..=BATCH_MAX {
        let images = Tensor::from_vec(pixels(count), (batch.bind(count)?, PIXELS));
        let probabilities = network.forward(&images).to_vec::<f32>()?;
        let differences = probabilities.iter().zip(&single).map(|(a, b)| (a - b).abs());
        most = differences.fold(most, f32::max);
    }
    let each = started.elapsed().as_secs_f64() * 1e3 / BATCH_MAX as f64;
    let after = registry::executor(None)?.stats();
    println!(
        "batches of 1 to {BATCH_MAX}: {} program of {} kernels, {each:.3} ms a batch",
        after.schedules_made - before.schedules_made,
        (after.launches - before.launches) / BATCH_MAX as u64
    );
    println!("largest difference from one batch of {BATCH_MAX}: {most:e}");
    Ok(())
}
