//! Methods that layers of neural networks call: convolution, pooling, attention, losses, images of another size.

pub(in crate::tensor) mod layers;
pub(in crate::tensor) mod likelihood_losses;
pub(in crate::tensor) mod losses;
pub(in crate::tensor) mod margin_losses;
pub(in crate::tensor) mod options;
pub(in crate::tensor) mod resample;
pub(in crate::tensor) mod sampling;
pub(in crate::tensor) mod windows;
