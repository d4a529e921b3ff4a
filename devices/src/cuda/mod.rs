//! NVIDIA GPUs through the CUDA driver (`DEV=CUDA`, the feature `cuda`). It follows the driver's documentation and has run on an H100. Where there
//! is no GPU it is tested over a stand-in for the driver, which runs kernels on the emulator (`tests/driver`).
//!
//! - *One binary.* The driver's library is looked for when the device is opened, so a program with this feature runs where there is none.
//! - *A stream.* Launches, copies, allocation and freeing stand in one stream of the GPU, and a call returns when its work does. Who reads elements waits.
//! - *Memory* is the GPU's alone. Data comes and goes by pinned memory of the host.
//! - *Code.* The driver makes machine code (a cubin) of PTX; those bytes are what caches keep.
//! - *Graphs.* The launches of a compiled function are one launch of a graph, from its second call on.
//! - *Several GPUs* by their numbers, each with a context and a stream of its own. One copies from the memory of another by itself where the machine can do that, and
//!   events order the two streams; else the copy goes through the host.
//! - *Other libraries* of the process can have memory of a GPU through DLPack, and lend theirs, if they use primary contexts as all do that go by the runtime's interface.
//! - *Errors* are typed: [`DeviceError::Unavailable`], `OutOfMemory`, `Program`, `Launch`, and `Lost` after a fault of a kernel, which ends the context: it is told to who
//!   waits next, and to all who come after.
//!
//! | module | does |
//! |---|---|
//! | `driver`, `calls` | the driver's library, contexts, errors |
//! | `stream` | the stream and events |
//! | `memory`, `staging` | memory of the GPU, and pinned memory |
//! | `code` | machine code and kernels |
//! | `graph` | launches that are repeated |
#![allow(unsafe_code, reason = "calls the driver")]

mod calls;
mod code;
mod driver;
mod graph;
mod memory;
mod staging;
mod stream;

use std::any::Any;
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys;
use warpweft_compiler::program::Program;
use warpweft_compiler::target::Target;

use crate::buffer::RawBuffer;
use crate::device::{Device, Kernel, copy_through_host};
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, Step};
use crate::queue::Queue;
use crate::registry::DeviceName;
use code::CudaKernel;
use driver::{Context, check};
use memory::CudaMemory;
use stream::{CudaQueue, Gpu};

/// A GPU.
#[derive(Debug)]
pub struct CudaDevice {
    gpu: Arc<Gpu>,
    queue: CudaQueue,
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
        let gpu = Arc::new(Gpu::new(Context::open(name)?)?);
        let target = target_of(gpu.context.capability);
        Ok(CudaDevice { queue: CudaQueue(gpu.clone()), gpu, target })
    }

    /// The memory behind a buffer, if it is a GPU's.
    fn memory_of(buffer: &RawBuffer) -> Option<&CudaMemory> {
        let memory: &dyn Any = buffer.device_memory()?;
        memory.downcast_ref()
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
        &self.gpu.context.name
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> &str {
        &self.gpu.context.description
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(&self.queue)
    }

    fn uses_host_memory(&self) -> bool {
        false
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        Ok(RawBuffer::of_device(Box::new(CudaMemory::new(&self.gpu, bytes)?)))
    }

    fn copy_in(&self, buffer: &RawBuffer, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        let slice = buffer.slice(offset, data.len())?;
        self.own(buffer)?;
        let mut staging = self.gpu.staging.lock().unwrap_or_else(PoisonError::into_inner);
        staging.upload(&self.gpu, slice.address().addr().get() as u64, data)
    }

    fn copy_out(&self, buffer: &RawBuffer, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        let slice = buffer.slice(offset, data.len())?;
        self.own(buffer)?;
        let mut staging = self.gpu.staging.lock().unwrap_or_else(PoisonError::into_inner);
        staging.download(&self.gpu, data, slice.address().addr().get() as u64)
    }

    fn copy_from(
        &self,
        (buffer, offset): (&RawBuffer, usize),
        from: &dyn Device,
        (source, source_offset): (&RawBuffer, usize),
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let to = buffer.slice(offset, bytes)?.address().addr().get() as u64;
        let at = source.slice(source_offset, bytes)?.address().addr().get() as u64;
        match CudaDevice::memory_of(source).map(CudaMemory::gpu) {
            _ if bytes == 0 => Ok(()),
            Some(other) if self.own(buffer).is_ok() && memory::reaches(&self.gpu, other) => {
                self.copy_from_gpu(to, other, at, bytes)
            }
            _ => copy_through_host(self, (buffer, offset), from, (source, source_offset), bytes),
        }
    }

    fn adopt(&self, memory: RawBuffer) -> Result<RawBuffer, DeviceError> {
        Ok(RawBuffer::of_device(Box::new(CudaMemory::lent(&self.gpu, memory)?)))
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        self.gpu.context.enter()?;
        code::compile(&self.gpu.context, program)
    }

    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.gpu.context.enter()?;
        Ok(Arc::new(CudaKernel::load(&self.gpu, program, object)?))
    }

    fn launch_list(&self, steps: Vec<Step>) -> Arc<dyn LaunchList> {
        graph::list(&self.gpu, steps)
    }

    fn disassemble(&self, _object: &[u8]) -> Result<String, DeviceError> {
        Err(DeviceError::Unsupported {
            device: self.gpu.context.name.clone(),
            what: "show machine code: NVIDIA's nvdisasm does".to_string(),
        })
    }
}

impl CudaDevice {
    /// Enters the context of memory of this GPU.
    ///
    /// # Errors
    /// If it is somebody else's.
    fn own(&self, buffer: &RawBuffer) -> Result<(), DeviceError> {
        match CudaDevice::memory_of(buffer) {
            Some(memory) if Arc::ptr_eq(memory.gpu(), &self.gpu) => self.gpu.context.enter(),
            _ => Err(DeviceError::Unsupported {
                device: self.gpu.context.name.clone(),
                what: "copy to or from memory of another device: that one does".to_string(),
            }),
        }
    }

    /// Has bytes copied from the memory of another GPU, when that has done what it was given; what it is given later waits for the copy.
    fn copy_from_gpu(&self, to: u64, other: &Arc<Gpu>, from: u64, bytes: usize) -> Result<(), DeviceError> {
        self.gpu.wait_for_mark(&other.mark()?)?;
        self.gpu.context.enter()?;
        let (here, there) = (self.gpu.context.handle(), other.context.handle());
        // SAFETY: both have so many bytes, as the caller saw; the source is written to, or freed, after the event below alone.
        let asked = unsafe { sys::cuMemcpyPeerAsync(to, here, from, there, bytes, self.gpu.stream()) };
        check("cuMemcpyPeerAsync", asked)
            .map_err(|failure| self.gpu.context.error(failure, "a copy from another GPU"))?;
        other.wait_for_mark(&self.gpu.mark()?)
    }
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
}
