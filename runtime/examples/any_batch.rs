//! A network that takes a batch of any size: the size is a variable, and one compiled program serves all sizes up to its bound.
//!
//! Each batch is compared with the first rows of the largest, computed with plain numbers.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::time::Instant;

use warpweft::nn::Linear;
use warpweft::tensor::manual_seed;
use warpweft::{Result, Tensor, Var, registry};

#[allow(dead_code, reason = "some examples need less of it")]
mod terminal;
use terminal::{Failure, parsed};

const USAGE: &str = "\
usage: any_batch [OPTIONS]

  --largest N   the largest batch; all from 1 on are computed [default: 256]
  --help        print this";

const PIXELS: i64 = 64;

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

/// The largest batch.
fn options() -> std::result::Result<Option<i64>, String> {
    let (mut words, mut largest) = (std::env::args().skip(1), 256);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--largest" => largest = parsed(&word, words.next())?,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    if largest < 1 {
        return Err(format!("--largest cannot be {largest}"));
    }
    Ok(Some(largest))
}

fn main() -> std::process::ExitCode {
    terminal::program("any_batch", USAGE, options(), |&largest| run(largest))
}

fn run(largest: i64) -> std::result::Result<(), Failure> {
    manual_seed(5);
    let network = Network::new()?;
    let batch = Var::new("batch", 1..=largest)?;
    let single = network.forward(&Tensor::from_vec(pixels(largest), [largest, PIXELS])).to_vec::<f32>()?;
    let before = registry::executor(None)?.stats();
    let mut most = 0f32;
    let started = Instant::now();
    for count in 1..=largest {
        let images = Tensor::from_vec(pixels(count), (batch.bind(count)?, PIXELS));
        let probabilities = network.forward(&images).to_vec::<f32>()?;
        let differences = probabilities.iter().zip(&single).map(|(a, b)| (a - b).abs());
        most = differences.fold(most, f32::max);
    }
    let each = started.elapsed().as_secs_f64() * 1e3 / largest as f64;
    let after = registry::executor(None)?.stats();
    println!(
        "batches of 1 to {largest}: {} program of {} kernels, {each:.3} ms a batch",
        after.schedules_made - before.schedules_made,
        (after.launches - before.launches) / largest as u64
    );
    println!("largest difference from one batch of {largest}: {most:e}");
    Ok(())
}
