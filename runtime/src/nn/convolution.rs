//! Convolution layers.

use super::{Module, uniform};
use crate::tensor::{ConvOptions, Length, Result, Tensor};

/// Convolution of images [batch, channels, height, width].
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// The kernels, [out channels, channels / groups, height, width].
    pub weight: Tensor,
    /// One number for each output channel.
    pub bias: Option<Tensor>,
    /// How windows lie.
    pub options: ConvOptions,
}

impl Conv2d {
    /// Square kernels of random numbers within 1 / sqrt(inputs of one output), as PyTorch begins, with a bias.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(channels: impl Length, outputs: impl Length, size: impl Length, options: ConvOptions) -> Result<Conv2d> {
        let (channels, outputs, size) = (channels.length(), outputs.length(), size.length());
        let inputs = channels / options.groups.max(1);
        let bound = 1.0 / (inputs as f64 * size as f64 * size as f64).max(1.0).sqrt();
        let weight = uniform(&[outputs, inputs, size, size], bound)?;
        Ok(Conv2d { weight, bias: Some(uniform(&[outputs], bound)?), options })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.conv(&self.weight, self.bias.as_ref(), &self.options)
    }
}

impl Module for Conv2d {
    fn parameters(&self) -> Vec<Tensor> {
        std::iter::once(&self.weight).chain(&self.bias).cloned().collect()
    }
}
