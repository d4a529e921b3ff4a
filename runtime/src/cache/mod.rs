//! What is kept between runs of a program.

pub mod kernel_cache;
