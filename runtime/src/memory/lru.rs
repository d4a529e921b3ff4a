//! An allocator over any device that keeps freed blocks for the next request, within a bound.
//!
//! Requests are rounded up to *size classes*: multiples of an eighth of the next lower power of two, at least 128 bytes. So
//! shapes that vary a little reuse each other's memory, and at most an eighth of a block is unused. A request takes the block of
//! its class that was freed last, which is likeliest to be in a cache of the processor; when the bound is exceeded, the block
//! that was freed longest ago goes, of whatever class.
//!
//! Always: the bytes kept are at most the bound; a bound of 0 keeps nothing. When the device has no more memory, everything
//! kept goes and the request is made again, once. The device is never called while the lock is held. A block that was used
//! before holds its old bytes. Memory that is shared with another library is in use until that drops it, and kept then like any other.
//!
//! Tested against `model.rs`, which scans a list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;
use warpweft_devices::{Device, DeviceError, RawBuffer};

use super::stats::MemoryStats;

const CLASS_BYTES_MIN: usize = 128;

/// A caching allocator, shared by the threads of a process.
#[derive(Debug)]
pub struct LruAllocator {
    device: Arc<dyn Device>,
    limit_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Freed blocks of each class, each with the time of its freeing, latest last. Which block was freed longest ago is looked for among the
    /// classes, of which there are few, when one must go: every call of a program takes and keeps blocks, few evict one.
    by_class: FxHashMap<usize, VecDeque<(u64, RawBuffer)>>,
    time: u64,
    stats: MemoryStats,
}

impl Kept {
    fn take(&mut self, class: usize) -> Option<RawBuffer> {
        let (_, memory) = self.by_class.get_mut(&class)?.pop_back()?;
        self.stats.cached_bytes -= class;
        Some(memory)
    }

    fn keep(&mut self, class: usize, memory: RawBuffer) {
        self.time += 1;
        self.by_class.entry(class).or_default().push_back((self.time, memory));
        self.stats.cached_bytes += class;
    }

    /// Takes out what was freed longest ago until at most `limit_bytes` are kept.
    fn evict(&mut self, limit_bytes: usize) -> Vec<RawBuffer> {
        let mut evicted = Vec::new();
        while self.stats.cached_bytes > limit_bytes {
            // Within a class, the block freed longest ago is the first.
            let first = |(&class, blocks): (&usize, &VecDeque<(u64, RawBuffer)>)| Some((blocks.front()?.0, class));
            let Some((_, class)) = self.by_class.iter().filter_map(first).min() else { break };
            let block = self.by_class.get_mut(&class).and_then(VecDeque::pop_front);
            evicted.extend(block.map(|(_, memory)| memory));
            self.stats.cached_bytes -= class;
            self.stats.evictions += 1;
        }
        evicted
    }

    fn count_use(&mut self, class: usize) {
        self.stats.in_use_bytes += class;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.in_use_bytes);
    }
}

/// Memory in use, of at least the bytes that were asked for. Dropping it gives it back to its allocator, unless it is shared with
/// others still: then the last of them does.
#[derive(Debug)]
pub struct Block {
    lease: Arc<Lease>,
}

/// Memory that goes back to its allocator when the last who shares it drops it.
#[derive(Debug)]
pub struct Lease {
    /// Present until drop.
    memory: Option<RawBuffer>,
    /// None for memory that did not come from the allocator.
    class: Option<usize>,
    allocator: Arc<LruAllocator>,
}

impl Block {
    /// Somebody else's memory, which goes back to them and not to the allocator.
    pub fn foreign(allocator: &Arc<LruAllocator>, memory: RawBuffer) -> Block {
        Block::leased(allocator, memory, None)
    }

