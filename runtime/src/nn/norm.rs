//! Normalisation layers.

use super::{Module, filled};
use crate::tensor::{AxisList, Length, Result, Tensor};

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

impl Module for LayerNorm {
    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone(), self.bias.clone()]
    }
}

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

impl Module for RmsNorm {
    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone()]
    }
}

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

impl Module for GroupNorm {
    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone(), self.bias.clone()]
    }
}

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
}
