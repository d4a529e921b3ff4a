//! Learns to write, character by character, from one text, and then writes.
//!
//! `cargo run --release -p warpweft --example gpt`: without `--text` from this project's own README. The model is a small decoder of the family of Llama; forward,
//! backward, clipping and the optimizer are one compiled program, and so is what writes a character at any position.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use warpweft::nn::{Adam, Decoder, DecoderSizes, Generator, Module, Optimizer, Sampler, Schedule, clip_by_norm};
use warpweft::tensor::{ClassOptions, manual_seed};
use warpweft::{DType, Function, Tensor, compile, spec};

mod terminal;
use terminal::{Failure, bar, parsed};

const USAGE: &str = "\
usage: gpt [OPTIONS]

  --text FILE         learn from this text [default: the README of Warpweft]
  --steps N           steps of training, each over 16 pieces of 64 characters [default: 600]
  --layers N          layers of the model, each 128 wide [default: 3]
  --write N           characters to write at last [default: 400]
  --temperature X     0 always takes the likeliest character [default: 0.7]
  --seed N            the same seed learns and writes the same [default: 1]
  --help              print this";

/// What is learned from without `--text`.
const README: &str = include_str!("../../README.md");
/// Pieces of a step.
const BATCH: usize = 16;
/// Characters of a piece.
const PIECE: usize = 64;
/// This much of the text is for training, the rest for the test.
const TRAINING_SHARE: f64 = 0.9;

struct Options {
    text: Option<PathBuf>,
    steps: usize,
    layers: i64,
    write: usize,
    temperature: f64,
    seed: u64,
}

fn options() -> Result<Option<Options>, String> {
    let mut words = std::env::args().skip(1);
    let mut options = Options { text: None, steps: 600, layers: 3, write: 400, temperature: 0.7, seed: 1 };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--text" => options.text = Some(parsed(&word, words.next())?),
            "--steps" => options.steps = parsed(&word, words.next())?,
            "--layers" => options.layers = parsed(&word, words.next())?,
            "--write" => options.write = parsed(&word, words.next())?,
            "--temperature" => options.temperature = parsed(&word, words.next())?,
            "--seed" => options.seed = parsed(&word, words.next())?,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(Some(options))
}

/// A text as numbers of its characters.
struct Corpus {
    characters: Vec<char>,
    training: Vec<i32>,
    test: Vec<i32>,
}

impl Corpus {
    fn of(text: &str) -> Result<Corpus, Failure> {
        let characters: Vec<char> = text.chars().collect::<BTreeSet<char>>().into_iter().collect();
        // Each is there.
        let number = |letter: char| characters.binary_search(&letter).map_or(0, |number| number as i32);
        let mut training: Vec<i32> = text.chars().map(number).collect();
        let test = training.split_off((training.len() as f64 * TRAINING_SHARE) as usize);
        if test.len() <= PIECE + 1 {
            return Err(format!("a text of {} characters is too short to learn from", text.chars().count()).into());
        }
        Ok(Corpus { characters, training, test })
    }
}

/// Pieces of a text from anywhere in it, and what comes after each of their characters.
fn pieces(text: &[i32], seed: &mut u64) -> [Tensor; 2] {
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..BATCH {
        // The upper bits of a linear congruential generator.
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (*seed >> 33) as usize % (text.len() - PIECE);
        inputs.extend_from_slice(&text[at..at + PIECE]);
        targets.extend_from_slice(&text[at + 1..=at + PIECE]);
    }
    let count = (BATCH * PIECE) as i64;
    [Tensor::from_vec(inputs, [BATCH as i64, PIECE as i64]), Tensor::from_vec(targets, [count])]
}

fn loss(decoder: &Decoder, inputs: &Tensor, targets: &Tensor) -> Tensor {
    let logits = decoder.forward(inputs).reshape([(BATCH * PIECE) as i64, decoder.sizes.vocabulary]);
    logits.cross_entropy(targets, &ClassOptions::default())
}

/// One step of training, and a look at the loss alone.
fn programs(decoder: &Decoder, optimizer: &mut Adam) -> warpweft::Result<[Function<2, 1>; 2]> {
    let specs = || [spec(DType::I32, [BATCH, PIECE].map(|len| len as i64)), spec(DType::I32, [(BATCH * PIECE) as i64])];
    let step = compile(specs(), |[inputs, targets]| -> warpweft::Result<[Tensor; 1]> {
        let loss = loss(decoder, &inputs, &targets);
        let gradients = loss.gradient(&optimizer.parameters().iter().collect::<Vec<_>>())?;
        let (clipped, _) = clip_by_norm(&gradients, 1.0)?;
        optimizer.update(&clipped)?;
        Ok([loss])
    })?;
    let look = compile(specs(), |[inputs, targets]| [loss(decoder, &inputs, &targets)])?;
    Ok([step, look])
}

