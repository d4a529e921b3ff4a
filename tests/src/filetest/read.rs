//! Reads filetests, strictly: every line is part of the header, of a graph, of what is expected of one, or of a story, and what is none of
//! these is a *problem* that names the line and what would be right. A word that is misspelled would else be a test that looks at nothing.
//!
//! What tells an expectation from a story: a comment right below a graph, up to the next empty line, is an expectation; so is a comment that
//! begins with one small word and a colon, wherever it stands. The last lines of the file are the end of a graph, and nothing is left open.
//!
//! Problems too: a graph of which nothing is expected, an expectation that a command of the header does not look at (each command says what it
//! `reads`), output without `precise` in the header, words that a command does not take. Tested below, each planted.

use std::path::Path;

use super::{Case, CommandLine, Expectation, File};
use crate::commands;

/// The kinds of expectations.
const KINDS: [&str; 6] = ["check", "check-not", "hits", "run", "opts", "error"];

/// The parts of a file.
///
/// # Errors
/// All that is wrong with it, each with its line.
pub(super) fn read(path: &Path, text: &str) -> Result<File, Vec<String>> {
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let mut reader =
        Reader { commands: Vec::new(), cases: Vec::new(), inside: false, is_near: false, problems: vec![] };
    for (at, line) in lines.iter().enumerate() {
        reader.line(at + 1, line);
    }
    reader.end();
    let Reader { commands, cases, problems, .. } = reader;
    if problems.is_empty() {
        return Ok(File { path: path.to_path_buf(), lines, commands, cases });
    }
    Err(problems.into_iter().map(|(line, why)| format!("{}:{line}: {why}", path.display())).collect())
}

