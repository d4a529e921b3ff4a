//! Files of weights in every format, against files and values by the formats' own libraries (`tests/data/weights/make_weights.py`).
#![cfg(all(feature = "safetensors", feature = "archives", feature = "cli"))]
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod damaged;
mod small_floats;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use warpweft::formats::{self, Dictionary, Input, float8, numpy, safetensors};
use warpweft::nn::{BatchNorm, Layer, Linear, Module, Named, Sequential};
use warpweft::{DType, Tensor};
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/weights")
}

fn expected() -> Value {
    let mut text = String::new();
    let file = std::fs::File::open(folder().join("expected.json.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// An element of any type, as exactly as JSON has it.
fn is_element(got: f64, exact: &str, expected: &Value) -> bool {
    match expected {
        Value::String(text) if text == "nan" => got.is_nan(),
        Value::String(text) if text == "inf" => got == f64::INFINITY,
        Value::String(text) if text == "-inf" => got == f64::NEG_INFINITY,
        Value::String(text) if !exact.is_empty() => text == exact,
        // As text, for the parser of JSON rounds the last digit.
        Value::String(text) => text.parse() == Ok(got),
        number => number.as_f64() == Some(got),
    }
}

fn elements(tensor: &Tensor) -> Vec<(f64, String)> {
    let elements = tensor.elements().unwrap();
    let exact = |value: Scalar| match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Bool(_) | Scalar::Float(_) => String::new(),
    };
    (0..elements.len()).map(|at| (elements.get(at).to_f64(), exact(elements.get(at)))).collect()
}

/// A file holds what its case says.
#[track_caller]
fn check(case: &Value) -> Dictionary {
    let file = case["file"].as_str().unwrap();
    let found = formats::load(folder().join(file)).unwrap();
    let tensors = case["tensors"].as_object().unwrap();
    assert_eq!(
        found.len(),
        tensors.len(),
        "{file}: {:?}",
        found.entries().iter().map(|entry| &entry.name).collect::<Vec<_>>()
    );
    for entry in found.entries() {
        assert_eq!(entry.stored.device().unwrap(), "DISK", "{file}: {} was read", entry.name);
    }
    for (name, expected) in tensors {
        let tensor = found.tensor(name).unwrap();
        let shape: Vec<u64> = tensor.shape().unwrap().into_iter().map(|len| len as u64).collect();
        assert_eq!(serde_json::json!(shape), expected["shape"], "{file}: {name}");
        let wanted = expected["elements"].as_array().unwrap();
        let got = elements(&tensor);
        assert_eq!(got.len(), wanted.len(), "{file}: {name}");
        for (at, ((value, exact), wanted)) in got.iter().zip(wanted).enumerate() {
            assert!(
                is_element(*value, exact, wanted),
                "{file}: element {at} of {name} is {value} and should be {wanted}"
            );
        }
    }
    for (key, value) in case["metadata"].as_object().into_iter().flatten() {
        assert_eq!(found.metadata().get(key).map(String::as_str), value.as_str(), "{file}: {key}");
    }
    found
}

#[track_caller]
fn check_all(names: &[&str]) {
    let expected = expected();
    let cases = expected["cases"].as_array().unwrap();
    for name in names {
        check(cases.iter().find(|case| case["file"] == *name).unwrap());
    }
}

#[test]
fn numpy_files_hold_what_numpy_wrote() {
    check_all(&["array.npy", "stored.npz", "deflated.npz"]);
}

#[test]
fn safetensors_files_hold_what_their_library_wrote() {
    check_all(&["types.safetensors", "model.safetensors.index.json"]);
}

#[test]
fn torch_files_hold_what_pytorch_wrote() {
    check_all(&["state_2.pt", "state_4.pt", "checkpoint.pt"]);
    let state = formats::load(folder().join("state_2.pt")).unwrap();
    let [whole, transposed, column] = ["whole", "transposed", "column"].map(|name| state.tensor(name).unwrap());
    assert!(whole.shares_storage_with(&transposed) && whole.shares_storage_with(&column));
    assert_eq!((column.strides().unwrap(), column.storage_offset().unwrap()), (vec![6], 2));
    let error = formats::load(folder().join("calls.pt")).unwrap_err().to_string();
    assert!(
        error.contains("calls.pt: at byte ")
            && error.contains("`function` is made by calling __builtin__.print, and nothing of a file is run"),
        "{error}"
    );
}

#[test]
fn a_network_takes_its_state_from_a_checkpoint_of_pytorch() {
    let checkpoint = formats::load(folder().join("checkpoint.pt")).unwrap();
    let state: Named =
        checkpoint.into_iter().filter_map(|(name, x)| Some((name.strip_prefix("model.")?.to_string(), x))).collect();
    let (first, last) = (Linear::new(3, 4, true).unwrap(), Linear::new(4, 2, true).unwrap());
    let network = Sequential::new().then(first).then(BatchNorm::new(4).unwrap()).then(last);
    network.load_state_dict(&state).unwrap();
    for (name, tensor) in network.state_dict() {
        let (_, expected) = state.iter().find(|(other, _)| *other == name).unwrap();
        assert_eq!(tensor.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap(), "{name}");
    }
    assert_eq!(network.forward(&Tensor::ones([5, 3])).shape().unwrap(), [5, 2]);
    let error = Linear::new(3, 4, false).unwrap().load_state_dict(&state).unwrap_err().to_string();
    assert!(error.contains("missing: weight; unexpected: 0.weight, 0.bias, 1.weight"), "{error}");
}

#[test]
fn gguf_files_hold_what_their_library_wrote() {
    check_all(&["types.gguf"]);
    let gguf = formats::gguf::load(folder().join("types.gguf")).unwrap();
    assert_eq!(
        gguf.metadata["a.list"],
        formats::gguf::Value::List(["x", "yz"].map(|text| formats::gguf::Value::Text(text.to_string())).to_vec())
    );
}

#[test]
fn floats_of_8_bits_are_rounded_as_pytorch_does() {
    let case = &expected()["float8"];
    let ints = |name: &str| -> Vec<i64> {
        case[name].as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
    };
    let floats: Vec<f32> = ints("bits").into_iter().map(|bits| f32::from_bits(bits as u32)).collect();
    let x = Tensor::from_vec(floats.clone(), [floats.len() as i64]);
    for (name, got) in [("e4m3", float8::to_e4m3(&x)), ("e5m2", float8::to_e5m2(&x))] {
        let got = got.to_vec::<u8>().unwrap();
        for ((got, expected), x) in got.into_iter().zip(ints(name)).zip(&floats) {
            // NaN has several bytes in E5M2.
            let is_nan = x.is_nan() && got & 0x7f > 0x7c;
            assert!(i64::from(got) == expected || is_nan, "{name} of {x:e} is {got:#x} and should be {expected:#x}");
        }
    }
}

#[test]
fn products_with_quantised_matrices_read_packed_bytes_alone() {
    let types = formats::load(folder().join("types.gguf")).unwrap();
    for entry in types.entries().iter().filter(|entry| entry.dtype.starts_with('Q') || entry.dtype.starts_with("IQ")) {
        let [rows, columns] = entry.shape[..] else { panic!("a matrix") };
        let x = Tensor::from_vec((0..4 * columns).map(|k| (k % 7) as f32 - 3.0).collect(), [4, columns as i64]);
        let product = x.linear(&entry.tensor, None);
        let normalized = normalize(&[warpweft::compiler::graph(&product).unwrap()], |_| None).unwrap();
        let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut Silent).unwrap();
        assert_eq!(schedule.kernels.len(), 1, "{}", entry.name);
        let lowered =
            lower_kernel(&schedule.kernels[0].ast, &Target::test_avx512(), &LowerOptions::default(), &mut Silent)
                .unwrap();
        // The packed bytes, once each, beside x and the result, and of IQ4_NL its table of 16.
        let bytes = entry.bytes + 4 * (4 * columns + 4 * rows) as u64;
        let table = if entry.dtype == "IQ4_NL" { 64 } else { 0 };
        assert_eq!(
            lowered.parameters.iter().map(|p| p.len * p.dtype.bytes() as u64).sum::<u64>(),
            bytes + table,
            "{}",
            entry.name
        );
        let (values, got) = (entry.tensor.to_vec::<f32>().unwrap(), product.to_vec::<f32>().unwrap());
        for (row, got) in got.iter().enumerate().map(|(at, got)| (at % rows, got)).take(rows) {
            let terms = (0..columns).map(|k| f64::from(values[row * columns + k]) * ((k % 7) as f64 - 3.0));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            assert!((f64::from(*got) - sum).abs() <= 1e-5 * size, "{}: {got} should be {sum}", entry.name);
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::arange(0, 12, 1).reshape([3, 4]);
    let tensors: Vec<(String, Tensor)> =
        DType::ALL.iter().map(|&dtype| (dtype.to_string(), x.cast(dtype).t())).collect();
    let named = || tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let texts = BTreeMap::from([("key".to_string(), "value".to_string())]);
    let (first, second) = (folder.path().join("a.safetensors"), folder.path().join("a.npz"));
    safetensors::save(&first, named(), &texts).unwrap();
    numpy::save_archive(&second, named()).unwrap();
    for path in [&first, &second] {
        let found = formats::load(path).unwrap();
        for (name, tensor) in &tensors {
            let read = found.tensor(name).unwrap();
            assert_eq!((read.dtype().unwrap(), read.shape().unwrap()), (tensor.dtype().unwrap(), vec![4, 3]), "{name}");
            assert_eq!(read.to_bytes().unwrap(), tensor.to_bytes().unwrap(), "{name}");
        }
    }
    assert_eq!(formats::load(&first).unwrap().metadata(), &texts);
    for (name, tensor) in &tensors {
        let path = folder.path().join(format!("{name}.npy"));
        numpy::save(&path, tensor).unwrap();
        assert_eq!(
            formats::load(&path).unwrap().tensor("array").unwrap().to_bytes().unwrap(),
            tensor.to_bytes().unwrap()
        );
    }
    // A tensor of the file that is replaced still reads the old one; a failure leaves what is there, and nothing else.
    let old = formats::load(&first).unwrap().tensor("i32").unwrap();
    safetensors::save(&first, [("i32", &(&old + 1))], &BTreeMap::new()).unwrap();
    assert_eq!(
        formats::load(&first).unwrap().tensor("i32").unwrap().to_vec::<i32>().unwrap(),
        (old + 1).to_vec::<i32>().unwrap()
    );
    let gone = Tensor::from_file(folder.path().join("i32.npy"), 128, DType::I32, [12]);
    std::fs::write(folder.path().join("i32.npy"), []).unwrap();
    let before: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(safetensors::save(&first, [("x", &gone)], &texts).is_err());
    assert!(numpy::save(&second, &gone).is_err());
    assert!(formats::load(&first).unwrap().get("i32").is_some() && formats::load(&second).is_ok());
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>(),
        before
    );
}

#[cfg(unix)]
#[test]
fn saving_replaces_files_alone_and_keeps_links() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for path in [at("socket"), folder.path().to_path_buf()] {
        for saved in [formats::numpy::save(&path, &x), formats::safetensors::save(&path, [("x", &x)], &BTreeMap::new())]
        {
            let error = saved.unwrap_err().to_string();
            assert!(error.contains("it is no regular file; name a file"), "{error}");
        }
    }
    assert!(std::os::unix::net::UnixStream::connect(at("socket")).is_ok());
    drop(socket);
    formats::numpy::save(at("file.npy"), &x).unwrap();
    std::os::unix::fs::symlink("file.npy", at("link.npy")).unwrap();
    formats::numpy::save(at("link.npy"), &(&x * 3.0)).unwrap();
    assert!(at("link.npy").is_symlink());
    let read = formats::load(at("file.npy")).unwrap();
    assert_eq!(read.tensor(&read.entries()[0].name).unwrap().to_vec::<f32>().unwrap(), [3.0, 6.0]);
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 3, "something is left beside them");
}

