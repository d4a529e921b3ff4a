//! From a device's name to the executor that runs programs on it: one for each device of the process, opened when first asked for.

use std::sync::{Arc, Mutex, PoisonError};

use warpweft_devices::DeviceName;

use crate::config::{config, tell_ignored};
use crate::debug;
use crate::execute::{ExecuteError, Executor};

static OPEN: Mutex<Vec<Arc<Executor>>> = Mutex::new(Vec::new());

/// The executor of the device of that name, in any case of letters, of the first of a kind if it has no number; none means the one that `DEV` names.
///
/// # Errors
/// When there is no such device or it cannot be opened.
pub fn executor(name: Option<&str>) -> Result<Arc<Executor>, ExecuteError> {
    let config = config();
    let name = name.unwrap_or(&config.device);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Nodes name devices as these name themselves.
    let is_named = |name: &str| open.iter().find(|executor| executor.device().name() == name).cloned();
    if let Some(found) = is_named(name) {
        return Ok(found);
    }
    let canonical = DeviceName::parse(name).map_err(ExecuteError::from)?.to_string();
    if let Some(found) = is_named(&canonical) {
        return Ok(found);
    }
    let executor = Arc::new(Executor::open(name, config)?);
    tell_ignored();
    if config.profile {
        debug::tell_totals_at_exit();
    }
    if config.profile_file.is_some() {
        debug::write_trace_at_exit();
    }
    open.push(executor.clone());
    Ok(executor)
}

/// The executors that are open, in the order of opening.
pub fn executors() -> Vec<Arc<Executor>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
