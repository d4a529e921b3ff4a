//! Normalisation layers.

use std::panic::Location;

use super::filled;
use super::module::{Module, Named, parameters};
use crate::tensor::{AxisList, Length, Result, Tensor, within};

/// Each row normalised over its last axes, then scaled and shifted.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Lengths of the axes that are normalised over.
    pub shape: Vec<i64>,
    /// Factors.
    pub weight: Tensor,
    /// Summands.
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Ones and zeros.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(shape: impl AxisList, eps: f64) -> Result<LayerNorm> {
        let shape = shape.axes();
        Ok(LayerNorm { weight: filled(&shape, 1.0)?, bias: filled(&shape, 0.0)?, shape, eps })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(&self.shape, Some(&self.weight), Some(&self.bias), self.eps)
    }
}

parameters! { LayerNorm: weight bias }

/// Each row divided by the root of its mean square, then scaled.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Factors.
    pub weight: Tensor,
    /// Added to the mean square.
    pub eps: f64,
}

impl RmsNorm {
    /// Ones.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(width: impl Length, eps: f64) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: filled(&[width.length()], 1.0)?, eps })
    }

    /// What the layer makes of x.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(Some(&self.weight), self.eps)
    }
}

parameters! { RmsNorm: weight }

/// Normalised within groups of channels, then scaled and shifted by channel.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Groups.
    pub groups: i64,
    /// A factor for each channel.
    pub weight: Tensor,
    /// A summand for each channel.
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// Ones and zeros.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(groups: impl Length, channels: impl Length, eps: f64) -> Result<GroupNorm> {
        let (groups, channels) = (groups.length(), channels.length());
        Ok(GroupNorm { groups, weight: filled(&[channels], 1.0)?, bias: filled(&[channels], 0.0)?, eps })
    }

    /// What the layer makes of x [batch, channels, ..].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.groups, Some(&self.weight), Some(&self.bias), self.eps)
    }
}

parameters! { GroupNorm: weight bias }

/// Each channel of each image normalised by itself, then scaled and shifted by channel if it has numbers for that.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    /// A factor for each channel.
    pub weight: Option<Tensor>,
    /// A summand for each channel.
    pub bias: Option<Tensor>,
    /// Channels.
    pub channels: i64,
    /// Added to the variance.
    pub eps: f64,
}

impl InstanceNorm {
    /// Ones and zeros, or no factors and summands, as PyTorch begins.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(channels: impl Length, affine: bool) -> Result<InstanceNorm> {
        let _call = within(Location::caller());
        let channels = channels.length();
        let one = |value: f64| if affine { filled(&[channels], value).map(Some) } else { Ok(None) };
        Ok(InstanceNorm { weight: one(1.0)?, bias: one(0.0)?, channels, eps: 1e-5 })
    }

    /// What the layer makes of x [batch, channels, ..].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.channels, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}

parameters! { InstanceNorm: ?weight ?bias }

/// Normalised by channel: by the batch's statistics while training, by their running means afterwards.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// A factor for each channel.
    pub weight: Tensor,
    /// A summand for each channel.
    pub bias: Tensor,
    /// Running mean of each channel.
    pub mean: Tensor,
    /// Running variance of each channel.
    pub variance: Tensor,
    /// Added to the variance.
    pub eps: f64,
    /// Share of the new statistics in the running ones.
    pub momentum: f64,
}

impl BatchNorm {
    /// Ones and zeros, with PyTorch's defaults.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(channels: impl Length) -> Result<BatchNorm> {
        let shape = [channels.length()];
        Ok(BatchNorm {
            weight: filled(&shape, 1.0)?,
            bias: filled(&shape, 0.0)?,
            mean: filled(&shape, 0.0)?,
            variance: filled(&shape, 1.0)?,
            eps: 1e-5,
            momentum: 0.1,
        })
    }

    /// By the running statistics.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.batch_norm(Some(&self.weight), Some(&self.bias), &self.mean, &self.variance, self.eps)
    }

    /// By the batch's statistics, which enter the running ones.
    ///
    /// # Errors
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        let (output, mean, variance) = x.batch_norm_training(Some(&self.weight), Some(&self.bias), self.eps)?;
        for (running, new) in [(&self.mean, mean), (&self.variance, variance)] {
            running.assign(running.lerp(&new.detach(), self.momentum))?;
        }
        Ok(output)
    }
}

impl Module for BatchNorm {
    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone(), self.bias.clone()]
    }

    fn named_parameters(&self) -> Named {
        vec![("weight".to_string(), self.weight.clone()), ("bias".to_string(), self.bias.clone())]
    }

    fn named_buffers(&self) -> Named {
        vec![("running_mean".to_string(), self.mean.clone()), ("running_var".to_string(), self.variance.clone())]
    }
}
