//! What layers of networks compute, as functions: convolution, pooling, normalisation, attention, losses.

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::Shape;
use warpweft_compiler::ops::{
    Built, attention, convolution, indexing, loss, norm, pooling, resize, transposed_convolution,
};

use crate::tensor::bounds::{Allowed, with_index};
use crate::tensor::{
    AttentionOptions, AxisList, ClassOptions, ConvOptions, Length, PoolOptions, Reduction, Resize, Result, Tensor,
};

impl Tensor {
    /// As [`Tensor::compute`] with operands that may be absent.
    #[track_caller]
    fn compute_with(
        op: &'static str,
        operands: &[&Tensor],
        optional: &[Option<&Tensor>],
        build: impl FnOnce(&[UOp], &[Option<&UOp>]) -> Built,
    ) -> Tensor {
        let all: Vec<&Tensor> = operands.iter().copied().chain(optional.iter().copied().flatten()).collect();
        Tensor::joined(op, &all, |nodes| {
            let (given, rest) = nodes.split_at(operands.len());
            let mut rest = rest.iter();
            let optional: Vec<Option<&UOp>> =
                optional.iter().map(|operand| if operand.is_some() { rest.next() } else { None }).collect();
            build(given, &optional)
        })
    }

    /// Convolution of [batch, channels, ..] with a weight [out channels, channels / groups, ..].
    #[track_caller]
    pub fn conv(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        Tensor::compute_with("conv", &[self, weight], &[bias], |x, rest| {
            convolution::conv(&x[0], &x[1], rest[0], options)
        })
    }

    /// The transpose of a convolution, with a weight [channels, out channels / groups, ..].
    #[track_caller]
    pub fn conv_transpose(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        Tensor::compute_with("conv_transpose", &[self, weight], &[bias], |x, rest| {
            transposed_convolution::conv_transpose(&x[0], &x[1], rest[0], options)
        })
    }

    /// Largest of each window of the last axes.
    #[track_caller]
    pub fn max_pool(&self, options: &PoolOptions) -> Tensor {
        Tensor::compute("max_pool", [self], |[x]| pooling::max_pool(x, options))
    }

    /// Where the largest of each window stands in the pooled axes, counted row-major; `i32`.
    #[track_caller]
    pub fn max_pool_indices(&self, options: &PoolOptions) -> Tensor {
        Tensor::compute("max_pool", [self], |[x]| pooling::max_pool_indices(x, options))
    }

    /// Mean of each window of the last axes.
    #[track_caller]
    pub fn avg_pool(&self, options: &PoolOptions) -> Tensor {
        Tensor::compute("avg_pool", [self], |[x]| pooling::avg_pool(x, options))
    }

    /// The last axes resampled to the given lengths, which may be variables.
    #[track_caller]
    pub fn interpolate(&self, sizes: impl Into<Shape>, mode: Resize) -> Tensor {
        let sizes = sizes.into();
        Tensor::compute("interpolate", [self], |[x]| resize::interpolate(x, &sizes, mode))
    }

    /// Each row normalised over its last axes, which have the given lengths.
    #[track_caller]
    pub fn layer_norm(
        &self,
        lengths: impl AxisList,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        Tensor::compute_with("layer_norm", &[self], &[weight, bias], |x, rest| {
            norm::layer_norm(&x[0], &lengths.axes(), rest[0], rest[1], eps)
        })
    }

