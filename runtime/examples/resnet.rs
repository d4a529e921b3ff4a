//! Trains a residual network with batch normalisation on handwritten digits, the data of the demo (`digits`).
//!
//! `cargo run --release -p warpweft --example resnet`. A step is one compiled program: forward, by the batch's statistics, which enter the running ones, backward,
//! and the optimizer; the test goes by the running statistics. `--save` keeps the weights, under torchvision's names.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use warpweft::formats::safetensors;
use warpweft::nn::{Adam, Module, Optimizer, ResNet, Schedule};
use warpweft::tensor::{ClassOptions, manual_seed};
use warpweft::{DType, Tensor, compile, spec};

#[path = "digits/data.rs"]
mod data;
mod terminal;
use data::{Digits, shuffle};
use terminal::{Failure, bar, parsed};

const USAGE: &str = "\
usage: resnet [OPTIONS]

  --epochs N      how often all digits are seen [default: 8]
  --widths A,B    channels of each stage [default: 16,32]
  --blocks N      residual blocks of each stage [default: 2]
  --seed N        the same seed learns the same [default: 7]
  --save FILE     write the weights, as safetensors
  --help          print this";

const BATCH: usize = 64;

struct Options {
    epochs: usize,
    widths: Vec<i64>,
    blocks: usize,
    seed: u64,
    save: Option<PathBuf>,
}

fn options() -> Result<Option<Options>, String> {
    let mut words = std::env::args().skip(1);
    let mut options = Options { epochs: 8, widths: vec![16, 32], blocks: 2, seed: data::SEED, save: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--epochs" => options.epochs = parsed(&word, words.next())?,
            "--blocks" => options.blocks = parsed(&word, words.next())?,
            "--seed" => options.seed = parsed(&word, words.next())?,
            "--save" => options.save = Some(parsed(&word, words.next())?),
            "--widths" => {
                let list: String = parsed(&word, words.next())?;
                let widths = list.split(',').map(|width| width.parse().ok().filter(|width| (1..=4096).contains(width)));
                options.widths = widths.collect::<Option<_>>().ok_or(format!("--widths cannot be {list}"))?;
            }
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(Some(options))
}

fn train(options: &Options, digits: &Digits, train: &[usize], network: &ResNet) -> Result<(), Failure> {
    let mut optimizer = Adam::with(network.parameters(), 0.01, (0.9, 0.999), 1e-8, 0.01)?;
    let rate = optimizer.rate().clone();
    let started = Instant::now();
    let specs = [spec(DType::F32, [BATCH as i64, 1, 8, 8]), spec(DType::I32, [BATCH as i64])];
    let step = compile(specs, |[images, targets]| -> warpweft::Result<[Tensor; 1]> {
        let loss = network.forward_training(&images)?.cross_entropy(&targets, &ClassOptions::default());
        optimizer.step(&loss)?;
        Ok([loss])
    })?;
    println!("compiled in {:.1} s: {} kernels a step", started.elapsed().as_secs_f64(), step.kernels());
    let steps = train.len() / BATCH;
    let shown = bar((options.epochs * steps) as u64, "training");
    let schedule = Schedule::Cosine { rate: 0.01, least: 1e-4, steps: (options.epochs * steps) as u64 };
    let (mut order, mut seed, started) = (train.to_vec(), options.seed, Instant::now());
    for epoch in 0..options.epochs {
        shuffle(&mut order, &mut seed);
        let mut total = 0.0;
        for (number, batch) in order.chunks_exact(BATCH).enumerate() {
            schedule.set(&rate, (epoch * steps + number) as u64)?;
            let [loss] = step.call([&digits.images(batch), &digits.targets(batch)])?;
            total += loss.item::<f32>()? / steps as f32;
            shown.inc(1);
        }
        shown.set_message(format!("loss {total:.4}"));
        if shown.is_hidden() {
            println!("epoch {:2}  loss {total:.4}", epoch + 1);
        }
    }
    shown.finish_and_clear();
    let each = started.elapsed().as_secs_f64() * 1e3 / (options.epochs * steps).max(1) as f64;
    println!("trained in {:.1} s, {each:.1} ms a step of {BATCH} digits", started.elapsed().as_secs_f64());
    Ok(())
}

fn run(options: &Options) -> Result<(), Failure> {
    manual_seed(options.seed);
    let digits = Digits::read()?;
    let (training, test) = digits.split();
    let network = ResNet::new(1, &options.widths, options.blocks, 10)?;
    let count: usize =
        network.parameters().iter().map(|tensor| tensor.shape().map_or(0, |shape| shape.iter().product())).sum();
    println!("{} digits to learn from, {} to be tested on; {count} numbers to learn", training.len(), test.len());
    train(options, &digits, &training, &network)?;
    let guessed = network.forward(&digits.images(&test)).argmax(Some(1), false).to_vec::<i32>()?;
    let right = test.iter().zip(&guessed).filter(|(digit, guess)| digits.labels[**digit] == **guess).count();
    println!("test accuracy {:.2} % ({right} of {})", 100.0 * right as f64 / test.len() as f64, test.len());
    if let Some(path) = &options.save {
        let state = network.state_dict();
        let named = state.iter().map(|(name, tensor)| (name.as_str(), tensor));
        safetensors::save(path, named, &BTreeMap::new())?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    terminal::program("resnet", USAGE, options(), run)
}
