//! Odd numbers, shapes and types through the public interface, as tables: each call is an error that says what was wrong and what would be right, and
//! names the line of the caller. Here is how a call is judged; each table has a file.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod algebra;
mod creation;
mod elements;
mod functions;
mod layers;
mod movement;

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::path::Path;

use warpweft::{DType, Tensor};

const MOST: i64 = i64::MAX;
const LEAST: i64 = i64::MIN;

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32 + 1.0).collect(), shape.to_vec())
}

fn integers(shape: &[i64]) -> Tensor {
    floats(shape).cast(DType::I64)
}

/// What a call gave: the text of an error, or none.
trait Outcome {
    fn error(self) -> Option<String>;
}

impl Outcome for Tensor {
    fn error(self) -> Option<String> {
        self.dims().err().map(|error| error.to_string())
    }
}

impl<T> Outcome for warpweft::Result<T> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl Outcome for (Tensor, Tensor) {
    fn error(self) -> Option<String> {
        self.0.error().or(self.1.error())
    }
}

/// A call that is refused, and where it stands.
struct Case {
    location: &'static Location<'static>,
    error: Option<String>,
    says: &'static str,
}

#[track_caller]
fn case<O: Outcome>(call: impl FnOnce() -> O, says: &'static str) -> Case {
    let error = catch_unwind(AssertUnwindSafe(call)).map_or_else(|_| Some("a panic".to_string()), O::error);
    Case { location: Location::caller(), error, says }
}

/// Each has an error, which says this and names the call.
fn check(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for Case { location, error, says } in cases {
        let line = location.line();
        let Some(error) = error else {
            wrong.push(format!("line {line}: no error"));
            continue;
        };
        let file = Path::new(location.file()).file_name().unwrap().to_str().unwrap();
        let rest = error.split(&format!("{file}:")).nth(1);
        let named = rest.and_then(|rest| rest.split(')').next()?.parse::<u32>().ok());
        // A call may go over a few lines.
        if !named.is_some_and(|named| (line..line + 4).contains(&named)) {
            wrong.push(format!("line {line}: `{error}` names another line"));
        }
        if !error.contains(says) {
            wrong.push(format!("line {line}: `{error}` does not say `{says}`"));
        }
    }
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}