fn train(options: &Options, corpus: &Corpus, decoder: &Decoder) -> Result<(), Failure> {
    let started = Instant::now();
    let mut optimizer = Adam::with(decoder.parameters(), 3e-3, (0.9, 0.99), 1e-8, 0.1)?;
    let rate = optimizer.rate().clone();
    let [step, look] = programs(decoder, &mut optimizer)?;
    println!("compiled in {:.1} s: {} kernels a step", started.elapsed().as_secs_f64(), step.kernels());
    let (shown, started) = (bar(options.steps as u64, "learning"), Instant::now());
    let warmup = (options.steps / 20).max(1) as u64;
    let schedule = Schedule::Cosine { rate: 3e-3, least: 3e-4, steps: options.steps as u64 }.after_warmup(warmup);
    let mut seed = options.seed;
    for number in 0..options.steps {
        schedule.set(&rate, number as u64)?;
        let [inputs, targets] = pieces(&corpus.training, &mut seed);
        let [loss] = step.call([&inputs, &targets])?;
        if number % 100 == 0 || number + 1 == options.steps {
            let loss = loss.item::<f32>()?;
            shown.set_message(format!("loss {loss:.3}"));
            if shown.is_hidden() {
                println!("step {number:5}  loss {loss:.3}");
            }
        }
        shown.inc(1);
    }
    shown.finish_and_clear();
    let elapsed = started.elapsed().as_secs_f64();
    let mut total = 0.0;
    for _ in 0..8 {
        let [inputs, targets] = pieces(&corpus.test, &mut seed);
        let [loss] = look.call([&inputs, &targets])?;
        total += loss.item::<f32>()? / 8.0;
    }
    println!(
        "learned in {elapsed:.1} s, {:.1} ms a step; loss {total:.3} on text that it has not seen",
        elapsed * 1e3 / options.steps.max(1) as f64
    );
    Ok(())
}

/// Writes after a line break; from time to time what came before the last half of a piece is forgotten.
fn write(options: &Options, corpus: &Corpus, decoder: &Decoder) -> Result<String, Failure> {
    let mut sampler = Sampler::new(options.temperature, 0, 1.0, options.seed)?;
    let mut text = Generator::new(decoder, PIECE as i64)?;
    let first = corpus.characters.iter().position(|&letter| letter == '\n').unwrap_or(0) as i32;
    let mut tokens = vec![first];
    let mut logits = text.feed(&tokens)?;
    for _ in 0..options.write {
        let Some(token) = sampler.draw(&logits) else { return Err("the model gives no finite numbers".into()) };
        tokens.push(token as i32);
        logits = if text.room() > 0 {
            text.feed(&[token as i32])?
        } else {
            text.truncate(0);
            text.feed(&tokens[tokens.len() - PIECE / 2..])?
        };
    }
    Ok(tokens[1..].iter().map(|&token| corpus.characters[token as usize]).collect())
}

fn run(options: &Options) -> Result<(), Failure> {
    let own;
    let text = match &options.text {
        Some(path) => {
            own = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            own.as_str()
        }
        None => README,
    };
    manual_seed(options.seed);
    let corpus = Corpus::of(text)?;
    let sizes = DecoderSizes {
        layers: options.layers,
        width: 128,
        heads: 4,
        key_heads: 4,
        inner: 352,
        vocabulary: corpus.characters.len() as i64,
        positions: PIECE as i64,
        ..DecoderSizes::SMALL
    };
    let decoder = Decoder::random(&sizes)?;
    let count: usize =
        decoder.parameters().iter().map(|tensor| tensor.shape().map_or(0, |shape| shape.iter().product())).sum();
    let (seen, distinct) = (corpus.training.len() + corpus.test.len(), corpus.characters.len());
    println!("{seen} characters, {distinct} different ones; {count} numbers to learn");
    train(options, &corpus, &decoder)?;
    let started = Instant::now();
    let written = write(options, &corpus, &decoder)?;
    println!("wrote {} characters in {:.1} s:\n\n{written}", options.write, started.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> std::process::ExitCode {
    terminal::program("gpt", USAGE, options(), run)
}
