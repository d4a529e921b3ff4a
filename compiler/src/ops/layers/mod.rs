//! What layers of neural networks compute: convolution, pooling, normalization, attention, losses, images of another size.

pub mod attention;
pub mod convolution;
pub(in crate::ops) mod convolution_phases;
pub mod loss;
pub mod norm;
pub mod pooling;
pub mod resize;
pub mod transposed_convolution;
