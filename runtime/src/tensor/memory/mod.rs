//! Tensors and the memory of others: files, devices, other libraries, and numbers packed in few bits.

#[cfg(feature = "ndarray")]
pub(in crate::tensor) mod arrays;
pub(crate) mod files;
pub(in crate::tensor) mod interchange;
pub(in crate::tensor) mod packed;
pub(in crate::tensor) mod small_floats;
