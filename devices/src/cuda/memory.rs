//! Memory of a GPU: allocated and freed in the order of its stream, where the driver has pools for that.
//!
//! Memory that is dropped while launches wait that use it is freed after them. Without pools the driver frees at once, so the stream is waited for before.
//!
//! Tested over a stand-in for the driver, for which memory that is used after it was freed is a fault: `tests/it/cuda`.
#![allow(unsafe_code, reason = "calls the driver")]

use std::ffi::c_int;
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys::{self, CUresult};
use warpweft_compiler::program::BUFFER_ALIGNMENT;

use super::driver::{Failure, check};
use super::stream::Gpu;
use crate::buffer::{DeviceMemory, RawBuffer};
use crate::dlpack::abi::{CUDA, DLDevice};
use crate::error::DeviceError;

/// Bytes of a GPU, freed on drop, or given back to who lent them.
#[derive(Debug)]
pub(super) struct CudaMemory {
    address: NonZero<usize>,
    bytes: usize,
    gpu: Arc<Gpu>,
    /// Somebody else's memory, which this is.
    lent: Option<RawBuffer>,
}

// SAFETY: the driver gave the memory to nobody else, does not move it, and frees it after what stood in the stream when this drops.
unsafe impl DeviceMemory for CudaMemory {
    fn address(&self) -> NonNull<u8> {
        NonNull::without_provenance(self.address)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn dlpack_device(&self) -> Option<DLDevice> {
        Some(DLDevice { device_type: CUDA, device_id: self.gpu.context.device() })
    }

    fn came_back(&self) {
        if self.gpu.context.enter().is_ok() {
            // Nobody says in which stream the other library uses it. What went wrong is told to who waits next.
            // SAFETY: the context is entered.
            let _ = unsafe { sys::cuCtxSynchronize() };
        }
    }

    fn is_foreign(&self) -> bool {
        self.lent.is_some()
    }
}

impl CudaMemory {
    /// New memory, whose contents are anything.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; whatever else the driver says.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<CudaMemory, DeviceError> {
        gpu.context.enter()?;
        let mut address = ask(gpu, bytes);
        if address.as_ref().is_err_and(Failure::is_out_of_memory) {
            // What is to be freed in the stream is free when that is done.
            gpu.synchronize().map_err(|failure| gpu.context.error(failure, "what was launched before"))?;
            address = ask(gpu, bytes);
        }
        let out_of_memory = || DeviceError::OutOfMemory { device: gpu.context.name.clone(), bytes };
        let address = address.map_err(|failure| match failure.is_out_of_memory() {
            true => out_of_memory(),
            false => gpu.context.error(failure, "allocation"),
        })?;
        let address = usize::try_from(address).ok().and_then(NonZero::new).ok_or_else(out_of_memory)?;
        Ok(CudaMemory { address, bytes, gpu: gpu.clone(), lent: None })
    }

    /// Memory of this GPU that somebody lent, or a copy of it where kernels would have it at other addresses. All that was given to the GPU so far is waited
    /// for, since nobody says in which stream the memory was written.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for what is no memory of this GPU.
    pub(super) fn lent(gpu: &Arc<Gpu>, memory: RawBuffer) -> Result<CudaMemory, DeviceError> {
        gpu.context.enter()?;
        let failed = |failure: Failure| gpu.context.error(failure, "memory that was lent");
        let slice = memory.all();
        let (address, bytes) = (slice.address().addr(), slice.bytes());
        if owner_of(address.get() as u64) != Some(gpu.context.device()) {
            return Err(DeviceError::Unsupported {
                device: gpu.context.name.clone(),
                what: "use memory that its driver does not know as its own".to_string(),
            });
        }
        // SAFETY: the context is entered.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() }).map_err(failed)?;
        if address.get().is_multiple_of(BUFFER_ALIGNMENT as usize) {
            return Ok(CudaMemory { address, bytes, gpu: gpu.clone(), lent: Some(memory) });
        }
        let copy = CudaMemory::new(gpu, bytes)?;
        let (to, from) = (copy.address.get() as u64, address.get() as u64);
        // SAFETY: both have so many bytes, and the lender's are there until `memory` drops, after the copy is done.
        let asked = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, gpu.stream()) };
        check("cuMemcpyDtoDAsync", asked).and_then(|()| gpu.synchronize()).map_err(failed)?;
        Ok(copy)
    }

    /// Whose it is.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

