//! Memory and copies.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUpointer_attribute as About, CUresult, CUstream};

use super::contexts::gpu_of;
use super::{give, handle};
use crate::driver::{Driver, on_gpu};
use crate::streams::Work;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    on_gpu("cuMemGetInfo", |driver, gpu| {
        let (left, all) = driver.gpus[gpu].memory.free_and_total();
        // SAFETY: the caller's promise, here and below (see the head of `calls`).
        unsafe { give(free, left).and_then(|()| give(total, all)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    on_gpu("cuMemAlloc", |driver, gpu| {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let there = driver.gpus[gpu].memory.allocate(bytes, false)?;
        // SAFETY: the caller's promise.
        unsafe { give(address, there) }
    })
}

/// At once, though work may wait that uses it: on a GPU this waits sometimes, and nobody may rely on it.
#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    on_gpu("cuMemFree", |driver, gpu| driver.gpus[gpu].memory.free(address))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    on_gpu("cuMemAllocAsync", |driver, gpu| {
        if bytes == 0 || !driver.options.pools {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        driver.stream(gpu, stream.addr())?;
        let there = driver.gpus[gpu].memory.allocate(bytes, true)?;
        driver.push(gpu, stream.addr(), Work::Allocate(there))?;
        // SAFETY: the caller's promise.
        unsafe { give(address, there) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> CUresult {
    on_gpu("cuMemFreeAsync", |driver, gpu| match driver.gpus[gpu].memory.begins(address) {
        Some(true) => driver.push(gpu, stream.addr(), Work::Free(address)),
        Some(false) | None => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) -> CUresult {
    on_gpu("cuMemHostAlloc", |driver, _| {
        let there = driver.pinned.allocate(bytes, driver.options.pinned)?;
        // SAFETY: the caller's promise.
        unsafe { give(address, std::ptr::with_exposed_provenance_mut(there)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(address: *mut c_void) -> CUresult {
    on_gpu("cuMemFreeHost", |driver, _| driver.pinned.free(address.addr()))
}

/// From pinned memory the copy is late; other memory is read at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    on_gpu("cuMemcpyHtoDAsync", |driver, gpu| {
        let work = if driver.pinned.holds(from.addr(), bytes) {
            Work::FromPinned { to, from: from.addr(), bytes }
        } else {
            // SAFETY: the caller's promise: so many bytes are there.
            Work::FromHost { to, data: unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec() }
        };
        driver.push(gpu, stream.addr(), work)
    })
}

/// To pinned memory the copy is late; to other memory it is made before the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    on_gpu("cuMemcpyDtoHAsync", |driver, gpu| {
        if driver.pinned.holds(to.addr(), bytes) {
            return driver.push(gpu, stream.addr(), Work::ToPinned { to: to.addr(), from, bytes });
        }
        let key = if stream.is_null() { gpu } else { stream.addr() };
        driver.finish_stream(key);
        driver.gpus[gpu].lost.map_or(Ok(()), Err)?;
        let data = driver.gpus[gpu].memory.bytes(from, bytes).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the caller's promise: there is room for so many bytes.
        unsafe { to.cast::<u8>().copy_from(data.as_ptr(), bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    on_gpu("cuMemcpyDtoDAsync", |driver, gpu| driver.push(gpu, stream.addr(), Work::Copy { to, from, bytes }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    on_gpu("cuMemcpyPeerAsync", |driver, gpu| {
        let (target, source) = (gpu_of(driver, to_context)?, gpu_of(driver, from_context)?);
        // Harsher than a GPU, on which such a copy may go by way of the host.
        let is_open = |owner: usize, at| owner == gpu || driver.gpus[owner].memory.lets_in(at, gpu);
        if !is_open(source, from) || !is_open(target, to) {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        driver.push(gpu, stream.addr(), Work::Copy { to, from, bytes })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> CUresult {
    on_gpu("cuMemsetD8Async", |driver, gpu| driver.push(gpu, stream.addr(), Work::Fill { to, value, bytes }))
}

fn owner_of(driver: &Driver, address: CUdeviceptr) -> Result<usize, CUresult> {
    driver.gpu_of(address).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(value: *mut c_void, which: About, address: CUdeviceptr) -> CUresult {
    on_gpu("cuPointerGetAttribute", |driver, _| {
        let owner = owner_of(driver, address)?;
        match which {
            About::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
                // SAFETY: the caller's promise: a number of 32 bits, here and below; 2 is memory of a GPU.
                unsafe { give(value.cast::<u32>(), 2) }
            }
            // SAFETY: as above.
            About::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => unsafe { give(value.cast::<u32>(), owner as u32) },
            // SAFETY: as above; a pointer.
            About::CU_POINTER_ATTRIBUTE_CONTEXT => unsafe { give(value.cast::<CUcontext>(), handle(0x100 + owner)) },
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    })
}
