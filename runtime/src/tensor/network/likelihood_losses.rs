//! Losses that are negative logarithms of a likelihood: of yes and no with weights, of counts (Poisson), and of measurements with a variance (Gauss).
//!
//! Names, values and gradients are PyTorch's. Tested by data/more_ops.json.gz.

use std::f64::consts::TAU;

use warpweft_compiler::ops::loss;

use super::losses::reduced;
use crate::tensor::{Reduction, Tensor};

/// The losses times their weights, reduced; a mean is over all elements.
fn weighted(losses: Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Tensor {
    reduced(weight.map_or_else(|| losses.clone(), |weight| &losses * weight), reduction)
}

impl Tensor {
    /// As [`Tensor::binary_cross_entropy`], each loss times a weight.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let (x, target) = (Tensor::from_vec(vec![0.5f32; 2], [2]), Tensor::ones([2]));
    /// let weight = Tensor::from_vec(vec![0f32, 2.0], [2]);
    /// let loss = x.weighted_binary_cross_entropy(&target, &weight, Reduction::Sum);
    /// assert!((loss.item::<f32>()? - 2.0 * 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn weighted_binary_cross_entropy(&self, target: &Tensor, weight: &Tensor, reduction: Reduction) -> Tensor {
        weighted(self.binary_cross_entropy(target, Reduction::None), Some(weight), reduction)
    }

    /// As [`Tensor::binary_cross_entropy_with_logits`], each loss times `weight`, and its part for a target of 1 times `pos_weight`, which has a
    /// number for each class (above 1, recall counts more than precision).
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let (x, target) = (Tensor::zeros([2, 3]), Tensor::ones([2, 3]));
    /// let pos_weight = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]);
    /// let loss = x.weighted_binary_cross_entropy_with_logits(&target, None, Some(&pos_weight), Reduction::Mean);
    /// assert!((loss.item::<f32>()? - 2.0 * 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn weighted_binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Tensor {
        let losses = match pos_weight {
            None => self.binary_cross_entropy_with_logits(target, Reduction::None),
            Some(pos_weight) => Tensor::compute(
                "binary_cross_entropy_with_logits",
                [self, target, pos_weight],
                |[x, target, pos_weight]| {
                    loss::binary_cross_entropy_with_logits(x, target, Some(pos_weight), Reduction::None)
                },
            ),
        };
        weighted(losses, weight, reduction)
    }

    /// Minus the logarithm of the probability of counts under Poisson distributions: `exp(self) - target self`, for the logarithms of their means; with `log_input` false
    /// `self - target log(self + eps)`. `full` adds Stirling's approximation of `log(target!)` for targets above 1.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let loss = Tensor::zeros([2]).poisson_nll_loss(&Tensor::ones([2]), true, false, 1e-8, Reduction::None);
    /// assert_eq!(loss.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn poisson_nll_loss(
        &self,
        target: &Tensor,
        log_input: bool,
        full: bool,
        eps: f64,
        reduction: Reduction,
    ) -> Tensor {
        let losses = match log_input {
            true => self.exp() - target * self,
            false => self - target * (self + eps).log(),
        };
        let stirling = || {
            // Where it is not added, its logarithm must be finite, or the gradient is NaN.
            let counted = target.gt(1).where_(target, 1.0);
            let terms = &counted * counted.log() - &counted + (&counted * TAU).log() * 0.5;
            target.gt(1).where_(terms, 0.0)
        };
        reduced(if full { losses + stirling() } else { losses }, reduction)
    }

    /// Minus the logarithm of the density of targets under normal distributions with these means and variances; variances below `eps` count as that, and keep their
    /// gradient. `full` adds the constant `log(2 pi) / 2`.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let (mean, one) = (Tensor::zeros([2]), Tensor::ones([2]));
    /// assert_eq!(mean.gaussian_nll_loss(&one, &one, false, 1e-6, Reduction::None).to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        full: bool,
        eps: f64,
        reduction: Reduction,
    ) -> Tensor {
        let variance = variance + (variance.clamp_min(eps) - variance).detach();
        let difference = self - target;
        let losses = (variance.log() + &difference * &difference / &variance) * 0.5;
        reduced(if full { losses + 0.5 * TAU.ln() } else { losses }, reduction)
    }
}
