//! The conformance runner: reads a file of cases with expected results and says which hold.
//!
//! One module a kind of file, each with `run(cases, filter) -> Report`. A case passes, fails, or is unsupported, that
//! is, asks for something that the project does not offer or does not decide. Readers are strict: a field or an op that
//! they do not know makes a case unsupported, never passed; and a run in which no case passed is not clean, whatever the reason.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

pub mod alias;
pub mod alias_graph;
pub mod alias_sets;
pub mod corpus;
pub mod fusion;
pub mod inplace;
pub mod ops;
mod ops_call;
mod ops_layers;
mod ops_losses;
mod ops_more;
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

    /// Some passed, none failed and none is unsupported.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.passed > 0 && self.failed == 0 && self.unsupported == 0
    }

    /// The cases that were judged.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.passed + self.failed + self.unsupported
    }
}

impl fmt::Display for Report {
    /// The lines, then `N passed, M failed, K unsupported`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if self.judged() == 0 {
            writeln!(f, "no case was judged: the file holds none of this kind, or none whose id holds the filter")?;
        }
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
    pub fn about(self, what: &Value) -> Self {
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

/// The cases of a list whose id holds `filter`, each with its id. What is no list is one case that cannot be judged; a list that is
/// not there has no cases.
fn selected<'c>(report: &mut Report, cases: &'c Value, filter: Option<&str>) -> Vec<(String, &'c Value)> {
    let list = match cases {
        Value::Array(list) => &list[..],
        Value::Null => &[],
        _ => {
            report.record("the list of cases", Outcome::Unsupported("it is no list".to_owned()));
            &[]
        }
    };
    let named = list.iter().enumerate().map(|(number, case)| {
        let id = case["id"].as_str().map_or_else(|| format!("case {number}"), str::to_owned);
        (id, case)
    });
    named.filter(|(id, _)| filter.is_none_or(|filter| id.contains(filter))).collect()
}

/// How a case ends. A panic is a bug of the library; the other cases are worth running all the same.
fn ended(judge: impl FnOnce() -> Result<(), Stop>) -> Outcome {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge)) {
        Ok(judged) => judged.map_or_else(|stop| stop.0, |()| Outcome::Passed),
        Err(_) => Outcome::Failed("the library panicked".to_owned()),
    }
}

/// Runs every case of a list whose id holds `filter`, one after the other.
pub fn run_list(
    report: &mut Report,
    cases: &Value,
    filter: Option<&str>,
    mut judge: impl FnMut(&Value) -> Result<(), Stop>,
) {
    for (id, case) in selected(report, cases, filter) {
        report.record(&id, ended(|| judge(case)));
    }
}

/// As [`run_list`], for cases that have nothing to do with each other: on all cores, reported in the order of the list.
pub fn run_list_in_parallel(
    report: &mut Report,
    cases: &Value,
    filter: Option<&str>,
    judge: impl Fn(&Value) -> Result<(), Stop> + Sync,
) {
    let selected = selected(report, cases, filter);
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Outcome>>> = selected.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((slot, (_, case))) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            outcomes.get(number).zip(selected.get(number))
        } {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended(|| judge(case)));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    for ((id, _), outcome) in selected.iter().zip(outcomes) {
        let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.record(id, outcome.unwrap_or_else(|| Outcome::Failed("it was not judged".to_owned())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn positive(case: &Value) -> Result<(), Stop> {
        match case["value"].as_i64() {
            Some(0) => panic!("a bug"),
            Some(value) if value > 0 => Ok(()),
            Some(value) => Err(Stop::failed(format!("{value} is negative"))),
            None => Err(Stop::unsupported("no value")),
        }
    }

    /// The report of a list, which must be the same one case after the other and on all cores.
    fn report(cases: &Value, filter: Option<&str>) -> Report {
        let (mut serial, mut parallel) = (Report::default(), Report::default());
        run_list(&mut serial, cases, filter, positive);
        run_list_in_parallel(&mut parallel, cases, filter, positive);
        assert_eq!(serial, parallel);
        serial
    }

    #[test]
    fn each_case_counts_once_and_a_panic_is_a_failure() {
        let cases = json!([{"id": "a", "value": 1}, {"id": "b", "value": -1}, {"id": "c"}, {"id": "d", "value": 0}]);
        let all = report(&cases, None);
        assert_eq!((all.passed, all.failed, all.unsupported), (1, 2, 1));
        assert_eq!(
            all.lines,
            ["failed b: -1 is negative", "unsupported c: no value", "failed d: the library panicked"]
        );
        assert!(report(&cases, Some("a")).is_clean());
    }

    #[test]
    fn a_run_without_cases_is_not_clean() {
        for (cases, filter) in [(json!([]), None), (Value::Null, None), (json!([{"id": "a", "value": 1}]), Some("z"))] {
            let report = report(&cases, filter);
            assert!(!report.is_clean());
            assert!(report.to_string().starts_with("no case was judged"), "{report}");
        }
        assert_eq!(report(&json!({"id": "a"}), None).unsupported, 1);
    }
}
