//! What examples that are command line programs share: options, bars, and how they end.

use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;

use indicatif::{ProgressBar, ProgressStyle};
use warpweft::debug::{PIPE_CLOSED, end_with_the_reader, is_closed_pipe};

pub(crate) type Failure = Box<dyn Error>;

/// The value of an option.
pub(crate) fn parsed<T: FromStr>(option: &str, word: Option<String>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("{option} wants a value"))?;
    word.parse().map_err(|_| format!("{option} cannot be {word}"))
}

/// A bar on stderr, if that is a terminal.
pub(crate) fn bar(len: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{what} {{bar:32}} {{percent}} % {{elapsed}} {{msg}}"));
    ProgressBar::new(len).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

/// Runs a program: its options are right, or are for help (none), or wrong.
pub(crate) fn program<A>(
    name: &str,
    usage: &str,
    options: Result<Option<A>, String>,
    run: impl FnOnce(&A) -> Result<(), Failure>,
) -> ExitCode {
    end_with_the_reader();
    match options {
        Ok(None) => {
            println!("{usage}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{name}: {why}\n\n{usage}");
            ExitCode::from(2)
        }
        Ok(Some(options)) => match run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if is_closed_pipe(&*error) => ExitCode::from(PIPE_CLOSED),
            Err(error) => {
                eprintln!("{name}: {error}");
                ExitCode::FAILURE
            }
        },
    }
}
