//! Functions of single elements: arithmetic, comparisons, elementary functions, powers and activations.

#[cfg(test)]
pub(in crate::ops) mod accuracy;
pub mod activation;
pub mod bits;
pub(in crate::ops) mod coefficients;
pub mod elementwise;
pub mod math;
pub mod power;
