//! Files of weights in every format, against files and values by the formats' own libraries (`tests/data/weights/make_weights.py`).
#![cfg(all(feature = "safetensors", feature = "archives", feature = "cli"))]
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

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
        let normalized = normalize(&[product.uop().unwrap()], |_| None).unwrap();
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

/// What a damaged file is refused with.
#[track_caller]
fn refused(name: &str, bytes: impl Into<Vec<u8>>) -> String {
    formats::read(&Input::of_bytes(name, bytes)).map(|found| format!("{found:?}")).unwrap_err().to_string()
}

fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn damaged_safetensors_are_refused_with_what_would_be_right() {
    let tensor = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!("{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}}}")
    };
    let right = with_header(&tensor("F32", "[2]", 0, 8), 8);
    assert!(formats::read(&Input::of_bytes("a", right.clone())).is_ok());
    assert_eq!(
        refused("a", &right[..20]),
        "a: at byte 0: begins as no known format: .safetensors, .npy, .npz, .gguf, and .pt of PyTorch 1.6 or later are read"
    );
    let error = refused("a", &right[..right.len() - 3]);
    assert!(error.ends_with("8 bytes of data should follow, and 5 do"), "{error}");
    for (header, why) in [
        (tensor("F32", "[3]", 0, 8), "invalid shape"),
        (tensor("F32", "[2]", 8, 16), "ffset"),
        (tensor("F99", "[2]", 0, 8), "F99"),
        (tensor("F32", "[18446744073709551615, 2]", 0, 8), "verflow"),
        ("{".to_string(), "EOF"),
    ] {
        let error = refused("a", with_header(&header, 8));
        assert!(error.starts_with("a: at byte 8: the header of") && error.contains(why), "{header}: {error}");
    }
    let mut large = (1u64 << 60).to_le_bytes().to_vec();
    large.extend([0; 100]);
    assert!(refused("a", large).contains("begins as no known format"));
    // A type that no tensor has is an error of that tensor.
    let found = formats::read(&Input::of_bytes("a", with_header(&tensor("C64", "[1]", 0, 8), 8))).unwrap();
    assert!(
        found.tensor("a").unwrap().shape().unwrap_err().to_string().contains("elements of C64, which no tensor has")
    );
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

fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn damaged_arrays_are_refused_with_what_would_be_right() {
    let header =
        |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    assert!(formats::read(&Input::of_bytes("a", npy(&header("'<f4'", "(2,)"), 8))).is_ok());
    for (header, why) in [
        (header("'<f4'", "(3,)"), "the elements should be 12 bytes, and 8 follow the header"),
        (header("'<f4'", "(4294967296, 4294967296)"), "a: at byte "),
        (header("'<f4'", "(99999999999999999999,)"), "a length here"),
        (header("'|O'", "(2,)"), "are Python objects, which are never read"),
        (header("'<c8'", "(1,)"), "no tensor has elements of type `<c8`; they may be b1, i1"),
        (header("[('x', '<f4')]", "(2,)"), "several fields"),
        (header("'<f4", "(2,)"), "the header should have"),
        ("{'descr': '<f4'}".to_string(), "`descr`, `fortran_order` and `shape`"),
        (String::new(), "should have `{` here"),
    ] {
        let error = refused("a", npy(&header, 8));
        assert!(error.starts_with("a: at byte ") && error.contains(why), "{header}: {error}");
    }
    let mut long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec();
    long.resize(2000, b' ');
    assert!(refused("a", long).contains("the header should be 4294967295 bytes"));
    assert!(refused("a", b"\x93NUMPY\x07\x00\x00\x00\x00\x00".to_vec()).contains("version 7; versions 1 to 3"));
}

/// A zip archive of one member, which says that it has so many bytes.
fn zipped(name: &str, data: &[u8], said: u32, method: u16, checksum: u32) -> Vec<u8> {
    let mut both = Vec::new();
    let fields = |both: &mut Vec<u8>, is_central: bool| {
        both.extend(if is_central { b"PK\x01\x02".to_vec() } else { b"PK\x03\x04".to_vec() });
        if is_central {
            both.extend(20u16.to_le_bytes());
        }
        both.extend([20, 0, 0, 0]);
        both.extend(method.to_le_bytes());
        both.extend([0, 0, 0x21, 0x50]);
        both.extend(checksum.to_le_bytes());
        both.extend((data.len() as u32).to_le_bytes());
        both.extend(said.to_le_bytes());
        both.extend((name.len() as u16).to_le_bytes());
        both.extend([0, 0]);
        if is_central {
            both.extend([0; 14]);
        }
        both.extend(name.bytes());
    };
    fields(&mut both, false);
    both.extend(data);
    let directory = both.len() as u32;
    fields(&mut both, true);
    let size = both.len() as u32 - directory;
    both.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    both.extend(size.to_le_bytes());
    both.extend(directory.to_le_bytes());
    both.extend([0, 0]);
    both
}

