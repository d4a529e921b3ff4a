//! Launches prepared once and run again and again over other memory: what a compiled function replays.
//!
//! A list names memory by number and offset, so that running it takes a slice for each piece of memory and nothing else. A device
//! may prepare more than `OneByOne`, which launches each kernel as if it were alone.

use std::fmt::Debug;
use std::sync::Arc;

use crate::buffer::BufferSlice;
use crate::device::Kernel;
use crate::error::DeviceError;

/// One launch of a list.
#[derive(Clone, Debug)]
pub struct Step {
    /// What to launch.
    pub kernel: Arc<dyn Kernel>,
    /// Its buffers, in calling order.
    pub arguments: Vec<Argument>,
    /// Its variables, in calling order: numbers of the list's variables.
    pub variables: Vec<usize>,
}

/// Where a buffer of a launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Number of the piece of memory.
    pub memory: usize,
    /// First byte in it.
    pub offset: usize,
    /// Bytes from there on that the kernel may touch.
    pub bytes: usize,
}

/// Launches that are ready to run in order, any number of times from any number of threads.
pub trait LaunchList: Debug + Send + Sync {
    /// Runs all launches in order and returns when the last is done, or stands in the device's queue. At most `threads` threads take part in each.
    ///
    /// The caller's duties are those of [`Kernel::launch`], for all of the launches.
    ///
    /// # Errors
    /// Whatever the device reports about a launch; later ones are not run then.
    ///
    /// # Panics
    /// When there are fewer pieces of memory or variables than the steps name, or a piece is too short: a mistake of the caller.
    fn run(&self, memory: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError>;
}

/// Each kernel launched as if it were alone: right for every device.
#[derive(Debug)]
pub(crate) struct OneByOne {
    steps: Vec<Step>,
}

impl OneByOne {
    pub(crate) fn new(steps: Vec<Step>) -> OneByOne {
        OneByOne { steps }
    }
}

impl LaunchList for OneByOne {
    fn run(&self, memory: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        for step in &self.steps {
            let slices =
                step.arguments.iter().map(|argument| memory[argument.memory].slice(argument.offset, argument.bytes));
            let slices = slices.collect::<Result<Vec<_>, _>>()?;
            let variables: Vec<i64> = step.variables.iter().map(|&number| variables[number]).collect();
            step.kernel.launch(&slices, &variables, threads)?;
        }
        Ok(())
    }
}
