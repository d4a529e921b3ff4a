//! Pinned memory of the host, by way of which data goes to a GPU and back: the GPU copies from and to it by itself, while the host does something else.
//!
//! Towards the GPU the pieces go round: data is copied into the current piece, and the copy out of that stands in the stream. When a piece is full an event marks the point
//! after its last copy, and a piece is written to again only when its event has happened. Back, two pieces take turns: the GPU fills one while the host empties the other.
//! Where no pinned memory can be had the driver copies by its own.
//!
//! Always: a piece is not written to while a copy from it waits; what `download` returns has arrived.
//!
//! Tested over a stand-in for the driver, which reads pinned memory as late as it can: `tests/it/cuda`.
#![allow(unsafe_code, reason = "calls the driver, and copies from and to its memory")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use super::driver::{Failure, check};
use super::stream::Gpu;
use crate::error::DeviceError;

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that go towards the GPU.
const UPLOADS: usize = 4;
/// Pieces that come back.
const DOWNLOADS: usize = 2;
/// To which data in a piece is aligned.
const ALIGNMENT: usize = 64;

/// The pieces of one GPU; none until the first copy.
#[derive(Debug)]
pub(super) struct Staging {
    memory: Memory,
    /// The piece that is being filled, and how much of it is.
    current: usize,
    used: usize,
    /// For each piece, an event after the last copy from it, since it was last full, or to it; none yet where it is null.
    copied: [sys::CUevent; UPLOADS + DOWNLOADS],
}

#[derive(Debug, Default)]
enum Memory {
    #[default]
    NotAsked,
    Pinned(*mut u8),
    Refused,
}

impl Default for Staging {
    fn default() -> Staging {
        let copied = [ptr::null_mut(); UPLOADS + DOWNLOADS];
        Staging { memory: Memory::NotAsked, current: 0, used: 0, copied }
    }
}

// SAFETY: pinned memory and events belong to no thread; only who holds the lock around this touches it.
unsafe impl Send for Staging {}

impl Staging {
    /// The first byte of the pieces, asked for once. The context is entered.
    fn pieces(&mut self) -> Option<*mut u8> {
        if let Memory::NotAsked = self.memory {
            let mut address: *mut c_void = ptr::null_mut();
            // SAFETY: the context is entered; the driver writes an address.
            let asked = unsafe { sys::cuMemHostAlloc(&mut address, PIECE_BYTES * (UPLOADS + DOWNLOADS), 0) };
            self.memory = match check("cuMemHostAlloc", asked) {
                Ok(()) if !address.is_null() => Memory::Pinned(address.cast()),
                Ok(()) | Err(_) => Memory::Refused,
            };
        }
        match self.memory {
            Memory::Pinned(first) => Some(first),
            Memory::NotAsked | Memory::Refused => None,
        }
    }