#[test]
fn archives_that_say_too_much_are_refused() {
    let mut array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4000,), }\n", 4000);
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    };
    let deflate = |bytes: &[u8]| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (packed, len) = (deflate(&array), array.len() as u32);
    let read = |bytes: Vec<u8>| {
        formats::read(&Input::of_bytes("a", bytes)).and_then(|found| found.tensor("x")?.to_vec::<u8>())
    };
    assert_eq!(read(zipped("x.npy", &packed, len, 8, crc(&array))).unwrap(), vec![0; 4000]);
    let error = |bytes: Vec<u8>| read(bytes).unwrap_err().to_string();
    // A bomb says so, or it says less than it has.
    let bomb = error(zipped("x.npy", &packed, u32::MAX - 1, 8, 0));
    assert!(bomb.contains("cannot be 4294967294 bytes: it is packed in"), "{bomb}");
    let header = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3000,), }\n", 3000);
    let mut more = header.clone();
    more.resize(5000, 0);
    let goes_on = error(zipped("x.npy", &deflate(&more), header.len() as u32, 8, crc(&header)));
    assert!(goes_on.contains("the member `x.npy` goes on after its"), "{goes_on}");
    let damaged = error(zipped("x.npy", &packed, len, 8, 1));
    assert!(damaged.contains("is damaged: its checksum is"), "{damaged}");
    let short = error(zipped("x.npy", &packed[..packed.len() - 4], len, 8, crc(&array)));
    assert!(short.contains("ends too soon"), "{short}");
    assert!(error(zipped("x.npy", &array, len, 12, 0)).contains("it may be stored or deflated"));
    assert!(error(zipped("x.npy", &array, len - 1, 0, 0)).contains("is stored as"));
    array.truncate(100);
    assert!(error(zipped("x.npy", &array, 100, 0, crc(&array))).contains("the elements should be 4000 bytes"));
    assert!(
        error(b"PK\x03\x04 no archive at all".to_vec()).contains("the directory of the zip archive cannot be read")
    );
}

/// The head of a GGUF file.
fn gguf(tensors: u64, metadata: u64, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(metadata.to_le_bytes());
    rest.iter().for_each(|part| bytes.extend(*part));
    bytes
}

fn named(name: &str, axes: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = (name.len() as u64).to_le_bytes().to_vec();
    bytes.extend(name.bytes());
    bytes.extend((axes.len() as u32).to_le_bytes());
    axes.iter().for_each(|axis| bytes.extend(axis.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

#[test]
fn damaged_gguf_files_are_refused_with_what_would_be_right() {
    let with = |info: Vec<u8>, data: usize| {
        let mut bytes = gguf(1, 0, &[&info]);
        bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
        bytes
    };
    assert!(formats::read(&Input::of_bytes("a", with(named("x", &[4], 0, 0), 16))).is_ok());
    for (bytes, why) in [
        (gguf(u64::MAX, 0, &[]), "18446744073709551615 tensors cannot be: 0 bytes are left"),
        (gguf(0, 1 << 40, &[]), "metadata cannot be"),
        (gguf(0, 1, &[&u64::MAX.to_le_bytes(), &[0; 20]]), "the header goes on behind its first"),
        (
            gguf(
                0,
                1,
                &[&1u64.to_le_bytes(), b"k", &9u32.to_le_bytes(), &4u32.to_le_bytes(), &(1u64 << 50).to_le_bytes()],
            ),
            "values of a list cannot be",
        ),
        (
            gguf(0, 1, &[&1u64.to_le_bytes(), b"k", &99u32.to_le_bytes(), &[0; 8]]),
            "metadata have types 0 to 12, not 99",
        ),
        (with(named("x", &[4], 0, 0), 15), "the tensor `x` should be 16 bytes, but the file has"),
        (with(named("x", &[4], 0, 3), 64), "lies at 3, which is no multiple of 32"),
        (with(named("x", &[4], 0, 1 << 63), 64), "the tensor `x` should be 16 bytes"),
        (with(named("x", &[1 << 40, 1 << 40], 0, 0), 64), "the tensor `x`: the shape"),
        (with(named("x", &[33], 2, 0), 64), "has rows of 33 elements, which Q4_0 packs by 32"),
        (
            with(vec![1, 0, 0, 0, 0, 0, 0, 0, b'x', 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0], 64),
            "has 4294967295 axes",
        ),
        (b"GGUF\x01\x00\x00\x00".to_vec(), "versions 2 and 3 in little-endian order are read"),
        (b"GGUF\x00\x00\x00\x03".to_vec(), "this one is big-endian"),
    ] {
        let error = refused("a", bytes);
        assert!(error.starts_with("a: at byte ") && error.contains(why), "{why}: {error}");
    }
    let mut both = gguf(2, 0, &[&named("x", &[64], 0, 0), &named("y", &[4], 0, 128)]);
    both.resize(both.len().next_multiple_of(32) + 256, 0);
    assert!(refused("a", both).contains("`y` begins inside of `x`, which is 256 bytes"));
    let unknown = formats::read(&Input::of_bytes("a", with(named("x", &[256], 16, 0), 64))).unwrap();
    assert!(
        unknown.tensor("x").unwrap().shape().unwrap_err().to_string().contains("is of type IQ2_XXS, which is not read")
    );
}
