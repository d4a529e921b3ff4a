//! Memory of tensors: buffers that share and return it, an allocator that keeps what was freed, and counters.
//!
//! ```text
//!   Buffer (a range of) --> storage --> Block --> LruAllocator --> Device
//! ```
//!
//! Dropping the last buffer of a storage gives its block back to the allocator, which keeps it for the next request of a
//! similar size.

mod buffer;
mod lru;
mod stats;

#[cfg(test)]
mod model;

pub use buffer::Buffer;
pub use lru::{Block, LruAllocator};
pub use stats::MemoryStats;
