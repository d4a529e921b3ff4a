//! Launch lists of the CPU: one table of addresses, one loop over function pointers.
//!
//! Everything that a launch checks is checked when the list is made, but for the lengths of the memory, which are checked once
//! for each run. A run then writes the address of every argument of every kernel into one table, and calls one kernel after the
//! other with its part of the table. The table is kept by the thread from run to run.
//!
//! Always: a run allocates nothing once its thread has run a list as long, with kernels of as much scratch memory; nothing is locked; the code stays mapped while the
//! list lives.
#![allow(unsafe_code, reason = "calls machine code")]

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use super::kernel::{CpuKernel, Entry, Work, call};
use super::scratch;
use crate::buffer::BufferSlice;
use crate::device::Kernel;
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, Step};

/// One launch: its code, and where its part of the tables begins.
#[derive(Debug)]
struct Launch {
    entry: Entry,
    grid: i64,
    scratch_bytes: usize,
    threads_useful: usize,
    pointers: usize,
    variables: usize,
}

/// What a launch is given for a variable.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// The variable of this number among those that the list is given.
    Variable(u32),
    /// This, each time.
    Number(i64),
}

impl Value {
    fn variables_needed(&self) -> usize {
        match *self {
            Value::Variable(number) => number as usize + 1,
            Value::Number(_) => 0,
        }
    }
}

/// Launches whose arguments are slots of tables.
#[derive(Debug)]
pub(super) struct CpuLaunchList {
    launches: Box<[Launch]>,
    /// Piece of memory and offset of each argument of all launches in a row.
    arguments: Box<[(u32, usize)]>,
    /// Each variable of all launches in a row, with the numbers of their kernels.
    variables: Box<[Value]>,
    variable_count: usize,
    /// Bytes of scratch memory that serve all launches.
    scratch_bytes: usize,
    /// Bytes that each piece of memory must have.
    bytes_needed: Box<[usize]>,
    /// Keeps the code of the entries mapped.
    _kernels: Box<[Arc<dyn Kernel>]>,
}

thread_local! {
    static POINTERS: Cell<Vec<*mut u8>> = const { Cell::new(Vec::new()) };
    static VARIABLES: Cell<Vec<i64>> = const { Cell::new(Vec::new()) };
}

impl CpuLaunchList {
    /// None when a kernel is not of the CPU, or an argument is shorter than its kernel's parameter.
    pub(super) fn new(steps: &[Step]) -> Option<CpuLaunchList> {
        let (mut launches, mut arguments, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            let kernel: &dyn Any = &*step.kernel;
            let kernel = kernel.downcast_ref::<CpuKernel>()?;
            let fits = step.arguments.iter().map(|argument| argument.bytes);
            if !kernel.admits(fits, step.variables.len()) {
                return None;
            }
            launches.push(Launch {
                entry: kernel.entry(),
                grid: kernel.grid(),
                scratch_bytes: kernel.scratch_bytes(),
                threads_useful: kernel.threads_useful(),
                pointers: arguments.len(),
                variables: variables.len(),
            });
            for argument in &step.arguments {
                arguments.push((u32::try_from(argument.memory).ok()?, argument.offset));
            }
            for &number in &step.variables {
                variables.push(Value::Variable(u32::try_from(number).ok()?));
            }
            variables.extend(kernel.numbers().iter().map(|number| Value::Number(*number)));
        }
        Some(CpuLaunchList {
            scratch_bytes: launches.iter().map(|launch| launch.scratch_bytes).max().unwrap_or(0),
            launches: launches.into(),
            arguments: arguments.into(),
            variable_count: variables.iter().map(Value::variables_needed).max().unwrap_or(0),
            variables: variables.into(),
            bytes_needed: bytes_needed(steps).into(),
            _kernels: steps.iter().map(|step| step.kernel.clone()).collect(),
        })
    }
}

impl LaunchList for CpuLaunchList {
    fn run(&self, memory: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        assert!(memory.len() >= self.bytes_needed.len(), "pieces of memory of a launch list");
        assert!(variables.len() >= self.variable_count, "variables of a launch list");
        for (index, (piece, &bytes)) in memory.iter().zip(&self.bytes_needed).enumerate() {
            assert!(piece.bytes() >= bytes, "launch list: memory {index} has {} bytes of {bytes}", piece.bytes());
        }
        let scratch = scratch::of_this_thread(self.scratch_bytes)?;
        let mut pointers = POINTERS.take();
        pointers.clear();
        pointers.extend(self.arguments.iter().map(|&(index, offset)| {
            // SAFETY: `offset` is at most `bytes_needed[index]`, which the piece has, as asserted.
            unsafe { memory[index as usize].address().add(offset).as_ptr() }
        }));
        let mut values = VARIABLES.take();
        values.clear();
        values.extend(self.variables.iter().map(|value| match *value {
            Value::Variable(number) => variables[number as usize],
            Value::Number(number) => number,
        }));
        for launch in &self.launches {
            let work = Work {
                entry: launch.entry,
                pointers: pointers[launch.pointers..].as_ptr(),
                variables: values[launch.variables..].as_ptr(),
                grid: launch.grid,
                scratch_bytes: launch.scratch_bytes,
            };
            // SAFETY: `new` saw that there is an argument for every parameter, of as many bytes as the program says that it
            // touches, and a variable for each, its numbers behind; `new` and the assertion above that those bytes lie in live memory, and `scratch` serves the launch that needs most. That the
            // code keeps to this is the promise of the program's maker, stated at `Kernel::launch`.
            unsafe { call(&work, scratch, threads.min(launch.threads_useful)) }
        }
        POINTERS.set(pointers);
        VARIABLES.set(values);
        Ok(())
    }
}

/// Bytes that each piece of memory must have at least.
fn bytes_needed(steps: &[Step]) -> Vec<usize> {
    let mut bytes = Vec::new();
    for argument in steps.iter().flat_map(|step| &step.arguments) {
        if bytes.len() <= argument.memory {
            bytes.resize(argument.memory + 1, 0);
        }
        bytes[argument.memory] = bytes[argument.memory].max(argument.offset.saturating_add(argument.bytes));
    }
    bytes
}
