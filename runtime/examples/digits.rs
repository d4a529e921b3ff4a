//! Trains a small convolutional network on real handwritten digits, and shows what it learned.
//!
//! The data: 1,797 digits of 8 x 8 pixels (see `runtime/data/README.md` for its credit). Four fifths are for training, the rest for
//! the test; the split is the same in every run. Every kernel that runs was written by the compiler: `DEBUG=4` prints them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use warpweft::nn::{Adam, Conv2d, Linear, Module, Optimizer};
use warpweft::tensor::{ClassOptions, ConvOptions, PoolOptions};
use warpweft::{DType, Tensor, compile, registry, spec};

#[path = "digits/data.rs"]
mod data;
use data::{Digits, Failure, PIXELS, SEED, shuffle};
#[allow(dead_code, reason = "some examples need less of it")]
mod terminal;
use terminal::parsed;

const USAGE: &str = "\
usage: digits [OPTIONS]

  --epochs N    how often the network sees the digits that it learns from [default: 12]
  --help        print this";

const BATCH: usize = 64;

/// The number of epochs.
fn options() -> Result<Option<usize>, String> {
    let (mut words, mut epochs) = (std::env::args().skip(1), 12);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--epochs" => epochs = parsed(&word, words.next())?,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(Some(epochs))
}

fn main() -> std::process::ExitCode {
    terminal::program("digits", USAGE, options(), |&epochs| run(epochs))
}

fn run(epochs: usize) -> Result<(), Failure> {
    let started = Instant::now();
    warpweft::tensor::manual_seed(SEED);
    let digits = Digits::read()?;
    let (train, test) = digits.split();
    println!("{} digits to learn from, {} to be tested on", train.len(), test.len());
    let network = Network::new()?;
    let times = fit(&network, &digits, &train, epochs)?;
    let predicted = network.predict(&digits, &test)?;
    let right = test.iter().zip(&predicted).filter(|(digit, guess)| digits.labels[**digit] == **guess).count();
    println!("test accuracy {:.2} % ({right} of {})", 100.0 * right as f64 / test.len() as f64, test.len());
    println!("time per step {:.2} ms (median of {})", median(times.clone()).as_secs_f64() * 1e3, times.len());
    let stats = registry::executor(None)?.stats();
    println!(
        "kernels: {} compiled, {} from the cache on disk; {} launches; {:.1} s in all",
        stats.kernels_compiled,
        stats.kernels_from_disk,
        stats.launches,
        started.elapsed().as_secs_f64()
    );
    draw(&digits, &test[..6], &predicted[..6]);
    Ok(())
}

/// Two convolutions, each halved by pooling, then one linear layer.
#[derive(Module)]
struct Network {
    first: Conv2d,
    second: Conv2d,
    last: Linear,
}

impl Network {
    fn new() -> Result<Network, Failure> {
        let same = || ConvOptions::default().padding([1]);
        Ok(Network {
            first: Conv2d::new(1, 16, 3, same())?,
            second: Conv2d::new(16, 32, 3, same())?,
            last: Linear::new(128, 10, true)?,
        })
    }

    fn forward(&self, images: &Tensor) -> Tensor {
        let pool = PoolOptions::default().kernel([2]).stride([2]);
        let halved = self.first.forward(images).relu().max_pool(&pool);
        let quartered = self.second.forward(&halved).relu().max_pool(&pool);
        self.last.forward(&quartered.flatten(1, -1))
    }

    fn predict(&self, digits: &Digits, numbers: &[usize]) -> Result<Vec<i32>, Failure> {
        Ok(self.forward(&digits.images(numbers)).argmax(Some(1), false).to_vec::<i32>()?)
    }
}

/// Trains, and gives the time of each step.
fn fit(network: &Network, digits: &Digits, train: &[usize], epochs: usize) -> Result<Vec<Duration>, Failure> {
    let mut optimizer = Adam::new(network.parameters(), 0.004)?;
    // Traced once: forward, backward and optimizer are one program, which every call runs over its batch and the weights as they are.
    let step =
        compile([spec(DType::F32, [BATCH as i64, 1, 8, 8]), spec(DType::I32, [BATCH as i64])], |[images, targets]| {
            let loss = network.forward(&images).cross_entropy(&targets, &ClassOptions::default());
            optimizer.step(&loss)?;
            Ok([loss])
        })?;
    let steps = train.len() / BATCH;
    let progress = ProgressBar::new((epochs * steps) as u64);
    progress.set_style(ProgressStyle::with_template("training {bar:32} {pos}/{len} {msg}")?);
    let mut order = train.to_vec();
    let mut seed = SEED + 1;
    let mut times = Vec::new();
    for epoch in 0..epochs {
        shuffle(&mut order, &mut seed);
        let mut total = 0.0;
        for batch in order.chunks_exact(BATCH) {
            let start = Instant::now();
            let [loss] = step.call([&digits.images(batch), &digits.targets(batch)])?;
            total += loss.item::<f32>()?;
            times.push(start.elapsed());
            progress.inc(1);
        }
        progress.set_message(format!("loss {:.4}", total / steps as f32));
        if progress.is_hidden() {
            println!("epoch {:2}  loss {:.4}", epoch + 1, total / steps as f32);
        }
    }
    progress.finish();
    Ok(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Draws digits side by side, two pixels a character cell, with what the network takes them for below.
fn draw(digits: &Digits, numbers: &[usize], predicted: &[i32]) {
    const SHADES: [char; 5] = [' ', '.', 'o', 'O', '@'];
    for row in 0..8 {
        let lines = numbers.iter().map(|&digit| {
            let pixels = &digits.pixels[digit * PIXELS + row * 8..][..8];
            pixels.iter().flat_map(|&pixel| [SHADES[(pixel * 4.0).round() as usize]; 2]).collect::<String>()
        });
        println!("  {}", lines.collect::<Vec<_>>().join("   "));
    }
    let captions = numbers.iter().zip(predicted).map(|(&digit, guess)| {
        let truth = digits.labels[digit];
        let mark = if truth == *guess { String::new() } else { format!(" (is {truth})") };
        format!("{:<16}", format!("looks like {guess}{mark}"))
    });
    println!("  {}", captions.collect::<Vec<_>>().join("   "));
}
