//! The command line as a user meets it: what it prints, and how it fails.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn warpweft(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.env("CACHELEVEL", "0").env_remove("DEBUG").env_remove("DEV").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = warpweft(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn fails(arguments: &[&str]) -> String {
    let output = warpweft(arguments);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// A file with a softmax-like program.
fn program(folder: &tempfile::TempDir) -> String {
    let path: PathBuf = folder.path().join("rows.uop");
    let source = "graph %rows(x: f32[16, 32]) {
  v0 = exp2 x
  v1 = reduce v0, add (1)
  v2 = add v1, 1.0
  return v2
}
";
    std::fs::write(&path, source).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn inspect_draws_views() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("views.uop");
    let source = "graph %views(x: f32[4, 6]) {
  a = shrink x, [0:2, 1:4]
  b = permute x, (1, 0)
  c = shrink b, [4:6, 0:4]
  p = exp2 a
  q = as_strided x, [3] strides [7] offset 0
  y = write x, q, through shrink [3:4, 0:3] reshape [3]
  return p, c, y
}
";
    std::fs::write(&file, source).unwrap();
    let drawn = prints(&["inspect", file.to_str().unwrap(), "--stage", "region"]);
    let expected = "\
view 0 of x: reshape, shrink
  [2, 3] strides [6, 1] offset 1
  6 of 24 elements, each once, in 1 pieces
.111..
.111..
......
......
";
    assert!(drawn.starts_with(expected), "{drawn}");
    assert!(drawn.contains("1.....\n.1....\n..1...\n......\n"), "{drawn}");
    assert!(drawn.contains("....11\n....11\n....11\n....11\n"), "{drawn}");
    assert!(drawn.contains("views 0 and 1 lie apart\nviews 0 and 2 share elements\n"), "{drawn}");
}

#[test]
fn inspect_prints_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let stage = |name: &str| prints(&["inspect", &file, "--stage", name]);
    assert!(stage("graph").starts_with("graph %rows("));
    assert!(stage("normalized").contains("exp2"));
    let schedule = stage("schedule");
    assert!(schedule.contains("it must exist in memory") && schedule.contains("store"), "{schedule}");
    assert!(stage("passes").contains("tensors become loops"));
    assert!(stage("linear").contains("horizontal_reduce"), "{}", stage("linear"));
    assert!(stage("source").contains("define void @"));
    assert!(stage("assembly").contains("ret"));
    assert_eq!(prints(&["inspect", &file, "--stage", "schedule", "--no-fuse"]).matches("; kernel").count(), 3);
}

/// A file with one kernel, a product of two matrices.
fn matmul(folder: &tempfile::TempDir) -> String {
    let path: PathBuf = folder.path().join("matmul.uop");
    let source = "graph %matmul(a: f32[64, 1, 32], b: f32[1, 64, 32]) {
  v0 = expand a, [64, 64, 32]
  v1 = expand b, [64, 64, 32]
  v2 = mul v0, v1
  v3 = reduce v2, add (2)
  return v3
}
";
    std::fs::write(&path, source).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn inspect_shows_the_loops_after_each_opt() {
    let folder = tempfile::tempdir().unwrap();
    let file = matmul(&folder);
    let shown = prints(&["inspect", &file, "--opts", "stage(l1, r2, r1), reorder(r0, r1), vectorize(r0, 4)"]);
    let steps: Vec<&str> = shown.split("; ").collect();
    assert_eq!(steps.len(), 5, "{shown}");
    assert!(steps[1].starts_with("the loops\nfor r0 in 0..64\n  for r1 in 0..64\n    reduce r2 in 0..32\n"), "{shown}");
    assert!(steps[2].starts_with("1. stage(l1, r2, r1)\nfor r") && steps[2].contains("of 2048 f32"), "{shown}");
    assert!(steps[3].contains("for r1 in 0..64\n  for r0 in 0..64\n"), "{shown}");
    assert!(steps[4].contains("lanes r5 of 4"), "{shown}");
    let by_hand = prints(&["inspect", &file, "--opts", "by hand"]);
    assert!(by_hand.contains("; 1. "), "{by_hand}");
    assert_eq!(prints(&["inspect", &file, "--opts", "none"]).matches("; ").count(), 1);
    // A list is compiled as well.
    let source = prints(&["inspect", &file, "--opts", "vectorize(r1, 4)", "--stage", "source"]);
    assert!(source.contains("<4 x float>"), "{source}");
    let legal = prints(&["inspect", &file, "--opts", "split(r0, 8)", "--legal-opts"]);
    assert!(legal.contains("\n; legal opts\n") && legal.contains("\nreorder(r0, r3)\n"), "{legal}");
    assert!(prints(&["inspect", "--help"]).contains("--opts \"vectorize(r1, 16)"));
}

