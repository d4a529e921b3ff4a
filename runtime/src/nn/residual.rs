//! Residual networks (He et al., 2015): blocks of two convolutions whose outcome is added to what went in, in stages of which each halves the image.
//!
//! Names are those of torchvision's networks of basic blocks (`layer1.0.downsample.0.weight`). The first convolution is one of 3 x 3 without pooling, as for small
//! images.
//!
//! Tests: `runtime/tests/models.rs`, against PyTorch's layers on the same weights, a step of training included.

use std::panic::Location;

use super::module::{Module, Named, below};
use super::{BatchNorm, Conv, Linear};
use crate::tensor::{AxisList, ConvOptions, Length, Result, Tensor, within};

/// Two convolutions, each normalised, beside a shortcut.
#[derive(Clone, Debug)]
pub struct ResidualBlock {
    /// The first convolution, which may halve the image.
    pub first: Conv,
    /// Normalises what it gives.
    pub first_norm: BatchNorm,
    /// The second convolution.
    pub second: Conv,
    /// Normalises what it gives.
    pub second_norm: BatchNorm,
    /// What the input goes through to have the shape of the outcome, if it has another.
    pub shortcut: Option<(Conv, BatchNorm)>,
}

/// A convolution of square kernels without bias, whose outcome has the length of its input divided by the stride.
#[track_caller]
fn conv(inputs: i64, outputs: i64, size: i64, stride: i64) -> Result<Conv> {
    let options = ConvOptions::default().stride([stride]).padding([size / 2]);
    Conv::new(inputs, outputs, [size, size], false, options)
}

/// How a normalisation works: by the batch or by what it has seen.
type Normalise = fn(&BatchNorm, &Tensor) -> Result<Tensor>;

fn by_batch(norm: &BatchNorm, x: &Tensor) -> Result<Tensor> {
    norm.forward_training(x)
}

fn by_running(norm: &BatchNorm, x: &Tensor) -> Result<Tensor> {
    Ok(norm.forward(x))
}

impl ResidualBlock {
    /// Random kernels.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(inputs: impl Length, outputs: impl Length, stride: impl Length) -> Result<ResidualBlock> {
        let _call = within(Location::caller());
        let inputs = inputs.length();
        let outputs = outputs.length();
        let stride = stride.length();
        let is_same = inputs == outputs && stride == 1;
        let shortcut = || Ok::<_, crate::tensor::Error>((conv(inputs, outputs, 1, stride)?, BatchNorm::new(outputs)?));
        Ok(ResidualBlock {
            first: conv(inputs, outputs, 3, stride)?,
            first_norm: BatchNorm::new(outputs)?,
            second: conv(outputs, outputs, 3, 1)?,
            second_norm: BatchNorm::new(outputs)?,
            shortcut: if is_same { None } else { Some(shortcut()?) },
        })
    }

    #[track_caller]
    fn pass(&self, x: &Tensor, normalise: Normalise) -> Result<Tensor> {
        let inner = normalise(&self.first_norm, &self.first.forward(x))?.relu();
        let outcome = normalise(&self.second_norm, &self.second.forward(&inner))?;
        let beside = match &self.shortcut {
            Some((conv, norm)) => normalise(norm, &conv.forward(x))?,
            None => x.clone(),
        };
        Ok((outcome + beside).relu())
    }

    fn parts(&self) -> Vec<(&'static str, &dyn Module)> {
        let mut parts: Vec<(&str, &dyn Module)> = vec![
            ("conv1", &self.first),
            ("bn1", &self.first_norm),
            ("conv2", &self.second),
            ("bn2", &self.second_norm),
        ];
        if let Some((conv, norm)) = &self.shortcut {
            parts.extend([("downsample.0", conv as &dyn Module), ("downsample.1", norm)]);
        }
        parts
    }
}

/// A residual network that tells classes of images.
#[derive(Clone, Debug)]
pub struct ResNet {
    /// The first convolution.
    pub first: Conv,
    /// Normalises what it gives.
    pub norm: BatchNorm,
    /// The stages, each of some blocks, of which the first halves the image but for the first stage.
    pub stages: Vec<Vec<ResidualBlock>>,
    /// From the means of channels to a number for each class.
    pub output: Linear,
}

impl ResNet {
    /// Of images of so many channels, with stages of these widths and so many blocks in each.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(channels: impl Length, widths: impl AxisList, blocks: usize, classes: impl Length) -> Result<ResNet> {
        let _call = within(Location::caller());
        let channels = channels.length();
        let widths = &widths.axes()[..];
        let classes = classes.length();
        let first = widths.first().copied().unwrap_or(channels);
        let (mut stages, mut inputs) = (Vec::new(), first);
        for (number, &width) in widths.iter().enumerate() {
            let mut stage = Vec::with_capacity(blocks);
            for block in 0..blocks {
                let stride = if number > 0 && block == 0 { 2 } else { 1 };
                stage.push(ResidualBlock::new(inputs, width, stride)?);
                inputs = width;
            }
            stages.push(stage);
        }
        Ok(ResNet {
            first: conv(channels, first, 3, 1)?,
            norm: BatchNorm::new(first)?,
            stages,
            output: Linear::new(inputs, classes, true)?,
        })
    }

    /// A number for each class of images [batch, channels, height, width], by the running statistics.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        self.pass(x, by_running).unwrap_or_else(Tensor::from_error)
    }

    /// The same by the batch's statistics, which enter the running ones.
    ///
    /// # Errors
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        let _call = within(Location::caller());
        self.pass(x, by_batch)
    }

    #[track_caller]
    fn pass(&self, x: &Tensor, normalise: Normalise) -> Result<Tensor> {
        let mut x = normalise(&self.norm, &self.first.forward(x))?.relu();
        for block in self.stages.iter().flatten() {
            x = block.pass(&x, normalise)?;
        }
        Ok(self.output.forward(&x.mean([2, 3])))
    }

    fn parts(&self) -> Vec<(String, &dyn Module)> {
        let mut parts: Vec<(String, &dyn Module)> =
            vec![("conv1".to_string(), &self.first), ("bn1".to_string(), &self.norm)];
        for (stage, blocks) in self.stages.iter().enumerate() {
            for (number, block) in blocks.iter().enumerate() {
                let inner = block.parts().into_iter();
                parts.extend(inner.map(|(name, part)| (format!("layer{}.{number}.{name}", stage + 1), part)));
            }
        }
        parts.push(("fc".to_string(), &self.output));
        parts
    }
}

impl Module for ResNet {
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    fn named_parameters(&self) -> Named {
        self.parts().into_iter().flat_map(|(name, part)| below(&name, part.named_parameters())).collect()
    }

    fn named_buffers(&self) -> Named {
        self.parts().into_iter().flat_map(|(name, part)| below(&name, part.named_buffers())).collect()
    }
}
