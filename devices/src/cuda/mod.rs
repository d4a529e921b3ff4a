//! NVIDIA GPUs through the CUDA driver (`DEV=CUDA`, the feature `cuda`). It is modelled on the driver's documentation and **was never run on a GPU by this project**: what is
//! tested is that it builds, and that machines without a driver or a GPU get an error that says so.
//!
//! - *One binary.* The driver's library is looked for when the device is opened (`driver`), so a program with this feature runs where there is none.
//! - *Memory* is shared by host and GPU ("managed"): the driver moves pages to who touches them, so the host reads results where they are. A launch waits for its
//!   end, so the two never touch memory at once. Memory that others gave (a vector of the host, DLPack) is copied for each launch that reads it.
//! - *Code.* The driver makes machine code (a cubin) of PTX, with its log in the error where it does not; those bytes are what caches keep.
//! - *Errors* are typed: [`DeviceError::Unavailable`], `OutOfMemory`, `Program`, `Launch`, and `Lost` after a fault of a kernel, which ends the context.
//!
//! - *Several GPUs* by their numbers, each with a context of its own: a call enters the one of its memory. What is copied between them goes through the host.
//!
//! Not here: several streams, graphs, copies that overlap with kernels, times by events.
#![allow(unsafe_code, reason = "calls the driver")]

mod driver;

use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUjit_option as JitOption, CUjitInputType};
use warpweft_compiler::program::{Access, Parameter, Program};
use warpweft_compiler::target::{Language, Target};

use crate::buffer::{BufferSlice, RawBuffer};
use crate::device::{Device, Kernel};
use crate::error::DeviceError;
use crate::registry::DeviceName;
use driver::{Context, Failure, check};

/// Bytes of the log of a failed compilation that are kept.
const LOG_BYTES: usize = 8 << 10;
/// Bytes of shared memory that a kernel may have without asking for more.
const SHARED_BYTES: u64 = 48 << 10;

/// A GPU.
#[derive(Debug)]
pub struct CudaDevice {
    context: Arc<Context>,
    target: Target,
}

impl CudaDevice {
    /// Opens it.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] with the reason.
    ///
    /// # Safety
    /// As for [`crate::registry::open`].
    pub unsafe fn open(name: DeviceName) -> Result<CudaDevice, DeviceError> {
        let context = Context::open(name)?;
        let target = target_of(context.capability);
        Ok(CudaDevice { context: Arc::new(context), target })
    }
}

/// The machine that kernels are made for: of those that are known, the newest that a GPU is no older than. Its PTX runs on newer ones too.
fn target_of((major, minor): (u32, u32)) -> Target {
    let number = major * 10 + minor;
    let known = Target::NVIDIA.into_iter().filter_map(Target::nvidia);
    let mut fitting = known.filter(|target| target.compute_capability().is_some_and(|least| least <= number));
    Target { device: "CUDA".to_string(), ..fitting.next_back().unwrap_or_else(Target::gpu_model) }
}