struct Reader {
    commands: Vec<CommandLine>,
    cases: Vec<Case>,
    /// Whether the line is one of a graph.
    inside: bool,
    /// Whether no empty line stands between it and the graph above.
    is_near: bool,
    problems: Vec<(usize, String)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let trimmed = line.trim();
        let starts_graph = ["graph", "linear"].contains(&trimmed.split(' ').next().unwrap_or_default());
        let read = if self.inside || starts_graph {
            self.line_of_graph(number, line)
        } else if let Some(words) = trimmed.strip_prefix("test ") {
            self.header(number, words)
        } else if let Some(golden) = trimmed.strip_prefix(";|") {
            self.golden(number, golden)
        } else if let Some(comment) = trimmed.strip_prefix(';') {
            self.comment(number, comment.trim())
        } else if trimmed.is_empty() {
            self.is_near = false;
            Ok(())
        } else {
            Err(format!("`{trimmed}` is neither `test COMMAND` nor the begin of a graph; a story begins with `;`"))
        };
        self.problems.extend(read.err().map(|why| (number, why)));
    }

    fn header(&mut self, number: usize, words: &str) -> Result<(), String> {
        if !self.cases.is_empty() {
            return Err("the header stands above all graphs".to_string());
        }
        let words = words.split(';').next().unwrap_or_default().split_whitespace();
        let (marks, words): (Vec<String>, Vec<String>) = words.map(str::to_string).partition(|word| word == "precise");
        let (name, words) = words.split_first().ok_or("`test` needs a command")?;
        let command = commands::named(name)
            .ok_or_else(|| format!("there is no command `{name}`; there are {}", commands::names()))?;
        command.takes(words)?;
        let precise = !marks.is_empty();
        if precise && (!command.reads.contains(&"check") || self.commands.iter().any(|other| other.precise)) {
            return Err("one command of a file can be precise, and none that prints nothing".to_string());
        }
        self.commands.push(CommandLine { line: number, command, words: words.to_vec(), precise });
        Ok(())
    }

    fn line_of_graph(&mut self, number: usize, line: &str) -> Result<(), String> {
        if !self.inside {
            self.cases.push(Case { first_line: number, ..Case::default() });
            (self.inside, self.is_near) = (true, true);
        }
        let Some(case) = self.cases.last_mut() else { return Ok(()) };
        case.text.push_str(line);
        case.text.push('\n');
        case.golden_lines = (number + 1, number + 1);
        let (code, comment) = line.split_once(';').unwrap_or((line, ""));
        let code = code.trim_end();
        self.inside = !(code == "}" || (code.ends_with('}') && code.contains('{')));
        match expectation(comment.trim(), number)? {
            Some(found) if found.kind == "error" => case.expectations.push(found),
            Some(found) => return Err(format!("`{}:` stands below the graph, not in it", found.kind)),
            None => {}
        }
        Ok(())
    }

    fn golden(&mut self, number: usize, golden: &str) -> Result<(), String> {
        let Some(case) = self.cases.last_mut() else { return Err("output stands below its graph".to_string()) };
        if case.golden.is_empty() {
            case.golden_lines.0 = number;
        } else if case.golden_lines.1 != number {
            return Err("lines of output stand together".to_string());
        }
        case.golden.push_str(golden.strip_prefix(' ').unwrap_or(golden));
        case.golden.push('\n');
        case.golden_lines.1 = number + 1;
        Ok(())
    }

    fn comment(&mut self, number: usize, comment: &str) -> Result<(), String> {
        match (expectation(comment, number)?, self.cases.last_mut()) {
            (Some(found), Some(case)) => case.expectations.push(found),
            (Some(found), None) => return Err(format!("`{}:` stands below the graph that it is about", found.kind)),
            (None, _) if self.is_near => {
                return Err(format!("expected {}; or an empty line, if this is a story", kinds()));
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// What can be said when all lines are read.
    fn end(&mut self) {
        if self.commands.is_empty() && self.problems.is_empty() {
            self.problems.push((1, "the header has no line `test COMMAND`".to_string()));
        }
        if self.cases.is_empty() {
            self.problems.push((1, "there is no graph in it".to_string()));
        }
        for (case, is_last) in self.cases.iter().rev().zip(std::iter::once(true).chain(std::iter::repeat(false))) {
            if is_last && self.inside {
                self.problems.push((case.first_line, "the graph has no `}` on a line of its own".to_string()));
            }
            self.problems.extend(problems_of(case, &self.commands));
        }
        self.problems.sort();
    }
}

/// What is wrong with what is expected of a case.
fn problems_of(case: &Case, commands: &[CommandLine]) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let is_precise = commands.iter().any(|command| command.precise);
    if case.expectations.is_empty() && !is_precise {
        problems.push((case.first_line, format!("nothing is expected of this graph; write {}", kinds())));
    }
    if !case.golden.is_empty() && !is_precise {
        problems.push((case.golden_lines.0, "nothing reads this output: the header has no `precise`".to_string()));
    }
    // A command that looks at no expectation stands beside one that does.
    let is_read = commands.iter().any(|line| !line.command.reads.is_empty());
    for expectation in &case.expectations {
        let looks = |line: &&CommandLine| !is_read || !line.command.reads.is_empty();
        for CommandLine { command, .. } in
            commands.iter().filter(looks).filter(|line| !line.command.reads.contains(&&*expectation.kind))
        {
            let reads = if command.reads.is_empty() { "nothing".to_string() } else { command.reads.join(", ") };
            let why = format!("`{}` reads {reads}, and no `{}:`", command.name, expectation.kind);
            problems.push((expectation.line, why));
        }
    }
    // A run that fails is the last one.
    let of_kind = |kind: &str| case.expectations.iter().filter(|found| found.kind == kind).count();
    if of_kind("error") > 0 && of_kind("run") > 1 {
        problems.push((case.first_line, "where an error is expected, there is one run".to_string()));
    }
    problems
}

fn kinds() -> String {
    KINDS.map(|kind| format!("`; {kind}:`")).join(", ")
}

/// The expectation that a comment says, if it says one.
fn expectation(comment: &str, line: usize) -> Result<Option<Expectation>, String> {
    let first = comment.split_whitespace().next().unwrap_or_default();
    match comment.split_once(':').map(|(kind, text)| (kind, text.trim())) {
        Some((kind, "")) if KINDS.contains(&kind) => Err(format!("`{kind}:` says nothing")),
        Some((kind, text)) if KINDS.contains(&kind) => {
            Ok(Some(Expectation { line, kind: kind.to_string(), text: text.to_string() }))
        }
        Some((kind, _)) if is_meant(kind.trim()) => {
            Err(format!("there is no expectation `{kind}:`; there are {}", kinds()))
        }
        _ if KINDS.contains(&first) => Err(format!("if this is an expectation, write `{first}: ...`")),
        _ => Ok(None),
    }
}

/// Whether a word before a colon is meant as an expectation. Stories begin with a capital, as in "Writes: in the place of ...".
fn is_meant(word: &str) -> bool {
    let begins_large = word.chars().next().is_some_and(char::is_uppercase);
    let is_near = KINDS.iter().any(|kind| word.to_lowercase().starts_with(kind));
    !word.contains(char::is_whitespace) && (is_near || !begins_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "test rewrite symbolic\ngraph %g(x: index 0..63) {\n  y = add x, 0\n  return y\n}\n";

    /// What is wrong with a text, each with its line.
    fn problems(text: &str) -> Vec<String> {
        let problems = read(Path::new("t"), text).err().unwrap_or_default();
        problems.into_iter().map(|problem| problem.trim_start_matches("t:").to_string()).collect()
    }

    #[track_caller]
    fn refused(text: &str, why: &str) {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.starts_with(why)), "`{why}` is not in {found:?}");
    }

    #[test]
    fn what_is_right_has_no_problems() {
        let text = format!("{GRAPH}; check: return x\n; hits: add-zero\n\n; Stories: of two\n; lines.\n");
        assert_eq!(problems(&text), Vec::<String>::new());
    }

    #[test]
    fn misspelled_expectations_are_refused() {
        for word in ["chekc", "Check", "CHECK-not", "check_not", "hit", "errors", "note"] {
            refused(
                &format!("{GRAPH}; {word}: return x\n"),
                &format!("6: there is no expectation `{word}:`; there are"),
            );
        }
        refused(&format!("{GRAPH}; check return x\n"), "6: if this is an expectation, write `check: ...`");
        refused(&format!("{GRAPH}; check : return x\n"), "6: there is no expectation `check :`");
        refused(&format!("{GRAPH}; cheks not: add\n"), "6: expected `; check:`");
        refused(&format!("{GRAPH}; return x\n"), "6: expected `; check:`");
        refused(&format!("{GRAPH}; check:\n"), "6: `check:` says nothing");
        refused(&GRAPH.replace("x, 0", "x, 0  ; eror: no"), "3: there is no expectation `eror:`");
    }

    #[test]
    fn expectations_that_nothing_reads_are_refused() {
        refused(
            &format!("{GRAPH}; run: %g(1) == [1]\n"),
            "6: `rewrite` reads check, check-not, hits, error, and no `run:`",
        );
        let run = GRAPH.replace("rewrite symbolic", "run interpreter");
        refused(&format!("{run}; check: x\n; run: %g(1) == [1]\n"), "6: `run` reads run, error, and no `check:`");
        let assembled = run.replacen("test run", "test assemble\ntest run", 1);
        refused(&format!("{assembled}; check: x\n; run: %g(1) == [1]\n"), "7: `run` reads run, error, and no `check:`");
        let alone = GRAPH.replace("rewrite symbolic", "assemble");
        refused(&format!("{alone}; run: %g(1) == [1]\n"), "6: `assemble` reads nothing, and no `run:`");
        refused(&format!("{GRAPH}; check: x\n;| return x\n"), "7: nothing reads this output");
        refused(&format!("; check: x\n{GRAPH}; check: x\n"), "1: `check:` stands below the graph that it is about");
        refused(&GRAPH.replace("x, 0", "x, 0  ; check: x"), "3: `check:` stands below the graph, not in it");
        let precise = GRAPH.replace("symbolic", "symbolic precise");
        refused(&format!("{precise};| a\n; check: x\n;| b\n"), "8: lines of output stand together");
        refused(&format!("{run}; run: %g(1)\n; run: %g(2)\n; error: no\n"), "2: where an error is expected");
    }

    #[test]
    fn graphs_of_which_nothing_is_expected_are_refused() {
        refused(GRAPH, "2: nothing is expected of this graph; write `; check:`");
        refused(
            &format!("{GRAPH}; check: x\n\ngraph %h() {{ return 1:i32 }}\n"),
            "8: nothing is expected of this graph",
        );
    }

    #[test]
    fn lines_that_are_nothing_are_refused() {
        refused(
            &format!("{GRAPH}; check: x\ngarph %h() {{ return 1:i32 }}\n"),
            "7: `garph %h() { return 1:i32 }` is neither",
        );
        refused(&format!("{GRAPH}; check: x\ncheck: y\n"), "7: `check: y` is neither");
        refused(&format!("tests parse\n{GRAPH}; check: x\n"), "1: `tests parse` is neither");
        refused(&format!("{GRAPH}; check: x\ntest parse\n"), "7: the header stands above all graphs");
        refused(GRAPH.trim_end_matches("}\n"), "2: the graph has no `}`");
    }

    #[test]
    fn words_of_the_header_are_held_to_what_commands_take() {
        let with = |header: &str| GRAPH.replace("rewrite symbolic", header) + "; error: no\n";
        refused(&with("frobnicate"), "1: there is no command `frobnicate`; there are parse, ");
        refused(&with("parse twice"), "1: `parse` does not take `twice`: it takes nothing");
        refused(&with("rewrite"), "1: `rewrite` needs a word: there are symbolic (all), ");
        refused(&with("rewrite symbolik"), "1: `rewrite` does not take `symbolik`: there are symbolic (all), ");
        refused(&with("verify"), "1: `verify` needs one of tensor, kernel, linear");
        refused(&with("verify tensor kernel"), "1: `verify` does not take `kernel`");
        refused(&with("schedule unfussed"), "1: `schedule` does not take `unfussed`: it takes unfused");
        refused(
            &with("linearize unoptimised"),
            "1: `linearize` does not take `unoptimised`: it takes unfused, unoptimized",
        );
        refused(&with("render wasm"), "1: `render` needs one of llvm, ptx");
        refused(&with("pass loops loops"), "1: `pass` does not take `loops`");
        refused(&with("run"), "1: `run` needs a word: there are interpreter, cpu, ");
        refused(&with("run interpreter cudo"), "1: `run` does not take `cudo`: there are interpreter, cpu, ");
        refused(&with("run cpu precise"), "1: one command of a file can be precise, and none that prints nothing");
    }
}
