//! A loaded kernel of the CPU and its launch.
//!
//! A launch checks its arguments, gathers the addresses of its buffers on the stack and calls the code: on the calling thread
//! when the kernel is short or has no parallel loop, else in shares through the pool.
//!
//! Always: the code stays mapped while the kernel lives; nothing is allocated for up to [`POINTERS_ON_STACK`] buffers, but for scratch
//! memory by the first kernel of a thread that needs so much; nothing is locked.
#![allow(unsafe_code, reason = "calls machine code")]

use std::ptr::NonNull;
use std::sync::Arc;

use warpweft_compiler::program::{Estimate, Program};

use super::loader::LoadedCode;
use super::{scratch, threads};
use crate::buffer::BufferSlice;
use crate::device::Kernel;
use crate::error::DeviceError;
#[cfg(feature = "guard-pages")]
use crate::guard::CodeName;

/// The calling convention of `Program`: buffers, variables, scratch, and the share of the parallel loop.
pub(super) type Entry = unsafe extern "C" fn(*const *mut u8, *const i64, *mut u8, i64, i64);

const POINTERS_ON_STACK: usize = 32;
/// The same for variables of kernels that have numbers.
const VARIABLES_ON_STACK: usize = 16;
/// What one thread does at the least in a nanosecond: used only to see which kernels are short.
const OPERATIONS_PER_NS: f64 = 16.0;
const BYTES_PER_NS: f64 = 8.0;
/// Work that a thread must have for its part to pay: sharing with one that spins costs some 0.3 us, waking one that sleeps a
/// system call and, on a busy machine, tens of microseconds until it runs.
const NS_PER_THREAD_MIN: f64 = 8_000.0;

/// What kernels of one text share.
#[derive(Debug)]
struct Code {
    /// Of the kernel that was loaded first. Dropped before the code is unmapped.
    #[cfg(feature = "guard-pages")]
    _name: Option<CodeName>,
    loaded: LoadedCode,
}

/// A program in executable memory.
#[derive(Debug)]
pub(super) struct CpuKernel {
    name: String,
    code: Arc<Code>,
    /// Bytes that each buffer must have at least.
    parameter_bytes: Box<[usize]>,
    variable_count: usize,
    /// What stands behind the variables in each call.
    numbers: Box<[i64]>,
    grid: i64,
    scratch_bytes: usize,
    /// Threads that the work is enough for.
    threads_useful: usize,
}

impl CpuKernel {
    pub(super) fn new(program: &Program, loaded: LoadedCode) -> Result<CpuKernel, DeviceError> {
        let code = Code {
            #[cfg(feature = "guard-pages")]
            _name: CodeName::new(&program.name, loaded.addresses()),
            loaded,
        };
        CpuKernel::of_code(program, Arc::new(code))
    }

    fn of_code(program: &Program, code: Arc<Code>) -> Result<CpuKernel, DeviceError> {
        let wrong = |message: &str| DeviceError::Object { kernel: program.name.clone(), message: message.to_string() };
        let parameter_bytes = program
            .parameters
            .iter()
            .map(|parameter| usize::try_from(parameter.len).ok()?.checked_mul(parameter.dtype.bytes()))
            .collect::<Option<Box<[usize]>>>()
            .ok_or_else(|| wrong("a parameter has more bytes than can be addressed"))?;
        Ok(CpuKernel {
            name: program.name.clone(),
            code,
            parameter_bytes,
            variable_count: program.variables.len(),
            numbers: program.numbers.as_slice().into(),
            // Twice the grid must fit too: shares are counted past the end.
            grid: i64::try_from(program.grid)
                .ok()
                .filter(|&grid| grid <= i64::MAX / 2)
                .ok_or_else(|| wrong("the grid does not fit in 62 bits"))?,
            scratch_bytes: usize::try_from(program.scratch_bytes)
                .map_err(|_| wrong("its scratch memory has more bytes than can be addressed"))?,
            threads_useful: threads_useful(&program.estimate, program.grid),
        })
    }

    /// The code. It may be called as long as this kernel lives.
    pub(super) fn entry(&self) -> Entry {
        // SAFETY: the address is that of the entry point in `self.code`, which keeps it mapped and executable as long as
        // `self` lives; `compile` checked that it is a function of this type, and `load` that the object has it.
        unsafe { std::mem::transmute::<*const u8, Entry>(self.code.loaded.entry_address()) }
    }

    /// What stands behind the variables in each call.
    pub(super) fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// Items of the parallel loop.
    pub(super) fn grid(&self) -> i64 {
        self.grid
    }

    /// Bytes of scratch memory that a call needs.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Threads that the work is enough for.
    pub(super) fn threads_useful(&self) -> usize {
        self.threads_useful
    }

    /// Whether buffers of so many bytes and so many variables are what it takes.
    pub(super) fn admits(&self, bytes: impl ExactSizeIterator<Item = usize>, variables: usize) -> bool {
        bytes.len() == self.parameter_bytes.len()
            && variables == self.variable_count
            && bytes.zip(&self.parameter_bytes).all(|(bytes, &needed)| bytes >= needed)
    }