#[test]
fn inspect_says_why_opts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = matmul(&folder);
    let message = fails(&["inspect", &file, "--opts", "vectorise(r1, 4)"]);
    assert!(message.contains("there is no `vectorise`; opts are vectorize, upcast"), "{message}");
    let message = fails(&["inspect", &file, "--opts", "split(r0, 8), thread(r1)"]);
    assert!(message.contains("opt 2 of 2: thread(r1) refused: a store does not have it as its outermost"), "{message}");
    let message = fails(&["inspect", &file, "--opts", "thread(r1)", "--stage", "linear"]);
    assert!(message.contains("thread(r1) refused"), "{message}");
    let rows = program(&folder);
    let message = fails(&["inspect", &rows, "--no-fuse", "--opts", "split(r0, 8)"]);
    assert!(message.contains("becomes 3 kernels; --kernel NUMBER"), "{message}");
    let message = fails(&["inspect", &rows, "--no-fuse", "--opts", "split(r0, 8)", "--kernel", "3"]);
    assert!(message.contains("there is no kernel 3"), "{message}");
    assert!(prints(&["inspect", &rows, "--no-fuse", "--opts", "split(r0, 8)", "--kernel", "1"]).contains("; 1. split"));
}

#[test]
fn inspect_shows_kernels_of_machines_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let source = prints(&["inspect", &file, "--target", "sm_90"]);
    assert!(source.contains(".visible .entry") && source.contains("ld.param.u64"), "{source}");
    assert_eq!(prints(&["inspect", &file, "--target", "sm_90", "--stage", "render"]), source);
    assert!(prints(&["inspect", &file, "--target", "sm_80", "--opts", "grid(r0, x)"]).contains("grid_x"));
    assert!(
        fails(&["inspect", &file, "--target", "sm_1"]).contains("sapphirerapids, graniterapids, sm_80, sm_90, sm_100")
    );
    assert!(fails(&["inspect", &file, "--target", "sm_90", "--stage", "assembly"]).contains("--stage ptxas"));
    assert!(fails(&["inspect", &file, "--stage", "ptxas"]).contains("--target sm_90"));
}

#[test]
fn a_reader_that_stops_ends_the_program() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    let output = command.arg("debug").stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
}

#[test]
fn tune_times_given_lists() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let table = prints(&["tune", &file, "--opts", "vectorize(r1, 8)", "--opts", "outermost(r7)"]);
    assert!(table.contains("2 lists tried") && table.contains("  vectorize(r1, 8)"), "{table}");
    // What is refused says why.
    assert!(table.contains("failed") && table.contains("r7"), "{table}");
    assert!(fails(&["tune", &file, "--opts", "vectorise(r1)"]).contains("vectorise"));
    assert!(fails(&["tune", &file, "--opts", "", "--total", "3"]).contains("--total"));
}

