//! The environment in both directions: what is read is in the README's table with its meaning, and what is in the table is read.
//!
//! Three lists are held together: the rows of the README, `VARIABLES` of `runtime/src/config.rs` (which `--help` prints), and the names that
//! `Config::read` asks for, recorded while it does. Nothing else of the product reads the environment; what tests read is named below the table.

use std::cell::RefCell;
use std::collections::BTreeSet;

use warpweft::config::{Config, PREFIX, VARIABLES, Variable};

use super::{assert_none, root, sources};

/// What the table has at the least.
const NEEDED: &str = "DEV DEBUG BEAM NOOPT LRU NO_MEMORY_PLANNER THREADS CACHELEVEL CACHE_DIR PROFILE";
/// The one file of the product that reads the environment.
const READER: &str = "runtime/src/config.rs";
/// Names that are read by a library and not by this project.
const OF_LIBRARIES: &[&str] = &["PROPTEST_CASES"];
/// Words that read the environment, in parts so that this file does not hold them.
const WORDS: &[&str] = &[concat!("env::", "var("), concat!("env::", "var_os("), concat!("env::", "vars")];
/// Names of functions that would have to be called by their paths, to be found.
const IMPORTS: &[&str] = &[concat!("use std::env::", "var"), concat!("use std::env::", "{")];

/// A row of the table.
struct Row {
    name: String,
    default: String,
    meaning: String,
}

/// The part of the README about the environment, and the rows of its table.
fn environment(readme: &str) -> (&str, Vec<Row>) {
    let section = readme.split_once("\n## Environment\n").map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows = section.lines().filter(|line| line.starts_with("| `")).map(cells).filter(|cells| cells.len() == 3);
    let row = |cells: Vec<String>| {
        let [name, default, meaning] = cells.try_into().unwrap_or_default();
        Row { name, default, meaning }
    };
    (section, rows.map(row).collect())
}

/// Names of variables among the words in backticks.
fn names_in(text: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    text.split('`').skip(1).step_by(2).filter(is_name).collect()
}

/// What is wrong between the README, the table of the code, the names that it asks for, and lines of code, each with its location.
fn problems(readme: &str, variables: &[Variable], asked: &BTreeSet<String>, code: &[(String, &str)]) -> Vec<String> {
    let (section, rows) = environment(readme);
    let named = names_in(section);
    let mut problems = Vec::new();
    for name in NEEDED.split(' ').filter(|name| rows.iter().all(|row| row.name != *name)) {
        problems.push(format!("README.md has no row for `{name}`"));
    }
    for Row { name, default, meaning } in &rows {
        match variables.iter().find(|variable| variable.name == name) {
            _ if meaning.len() < 10 => problems.push(format!("README.md does not say what `{name}` means")),
            Some(known) if known.default == default && known.meaning.replace('`', "").starts_with(meaning) => {}
            Some(_) => problems.push(format!("README.md says something else of `{name}` than {READER}")),
            None => problems.push(format!("`{name}` is in README.md, and not in the table of {READER}")),
        }
    }
    let in_table: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    for Variable { name, .. } in variables.iter().filter(|variable| !in_table.contains(variable.name)) {
        problems.push(format!("`{name}` is in the table of {READER}, and not in that of README.md"));
    }
    let read = readings(code, &mut problems);
    for (name, location) in &read {
        if !named.contains(name.as_str()) {
            problems.push(format!("{location}: `{name}` is not in README.md"));
        }
    }
    problems.extend(
        asked
            .iter()
            .filter(|name| !named.contains(name.as_str()))
            .map(|name| format!("`{name}` is read and not in README.md")),
    );
    let is_read =
        |name: &&str| asked.contains(*name) || OF_LIBRARIES.contains(name) || read.iter().any(|(read, _)| read == name);
    // Words such as the names of devices are no variables: they stand in a cell.
    let below: &str =
        section.rsplit_once("\n|").map_or(section, |(_, below)| below.split_once('\n').map_or("", |(_, text)| text));
    let claimed: BTreeSet<&str> = in_table.iter().copied().chain(names_in(below)).collect();
    problems.extend(
        claimed
            .iter()
            .filter(|name| !is_read(name))
            .map(|name| format!("`{name}` is in README.md, and nothing reads it")),
    );
    problems
}

