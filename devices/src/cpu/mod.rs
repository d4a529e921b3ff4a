//! The CPU of this machine: kernels are LLVM IR, compiled to ELF objects, loaded by our own loader and run on a pool of threads.
//!
//! ```text
//!   Program --compile--> object bytes --loader--> executable memory --kernel, threads--> run
//! ```
//!
//! The object bytes are all that a cache needs: a process that finds them compiles nothing, and needs no LLVM.

#![allow(unsafe_code, reason = "hands on the promise of the caller")]

pub mod ceilings;
mod compile;
mod disassemble;
mod kernel;
mod launch_list;
#[cfg(feature = "llvm-loaded")]
mod llvm_functions;
mod llvm_library;
mod llvm_threads;
mod loader;
mod offer;
mod processor;
mod scratch;
mod symbols;
mod target;
mod threads;
mod tiles;

#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use warpweft_compiler::program::{CALLING_CONVENTION, Program};
use warpweft_compiler::target::Target;

pub use self::compile::{PASSES, PASSES_OF_LONG_BODIES, compile_with, llvm_version};
use self::kernel::CpuKernel;
use self::launch_list::CpuLaunchList;
pub use self::llvm_library::{LLVM_VERSION_MAJOR, hide_llvm};
use crate::device::{Device, Kernel};
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, OneByOne, Step};

const NAME: &str = "CPU";

/// The host's processor and memory.
#[derive(Debug)]
pub struct CpuDevice {
    target: Target,
    compiler: String,
}

impl CpuDevice {
    /// Opens the host with at most this many threads; none means all that the process may use. LLVM is looked for when something is to
    /// be compiled: kernels that are stored run without it.
    ///
    /// # Safety
    /// As for [`crate::registry::open`].
    pub unsafe fn open(threads: Option<usize>) -> CpuDevice {
        llvm_threads::look_after_this_thread();
        CpuDevice::new(target::host(threads))
    }

    /// A device that compiles for a target given by hand. Its kernels run only where the host has what the target says.
    ///
    /// # Errors
    /// [`DeviceError::CompilerMissing`] when LLVM is not installed, or has no code generator for it.
    ///
    /// # Safety
    /// As for [`crate::registry::open`]; and what is launched was compiled for a target that the host has all of.
    pub unsafe fn for_target(target: Target) -> Result<CpuDevice, DeviceError> {
        compile::check_generator(&target)?;
        Ok(CpuDevice::new(target))
    }

    fn new(target: Target) -> CpuDevice {
        let compiler = format!(
            "warpweft {}, calls {CALLING_CONVENTION}, LLVM {LLVM_VERSION_MAJOR}, {PASSES}, {PASSES_OF_LONG_BODIES}",
            env!("CARGO_PKG_VERSION"),
        );
        CpuDevice { target, compiler }
    }
}

/// The machine code that a program becomes for a target, as text. Nothing is loaded, so the host need not be like it.
///
/// # Errors
/// As those of compiling.
pub fn assembly_for(program: &Program, target: &Target) -> Result<String, DeviceError> {
    llvm_threads::look_after_this_thread();
    disassemble::disassemble(&compile::compile(program, target)?, target)
}

// SAFETY: `open` and `for_target` ask for the promises.
unsafe impl Device for CpuDevice {
    fn name(&self) -> &str {
        NAME
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> &str {
        &self.compiler
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        llvm_threads::look_after_this_thread();
        compile::compile(program, &self.target)
    }

    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        let code = loader::load(object, &program.entry)
            .map_err(|message| DeviceError::Object { kernel: program.name.clone(), message })?;
        Ok(Arc::new(CpuKernel::new(program, code)?))
    }

    fn launch_list(&self, steps: Vec<Step>) -> Arc<dyn LaunchList> {
        match CpuLaunchList::new(&steps) {
            Some(list) => Arc::new(list),
            // Something does not fit: launched one by one, the kernel that it is says so.
            None => Arc::new(OneByOne::new(steps)),
        }
    }

    fn disassemble(&self, object: &[u8]) -> Result<String, DeviceError> {
        disassemble::disassemble(object, &self.target)
    }
}
