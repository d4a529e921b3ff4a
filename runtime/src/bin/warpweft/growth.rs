//! Cases about how compile time grows: programs of a thousand outputs, lengths, variables or parts, each made from nothing.
//!
//! Every call begins with an executor that knows no schedule and no kernel, and no cache on disk, so a call schedules, lowers and compiles the whole
//! program. That each pass takes time by the nodes it is given is held by counts, not by these times (`tests/it/growth.rs`).

use std::time::Instant;

use warpweft::Var;
use warpweft::config::config;
use warpweft::execute::Executor;
use warpweft_compiler::ir::Dim;
use warpweft_compiler::ops::join::cat;
use warpweft_compiler::{DType, UOp};

use crate::bench::{Bench, Failure, Times};

/// The cases of this file.
pub(crate) const NAMES: &[&str] = &["outputs_1000", "lengths_1000", "variables_1000", "cat_1000"];

/// Outputs, lengths, variables or parts of a program.
const COUNT: i64 = 1_000;
/// Times that each program is made.
const CALLS: usize = 3;

/// Runs a case.
pub(crate) fn run(arguments: &Bench, name: &str) -> Result<Times, Failure> {
    let values: fn(&Executor) -> Result<Vec<UOp>, Failure> = match name {
        "outputs_1000" => outputs,
        "lengths_1000" => lengths,
        "variables_1000" => variables,
        "cat_1000" => parts,
        _ => return Err(format!("no case is called {name}").into()),
    };
    let mut settings = config().clone();
    settings.cache_folder = None;
    let device = arguments.device.as_deref().unwrap_or(&settings.device);
    let call = |_| {
        let executor = Executor::open(device, &settings)?;
        let values = values(&executor)?;
        let started = Instant::now();
        executor.realize(&values)?;
        Ok(started.elapsed().as_secs_f64())
    };
    let calls = (0..CALLS).map(call).collect::<Result<Vec<f64>, Failure>>()?;
    Ok(Times { first: calls[0], calls })
}

fn zeros(executor: &Executor, len: u64) -> Result<UOp, Failure> {
    Ok(executor.from_bytes(DType::F32, len, &vec![0; len as usize * 4])?)
}

/// Different functions of one tensor.
fn outputs(executor: &Executor) -> Result<Vec<UOp>, Failure> {
    let x = zeros(executor, 1024)?;
    Ok((0..COUNT).map(|number| &x * UOp::float(1.0 + number as f64, DType::F32)).collect())
}

/// One function of tensors of different lengths.
fn lengths(executor: &Executor) -> Result<Vec<UOp>, Failure> {
    let x = zeros(executor, COUNT as u64)?;
    Ok((0..COUNT).map(|number| x.shrink(&[(Dim::from(0), Dim::from(number + 1))]) * 2 + 1).collect())
}

/// One function of tensors whose lengths are different variables.
fn variables(executor: &Executor) -> Result<Vec<UOp>, Failure> {
    let x = zeros(executor, 64)?;
    let value = |number: i64| {
        let len = Var::new(&format!("n{number}"), 1..=64)?.bind(number % 64 + 1)?;
        Ok(x.shrink(&[(Dim::from(0), len)]) * 2 + 1)
    };
    (0..COUNT).map(value).collect()
}

/// Many tensors joined.
fn parts(executor: &Executor) -> Result<Vec<UOp>, Failure> {
    let parts =
        (0..COUNT).map(|number| zeros(executor, 1 + number as u64 % 7)).collect::<Result<Vec<UOp>, Failure>>()?;
    Ok(vec![cat(&parts, 0)?])
}
