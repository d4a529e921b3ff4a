//! Before the optimizer: a kernel's tensor graph becomes loop nests ([`tensors`]), whose loops are then put in order ([`loops`], [`reduction_order`]).

pub mod loops;
mod multi_index;
pub mod reduction_order;
pub mod tensors;
