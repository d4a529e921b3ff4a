//! Methods that compute: element by element, along axes, and by the values of elements.

mod draws;
pub(in crate::tensor) mod elementwise;
pub(in crate::tensor) mod fourier;
pub(in crate::tensor) mod incomplete;
pub(in crate::tensor) mod operators;
pub(in crate::tensor) mod order;
pub(in crate::tensor) mod reduce;
pub(in crate::tensor) mod selecting;
pub(in crate::tensor) mod signal;
pub(in crate::tensor) mod special;
