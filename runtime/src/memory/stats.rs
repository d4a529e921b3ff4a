//! Counters of an allocator, as `DEBUG=1` and the tests read them.

use std::fmt;

/// What an allocator holds and has done. Bytes are those of whole blocks, which are up to an eighth larger than asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes of blocks that are in use now.
    pub in_use_bytes: usize,
    /// Bytes of blocks that were freed and are kept.
    pub cached_bytes: usize,
    /// The most bytes that were ever in use at once.
    pub peak_bytes: usize,
    /// Requests that a kept block served.
    pub hits: u64,
    /// Requests that went to the device.
    pub misses: u64,
    /// Kept blocks that were given back to the device: to stay within the bound, or for want of memory.
    pub evictions: u64,
}

impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: usize| bytes as f64 / 1e6;
        write!(
            f,
            "memory {:.1} MB in use, {:.1} MB peak, {:.1} MB kept, {} hits, {} misses, {} evictions",
            mb(self.in_use_bytes),
            mb(self.peak_bytes),
            mb(self.cached_bytes),
            self.hits,
            self.misses,
            self.evictions
        )
    }
}
