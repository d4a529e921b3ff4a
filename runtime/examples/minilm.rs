//! Embeddings of sentences by all-MiniLM-L6-v2, and how near they are to each other.
//!
//! `cargo run --release -p warpweft --example minilm -- --model DIR "one sentence" "another"`, where DIR holds `config.json`,
//! `model.safetensors` and `tokenizer.json` of the model. With `--json` a line for each sentence.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::path::{Path, PathBuf};

use tokenizers::{Tokenizer, TruncationParams};
use warpweft::formats::{self, Dictionary};
use warpweft::nn::{SentenceEncoder, SentenceSizes};
use warpweft::{Result, Tensor};

mod terminal;
use terminal::{Failure, bar, parsed};

const USAGE: &str = "\
usage: minilm --model DIR [--json] [--positions N] SENTENCE...

  --model DIR      folder with config.json, model.safetensors and tokenizer.json of all-MiniLM-L6-v2, or of a model of its kind
  --json           print a JSON line for each sentence: {\"sentence\": .., \"embedding\": [..]}
  --positions N    cut sentences off after N tokens [default: 256]
  --help           print this";

/// Sentences that go through the model together.
const BATCH: usize = 32;
/// Lengths are rounded up to a multiple of this, so that few programs serve all.
const LENGTH_STEP: usize = 16;

struct Arguments {
    model: PathBuf,
    json: bool,
    positions: usize,
    sentences: Vec<String>,
}

/// None if help is asked for.
fn arguments() -> std::result::Result<Option<Arguments>, String> {
    let mut words = std::env::args().skip(1);
    let (mut model, mut json, mut positions, mut sentences) = (None, false, 256, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => json = true,
            "--model" => model = Some(PathBuf::from(words.next().ok_or("--model wants a folder")?)),
            "--positions" => {
                positions = parsed("--positions", words.next())?;
                if positions < 2 {
                    return Err("--positions wants 2 or more".to_string());
                }
            }
            _ if word.starts_with("--") => return Err(format!("there is no option {word}")),
            _ => sentences.push(word),
        }
    }
    match model {
        Some(model) if !sentences.is_empty() => Ok(Some(Arguments { model, json, positions, sentences })),
        Some(_) => Err("a sentence is wanted".to_string()),
        None => Err("--model DIR is wanted".to_string()),
    }
}

/// The sizes that a `config.json` says.
fn sizes(path: &Path) -> std::result::Result<SentenceSizes, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let number = |name: &str| config[name].as_i64().ok_or_else(|| format!("{}: there is no {name}", path.display()));
    Ok(SentenceSizes {
        layers: number("num_hidden_layers")?,
        width: number("hidden_size")?,
        heads: number("num_attention_heads")?,
        inner: number("intermediate_size")?,
        vocabulary: number("vocab_size")?,
        positions: number("max_position_embeddings")?,
        types: number("type_vocab_size")?,
        eps: config["layer_norm_eps"].as_f64().unwrap_or(1e-12),
    })
}

fn load(folder: &Path) -> Result<Dictionary> {
    let single = folder.join("model.safetensors");
    let weights = formats::load(if single.is_file() { single } else { folder.join("model.safetensors.index.json") })?;
    let shown = bar(weights.bytes(), "reading");
    weights.load(|progress| shown.set_position(progress.done))?;
    shown.finish_and_clear();
    Ok(weights)
}

fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    print(arguments, &embed(arguments)?);
    Ok(())
}

/// The embeddings, a row for each sentence.
fn embed(arguments: &Arguments) -> std::result::Result<Vec<Vec<f32>>, Failure> {
    let sizes = sizes(&arguments.model.join("config.json"))?;
    let mut tokenizer =
        Tokenizer::from_file(arguments.model.join("tokenizer.json")).map_err(|error| error.to_string())?;
    let longest = arguments.positions.min(sizes.positions as usize);
    let truncation = TruncationParams { max_length: longest, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    let weights = load(&arguments.model)?;
    let encoder = SentenceEncoder::new(&sizes, |name| weights.tensor(name))?;
    let encodings = tokenizer.encode_batch(arguments.sentences.clone(), true).map_err(|error| error.to_string())?;
    let shown = bar(encodings.len() as u64, "encoding");
    let mut rows = Vec::new();
    for batch in encodings.chunks(BATCH) {
        let most = batch.iter().map(|encoding| encoding.get_ids().len()).max().unwrap_or(1).max(1);
        let length = most.next_multiple_of(LENGTH_STEP).min(longest.max(most));
        let padded = |value: &dyn Fn(usize, usize) -> i32| -> Vec<i32> {
            (0..batch.len())
                .flat_map(|row| (0..length).map(move |at| (row, at)))
                .map(|(row, at)| value(row, at))
                .collect()
        };
        let tokens = padded(&|row, at| batch[row].get_ids().get(at).map_or(0, |&id| id as i32));
        let mask = padded(&|row, at| i32::from(at < batch[row].get_ids().len()));
        let shape = [batch.len() as i64, length as i64];
        let mask = Tensor::from_vec(mask.into_iter().map(|one| one as f32).collect(), shape);
        let embeddings = encoder.forward(&Tensor::from_vec(tokens, shape), &mask).to_vec::<f32>()?;
        rows.extend(embeddings.chunks(sizes.width as usize).map(<[f32]>::to_vec));
        shown.inc(batch.len() as u64);
    }
    shown.finish_and_clear();
    Ok(rows)
}

fn print(arguments: &Arguments, rows: &[Vec<f32>]) {
    for (sentence, row) in arguments.sentences.iter().zip(rows) {
        if arguments.json {
            // As text at once: a JSON value would hold `f32` as `f64`, with digits that mean nothing.
            let as_json = |text: serde_json::Result<String>| text.unwrap_or_default();
            let (sentence, row) = (as_json(serde_json::to_string(sentence)), as_json(serde_json::to_string(row)));
            println!("{{\"sentence\":{sentence},\"embedding\":{row}}}");
        } else {
            let first: Vec<String> = row.iter().take(4).map(|value| format!("{value:8.5}")).collect();
            println!("[{} ..., {} in all]  {sentence}", first.join(" "), row.len());
        }
    }
    if arguments.json || rows.len() < 2 {
        return;
    }
    println!("\nsimilarity (cosine)");
    for (one, sentence) in rows.iter().zip(&arguments.sentences) {
        let product = |other: &Vec<f32>| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
        let cells: Vec<String> = rows.iter().map(|other| format!("{:6.3}", product(other))).collect();
        println!("{}  {sentence}", cells.join(" "));
    }
}

fn main() -> std::process::ExitCode {
    terminal::program("minilm", USAGE, arguments(), run)
}
