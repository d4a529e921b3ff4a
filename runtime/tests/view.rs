//! `warpweft view` and `PROFILE=FILE.json`: the trace and the page of a graph and of a program, their data and structure.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use warpweft::Tensor;

fn warpweft(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.args(arguments).env("CACHELEVEL", "0").env("THREADS", "2").output().unwrap()
}

/// The data of a page, which must hold them and load nothing.
fn data_of(page: &Path) -> Value {
    let page = std::fs::read_to_string(page).unwrap();
    for outside in ["src=\"", "href=", "@import", "url(", "fetch(", "import("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (json, rest) = rest.split_once("</script>").unwrap();
    assert!(!json.contains('<') && rest.contains("JSON.parse"));
    serde_json::from_str(json).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// All numbers in the data must name something: a page would fail on others.
fn check(data: &Value) {
    let parts = &data["warpweft"];
    let kernels = parts["kernels"].as_array().unwrap();
    for program in parts["programs"].as_array().unwrap() {
        let (launches, buffers) = (program["launches"].as_array().unwrap(), program["buffers"].as_array().unwrap());
        for (at, node) in program["nodes"].as_array().unwrap().iter().enumerate() {
            assert!(node["src"].as_array().unwrap().iter().all(|operand| number(operand) < at));
            let homes = node["kernels"].as_array().unwrap();
            assert_eq!(node["lines"].as_array().unwrap().len(), homes.len());
            assert!(homes.iter().all(|launch| number(launch) < launches.len()));
            let stored = &node["stored"];
            assert!(stored.is_null() || homes.contains(stored), "{node}");
        }
        for launch in launches {
            assert!(number(&launch["kernel"]) < kernels.len());
            assert!(launch["buffers"].as_array().unwrap().iter().all(|buffer| number(buffer) < buffers.len()));
        }
        for buffer in buffers.iter().filter(|buffer| !buffer["offset"].is_null()) {
            assert!(number(&buffer["offset"]) + number(&buffer["bytes"]) <= number(&program["arena"]));
            assert!(number(&buffer["first"]) <= number(&buffer["last"]));
        }
    }
    for event in data["traceEvents"].as_array().unwrap() {
        match event["ph"].as_str().unwrap() {
            "X" => assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0),
            other => assert_eq!(other, "M"),
        }
    }
}

/// Kinds of work in a trace.
fn kinds(data: &Value) -> Vec<&str> {
    let mut kinds: Vec<&str> =
        data["traceEvents"].as_array().unwrap().iter().filter_map(|event| event["cat"].as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

const ROWS: &str = "graph %rows(x: f32[64, 256]) {
  total = reduce x, add (1)
  column = reshape total, [64, 1]
  wide = expand column, [64, 256]
  share = div x, wide
  return share
}
";

#[test]
fn a_graph_becomes_a_trace_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("rows.uop"), folder.path().join("rows.json"));
    std::fs::write(&file, ROWS).unwrap();
    let (file, path) = (file.to_str().unwrap(), out.to_str().unwrap());
    let output = warpweft(&["view", "--out", path, "--runs", "3", "--no-ceilings", file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = folder.path().join("rows.html");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{path}\n{}\n", page.display()));
    let data = data_of(&page);
    check(&data);
    assert_eq!(data, serde_json::from_str::<Value>(&std::fs::read_to_string(&out).unwrap()).unwrap());
    // Whether a second thread comes in time to take a share of so short a launch is open.
    let certain: Vec<&str> = kinds(&data).into_iter().filter(|kind| *kind != "share").collect();
    assert_eq!(certain, ["compile", "kernel", "load", "lower", "schedule"]);
    let parts = &data["warpweft"];
    let kernel = &parts["kernels"][0];
    assert_eq!((parts["kernels"].as_array().unwrap().len(), number(&kernel["launches"])), (1, 3));
    for (text, part) in [
        ("loops", "reduce r"),
        ("graph", " = div "),
        ("linear", "horizontal_reduce"),
        ("source", "define void @"),
        ("assembly", "ret"),
        ("choices", "opts: "),
    ] {
        assert!(kernel[text].as_str().unwrap().contains(part), "{text}: {kernel}");
    }
    // Each node is found in the line of its kernel that it became.
    let lines: Vec<&str> = kernel["graph"].as_str().unwrap().lines().collect();
    let nodes = parts["programs"][0]["nodes"].as_array().unwrap();
    for op in ["reduce", "div", "expand"] {
        let node = nodes.iter().find(|node| node["op"] == op).unwrap();
        assert_eq!(number(&node["kernels"][0]), 0);
        assert!(lines[number(&node["lines"][0])].contains(&format!(" = {op} ")), "{op} {node} {lines:?}");
    }
    let reasons = parts["programs"][0]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|reason| reason == "div [64, 256]: stored: it must exist in memory"), "{reasons:?}");
    // The trace alone becomes the same page again.
    let before = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert!(warpweft(&["view", path]).status.success());
    assert_eq!(std::fs::read_to_string(&page).unwrap(), before);
}

#[test]
#[ignore = "run by another test in an environment"]
fn computes() {
    let x = Tensor::from_vec((0..4096).map(|k| k as f32 / 4096.0).collect(), [64, 64]);
    let y = (&x.matmul(&x) + 1.0).contiguous().softmax(1);
    let sorted = y.cumsum(0).contiguous().matmul(&x).contiguous() * 2.0;
    assert_eq!(sorted.to_vec::<f32>().unwrap().len(), 4096);
}

#[test]
fn any_program_writes_them_when_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("of <it>.json");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "computes"]).env("CACHELEVEL", "0").env("PROFILE", &out);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let data = data_of(&folder.path().join("of <it>.html"));
    check(&data);
    let program = &data["warpweft"]["programs"][0];
    assert!(program["launches"].as_array().unwrap().len() >= 3);
    assert!(number(&program["arena"]) >= 4096 * 4, "temporaries lie in an arena");
    let is_handed_on =
        |buffer: &Value| !buffer["offset"].is_null() && number(&buffer["first"]) < number(&buffer["last"]);
    assert!(program["buffers"].as_array().unwrap().iter().any(is_handed_on), "from who stores it to who reads it");
    let launches = data["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel").count();
    assert_eq!(launches, program["launches"].as_array().unwrap().len());
}

#[test]
fn what_cannot_be_viewed_is_named() {
    let fails = |arguments: &[&str]| {
        let output = warpweft(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    assert!(fails(&["view", &path("none.uop")]).contains("none.uop: No such file"));
    assert!(fails(&["view", "--out", "trace", &path("x.uop")]).contains("--out trace: a trace is named NAME.json"));
    std::fs::write(path("other.json"), "{}").unwrap();
    assert!(fails(&["view", &path("other.json")]).contains("is no trace of warpweft"));
    let error = fails(&["view", "--out", &path("true.json"), "true"]);
    assert!(error.contains("true wrote no trace (exit status: 0)"), "{error}");
}