// SAFETY: `open` asks for the promises.
unsafe impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.context.name
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> &str {
        &self.context.description
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        self.context.enter()?;
        let out_of_memory = || DeviceError::OutOfMemory { device: self.context.name.clone(), bytes };
        let failed = |failure: Failure| match failure.is_out_of_memory() {
            true => out_of_memory(),
            false => self.context.error(failure, "allocation"),
        };
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is entered; the driver writes two numbers.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }).map_err(failed)?;
        // Managed memory may be more than the GPU has, at the price of pages that come and go in every kernel.
        if bytes > free {
            return Err(out_of_memory());
        }
        let mut address: sys::CUdeviceptr = 0;
        let attached = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: the context is entered; the driver writes an address.
        check("cuMemAllocManaged", unsafe { sys::cuMemAllocManaged(&mut address, bytes.max(1), attached) })
            .map_err(failed)?;
        let keeper = Managed { address, context: self.context.clone() };
        // SAFETY: so many bytes from there on were just allocated.
        check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(address, 0, bytes.max(1)) })
            .and_then(|()| self.context.wait())
            .map_err(failed)?;
        let first = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(address as usize)).ok_or_else(out_of_memory)?;
        // SAFETY: managed memory is addressed by the host as by the GPU; the bytes are zero, and are freed when the keeper drops.
        Ok(unsafe { RawBuffer::of_driver(first, bytes, Box::new(keeper)) })
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        self.context.enter()?;
        let mut log = vec![0u8; LOG_BYTES];
        let made = machine_code(&program.source, &mut log);
        made.map_err(|failure| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).trim().to_string();
            self.compile_error(program, failure, &log)
        })
    }

    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.context.enter()?;
        let damaged = |message: String| DeviceError::Object { kernel: program.name.clone(), message };
        let failed = |failure: Failure| match failure.is_lost() {
            true => self.context.error(failure, &program.name),
            false => damaged(failure.message),
        };
        let entry = CString::new(program.entry.as_str()).map_err(|error| damaged(error.to_string()))?;
        if !object.starts_with(b"\x7fELF") {
            return Err(damaged("it is no machine code".to_string()));
        }
        let mut module = Module { module: ptr::null_mut(), context: self.context.clone() };
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
            // SAFETY: the function is of the module that was just loaded.
            check("cuFuncSetAttribute", unsafe {
                sys::cuFuncSetAttribute(function, which, program.shared_bytes as i32)
            })
            .map_err(failed)?;
        }
        let size = |lens: [u64; 3]| lens.map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        Ok(Arc::new(CudaKernel {
            name: program.name.clone(),
            function,
            module,
            grid: size(program.launch.grid),
            block: size(program.launch.block_threads()),
            shared_bytes: u32::try_from(program.shared_bytes).unwrap_or(u32::MAX),
            parameters: program.parameters.clone(),
            variables: program.variables.len(),
        }))
    }

    fn disassemble(&self, _object: &[u8]) -> Result<String, DeviceError> {
        Err(DeviceError::Unsupported {
            device: self.context.name.clone(),
            what: "show machine code: NVIDIA's nvdisasm does".to_string(),
        })
    }
}