    /// The call with the kernel's numbers behind the variables.
    fn call_with_numbers(&self, pointers: &[*mut u8], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        let (given, all) = (variables.len(), variables.len() + self.numbers.len());
        if given == all {
            return self.call(pointers, variables, threads);
        }
        if all > VARIABLES_ON_STACK {
            return self.call(pointers, &[variables, &*self.numbers].concat(), threads);
        }
        let mut values = [0; VARIABLES_ON_STACK];
        values[..given].copy_from_slice(variables);
        values[given..all].copy_from_slice(&self.numbers);
        self.call(pointers, &values[..all], threads)
    }

    fn call(&self, pointers: &[*mut u8], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        let CpuKernel { grid, scratch_bytes, .. } = *self;
        let work = Work {
            entry: self.entry(),
            pointers: pointers.as_ptr(),
            variables: variables.as_ptr(),
            grid,
            scratch_bytes,
        };
        let scratch = scratch::of_this_thread(scratch_bytes)?;
        // SAFETY: `launch` asserted that there is a pointer for every parameter, to at least as many bytes as the program
        // says that it touches, in live buffers, and a value for every variable, with its numbers behind; there is as much scratch as it says. That the
        // code keeps to this is the promise of the program's maker, stated at `Kernel::launch`.
        unsafe { call(&work, scratch, threads.min(self.threads_useful)) }
        Ok(())
    }
}

/// The arguments of a launch.
pub(super) struct Work {
    pub(super) entry: Entry,
    pub(super) pointers: *const *mut u8,
    pub(super) variables: *const i64,
    pub(super) grid: i64,
    /// What each thread that takes part needs.
    pub(super) scratch_bytes: usize,
}

/// Runs the whole grid of a kernel, on the calling thread or in shares.
///
/// # Safety
/// `work.entry` may be called with these pointers and variables for any part of `0..work.grid`, from any thread, and parts at once, if
/// each call has `work.scratch_bytes` bytes of scratch memory for itself; and `scratch` points at so many of this thread's.
pub(super) unsafe fn call(work: &Work, scratch: NonNull<u8>, threads: usize) {
    if threads > 1 {
        // SAFETY: the caller's promise; what `work` points at outlives the call, which returns only when no thread works
        // on it any more.
        unsafe { threads::run(work, scratch, threads) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { (work.entry)(work.pointers, work.variables, scratch.as_ptr(), 0, work.grid) }
    }
}

impl Kernel for CpuKernel {
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        assert_eq!(buffers.len(), self.parameter_bytes.len(), "buffers of kernel {}", self.name);
        assert_eq!(variables.len(), self.variable_count, "variables of kernel {}", self.name);
        for (index, (buffer, &bytes)) in buffers.iter().zip(&self.parameter_bytes).enumerate() {
            assert!(
                buffer.bytes() >= bytes,
                "kernel {}: buffer {index} has {} bytes of {bytes}",
                self.name,
                buffer.bytes()
            );
        }
        if buffers.len() <= POINTERS_ON_STACK {
            let mut pointers = [std::ptr::null_mut(); POINTERS_ON_STACK];
            for (pointer, buffer) in pointers.iter_mut().zip(buffers) {
                *pointer = buffer.address().as_ptr();
            }
            self.call_with_numbers(&pointers[..buffers.len()], variables, threads)
        } else {
            let pointers: Vec<*mut u8> = buffers.iter().map(|buffer| buffer.address().as_ptr()).collect();
            self.call_with_numbers(&pointers, variables, threads)
        }
    }

    fn for_program(&self, program: &Program) -> Option<Arc<dyn Kernel>> {
        // A program that does not fit is refused by who loads it, with the reason.
        Some(Arc::new(CpuKernel::of_code(program, self.code.clone()).ok()?))
    }
}

/// How many threads have enough to do, by the estimate of the kernel's work.
fn threads_useful(estimate: &Estimate, grid: u64) -> usize {
    let ns = (estimate.operations / OPERATIONS_PER_NS).max(estimate.bytes_unique / BYTES_PER_NS);
    // A float that is not a number or negative becomes 0 here, one that is huge becomes the largest number.
    let by_work = (ns / NS_PER_THREAD_MIN) as usize;
    by_work.min(usize::try_from(grid).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_work_and_grid() {
        let work = |operations, grid| threads_useful(&Estimate { operations, ..Estimate::default() }, grid);
        assert_eq!(work(0.0, 1000), 1);
        assert_eq!(work(1e9, 1), 1);
        assert_eq!(work(1e9, 3), 3);
        assert_eq!(work(1e3, 1000), 1);
        assert_eq!(work(f64::NAN, 1000), 1);
        assert_eq!(work(f64::INFINITY, 1000), 1000);
    }
}