/// The names that lines of code read by themselves, each with its location.
fn readings(code: &[(String, &str)], problems: &mut Vec<String>) -> BTreeSet<(String, String)> {
    let mut read = BTreeSet::new();
    for (location, line) in code.iter().filter(|(location, _)| !location.starts_with(READER)) {
        if IMPORTS.iter().any(|import| line.contains(import)) {
            problems.push(format!("{location}: the environment is read by full paths, so that its readers are found"));
        }
        for (at, word) in WORDS.iter().flat_map(|word| line.match_indices(word)) {
            let argument = line[at + word.len()..].strip_prefix('"').and_then(|rest| rest.split_once('"'));
            match argument {
                _ if ["compiler/", "renderer/", "devices/", "runtime/src"]
                    .iter()
                    .any(|part| location.starts_with(part)) =>
                {
                    problems.push(format!("{location}: only {READER} reads the environment"));
                }
                Some((name, _)) => _ = read.insert((name.to_string(), location.clone())),
                None => problems.push(format!("{location}: what is read of the environment has no name here")),
            }
        }
    }
    read
}

/// What `Config::read` asks for: settings under both of their names, of which the short one is given.
fn asked() -> BTreeSet<String> {
    let asked = RefCell::new(BTreeSet::new());
    let (_, ignored) = Config::read(|name| {
        asked.borrow_mut().insert(name.to_string());
        None
    });
    assert!(ignored.is_empty(), "nothing set is right");
    let asked = asked.into_inner();
    let long: BTreeSet<String> =
        asked.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_string).collect();
    let short: BTreeSet<String> = asked.into_iter().filter(|name| !name.starts_with(PREFIX)).collect();
    let own = |name: &&String| VARIABLES.iter().any(|variable| variable.name == **name);
    assert!(short.iter().filter(own).eq(&long), "each setting has two names");
    short
}

/// All that is wrong with this README beside the code as it is, and these lines more.
fn problems_with(readme: &str, more: &[(&str, &str)]) -> Vec<String> {
    let files = sources(&[]);
    let lines = files
        .iter()
        .flat_map(|source| (0..source.lines.len()).map(|at| (format!("{}:{}", source.path, at + 1), source.code(at))));
    let more = more.iter().map(|(location, line)| (location.to_string(), *line));
    let mut found = problems(readme, VARIABLES, &asked(), &lines.chain(more).collect::<Vec<_>>());
    found.sort();
    found.dedup();
    found
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("there is a README")
}

#[test]
fn the_environment_is_as_the_readme_says() {
    assert_none(problems_with(&readme(), &[]));
}

/// A change of the README that must be seen.
#[track_caller]
fn refused(readme: &str, more: &[(&str, &str)], why: &str) {
    let found = problems_with(readme, more);
    assert!(found.iter().any(|problem| problem.contains(why)), "`{why}` is not in {found:?}");
}

#[test]
fn faults_of_the_table_are_seen() {
    let right = readme();
    let without =
        |what: &str| -> String { right.split_inclusive('\n').filter(|line| !line.starts_with(what)).collect() };
    refused(&without("| `"), &[], "README.md has no row for `CACHE_DIR`");
    refused(&without("| `"), &[], "`NOFUSE` is in the table of runtime/src/config.rs, and not in that of README.md");
    refused(&without("| `BEAM`"), &[], "README.md has no row for `BEAM`");
    refused(&right.replace("## Environment", "## Variables"), &[], "README.md has no row for `DEV`");
    refused(&right.replace("| `LRU` | `4096` |", "| `LRU` | `4095` |"), &[], "something else of `LRU`");
    refused(&right.replace("width of the search", "height of the search"), &[], "something else of `BEAM`");
    let more = right.replace("| `BEAM` |", "| `BEEM` | `0` | width of the search |\n| `BEAM` |");
    refused(&more, &[], "`BEEM` is in README.md, and not in the table of runtime/src/config.rs");
    refused(&more, &[], "`BEEM` is in README.md, and nothing reads it");
    refused(&right.replace("`BLESS`, ", "`BLESS`, `PRAISE`, "), &[], "`PRAISE` is in README.md, and nothing reads it");
    let emptied = right.replace("threads that run and compile kernels: a number, or `all` |", " |");
    refused(&emptied, &[], "README.md does not say what `THREADS` means");
}

#[test]
fn faults_of_readers_are_seen() {
    let right = readme();
    let read = |argument: &str| format!("let x = std::{}{argument});", WORDS[0]);
    refused(&right, &[("tests/it/a.rs:1", &read("\"NEW_NAME\""))], "tests/it/a.rs:1: `NEW_NAME` is not in README.md");
    refused(
        &right,
        &[("tests/it/a.rs:1", &read("name"))],
        "tests/it/a.rs:1: what is read of the environment has no name",
    );
    refused(&right, &[("devices/src/a.rs:1", &read("\"DEBUG\""))], "only runtime/src/config.rs reads the environment");
    refused(&right, &[("tests/it/a.rs:1", IMPORTS[0])], "the environment is read by full paths");
}