/// Which GPU's memory an address is of, if the driver knows it.
fn owner_of(address: u64) -> Option<c_int> {
    let mut owner: c_int = -1;
    let which = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the driver writes one number of 32 bits; any address may be asked about.
    let asked = unsafe { sys::cuPointerGetAttribute(ptr::from_mut(&mut owner).cast(), which, address) };
    check("cuPointerGetAttribute", asked).ok().map(|()| owner)
}

fn ask(gpu: &Gpu, bytes: usize) -> Result<u64, Failure> {
    let mut address: sys::CUdeviceptr = 0;
    let bytes = bytes.max(1);
    if gpu.context.has_pools {
        // SAFETY: the context is entered; the driver writes an address, which what comes later in the stream may use.
        check("cuMemAllocAsync", unsafe { sys::cuMemAllocAsync(&mut address, bytes, gpu.stream()) })?;
    } else {
        // SAFETY: as above.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })?;
    }
    Ok(address)
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.gpu.context.enter().is_err() {
            return; // it went with the context
        }
        let address = self.address.get() as u64;
        if self.lent.is_some() {
            // The lender may write to it at once.
            let _ = self.gpu.synchronize();
        } else if self.gpu.context.has_pools {
            // SAFETY: allocated in this stream, and freed once, after all that stands in the stream.
            let _ = unsafe { sys::cuMemFreeAsync(address, self.gpu.stream()) };
        } else {
            let _ = self.gpu.synchronize();
            // SAFETY: allocated in this context, and freed once; nothing waits that uses it.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
    }
}

/// Whether one GPU can copy from the memory of another by itself; lets it, if so.
pub(super) fn reaches(gpu: &Gpu, other: &Gpu) -> bool {
    let (here, there) = (gpu.context.device(), other.context.device());
    let mut peers = gpu.peers.lock().unwrap_or_else(PoisonError::into_inner);
    *peers.entry(there).or_insert_with(|| let_in(gpu, other, here, there).unwrap_or(false))
}

fn let_in(gpu: &Gpu, other: &Gpu, here: c_int, there: c_int) -> Result<bool, Failure> {
    let mut can: c_int = 0;
    // SAFETY: both are numbers that the driver gave; it writes a number.
    check("cuDeviceCanAccessPeer", unsafe { sys::cuDeviceCanAccessPeer(&mut can, here, there) })?;
    if can == 0 {
        return Ok(false);
    }
    if other.context.has_pools {
        let mut pool: sys::CUmemoryPool = ptr::null_mut();
        // SAFETY: as above; the driver writes the handle of the pool that `cuMemAllocAsync` takes from.
        check("cuDeviceGetDefaultMemPool", unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, there) })?;
        let location = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: here };
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = sys::CUmemAccessDesc { location, flags };
        // SAFETY: one description; the pool is the driver's and lives as long as it does.
        check("cuMemPoolSetAccess", unsafe { sys::cuMemPoolSetAccess(pool, &access, 1) })?;
    } else if gpu.context.enter().is_ok() {
        // SAFETY: the other context is retained as long as `other` lives.
        let asked = check("cuCtxEnablePeerAccess", unsafe { sys::cuCtxEnablePeerAccess(other.context.handle(), 0) });
        // Somebody else in the process may have done so.
        let already = CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as u32;
        asked.or_else(|failure| if failure.code == already { Ok(()) } else { Err(failure) })?;
    }
    Ok(true)
}
