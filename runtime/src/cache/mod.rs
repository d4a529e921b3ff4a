//! What is kept between runs of a program: kernels and schedules, on disk.

pub mod disk;
pub(crate) mod entries;
mod folder;
pub(crate) mod keys;
pub mod prune;
