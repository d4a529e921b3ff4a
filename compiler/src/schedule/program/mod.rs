//! The program before anything is decided: its structure without its memory, what must exist in memory, and in what order writes happen.

pub mod aliases;
pub(in crate::schedule) mod for_lanes;
pub(in crate::schedule) mod graph;
pub(in crate::schedule) mod indices;
mod longer_blocks;
pub(in crate::schedule) mod normalize;
pub(in crate::schedule) mod offsets;
mod picks;
pub(in crate::schedule) mod realize;
mod scan_parts;
mod scatter_parts;
mod term_parts;
pub(in crate::schedule) mod two_stages;
pub(in crate::schedule) mod writes;
