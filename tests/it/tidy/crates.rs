//! What a program takes in with the library: few crates, and nothing that only the command line needs.

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
