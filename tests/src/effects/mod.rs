//! Random programs with effects, by the public interface of tensors, against a model of plain lists.
//!
//! A program makes storages of odd shapes, views of them by every movement op, values of every kind (softmax, norms, scans, products, gathers),
//! and writes to views: whole, in part, by index, with what was computed of the target itself. Values are computed lazily, together or apart,
//! before and after writes; functions that update what is outside are compiled and called; lengths and positions are variables.
//!
//! [`make`] makes programs from choices, [`model`] says what tensors must show, [`run`] runs both, [`reduce`] makes a program that fails small, and
//! [`text`] prints it as Rust.
//!
//! Values are whole numbers where they can be, and then exact. Elsewhere each tensor has a bound of how far rounding may take
//! it, which grows by each op ([`values`]); what would be too far off, or jumps with the last bit, is not made.

pub mod array;
pub mod make;
pub mod model;
pub mod program;
pub mod reduce;
pub mod run;
mod text;
pub mod values;
mod views;

use std::time::Duration;

use crate::choices::{Choices, caught};
use crate::soak::shrink::sort_of;
use program::Program;

/// Runs the program that the bytes make, twice with other numbers, on a device.
///
/// # Errors
/// With the program as Rust, and what differs. A panic is an error.
pub fn check(bytes: &[u8], device: &'static str) -> Result<(), String> {
    let program = make::program(&mut Choices::new(bytes));
    check_program(&program, device).map_err(|why| report(&program, &why))
}

/// The program that the bytes make, made smaller as long as it fails, in about this time.
pub fn reduced(bytes: &[u8], device: &'static str, time: Duration) -> Option<String> {
    let program = make::program(&mut Choices::new(bytes));
    let sort = sort_of(&check_program(&program, device).err()?);
    let fails_so = |program: &Program| check_program(program, device).is_err_and(|why| sort_of(&why) == sort);
    let smaller = reduce::reduce(&program, time, &fails_so);
    let why = check_program(&smaller, device).err().unwrap_or_default();
    Some(report(&smaller, &why))
}

fn report(program: &Program, why: &str) -> String {
    format!("{why}\n--- the program ---\n{}", program.text())
}

/// Runs a program, and once more with other numbers in its storages: plans are kept, and must not remember values.
///
/// # Errors
/// What differs.
pub fn check_program(program: &Program, device: &'static str) -> Result<(), String> {
    for moved in [0, 1000] {
        caught(|| run::run(program, device, moved))?;
    }
    Ok(())
}