    fn leased(allocator: &Arc<LruAllocator>, memory: RawBuffer, class: Option<usize>) -> Block {
        Block { lease: Arc::new(Lease { memory: Some(memory), class, allocator: allocator.clone() }) }
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &RawBuffer {
        (*self.lease).as_ref()
    }

    /// A handle to the memory that outlives the block.
    pub(crate) fn shared(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Whether nobody outside of this process's tensors can see the memory now.
    pub fn is_own(&self) -> bool {
        self.lease.class.is_some() && Arc::strong_count(&self.lease) == 1
    }
}

impl AsRef<RawBuffer> for Lease {
    fn as_ref(&self) -> &RawBuffer {
        self.memory.as_ref().expect("taken by drop only")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(memory), Some(class)) = (self.memory.take(), self.class) {
            self.allocator.free(class, memory);
        }
    }
}

impl LruAllocator {
    /// An allocator over `device` that keeps at most `limit_bytes` bytes of freed memory; 0 keeps none.
    pub fn new(device: Arc<dyn Device>, limit_bytes: usize) -> Arc<LruAllocator> {
        Arc::new(LruAllocator { device, limit_bytes, kept: Mutex::new(Kept::default()) })
    }

    /// The device whose memory this is.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// A block of at least `bytes` bytes, whose contents are anything.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when the device has none left although all that was kept was given back.
    pub fn allocate(self: &Arc<LruAllocator>, bytes: usize) -> Result<Block, DeviceError> {
        let class = class_bytes(bytes);
        let taken = {
            let mut kept = self.lock();
            let taken = kept.take(class);
            if taken.is_some() {
                kept.stats.hits += 1;
                kept.count_use(class);
            } else {
                kept.stats.misses += 1;
            }
            taken
        };
        let memory = match taken {
            Some(memory) => memory,
            None => {
                let memory = self.allocate_on_device(class)?;
                self.lock().count_use(class);
                memory
            }
        };
        Ok(Block::leased(self, memory, Some(class)))
    }

    fn allocate_on_device(&self, class: usize) -> Result<RawBuffer, DeviceError> {
        match self.device.allocate(class) {
            Err(DeviceError::OutOfMemory { .. }) if self.clear() > 0 => self.device.allocate(class),
            result => result,
        }
    }

    /// Gives all kept memory back to the device. Returns how many bytes that was.
    pub fn clear(&self) -> usize {
        let (bytes, evicted) = {
            let mut kept = self.lock();
            (kept.stats.cached_bytes, kept.evict(0))
        };
        drop(evicted); // after the lock
        bytes
    }

    /// The counters as they are now.
    pub fn stats(&self) -> MemoryStats {
        self.lock().stats
    }

    /// Takes memory back.
    fn free(&self, class: usize, memory: RawBuffer) {
        let mut too_large = None;
        let evicted = {
            let mut kept = self.lock();
            kept.stats.in_use_bytes -= class;
            if class > self.limit_bytes {
                // It would push out everything else and then itself.
                too_large = Some(memory);
                Vec::new()
            } else {
                kept.keep(class, memory);
                kept.evict(self.limit_bytes)
            }
        };
        drop((too_large, evicted)); // after the lock
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing inside of the lock can panic half way, so a poisoned lock holds good data.
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The size class of a request: itself, rounded up to one of eight steps between powers of two.
pub(super) fn class_bytes(bytes: usize) -> usize {
    let bytes = bytes.max(CLASS_BYTES_MIN);
    let step = (1usize << bytes.ilog2()) / 8;
    // A request so large that rounding overflows goes to the device as it is, and fails there with its own bytes.
    bytes.checked_next_multiple_of(step.max(CLASS_BYTES_MIN)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth_and_are_fixed_points() {
        for bytes in (0..5000).chain((1..40).flat_map(|shift| [(1usize << shift) - 1, 1 << shift, (1 << shift) + 1])) {
            let class = class_bytes(bytes);
            assert!(class >= bytes && class.is_multiple_of(CLASS_BYTES_MIN), "{bytes}");
            assert!(class - bytes <= (bytes / 8).max(CLASS_BYTES_MIN), "{bytes} {class}");
            assert_eq!(class_bytes(class), class);
        }
        assert_eq!(class_bytes(usize::MAX), usize::MAX);
    }
}
