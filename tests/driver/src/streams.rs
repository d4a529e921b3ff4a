//! Work that waits in streams, and doing it: in order within a stream, in an order that the seed varies between them, as far as events let it.

use cudarc::driver::sys::CUresult;

use crate::driver::Driver;
use crate::modules::Launch;

/// What a stream is given.
#[derive(Debug)]
pub(crate) enum Work {
    Launch(Launch),
    /// From pinned memory of the host, which is read when this is done.
    FromPinned {
        to: u64,
        from: usize,
        bytes: usize,
    },
    /// From other memory of the host, which was read when this was asked for.
    FromHost {
        to: u64,
        data: Vec<u8>,
    },
    /// To pinned memory of the host.
    ToPinned {
        to: usize,
        from: u64,
        bytes: usize,
    },
    /// Within the memory of GPUs.
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Record {
        event: usize,
        number: u64,
    },
    Wait {
        event: usize,
        number: u64,
    },
    Allocate(u64),
    Free(u64),
}

type Failed = (CUresult, String);

impl Driver {
    fn can_begin(&self, stream: usize) -> bool {
        match self.streams.get(&stream).and_then(|stream| stream.work.front()) {
            Some(Work::Wait { event, number }) => self.events.get(event).is_none_or(|event| event.happened >= *number),
            other => other.is_some(),
        }
    }

    /// Does work until something holds, of this stream first where the seed does not say otherwise.
    pub(crate) fn work_until(&mut self, first: Option<usize>, holds: impl Fn(&Driver) -> bool) {
        while !holds(self) {
            let ready: Vec<usize> = self.streams.keys().copied().filter(|&stream| self.can_begin(stream)).collect();
            if ready.is_empty() {
                break;
            }
            let preferred = first.filter(|stream| self.options.seed == 0 && ready.contains(stream));
            let stream = preferred.unwrap_or_else(|| match self.options.seed {
                0 => ready[0],
                _ => ready[self.random() as usize % ready.len()],
            });
            self.work_once(stream);
        }
    }

    /// Does what waits, or a little of it, or nothing: as the seed says.
    pub(crate) fn work_a_little(&mut self) {
        if self.options.seed != 0 && self.random().is_multiple_of(4) {
            let pieces = self.random() % 3 + 1;
            let before = self.pieces_done;
            self.work_until(None, |driver| driver.pieces_done >= before + pieces);
        }
    }

    /// Returns when a stream has nothing left to do.
    pub(crate) fn finish_stream(&mut self, stream: usize) {
        let is_done = |driver: &Driver| driver.streams.get(&stream).is_none_or(|stream| stream.work.is_empty());
        self.work_until(Some(stream), is_done);
    }

    fn work_once(&mut self, stream: usize) {
        let Some((gpu, work)) =
            self.streams.get_mut(&stream).and_then(|stream| Some((stream.gpu, stream.work.pop_front()?)))
        else {
            return;
        };
        self.pieces_done += 1;
        self.clock += 1.0;
        if self.gpus[gpu].lost.is_some() {
            // What waited is given up; who waits for its end does not wait for ever.
            if let Work::Record { event, number } = work {
                self.happened(event, number);
            }
            return;
        }
        if let Err((code, message)) = self.carry_out(gpu, work) {
            eprintln!("the driver's stand-in: GPU {gpu}: {}: {message}", code as u32);
            self.gpus[gpu].lost = Some(code);
        }
    }

    fn happened(&mut self, event: usize, number: u64) {
        let clock = self.clock;
        if let Some(event) = self.events.get_mut(&event) {
            event.happened = event.happened.max(number);
            event.time = clock;
        }
    }

    fn carry_out(&mut self, gpu: usize, work: Work) -> Result<(), Failed> {
        match work {
            Work::Launch(launch) => self.launch(gpu, &launch),
            Work::FromHost { to, data } => {
                self.bytes_of(gpu, to, data.len())?.copy_from_slice(&data);
                Ok(())
            }
            Work::FromPinned { to, from, bytes } => {
                let data = self.pinned_bytes(from, bytes)?;
                self.bytes_of(gpu, to, bytes)?.copy_from_slice(&data);
                Ok(())
            }
            Work::ToPinned { to, from, bytes } => {
                self.pinned_bytes(to, bytes)?;
                let data = self.bytes_of(gpu, from, bytes)?;
                // SAFETY: so many bytes of pinned memory are there, as was just seen; their owner leaves them alone until the copy is done.
                unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to).copy_from(data.as_ptr(), bytes) };
                Ok(())
            }
            Work::Copy { to, from, bytes } => {
                let data = self.bytes_of(self.gpu_of(from)?, from, bytes)?.to_vec();
                self.bytes_of(self.gpu_of(to)?, to, bytes)?.copy_from_slice(&data);
                Ok(())
            }
            Work::Fill { to, value, bytes } => {
                self.bytes_of(gpu, to, bytes)?.fill(value);
                Ok(())
            }
            Work::Record { event, number } => {
                self.happened(event, number);
                Ok(())
            }
            Work::Wait { .. } => Ok(()),
            Work::Allocate(address) => {
                self.gpus[gpu].memory.is_there(address);
                Ok(())
            }
            Work::Free(address) => {
                self.gpus[gpu].memory.free(address).map_err(|code| (code, "freed twice".to_string()))
            }
        }
    }

    /// Which GPU's memory an address is of.
    pub(crate) fn gpu_of(&self, address: u64) -> Result<usize, Failed> {
        let found = self.gpus.iter().position(|gpu| gpu.memory.has(address));
        found.ok_or_else(|| (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, format!("{address:#x} is no memory of a GPU")))
    }

    fn bytes_of(&mut self, gpu: usize, address: u64, bytes: usize) -> Result<&mut [u8], Failed> {
        if bytes == 0 {
            return Ok(&mut []);
        }
        let found = self.gpus[gpu].memory.bytes(address, bytes);
        found.ok_or_else(|| {
            let message = format!("{bytes} bytes at {address:#x} are no memory of this GPU now");
            (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, message)
        })
    }

    fn pinned_bytes(&self, address: usize, bytes: usize) -> Result<Vec<u8>, Failed> {
        if !self.pinned.holds(address, bytes) {
            let message = "pinned memory was freed before a copy from or to it was done".to_string();
            return Err((CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, message));
        }
        // SAFETY: so many bytes of memory that the driver allocated are there.
        Ok(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(address), bytes) }.to_vec())
    }

    fn launch(&mut self, gpu: usize, launch: &Launch) -> Result<(), Failed> {
        self.clock += 10.0;
        self.launches_done += 1;
        if self.launches_done == self.options.fault_launch {
            return Err((CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "a fault was asked for".to_string()));
        }
        let gone = || (CUresult::CUDA_ERROR_LAUNCH_FAILED, "its module was unloaded before it ran".to_string());
        let (owner, module) = self.modules.get_mut(&launch.function).ok_or_else(gone)?;
        if *owner != gpu {
            return Err((CUresult::CUDA_ERROR_LAUNCH_FAILED, "its module is of another context".to_string()));
        }
        module.run(launch, &self.gpus[gpu].memory)
    }
}
