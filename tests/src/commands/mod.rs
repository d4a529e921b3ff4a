//! The commands of filetests, one a file. A command takes the words of its header line and a case, and gives an output.
//!
//! The table says what words each takes and which expectations it looks at; all else is refused when a file is read.

mod assemble;
mod compile;
mod lower;
mod opts;
mod parse;
mod rewrite;
mod run;
mod verify;

use warpweft_compiler::ir::text::{Graph, ParseError};

use crate::filetest::{Case, Output};

/// What a file can ask for.
pub struct Command {
    /// How a header calls it.
    pub name: &'static str,
    /// The words that may stand behind the name.
    words: Words,
    /// The kinds of expectations that it looks at.
    pub reads: &'static [&'static str],
    /// Does it.
    pub run: fn(&[String], &Case) -> Output,
}

/// The words that a command takes.
struct Words {
    /// The first word is one of these, if there are any.
    first: &'static [&'static str],
    /// Each of these may follow once.
    may: &'static [&'static str],
    /// Or else there is at least one word, and each is one of those that this knows: whether it does, and all that there are.
    each: Option<Knows>,
}

/// Whether a word is known; else the error says which are.
type Knows = fn(&str) -> Result<(), String>;

const NONE: Words = Words { first: &[], may: &[], each: None };
/// What is looked for in text.
const TEXT: &[&str] = &["check", "check-not", "error"];

static COMMANDS: [Command; 11] = [
    Command { name: "parse", words: NONE, reads: TEXT, run: parse::parse },
    Command {
        name: "rewrite",
        words: Words { each: Some(rewrite::is_set), ..NONE },
        reads: &["check", "check-not", "hits", "error"],
        run: rewrite::rewrite,
    },
    Command {
        name: "verify",
        words: Words { first: &["tensor", "kernel", "linear"], ..NONE },
        reads: TEXT,
        run: verify::verify,
    },
    Command { name: "schedule", words: Words { may: &["unfused"], ..NONE }, reads: TEXT, run: compile::schedule },
    Command {
        name: "pass",
        words: Words { first: &["loops"], may: &["unfused"], each: None },
        reads: TEXT,
        run: compile::pass,
    },
    Command {
        name: "opts",
        words: Words { may: &["every"], ..NONE },
        reads: &["opts", "check", "check-not", "error"],
        run: opts::opts,
    },
    Command {
        name: "linearize",
        words: Words { may: &["unfused", "unoptimized"], ..NONE },
        reads: TEXT,
        run: compile::linearize,
    },
    Command {
        name: "lower",
        words: Words { first: lower::MACHINES, ..NONE },
        reads: &["opts", "run", "check", "check-not", "error"],
        run: lower::lower,
    },
    Command {
        name: "render",
        words: Words {
            first: &["llvm", "ptx"],
            may: &["cooperlake", "sapphirerapids", "unfused", "unoptimized"],
            each: None,
        },
        reads: TEXT,
        run: compile::render,
    },
    Command {
        name: "assemble",
        words: Words { may: &["unfused", "unoptimized"], ..NONE },
        reads: &[],
        run: assemble::assemble,
    },
    Command {
        name: "run",
        words: Words { each: Some(run::is_engine), ..NONE },
        reads: &["run", "error"],
        run: run::run,
    },
];

impl Command {
    /// Whether these words may stand behind the name.
    ///
    /// # Errors
    /// With the first that may not, and those that may.
    pub fn takes(&self, words: &[String]) -> Result<(), String> {
        let Words { first, may, each } = self.words;
        let name = self.name;
        let refused = |word: &str, why: &str| Err(format!("`{name}` does not take `{word}`: {why}"));
        if let Some(each) = each {
            if words.is_empty() {
                return Err(format!("`{name}` needs a word: {}", each("").err().unwrap_or_default()));
            }
            return words.iter().try_for_each(|word| each(word).or_else(|why| refused(word, &why)));
        }
        let mut rest = words.iter().map(String::as_str);
        if !first.is_empty() && !rest.next().is_some_and(|word| first.contains(&word)) {
            return Err(format!("`{name}` needs one of {}", first.join(", ")));
        }
        let mut left = may.to_vec();
        for word in rest {
            let Some(at) = left.iter().position(|known| *known == word) else {
                let takes =
                    if may.is_empty() { "nothing".to_string() } else { format!("{}, each once", may.join(", ")) };
                return refused(word, &format!("it takes {takes}{}", if first.is_empty() { "" } else { " more" }));
            };
            left.remove(at);
        }
        Ok(())
    }
}

/// The command of that name.
pub fn named(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|known| known.name == name)
}

/// The names of all commands.
pub fn names() -> String {
    COMMANDS.each_ref().map(|command| command.name).join(", ")
}

/// The graph of a case, or the output that says why there is none.
fn graph_of(case: &Case) -> Result<Graph, Output> {
    let parsed = warpweft_compiler::ir::text::parse_with_lines(&case.text, case.first_line);
    parsed.map(|(graph, _)| graph).map_err(parse_error)
}

fn parse_error(error: ParseError) -> Output {
    Output { error: Some((Some(error.line), error.message)), ..Output::default() }
}

fn failed(message: impl ToString) -> Output {
    Output { error: Some((None, message.to_string())), ..Output::default() }
}
