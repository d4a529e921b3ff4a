//! Arguments of an opt, one after the other: numbers, ranges, loads and dimensions. An error says what is wrong with one, and the form that would be right.
//!
//! Tested with whole opts ([`super`]).

use super::OptTextError;
use crate::ir::ThreadDim;

/// What stands in an opt's parentheses, the first last.
pub(super) struct Arguments<'t> {
    text: &'t str,
    form: &'t str,
    left: Vec<&'t str>,
}

impl<'t> Arguments<'t> {
    /// What stands between the parentheses of an opt that is written in this form.
    pub(super) fn of(text: &'t str, form: &'t str, inside: &'t str) -> Arguments<'t> {
        Arguments { text, form, left: inside.split(',').map(str::trim).rev().collect() }
    }

    /// Whether all were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn wrong(&self, what: String) -> OptTextError {
        OptTextError { text: self.text.to_string(), reason: format!("{what}; it is written as in `{}`", self.form) }
    }

    fn next(&mut self) -> Result<&str, OptTextError> {
        match self.left.pop() {
            Some(argument) if !argument.is_empty() => Ok(argument),
            _ => Err(self.wrong("an argument is missing".to_string())),
        }
    }

    fn digits(&self, digits: &str, argument: &str, what: &str) -> Result<u32, OptTextError> {
        let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
        number.ok_or_else(|| self.wrong(format!("`{argument}` is no {what}")))
    }

    pub(super) fn number(&mut self) -> Result<u32, OptTextError> {
        let argument = self.next()?.to_string();
        self.digits(&argument, &argument, "number")
    }

    /// A number, if there is one more argument.
    pub(super) fn number_or(&mut self, otherwise: u32) -> Result<u32, OptTextError> {
        if self.left.is_empty() { Ok(otherwise) } else { self.number() }
    }

    /// A number behind a letter.
    fn named(&mut self, letter: char, what: &str) -> Result<u32, OptTextError> {
        let argument = self.next()?.to_string();
        let digits = argument.strip_prefix(letter).filter(|digits| !digits.is_empty()).unwrap_or("?");
        self.digits(digits, &argument, what)
    }

    pub(super) fn range(&mut self) -> Result<u32, OptTextError> {
        self.named('r', "range")
    }

    /// All that are left, at least one.
    pub(super) fn ranges(&mut self) -> Result<Vec<u32>, OptTextError> {
        let mut ranges = vec![self.range()?];
        while !self.left.is_empty() {
            ranges.push(self.range()?);
        }
        Ok(ranges)
    }

    pub(super) fn dim(&mut self) -> Result<ThreadDim, OptTextError> {
        let argument = self.next()?.to_string();
        let found = ThreadDim::ALL.into_iter().find(|dim| dim.name() == argument);
        found.ok_or_else(|| self.wrong(format!("`{argument}` is no dimension, which are x, y and z")))
    }

    pub(super) fn load(&mut self) -> Result<u32, OptTextError> {
        self.named('l', "load")
    }

    pub(super) fn end(&self) -> Result<(), OptTextError> {
        match self.left.last() {
            None => Ok(()),
            Some(argument) => Err(self.wrong(format!("`{argument}` is one argument too many"))),
        }
    }
}