#[test]
fn tune_prints_what_was_tried() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let table = prints(&["tune", &file, "--budget", "2", "--width", "1", "--rows", "3"]);
    for part in
        ["kernel 0: ", "times as fast", "checked against the unoptimised kernel", "by hand  ", "found    ", "predicted"]
    {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert!(!table.contains("WRONG"), "{table}");
    let line = prints(&["tune", &file, "--budget", "2", "--json"]);
    let told: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert!(told["seconds"].as_f64().unwrap() <= told["by_hand_seconds"].as_f64().unwrap(), "{told}");
    assert!(fails(&["tune", &file, "--kernel", "7"]).contains("there is no kernel 7"));
}

#[test]
fn devices_are_listed_with_what_is_known_of_them() {
    let list = prints(&["devices"]);
    assert!(list.contains("CPU (default)") && list.contains("INTERPRETER") && list.contains("threads"), "{list}");
    assert!(list.ends_with("DISK\n  tensors of files, until they are used: another device computes\n"), "{list}");
}

#[test]
fn mistakes_name_what_would_be_right() {
    assert!(fails(&["bench", "no_such_case"]).contains("the cases are ceilings, eager_tiny"));
    assert!(fails(&["inspect", "no_such_file.uop"]).contains("no_such_file.uop"));
    assert!(fails(&["tune"]).contains("<FILE>"));
    assert!(fails(&["tune", "--case", "no_such_case"]).contains("matmul_512, matmul_1024"));
    assert!(fails(&["tune", "no_such_file.uop"]).contains("no_such_file.uop"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.uop");
    std::fs::write(&file, "graph %broken() {\n  v0 = frobnicate\n}\n").unwrap();
    let message = fails(&["inspect", file.to_str().unwrap()]);
    assert!(message.contains("frobnicate") || message.contains('2'), "{message}");
    assert!(prints(&["cache"]).contains("CACHELEVEL is 0"));
}

#[test]
fn bench_prints_a_json_line_a_case() {
    let line = prints(&["bench", "eager_tiny", "--json", "--seconds", "0.01"]);
    let value: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!((value["peer"].as_str(), value["case"].as_str()), (Some("warpweft"), Some("eager_tiny")));
    assert!(value["median_s"].as_f64().unwrap() > 0.0 && value["first_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn stages_that_there_are_not_are_errors_that_name_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let error = fails(&["inspect", &file, "--stage", "nonsense"]);
    assert!(error.contains("there is no stage `nonsense`; the stages are graph, region"), "{error}");
    assert!(error.contains("\n  tensors become loops\n"), "{error}");
    assert!(!prints(&["inspect", &file, "--stage", "tensors become loops"]).is_empty());
    assert!(!prints(&["inspect", &file, "--stage", "passes"]).is_empty());
}

#[test]
fn help_explains_what_debug_prints() {
    for arguments in [&["help", "debug"][..], &["debug"], &["debug", "--help"]] {
        let text = prints(arguments);
        for column in ["GFLOPS", "number of the launch", "CACHE MISS", "pieces of memory", "from disk"] {
            assert!(text.contains(column), "{arguments:?} does not say `{column}`: {text}");
        }
    }
}

#[test]
fn the_program_of_a_tensor_is_what_inspect_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.uop");
    let x = warpweft::Tensor::rand([16, 32]);
    x.realize().unwrap();
    let y = (x.exp() / x.exp().sum_keepdim(1)).max(0);
    std::fs::write(&file, y.program().unwrap()).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(prints(&["inspect", file, "--stage", "graph"]), y.program().unwrap());
    assert!(prints(&["inspect", file, "--stage", "source"]).contains("define void @"));
}

#[test]
fn files_lists_tensors_and_says_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let (weight, bias) = (warpweft::Tensor::ones([4, 3]), warpweft::Tensor::zeros([4]));
    let metadata = std::collections::BTreeMap::from([("format".to_string(), "pt".to_string())]);
    warpweft::formats::safetensors::save(&path, [("weight", &weight), ("bias", &bias)], &metadata).unwrap();
    let path = path.to_str().unwrap();
    let listed = prints(&["files", path, "--metadata", "--read"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], format!("{path}: 2 tensors, 64 bytes"));
    assert_eq!(lines[1], "  name    type  shape          bytes        offset");
    assert_eq!(lines[2], "  bias    F32   [4]               16           160");
    assert_eq!(lines[3], "  weight  F32   [4, 3]            48           176");
    assert_eq!(lines[4], "format = pt");
    assert!(lines[5].starts_with("read 64 bytes in "), "{listed}");
    let line: serde_json::Value =
        serde_json::from_str(prints(&["files", path, "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["name"], &line["shape"], &line["offset"]),
        (&"bias".into(), &serde_json::json!([4]), &160.into())
    );
    std::fs::write(path, &std::fs::read(path).unwrap()[..200]).unwrap();
    let error = fails(&["files", path]);
    assert!(error.contains("weights.safetensors: at byte 160: 64 bytes of data should follow, and 40 do"), "{error}");
    assert!(fails(&["files", "/no/such/file"]).contains("cannot be opened"));
}

#[test]
fn debug_tells_of_files_that_are_read_when_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    warpweft::formats::numpy::save(&path, &warpweft::Tensor::ones([4, 3])).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
        text(&command.env("CACHELEVEL", "0").env("DEBUG", "1").args(arguments).output().unwrap().stderr)
    };
    let path = path.to_str().unwrap();
    let told = run(&["files", path, "--read"]);
    assert!(
        told.lines().any(|line| line.starts_with("read       0.00 MB")
            && line.ends_with(&format!("| DISK to CPU: {path} at byte 128"))),
        "{told}"
    );
    assert!(!run(&["files", path]).contains("DISK to"), "nothing is read to be listed");
}

/// A model of one node, `y = Relu(x)` with x [batch, 3], written by hand: field numbers and lengths, as the format has them.
fn relu(folder: &tempfile::TempDir) -> String {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Relu")].concat();
    let dims = [field(1, &field(2, b"batch")), field(1, &[1 << 3, 3])].concat();
    let kind = field(1, &[vec![1 << 3, 1], field(2, &dims)].concat());
    let value = |name: &str| [field(1, name.as_bytes()), field(2, &kind)].concat();
    let graph = [field(1, &node), field(11, &value("x")), field(12, &value("y"))].concat();
    let path = folder.path().join("relu.onnx");
    std::fs::write(&path, field(7, &graph)).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn onnx_runs_a_model_on_random_and_on_given_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let model = relu(&folder);
    let shown = prints(&["onnx", &model, "--dim", "batch=4", "--calls", "2"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], ["input   x: float[4, 3]", "output  y: float[4, 3]"]);
    assert!(lines[2].starts_with("read in ") && lines[2].ends_with("(least of 2)"), "{shown}");
    // A tensor of the format: its lengths, its type, its bytes.
    let numbers: Vec<u8> = [-1.0f32, 0.5, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let tensor = [&[1 << 3, 1, 1 << 3, 3, 2 << 3, 1, 9 << 3 | 2, 12][..], &numbers].concat();
    std::fs::write(folder.path().join("input_0.pb"), tensor).unwrap();
    let inputs = folder.path().to_str().unwrap();
    let shown = prints(&["onnx", &model, "--inputs", inputs, "--outputs", inputs, "--values"]);
    assert!(shown.contains("tensor([[0.0000, 0.5000, 2.0000]])"), "{shown}");
    let written = std::fs::read(folder.path().join("output_0.pb")).unwrap();
    assert!(written.windows(12).any(|bytes| bytes == [0f32, 0.5, 2.0].map(f32::to_le_bytes).concat()));
    let missing = fails(&["onnx", &model, "--inputs", "nowhere"]);
    assert!(missing.contains("nowhere/input_0.pb") && missing.contains("(input 'x')"), "{missing}");
    assert!(fails(&["onnx", &model, "--dim", "batch"]).contains("NAME=LENGTH"));
}
