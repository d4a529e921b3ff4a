//! Views, indices, and writes through them.

pub(in crate::tensor) mod assign;
pub(in crate::tensor) mod bounds;
pub(in crate::tensor) mod index;
pub(in crate::tensor) mod movement;
pub(in crate::tensor) mod views;
