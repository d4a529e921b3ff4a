//! A sentence encoder against PyTorch on the same weights (`tests/data/weights/make_minilm.py`): as a library, and as the example `minilm`.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use warpweft::nn::{Module, SentenceEncoder, SentenceSizes};
use warpweft::{DType, Tensor, compile, formats, spec};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/weights/minilm")
}

fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join(name)).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[track_caller]
fn near(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 2e-6, "off by {worst}");
}

fn encoder() -> SentenceEncoder {
    let config = json("config.json");
    let number = |name: &str| config[name].as_i64().unwrap();
    let sizes = SentenceSizes {
        layers: number("num_hidden_layers"),
        width: number("hidden_size"),
        heads: number("num_attention_heads"),
        inner: number("intermediate_size"),
        vocabulary: number("vocab_size"),
        positions: number("max_position_embeddings"),
        types: number("type_vocab_size"),
        eps: 1e-12,
    };
    let weights = formats::load(folder().join("model.safetensors")).unwrap();
    let wrong = SentenceSizes { inner: 41, ..sizes };
    let error = SentenceEncoder::new(&wrong, |name| weights.tensor(name)).unwrap_err().to_string();
    assert!(
        error
            .contains("`encoder.layer.0.intermediate.dense.weight` has the shape [40, 24], and the sizes say [41, 24]"),
        "{error}"
    );
    SentenceEncoder::new(&sizes, |name| weights.tensor(name)).unwrap()
}

#[test]
fn sentences_have_the_embeddings_that_pytorch_gives_them() {
    let (encoder, expected) = (encoder(), json("expected.json"));
    assert_eq!(encoder.parameters().len(), 3 + 2 + 2 * 16);
    let rows = expected["tokens"].as_array().unwrap();
    let embeddings: Vec<f64> = expected["embeddings"].as_array().unwrap().iter().flat_map(numbers).collect();
    // Padding says nothing, however much of it there is.
    for padding in [0, 5] {
        let tokens: Vec<Vec<i32>> = rows
            .iter()
            .map(|row| numbers(row).into_iter().map(|id| id as i32).chain(vec![0; padding]).collect())
            .collect();
        let shape = [tokens.len() as i64, tokens[0].len() as i64];
        let tokens = Tensor::from_vec(tokens.concat(), shape);
        let mask = tokens.ne(0).cast(DType::F32);
        let got = if padding == 0 {
            let specs = [spec(DType::I32, shape), spec(DType::F32, shape)];
            let function = compile(specs, |[tokens, mask]| Ok([encoder.forward(&tokens, &mask)])).unwrap();
            let [got] = function.call([&tokens, &mask]).unwrap();
            got
        } else {
            encoder.forward(&tokens, &mask)
        };
        near(&got.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>(), &embeddings);
    }
    let error = encoder.forward(&Tensor::zeros([2, 3]), &Tensor::zeros([3, 2])).shape().unwrap_err().to_string();
    assert!(error.contains("tokens and mask must be [sentences, positions], not [2, 3] and [3, 2]"), "{error}");
}

/// The example, where this build made it: `cargo test -p warpweft` does.
fn example() -> Option<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent()?.parent()?.join("examples");
    let path = folder.join(format!("minilm{}", std::env::consts::EXE_SUFFIX));
    path.is_file().then_some(path)
}

#[test]
fn the_example_prints_embeddings_of_sentences() {
    let Some(example) = example() else { return };
    let expected = json("expected.json");
    let sentences: Vec<&str> =
        expected["sentences"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&example);
        let output = command.arg("--model").arg(folder()).args(arguments).env("CACHELEVEL", "0").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (is_right, lines, told) = run(&[&["--json"], &sentences[..]].concat());
    assert!(is_right, "{told}");
    assert_eq!(lines.lines().count(), sentences.len());
    for (at, line) in lines.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["sentence"], sentences[at]);
        near(&numbers(&line["embedding"]), &numbers(&expected["embeddings"][at]));
    }
    let (_, table, _) = run(&sentences[..2]);
    assert!(table.contains("similarity (cosine)\n 1.000 "), "{table}");
    assert!(run(&["--help"]).1.starts_with("usage: minilm --model DIR"));
    assert!(run(&["--positions", "none", "x"]).2.contains("--positions cannot be none"));
    assert!(run(&["--positions", "1", "x"]).2.contains("--positions wants 2 or more"));
}
