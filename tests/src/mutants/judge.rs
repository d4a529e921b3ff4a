//! Whether the tests notice a fault: those that reach it are asked, short ones first, until one fails.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::list::Fault;
use super::run::{self, Asked};
use super::suite::{Suite, Test};

/// What became of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This test failed.
    Noticed(String),
    /// No test failed.
    Survived,
    /// No test reaches it.
    NotReached,
}

/// Whether the tests notice a fault: `number` names the switch, or nothing what was built alone.
pub fn judge(fault: &Fault, number: Option<usize>, suite: &Suite, scratch: &Path, workers: usize) -> Outcome {
    let tests = order(fault, number, suite);
    if tests.is_empty() {
        return Outcome::NotReached;
    }
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let noticed = Mutex::new(None);
    let work = |worker: usize| {
        let folder = scratch.join(format!("worker{worker}"));
        while !over.load(Ordering::Relaxed) {
            let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let binary = &suite.binaries[test.binary];
            let asked = Asked { fault: number, limit: test.time * 8 + Duration::from_secs(20), reached: None };
            let why = run::fails(binary, &test.name, &asked, &folder, &|| over.load(Ordering::Relaxed));
            if let Some(why) = why
                && !over.swap(true, Ordering::Relaxed)
            {
                let text = format!("{} {} ({why})", binary.name, test.name);
                *noticed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(text);
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        (0..workers).for_each(|worker| drop(scope.spawn(move || work(worker))));
    });
    let noticed = noticed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    noticed.map_or(Outcome::Survived, Outcome::Noticed)
}

/// The tests that reach a fault: those that are likely to notice it, then the others, short ones first.
fn order<'a>(fault: &Fault, number: Option<usize>, suite: &'a Suite) -> Vec<&'a Test> {
    let likely = |test: &Test| {
        let binary = &suite.binaries[test.binary].name;
        fault.killers.iter().any(|(name, start)| name == binary && test.name.starts_with(start))
    };
    let reaching = suite.tests.iter().filter(|test| number.is_none_or(|number| test.reaches.contains(&number)));
    let (mut first, rest): (Vec<&Test>, Vec<&Test>) = reaching.partition(|test| likely(test));
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::suite::Binary;

    fn suite() -> Suite {
        let binary = |name: &str| Binary { name: name.into(), path: "/bin/false".into(), folder: ".".into() };
        let test = |binary, name: &str, reaches: &[usize]| Test {
            binary,
            name: name.into(),
            time: Duration::ZERO,
            reaches: reaches.iter().copied().collect(),
        };
        let tests = vec![test(0, "short", &[1, 2]), test(1, "a::long", &[2]), test(1, "b::longer", &[2])];
        Suite { binaries: vec![binary("unit"), binary("it")], tests }
    }

    #[test]
    fn those_that_reach_a_fault_are_asked_and_likely_ones_first() {
        let suite = suite();
        let names = |fault: &Fault, number| -> Vec<&str> {
            order(fault, number, &suite).iter().map(|test| test.name.as_str()).collect()
        };
        let fault = Fault { killers: vec![("it".into(), "b".into())], ..Fault::default() };
        assert_eq!(names(&fault, Some(2)), ["b::longer", "short", "a::long"]);
        assert_eq!(names(&fault, Some(1)), ["short"]);
        assert_eq!(names(&fault, None).len(), 3);
    }

    #[test]
    fn what_fails_notices_and_what_nothing_reaches_survives() {
        let (suite, scratch) = (suite(), std::env::temp_dir());
        let judged = |number| judge(&Fault::default(), Some(number), &suite, &scratch, 2);
        assert!(matches!(judged(1), Outcome::Noticed(text) if text.starts_with("unit short")));
        assert_eq!(judged(7), Outcome::NotReached);
    }
}