#[test]
fn loading_all_tells_how_far_it_is() {
    for file in ["types.safetensors", "state_2.pt", "deflated.npz", "types.gguf"] {
        let found = formats::load(folder().join(file)).unwrap();
        let mut last = 0;
        found
            .load(|progress| {
                assert!(progress.done >= last && progress.total == found.bytes(), "{file}");
                last = progress.done;
            })
            .unwrap();
        assert_eq!(last, found.bytes(), "{file}");
        assert!(
            found.entries().iter().filter(|entry| entry.bytes > 0).all(|entry| entry.stored.is_realized()),
            "{file}"
        );
    }
}

#[test]
fn names_that_are_not_there_are_told_with_near_ones() {
    let found = formats::load(folder().join("model.safetensors.index.json")).unwrap();
    let error = found.tensor("c.weight").unwrap_err().to_string();
    assert!(error.ends_with("no tensor is called `c.weight`; there are 3; near it: a.weight, b.weight"), "{error}");
}

#[test]
fn shards_lie_beside_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    for shard in ["../x.safetensors", "/etc/passwd", "a/b", ".."] {
        std::fs::write(&path, format!("{{\"weight_map\":{{\"a\":\"{shard}\"}}}}")).unwrap();
        let error = formats::load(&path).unwrap_err().to_string();
        assert!(error.contains("which is no file beside the index"), "{error}");
    }
    std::fs::write(&path, "{\"weight_map\":{\"a\":\"x.safetensors\"}}").unwrap();
    assert!(formats::load(&path).unwrap_err().to_string().contains("x.safetensors: at byte 0: cannot be opened"));
    safetensors::save(folder.path().join("x.safetensors"), [("b", &Tensor::ones([1]))], &BTreeMap::new()).unwrap();
    assert!(formats::load(&path).unwrap_err().to_string().contains("no tensor is called `a`"));
}