    /// Divided by the root of the mean square over as many last axes as the weight has.
    #[track_caller]
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::compute_with("rms_norm", &[self], &[weight], |x, rest| norm::rms_norm(&x[0], rest[0], eps))
    }

    /// Normalised within groups of channels.
    #[track_caller]
    pub fn group_norm(&self, groups: impl Length, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::compute_with("group_norm", &[self], &[weight, bias], |x, rest| {
            norm::group_norm(&x[0], groups.length(), rest[0], rest[1], eps)
        })
    }

    /// Normalised by channel with given means and variances.
    #[track_caller]
    pub fn batch_norm(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        mean: &Tensor,
        variance: &Tensor,
        eps: f64,
    ) -> Tensor {
        Tensor::compute_with("batch_norm", &[self, mean, variance], &[weight, bias], |x, rest| {
            Ok(norm::batch_norm(&x[0], rest[0], rest[1], Some((&x[1], &x[2])), eps)?.output)
        })
    }

    /// Normalised by channel with the batch's own statistics: the result, the means, and the unbiased variances.
    ///
    /// # Errors
    /// If the shapes do not fit.
    #[track_caller]
    pub fn batch_norm_training(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut statistics = None;
        let output = Tensor::compute_with("batch_norm", &[self], &[weight, bias], |x, rest| {
            let normalised = norm::batch_norm(&x[0], rest[0], rest[1], None, eps)?;
            statistics = normalised.statistics;
            Ok(normalised.output)
        });
        output.uop()?;
        match statistics {
            Some((mean, variance)) => Ok((output, Tensor::from_uop(mean), Tensor::from_uop(variance))),
            None => Err(crate::tensor::Error::from(crate::tensor::CallError::new(
                "batch_norm",
                &[],
                "the batch has no statistics",
                std::panic::Location::caller(),
            ))),
        }
    }

    /// softmax(self keys^T scale + mask) values; the mask is `options.mask`, a graph of bools or scores.
    #[track_caller]
    pub fn attention(&self, keys: &Tensor, values: &Tensor, options: &AttentionOptions) -> Tensor {
        let options = match options.of_graphs(self) {
            Ok(options) => options,
            Err(error) => return Tensor::from_error(error),
        };
        Tensor::compute("attention", [self, keys, values], |[q, k, v]| {
            attention::scaled_dot_product_attention(q, k, v, &options)
        })
    }

    /// The rows of this table that the indices name.
    #[track_caller]
    pub fn embedding(&self, index: &Tensor) -> Tensor {
        let location = Location::caller();
        Tensor::compute("embedding", [index, self], |[index, table]| {
            let allowed =
                Some(table).filter(|table| table.shape().len() == 2).and_then(|table| Allowed::axis(table, 0));
            let build = |index: &UOp| indexing::embedding(index, table);
            with_index("embedding", &[index, table], index, allowed, location, build)
        })
    }

    /// Elements set to zero with probability p, the others scaled up by 1 / (1 - p).
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            return Tensor::refused("dropout", format!("{p} is no probability"));
        }
        let shape = match self.dims() {
            Ok(shape) => shape,
            Err(error) => return Tensor::from_error(error),
        };
        if p == 1.0 {
            return Tensor::from_uop(UOp::bool(false)).where_(self, 0.0);
        }
        let kept = Tensor::rand(shape).ge(p);
        kept.where_(self / (1.0 - p), 0.0)
    }
}

/// The classes that targets of these scores may name.
fn classes_of(scores: &UOp, options: &ClassOptions) -> Option<Allowed> {
    let axis = scores.shape().len().min(2).checked_sub(1)?;
    Some(Allowed::classes(scores.shape()[axis].as_const()?, options.ignore_index))
}

/// Losses of predictions against targets.
impl Tensor {
    /// Cross entropy of the softmax of these logits with class indices or probabilities.
    ///
    /// A class that there is not is an error of the call where it is known, or else in the checked mode ([`crate::tensor::check_indices`]); without that
    /// its loss is NaN. That of `ignore_index` does not count.
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, options: &ClassOptions) -> Tensor {
        let location = Location::caller();
        let graphs = match options.of_graphs() {
            Ok(graphs) => graphs,
            Err(error) => return Tensor::from_error(error),
        };
        Tensor::compute("cross_entropy", [self, target], |[x, target]| {
            let build = |target: &UOp| loss::cross_entropy(x, target, &graphs);
            with_index("cross_entropy", &[x, target], target, classes_of(x, options), location, build)
        })
    }

    /// Minus the log-probabilities of the classes; classes as in [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, options: &ClassOptions) -> Tensor {
        let location = Location::caller();
        let graphs = match options.of_graphs() {
            Ok(graphs) => graphs,
            Err(error) => return Tensor::from_error(error),
        };
        Tensor::compute("nll_loss", [self, target], |[x, target]| {
            let build = |target: &UOp| loss::nll_loss(x, target, &graphs);
            with_index("nll_loss", &[x, target], target, classes_of(x, options), location, build)
        })
    }

    /// Squared differences.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::compute("mse_loss", [self, target], |[x, target]| loss::mse_loss(x, target, reduction))
    }

    /// Absolute differences.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::compute("l1_loss", [self, target], |[x, target]| loss::l1_loss(x, target, reduction))
    }

    /// Squared differences below `delta`, straight lines beyond.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        Tensor::compute("huber_loss", [self, target], |[x, target]| loss::huber_loss(x, target, delta, reduction))
    }

    /// Cross entropy of probabilities.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::compute("binary_cross_entropy", [self, target], |[x, target]| {
            loss::binary_cross_entropy(x, target, reduction)
        })
    }

    /// Cross entropy of the sigmoid of these logits.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        Tensor::compute("binary_cross_entropy_with_logits", [self, target], |[x, target]| {
            loss::binary_cross_entropy_with_logits(x, target, None, reduction)
        })
    }
}
