//! Writes a text with a model of the family of Llama, and says how fast.
//!
//! `cargo run --release -p warpweft --example llama -- --model FILE.gguf "Once upon a time"`, or with a folder that holds `config.json`,
//! `tokenizer.json` and `model.safetensors` (or its shards). Without a model: random weights of a small one, whose tokens are bytes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::ProgressBar;
use warpweft::formats::{self, Dictionary, gguf};
use warpweft::nn::{Decoder, DecoderSizes, Generator, Sampler};

#[path = "llama/config.rs"]
mod config;
mod terminal;
#[path = "llama/vocabulary.rs"]
mod vocabulary;
use terminal::{Failure, bar, parsed};
use vocabulary::Vocabulary;

const USAGE: &str = "\
usage: llama [--model PATH] [OPTIONS] [PROMPT]

  --model PATH        a GGUF file, or a folder with config.json, tokenizer.json and model.safetensors; without it, random weights
  --tokenizer PATH    a tokenizer.json, in the place of the model's own
  --tokens N          tokens to write [default: 128]
  --positions N       room for the text, prompt included [default: what the prompt and the tokens take]
  --temperature X     0 always takes the likeliest token [default: 0.8]
  --top-k N           only among the N likeliest; 0 for all [default: 40]
  --top-p X           only among the likeliest that share X [default: 0.95]
  --seed N            the same seed writes the same text [default: 1]
  --help              print this";

struct Arguments {
    model: Option<PathBuf>,
    tokenizer: Option<PathBuf>,
    tokens: usize,
    positions: Option<i64>,
    temperature: f64,
    top_k: usize,
    top_p: f64,
    seed: u64,
    prompt: String,
}

/// None if help is asked for.
fn arguments() -> Result<Option<Arguments>, String> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        model: None,
        tokenizer: None,
        tokens: 128,
        positions: None,
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        seed: 1,
        prompt: String::new(),
    };
    let mut texts = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--model" => arguments.model = Some(parsed(&word, words.next())?),
            "--tokenizer" => arguments.tokenizer = Some(parsed(&word, words.next())?),
            "--tokens" => arguments.tokens = parsed(&word, words.next())?,
            "--positions" => arguments.positions = Some(parsed(&word, words.next())?),
            "--temperature" => arguments.temperature = parsed(&word, words.next())?,
            "--top-k" => arguments.top_k = parsed(&word, words.next())?,
            "--top-p" => arguments.top_p = parsed(&word, words.next())?,
            "--seed" => arguments.seed = parsed(&word, words.next())?,
            _ if word.starts_with("--") => return Err(format!("there is no option {word}")),
            _ => texts.push(word),
        }
    }
    arguments.prompt = if texts.is_empty() { "Once upon a time".to_string() } else { texts.join(" ") };
    Ok(Some(arguments))
}

/// Reads all weights, so that the first token does not wait for them.
fn read(weights: &Dictionary) -> Result<(), Failure> {
    let shown = bar(weights.bytes(), "reading");
    weights.load(|progress| shown.set_position(progress.done))?;
    shown.finish_and_clear();
    Ok(())
}

/// The decoder and its vocabulary, with what it is.
fn load(arguments: &Arguments) -> Result<(Decoder, Vocabulary, String), Failure> {
    let own = arguments.tokenizer.as_deref();
    let Some(model) = &arguments.model else {
        warpweft::tensor::manual_seed(arguments.seed);
        let vocabulary = own.map_or(Ok(Vocabulary::bytes()), |path| Vocabulary::of_file(path, None))?;
        return Ok((Decoder::random(&DecoderSizes::SMALL)?, vocabulary, "random weights".to_string()));
    };
    if model.is_dir() {
        let config = config::read(&model.join("config.json"))?;
        let path = own.map_or_else(|| model.join("tokenizer.json"), Path::to_path_buf);
        let vocabulary = Vocabulary::of_file(&path, Some(&config))?;
        let single = model.join("model.safetensors");
        let weights =
            formats::load(if single.is_file() { single } else { model.join("model.safetensors.index.json") })?;
        read(&weights)?;
        let decoder = Decoder::new(&config.sizes, |name, _| weights.tensor(name))?;
        return Ok((decoder, vocabulary, format!("{:.1} MB of {}", weights.bytes() as f64 / 1e6, model.display())));
    }
    let file = gguf::load(model)?;
    let vocabulary = match own {
        Some(path) => Vocabulary::of_file(path, None)?,
        None => Vocabulary::of_gguf(&file).map_err(|why| format!("{}: {why}", model.display()))?,
    };
    let decoder = Decoder::of_gguf(&file)?;
    read(&file.tensors)?;
    Ok((decoder, vocabulary, format!("{:.1} MB of {}", file.tensors.bytes() as f64 / 1e6, model.display())))
}

fn write(arguments: &Arguments) -> Result<(), Failure> {
    let mut sampler = Sampler::new(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)?;
    let (decoder, vocabulary, what) = load(arguments)?;
    let prompt = vocabulary.encode(&arguments.prompt)?;
    if let Some(other) = prompt.iter().find(|&&token| i64::from(token) >= decoder.sizes.vocabulary) {
        return Err(
            format!("the tokenizer gives token {other}, and the model knows {}", decoder.sizes.vocabulary).into()
        );
    }
    let needed = (prompt.len() + arguments.tokens) as i64;
    let positions = arguments.positions.unwrap_or(needed.min(decoder.sizes.positions));
    let compiling = ProgressBar::new_spinner().with_message("compiling");
    compiling.enable_steady_tick(std::time::Duration::from_millis(100));
    let started = Instant::now();
    let mut text = Generator::new(&decoder, positions)?;
    compiling.finish_and_clear();
    let compiled = started.elapsed();
    let started = Instant::now();
    let mut logits = text.feed(&prompt)?;
    let read = started.elapsed();
    print!("{}", arguments.prompt);
    let (mut written, mut shown, started) = (Vec::new(), String::new(), Instant::now());
    while written.len() < arguments.tokens && text.room() > 0 {
        let Some(token) = sampler.draw(&logits) else { return Err("the model gave no finite number".into()) };
        if vocabulary.is_end(token as i32) {
            break;
        }
        written.push(token as i32);
        // All of it anew: a character may be made of several tokens.
        let all = vocabulary.decode(&written)?;
        if let Some(more) = all.strip_prefix(&shown).filter(|_| !all.ends_with('\u{fffd}')) {
            print!("{more}");
            std::io::stdout().flush()?;
            shown = all;
        }
        logits = text.feed(&[token as i32])?;
    }
    let elapsed = started.elapsed().as_secs_f64();
    println!("\n");
    println!(
        "{what}: {} layers, {} wide, {} tokens known",
        decoder.sizes.layers, decoder.sizes.width, decoder.sizes.vocabulary
    );
    println!(
        "compiled in {:.2} s: {} kernels a token, {:.1} MB of keys and values for {positions} positions",
        compiled.as_secs_f64(),
        text.kernels(),
        text.cache_bytes() as f64 / 1e6
    );
    let rate = |count: usize, seconds: f64| count as f64 / seconds.max(1e-9);
    println!("prompt: {} tokens, {:.1} tokens per second", prompt.len(), rate(prompt.len(), read.as_secs_f64()));
    println!("written: {} tokens, {:.1} tokens per second", written.len(), rate(written.len(), elapsed));
    Ok(())
}

fn main() -> std::process::ExitCode {
    terminal::program("llama", USAGE, arguments(), write)
}
