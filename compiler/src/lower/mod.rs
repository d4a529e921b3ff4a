//! Before the optimizer: a kernel's tensor graph becomes loop nests ([`tensors`]), whose loops are then put in order ([`loops`]).

pub mod loops;
pub mod tensors;
