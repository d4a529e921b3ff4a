//! The examples, run: what they print with small models, their help, and what they say of wrong options and files.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use warpweft::formats;
use warpweft::nn::{Module, ResNet};

/// An example, where this build made it: `cargo test -p warpweft` does.
fn example(name: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent()?.parent()?.join("examples");
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    path.is_file().then_some(path)
}

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/weights").join(name).to_str().unwrap().to_string()
}

/// Whether it ended well, and what it printed and told.
fn run(example: &Path, arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(example).args(arguments).env("CACHELEVEL", "0").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn prints(example: &Path, arguments: &[&str]) -> String {
    let (is_right, printed, told) = run(example, arguments);
    assert!(is_right, "{printed}{told}");
    printed
}

/// Help is printed, and an option that is not there named.
fn helps(example: &Path, name: &str) {
    assert!(prints(example, &["--help"]).starts_with(&format!("usage: {name} ")));
    let (is_right, _, told) = run(example, &["--nothing"]);
    assert!(!is_right && told.contains(&format!("{name}: there is no option --nothing")), "{told}");
}

#[test]
fn llama_writes_with_models_of_both_formats() {
    let Some(llama) = example("llama") else { return };
    helps(&llama, "llama");
    let prompt = "the thing on the other and then";
    // The likeliest tokens are the same each time; packed weights are others by a little.
    let text = prints(&llama, &["--model", &data("decoder"), "--tokens", "8", "--temperature", "0", prompt]);
    assert!(text.starts_with(prompt) && text.contains("written: 8 tokens, "), "{text}");
    assert!(text.contains("2 layers, 32 wide, 268 tokens known"), "{text}");
    let own = prints(&llama, &["--model", &data("decoder/Q8_0.gguf"), "--tokens", "8", "--seed", "3", prompt]);
    assert_eq!(
        own.lines().find(|line| line.starts_with("prompt: ")).unwrap().split(',').next(),
        Some("prompt: 15 tokens")
    );
    let again = prints(&llama, &["--model", &data("decoder/Q8_0.gguf"), "--tokens", "8", "--seed", "3", prompt]);
    assert_eq!(own.lines().next(), again.lines().next());
    let (_, _, told) = run(&llama, &["--model", &data("decoder/none.gguf")]);
    assert!(told.starts_with("llama: ") && told.contains("none.gguf"), "{told}");
    let (_, _, told) = run(&llama, &["--model", &data("types.gguf")]);
    assert!(told.contains("types.gguf"), "{told}");
    assert!(run(&llama, &["--top-p", "2"]).2.contains("top_p 2 is out of range"));
}

/// What is printed by `println!`, and what a program flushes to show it at once.
#[test]
fn a_reader_that_stops_ends_examples_without_a_word() {
    let model = data("decoder");
    let runs: [(&str, &[&str]); 2] = [("gpt", &["--help"]), ("llama", &["--model", &model, "--tokens", "8", "the"])];
    for (name, arguments) in runs {
        let Some(example) = example(name) else { return };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(example);
        command.args(arguments).env("CACHELEVEL", "0").stdout(writer).stderr(std::process::Stdio::piped());
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.as_str()), (Some(141), ""), "{name}");
    }
}

#[test]
fn gpt_learns_from_a_text() {
    let Some(gpt) = example("gpt") else { return };
    helps(&gpt, "gpt");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text.txt");
    std::fs::write(&file, "abcd efgh. ".repeat(120)).unwrap();
    let file = file.to_str().unwrap();
    let text = prints(&gpt, &["--text", file, "--steps", "31", "--layers", "1", "--write", "70", "--temperature", "0"]);
    let losses: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("step ")?.split_once("loss ")?.1.trim().parse().ok())
        .collect();
    assert!(losses.len() == 2 && losses[0] > 2.0 && losses[1] < 0.5 * losses[0], "{text}");
    assert!(text.contains("1320 characters, 10 different ones") && text.contains("wrote 70 characters"), "{text}");
    std::fs::write(file, "short").unwrap();
    assert!(run(&gpt, &["--text", file]).2.contains("a text of 5 characters is too short to learn from"));
}

#[test]
fn resnet_learns_digits_and_keeps_what_it_learned() {
    let Some(resnet) = example("resnet") else { return };
    helps(&resnet, "resnet");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("digits.safetensors");
    let small = ["--widths", "8", "--blocks", "1", "--epochs", "6", "--save", file.to_str().unwrap()];
    let text = prints(&resnet, &small);
    let accuracy = text.split_once("test accuracy ").unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap();
    assert!(accuracy > 85.0, "{text}");
    let state: Vec<_> = formats::load(&file).unwrap().into_iter().collect();
    ResNet::new(1, &[8], 1, 10).unwrap().load_state_dict(&state).unwrap();
    assert!(run(&resnet, &["--widths", "6,none"]).2.contains("--widths cannot be 6,none"));
}

#[test]
fn whisper_hears_a_file() {
    let Some(whisper) = example("whisper") else { return };
    helps(&whisper, "whisper");
    let folder = tempfile::tempdir().unwrap();
    let (sound, states) = (folder.path().join("tone.wav"), folder.path().join("states.npy"));
    let format = |sample_rate: u32| hound::WavSpec {
        channels: 2,
        sample_rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let write = |rate: u32| {
        let mut writer = hound::WavWriter::create(&sound, format(rate)).unwrap();
        let sample = |at: i32| (f64::from(at) * 0.2).sin() * 9000.0;
        (0..8000).for_each(|at| (0..2).for_each(|_| writer.write_sample(sample(at) as i16).unwrap()));
        writer.finalize().unwrap();
    };
    write(16_000);
    let (sound, model) = (sound.to_str().unwrap(), data("whisper"));
    let text = prints(&whisper, &["--model", &model, "--audio", sound, "--save", states.to_str().unwrap()]);
    assert!(text.contains("0.5 s of sound, of which the encoder hears 0.5 s"), "{text}");
    assert!(text.contains("states [50, 24] in "), "{text}");
    assert_eq!(formats::load(&states).unwrap().entries()[0].tensor.shape().unwrap(), [50, 24]);
    write(8_000);
    let (_, _, told) = run(&whisper, &["--model", &model, "--audio", sound]);
    assert!(told.contains("has 8000 samples a second, and 16000 are heard"), "{told}");
}
