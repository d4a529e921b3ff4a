//! Which module may use which: crates point one way, and inside of the compiler and the runtime modules stand in layers.

use super::{Source, assert_none, sources};

/// A module of the compiler may name those of lines above its own, and those of its own line.
const COMPILER_LAYERS: &[&[&str]] = &[
    &["watch", "dtype"],
    &["ir"],
    &["rewrite"],
    &["verify", "symbolic"],
    &["view"],
    &["region"],
    &["target", "program", "ops", "error"],
    &["grad", "schedule"],
    &["memory_plan"],
    &["kernel", "lower"],
    &["optimize"],
    &["legalize"],
    &["linearize"],
    &["cost_model"],
    &["pipeline"],
];

/// What a crate may use of the others.
const CRATES: &[(&str, &[&str])] = &[
    ("compiler", &[]),
    ("renderer", &["compiler"]),
    ("devices", &["compiler"]),
    ("runtime", &["compiler", "renderer", "devices"]),
];

fn layer_of(module: &str) -> Option<usize> {
    COMPILER_LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules named after `crate::` on a line, those in braces too.
fn named_modules(code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        // `$crate::` is a path of the crate that a macro is used in.
        if code[..at].ends_with('$') {
            continue;
        }
        let rest = &code[at + found.len()..];
        let list = rest.strip_prefix('{').map_or(rest, |list| list.split('}').next().unwrap_or(list));
        let entries: Vec<&str> = if rest.starts_with('{') { list.split(',').collect() } else { vec![rest] };
        for entry in entries {
            let word = |next: char| next.is_ascii_alphanumeric() || next == '_';
            let module: String = entry.trim().chars().take_while(|next| word(*next)).collect();
            named.push(module);
        }
    }
    named
}

fn module_of(source: &Source) -> String {
    let below = source.path.strip_prefix("compiler/src/").unwrap_or(&source.path);
    below.split(['/', '.']).next().unwrap_or_default().to_string()
}

#[test]
fn imports_point_down() {
    let mut failures = Vec::new();
    for source in sources(&["compiler/src"]) {
        let from = module_of(&source);
        if from == "lib" {
            continue;
        }
        let Some(from_layer) = layer_of(&from) else {
            failures.push(format!("{}: `{from}` is not in the list of layers", source.path));
            continue;
        };
        for number in 0..source.end_of_code() {
            for named in named_modules(source.code(number)) {
                // Names that are no module are what `lib.rs` exports of the lowest ones.
                let to_layer = layer_of(&named).unwrap_or(0);
                if to_layer > from_layer {
                    failures.push(format!("{}:{}: `{named}` is not below `{from}`", source.path, number + 1));
                }
            }
        }
    }
    assert_none(failures);
}

#[test]
fn crates_point_one_way() {
    let mut failures = Vec::new();
    for (name, allowed) in CRATES {
        for source in sources(&[&format!("{name}/src")]) {
            for number in 0..source.lines.len() {
                let code = source.code(number);
                for other in ["compiler", "renderer", "devices", "tests"] {
                    if code.contains(&format!("warpweft_{other}")) && other != *name && !allowed.contains(&other) {
                        failures.push(format!("{}:{}: {name} does not use {other}", source.path, number + 1));
                    }
                }
            }
        }
    }
    assert_none(failures);
}

#[test]
fn the_compiler_is_pure() {
    let outside =
        ["std::fs", "std::env", "std::time", "std::thread", "std::process", "std::net", "println!", "unsafe "];
    let mut failures = Vec::new();
    for source in sources(&["compiler/src", "renderer/src"]) {
        for number in 0..source.end_of_code() {
            let code = source.code(number);
            for word in outside.iter().filter(|word| code.contains(**word)) {
                failures.push(format!("{}:{}: `{word}` in a pure crate", source.path, number + 1));
            }
        }
    }
    assert_none(failures);
}

#[test]
fn names_after_crate_are_found() {
    assert_eq!(named_modules("use crate::{DType, ir::UOp};"), ["DType", "ir"]);
    assert_eq!(named_modules("    crate::view::merge(crate::ir::postorder(x))"), ["view", "ir"]);
    assert_eq!(named_modules("$crate::rewrite::Rule"), Vec::<String>::new());
}

/// Files outside of `devices` that open unsafe code: where a device is opened, a device of tests, and a stand-in for a library of C.
const PROMISES: &[&str] =
    &["runtime/src/execute/mod.rs", "runtime/src/memory/model.rs", "tests/driver/src/lib.rs", "tests/src/guarded.rs"];

#[test]
fn unsafe_code_is_in_devices_and_where_one_is_opened() {
    let word = concat!("allow(", "unsafe_code"); // in parts, so that this file does not hold it
    let opened = sources(&["compiler", "renderer", "runtime", "tests", "fuzz"]).into_iter();
    let mut opened: Vec<String> =
        opened.filter(|source| source.lines.iter().any(|line| line.contains(word))).map(|source| source.path).collect();
    opened.sort();
    assert_eq!(opened, PROMISES);
}
