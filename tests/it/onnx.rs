//! Models of the ONNX format: a selection of the package's cases, what errors say, programs for shapes and values, hostile bytes.
//!
//! `./x onnx` runs all cases. Takes some seconds, which compiling kernels takes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use warpweft::Tensor;
use warpweft::onnx::{Error, Model, load};
use warpweft_tests::choices::caught;
use warpweft_tests::onnx::{Files, Outcome, bytes_are_read, packed_cases, run};

fn cases_of(file: &str) -> Vec<(String, Files)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    packed_cases(&path).unwrap().into_iter().collect()
}

fn cases() -> Vec<(String, Files)> {
    cases_of("onnx.json.gz")
}

fn model_of(case: &str) -> Vec<u8> {
    let cases = cases();
    let (_, files) = cases.iter().find(|(name, _)| name == case).unwrap_or_else(|| panic!("there is no case {case}"));
    files["model.onnx"].clone()
}

#[test]
fn a_selection_of_the_packages_cases_passes() {
    let cases = cases();
    assert!(cases.len() > 150, "{} cases", cases.len());
    let outcomes = cases.iter().map(|(name, files)| (name, run(name, files)));
    let wrong: Vec<_> = outcomes.filter(|(_, outcome)| *outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn trees_encoders_and_scalers_give_the_values_of_onnxruntime() {
    let cases = cases_of("onnx_learning.json.gz");
    assert!(cases.len() > 30, "{} cases", cases.len());
    let outcomes = cases.iter().map(|(name, files)| (name, run(name, files)));
    let wrong: Vec<_> = outcomes.filter(|(_, outcome)| *outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn damaged_trees_never_panic() {
    for (number, (name, files)) in cases_of("onnx_learning.json.gz").iter().enumerate() {
        for round in 0..40 {
            let mut damaged = files.clone();
            damaged.insert("model.onnx".to_string(), mutated(&files["model.onnx"], (number * 1000 + round) as u64));
            // An error is well, and so is another value.
            let tried = caught(|| match run(name, &damaged) {
                Outcome::Passed | Outcome::Failed(_) | Outcome::Unsupported(_) => Ok(()),
            });
            tried.unwrap_or_else(|why| panic!("{name}, round {round}: {why}"));
        }
    }
}

#[test]
fn a_wrong_output_is_seen() {
    let (name, mut files) = cases().into_iter().find(|(name, _)| name == "test_relu" || name == "test_abs").unwrap();
    let output = files.get_mut("test_data_set_0/output_0.pb").unwrap();
    // The last byte of the data is that of a float's exponent.
    let at = output.len() - 1;
    output[at] ^= 1;
    assert!(matches!(run(&name, &files), Outcome::Failed(_)));
}

/// Bytes with one changed, cut off, or doubled, by a sequence of numbers.
fn mutated(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below.max(1)
    };
    let mut changed = bytes.to_vec();
    match next(4) {
        0 => changed.truncate(next(bytes.len())),
        1 => {
            let (from, to) = (next(bytes.len()), next(bytes.len()));
            changed.splice(to..to, bytes[from..(from + 9).min(bytes.len())].iter().copied());
        }
        _ => (0..=next(2)).for_each(|_| {
            let at = next(bytes.len());
            changed[at] ^= 1 << next(7); // text stays text
        }),
    }
    changed
}

#[test]
fn damaged_models_never_panic() {
    let cases = cases();
    let mut read = 0;
    for (number, (name, files)) in cases.iter().enumerate() {
        for round in 0..12 {
            let bytes = mutated(&files["model.onnx"], (number * 1000 + round) as u64);
            caught(|| bytes_are_read(&bytes)).unwrap_or_else(|why| panic!("{name}, round {round}: {why}"));
            read += usize::from(Model::from_bytes("damaged", &bytes).is_ok());
        }
    }
    // Enough damage leaves a model, so that what lies behind the reader is tried too.
    assert!(read > 2 * cases.len(), "{read}");
}

#[test]
fn errors_name_the_file_the_node_and_what_would_be_right() {
    let bytes = model_of("test_concat_1d_axis_0");
    let renamed = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        let model = Model::from_bytes("joined.onnx", &bytes).unwrap();
        let x = Tensor::ones([2]);
        model.run(&[&x, &x]).unwrap_err().to_string()
    };
    let unknown = renamed("Concat", "Cancan");
    assert_eq!(
        unknown,
        "joined.onnx: node 0 (Cancan): there is no such op here, nor a function of the model of that name"
    );
    let missing = renamed("axis", "oxis");
    assert_eq!(missing, "joined.onnx: node 0 (Concat): attribute 'axis' is missing: it must be an axis of the inputs");
    let model = Model::from_bytes("joined.onnx", &bytes).unwrap();
    let wrong = model.run(&[&Tensor::ones([2])]).unwrap_err().to_string();
    assert!(
        wrong.starts_with("joined.onnx: the model has 2 inputs (") && wrong.ends_with("and 1 are given"),
        "{wrong}"
    );
    let wrong = model.run(&[&Tensor::ones([2]), &Tensor::ones([3])]).unwrap_err().to_string();
    assert!(
        wrong.starts_with("joined.onnx: input 1 '") && wrong.ends_with("is float[3], and must be float[2]"),
        "{wrong}"
    );
    let error = Model::from_bytes("text.onnx", b"graph %rows").unwrap_err().to_string();
    assert!(error.starts_with("text.onnx: this is no model of the ONNX format"), "{error}");
}

#[test]
fn values_that_shapes_need_are_part_of_the_program() {
    // The target of a reshape is an input: programs are made for its values, and found again.
    let model = Model::from_bytes("reshape", &model_of("test_reshape_reordered_all_dims")).unwrap();
    let x = Tensor::iota(24).cast(warpweft::DType::F32).reshape([2, 3, 4]);
    for shape in [[4i64, 2, 3], [4, 2, 3], [-1, 2, 3]] {
        let outputs = model.run(&[&x, &Tensor::from_slice(&shape, [3])]).unwrap();
        assert_eq!(outputs[0].shape().unwrap(), [4, 2, 3]);
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    }
    // How many elements there are follows from what is computed: the model is computed in parts.
    let model = Model::from_bytes("nonzero", &model_of("test_nonzero_example")).unwrap();
    let some: (_, &[i64]) = ([true, false, true, true], &[0, 1, 1, 0, 0, 1]);
    let all: (_, &[i64]) = ([true; 4], &[0, 0, 1, 1, 0, 1, 0, 1]);
    for (elements, indices) in [some, all, some] {
        let found = model.run(&[&Tensor::from_slice(&elements, [2, 2])]).unwrap();
        assert_eq!(found[0].to_vec::<i64>().unwrap(), indices);
    }
}

#[test]
fn one_program_serves_all_lengths_within_bounds() {
    let model = Model::from_bytes("network", &model_of("made_open_batch")).unwrap();
    let open = model.with_lengths(&[("batch", 1..=8)]).unwrap();
    for rows in [3i64, 1, 8, 5, 9] {
        let x = Tensor::from_vec((0..rows * 36).map(|k| ((k * 37 % 101) as f32).sin()).collect(), [rows, 1, 6, 6]);
        let (wanted, found) = (model.run(&[&x]).unwrap(), open.run(&[&x]).unwrap());
        for (wanted, found) in wanted.iter().zip(&found) {
            assert_eq!(wanted.shape().unwrap(), found.shape().unwrap());
            assert!(found.isclose(wanted, 1e-5, 1e-6, false).all(()).item::<bool>().unwrap(), "{rows} rows");
        }
        assert_eq!(found[2].shape().unwrap(), [2 * rows as usize, 2]);
    }
    // Without the variable there is a program for each length; with it one, and one for the length beyond.
    assert_eq!((model.programs(), open.programs()), (5, 2));
    let error = model.with_lengths(&[("rows", 1..=8)]).unwrap_err().to_string();
    assert_eq!(error, "network: no input has an axis 'rows': there are batch");
}

/// A model of one node that adds a tensor in another file, written by hand: field numbers and lengths, as the format has them.
fn model_with_data_in(location: &str, length: &str) -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }
    let entry = |key: &str, value: &str| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
    let tensor = [
        vec![1 << 3, 2, 2 << 3, 1],
        field(8, b"w"),
        entry("location", location),
        entry("length", length),
        vec![14 << 3, 1],
    ]
    .concat();
    let node = [field(1, b"w"), field(1, b"w"), field(2, b"y"), field(4, b"Add")].concat();
    let graph = [field(1, &node), field(5, &tensor), field(12, &field(1, b"y"))].concat();
    field(7, &graph)
}

#[test]
fn data_in_other_files_is_read_and_stays_below_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    let numbers: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    std::fs::write(inside.join("weights.bin"), &numbers).unwrap();
    std::fs::write(folder.path().join("secret.bin"), &numbers).unwrap();
    let path = |location: &str, length: &str| -> PathBuf {
        let path = inside.join("model.onnx");
        std::fs::write(&path, model_with_data_in(location, length)).unwrap();
        path
    };
    let outputs = load(path("weights.bin", "8")).unwrap().run(&[]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [3.0, -4.0]);
    let refused: BTreeSet<String> =
        [("../secret.bin", "8"), ("weights.bin", "9"), ("weights.bin", "-1"), ("none", "8")]
            .map(|(location, length)| load(path(location, length)).unwrap_err().to_string())
            .into();
    let all = refused.iter().cloned().collect::<Vec<_>>().join("\n");
    for part in [
        "must lie below the folder",
        "9 bytes from 0 on are wanted, and the file has 8",
        "must be a number of bytes",
        "No such file",
    ] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
    assert!(matches!(load(inside.join("nothing.onnx")), Err(Error::File { .. })));
}
