//! Starting, versions, words for errors, GPUs, primary contexts, and access of GPUs to each other.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute as Attribute, CUmemAccess_flags, CUmemAccessDesc, CUmemPool_attribute,
    CUmemoryPool, CUresult,
};

use super::{give, handle};
use crate::driver::{Driver, call, on_gpu, set_current, start};

/// What a context's handle is, less the number of its GPU.
const CONTEXTS: usize = 0x100;
/// And a pool's.
const POOLS: usize = 0x200;

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> CUresult {
    start()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // It may be asked before everything else.
    let _ = start();
    // SAFETY: the caller's promise (see the head of `calls`).
    call("cuDriverGetVersion", |driver| unsafe { give(version, driver.options.version) })
}

/// Names and descriptions of errors, in the driver's words.
fn words(code: CUresult) -> Option<(&'static CStr, &'static CStr)> {
    Some(match code {
        CUresult::CUDA_SUCCESS => (c"CUDA_SUCCESS", c"no error"),
        CUresult::CUDA_ERROR_INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        CUresult::CUDA_ERROR_NOT_INITIALIZED => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        CUresult::CUDA_ERROR_NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        CUresult::CUDA_ERROR_INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        CUresult::CUDA_ERROR_INVALID_IMAGE => (c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
        CUresult::CUDA_ERROR_INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        CUresult::CUDA_ERROR_INVALID_PTX => (c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
        CUresult::CUDA_ERROR_INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        CUresult::CUDA_ERROR_NOT_FOUND => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        CUresult::CUDA_ERROR_NOT_READY => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS => {
            (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered")
        }
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
            (c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch")
        }
        CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED => {
            (c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices")
        }
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS => (c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
        CUresult::CUDA_ERROR_LAUNCH_FAILED => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: CUresult, name: *mut *const c_char) -> CUresult {
    // SAFETY: the caller's promise, here and below.
    let given = unsafe { give(name, words(code).map_or(std::ptr::null(), |(name, _)| name.as_ptr())) };
    given
        .and(words(code).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE))
        .map_or_else(|code| code, |_| CUresult::CUDA_SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: the caller's promise.
    let given = unsafe { give(text, words(code).map_or(std::ptr::null(), |(_, text)| text.as_ptr())) };
    given
        .and(words(code).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE))
        .map_or_else(|code| code, |_| CUresult::CUDA_SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise.
    call("cuDeviceGetCount", |driver| unsafe { give(count, driver.gpus.len() as c_int) })
}

fn checked(driver: &Driver, gpu: CUdevice) -> Result<usize, CUresult> {
    let number = usize::try_from(gpu).ok().filter(|number| *number < driver.gpus.len());
    number.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    call("cuDeviceGet", |driver| {
        checked(driver, ordinal)?;
        // SAFETY: the caller's promise.
        unsafe { give(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetName", |driver| {
        let text = format!("Stand-in {}\0", checked(driver, device)?);
        let len = (len.max(0) as usize).min(text.len());
        // SAFETY: the caller's promise: there is room for so many bytes.
        unsafe { name.cast::<u8>().copy_from(text.as_ptr(), len) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: Attribute, device: CUdevice) -> CUresult {
    call("cuDeviceGetAttribute", |driver| {
        checked(driver, device)?;
        let number = match which {
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => driver.options.capability / 10,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => driver.options.capability % 10,
            Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => c_int::from(driver.options.pools),
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        // SAFETY: the caller's promise.
        unsafe { give(value, number) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRetain", |driver| {
        let gpu = checked(driver, device)?;
        driver.gpus[gpu].retained += 1;
        // SAFETY: the caller's promise.
        unsafe { give(context, handle(CONTEXTS + gpu)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRelease", |driver| {
        let gpu = checked(driver, device)?;
        driver.gpus[gpu].retained =
            driver.gpus[gpu].retained.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        let used = driver.gpus[gpu].memory.used();
        driver.tell(&format!("released with {used} bytes in use"));
        Ok(())
    })
}

/// The GPU of a context.
pub(super) fn gpu_of(driver: &Driver, context: CUcontext) -> Result<usize, CUresult> {
    let gpu = context.addr().checked_sub(CONTEXTS).filter(|gpu| *gpu < driver.gpus.len());
    gpu.filter(|gpu| driver.gpus[*gpu].retained > 0).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    call("cuCtxSetCurrent", |driver| {
        let gpu = if context.is_null() { None } else { Some(gpu_of(driver, context)?) };
        set_current(gpu);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> CUresult {
    on_gpu("cuCtxSynchronize", |driver, gpu| {
        let of_it: Vec<usize> =
            driver.streams.iter().filter(|(_, stream)| stream.gpu == gpu).map(|(key, _)| *key).collect();
        of_it.into_iter().for_each(|stream| driver.finish_stream(stream));
        driver.gpus[gpu].lost.map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) -> CUresult {
    call("cuDeviceCanAccessPeer", |driver| {
        let (gpu, peer) = (checked(driver, device)?, checked(driver, peer)?);
        // SAFETY: the caller's promise.
        unsafe { give(can, c_int::from(driver.options.peer && gpu != peer)) }
    })
}

/// Lets the context of this thread reach memory of another one, that of its pools excepted.
#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: CUcontext, _flags: c_uint) -> CUresult {
    on_gpu("cuCtxEnablePeerAccess", |driver, gpu| {
        let peer = gpu_of(driver, peer)?;
        match (driver.options.peer && peer != gpu, driver.gpus[peer].memory.rest_open_to.contains(&gpu)) {
            (false, _) => Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
            (true, true) => Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
            (true, false) => {
                driver.gpus[peer].memory.rest_open_to.insert(gpu);
                Ok(())
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> CUresult {
    call("cuDeviceGetDefaultMemPool", |driver| {
        let gpu = checked(driver, device)?;
        // SAFETY: the caller's promise.
        unsafe { give(pool, handle(POOLS + gpu)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: CUmemoryPool, _which: CUmemPool_attribute, _value: *mut c_void) -> CUresult {
    call("cuMemPoolSetAttribute", |driver| pool_of(driver, pool).map(|_| ()))
}

fn pool_of(driver: &Driver, pool: CUmemoryPool) -> Result<usize, CUresult> {
    let gpu = pool.addr().checked_sub(POOLS).filter(|gpu| *gpu < driver.gpus.len());
    gpu.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) -> CUresult {
    call("cuMemPoolSetAccess", |driver| {
        let owner = pool_of(driver, pool)?;
        for number in 0..count {
            // SAFETY: the caller's promise: there are so many.
            let wanted = unsafe { *map.add(number) };
            let peer = checked(driver, wanted.location.id)?;
            match (driver.options.peer || peer == owner, wanted.flags) {
                (true, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE) => {
                    driver.gpus[owner].memory.pool_open_to.insert(peer);
                }
                _ => return Err(CUresult::CUDA_ERROR_INVALID_DEVICE),
            }
        }
        Ok(())
    })
}
