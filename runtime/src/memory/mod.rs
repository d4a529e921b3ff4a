//! Memory of tensors: buffers that share and return it, an allocator that keeps what was freed, and counters.
//!
//! ```text
//!   Buffer (a range of) --> storage --> Block --> LruAllocator --> Device
//! ```
//!
//! Dropping the last buffer of a storage gives its block back to the allocator, which keeps it for the next request of a
//! similar size. The memory of a buffer may have a [`Source`]: a file (`input`), which is read when the memory is first asked for.

mod buffer;
mod input;
mod lru;
mod source;
mod stats;

#[cfg(test)]
mod model;

pub use buffer::Buffer;
pub use input::{Change, FilePart, Input};
pub use lru::{Block, Lease, LruAllocator};
pub use source::{READ_BYTES, Source, Take};
pub use stats::MemoryStats;
