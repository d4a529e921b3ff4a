//! Methods of linear algebra: products, factors, solutions, eigenvalues.

pub(in crate::tensor) mod factor;
pub(in crate::tensor) mod linalg;
pub(in crate::tensor) mod spectral;
