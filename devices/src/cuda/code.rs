//! Code of a GPU: PTX becomes machine code by the driver, with its log in the error where it does not; a loaded module is a kernel, launched in the stream.
//!
//! Always: a module outlives the launches of it that wait. A kernel takes memory of its own GPU alone.
//!
//! Tested here on logs, and over a stand-in for the driver: `tests/it/cuda`.
#![allow(unsafe_code, reason = "calls the driver")]

use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUjit_option as JitOption, CUjitInputType};
use warpweft_compiler::program::{Parameter, Program};
use warpweft_compiler::target::Language;

use super::driver::{Context, Failure, check};
use super::stream::Gpu;
use crate::buffer::BufferSlice;
use crate::device::Kernel;
use crate::error::DeviceError;

/// Bytes of the log of a failed compilation that are kept.
const LOG_BYTES: usize = 8 << 10;
/// Bytes of shared memory that a kernel may have without asking for more.
const SHARED_BYTES: u64 = 48 << 10;

/// Machine code for a program. The context is entered.
///
/// # Errors
/// [`DeviceError::Program`] and [`DeviceError::Compile`] with the driver's log.
pub(super) fn compile(context: &Context, program: &Program) -> Result<Vec<u8>, DeviceError> {
    let mut log = vec![0u8; LOG_BYTES];
    machine_code(&program.source, &mut log).map_err(|failure| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).trim().to_string();
        compile_error(context, program, failure, &log)
    })
}

fn compile_error(context: &Context, program: &Program, failure: Failure, log: &str) -> DeviceError {
    let kernel = program.name.clone();
    match (failure.is_lost(), failure.is_of_program()) {
        (true, _) => context.error(failure, &kernel),
        (_, true) => {
            let line = line_of(log);
            let text = line.and_then(|line| program.source.lines().nth(line.saturating_sub(1)));
            DeviceError::Program {
                kernel,
                language: Language::Ptx,
                line,
                text: text.unwrap_or_default().trim().to_string(),
                message: format!("{}\n{log}", failure.message),
            }
        }
        _ => DeviceError::Compile { kernel, stage: "cubin", message: format!("{}\n{log}", failure.message) },
    }
}

/// The first line of the source that a log names.
fn line_of(log: &str) -> Option<usize> {
    let (_, rest) = log.split_once("line ")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The driver's machine code for PTX; what it says of errors goes into the log.
fn machine_code(source: &str, log: &mut [u8]) -> Result<Vec<u8>, Failure> {
    let mut options = [JitOption::CU_JIT_ERROR_LOG_BUFFER, JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
    // With its 0, which the driver counts in.
    let source: Vec<u8> = source.bytes().chain([0]).collect();
    let mut linker = Linker(ptr::null_mut());
    // SAFETY: two options with their values; the log outlives the linker, which writes at most as many bytes as it is told.
    let created = unsafe { sys::cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut linker.0) };
    check("cuLinkCreate", created)?;
    let kind = CUjitInputType::CU_JIT_INPUT_PTX;
    let (text, name) = (source.as_ptr().cast_mut().cast(), c"kernel".as_ptr());
    // SAFETY: the driver reads the source, as many bytes as it is told, the last of them 0; no options.
    let added =
        unsafe { sys::cuLinkAddData_v2(linker.0, kind, text, source.len(), name, 0, ptr::null_mut(), ptr::null_mut()) };
    check("cuLinkAddData", added)?;
    let (mut code, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the linker was made above; the driver writes where its result lies, and how long it is.
    check("cuLinkComplete", unsafe { sys::cuLinkComplete(linker.0, &mut code, &mut bytes) })?;
    // SAFETY: so many bytes lie there until the linker drops; they are copied before.
    Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), bytes) }.to_vec())
}

/// A linker of the driver's, or none yet.
struct Linker(sys::CUlinkState);

impl Drop for Linker {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `cuLinkCreate`, and destroyed once.
            let _ = unsafe { sys::cuLinkDestroy(self.0) };
        }
    }
}

/// A loaded module, or none yet.
struct Module {
    module: sys::CUmodule,
    gpu: Arc<Gpu>,
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.module.is_null() && self.gpu.context.enter().is_ok() {
            // A launch of it may wait still. What went wrong is told to who waits for the queue.
            let _ = self.gpu.synchronize();
            // SAFETY: loaded by the driver in this context, and unloaded once, after the last launch.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

/// A kernel of a GPU.
pub(super) struct CudaKernel {
    name: String,
    function: sys::CUfunction,
    module: Module,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: Vec<Parameter>,
    variables: usize,
}

// SAFETY: functions and modules are handles that threads share; each launch enters the context.
unsafe impl Send for CudaKernel {}
// SAFETY: as for Send.
unsafe impl Sync for CudaKernel {}

impl fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CudaKernel { name, grid, block, .. } = self;
        f.debug_struct("CudaKernel")
            .field("name", name)
            .field("grid", grid)
            .field("block", block)
            .finish_non_exhaustive()
    }
}

