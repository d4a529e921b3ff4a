//! Indices that name nothing: errors where they are known, always in the checked mode, and the same values for all without it.
//!
//! That PyTorch refuses the same is in `data/edges.json.gz`. Takes a second.

use std::process::Command;

use warpweft::tensor::{ClassOptions, ScatterReduce, check_indices};
use warpweft::{DType, Tensor, compile, spec};

fn table() -> Tensor {
    Tensor::from_vec((0..6).map(|k| k as f32).collect(), [2, 3])
}

/// An index that nobody can know before a kernel has run.
fn computed(values: &[i64]) -> Tensor {
    let length = Tensor::from_vec(values.to_vec(), [values.len() as i64, 1]);
    length.sum(1)
}

#[track_caller]
fn refused(tensor: &Tensor, says: &[&str]) {
    let error = tensor.to_bytes().expect_err("the index names nothing").to_string();
    for part in says {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}

/// Every function that takes an index, of axes of length 3.
fn calls(index: &Tensor) -> Vec<(&'static str, Tensor)> {
    let (x, line) = (table(), table().get(0));
    let ones = Tensor::ones(index.shape().unwrap().iter().map(|&len| len as i64).collect::<Vec<_>>());
    let rows = index.unsqueeze(0).expand([2, index.numel().unwrap() as i64]);
    let scores = Tensor::zeros([index.numel().unwrap() as i64, 3]);
    let assigned = table().get(0).contiguous();
    let outcome = assigned.index_assign(&[0], &[index], 1.0);
    let assigned = if let Err(error) = outcome { panic!("{error}") } else { assigned };
    vec![
        ("gather", line.gather(index, 0)),
        ("gather", x.gather(&rows, 1)),
        ("index_select", x.index_select(1, index)),
        ("embedding", x.transpose(0, 1).embedding(index)),
        ("scatter", line.scatter(0, index, &ones)),
        ("scatter_reduce", line.scatter_reduce(0, index, &ones, ScatterReduce::Sum, true)),
        ("one_hot", index.one_hot(3)),
        ("cross_entropy", scores.cross_entropy(index, &ClassOptions::default())),
        ("nll_loss", scores.nll_loss(index, &ClassOptions::default())),
        ("index", x.index(&[1], &[index])),
        ("index_assign", assigned),
    ]
}

#[test]
fn a_known_index_is_looked_at_when_it_is_written() {
    let x = table();
    let memory = Tensor::from_vec((0..9000i64).collect(), [9000]);
    for (index, value, position) in [
        (Tensor::from_vec(vec![0i64, 3], [2]), 3, 1),
        (Tensor::from_vec(vec![0i32, 1], [2]) - 1, -1, 0),
        (Tensor::arange(0, 4, 1), 3, 3),
        (Tensor::full([5], 7), 7, 0),
        (memory.get(100..102), 100, 0),
        (memory.reshape([90, 100]).get((.., 2)).get(0..3), 102, 1),
        (Tensor::from_vec(vec![200u8], [1]), 200, 0),
    ] {
        let (index, value) = (&index, format!("the index {value}, element {position}, is out of range: "));
        refused(
            &x.index_select(1, index),
            &["index_select of f32[2, 3]", &value, "axis 1 of length 3 takes 0 to 2", file!()],
        );
        refused(&table().transpose(0, 1).embedding(index), &["embedding of", &value]);
        refused(&index.one_hot(3), &["one_hot of", &value, "one of 3 classes takes 0 to 2"]);
    }
    refused(&x.index(&[1], &[&Tensor::full([1], -4)]), &["index of", "the index -4", "takes -3 to 2"]);
    assert_eq!(x.index(&[1], &[&Tensor::full([1], -1)]).to_vec::<f32>().unwrap(), [2.0, 5.0]);
    assert!(x.index_assign(&[1], &[&Tensor::full([1], 3)], 0.0).unwrap_err().to_string().contains("index_assign of"));
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    // Nothing is named by an index without elements.
    assert_eq!(x.index_select(1, &Tensor::full([0], 7)).shape().unwrap(), [2, 0]);
}

/// What the host gave a GPU is known without a wait for it, until something else lies there; what the GPU computed is not.
#[test]
fn of_a_gpu_what_the_host_gave_is_known() {
    let bytes: Vec<u8> = [1i64, 3, 0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let there = || Tensor::from_bytes(Some("PTX"), DType::I64, [3], &bytes);
    let x = Tensor::from_bytes(Some("PTX"), DType::F32, [3], &[0; 12]);
    let (given, sent) = (there(), Tensor::from_vec(vec![1i64, 3, 0], [3]).to("PTX"));
    for index in [&given, &sent, &sent.to("PTX")] {
        refused(&x.gather(index, 0), &["the index 3, element 1"]);
        x.gather(&index.get(1..).minimum(2), 0).to_bytes().expect("all are in range");
    }
    // Other elements in its memory.
    given.assign(there().minimum(2)).unwrap();
    given.realize().unwrap();
    x.gather(&given, 0).to_bytes().expect("all are in range");
    sent.get(0).assign(-5).unwrap();
    sent.realize().unwrap();
    assert_eq!(x.gather(&sent, 0).to_vec::<f32>().unwrap(), [0.0; 3]);
    refused(&check_indices(|| x.gather(&sent, 0)), &["the index -5, element 0"]);
}

#[test]
fn in_the_checked_mode_every_index_is_looked_at() {
    for bad in [3, -1, i64::MAX, i64::MIN] {
        let line = line!() + 1;
        for (name, value) in check_indices(|| calls(&computed(&[0, 2, bad, 1]))) {
            if bad == -1 && name.starts_with("index") && name != "index_select" {
                assert!(value.to_bytes().is_ok(), "-1 is the last in {name}");
                continue;
            }
            let says = format!("the index {bad}, element 2, is out of range: ");
            refused(&value, &[&format!("{name} of "), &says, file!()]);
            // What depends on it is refused as well, each time.
            refused(&(value.cast(DType::F32) + 1.0).sum(()), &[&says]);
            refused(&value, &[&says]);
        }
        assert!(line > 0);
    }
    for (name, value) in check_indices(|| calls(&computed(&[0, 2, 1]))) {
        assert!(value.to_bytes().is_ok(), "{name}");
    }
}

#[test]
fn gradients_and_writes_are_checked_too() {
    let scores = Tensor::from_vec(vec![0.5f32; 6], [2, 3]);
    let options = ClassOptions::default().ignore_index(Some(-100));
    let gradient = |target: &Tensor| {
        check_indices(|| scores.cross_entropy(target, &options)).gradient(&[&scores]).unwrap().remove(0)
    };
    assert!(gradient(&computed(&[2, -100])).to_bytes().is_ok());
    refused(&gradient(&computed(&[2, 3])), &["cross_entropy of", "the index 3, element 1"]);
    let x = table();
    check_indices(|| x.index_assign(&[0], &[&computed(&[2])], 9.0)).unwrap();
    refused(&x, &["index_assign of", "the index 2, element 0"]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "what was refused wrote nothing");
}

#[test]
fn arguments_of_functions_are_looked_at_at_each_call() {
    let x = table();
    let function =
        check_indices(|| compile([spec(DType::I64, [2])], |[index]| [x.index_select(1, &index), index.one_hot(9)]));
    let function = function.unwrap();
    let [picked, _] = function.call([&Tensor::from_vec(vec![2i64, 0], [2])]).unwrap();
    assert_eq!(picked.to_vec::<f32>().unwrap(), [2.0, 0.0, 5.0, 3.0]);
    let error = function.call([&Tensor::from_vec(vec![2i64, 5], [2])]).unwrap_err().to_string();
    assert!(error.contains("index_select of") && error.contains("the index 5, element 1"), "{error}");
    assert!(function.call([&Tensor::from_vec(vec![1i64, 1], [2])]).is_ok());
}

#[test]
fn unchecked_they_read_zero_write_nothing_and_have_no_loss() {
    for bad in [3, -1, -4] {
        for (name, value) in calls(&computed(&[1, bad])) {
            let got = value.cast(DType::F32).to_vec::<f32>().unwrap();
            let want: &[f32] = match (name, bad) {
                ("index", -1) => &[1.0, 2.0, 4.0, 5.0],
                ("index_assign", -1) => &[0.0, 1.0, 1.0],
                ("gather", _) if got.len() == 2 => &[1.0, 0.0],
                ("gather" | "index_select" | "index", _) => &[1.0, 0.0, 4.0, 0.0],
                ("embedding", _) => &[1.0, 4.0, 0.0, 0.0],
                ("scatter" | "index_assign", _) => &[0.0, 1.0, 2.0],
                ("scatter_reduce", _) => &[0.0, 2.0, 2.0],
                ("one_hot", _) => &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
                _ => {
                    assert!(got[0].is_nan(), "{name} of {bad} is {got:?}");
                    continue;
                }
            };
            assert_eq!(got, want, "{name} of {bad}");
        }
    }
}

/// The variables are read once in a process, so each case is a run of the conformance runner: of a program whose index a kernel computes.
#[test]
fn the_environment_turns_the_checked_mode_on() {
    let tensor =
        |dtype: &str, shape: &str, data: &str| format!(r#"{{"dtype": "{dtype}", "shape": {shape}, "data": {data}}}"#);
    let (line, rows) = (tensor("float32", "[3]", "[0, 1, 2]"), tensor("int64", "[2, 1]", "[1, 3]"));
    let program = format!(
        r#"[{{"id": "a", "inputs": [{line}, {rows}], "outputs": [3], "expected": [{}], "rtol": 0, "atol": 0,
            "steps": [{{"op": "sum", "args": [1], "attrs": {{"axis": 1}}}}, {{"op": "gather", "args": [0, 2], "attrs": {{"axis": 0}}}}],
            "kernels_reference": 2, "kernels_goal": 2}}]"#,
        tensor("float32", "[2]", "[1, 0]")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.json");
    std::fs::write(&file, program).unwrap();
    for (variable, value, refuses) in [("CHECK", "1", true), ("CHECK", "0", false), ("DEBUG", "1", true)] {
        let mut runner = Command::new(env!("CARGO_BIN_EXE_conformance"));
        runner.env_remove("DEBUG").env_remove("CHECK").env(variable, value).arg("fusion").arg(&file);
        let printed = String::from_utf8_lossy(&runner.output().unwrap().stdout).into_owned();
        let says =
            "gather of f32[3] and i64[2]: the index 3, element 1, is out of range: axis 0 of length 3 takes 0 to 2";
        assert_eq!(printed.contains(says), refuses, "{variable}={value}: {printed}");
        assert_eq!(printed.contains("1 passed"), !refuses, "{variable}={value}: {printed}");
    }
}
