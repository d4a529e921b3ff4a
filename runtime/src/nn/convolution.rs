//! Convolution layers, over one to three axes.

use super::module::{Module, parameters};
use super::uniform;
use crate::tensor::{AxisList, ConvOptions, Length, Result, Tensor};

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
        let size = size.length();
        let Conv { weight, bias, options } = Conv::new(channels, outputs, [size, size], true, options)?;
        Ok(Conv2d { weight, bias, options })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.conv(&self.weight, self.bias.as_ref(), &self.options)
    }
}

parameters! { Conv2d: weight ?bias }

/// Convolution over as many axes as its kernels have, [batch, channels, ..]: one for signals, two for images, three for volumes.
#[derive(Clone, Debug)]
pub struct Conv {
    /// The kernels, [out channels, channels / groups, ..].
    pub weight: Tensor,
    /// One number for each output channel.
    pub bias: Option<Tensor>,
    /// How windows lie.
    pub options: ConvOptions,
}

impl Conv {
    /// Kernels of these lengths, which need not be equal, of random numbers within 1 / sqrt(inputs of one output), as PyTorch begins.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(
        channels: impl Length,
        outputs: impl Length,
        kernel: impl AxisList,
        bias: bool,
        options: ConvOptions,
    ) -> Result<Conv> {
        let (inputs, outputs, kernel) = (channels.length() / options.groups.max(1), outputs.length(), kernel.axes());
        let bound = bound(inputs, &kernel);
        let weight = uniform(&[&[outputs, inputs], &kernel[..]].concat(), bound)?;
        let bias = if bias { Some(uniform(&[outputs], bound)?) } else { None };
        Ok(Conv { weight, bias, options })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.conv(&self.weight, self.bias.as_ref(), &self.options)
    }
}

parameters! { Conv: weight ?bias }

/// The transpose of a convolution, [batch, channels, ..], over one to three axes.
#[derive(Clone, Debug)]
pub struct ConvTranspose {
    /// The kernels, [channels, out channels / groups, ..].
    pub weight: Tensor,
    /// One number for each output channel.
    pub bias: Option<Tensor>,
    /// How windows lie.
    pub options: ConvOptions,
}

impl ConvTranspose {
    /// Kernels of these lengths, of random numbers, as PyTorch begins.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(
        channels: impl Length,
        outputs: impl Length,
        kernel: impl AxisList,
        bias: bool,
        options: ConvOptions,
    ) -> Result<ConvTranspose> {
        let (channels, outputs, kernel) = (channels.length(), outputs.length(), kernel.axes());
        let in_group = outputs / options.groups.max(1);
        let bound = bound(in_group, &kernel);
        let weight = uniform(&[&[channels, in_group], &kernel[..]].concat(), bound)?;
        let bias = if bias { Some(uniform(&[outputs], bound)?) } else { None };
        Ok(ConvTranspose { weight, bias, options })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.conv_transpose(&self.weight, self.bias.as_ref(), &self.options)
    }
}

parameters! { ConvTranspose: weight ?bias }

/// 1 / sqrt(inputs of one output).
fn bound(inputs: i64, kernel: &[i64]) -> f64 {
    let window: f64 = kernel.iter().map(|&len| len as f64).product();
    1.0 / (inputs as f64 * window).max(1.0).sqrt()
}