impl CudaKernel {
    /// The kernel of an object that `compile` gave for this program. The context is entered.
    ///
    /// # Errors
    /// [`DeviceError::Object`] with the driver's words.
    pub(super) fn load(gpu: &Arc<Gpu>, program: &Program, object: &[u8]) -> Result<CudaKernel, DeviceError> {
        let damaged = |message: String| DeviceError::Object { kernel: program.name.clone(), message };
        let failed = |failure: Failure| match failure.is_lost() {
            true => gpu.context.error(failure, &program.name),
            false => damaged(failure.message),
        };
        let entry = CString::new(program.entry.as_str()).map_err(|error| damaged(error.to_string()))?;
        if !object.starts_with(b"\x7fELF") {
            return Err(damaged("it is no machine code".to_string()));
        }
        let mut module = Module { module: ptr::null_mut(), gpu: gpu.clone() };
        // SAFETY: the context is entered. The bytes are what `compile` gave for this program, as the caller promised, so they are complete.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(&mut module.module, object.as_ptr().cast(), 0, ptr::null_mut(), ptr::null_mut())
        };
        check("cuModuleLoadDataEx", loaded).map_err(failed)?;
        let mut function: sys::CUfunction = ptr::null_mut();
        // SAFETY: the module was just loaded, and the name ends with 0.
        check("cuModuleGetFunction", unsafe { sys::cuModuleGetFunction(&mut function, module.module, entry.as_ptr()) })
            .map_err(failed)?;
        if program.shared_bytes > SHARED_BYTES {
            let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(program.shared_bytes).unwrap_or(i32::MAX);
            // SAFETY: the function is of the module that was just loaded.
            check("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(function, which, bytes) }).map_err(failed)?;
        }
        let size = |lens: [u64; 3]| lens.map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        Ok(CudaKernel {
            name: program.name.clone(),
            function,
            module,
            grid: size(program.launch.grid),
            block: size(program.launch.block_threads()),
            shared_bytes: u32::try_from(program.shared_bytes).unwrap_or(u32::MAX),
            parameters: program.parameters.clone(),
            variables: program.variables.len(),
        })
    }

    /// Whose it is.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.module.gpu
    }

    /// Its name, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it takes for these buffers and variables: an address for each, then the values.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for memory that is not a GPU's.
    ///
    /// # Panics
    /// As [`Kernel::launch`].
    pub(super) fn values(&self, buffers: &[BufferSlice<'_>], variables: &[i64]) -> Result<Vec<u64>, DeviceError> {
        assert_eq!(buffers.len(), self.parameters.len(), "buffers of kernel {}", self.name);
        assert_eq!(variables.len(), self.variables, "variables of kernel {}", self.name);
        let mut values: Vec<u64> = Vec::with_capacity(buffers.len() + variables.len());
        for (slice, parameter) in buffers.iter().zip(&self.parameters) {
            let bytes = parameter.len * parameter.dtype.bytes() as u64;
            assert!(slice.bytes() as u64 >= bytes, "a buffer of kernel {} is too short", self.name);
            if slice.is_host() {
                return Err(DeviceError::Unsupported {
                    device: self.gpu().context.name.clone(),
                    what: "work on memory of the host".to_string(),
                });
            }
            values.push(slice.address().addr().get() as u64);
        }
        values.extend(variables.iter().map(|value| *value as u64));
        Ok(values)
    }

    /// The launch over these values, as a node of a graph. The pointers stand in `arguments`, and point to the values.
    pub(super) fn node(&self, arguments: &mut [*mut c_void]) -> sys::CUDA_KERNEL_NODE_PARAMS {
        let ([grid_x, grid_y, grid_z], [x, y, z]) = (self.grid, self.block);
        sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.function,
            gridDimX: grid_x,
            gridDimY: grid_y,
            gridDimZ: grid_z,
            blockDimX: x,
            blockDimY: y,
            blockDimZ: z,
            sharedMemBytes: self.shared_bytes,
            kernelParams: arguments.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        }
    }

    /// Puts a launch over these values into the stream. The context is entered.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn launch_over(&self, values: &mut [u64]) -> Result<(), DeviceError> {
        let mut arguments = pointers(values);
        let ([grid_x, grid_y, grid_z], [x, y, z]) = (self.grid, self.block);
        let (stream, bytes, extra) = (self.gpu().stream(), self.shared_bytes, ptr::null_mut());
        let (function, arguments) = (self.function, arguments.as_mut_ptr());
        // SAFETY: the kernel takes an address for each buffer, then its variables, 8 bytes each; it keeps to the buffers' lengths, as was promised for
        // its program. The arguments are copied before the call returns; memory that they name is freed in the order of the stream.
        let launched =
            unsafe { sys::cuLaunchKernel(function, grid_x, grid_y, grid_z, x, y, z, bytes, stream, arguments, extra) };
        check("cuLaunchKernel", launched).map_err(|failure| self.gpu().context.error(failure, &self.name))
    }
}

/// Where each of these values is.
pub(super) fn pointers(values: &mut [u64]) -> Vec<*mut c_void> {
    values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect()
}

impl Kernel for CudaKernel {
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], _threads: usize) -> Result<(), DeviceError> {
        let mut values = self.values(buffers, variables)?;
        self.gpu().context.enter()?;
        self.launch_over(&mut values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_name_lines() {
        assert_eq!(line_of("ptxas application ptx input, line 17; error   : Unknown symbol"), Some(17));
        assert_eq!(line_of("no such thing"), None);
    }
}
