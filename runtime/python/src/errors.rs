//! Errors of the library as Python's exceptions, with the line of Python that the call stands in.
//!
//! A call that cannot be done raises at once, though tensors are lazy. The kind follows the fault: `IndexError` for indices that there are
//! not, `MemoryError`, `RuntimeError` for programs that did not run, `TypeError` for types, `ValueError` for the rest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpweft::Error;
use warpweft::execute::ExecuteError;
use warpweft::tensor::CallError;
use warpweft_devices::DeviceError;

/// What a signal's handler raised while the library searched: kept until the call that searched gives back.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

fn raised() -> MutexGuard<'static, Option<PyErr>> {
    RAISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether Python has a signal, such as Ctrl-C, whose handler raises: searches end then.
pub(crate) fn is_interrupted() -> bool {
    if raised().is_some() {
        return true;
    }
    // Handlers run on Python's main thread alone; elsewhere there is nothing to see.
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(error) => {
            *raised() = Some(error);
            true
        }
    }
}

/// Raises what a signal's handler raised meanwhile.
pub(crate) fn interruption() -> PyResult<()> {
    raised().take().map_or(Ok(()), Err)
}

/// The file and line of Python code that called, outside of this package.
fn caller(py: Python<'_>) -> Option<String> {
    let mut frame = py.import("sys").ok()?.call_method1("_getframe", (0,)).ok()?;
    loop {
        let file: String = frame.getattr("f_code").ok()?.getattr("co_filename").ok()?.extract().ok()?;
        let globals = frame.getattr("f_globals").ok()?;
        let module: String = globals.get_item("__name__").and_then(|name| name.extract()).unwrap_or_default();
        if module != "warpweft" && !module.starts_with("warpweft.") {
            let line: u32 = frame.getattr("f_lineno").ok()?.extract().ok()?;
            return Some(format!(" (at {file}:{line})"));
        }
        frame = frame.getattr("f_back").ok().filter(|back| !back.is_none())?;
    }
}

/// The text of a call's error without the line in Rust.
fn text(error: &CallError) -> String {
    match error.operands.is_empty() {
        true => format!("{}: {}", error.op, error.message),
        false => format!("{} of {}: {}", error.op, error.operands.join(" and "), error.message),
    }
}

/// An error as the exception that Python has for it.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let caller = caller(py).unwrap_or_default();
    match error {
        Error::Call(call) => {
            let message = text(call) + &caller;
            let is_index =
                matches!(call.op, "index" | "setitem" | "slice_assign" | "index_assign" | "gather" | "embedding");
            match call.message.as_str() {
                said if is_index && (said.contains("out of range") || said.contains("outside")) => {
                    PyIndexError::new_err(message)
                }
                said if said.contains("needs a float") || said.contains("needs integers") => {
                    PyTypeError::new_err(message)
                }
                _ => PyValueError::new_err(message),
            }
        }
        Error::Execute { error: ExecuteError::Device(inner @ DeviceError::OutOfMemory { .. }), .. } => {
            PyMemoryError::new_err(format!("{inner}{caller}"))
        }
        Error::Execute { error: inner @ ExecuteError::Index(_), .. } => {
            PyIndexError::new_err(format!("{inner}{caller}"))
        }
        Error::Execute { error: inner, .. } => PyRuntimeError::new_err(format!("{inner}{caller}")),
        other => PyValueError::new_err(format!("{other}{caller}")),
    }
}
