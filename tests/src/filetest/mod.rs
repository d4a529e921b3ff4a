//! The filetest runner: `.uop` files hold graphs with what must come of them.
//!
//! ```text
//! test rewrite symbolic               ; header: commands, each applied to every graph of the file
//!
//! ; A story: why this test is here.
//! graph %join(x: index 0..63) {
//!   q = idiv x, 8                     ; error: ...      (an error that must be reported on this line)
//!   ...
//! }
//! ; check: return x                   the output has this text, after what earlier checks found
//! ; check-not: idiv                   the output does not have this text
//! ; hits: join-div-mod                exactly these rules hit, in the order of their first hits; or `none`
//! ; run: %join(29) == [29]            see `commands::run`
//! ; opts: split(r0, 8)                see `commands::opts`
//! ; error: ...                        an error without a line
//! ```
//!
//! With `precise` in a header line all of the output stands below the graph on lines `;| ...`. `BLESS=1` rewrites those lines; the
//! difference is the review. A command is one file in `commands`.
//!
//! Always: what is written in a file is looked at, or said to be wrong: `read` refuses what it does not know, expectations that no command
//! reads, and graphs of which nothing is expected. An engine that this machine cannot have is counted as skipped, never as passed.

mod read;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::commands::Command;
use read::read;

/// One graph of a file with what is expected of it.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The text of the graph or list, with its comments.
    pub text: String,
    /// The line of the file on which the text begins.
    pub first_line: usize,
    /// What must come of it.
    pub expectations: Vec<Expectation>,
    /// Lines of the file, from and to (not included), that hold the precise output.
    golden_lines: (usize, usize),
    golden: String,
}

/// One line of expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The line of the file.
    pub line: usize,
    /// The word before the colon: `check`.
    pub kind: String,
    /// What stands after it.
    pub text: String,
}

/// What a command made of a case.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// What `check` and `precise` look at.
    pub text: String,
    /// The rules that hit, in order, if the command rewrites.
    pub hits: Option<Vec<String>>,
    /// The error, with the line of the file that it is pinned to.
    pub error: Option<(Option<usize>, String)>,
    /// Engines that could not be asked, and why: counted, never silently passed.
    pub skipped: Vec<String>,
}

/// What running files found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Cases run, a case counted once for each command.
    pub cases: usize,
    /// One text for each expectation that does not hold.
    pub failures: Vec<String>,
    /// Lines about what could not be run.
    pub skipped: Vec<String>,
}

/// A file, read.
struct File {
    path: PathBuf,
    lines: Vec<String>,
    commands: Vec<CommandLine>,
    cases: Vec<Case>,
}

/// One `test ...` line: the command, its words, and whether its output is held word for word.
struct CommandLine {
    line: usize,
    command: &'static Command,
    words: Vec<String>,
    precise: bool,
}

/// Runs every `.uop` file below `directory`; with `bless`, precise outputs are rewritten instead of compared.
///
/// # Errors
/// When a file cannot be read or written, or is no `.uop` file.
pub fn run_directory(directory: &Path, bless: bool) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for path in files_below(directory)? {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        run_one(&path, &text, bless, &mut summary)?;
    }
    Ok(summary)
}

/// Runs one text as if it were a file of that name.
pub fn run_text(name: &str, text: &str) -> Summary {
    let mut summary = Summary::default();
    // Nothing is written, so nothing can go wrong with it.
    let _ = run_one(Path::new(name), text, false, &mut summary);
    summary
}

fn run_one(path: &Path, text: &str, bless: bool, summary: &mut Summary) -> Result<(), String> {
    match read(path, text) {
        Ok(mut file) => run_file(&mut file, bless, summary),
        Err(problems) => {
            summary.failures.extend(problems);
            Ok(())
        }
    }
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
            match path.extension() {
                _ if path.is_dir() => pending.push(path),
                Some(extension) if extension == "uop" => found.push(path),
                _ => return Err(format!("{}: a filetest is called `NAME.uop`", path.display())),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn run_file(file: &mut File, bless: bool, summary: &mut Summary) -> Result<(), String> {
    let mut blessed: Vec<((usize, usize), String)> = Vec::new();
    for command_line in &file.commands {
        for case in &file.cases {
            summary.cases += 1;
            let output = run_case(command_line, case);
            let at = |line: usize| format!("{}:{line}", file.path.display());
            summary.skipped.extend(output.skipped.iter().map(|why| format!("{}: {why}", at(case.first_line))));
            summary
                .failures
                .extend(failures(case, &output).into_iter().map(|(line, why)| format!("{}: {why}", at(line))));
            if command_line.precise && output.text.is_empty() {
                summary.failures.push(format!(
                    "{}: there is no output of {}",
                    at(command_line.line),
                    at(case.first_line)
                ));
            } else if command_line.precise && output.text != case.golden {
                if bless {
                    blessed.push((case.golden_lines, output.text));
                } else {
                    let why = difference(&case.golden, &output.text);
                    summary.failures.push(format!("{}: {why}; run with BLESS=1 to renew", at(case.golden_lines.0)));
                }
            }
        }
    }
    if blessed.is_empty() {
        return Ok(());
    }
    for ((from, to), text) in blessed.into_iter().rev() {
        let lines = text.lines().map(|line| format!(";| {line}").trim_end().to_string());
        file.lines.splice(from - 1..to - 1, lines);
    }
    std::fs::write(&file.path, file.lines.join("\n") + "\n")
        .map_err(|error| format!("{}: {error}", file.path.display()))
}

/// A bug of the compiler panics; here it is the error of one case, and the other cases run.
fn run_case(line: &CommandLine, case: &Case) -> Output {
    let result = std::panic::catch_unwind(|| (line.command.run)(&line.words, case));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let message = format!("it panicked: {}", text.unwrap_or_default());
        Output { error: Some((None, message)), ..Output::default() }
    })
}