    /// Has data copied to an address of the GPU, in order; it may be used again at once. The context is entered.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn upload(&mut self, gpu: &Gpu, to: u64, data: &[u8]) -> Result<(), DeviceError> {
        let failed = |failure: Failure| gpu.context.error(failure, "a copy to the GPU");
        let Some(pieces) = self.pieces() else {
            // SAFETY: the caller saw that so much memory of the GPU is there; of memory that is not pinned the driver makes a copy before it returns.
            let asked = unsafe { sys::cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), data.len(), gpu.stream()) };
            return check("cuMemcpyHtoDAsync", asked).map_err(failed);
        };
        let mut done = 0;
        while done < data.len() {
            if self.used >= PIECE_BYTES {
                self.turn(gpu)?;
            }
            let bytes = (data.len() - done).min(PIECE_BYTES - self.used);
            // SAFETY: `used` and `bytes` lie within the current piece, of which there are `UPLOADS`.
            let pointer = unsafe { pieces.add(self.current * PIECE_BYTES + self.used) };
            // SAFETY: so many bytes are there in both; no copy from this part of the piece waits: it was not used since `turn` saw the last end.
            unsafe { pointer.copy_from_nonoverlapping(data[done..].as_ptr(), bytes) };
            // SAFETY: the piece stays as it is until an event says that the copy is done; the rest as above.
            let asked = unsafe { sys::cuMemcpyHtoDAsync_v2(to + done as u64, pointer.cast(), bytes, gpu.stream()) };
            check("cuMemcpyHtoDAsync", asked).map_err(failed)?;
            self.used = (self.used + bytes).next_multiple_of(ALIGNMENT);
            done += bytes;
        }
        Ok(())
    }

    /// Goes on to the next piece, when all copies from that are done.
    fn turn(&mut self, gpu: &Gpu) -> Result<(), DeviceError> {
        let failed = |failure: Failure| gpu.context.error(failure, "a copy to the GPU");
        gpu.record(&mut self.copied[self.current]).map_err(failed)?;
        self.current = (self.current + 1) % UPLOADS;
        gpu.wait_for_event(self.copied[self.current]).map_err(failed)?;
        self.used = 0;
        Ok(())
    }

    /// Fills data from an address of the GPU, after all that stands in the stream. The context is entered.
    ///
    /// # Errors
    /// What the driver says, of what was launched before as well.
    pub(super) fn download(&mut self, gpu: &Gpu, data: &mut [u8], from: u64) -> Result<(), DeviceError> {
        let failed = |failure: Failure| gpu.context.error(failure, "a copy from the GPU");
        let Some(pieces) = self.pieces() else {
            // SAFETY: the caller saw that so much memory of the GPU is there; to memory that is not pinned the copy is made before the call returns.
            let asked = unsafe { sys::cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), from, data.len(), gpu.stream()) };
            check("cuMemcpyDtoHAsync", asked).map_err(failed)?;
            return gpu.synchronize().map_err(failed);
        };
        let mut waiting: Option<(usize, &mut [u8])> = None;
        for (number, part) in data.chunks_mut(PIECE_BYTES).enumerate() {
            let piece = UPLOADS + number % DOWNLOADS;
            // SAFETY: there are `DOWNLOADS` pieces behind those of uploads.
            let pointer = unsafe { pieces.add(piece * PIECE_BYTES) };
            let address = from + (number * PIECE_BYTES) as u64;
            // SAFETY: a piece has room for the part, and the one before the last was emptied before; the rest as above.
            let asked = unsafe { sys::cuMemcpyDtoHAsync_v2(pointer.cast(), address, part.len(), gpu.stream()) };
            check("cuMemcpyDtoHAsync", asked).and_then(|()| gpu.record(&mut self.copied[piece])).map_err(failed)?;
            if let Some((piece, part)) = waiting.replace((piece, part)) {
                self.empty(gpu, pieces, piece, part).map_err(failed)?;
            }
        }
        waiting.map_or(Ok(()), |(piece, part)| self.empty(gpu, pieces, piece, part).map_err(failed))
    }

    /// Waits for a piece and empties it.
    fn empty(&self, gpu: &Gpu, pieces: *const u8, piece: usize, part: &mut [u8]) -> Result<(), Failure> {
        gpu.wait_for_event(self.copied[piece])?;
        // SAFETY: there are so many pieces.
        let pointer = unsafe { pieces.add(piece * PIECE_BYTES) };
        // SAFETY: the piece has as many bytes, which the GPU has written, as was just waited for.
        unsafe { part.as_mut_ptr().copy_from_nonoverlapping(pointer, part.len()) };
        Ok(())
    }

    /// Frees the pieces; nothing waits that uses them. The context is entered.
    pub(super) fn free(&mut self) {
        for event in std::mem::replace(&mut self.copied, [ptr::null_mut(); UPLOADS + DOWNLOADS]) {
            if !event.is_null() {
                // SAFETY: made by `Gpu::record` in this context, and destroyed once.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
        }
        if let Memory::Pinned(first) = std::mem::take(&mut self.memory) {
            // SAFETY: allocated by the driver, and freed once.
            let _ = unsafe { sys::cuMemFreeHost(first.cast()) };
        }
    }
}
