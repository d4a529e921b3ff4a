//! The conformance runner: reads a file of cases with expected results and says which hold.
//!
//! One module a kind of file, each with `run(cases, filter) -> Report`. A case passes, fails, or is unsupported, that
//! is, asks for something that the project does not offer or does not decide. Readers are strict: a field or an op that
//! they do not know makes a case unsupported, never passed.

use std::fmt;

pub mod alias;
pub mod alias_graph;
pub mod alias_sets;
pub mod fusion;
pub mod inplace;
pub mod ops;
pub mod ops_table;
pub mod symbolic;
pub mod view_memory;
pub mod view_steps;
pub mod views;

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A line for each case that did not pass, and whatever else the kind prints.
    pub lines: Vec<String>,
    /// Cases whose results all agree.
    pub passed: usize,
    /// Cases with a result that differs.
    pub failed: usize,
    /// Cases that ask for what is not offered or not decided.
    pub unsupported: usize,
}

/// How one case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All results agree.
    Passed,
    /// Some differ: what was wanted and what came.
    Failed(String),
    /// The case asks for something that is not offered or not decided.
    Unsupported(String),
}

impl Report {
    /// Counts a case, with a line unless it passed.
    pub fn record(&mut self, id: &str, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(why) => {
                self.failed += 1;
                self.lines.push(format!("failed {id}: {why}"));
            }
            Outcome::Unsupported(why) => {
                self.unsupported += 1;
                self.lines.push(format!("unsupported {id}: {why}"));
            }
        }
    }

    /// None failed and none is unsupported.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failed == 0 && self.unsupported == 0
    }
}

impl fmt::Display for Report {
    /// The lines, then `N passed, M failed, K unsupported`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "{} passed, {} failed, {} unsupported", self.passed, self.failed, self.unsupported)
    }
}

/// Why a case could not be judged as passed: the two ends besides passing, for use with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop(pub Outcome);

impl Stop {
    /// The case asks for something that is not offered or not decided.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Stop(Outcome::Unsupported(why.into()))
    }

    /// The same, with what it is about.
    #[must_use]
    pub fn about(self, what: &serde_json::Value) -> Self {
        match self.0 {
            Outcome::Passed => Stop(Outcome::Passed),
            Outcome::Failed(why) => Stop::failed(format!("{what}: {why}")),
            Outcome::Unsupported(why) => Stop::unsupported(format!("{what}: {why}")),
        }
    }

    /// A result differs.
    pub fn failed(why: impl Into<String>) -> Self {
        Stop(Outcome::Failed(why.into()))
    }
}

/// Runs every case of a list whose id holds `filter`.
pub fn run_list(
    report: &mut Report,
    cases: &serde_json::Value,
    filter: Option<&str>,
    mut judge: impl FnMut(&serde_json::Value) -> Result<(), Stop>,
) {
    for (number, case) in cases.as_array().into_iter().flatten().enumerate() {
        let id = case["id"].as_str().map_or_else(|| format!("case {number}"), str::to_owned);
        if filter.is_some_and(|filter| !id.contains(filter)) {
            continue;
        }
        let outcome = judge(case).map_or_else(|stop| stop.0, |()| Outcome::Passed);
        report.record(&id, outcome);
    }
}

/// Reading of fields, with a complaint that names the field.
pub mod field {
    use super::Stop;
    use serde_json::Value;

    /// An integer.
    ///
    /// # Errors
    /// If the field is not there or no integer.
    pub fn integer(value: &Value, name: &str) -> Result<i64, Stop> {
        value[name].as_i64().ok_or_else(|| Stop::unsupported(format!("field {name} is no integer")))
    }

    /// A text.
    ///
    /// # Errors
    /// If the field is not there or no text.
    pub fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Stop> {
        value[name].as_str().ok_or_else(|| Stop::unsupported(format!("field {name} is no text")))
    }

    /// A list.
    ///
    /// # Errors
    /// If the field is not there or no list.
    pub fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Stop> {
        let list = value[name].as_array().map(Vec::as_slice);
        list.ok_or_else(|| Stop::unsupported(format!("field {name} is no list")))
    }

    /// A list of integers.
    ///
    /// # Errors
    /// If the field is not there or holds something else.
    pub fn integers(value: &Value, name: &str) -> Result<Vec<i64>, Stop> {
        let complaint = || Stop::unsupported(format!("field {name} is no list of integers"));
        list(value, name)?.iter().map(|entry| entry.as_i64().ok_or_else(complaint)).collect()
    }

    /// A list of dimension numbers.
    ///
    /// # Errors
    /// If the field is not there or holds something else.
    pub fn dims(value: &Value, name: &str) -> Result<Vec<usize>, Stop> {
        let complaint = |_| Stop::unsupported(format!("field {name} holds a negative dimension"));
        integers(value, name)?.into_iter().map(|dim| usize::try_from(dim).map_err(complaint)).collect()
    }
}
