//! The commands of filetests, one a file. A command takes the words of its header line and a case, and gives an output.

mod compile;
mod parse;
mod rewrite;
mod run;
mod verify;

use warpweft_compiler::ir::text::{Graph, ParseError};

use crate::filetest::{Case, Output};

/// What a command is.
pub type Command = fn(&[String], &Case) -> Output;

const COMMANDS: [(&str, Command); 8] = [
    ("parse", parse::parse),
    ("rewrite", rewrite::rewrite),
    ("verify", verify::verify),
    ("schedule", compile::schedule),
    ("pass", compile::pass),
    ("linearize", compile::linearize),
    ("render", compile::render),
    ("run", run::run),
];

/// The command of that name.
pub fn named(name: &str) -> Option<Command> {
    COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, command)| *command)
}

/// The names of all commands.
pub fn names() -> String {
    COMMANDS.map(|(name, _)| name).join(", ")
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