/// What does not hold, each with the line that expects it.
fn failures(case: &Case, output: &Output) -> Vec<(usize, String)> {
    let mut failures = Vec::new();
    let mut rest = output.text.as_str();
    let mut errors_expected = false;
    for expectation in &case.expectations {
        let text = expectation.text.as_str();
        let failure = match expectation.kind.as_str() {
            "check" => match rest.find(text) {
                Some(found) => {
                    rest = &rest[found + text.len()..];
                    None
                }
                None => Some(format!("`{text}` is not in the rest of the output:\n{rest}")),
            },
            "check-not" if output.text.is_empty() => Some("there is no output".to_string()),
            "check-not" if output.text.contains(text) => Some(format!("`{text}` is in the output:\n{}", output.text)),
            "hits" => hits_failure(text, output.hits.as_deref()),
            "error" => {
                errors_expected = true;
                error_failure(expectation, case, output)
            }
            _ => None,
        };
        failures.extend(failure.map(|why| (expectation.line, why)));
    }
    if let Some((line, message)) = &output.error
        && !errors_expected
    {
        failures.push((line.unwrap_or(case.first_line), message.clone()));
    }
    failures
}

fn hits_failure(expected: &str, hits: Option<&[String]>) -> Option<String> {
    let Some(hits) = hits else { return Some("this command does not rewrite".to_string()) };
    let mut distinct: Vec<&str> = Vec::new();
    for hit in hits {
        if !distinct.contains(&hit.as_str()) {
            distinct.push(hit);
        }
    }
    let found = if distinct.is_empty() { "none".to_string() } else { distinct.join(", ") };
    (found != expected).then(|| format!("hits are {found}"))
}

fn error_failure(expectation: &Expectation, case: &Case, output: &Output) -> Option<String> {
    let Some((line, message)) = &output.error else { return Some("there was no error".to_string()) };
    let last_line = case.first_line + case.text.lines().count();
    let is_pinned = expectation.line < last_line;
    if is_pinned && *line != Some(expectation.line) {
        return Some(format!("the error is on line {line:?}: {message}"));
    }
    (!message.contains(&expectation.text)).then(|| format!("the error is: {message}"))
}

/// The first line in which two texts differ.
pub fn difference(expected: &str, found: &str) -> String {
    let mut text = String::from("the output differs");
    for (number, pair) in lines_of_both(expected, found).enumerate() {
        if pair.0 != pair.1 {
            let _ = write!(text, " on its line {}\n  expected: {}\n  found:    {}", number + 1, pair.0, pair.1);
            break;
        }
    }
    text
}

fn lines_of_both<'t>(a: &'t str, b: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let len = a.lines().count().max(b.lines().count());
    let line = |text: &'t str, number: usize| text.lines().nth(number).unwrap_or("(nothing)");
    (0..len).map(move |number| (line(a, number), line(b, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures_of(text: &str) -> Vec<String> {
        run_text("t.uop", text).failures
    }

    const GRAPH: &str = "test rewrite symbolic\ngraph %g(x: index 0..63) {\n  y = add x, 0\n  return y\n}\n";

    #[test]
    fn expectations_that_hold_say_nothing() {
        let text = format!("{GRAPH}; check: return x\n; check-not: add\n; hits: add-zero\n");
        assert_eq!(failures_of(&text), Vec::<String>::new());
    }

    #[test]
    fn expectations_that_do_not_hold_are_named_with_their_line() {
        let failures = failures_of(&format!("{GRAPH}; check: return y\n; check-not: return x\n; hits: none\n"));
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].starts_with("t.uop:6: `return y` is not in the rest of the output"), "{failures:?}");
        assert!(failures[1].starts_with("t.uop:7: `return x` is in the output"), "{failures:?}");
        assert_eq!(failures[2], "t.uop:8: hits are add-zero");
    }

    #[test]
    fn errors_must_be_expected_and_on_their_line() {
        let wrong = "test parse\ngraph %g(x: f32[2]) {\n  y = plus x\n  return y\n}\n";
        let unexpected = failures_of(&format!("{wrong}; check-not: minus\n"));
        assert!(
            unexpected.iter().any(|failure| failure.starts_with("t.uop:3: expected the name of")),
            "{unexpected:?}"
        );
        let expected = wrong.replace("plus x", "plus x  ; error: expected the name of an op");
        assert_eq!(failures_of(&expected), Vec::<String>::new());
        let elsewhere = wrong.replace("return y", "return y  ; error: expected the name of an op");
        assert!(failures_of(&elsewhere)[0].contains("the error is on line Some(3)"));
    }

    #[test]
    fn files_without_header_or_graph_are_refused() {
        let graph = "graph %g() { return 1:i32 }";
        assert!(failures_of(graph).concat().contains("no line `test COMMAND`"));
        assert!(failures_of("test parse").concat().contains("no graph"));
        assert!(failures_of(&format!("test frobnicate\n{graph}")).concat().contains("no command `frobnicate`"));
    }

    #[test]
    fn nothing_is_not_what_was_expected() {
        let wrong = "test rewrite symbolic\ngraph %g(x: f32[2]) {\n  y = plus x\n  return y\n}\n; error: plus\n";
        assert_eq!(failures_of(wrong), Vec::<String>::new());
        assert_eq!(failures_of(&format!("{wrong}; check-not: y\n")), ["t.uop:7: there is no output"]);
        let precise = wrong.replace("symbolic", "symbolic precise");
        assert!(failures_of(&precise)[0].starts_with("t.uop:1: there is no output"), "{:?}", failures_of(&precise));
    }
}
