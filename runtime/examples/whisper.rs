//! Hears sound with the encoder of a model of the family of Whisper: the log-mel spectrogram, and what the encoder makes of it.
//!
//! `cargo run --release -p warpweft --example whisper -- --model DIR --audio FILE.wav`, where DIR holds `config.json` and `model.safetensors`. Without a model the
//! weights are random ones of the sizes of whisper-tiny, and without sound it hears a tone that rises.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use warpweft::nn::{SAMPLE_RATE, SpeechEncoder, SpeechSizes, log_mel};
use warpweft::tensor::manual_seed;
use warpweft::{DType, Tensor, compile, formats, spec};

mod terminal;
use terminal::{Failure, bar, parsed};

const USAGE: &str = "\
usage: whisper [OPTIONS]

  --model DIR     folder with config.json and model.safetensors; without it, random weights of the sizes of whisper-tiny
  --audio FILE    a WAV file of 16,000 samples a second; without it, a tone that rises
  --runs N        how often it is timed [default: 3]
  --save FILE     write the states [positions, width], as NumPy's .npy
  --help          print this";

struct Options {
    model: Option<PathBuf>,
    audio: Option<PathBuf>,
    save: Option<PathBuf>,
    runs: usize,
}

fn options() -> Result<Option<Options>, String> {
    let mut words = std::env::args().skip(1);
    let mut options = Options { model: None, audio: None, save: None, runs: 3 };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--model" => options.model = Some(parsed(&word, words.next())?),
            "--audio" => options.audio = Some(parsed(&word, words.next())?),
            "--save" => options.save = Some(parsed(&word, words.next())?),
            "--runs" => options.runs = parsed::<usize>(&word, words.next())?.max(1),
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(Some(options))
}

/// The sizes that a `config.json` says.
fn sizes(path: &Path) -> Result<SpeechSizes, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let number = |name: &str| config[name].as_i64().ok_or_else(|| format!("{}: there is no {name}", path.display()));
    Ok(SpeechSizes {
        bands: number("num_mel_bins")?,
        width: number("d_model")?,
        layers: number("encoder_layers")?,
        heads: number("encoder_attention_heads")?,
        inner: number("encoder_ffn_dim")?,
        positions: number("max_source_positions")?,
    })
}

fn encoder(model: Option<&Path>) -> Result<SpeechEncoder, Failure> {
    let Some(folder) = model else {
        manual_seed(1);
        return Ok(SpeechEncoder::random(&SpeechSizes::TINY)?);
    };
    let sizes = sizes(&folder.join("config.json"))?;
    let weights = formats::load(folder.join("model.safetensors"))?;
    let shown = bar(weights.bytes(), "reading");
    weights.load(|progress| shown.set_position(progress.done))?;
    shown.finish_and_clear();
    Ok(SpeechEncoder::new(&sizes, |name, _| weights.tensor(name))?)
}

/// The samples of a file, several channels as their mean.
fn read(path: &Path) -> Result<Vec<f32>, Failure> {
    let told = |error: hound::Error| format!("{}: {error}", path.display());
    let mut reader = hound::WavReader::open(path).map_err(told)?;
    let format = reader.spec();
    if i64::from(format.sample_rate) != SAMPLE_RATE {
        let rate = format.sample_rate;
        return Err(format!("{}: has {rate} samples a second, and {SAMPLE_RATE} are heard", path.display()).into());
    }
    let samples: Vec<f32> = match format.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().collect::<Result<_, _>>().map_err(told)?,
        hound::SampleFormat::Int => {
            let most = 2f32.powi(i32::from(format.bits_per_sample) - 1);
            let samples = reader.samples::<i32>().map(|sample| sample.map(|sample| sample as f32 / most));
            samples.collect::<Result<_, _>>().map_err(told)?
        }
    };
    let channels = usize::from(format.channels.max(1));
    Ok(samples.chunks(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect())
}

/// A tone that rises from 200 to 4,000 Hz in ten seconds.
fn tone() -> Vec<f32> {
    let sample = |at: i64| {
        let time = at as f64 / SAMPLE_RATE as f64;
        (0.5 * (std::f64::consts::TAU * (200.0 + 190.0 * time) * time).sin()) as f32
    };
    (0..10 * SAMPLE_RATE).map(sample).collect()
}

/// The spectrogram as a picture: time across, bands up.
fn draw(spectrogram: &Tensor) -> Result<(), Failure> {
    const SHADES: [char; 5] = [' ', '.', 'o', 'O', '@'];
    let shape = spectrogram.shape()?;
    let (bands, frames, values) = (shape[0], shape[1], spectrogram.to_vec::<f32>()?);
    let (rows, columns) = (12.min(bands), 72.min(frames));
    let lowest = values.iter().copied().fold(f32::INFINITY, f32::min);
    let range = (values.iter().copied().fold(f32::NEG_INFINITY, f32::max) - lowest).max(1e-6);
    for row in (0..rows).rev() {
        let shade = |column: usize| {
            let value = values[(row * bands / rows) * frames + column * frames / columns];
            SHADES[((value - lowest) / range * 4.0).round() as usize]
        };
        println!("  |{}|", (0..columns).map(shade).collect::<String>());
    }
    Ok(())
}

fn run(options: &Options) -> Result<(), Failure> {
    let encoder = encoder(options.model.as_deref())?;
    let sizes = encoder.sizes;
    let mut samples = options.audio.as_deref().map_or_else(|| Ok(tone()), read)?;
    let (there, heard) = (samples.len(), sizes.samples() as usize);
    samples.resize(heard, 0.0);
    let samples = Tensor::from_vec(samples, [heard as i64]);
    let seconds = |count: usize| count as f64 / SAMPLE_RATE as f64;
    println!("{:.1} s of sound, of which the encoder hears {:.1} s", seconds(there), seconds(there.min(heard)));
    let started = Instant::now();
    let hear = compile([spec(DType::F32, [heard as i64])], |[samples]| {
        let spectrogram = log_mel(&samples, sizes.bands);
        [encoder.forward(&spectrogram.unsqueeze(0)).squeeze(0), spectrogram]
    })?;
    println!("compiled in {:.1} s: {} kernels", started.elapsed().as_secs_f64(), hear.kernels());
    let (shown, mut least) = (bar(options.runs as u64, "hearing"), f64::INFINITY);
    let mut outcome = None;
    for _ in 0..options.runs {
        let started = Instant::now();
        outcome = Some(hear.call([&samples])?);
        least = least.min(started.elapsed().as_secs_f64());
        shown.inc(1);
    }
    shown.finish_and_clear();
    let Some([states, spectrogram]) = outcome else { return Ok(()) };
    draw(&spectrogram)?;
    println!(
        "states {:?} in {:.1} ms (least of {}), {:.0} times as fast as the sound",
        states.shape()?,
        least * 1e3,
        options.runs,
        seconds(heard) / least
    );
    if let Some(path) = &options.save {
        formats::numpy::save(path, &states)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    terminal::program("whisper", USAGE, options(), run)
}