impl CudaDevice {
    fn compile_error(&self, program: &Program, failure: Failure, log: &str) -> DeviceError {
        let kernel = program.name.clone();
        match (failure.is_lost(), failure.is_of_program()) {
            (true, _) => self.context.error(failure, &kernel),
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

/// Memory that the driver allocated.
struct Managed {
    address: sys::CUdeviceptr,
    context: Arc<Context>,
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: allocated by the driver in this context, and freed once.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// A loaded module, or none yet.
struct Module {
    module: sys::CUmodule,
    context: Arc<Context>,
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.module.is_null() && self.context.enter().is_ok() {
            // SAFETY: loaded by the driver in this context, and unloaded once, after the last launch, which was waited for.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

struct CudaKernel {
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

impl Kernel for CudaKernel {
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], _threads: usize) -> Result<(), DeviceError> {
        assert_eq!(buffers.len(), self.parameters.len(), "buffers of kernel {}", self.name);
        assert_eq!(variables.len(), self.variables, "variables of kernel {}", self.name);
        for (slice, parameter) in buffers.iter().zip(&self.parameters) {
            let bytes = parameter.len * parameter.dtype.bytes() as u64;
            assert!(slice.bytes() as u64 >= bytes, "a buffer of kernel {} is too short", self.name);
        }
        self.module.context.enter()?;
        self.run(buffers, variables).map_err(|failure| match failure.is_out_of_memory() {
            true => {
                let bytes = buffers.iter().map(BufferSlice::bytes).max().unwrap_or(0);
                DeviceError::OutOfMemory { device: self.module.context.name.clone(), bytes }
            }
            false => self.module.context.error(failure, &self.name),
        })
    }
}

impl CudaKernel {
    fn run(&self, buffers: &[BufferSlice<'_>], variables: &[i64]) -> Result<(), Failure> {
        let mut copies: Vec<(usize, Managed)> = Vec::new();
        let mut values: Vec<u64> = Vec::with_capacity(buffers.len() + variables.len());
        for (number, slice) in buffers.iter().enumerate() {
            let address = slice.address().as_ptr().expose_provenance() as u64;
            values.push(if is_known(address) {
                address
            } else {
                let copy = self.copy_of(slice, address)?;
                let there = copy.address;
                copies.push((number, copy));
                there
            });
        }
        values.extend(variables.iter().map(|value| *value as u64));
        let mut arguments: Vec<*mut c_void> = values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        let ([gx, gy, gz], [x, y, z]) = (self.grid, self.block);
        // SAFETY: the kernel takes an address for each buffer, then its variables, 8 bytes each; it keeps to the buffers' lengths, as was promised for
        // its program. The arguments are copied before the call returns.
        let launched = unsafe {
            let (stream, none) = (ptr::null_mut(), ptr::null_mut());
            sys::cuLaunchKernel(
                self.function,
                gx,
                gy,
                gz,
                x,
                y,
                z,
                self.shared_bytes,
                stream,
                arguments.as_mut_ptr(),
                none,
            )
        };
        check("cuLaunchKernel", launched)?;
        self.module.context.wait()?;
        for (number, copy) in &copies {
            if self.parameters[*number].access != Access::Read {
                let slice = &buffers[*number];
                // SAFETY: the copy has as many bytes as the slice, which nobody else touches while the kernel runs.
                let copied =
                    unsafe { sys::cuMemcpyDtoH_v2(slice.address().as_ptr().cast(), copy.address, slice.bytes()) };
                check("cuMemcpyDtoH", copied)?;
            }
        }
        Ok(())
    }

    /// Memory of the GPU with what a slice of the host's memory holds.
    fn copy_of(&self, slice: &BufferSlice<'_>, address: u64) -> Result<Managed, Failure> {
        let mut there: sys::CUdeviceptr = 0;
        // SAFETY: the context is entered; the driver writes an address.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut there, slice.bytes().max(1)) })?;
        let copy = Managed { address: there, context: self.module.context.clone() };
        let from: *const c_void = ptr::with_exposed_provenance(address as usize);
        // SAFETY: both have as many bytes.
        check("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(there, from, slice.bytes()) })?;
        Ok(copy)
    }
}

/// Whether the GPU can use an address: the driver knows it. Of other memory of the host it says that the value is invalid.
fn is_known(address: u64) -> bool {
    let mut kind = 0u32;
    let which = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: the driver writes one number of 32 bits; any address may be asked about.
    let asked = unsafe { sys::cuPointerGetAttribute(ptr::from_mut(&mut kind).cast(), which, address) };
    check("cuPointerGetAttribute", asked).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_made_for_the_newest_architecture_that_is_no_newer_than_the_gpu() {
        let of = |major, minor| target_of((major, minor)).processor;
        assert_eq!(
            [of(8, 0), of(8, 9), of(9, 0), of(10, 3), of(12, 0)],
            ["sm_80", "sm_80", "sm_90", "sm_100", "sm_100"]
        );
        assert_eq!(target_of((9, 0)).device, "CUDA");
    }

    #[test]
    fn logs_name_lines() {
        assert_eq!(line_of("ptxas application ptx input, line 17; error   : Unknown symbol"), Some(17));
        assert_eq!(line_of("no such thing"), None);
    }

    #[test]
    fn a_kernel_runs_where_there_is_a_gpu() {
        // SAFETY: what is loaded is written below, for the buffer that it is launched with.
        let device = match unsafe { CudaDevice::open(DeviceName::parse("cuda").unwrap()) } {
            Ok(device) => device,
            Err(error) => return eprintln!("skipped: no device: {error}"),
        };
        let source = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 p0)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [p0];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.b32 [%rd3+0], %r0;
  ret;
}
";
        let program = Program {
            name: "fill".to_string(),
            entry: "fill".to_string(),
            source: source.to_string(),
            parameters: vec![Parameter { dtype: warpweft_compiler::DType::U32, len: 32, access: Access::Write }],
            variables: Vec::new(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch: warpweft_compiler::program::Launch { block: [32, 1, 1], ..warpweft_compiler::program::Launch::ONE },
            shared_bytes: 0,
            estimate: Default::default(),
        };
        let kernel = device.load(&program, &device.compile(&program).unwrap()).unwrap();
        let memory = device.allocate(128).unwrap();
        kernel.launch(&[memory.all()], &[], 1).unwrap();
        let mut bytes = [0; 128];
        device.copy_out(&memory, 0, &mut bytes).unwrap();
        let numbers: Vec<u32> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(numbers, (0..32).collect::<Vec<u32>>());
        let broken = Program { source: source.replace("add.s64", "odd.s64"), ..program };
        let error = device.compile(&broken).unwrap_err();
        assert!(matches!(error, DeviceError::Program { line: Some(12), .. }), "{error}");
    }
}
