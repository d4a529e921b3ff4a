//! Before the optimizer: a kernel's tensor graph becomes loop nests ([`tensors`]), whose loops are then put in order ([`loops`]).

pub mod loops;
mod multi_index;
pub mod tensors;
