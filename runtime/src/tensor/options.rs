//! Options that hold tensors: those of the compiler's ops, with graphs in the place of tensors, are made of them when the op is called.

use warpweft_compiler::ops::{attention, loss};

use super::{Reduction, Result, Tensor};

/// What attention may see, and how scores are scaled.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// A bool mask (false is not seen) or a float one (added to the scores), which broadcasts to [.., queries, keys].
    pub mask: Option<Tensor>,
    /// Whether query i sees the keys up to i alone.
    pub is_causal: bool,
    /// What scores are multiplied with; 1 / sqrt(width) when absent.
    pub scale: Option<f64>,
    /// Whether several query heads share a key head.
    pub enable_gqa: bool,
}

impl AttentionOptions {
    pub(super) fn of_graphs(&self) -> Result<attention::AttentionOptions> {
        let mask = self.mask.as_ref().map(Tensor::uop).transpose()?;
        let AttentionOptions { is_causal, scale, enable_gqa, .. } = *self;
        Ok(attention::AttentionOptions { mask, is_causal, scale, enable_gqa })
    }
}

/// How classes count in [`Tensor::cross_entropy`] and [`Tensor::nll_loss`].
#[derive(Clone, Debug, Default)]
pub struct ClassOptions {
    /// A factor for each class.
    pub weight: Option<Tensor>,
    /// Targets of this class do not count.
    pub ignore_index: Option<i64>,
    /// Share of the target that is spread over all classes.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl ClassOptions {
    pub(super) fn of_graphs(&self) -> Result<loss::ClassOptions> {
        let weight = self.weight.as_ref().map(Tensor::uop).transpose()?;
        let ClassOptions { ignore_index, label_smoothing, reduction, .. } = *self;
        Ok(loss::ClassOptions { weight, ignore_index, label_smoothing, reduction })
    }
}
