//! What a program takes in with the library: few crates, and nothing that only the command line needs. What a package of each crate holds.

use std::process::Command;

use super::root;

/// Crates of the library's own build, itself among them, at the most.
const CRATES_MAX: usize = 40;
/// What only people at a terminal need.
const OF_THE_COMMAND_LINE: &[&str] = &["clap", "indicatif", "tracing-subscriber", "serde_derive", "flate2"];

/// The crates that a build of the library without the command line is made of.
fn crates() -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--offline", "-p", "warpweft", "-e", "normal", "--prefix", "none"]);
    // Whatever a program needs to compute.
    let options = ["--format", "{p}", "--no-default-features", "--features", "llvm-loaded"];
    let output = cargo.args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let version = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut crates: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(version).collect();
    crates.sort();
    crates.dedup();
    crates
}

#[test]
fn a_library_build_is_small() {
    let crates = crates();
    assert!(crates.len() > 5 && crates.len() <= CRATES_MAX, "{}: {crates:#?}", crates.len());
    let is_for_people = |name: &&String| OF_THE_COMMAND_LINE.iter().any(|other| name.starts_with(&format!("{other} ")));
    assert_eq!(crates.iter().find(is_for_people), None);
}

/// What is published, the ones that others need first.
const PACKAGES: &[&str] =
    &["warpweft-compiler", "warpweft-renderer", "warpweft-devices", "warpweft-derive", "warpweft"];

#[test]
fn packages_hold_their_licences_and_what_readers_need() {
    let mut failures = Vec::new();
    for package in PACKAGES {
        let mut cargo = Command::new(env!("CARGO"));
        let output = cargo.current_dir(root()).args(["package", "--offline", "--list", "--allow-dirty", "-p", package]);
        let output = output.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || said.contains("warning") {
            failures.push(format!("{package}: {said}"));
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let files: Vec<&str> = text.lines().collect();
        let needed = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs", "Cargo.lock"];
        let missing = needed.iter().filter(|name| !files.contains(name));
        failures.extend(missing.map(|name| format!("{package}: lacks {name}")));
        let strange = files.iter().filter(|name| name.starts_with("target") || name.starts_with("python"));
        failures.extend(strange.map(|name| format!("{package}: has {name}")));
    }
    super::assert_none(failures);
}

#[test]
fn packages_say_what_they_are_and_want_no_exact_versions() {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.current_dir(root()).args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut failures = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        if !PACKAGES.contains(&name) {
            continue;
        }
        let is_there = |field: &&&str| match &package[**field] {
            serde_json::Value::Array(list) => !list.is_empty(),
            field => field.as_str().is_some_and(|text| !text.is_empty()),
        };
        let wanted =
            ["description", "license", "documentation", "readme", "rust_version", "keywords", "categories", "edition"];
        failures.extend(wanted.iter().filter(|field| !is_there(field)).map(|field| format!("{name}: no {field}")));
        if package["metadata"]["docs"]["rs"].is_null() {
            failures.push(format!("{name}: no settings for docs.rs"));
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let version = dependency["req"].as_str().unwrap();
            if !version.starts_with('^') {
                failures.push(format!("{name}: wants {} {version}", dependency["name"]));
            }
        }
    }
    super::assert_none(failures);
}

/// What of the interface of tensors takes or gives nodes of graphs: nothing, for `warpweft::compiler` is the door to them.
#[test]
fn graphs_are_behind_their_door() {
    let everyday = ["tensor/", "nn/", "function/", "formats/", "onnx/", "config.rs", "device.rs", "lib.rs"];
    let mut failures = Vec::new();
    for source in super::sources(&["runtime/src"]) {
        let name = source.path.strip_prefix("runtime/src/").unwrap_or(&source.path);
        for (number, line) in
            source.lines.iter().enumerate().filter(|_| everyday.iter().any(|part| name.starts_with(part)))
        {
            let names_a_node = line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "UOp");
            if line.trim_start().starts_with("pub ") && names_a_node && !line.contains("pub struct Var(UOp)") {
                failures.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    super::assert_none(failures);
}
