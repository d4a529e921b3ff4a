//! Linking, modules, functions, launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUjit_option, CUjitInputType, CUlinkState, CUmodule, CUresult, CUstream,
};

use super::{give, handle};
use crate::driver::{Driver, Link, on_gpu};
use crate::modules::{Launch, MAGIC, Module, contained};
use crate::streams::Work;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLinkCreate_v2(
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    state: *mut CUlinkState,
) -> CUresult {
    on_gpu("cuLinkCreate", |driver, _| {
        let (mut log, mut bytes) = (0, 0);
        for number in 0..count as usize {
            // SAFETY: the caller's promise, here and below (see the head of `calls`): so many options, each with a value.
            let (option, value) = unsafe { (*options.add(number), *values.add(number)) };
            match option {
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER => log = value.expose_provenance(),
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => bytes = value.addr(),
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
        }
        let key = driver.handle();
        driver.links.insert(key, Link { log: (log != 0).then_some((log, bytes)), code: Vec::new() });
        // SAFETY: the caller's promise.
        unsafe { give(state, handle(key)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: CUjitInputType,
    data: *mut c_void,
    size: usize,
    _name: *const c_char,
    _count: c_uint,
    _options: *mut CUjit_option,
    _values: *mut *mut c_void,
) -> CUresult {
    on_gpu("cuLinkAddData", |driver, _| {
        let link = driver.links.get_mut(&state.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // SAFETY: the caller's promise: so many bytes of text, the last of them 0.
        let text = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        let source = CStr::from_bytes_until_nul(text).ok().and_then(|text| text.to_str().ok());
        let (Some(source), CUjitInputType::CU_JIT_INPUT_PTX) = (source, kind) else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        match Module::of_source(source) {
            Ok(_) => link.code = contained(source),
            Err(said) => {
                if let Some((log, room)) = link.log {
                    let said = &said.as_bytes()[..said.len().min(room.saturating_sub(1))];
                    let log = std::ptr::with_exposed_provenance_mut::<u8>(log);
                    // SAFETY: the caller's promise: there is room for so many bytes until the linker is destroyed.
                    unsafe { log.copy_from(said.as_ptr(), said.len()) };
                    // SAFETY: as above: one less was written than there is room for.
                    unsafe { log.add(said.len()).write(0) };
                }
                return Err(CUresult::CUDA_ERROR_INVALID_PTX);
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLinkComplete(state: CUlinkState, code: *mut *mut c_void, bytes: *mut usize) -> CUresult {
    on_gpu("cuLinkComplete", |driver, _| {
        let link = driver.links.get_mut(&state.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // SAFETY: the caller's promise.
        unsafe { give(bytes, link.code.len()).and_then(|()| give(code, link.code.as_mut_ptr().cast())) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkDestroy(state: CUlinkState) -> CUresult {
    on_gpu("cuLinkDestroy", |driver, _| {
        driver.links.remove(&state.addr()).map(|_| ()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    _count: c_uint,
    _options: *mut CUjit_option,
    _values: *mut *mut c_void,
) -> CUresult {
    on_gpu("cuModuleLoadDataEx", |driver, gpu| {
        let image = image.cast::<u8>();
        // SAFETY: the caller's promise: a whole container, which begins with its mark, and the length of what follows.
        let mark = unsafe { std::slice::from_raw_parts(image, MAGIC.len()) };
        if mark != MAGIC {
            return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
        }
        // SAFETY: as above.
        let len = unsafe { image.add(MAGIC.len()).cast::<u64>().read_unaligned() };
        // SAFETY: as above.
        let text = unsafe { std::slice::from_raw_parts(image.add(MAGIC.len() + 8), len as usize) };
        let source = std::str::from_utf8(text).map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        let loaded = Module::of_source(source).map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        let key = driver.handle();
        driver.modules.insert(key, (gpu, loaded));
        // SAFETY: the caller's promise.
        unsafe { give(module, handle(key)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    on_gpu("cuModuleUnload", |driver, _| {
        driver.modules.remove(&module.addr()).map(|_| ()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    })
}

/// A module has one function, with the same handle.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult {
    on_gpu("cuModuleGetFunction", |driver, _| {
        let (_, found) = driver.modules.get(&module.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // SAFETY: the caller's promise: a text that ends with 0.
        let name = unsafe { CStr::from_ptr(name) };
        if name.to_bytes() != found.entry().as_bytes() {
            return Err(CUresult::CUDA_ERROR_NOT_FOUND);
        }
        // SAFETY: the caller's promise.
        unsafe { give(function, handle(module.addr())) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: CUfunction, _which: CUfunction_attribute, value: c_int) -> CUresult {
    on_gpu("cuFuncSetAttribute", |driver, _| {
        // What the largest GPU that is known gives a block.
        let is_right = driver.modules.contains_key(&function.addr()) && (0..=227 << 10).contains(&value);
        if is_right { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    })
}

/// The blocks, threads and parameters of a launch.
pub(super) struct Asked {
    pub(super) function: CUfunction,
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) parameters: *mut *mut c_void,
}

impl Asked {
    /// Reads the parameters of a launch.
    ///
    /// # Safety
    /// There are as many as the function has, each of 8 bytes.
    pub(super) unsafe fn read(&self, driver: &Driver, gpu: usize) -> Result<Launch, CUresult> {
        let found = driver.modules.get(&self.function.addr()).filter(|(owner, _)| *owner == gpu);
        let (_, module) = found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        let [x, y, z] = self.block.map(u64::from);
        if self.grid.contains(&0) || x * y * z == 0 || x * y * z > 1024 || self.grid[1].max(self.grid[2]) > 65_535 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let parameter = |number: usize| unsafe { (*self.parameters.add(number)).cast::<u64>().read_unaligned() };
        Ok(Launch {
            function: self.function.addr(),
            grid: self.grid.map(u64::from),
            block: [x, y, z],
            shared_bytes: self.shared_bytes.into(),
            parameters: (0..module.parameters()).map(parameter).collect(),
        })
    }
}

/// Whether a launch is let through: the one that was to be refused is not.
pub(super) fn admit(driver: &mut Driver, launches: u64) -> Result<(), CUresult> {
    let before = driver.launches_asked;
    driver.launches_asked += launches;
    let refused = driver.options.refuse_launch;
    if refused > before && refused <= before + launches {
        return Err(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> CUresult {
    on_gpu("cuLaunchKernel", |driver, gpu| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let asked = Asked { function, grid, block, shared_bytes, parameters };
        // SAFETY: the caller's promise.
        let launch = unsafe { asked.read(driver, gpu) }?;
        admit(driver, 1)?;
        driver.push(gpu, stream.addr(), Work::Launch(launch))
    })
}
